"""`regard evaluate` as people use it: runs and texts scored, compared, drawn, saved; a sentence for every mistake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.languages import NAMES
from regard.evaluate.bleu import TOKENIZERS
from regard.training.run import Run
from regard.training.start import fit

QUICK = {
    "data.valid_size": 12,
    "data.test_size": 15,
    "train.steps": 20,
    "train.valid_every": 20,
    "train.save_every": 20,
}

GERMAN = ["Der alte Hund schläft im Garten.", "Meine Mutter ruft den Nord-Süd-Arzt.", "Ja."] * 10
OUTPUT = ["Der Hund schläft heute im Garten.", "Meine Mutter ruft den Nord-Süd-Arzt.", "Ja."] * 10
WORSE = ["Ein Hund schlief im Park.", "Mutter ruft die Ärzte.", "Nein."] * 10


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "evaluate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=cwd)


def printed(*arguments: str | Path, cwd: Path) -> str:
    result = run(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture(scope="module")
def folder(reverser_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one trained longer, and texts."""
    place = tmp_path_factory.mktemp("evaluate")
    fit(reverser_recipe, place / "runs" / "one", QUICK)
    fit(reverser_recipe, place / "runs" / "two", {**QUICK, "train.steps": 1})
    for name, lines in (("ref.de", GERMAN), ("out.de", OUTPUT), ("worse.de", WORSE), ("short.de", GERMAN[:5])):
        (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "s.src").write_text("a b c\nd e\n\n")
    (place / "s.tgt").write_text("c b a\ne d\n\n")
    (place / "s.alt").write_text("c b a\nd e\n\n")
    return place


def test_a_text_is_compared_with_a_baseline_in_words(folder: Path) -> None:
    told = printed("--hypotheses", "out.de", "--reference", "ref.de", "--baseline", "worse.de", cwd=folder)
    assert "out.de TER = " in told
    assert "out.de against worse.de, p by paired bootstrap and by randomisation:" in told
    assert told.count("the difference can be believed.") == 3
    same = printed("--hypotheses", "out.de", "--reference", "ref.de", "--baseline", "out.de", cwd=folder)
    assert "says the same, word for word" in same
    assert "believed" not in same


def test_json_has_everything(folder: Path) -> None:
    options = ("--baseline", "worse.de", "--by-length", "--tokenized-lowercase", "--compound-split", "--json")
    told = json.loads(printed("--hypotheses", "out.de", "--reference", "ref.de", *options, cwd=folder))["out.de"]
    assert (told["system"], told["sentences"], told["references"]) == ("out.de", 30, 1)
    names = ["BLEU", "chrF", "TER", "exact match", "tokenised lower-cased BLEU", "tokenised compound-split BLEU"]
    assert [score["name"] for score in told["scores"]] == names
    assert [score["name"] for score in told["baseline"]["scores"]] == names
    lower_cased, split = told["scores"][4:]
    assert lower_cased["reference_length"] == 10 * (7 + 6 + 2)
    assert split["reference_length"] == 10 * (7 + 10 + 2)  # Nord ##AT##-##AT## Süd ##AT##-##AT## Arzt
    assert "not comparable with sacreBLEU" in lower_cased["note"]
    assert len(split["precisions"]) == 4
    assert [one["name"] for one in told["comparisons"]] == ["BLEU", "chrF", "TER", *names[4:]]
    assert all(one["better"] and one["believed"] and one["p_randomised"] < 0.05 for one in told["comparisons"])
    assert [(row["words"], row["sentences"]) for row in told["by_length"]] == [("1–5", 20), ("6–10", 10)]
    for row in told["by_length"]:
        assert set(row["systems"]) == {"out.de", "worse.de"}
        assert row["systems"]["out.de"]["chrF"]["value"] >= row["systems"]["worse.de"]["chrF"]["value"]


def test_several_references_count(folder: Path) -> None:
    both = printed("--hypotheses", "out.de", "--reference", "ref.de", "--reference", "out.de", cwd=folder)
    assert "out.de BLEU = 100.00  (nrefs:2|" in both
    assert "out.de exact match = 100.00" in both
    on_run = printed("runs/one", "--source", "s.src", "--reference", "s.tgt", "--reference", "s.alt", cwd=folder)
    assert "(nrefs:2|" in on_run


def test_the_help_says_how_each_language_is_split(tmp_path: Path) -> None:
    """Of those the sacrebleu command splits otherwise, it says so; Cantonese is written as Chinese is."""
    told = " ".join(printed("--help", cwd=tmp_path).split())
    parts = told.partition("BLEU splits ")[2].split("; ")
    for code in TOKENIZERS.keys() - {"yue"}:
        part = parts[{"zh": 0, "ja": 1, "ko": 1}.get(code, 2)]
        assert NAMES[code] in part
        assert ("as the sacrebleu command does" in part) == (code == "zh")
        assert ("into characters" in part) == (TOKENIZERS[code][-1] == "char")


def test_a_run_is_scored_on_any_split_and_its_text_kept(folder: Path) -> None:
    told = printed(
        "runs/one", "--split", "valid", "--save", "valid.out", "--threads", "1", "--device", "cpu", cwd=folder
    )
    assert told.startswith("valid BLEU = ")
    assert "test BLEU" not in told
    saved = (folder / "valid.out").read_text(encoding="utf-8").splitlines()
    model = regard.load(folder / "runs" / "one")
    from regard.data.corpus import load_required

    assert saved == model.translate(load_required(Run.open(folder / "runs" / "one").recipe.data, "valid").source)


def test_two_runs_are_compared_in_words_and_in_a_picture(folder: Path) -> None:
    told = printed("runs/one", "--baseline", "runs/two", "--by-length", "--plot", "lengths.png", cwd=folder)
    assert "test against runs/two, p by paired bootstrap" in told
    assert "test by length of the reference:" in told
    assert "scores by length  lengths.png" in told
    assert (folder / "lengths.png").read_bytes().startswith(b"\x89PNG")


def test_given_pairs_get_their_log_probability_line_by_line(folder: Path) -> None:
    told = printed("runs/one", "--source", "s.src", "--reference", "s.tgt", "--log-probs", cwd=folder)
    rows = [line.split("\t") for line in told.splitlines()]
    assert len(rows) == 3
    for log_prob, tokens, per_token in rows:
        assert float(log_prob) / int(tokens) == pytest.approx(float(per_token), abs=1e-3)
    as_json = printed("runs/one", "--source", "s.src", "--reference", "s.tgt", "--log-probs", "--json", cwd=folder)
    for line, row in zip(as_json.splitlines(), rows, strict=True):
        assert json.loads(line)["log_prob"] == pytest.approx(float(row[0]), abs=1e-3)


def test_tokenised_references_are_noticed(folder: Path) -> None:
    (folder / "tok.de").write_text("ein hund .\nzwei katzen , schwarz .\n")
    result = run("--hypotheses", "tok.de", "--reference", "tok.de", cwd=folder)
    assert "look tokenised" in result.stderr
    assert "--tokenized-lowercase" in result.stderr
    asked = run("--hypotheses", "tok.de", "--reference", "tok.de", "--tokenized-lowercase", cwd=folder)
    assert "hypothesis 8 tokens, reference 8 tokens" in asked.stdout
    assert "tok:as-given" in asked.stdout
    assert not asked.stderr


def test_empty_references_are_counted_or_refused(folder: Path) -> None:
    (folder / "gaps.de").write_text("\n".join(["" if i in (6, 9) else line for i, line in enumerate(GERMAN)]) + "\n")
    (folder / "none.de").write_text("\n" * len(GERMAN))
    some = run("--hypotheses", "out.de", "--reference", "gaps.de", cwd=folder)
    assert some.returncode == 0
    assert "2 of 30 references of out.de are empty, the first in line 7" in some.stderr
    both = run("--hypotheses", "out.de", "--reference", "gaps.de", "--reference", "ref.de", cwd=folder)
    assert not both.stderr
    refused(run("--hypotheses", "out.de", "--reference", "none.de", cwd=folder), "All references of out.de are empty")


def test_an_interrupted_run_is_scored_with_a_warning(folder: Path) -> None:
    recipe = folder / "runs" / "half" / "recipe.toml"
    shutil.copytree(folder / "runs" / "two", recipe.parent, symlinks=True)
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("\nsteps = 1\n", "\nsteps = 500\n"), encoding="utf-8")
    for runs in (("runs/half",), ("runs/one", "--baseline", "runs/half")):
        assert "runs/half has come to step 1 of 500" in run(*runs, cwd=folder).stderr
    assert not run("runs/two", cwd=folder).stderr
    Run(recipe.parent).log.unlink()  # weights from elsewhere, which nobody has trained here
    assert not run("runs/half", cwd=folder).stderr


def test_options_that_would_do_nothing_are_refused(folder: Path) -> None:
    both = ("--hypotheses", "out.de", "--reference", "ref.de")
    for option in (("--beam", "3"), ("--weights", "last"), ("--device", "cpu"), ("--threads", "1")):
        refused(run(*both, *option, cwd=folder), f"{option[0]} is for a RUN")
    pairs = ("runs/one", "--source", "s.src", "--reference", "s.tgt", "--log-probs")
    for option in (("--baseline", "runs/two"), ("--save", "x"), ("--by-length",), ("--batch", "3")):
        refused(run(*pairs, *option, cwd=folder), "--log-probs", f"leave {option[0]} out")


def test_mistakes_get_a_sentence_before_any_work(folder: Path) -> None:
    refused(run("runs/one", "--hypotheses", "out.de", "--reference", "ref.de", cwd=folder), "--baseline")
    refused(run("runs/one", "--reference", "ref.de", cwd=folder), "--source is missing")
    refused(run("--hypotheses", "out.de", "--reference", "ref.de", "--split", "test", cwd=folder), "--split")
    refused(run("--hypotheses", "out.de", "--reference", "short.de", cwd=folder), "30 lines", "short.de has 5")
    both = ("--hypotheses", "out.de", "--reference", "ref.de")
    refused(run(*both, "--baseline", "short.de", cwd=folder), "short.de has 5")
    refused(run(*both, "--baseline", "runs/two", cwd=folder), "--source")
    refused(run(*both, "--plot", "lengths.pdf", cwd=folder), "lengths.png")
    refused(run(*both, "--plot", "nowhere/lengths.png", cwd=folder), "folder that exists")
    refused(run(*both, "--log-probs", cwd=folder), "give a RUN")
    refused(run("runs/one", "--tokenized-lowercase", cwd=folder), "--language de")
    refused(run("runs/one", "--device", "tpu", cwd=folder), "'tpu' cannot be used")
    refused(run("runs/one", "--split", "valid", "--split", "test", "--save", "x", cwd=folder), "--split valid or")


def test_scoring_a_text_does_not_wait_for_torch(folder: Path) -> None:
    code = """
import sys
from regard.cli import app
app(["evaluate", "--hypotheses", "out.de", "--reference", "ref.de"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
