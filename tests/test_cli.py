"""The command as people use it: real processes, real pipes, and a sentence for every mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.config import resolve, to_toml


def run(*arguments: str | Path, text: str | bytes = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    data = text if isinstance(text, bytes) else text.encode()
    result = subprocess.run(command, input=data, capture_output=True, check=False, timeout=240, cwd=cwd)
    return subprocess.CompletedProcess(command, result.returncode, result.stdout.decode(), result.stderr.decode())


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence on stderr, exit code 2, no traceback."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run made by the command itself, with its report."""
    folder = tmp_path_factory.mktemp("cli")
    recipe: dict[str, Any] = {
        "name": "small",
        "data": {"corpus": "en-de", "train_size": 2000, "valid_size": 20, "test_size": 20},
        "tokenizer": {"vocab_size": 600},
        "model": {"n_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 2, "dropout": 0.0},
        "train": {"steps": 60, "batch_tokens": 1000, "warmup_steps": 30, "lr_scale": 0.3, "report_every": 20,
                  "valid_every": 30, "save_every": 30, "average": 2},
    }  # fmt: skip
    (folder / "small.toml").write_text(to_toml(resolve(recipe)))
    result = run("train", "small.toml", cwd=folder)
    assert result.returncode == 0, result.stderr
    (folder / "stdout.txt").write_text(result.stdout)
    (folder / "stderr.txt").write_text(result.stderr)
    return folder / "runs" / "small"


def test_training_ends_with_scores_translations_pictures_and_paths(trained: Path) -> None:
    printed = (trained.parent.parent / "stdout.txt").read_text()
    for words in ("test BLEU = ", "test exact match = ", "combinations BLEU = ", "alignment error rate", "→", "░ ≥"):
        assert words in printed
    for name in ("attention.html", "attention.png", "loss.png", "scores.json", "test.hypotheses.txt"):
        assert (trained / "report" / name).stat().st_size > 0
    for name in ("attention.html", "loss.png"):
        assert str(Path("runs/small/report") / name) in printed
    scores = json.loads((trained / "report" / "scores.json").read_text())
    assert {score["name"] for score in scores["test"]} == {
        "BLEU", "chrF", "TER", "exact match", "perplexity", "alignment error rate"
    }  # fmt: skip
    assert "13a" in next(score["signature"] for score in scores["test"] if score["name"] == "BLEU")


def test_progress_goes_to_stderr_with_speed_and_loss(trained: Path) -> None:
    progress = (trained.parent.parent / "stderr.txt").read_text()
    assert "tokens per second" in progress
    assert "step     60/60  valid  loss" in progress
    assert "parameters, on" in progress


def test_training_again_finds_the_run_finished(trained: Path) -> None:
    before = (trained / "log.jsonl").read_bytes()
    result = run("train", "small.toml", cwd=trained.parent.parent)
    assert result.returncode == 0
    assert "test BLEU = " in result.stdout
    assert (trained / "log.jsonl").read_bytes() == before


def test_translate_keeps_the_order_of_lines_empty_ones_included(trained: Path) -> None:
    lines = ["The dog is sleeping.", "", "Is she sleeping?", "My mother is calling the doctor."]
    result = run("translate", trained, text="\n".join(lines) + "\n")
    assert result.returncode == 0
    model = regard.load(trained)
    assert result.stdout.splitlines() == [model.translate(line) for line in lines]
    assert result.stdout.splitlines()[1] == ""


def test_translate_answers_a_line_before_the_next_is_typed(trained: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", str(trained)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        for sentence in ("The dog is sleeping.", "Is she sleeping?"):
            process.stdin.write(sentence + "\n")
            process.stdin.flush()
            assert process.stdout.readline().strip()  # blocks for ever if answers waited for more input
        process.stdin.close()


def test_translate_options(trained: Path) -> None:
    sentence = "The dog is sleeping.\n"
    best = run("translate", trained, "--n-best", "3", text=sentence).stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in best] == ["0", "0", "0"]
    scores = [float(line.split(" ||| ")[2]) for line in best]
    assert scores == sorted(scores, reverse=True)
    score, text, links = run("translate", trained, "--scores", "--alignments", text=sentence).stdout.strip().split("\t")
    assert float(score) == pytest.approx(scores[0], abs=1e-3)
    assert {link.split("-")[1] for link in links.split()} == set(map(str, range(len(text.split()))))
    record = json.loads(run("translate", trained, "--json", "--alignments", text=sentence).stdout)
    assert record["translations"][0]["text"] == text
    assert record["translations"][0]["alignment"] == links
    both = run("translate", trained, "--n-best", "2", "--alignments", text=sentence).stdout.splitlines()
    assert [line.count(" ||| ") for line in both] == [3, 3]
    verified = run("translate", trained, "--verify-batch", "--batch", "7", text=sentence * 20)
    assert "0 of 20 translations depend on the batch" in verified.stderr
    greedy = run("translate", trained, "--beam", "1", text=sentence)
    assert greedy.stdout.strip() == regard.load(trained).translate(sentence.strip(), beam_size=1)


def test_translate_stops_quietly_when_its_reader_goes(trained: Path) -> None:
    shell = (
        f"yes 'The dog is sleeping.' | head -5000 | {sys.executable} -m regard translate {trained} --beam 1 | head -1"
    )
    shell += "; exit ${PIPESTATUS[2]}"
    result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 1
    assert result.stdout.strip()
    assert "Traceback" not in result.stderr


def test_translate_ends_quietly_on_ctrl_c_while_it_waits(trained: Path) -> None:
    command = [sys.executable, "-m", "regard", "translate", str(trained)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("Is she sleeping?\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_text_is_utf_8_whatever_the_locale(trained: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    command = [sys.executable, "-m", "regard", "translate", str(trained), "--json"]
    text = "Größe → ☃\n".encode()
    result = subprocess.run(command, input=text, capture_output=True, env=environment, check=True)
    assert json.loads(result.stdout.decode("utf-8"))["source"] == "Größe → ☃"


def test_every_line_is_scored_empty_ones_included(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "s.en").write_text("Is she sleeping?\n\nIs he sleeping?\n")
    (tmp_path / "s.de").write_text("Schläft sie?\nSchläft er?\n\n")
    command = ("evaluate", trained, "--source", tmp_path / "s.en", "--reference", tmp_path / "s.de", "--json")
    exact = next(s for s in json.loads(run(*command).stdout)["s.en"]["scores"] if s["name"] == "exact match")
    texts = regard.load(trained).translate(["Is she sleeping?", "", "Is he sleeping?"])
    hits = sum(text == line for text, line in zip(texts, ["Schläft sie?", "Schläft er?", ""], strict=True))
    assert exact["value"] == pytest.approx(100 * hits / 3)


def test_evaluate_scores_runs_files_and_texts(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "s.en").write_text("The dog is sleeping.\nIs she sleeping?\n")
    (tmp_path / "s.de").write_text("Der Hund schläft.\nSchläft sie?\n")
    on_files = run("evaluate", trained, "--source", tmp_path / "s.en", "--reference", tmp_path / "s.de", "--json")
    scores = {score["name"]: score for score in json.loads(on_files.stdout)["s.en"]["scores"]}
    assert set(scores) == {"BLEU", "chrF", "TER", "exact match", "perplexity"}
    on_text = run("evaluate", "--hypotheses", tmp_path / "s.de", "--reference", tmp_path / "s.de")
    assert "s.de BLEU = 100.00" in on_text.stdout
    assert "s.de exact match = 100.00" in on_text.stdout
    on_recipe = run("evaluate", trained)
    saved = json.loads((trained / "report" / "scores.json").read_text())
    for split in ("test", "combinations"):
        bleu = next(score["value"] for score in saved[split] if score["name"] == "BLEU")
        assert f"{split} BLEU = {bleu:.2f}" in on_recipe.stdout
    refused(run("evaluate"), "Give a RUN")
    refused(run("evaluate", trained, "--source", tmp_path / "s.en"), "--reference is missing")


def test_view_writes_a_page_and_a_picture(trained: Path, tmp_path: Path) -> None:
    result = run("view", trained, "The dog is sleeping.", "--output", tmp_path / "look", "--name", "dog")
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "look" / "dog.html").read_text()
    assert "decoder.layers.0.cross_attn" in page
    assert (tmp_path / "look" / "dog.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "look" / "dog.html") in result.stdout
    refused(run("view", trained, "  "), "empty")


def test_mistakes_get_a_sentence(trained: Path, tmp_path: Path) -> None:
    refused(run("train", "dmeo"), "No recipe named dmeo (did you mean demo?)")
    refused(run("train", "demo", "--set", "model.d_modle=3"), "model.d_modle (did you mean model.d_model?)")
    refused(run("train", "demo", "--set", "train.steps=soon"), "train.steps must be a whole number")
    refused(run("train", "copy", "--set", "data.corpus=", cwd=tmp_path), "no train text")
    refused(run("translate", tmp_path), "not a run directory")
    refused(run("translate", trained, "--weights", "newest"), "averaged, ema, best, last or auto")
    refused(run("translate", trained, "--normalization", "marian"), "gnmt", "power")
    refused(run("train", "small.toml", "--set", "seed=2", cwd=trained.parent.parent), "seed: 2 here, 1 there")
    bad = run("translate", trained, text=b"The dog is sleeping.\n\xff\xfe\n")
    refused(bad, "standard input, line 2: byte 1 is not UTF-8")
    assert len(bad.stdout.splitlines()) == 1  # what came before the bad line is not lost


def test_bad_corpora_get_a_sentence(tmp_path: Path) -> None:
    def train(source: bytes | None, target: bytes) -> subprocess.CompletedProcess[str]:
        for name, data in (("a.en", source), ("a.de", target)):
            if data is None:
                (tmp_path / name).unlink(missing_ok=True)
            else:
                (tmp_path / name).write_bytes(data)
        (tmp_path / "r.toml").write_text('[data]\ntrain = ["a.en", "a.de"]\nvalid = ["a.en", "a.de"]\n')
        return run("train", "r.toml", "--run", tmp_path / "run", cwd=tmp_path)

    refused(train(b"a\nb\n", b"x\n"), "a.en has 2 lines but ", "a.de has 1")
    refused(train(b"a\n\xe9\n", b"x\ny\n"), "a.en, line 2: byte 1 is not UTF-8")
    refused(train(b"", b""), "hold no sentence pair")
    refused(train(None, b"x\n"), "No such file: ", "a.en")
    refused(train(b"a b\n" * 9, b"x y\n" * 9), "tokenizer.vocab_size = 8000 is more than this text can fill")


def test_losses_of_data_are_announced(tmp_path: Path) -> None:
    lines = [f"{'a b c d e f g h i j k l m n o p '[: 2 * n]}" for n in range(1, 17)]
    (tmp_path / "a.en").write_text("\n".join([*lines, "", "x"]) + "\n")
    (tmp_path / "a.de").write_text("\n".join([*lines, "y", "x"]) + "\n")
    (tmp_path / "r.toml").write_text('[data]\ntrain = ["a.en", "a.de"]\nvalid = ["a.en", "a.de"]\nmax_length = 9\n')
    sets = ["tokenizer.vocab_size=38", "train.steps=1", "model.d_model=8", "model.d_ff=8", "model.n_heads=2",
            "model.n_layers=1", "train.average=1"]  # fmt: skip
    result = run("train", "r.toml", *(f"--set={item}" for item in sets), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Left out for an empty side: 1 train pair (line 17)." in result.stderr
    assert "8 of 17 train pairs are longer than data.max_length = 9 tokens" in result.stderr


def test_the_whole_recipe_can_be_shown() -> None:
    shown = run("train", "demo", "--show", "--set", "train.steps=7").stdout
    assert "steps = 7" in shown
    assert "label_smoothing = 0.1" in shown


def test_help_teaches() -> None:
    plain = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    for verb, words in {
        "train": ["demo", "--set", "--run", "continues exactly"],
        "translate": ["--beam", "--n-best", "stdin", "echo"],
        "evaluate": ["--hypotheses", "--source"],
        "view": ["offline"],
    }.items():
        command = [sys.executable, "-m", "regard", verb, "--help"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, env=plain).stdout
        assert all(word in printed for word in words), printed
    assert "translate" in run("--help").stdout
    assert run("--version").stdout == f"regard {regard.__version__}\n"


def every_command(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, *path, name)
        else:
            yield (*path, name)


def test_paragraphs_of_help_fill_the_width() -> None:
    """No line of one ends where the next word would have had room."""
    width, checked = 80, 0
    for path in every_command(typer.main.get_command(app)):
        printed = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(width), "NO_COLOR": "1"}).stdout
        told = [line.strip() for line in printed.partition("╭")[0].splitlines()]
        for line, following in pairwise(told):
            if line and following:
                checked += 1
                assert len(line) + 1 + len(following.split()[0]) > width - 2, (path, line, following)
    assert checked > 50


def test_ctrl_c_ends_the_command_even_where_a_library_would_swallow_it() -> None:
    code = """
import os, signal, time
from regard.cli import main

def command():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    except BaseException:  # as some do around an import
        pass
    print("went on")

main(command)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 130
    assert "regard: interrupted." in result.stderr
    assert "went on" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "set-max", "--seeds", "0"], "--seeds"),
        (["train"], "Missing argument"),
        (["doctor", "--bema"], "No such option: --bema"),
        (["trian"], "No such command 'trian'"),
    ],
)
def test_wrong_options_are_told_in_a_line_as_all_else_is(arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "regard", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("regard: ")
    assert words in line
    assert "--help says more" in line
    assert not result.stdout
