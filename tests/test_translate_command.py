"""`regard translate` with its engines and on files: real processes, refusals in a sentence, and five kills."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.cli.translate import deciding
from regard.config import DecodeConfig
from regard.data.corpus import Corpus
from regard.decode.jobs import changes
from regard.decode.phrases import Glossary
from regard.decode.stream import Asked, LineFormat, LineTranslator, Verifier
from regard.decode.translator import Translator
from regard.decode.wishes import Wish
from regard.errors import RegardError
from regard.export import choice
from regard.export.choice import EXPORTS, open_translator
from regard.export.engines import Ctranslate2Engine, Settings
from regard.export.formats import export
from regard.training.run import Run

pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'regard[dev]'")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # models this small are slower with more
SETTINGS = Settings(intra_threads=1)


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "regard", "translate", *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def call_here(*arguments: str | Path) -> Result:
    """The command without a process of its own."""
    return CliRunner().invoke(app, ["translate", *map(str, arguments)])


def call(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "regard", "translate", *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, input=text, text=True, capture_output=True, timeout=240)


@pytest.fixture(scope="module")
def run(reverser: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the trained run, which gets exports."""
    place = tmp_path_factory.mktemp("translate") / "run"
    shutil.copytree(reverser, place, symlinks=True)
    return place


@pytest.fixture(scope="module")
def sentences(reverser_test: Corpus) -> list[str]:
    return reverser_test.source[:60]


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    return choice.export_within(Run.open(run), "float32", "auto", lambda text: None)


# --- engines -----------------------------------------------------------------------------------------------


def test_both_engines_translate_alike_through_one_pipeline(run: Path, sentences: list[str]) -> None:
    """The same tokens, scores and order, empty lines included, for power and for gnmt."""
    lines = ["", *sentences[:30], "  ", *sentences[30:]]
    ours, theirs = (
        open_translator(run, engine, settings=SETTINGS, device="cpu", normalization="power")
        for engine in ("torch", "ctranslate2")
    )
    assert (ours.engine is None, theirs.engine is not None) == (True, True)
    for one, other in zip(ours.search(lines, n_best=2), theirs.search(lines, n_best=2), strict=True):
        assert one[0].source == other[0].source
        assert one[0].text == other[0].text
        assert one[0].source_tokens == other[0].source_tokens
        assert one[0].score == pytest.approx(other[0].score, abs=1e-3)
        assert len(one) == len(other)
    by_gnmt = theirs.search(lines, normalization="gnmt")
    same = [a[0].text == b[0].text for a, b in zip(ours.search(lines, normalization="gnmt"), by_gnmt, strict=True)]
    assert sum(same) >= 0.9 * len(same)


def test_both_engines_keep_to_the_same_length(run: Path, sentences: list[str]) -> None:
    ours, theirs = (
        open_translator(run, engine, settings=SETTINGS, device="cpu", normalization="power", max_length=5)
        for engine in ("torch", "ctranslate2")
    )
    found = [[best[0].target_tokens for best in one.search(sentences[:20])] for one in (ours, theirs)]
    assert found[0] == found[1]
    assert max(map(len, found[0])) == 5


def test_wishes_that_only_torch_knows_are_refused(exported: Path) -> None:
    translator = open_translator(exported, settings=SETTINGS)
    with pytest.raises(RegardError, match="CTranslate2 knows no prefixes, required or forbidden phrases"):
        translator.search(["a b"], wishes=[Wish(prefix="a")])
    with pytest.raises(RegardError, match="CTranslate2 knows no prefixes"):
        translator.search(["a b"], forbidden=["a"])
    with pytest.raises(RegardError, match=r"cannot honour decode\.no_repeat_ngram = 2"):
        open_translator(exported, "ctranslate2", settings=SETTINGS, no_repeat_ngram=2)
    with pytest.raises(RegardError, match=r"decode\.min_length = 9 and decode\.sample = True"):
        open_translator(exported, "ctranslate2", settings=SETTINGS, min_length=9, sample=True)


def test_a_run_is_exported_once_for_each_of_its_weights(run: Path) -> None:
    """Processes that come at the same time make one export; weights that have changed make another."""
    place = Run.open(run)
    folders = [choice.export_within(place, "int16", "auto", lambda text: None) for _ in range(2)]
    assert folders[0] == folders[1]
    shutil.rmtree(folders[0])
    processes = [start(run, "--quantization", "int16", "-i", os.devnull) for _ in range(2)]
    remarks = [process.communicate(timeout=240)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], remarks
    assert sum("Exporting to" in remark for remark in remarks) == 1
    assert [path.name for path in folders[0].parent.iterdir() if "int16" in path.name] == [folders[0].name]
    other = choice.export_within(place, "int16", "best", lambda text: None)
    same = torch.equal(*(regard.load(run, which, "cpu").model.output.weight for which in ("auto", "best")))
    assert (other == folders[0]) == same


def test_weights_that_have_changed_are_exported_again(run: Path, tmp_path: Path, exported: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    from regard.training.checkpoint import tensor_digest

    place = Run(tmp_path / "run")
    shutil.copytree(run, place.path, symlinks=True)
    assert choice.export_within(place, "float32", "auto", lambda text: None).name == exported.name
    with safe_open(place.averaged, framework="pt") as file:
        tensors = {name: 0.9 * file.get_tensor(name) for name in list(file.keys())}
    note = json.dumps({"steps": [], "checksum": tensor_digest(tensors)})
    save_file(tensors, place.averaged, metadata={"regard": note})
    remarks: list[str] = []
    folder = choice.export_within(place, "float32", "auto", remarks.append)
    assert folder.name != exported.name
    assert remarks == [f"Exporting to {folder}, once for these weights."]


def test_auto_never_takes_bits_from_a_run_unasked(run: Path, exported: Path) -> None:
    assert open_translator(run, device="cpu").engine is None
    assert isinstance(open_translator(exported, settings=SETTINGS).engine, Ctranslate2Engine)
    asked = open_translator(run, quantization="int8", settings=SETTINGS).engine
    assert isinstance(asked, Ctranslate2Engine)
    assert asked.manifest.quantization == "int8"


def test_what_an_engine_cannot_honour_is_refused_or_left_to_torch(run: Path, exported: Path, tmp_path: Path) -> None:
    for path in (run, exported):
        with pytest.raises(RegardError, match=r"--engine ctranslate2 cannot honour decode\.no_repeat_ngram = 3.*torch"):
            open_translator(path, "ctranslate2", settings=SETTINGS, no_repeat_ngram=3)
    with pytest.raises(RegardError, match=r"CTranslate2 cannot honour decode\.no_repeat_ngram = 3"):
        open_translator(run, quantization="int8", settings=SETTINGS, no_repeat_ngram=3)
    remarks: list[str] = []
    instead = open_translator(exported, settings=SETTINGS, device="cpu", remark=remarks.append, no_repeat_ngram=3)
    assert instead.engine is None
    assert instead.config.no_repeat_ngram == 3
    assert len(remarks) == 1
    assert "decode.no_repeat_ngram = 3" in remarks[0]
    shutil.copytree(exported, tmp_path / "away")  # far from the run
    with pytest.raises(RegardError, match="cannot honour"):
        open_translator(tmp_path / "away", settings=SETTINGS, no_repeat_ngram=3)
    for more, words in (({"phrases": True}, "prefixes or phrases"), ({"partners": [run]}, "several runs together")):
        instead = open_translator(exported, settings=SETTINGS, device="cpu", remark=remarks.append, **more)  # type: ignore[arg-type]
        assert (instead.engine, len(instead.partners)) == (None, len(more.get("partners", ())))  # type: ignore[arg-type]
        assert f"CTranslate2 cannot honour {words}" in remarks[-1]
        for path, asked in (
            (tmp_path / "away", {}),
            (exported, {"engine": "ctranslate2"}),
            (run, {"quantization": "int8"}),
        ):
            with pytest.raises(RegardError, match=f"cannot honour {words}: .*torch translates"):
                open_translator(path, settings=SETTINGS, **asked, **more)  # type: ignore[arg-type]
    assert open_translator(tmp_path / "away", settings=SETTINGS).config == DecodeConfig()


def test_alignments_need_the_run_itself(run: Path, exported: Path, tmp_path: Path, sentences: list[str]) -> None:
    def links(translator: Translator) -> list[list[tuple[int, int]]]:
        return translator.align([best[0] for best in translator.search(sentences[:10], normalization="power")])

    expected = links(regard.load(run, device="cpu"))
    for path in (run, exported):
        assert links(open_translator(path, "ctranslate2", settings=SETTINGS, alignments=True)) == expected
    shutil.copytree(exported, tmp_path / "away")
    with pytest.raises(RegardError, match="no weights for torch, from which alignments are read"):
        open_translator(tmp_path / "away", settings=SETTINGS, alignments=True)
    bare = open_translator(tmp_path / "away", settings=SETTINGS)
    with pytest.raises(RegardError, match="need the run itself"):
        links(bare)


def test_a_sentence_beyond_the_exports_positions_is_cut(exported: Path) -> None:
    translator = open_translator(exported, settings=SETTINGS, extra_length=1, beam_size=1)
    found = translator.search(["a " * 2100])[0][0]
    assert len(found.source_tokens) == translator.longest == 2048
    assert found.cut > 0


def test_wrong_wishes_end_in_a_sentence(run: Path, exported: Path, tmp_path: Path) -> None:
    with export(run, "marian", tmp_path / "marian"):
        pass
    for path, options, words in (
        (run, {"engine": "onnx"}, "choose auto, torch, ctranslate2"),
        (run, {"engine": "ctranslate"}, "did you mean ctranslate2"),
        (run, {"engine": "torch", "quantization": "int8"}, "leave --quantization out"),
        (run, {"quantization": "int4"}, "no quantization int4"),
        (run, {"settings": Settings(compute_type="int8")}, "--compute-type int8 is for CTranslate2, and torch"),
        (exported, {"engine": "torch"}, "no weights for torch"),
        (exported, {"quantization": "int8"}, "holds float32"),
        (exported, {"which": "best"}, "one set of weights"),
        (tmp_path / "marian", {}, "format marian"),
        (tmp_path, {}, "not a run directory"),
    ):
        with pytest.raises(RegardError, match=words):
            open_translator(path, **{"settings": SETTINGS, **options})  # type: ignore[arg-type]


# --- the command -------------------------------------------------------------------------------------------


def test_the_command_takes_a_run_an_export_and_files(
    run: Path, exported: Path, tmp_path: Path, sentences: list[str]
) -> None:
    text = "\n".join(sentences) + "\n"
    with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    by_stdin = call(run, text=text)
    assert by_stdin.returncode == 0, by_stdin.stderr
    printed = call(run, "--input", tmp_path / "in.gz", "--chunk", "17")
    assert printed.stdout == by_stdin.stdout
    options = ("--json", "--n-best", "2", "--alignments")
    expected = call(run, "--engine", "ctranslate2", *options, text=text)
    result = call(exported, "-i", tmp_path / "in.gz", "-o", tmp_path / "out.gz", *options)
    assert result.returncode == 0, result.stderr
    assert "60 lines translated" in result.stderr
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == expected.stdout
    assert [len(json.loads(line)["translations"]) for line in expected.stdout.splitlines()] == [2] * 60


def test_a_job_begun_otherwise_is_refused_by_name(run: Path, tmp_path: Path, sentences: list[str]) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(("\n".join(sentences[:20]) + "\n").encode() + b"\xff\n")
    first = call(run, "-i", source, "-o", output, "--chunk", "10")
    assert (first.returncode, "line 21: byte 1 is not UTF-8" in first.stderr) == (2, True)
    source.write_text("\n".join(sentences[:21]) + "\n")
    other = call(run, "-i", source, "-o", output, "--chunk", "10", "--beam", "2")
    assert other.returncode == 2
    assert "beam_size was 4, now 2" in other.stderr
    assert "--restart" in other.stderr
    again = call(run, "-i", source, "-o", output, "--chunk", "10")
    assert again.returncode == 0, again.stderr
    assert "Going on after line 20." in again.stderr
    assert output.read_text().splitlines() == regard.load(run).translate(sentences[:21])
    for arguments, words in (
        (("-i", source, "-o", output), "is there already"),
        (("-o", output), "--output needs --input"),
        (("--restart",), "--restart is for --output"),
        (("-i", source, "-o", output, "--restart", "--verify-batch"), "leave --output out"),
    ):
        refused = call(run, *arguments)
        assert refused.returncode == 2
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr


def records(journal: Path) -> int:
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


@pytest.mark.parametrize("engine", ["ctranslate2", pytest.param("torch", marks=pytest.mark.soak)])
def test_a_job_killed_five_times_ends_with_the_same_file(
    run: Path, exported: Path, tmp_path: Path, sentences: list[str], engine: str
) -> None:
    """Each time at a random moment after it has got a little further."""
    chance = random.Random(time.time_ns())
    lines = [chance.choice(sentences) for _ in range(2000)]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    arguments = (run, "--engine", engine, "--chunk", "20", "--scores", "-i", tmp_path / "in.txt", "-o")
    whole = start(*arguments, tmp_path / "whole.txt")
    killed, journal = 0, tmp_path / "killed.txt.journal"
    while killed < 5 and not (tmp_path / "killed.txt").exists():
        process, before = start(*arguments, tmp_path / "killed.txt"), records(journal)
        while process.poll() is None and records(journal) < before + 2:
            time.sleep(0.001)
        time.sleep(0.1 * chance.random())
        process.kill()
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        killed += process.returncode == -signal.SIGKILL
    if not (tmp_path / "killed.txt").exists():
        last = start(*arguments, tmp_path / "killed.txt")
        assert "Going on after line" in last.communicate(timeout=240)[1].decode()
        assert last.returncode == 0
    assert killed == 5
    whole.communicate(timeout=240)
    assert (tmp_path / "killed.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "killed.txt", "whole.txt"]


def test_exports_lie_inside_their_run(run: Path, exported: Path) -> None:
    assert exported.parent == run / EXPORTS


def test_phrases_prefixes_samples_and_ensembles_by_the_command(run: Path, tmp_path: Path, sentences: list[str]) -> None:
    text = "".join(f"{sentence}\n" for sentence in sentences[:6])
    (tmp_path / "terms.tsv").write_text(f"{sentences[0].split()[0]}\tq q q\n", encoding="utf-8")
    lines = call(run, "--glossary", tmp_path / "terms.tsv", "--forbid", "e", text=text).stdout.splitlines()
    assert len(lines) == 6
    assert "q q q" in lines[0]
    assert not any("e" in line.split() for line in lines)
    (tmp_path / "prefixes.txt").write_text("a\nb\n\nc\nd\na b\n", encoding="utf-8")
    lines = call(run, "--prefixes", tmp_path / "prefixes.txt", text=text).stdout.splitlines()
    assert [line[0] for i, line in enumerate(lines) if i != 2] == ["a", "b", "c", "d", "a"]
    drawing = "--sample", "--temperature", "1.5", "--n-best", "3"
    drawn = [call(run, *drawing, "--seed", str(seed), text=text).stdout for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0].splitlines()) == 18
    assert call(run, "--with", run, text=text).stdout == call(run, text=text).stdout


def test_prefixes_are_as_many_as_lines(run: Path, tmp_path: Path) -> None:
    source, prefixes = tmp_path / "in.txt", tmp_path / "prefixes.txt"
    source.write_text("a b\nb a\n", encoding="utf-8")
    for text, words in (("a\nb\nc\n", "2 lines and 3 prefixes"), ("a\n", "2 lines and 1 prefix:"), ("", "0 prefixes")):
        prefixes.write_text(text, encoding="utf-8")
        for arguments in (("-i", source), ("-i", source, "-o", tmp_path / "out.txt")):
            refused = call_here(run, "--prefixes", prefixes, *arguments)
            assert isinstance(refused.exception, RegardError)
            assert words in str(refused.exception)
            assert refused.stdout == ""  # before anything is translated
    assert not list(tmp_path.glob("out.txt*"))
    prefixes.write_text("a\nb\nc\n", encoding="utf-8")
    streamed = call(run, "--prefixes", prefixes, text="a b\nb a\n")
    assert streamed.returncode == 2
    assert "2 lines and 3 prefixes: give one for each line" in streamed.stderr
    with pytest.raises(RegardError, match="more lines than the 0 prefixes"):
        Asked(prefixes=()).wishes(0, ["a"])


def test_translations_that_did_not_end_are_counted(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n\na b c d\nb c d\n", encoding="utf-8")
    asked = ("-i", tmp_path / "in.txt", "--max-length", "3")
    for engine in ("torch", "ctranslate2"):
        told = call_here(run, *asked, "--engine", engine).stderr
        assert "2 translations came to the limit of tokens without an end, the first in line 3" in told
    assert "without an end" not in call_here(run, "-i", tmp_path / "in.txt").stderr


def test_a_prefix_of_an_empty_line_is_remarked(run: Path) -> None:
    remarks: list[str] = []
    model, asked = regard.load(run), Asked(prefixes=("", "a", "", "b"))
    lines = LineTranslator(model, LineFormat(), asked=asked, remark=remarks.append)
    assert [len(lines(first, some)) for first, some in ((0, ["a b", " "]), (2, ["", "b"]))] == [2, 2]
    assert len(remarks) == 1
    assert remarks[0].startswith("line 2 has a prefix but nothing to translate")


def test_options_that_would_do_nothing_are_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("c\ta\nd\tЖ\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text("a b\n", encoding="utf-8")
    for arguments, words in (
        (("--seed", "7"), "--seed is for drawing: add --sample"),
        (("--seed", "1"), "--seed is for drawing: add --sample"),
        (("--temperature", "0.5"), "set decode.sample = true (--sample)"),
        (("--sample", "--beam", "8"), "--sample draws and --beam searches"),
        (("--compute-type", "int8"), "--compute-type int8 is for CTranslate2"),
        (("--blockwise", "--beam", "2"), "decode.beam_size = 1, not 2 (--beam 1)"),
        (("--forbid", ""), "--forbid is empty"),
        (("--unmet", "skip"), "choose stop or free"),
        (("--glossary", tmp_path / "terms.tsv"), "The glossary's entry of 'd' cannot be met. The required phrase 'Ж'"),
    ):
        refused = call_here(run, "-i", tmp_path / "in.txt", *arguments)
        assert isinstance(refused.exception, RegardError), arguments
        assert words in str(refused.exception)
    assert "--chunk is for --input" in str(call_here(run, "--chunk", "5").exception)
    assert call_here(run, "-i", tmp_path / "in.txt", "--sample", "--seed", "7").exit_code == 0
    free = call_here(run, "-i", tmp_path / "in.txt", "--glossary", tmp_path / "terms.tsv", "--unmet", "free")
    assert free.exit_code == 0, "the term does not come"


def test_a_job_without_a_terminal_says_how_far_it_is(
    run: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[deciding.__module__], "LINE_SECONDS", 0.0)
    (tmp_path / "in.txt").write_text("\n".join(sentences[:8]) + "\n")
    done = call_here(run, "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--chunk", "4")
    assert done.exit_code == 0, done.stderr
    assert re.search(r"^[1-9]\d%, 4 lines, [\d.,]+ a second, \d:\d\d:\d\d left$", done.stderr, re.MULTILINE)
    assert re.search(r"^100%, 8 lines", done.stderr, re.MULTILINE)


def test_ctrl_c_in_a_job_says_how_many_lines_are_kept(run: Path, tmp_path: Path, sentences: list[str]) -> None:
    (tmp_path / "in.txt").write_text("\n".join(sentences * 100) + "\n")
    process, journal = (
        start(run, "--chunk", "20", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"),
        tmp_path / "out.txt.journal",
    )
    while process.poll() is None and records(journal) < 3:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors.decode()
    found = re.search(r"interrupted\. ([\d,]+) lines are kept: the same command goes on there\.", errors.decode())
    assert found
    assert int(found[1].replace(",", "")) in (20 * (records(journal) - 1), 20 * (records(journal) - 2))


def test_a_line_whose_demands_contradict_one_another_is_named_and_can_be_left_free(run: Path, tmp_path: Path) -> None:
    source, prefixes, output = (tmp_path / name for name in ("in.txt", "prefixes.txt", "out.txt"))
    source.write_text("b c\nc d\nd b c\nc b\n", encoding="utf-8")
    prefixes.write_text("\n\na d\n\n", encoding="utf-8")
    asked = ("-i", source, "-o", output, "--chunk", "2", "--prefixes", prefixes, "--forbid", "a")
    stopped = call_here(run, *asked)
    assert isinstance(stopped.exception, RegardError)
    assert str(stopped.exception).startswith("line 3: No translation of 'd b c' is all that is asked of it")
    done = call(run, *asked, "--unmet", "free")
    assert done.returncode == 0, done.stderr
    assert "Going on after line 2." in done.stderr
    assert "line 3: No translation of 'd b c' is all that is asked" in done.stderr
    assert len(output.read_text().splitlines()) == 4
    assert output.read_text().splitlines()[2] == regard.load(run).translate("d b c")


def test_what_has_no_room_is_left_out_too_and_said_once(run: Path) -> None:
    remarks: list[str] = []
    model = regard.load(run)
    model.config = model.options(max_length=3)
    asked, verifier = Asked(prefixes=("", "a b c d")), Verifier(model)
    lines = LineTranslator(model, LineFormat(), asked=asked, freely=True, verifier=verifier, remark=remarks.append)
    assert len(lines(0, ["b c", "c d"])) == 2
    assert [remark.split(":")[0] for remark in remarks] == ["line 2"]
    assert remarks[0].endswith("contradict one another. The line is translated without what is asked.")
    assert verifier.total == 2


def test_a_line_whose_demands_cannot_be_written_is_named_and_can_be_left_free(run: Path) -> None:
    remarks: list[str] = []
    model, lines = regard.load(run), ["b c", "c d", "", "d b c", "c b"]
    prefixes, glossary = ("", "Ж", "Ж", "", ""), Glossary((("d b", "a Щ"), ("c b", " ".join(["a b c"] * 21))))
    line = LineTranslator(model, LineFormat(), asked=Asked(glossary, prefixes=prefixes), remark=remarks.append)
    with pytest.raises(RegardError, match=r"line 2: The prefix 'Ж' cannot be written .* 2 other sentences .*--unmet"):
        line(0, lines)
    assert replace(line, freely=True)(0, lines) == [model.translate(text) for text in lines]
    expected = ["line 2: The prefix 'Ж' cannot", "line 4: The required phrase 'a Щ' cannot", "line 5: .* at most 60"]
    expected.append("line 3 has a prefix but nothing to translate")
    assert len(remarks) == len(expected)
    for remark, words in zip(remarks, expected, strict=True):
        assert re.match(words, remark)


def test_several_lines_without_a_translation_are_counted(run: Path) -> None:
    lines = LineTranslator(regard.load(run), LineFormat(), asked=Asked(forbidden=("a",), prefix="a d"))
    with pytest.raises(RegardError, match=r"line 11: .*'b c' .* 2 other sentences cannot be"):
        lines(10, ["b c", "c d", "", "d"])


def test_any_key_of_decode_can_be_set(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b c d e f\n", encoding="utf-8")
    cut = call_here(run, "-i", tmp_path / "in.txt", "--set", "decode.max_source=4", "--set", "decode.beam_size=1")
    assert cut.exit_code == 0
    assert "line 1: its last 6 tokens are more than the model reads and were cut off" in cut.stderr
    for pair, words in (("train.steps=4", "the keys of [decode] can be set"), ("decode.beam_sise=1", "did you mean")):
        refused = call_here(run, "-i", tmp_path / "in.txt", "--set", pair)
        assert words in str(refused.exception)


def test_an_altered_export_of_a_run_is_refused_until_it_is_trained_further(run: Path, tmp_path: Path) -> None:
    with export(run, "safetensors", tmp_path / "out"):
        pass
    open_translator(tmp_path / "out", settings=SETTINGS, device="cpu")
    recipe = tmp_path / "out" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("beam_size = 4", "beam_size = 2"))
    with pytest.raises(RegardError, match=r"recipe\.toml is missing or not the one that was exported"):
        open_translator(tmp_path / "out", settings=SETTINGS, device="cpu")
    shutil.copytree(run / "checkpoints", tmp_path / "out" / "checkpoints")
    assert open_translator(tmp_path / "out", settings=SETTINGS, device="cpu").config.beam_size == 2


def test_a_job_with_other_phrases_is_another_job(run: Path, tmp_path: Path, sentences: list[str]) -> None:
    model = regard.load(run)
    plain = LineTranslator(model, LineFormat())
    assert deciding(plain) != deciding(LineTranslator(model, LineFormat(), asked=Asked(forbidden=("a",))))
    assert deciding(plain) == deciding(LineTranslator(model, LineFormat(), asked=Asked()))
    other = deciding(LineTranslator(model, LineFormat(), asked=Asked(forbidden=("a",), prefixes=("b",))))
    assert changes(deciding(plain), other) == ["other phrases", "other prefixes"]
