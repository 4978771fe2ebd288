"""Do a CPU and a GPU train alike?

    python benchmarks/devices.py --out FOLDER

The same model on the same batches of the built-in corpus, float32, no TF32, no dropout, 100 updates on each device: the
CPU with torch's operations and oneDNN, the GPU with our kernels and recordings. No loss may differ by more than 1e-3.

The rate rises as slowly as that so that training itself is stable: with a warm-up of 100 steps, weights changed by one
part in ten million at the start, on one device, end 2.4 apart.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMIT = 1e-3
RECIPE: dict[str, Any] = {
    "name": "devices",
    "data": {"corpus": "en-de", "train_size": 20_000},
    "tokenizer": {"vocab_size": 2_400},
    "model": {"n_layers": 3, "d_model": 256, "d_ff": 1024, "n_heads": 4, "dropout": 0.0},
    "train": {"batch_tokens": 4_096, "precision": "float32", "warmup_steps": 2_000, "tensorboard": False},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for devices.json")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    cpu, gpu = (train(device, arguments.steps) for device in ("cpu", "cuda"))
    largest = max(abs(a - b) for a, b in zip(cpu, gpu, strict=True))
    print(f"loss {cpu[0]:.4f} → {cpu[-1]:.4f}; largest difference of {len(cpu)} losses {largest:.1e}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "devices.json").write_text(
        json.dumps({"cpu": cpu, "gpu": gpu, "largest": largest}, indent=1) + "\n"
    )
    if largest > LIMIT:
        sys.exit("The devices do not agree.")


def train(device: str, steps: int, overrides: dict[str, Any] | None = None) -> list[float]:
    """The loss of every update."""
    from rich.console import Console

    from regard.config import resolve
    from regard.training.run import Run
    from regard.training.start import prepare

    recipe = resolve(RECIPE, {"train.steps": steps, "train.device": device, **(overrides or {})})
    with tempfile.TemporaryDirectory() as folder:
        loop = prepare(recipe, Run(Path(folder)), Console(quiet=True))
        loop.model.train()
        losses = []
        for step, update in zip(range(1, steps + 1), loop.updates(), strict=False):
            loop.update(update.batches, step, update.n_tokens)
            losses.append(float(loop.update_loss))
    return losses


if __name__ == "__main__":
    main()
