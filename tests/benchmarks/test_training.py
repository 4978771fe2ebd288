"""The training benchmark from end to end at a toy size, and the promises its batches make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import batches, training
from benchmarks.setting import MODELS, Setting
from benchmarks.training import Run
from regard.config import TransformerConfig
from regard.models.transformer import Transformer

ROOT = Path(__file__).resolve().parents[2]
RUN = ("regard", "regard-plain", "torch", "marian")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("benchmark")
    command = [
        sys.executable, "benchmarks/training.py", "--model", "toy", "--budget", "120", "--rounds", "2", "--batches",
        "2", "--threads", "1", "--device", "cpu", "--systems", ",".join(RUN), "--out", str(folder), "--profile",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in RUN)
    for name in ("training.md", "training.png", "profile.md"):
        assert (folder / name).stat().st_size
    found: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return found


def test_every_system_is_measured_against_ours(result: dict[str, Any]) -> None:
    assert set(result["summary"]) == set(RUN)
    for name, found in result["summary"].items():
        assert 0 < found["ratio"]["min"] <= found["ratio"]["median"] <= found["ratio"]["max"]
        assert found["first_step_s"] > 0
        assert found["peak_gib"] > 0
        assert 0 < found["share_of_peak"] < 1
        assert np.isfinite([round["loss"] for round in result["systems"][name]["rounds"]]).all()
    assert result["summary"]["regard"]["ratio"] == {"median": 1, "min": 1, "max": 1}


def test_systems_see_the_same_tokens_in_another_order_each_round(result: dict[str, Any]) -> None:
    rounds = [result["systems"][name]["rounds"] for name in RUN]
    for same in zip(*rounds, strict=True):
        assert len({(r["round"], r["source_tokens"], r["target_tokens"], r["operations"]) for r in same}) == 1
        assert sorted(r["place"] for r in same) == list(range(len(RUN)))
    assert [[r["place"] for r in system] for system in rounds][:2] == [[0, 3], [1, 0]]


def test_operations_are_six_for_each_weight_a_token_meets(result: dict[str, Any]) -> None:
    """Counted on the model itself: matrices that source tokens pass through, and those that target tokens do."""
    size = MODELS["toy"]
    config = TransformerConfig(n_layers=size.n_layers, d_model=size.d_model, d_ff=size.d_ff, n_heads=size.n_heads)
    model = Transformer(config, size.vocab_size)
    matrices = {name: p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "embedding" not in name}
    ahead = ("cross_attn.w_k", "cross_attn.w_v")  # in the decoder, but computed from the source
    source = sum(n for name, n in matrices.items() if name.startswith("encoder") or any(key in name for key in ahead))
    target = sum(matrices.values()) - source + size.vocab_size * size.d_model  # the output shares the embedding
    for system in result["systems"].values():
        for found in system["rounds"]:
            assert found["operations"] == 6 * (source * found["source_tokens"] + target * found["target_tokens"])


def setting(**changes: Any) -> Setting:
    values = {
        "name": "toy", "model": MODELS["toy"], "device": "cpu", "systems": RUN, "shapes": "real", "sentences": "short",
        "budget": 500, "n_batches": 20, "rounds": 5, "updates": 3, "warmup": 5,
    }  # fmt: skip
    return Setting(**{**values, **changes})


def test_batches_keep_the_budget_and_never_share_a_shape() -> None:
    found = batches.choose(batches.generated("short", 500, seed=1), setting())
    assert len(found) == 20
    assert all(max(batch.source_tokens, batch.target_tokens) <= 500 for batch in found)
    assert len({batch.shape for batch in found}) == 20
    assert batches.padding(found) < 0.05


def test_batches_come_back_from_their_file(tmp_path: Path) -> None:
    made = batches.choose(batches.generated("short", 300, seed=2), setting(budget=300, n_batches=3))
    batches.save(tmp_path / "batches.npz", made)
    for mine, stored in zip(made, batches.load(tmp_path / "batches.npz"), strict=True):
        for side in ("sources", "targets"):
            assert [s.tolist() for s in getattr(mine, side)] == [s.tolist() for s in getattr(stored, side)]


def test_real_shapes_are_trained_on_once() -> None:
    run = setting()
    used = run.warmup_batches() + [i for number in range(run.rounds) for i in run.round_batches(number)]
    assert used == list(range(20))


def test_real_text_is_cut_into_batches(tmp_path: Path) -> None:
    for language, words in (("en", "a cat sees two dogs"), ("de", "eine katze sieht zwei hunde")):
        text = "".join(" ".join(words.split()[: 1 + i % 5]) + "\n" for i in range(400))
        (tmp_path / f"train.{language}").write_text(text)
    pairs = batches.real(tmp_path, ["en", "de"], 40, cache=tmp_path / "cache")
    again = batches.real(tmp_path, ["en", "de"], 40, cache=tmp_path / "cache")
    assert (pairs.lengths == again.lengths).all()
    found = batches.choose(pairs, setting(shapes="repeated", budget=100, n_batches=4))
    assert all(sentence[-1] == 2 for batch in found for sentence in batch.sources + batch.targets)


def test_a_system_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    sentences = [np.array([5, 2])] * 2
    run = Run(setting(systems=("unknown",), n_batches=1), [batches.Batch(sentences, sentences)], tmp_path, None)
    try:
        run.start("unknown")
    finally:
        run.close()
    assert run.result["systems"]["unknown"]["error"] == "KeyError: 'unknown'"
    assert not run.workers


def test_no_system_is_started_into_memory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [np.array([5, 2])] * 2
    run = Run(setting(n_batches=1), [batches.Batch(sentences, sentences)], tmp_path, None)
    run.result["systems"]["regard"]["warmup"] = {"peak_gib": 4.0}
    monkeypatch.setattr(training, "free_gib", lambda: 5.0)
    run.start("torch")
    assert run.result["systems"]["torch"]["error"] == "not started: 5.0 GiB free, and another system took 4.0"
    assert not run.workers
