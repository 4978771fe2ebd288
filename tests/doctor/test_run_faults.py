"""Copies of a good run, each damaged in one way: log, weights, tokenizer, or what it is used on."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.config import TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.files import file_hash
from regard.data.tokenizer import EOS, TokenizerPair
from regard.doctor import outputs
from regard.doctor.examine import examine
from regard.doctor.findings import Where
from regard.doctor.languages import Profile
from regard.training import checkpoint
from regard.training.run import Run

Weights = dict[str, Tensor]
Documented = dict[str, dict[str, tuple[str, str]]]
LAST_NORM = "decoder.norm"


def alter(run: Path, change: Callable[[Weights], object], name: str = "model.safetensors") -> None:
    """Change a file of every checkpoint, with checksums to match."""
    for path in Run(run).checkpoints.glob(f"step-*/{name}"):
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)
        state = checkpoint.load_state(path.parent)
        state["checksums"][path.name] = file_hash(path)
        (path.parent / "state.json").write_text(json.dumps({**state, "checksum": checkpoint.digest(state)}))


def always(token: Callable[[Path], int]) -> Callable[[Path], None]:
    """A model that says one token whatever it is asked."""

    def damage(run: Path) -> None:
        number = token(run)

        def change(tensors: Weights) -> None:
            row = tensors["target_embedding.tokens.weight" if "target_embedding.tokens.weight" in tensors
                          else "source_embedding.tokens.weight"][number]  # fmt: skip
            name = next(name for name in tensors if name.startswith(LAST_NORM) and name.endswith("bias"))
            tensors[name] += 60 * row / row.norm()

        alter(run, change)

    return damage


def zero(*parts: str) -> Callable[[Path], None]:
    def change(tensors: Weights) -> None:
        names = [name for name in tensors if all(part in name for part in parts)]
        assert names
        for name in names:
            tensors[name].zero_()

    return lambda run: alter(run, change)


def not_a_number(run: Path) -> None:
    alter(run, lambda tensors: next(iter(tensors.values())).view(-1)[:3].fill_(math.nan))


def dead_rows(run: Path) -> None:
    alter(run, lambda tensors: [t[20:40].zero_() for name, t in tensors.items() if name.endswith("tokens.weight")])


def cut(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        for path in Run(run).checkpoints.glob(f"step-*/{name}"):
            path.write_bytes(path.read_bytes()[:-100])

    return damage


def other_tokenizer(run: Path) -> None:
    text = [(run.parent / f"train.{side}").read_text(encoding="utf-8").lower().splitlines() for side in ("en", "de")]
    other = subwords.train(TokenizerConfig(vocab_size=140), *text, 1)
    shutil.rmtree(run / "tokenizer")
    other.save(run / "tokenizer")


def no_tokenizer(run: Path) -> None:
    (run / "tokenizer" / "shared.model").unlink()


def other_recipe(run: Path) -> None:
    text = (run / "recipe.toml").read_text(encoding="utf-8")
    (run / "recipe.toml").write_text(text.replace('norm = "pre"', 'norm = "post"'), encoding="utf-8")


def log(change: Callable[[list[dict[str, Any]], list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """Change the log: its training reports and its validations."""

    def damage(run: Path) -> None:
        records = Run(run).records()
        change([r for r in records if r["kind"] == "train"], [r for r in records if r["kind"] == "valid"])
        (run / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    return damage


def goes_up(train: list[dict[str, Any]], valid: list[dict[str, Any]]) -> None:
    for record in train[-6:]:
        record["loss"] = 5.2


def rises_at_peak(train: list[dict[str, Any]], valid: list[dict[str, Any]]) -> None:
    losses = [5.0, 3.0, 2.6, *[3.4] * len(train)]
    for i, record in enumerate(train):
        record["loss"] = losses[i] - 0.002 * i


def learns_by_heart(train: list[dict[str, Any]], valid: list[dict[str, Any]]) -> None:
    for i, record in enumerate(train):
        record["loss"] = 4.0 - 0.15 * i
    for record, loss in zip(valid, [2.0, 1.5, 1.6, 1.8, 2.0, 2.2], strict=False):
        record["loss"] = loss


def stands_still(train: list[dict[str, Any]], valid: list[dict[str, Any]]) -> None:
    for i, record in enumerate(train):
        record["loss"] = 4.9 + 0.01 * (i % 3)


def piece(text: str) -> Callable[[Path], int]:
    return lambda run: TokenizerPair.load(run / "tokenizer").target.encode([text])[0][-2]


@dataclass(frozen=True)
class Fault:
    code: str
    damage: Callable[[Path], object]
    place: str  # beside the run's folder; LAST stands for its last checkpoint
    step: int = 0  # of the record of the log that is named
    also: tuple[str, ...] = ()  # what else is true then


LOG, MODEL, TRAINING = "run/log.jsonl", "LAST/model.safetensors", "LAST/training.safetensors"
DEAF, LONG = "output-ignores-source", "output-length"

FAULTS = {
    "loss is no number": Fault("diverged", log(lambda train, _: train[12].update(loss=math.nan)), LOG, 130),
    "loss goes up again": Fault("diverged", log(goes_up), LOG, 190, ("loss-spikes",)),
    "loss spike": Fault("loss-spikes", log(lambda train, _: train[14].update(loss=4.4)), LOG, 150),
    "loss rises where the rate peaks": Fault("learning-rate-high", log(rises_at_peak), LOG, 40, ("diverged",)),
    "validation worse, training better": Fault("overfitting", log(learns_by_heart), LOG, 80),
    "loss stands still": Fault("no-learning", log(stands_still), LOG),
    "NaN in the weights": Fault("not-a-number", not_a_number, MODEL),
    "weights cut off": Fault("weights-damaged", cut("model.safetensors"), MODEL),
    "optimiser's state cut off": Fault("weights-damaged", cut("training.safetensors"), TRAINING),
    "state of a checkpoint cut off": Fault("weights-damaged", cut("state.json"), "LAST/state.json"),
    "another tokenizer": Fault("tokenizer-mismatch", other_tokenizer, "run/tokenizer"),
    "no tokenizer": Fault("tokenizer-damaged", no_tokenizer, "run/tokenizer"),
    "recipe edited after training": Fault("recipe-changed", other_recipe, "run/recipe.toml"),
    "twenty embeddings zero": Fault("dead-embeddings", dead_rows, "LAST"),
    "cross-attention uniform": Fault("attention-collapsed", zero("cross_attn.w_q"), "run", also=(DEAF,)),
    "decoder deaf to the source": Fault("output-ignores-source", zero("cross_attn.w_o"), "valid.en"),
    "model says nothing": Fault("output-empty", always(lambda _: EOS), "valid.en", also=(LONG,)),
    "model repeats a word for ever": Fault("output-repeats", always(piece("Hund")), "valid.en", also=(DEAF, LONG)),
    "outputs much too long": Fault("output-length", always(piece("Hund")), "valid.en", also=(DEAF, "output-repeats")),
}


def expected(fault: Fault, run: Path) -> str:
    """The path of a fault's place. The text lies where the run's recipe says."""
    if fault.place == "valid.en":
        return str(Run(run).recipe.data.valid[0])
    steps = Run(run).steps()
    return str(run.parent / fault.place.replace("LAST", f"run/checkpoints/step-{steps[-1]:06}"))


@pytest.fixture
def damaged(learned: Path, tmp_path: Path) -> Path:
    return copy(learned, tmp_path)


def copy(run: Path, folder: Path) -> Path:
    """The run and its text, which the run's recipe names where they were."""
    shutil.copytree(run, folder / "run", symlinks=True)
    for path in run.parent.glob("*.??"):
        shutil.copy(path, folder)
    return folder / "run"


def test_the_results_list_every_fault(documented: Documented) -> None:
    assert {name: code for name, (code, _) in documented["run"].items()} == {n: f.code for n, f in FAULTS.items()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_run_is_named_and_nothing_else(
    name: str, damaged: Path, documented: Documented, place: Callable[[Where], str]
) -> None:
    fault = FAULTS[name]
    where = expected(fault, damaged)
    fault.damage(damaged)
    found = [finding for finding in examine(damaged) if finding.severity != "note"]
    mine = [finding for finding in found if finding.code == fault.code and finding.where.files == (where,)]
    assert len(mine) == 1, [(finding.code, str(finding.where), finding.what) for finding in found]
    assert {finding.code for finding in found} <= {fault.code, *fault.also}, found
    assert documented["run"][name] == (fault.code, place(mine[0].where))
    if fault.step:
        records = Run(damaged).records()
        assert [records[line - 1]["step"] for line in mine[0].lines] == [fault.step]


def test_a_good_run_is_passed_in_silence(learned: Path) -> None:
    assert not [finding for finding in examine(learned) if finding.severity != "note"]


def test_a_run_whose_text_is_gone_says_so(damaged: Path) -> None:
    recipe = damaged / "recipe.toml"
    text = recipe.read_text(encoding="utf-8").replace(Run(damaged).pair_recipe.data.train[0], "gone.en")
    recipe.write_text(text, encoding="utf-8")
    found = [(finding.code, finding.severity) for finding in examine(damaged) if finding.severity != "note"]
    assert found == [("text-missing", "warning")]


def test_a_run_used_on_text_it_was_not_made_for(learned: Path, tmp_path: Path) -> None:
    """Lower-cased and tokenised input for a model of raw text, and characters it has never seen."""
    raw = {side: (learned.parent / f"test.{side}").read_text(encoding="utf-8") for side in ("en", "de")}
    plain = {"lower.en": raw["en"].lower(), "tokenised.en": raw["en"].replace(".", " ."), "test.de": raw["de"]}
    strange = {"strange.en": raw["en"].replace("The old", "Thé öld", 5)}
    for name, text in {**plain, **strange}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name, code in (
        ("lower.en", "preprocessing-mismatch"),
        ("tokenised.en", "preprocessing-mismatch"),
        ("strange.en", "unknown-tokens"),
    ):
        found = examine(learned, {"test": (tmp_path / name, tmp_path / "test.de")})
        mine = [finding for finding in found if finding.code == code and finding.severity != "note"]
        assert [str(tmp_path / name)] in [list(finding.where.files) for finding in mine], name
        if name == "strange.en":
            expected = [n for n, line in enumerate(strange["strange.en"].splitlines(), start=1) if "öld" in line]
            assert mine[0].lines == expected


def test_an_untied_embedding_without_gradient_is_dead(damaged: Path) -> None:
    """Rows whose second moment is nothing have never learned."""

    def change(tensors: Weights) -> None:
        name = next(name for name in tensors if name.startswith("exp_avg_sq/") and name.endswith("tokens.weight"))
        tensors[name][30:60] = 0

    alter(damaged, change, "training.safetensors")
    found = [finding for finding in examine(damaged) if finding.code == "dead-embeddings"]
    assert [finding.severity for finding in found] == ["warning"]
    assert "30 of 140" in found[0].what


SOURCES = [f"The dog number {i} is sleeping in the garden." for i in range(20)]
REFERENCES = [f"Der Hund Nummer {i} schläft in dem Garten." for i in range(20)]


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ("output-copies", lambda i: SOURCES[i]),
        ("output-language", lambda i: f"The cat number {i} is sitting in the house."),
        ("output-unknown", lambda i: REFERENCES[i].replace("Hund", "⁇")),
        ("output-empty", lambda i: ""),
        ("output-repeats", lambda i: "Der Hund Nummer Nummer Nummer Nummer Nummer."),
        ("output-repeats", lambda i: "Der Hund in dem Garten in dem Garten in dem Garten in dem Garten."),
    ],
)
def test_bad_outputs_are_named_by_line(code: str, bad: Callable[[int], str]) -> None:
    texts = [bad(i) if i in (3, 7) else reference for i, reference in enumerate(REFERENCES)]
    profile = Profile.of(SOURCES, REFERENCES)
    found = {finding.code: finding.lines for finding in outputs.examine(SOURCES, texts, REFERENCES, profile, "x")}
    assert found[code] == [4, 8]


def test_good_outputs_are_passed_in_silence() -> None:
    profile = Profile.of(SOURCES, REFERENCES)
    assert not list(outputs.examine(SOURCES, REFERENCES, REFERENCES, profile, "x"))


def test_heads_are_measured_by_what_they_do() -> None:
    from regard.doctor.heads import measure

    sharp, even = torch.eye(6), torch.full((6, 6), 1 / 6)
    stuck = torch.zeros(6, 6)
    stuck[:, 2] = 1
    alike, flat = measure(torch.stack([sharp, even, stuck]), causal=False).T.tolist()
    assert alike[0] > 0.5
    assert alike[1] == alike[2] == pytest.approx(0, abs=1e-6)
    assert flat[1] == pytest.approx(0, abs=1e-6)
    assert min(flat[0], flat[2]) > 0.5
