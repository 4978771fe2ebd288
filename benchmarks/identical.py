"""Does the fast path train like the plain one?

    python benchmarks/identical.py --prepared PREPARED --out FOLDER

The same model, the same batches, the same schedule for 500 updates: packed batches, kernels, recorded graphs and
bfloat16 on one side; padded batches, torch's operations, float32 on the other. Three seeds each. The mean of the last
50 losses of the fast path must lie within two standard deviations (over seeds) of the plain path's, or it fails.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

PATHS = ("plain", "fast")
SEEDS = (1, 2, 3)
RECIPE: dict[str, Any] = {
    "name": "identical",
    "model": {"n_layers": 3, "d_model": 256, "d_ff": 1024, "n_heads": 4},
    "train": {
        "batch_tokens": 8_192, "layout": "packed", "warmup_steps": 250, "steps": 500, "report_every": 1,
        "tensorboard": False,
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True, help="a folder made by regard data prepare")
    parser.add_argument("--out", type=Path, required=True, help="folder for identical.json and identical.png")
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    jobs = [(arguments.prepared, path, seed, arguments.steps) for path in PATHS for seed in SEEDS]
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:  # small models leave a GPU room for each other
        losses = dict(zip([(job[1], job[2]) for job in jobs], pool.starmap(train, jobs), strict=True))
    last = {path: [float(np.mean(losses[path, seed][-50:])) for seed in SEEDS] for path in PATHS}
    mean, spread = {path: float(np.mean(last[path])) for path in PATHS}, float(np.std(last["plain"], ddof=1))
    distance = abs(mean["fast"] - mean["plain"])
    for path in PATHS:
        print(f"{path:>6}: {mean[path]:.4f}   by seed {', '.join(f'{value:.4f}' for value in last[path])}")
    print(f"difference {distance:.4f}, standard deviation over seeds {spread:.4f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    outcome = {"last": last, "distance": distance, "standard_deviation": spread, "recipe": RECIPE}
    (arguments.out / "identical.json").write_text(json.dumps(outcome, indent=1) + "\n")
    draw(losses, arguments.out / "identical.png")
    if distance > 2 * spread:
        sys.exit("The fast path does not train like the plain one.")


def train(prepared: Path, path: str, seed: int, steps: int) -> list[float]:
    """The loss of every update."""
    import torch
    from rich.console import Console

    from regard.config import resolve
    from regard.data.prepared import Prepared
    from regard.nn import kernels
    from regard.tasks.translation import Pairs, TranslationBatch, TranslationTask
    from regard.training.loop import Loop
    from regard.training.run import Run

    class Plain(TranslationTask):
        """The batches of the packed order as padded rectangles."""

        def batch(self, numbers: np.ndarray, device: torch.device) -> TranslationBatch:
            return self.pairs.batch(numbers, "padded", self.start)

    data = Prepared.open(prepared)
    valid = data.corpus("valid")
    assert valid is not None
    precision = "bfloat16" if path == "fast" and torch.cuda.is_available() else "float32"
    recipe = resolve(RECIPE, {"seed": seed, "train.precision": precision, "train.steps": steps})
    if path == "plain":
        kernels.usable = lambda x: False  # for this process
    task = (Plain if path == "plain" else TranslationTask)(recipe, data.tokenizers, Pairs(*data.train), valid)
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(task, recipe.train, Run(Path(folder)), Console(quiet=True))
        loop.model.train()
        losses = []
        for step, update in zip(range(1, steps + 1), loop.updates(), strict=False):
            loop.update(update.batches, step, update.n_tokens)
            losses.append(loop.update_loss.clone())
    return [float(loss) for loss in losses]


def draw(losses: dict[tuple[str, int], list[float]], file: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (path, seed), values in losses.items():
        smooth = np.convolve(values, np.ones(10) / 10, mode="valid")
        style = {"plain": ("0.5", "-"), "fast": ("tab:blue", "--")}[path]
        axes.plot(smooth, color=style[0], linestyle=style[1], linewidth=1, label=path if seed == SEEDS[0] else None)
    axes.set(xlabel="update", ylabel="loss (mean of 10)", title="Plain float32 and fast path, three seeds each")
    axes.legend()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
