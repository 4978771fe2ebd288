"""A parser trained in seconds on generated trees: its scores, its search, its commands."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.cli.evaluate_parser import chosen
from regard.config import ParsingRecipe, resolve, resolve_as
from regard.data.linearise import Repairs
from regard.data.treebank import load
from regard.data.trees import NO_PARSE, normalise, read_trees, tree_of, write_trees
from regard.decode.parser import Parser
from regard.errors import RegardError
from regard.tasks.attention import bracket_attention
from regard.tasks.parsing import Judged, judge, prepare
from regard.tasks.parsing_report import Report
from regard.training.parsing import load_parser, recipe_of
from regard.training.run import Run
from regard.training.start import fit

RECIPE: dict[str, Any] = {
    "name": "small-parser",
    "task": "parsing",
    "data": {"corpus": "sentences", "train_size": 1500, "valid_size": 40, "test_size": 60},
    "tokenizer": {"vocab_size": 150, "sampling": 0.1},
    "model": {"n_layers": 1, "d_model": 64, "d_ff": 128, "n_heads": 4, "dropout": 0.0, "next_word": True},
    "train": {
        "steps": 80, "batch_tokens": 1000, "schedule": "linear", "warmup_steps": 20, "peak_lr": 5e-3, "average": 1,
        "valid_every": 40, "valid_sentences": 20, "save_every": 40, "tensorboard": False, "report_every": 20,
    },
    "decode": {"beam_size": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody's to change."""
    path = tmp_path_factory.mktemp("parser") / "run"
    regard.train(RECIPE, path)
    return path


@pytest.fixture(scope="module")
def parser(run: Path) -> Parser:
    return load_parser(run)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def call(*words: object, text: str = "") -> Done:
    """The command in this process; a process of its own would spend its time on importing torch."""
    found = CliRunner().invoke(app, [str(word) for word in words], input=text)
    if isinstance(found.exception, RegardError):
        return Done(2, found.stdout, f"regard: {found.exception}")
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Done(found.exit_code, found.stdout, found.stderr)


def test_a_parser_learns_and_beats_the_trivial_trees(run: Path) -> None:
    scores = json.loads((run / "report" / "scores.json").read_text())["test"]
    assert scores["f1"] > 65 > max(scores["trivial"].values()) + 20
    assert scores["malformed"]["rate"] == 0
    assert scores["sentences"] == 60
    valid = [record for record in Run(run).records() if record["kind"] == "valid"]
    assert [record["step"] for record in valid] == [40, 80]
    assert all({"loss", "perplexity", "f1"} <= set(record) for record in valid)
    best = max(valid, key=lambda record: record["f1"])["step"]
    assert (run / "best").resolve().name == f"step-{best:06d}"
    for name in (
        "report.txt",
        "test.trees",
        "attention.html",
        "attention.png",
        "attention.svg",
        "lengths.png",
        "loss.png",
    ):
        assert (run / "report" / name).stat().st_size, name
    assert len(list(read_trees(run / "report" / "test.trees"))) == 60


def test_constrained_outputs_are_never_malformed_and_free_ones_are_repaired(parser: Parser, run: Path) -> None:
    treebank = load(recipe_of(Run.open(run)).data, "test")
    for beam in (1, 4):
        judged = judge(parser, treebank, beam_size=beam)
        assert judged.repairs.malformed == 0
        assert judged.total.errors == judged.total.skipped == 0
    nonsense = [("of",) * 12, ("!", "!", "who"), ("Anna",) * 40]
    free = [best[0] for best in parser.trees(nonsense, beam_size=1, constrained=False)]
    bound = [best[0] for best in parser.trees(nonsense, beam_size=1)]
    assert all(one.tree.words == words for one, words in zip(free, nonsense, strict=True))
    assert any(one.repairs.total for one in free)
    assert all(one.repairs == Repairs() and one.tree.words == words for one, words in zip(bound, nonsense, strict=True))


def test_trees_do_not_depend_on_the_batch(parser: Parser) -> None:
    sentences = [tree.words for tree in load(resolve_as(ParsingRecipe, RECIPE).data, "test").gold[:12]]
    assert parser.parse(sentences, batch_sentences=5) == [parser.parse([one])[0] for one in sentences]


def test_trees_of_slots_that_stay_are_those_of_fresh_ones(parser: Parser) -> None:
    """Under the grammar and without; a second search finds the slots as the first left them."""
    sentences = [tree.words for tree in load(resolve_as(ParsingRecipe, RECIPE).data, "test").gold[:12]]
    for part in (sentences, sentences[2:4]):
        for constrained in (True, False):
            kept, fresh = (
                parser.trees(part, n_best=2, beam_size=3, batch_sentences=3, constrained=constrained, recorded=when)
                for when in ("always", "never")
            )
            assert [[one.output.target_tokens for one in best] for best in kept] == [
                [one.output.target_tokens for one in best] for best in fresh
            ]
    assert len(parser.benches.kept) > 1


def test_one_word_no_word_and_very_many_words(parser: Parser) -> None:
    assert parser.parse("") == NO_PARSE
    assert parser.parse("   ") == NO_PARSE
    assert parser.parse("Anna").words == ("Anna",)
    long = ("the", "old", "dog", "saw", "Anna", "and", "she", "slept", "near", "a", "river") * 23
    tree = parser.parse([long[:250]], beam_size=1)[0]
    assert tree.words == long[:250]
    assert tree.brackets[0][1:] == (0, 250)
    assert tree_of(str(tree)) == tree
    assert parser.parse([("(", "odd", ")", "a\xa0b")])[0].words == ("(", "odd", ")", "a\xa0b")


def test_brackets_may_be_written_as_bracket_files_write_them(parser: Parser) -> None:
    assert parser.parse("Anna -LRB- slept -RRB-").words == ("Anna", "(", "slept", ")")
    assert parser.parse([("Anna", "-LRB-")])[0].words == ("Anna", "-LRB-")  # words one by one are what they are


def test_confidence_is_the_mean_probability_of_a_symbol(parser: Parser) -> None:
    ((sure,), (unsure,)) = parser.trees(["the dog slept .", "of of who who ! of"])
    assert sure.confidence == pytest.approx(math.exp(sure.output.log_prob / len(sure.output.target_tokens)))
    assert 0 < unsure.confidence < sure.confidence <= 1


def test_the_log_probability_is_that_of_teacher_forcing(parser: Parser) -> None:
    """The model fed with the finished tree, in one pass."""
    one = parser.trees(["the old dog saw Anna ."], beam_size=3)[0][0].output
    with torch.inference_mode():
        logits = parser.feed([one.source_tokens], [one.target_tokens])[0]
    total = logits.log_softmax(-1).gather(1, torch.tensor(one.target_tokens)[:, None]).sum()
    assert float(total) == pytest.approx(one.log_prob, abs=1e-3)


def test_attention_is_in_the_order_of_the_sentence(parser: Parser) -> None:
    """The memory is in another order: what it says of each word must come back to its place."""
    one = parser.trees(["the old village slept ."])[0][0].output
    tokens = torch.tensor(one.source_tokens)
    order = parser.memory_order(one.source_tokens)
    assert sorted(order) == list(range(len(tokens)))
    assert order != list(range(len(tokens)))  # some word has two pieces, or this test shows nothing
    with regard.capture(parser.model) as maps, torch.inference_mode():
        parser.feed([one.source_tokens], [one.target_tokens])
    (path,) = [path for path in maps if path.endswith("cross_attn")]
    assert torch.equal(parser.attend(one)[path][:, :, order], maps[path][0])


def test_plain_trees_and_the_papers_decoder_train_too(tmp_path: Path) -> None:
    change = {
        "data.form": "plain", "data.train_size": 200, "model.next_word": False, "model.word_dropout": 0.1,
        "train.steps": 3, "train.valid_every": 3, "train.save_every": 3, "decode.constrained": False,
        "train.layout": "padded", "tokenizer.vocab_size": 120,
    }  # fmt: skip
    fit(RECIPE, tmp_path / "run", change)
    parser = load_parser(tmp_path / "run")
    tree = parser.parse("the dog slept .", constrained=True)
    assert tree.tags == ("XX",) * 4
    (record,) = [one for one in Run(tmp_path / "run").records() if one["kind"] == "valid"]
    assert 0 <= record["malformed"] <= 100


def test_a_parser_of_joined_unary_chains_gives_whole_trees(tmp_path: Path) -> None:
    """Its symbols stand for several brackets; what comes out, is scored and is drawn has them one by one."""
    recipe = resolve_as(ParsingRecipe, RECIPE, {"data.unary": "join", "train.steps": 40})
    fit(recipe, tmp_path / "run", console=Console(quiet=True))
    parser, treebank = load_parser(tmp_path / "run"), load(recipe.data, "test")
    judged = judge(parser, treebank, beam_size=1)
    assert judged.total.labelled.f1 > 40
    assert judged.repairs.malformed == 0
    assert not any("+" in bracket.label for tree in judged.trees for bracket in tree.brackets)
    corpus = treebank.corpus(recipe.data)
    number = next(i for i, text in enumerate(corpus.target) if "+" in text)
    gold = treebank.gold[number]
    parsed = parser.parsed(gold.words, parser.given(corpus.source[number], corpus.target[number]))
    assert parsed.tree == normalise(gold)
    (weights,) = bracket_attention(parser, parsed).values()
    assert weights.shape == (len(gold.brackets), len(gold.words))


def test_self_training_goes_on_from_a_run_with_its_own_parses(run: Path, tmp_path: Path) -> None:
    """Parse, filter by confidence, retrain."""
    text = "\n".join(" ".join(tree.words) for tree in load(resolve_as(ParsingRecipe, RECIPE).data, "valid").gold)
    done = call("parse", run, "--beam", 1, "--least-confidence", 0.8, text=text)
    assert done.returncode == 0, done.stderr
    kept = int(re.search(r"(\d+) of 40 trees", done.stderr)[1])  # type: ignore[index]
    (tmp_path / "more.trees").write_text(done.stdout)
    assert len(list(read_trees(tmp_path / "more.trees"))) == kept > 0
    change = {
        "init": str(run), "data.extra": [str(tmp_path / "more.trees")], "data.gold_times": 2, "train.steps": 2,
        "train.valid_every": 2, "train.save_every": 2, "model.word_dropout": 0.2,
    }  # fmt: skip
    heard = io.StringIO()
    fit(RECIPE, tmp_path / "run", change, console=Console(file=heard, width=200))
    assert f"{2 * 1500 + kept:,} trees" in heard.getvalue()


def test_a_test_file_is_missed_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("(S (NP (NN dogs)) (VP (VB sleep)))\n" * 20)
    trees = [str(tmp_path / "trees")]
    data = {"train": trees, "valid": trees, "test": [str(tmp_path / "nowhere")]}
    with pytest.raises(RegardError, match=r"No such file: .*nowhere"):
        fit({**RECIPE, "data": data}, tmp_path / "run")


def test_a_resumed_run_sees_the_same_trees(tmp_path: Path) -> None:
    first = prepare(resolve_as(ParsingRecipe, RECIPE), tmp_path / "t", None, lambda text: None)
    again = prepare(resolve_as(ParsingRecipe, RECIPE), tmp_path / "t", None, lambda text: None)
    assert first.fingerprints == again.fingerprints
    numbers = first.order.plan(1)[0]
    one, other = (task.batch(numbers, torch.device("cpu")) for task in (first, again))
    assert torch.equal(one.src, other.src)
    assert torch.equal(one.expected, other.expected)
    assert first.n_tokens(numbers) == len(one.expected)


def test_own_tags_may_lose_a_sentence_and_gold_tags_never() -> None:
    gold = tree_of("(S (NP (NN a)) (VP (VBZ b)) (. .))")
    wrong = tree_of("(S (NP (NN a)) (VP (. b)) (. .))")
    judged = Judged.of([gold], [wrong])
    assert judged.total.labelled.f1 == 100
    assert judged.own[0].status == "error"


# --- commands --------------------------------------------------------------------------------------------


def test_parse_prints_a_tree_for_every_line(run: Path, tmp_path: Path) -> None:
    done = call("parse", run, text="the dog slept .\n\nAnna\n")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert tree_of(first).words == ("the", "dog", "slept", ".")
    assert second == "(())"
    assert tree_of(third).words == ("Anna",)
    assert call("parse", run, text="").stdout == ""
    brackets = call("parse", run, text="Anna -LRB- slept -RRB- .\n").stdout
    assert tree_of(brackets).words == ("Anna", "(", "slept", ")", ".")
    raw = call("parse", run, "--raw", "--json", "--no-tags", text='She said "no".\n')
    found = json.loads(raw.stdout)
    assert found["words"] == ["She", "said", "``", "no", "''", "."]
    assert set(found["tags"]) == {"XX"}
    assert found["repairs"] == {}
    svg = tmp_path / "tree.svg"
    drawn = call("parse", run, "--form", "drawn", "--beam", 1, "--free", "--svg", svg, text="Anna slept .\n")
    assert "└─ . ." in drawn.stdout
    assert svg.read_text().startswith("<svg")
    assert call("parse", run, "--form", "symbols", text="Anna slept .\n").stdout.startswith("(S (NP ")


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["--form", "round"], "a\n", "--form round is none of trees"),
        (["--svg", "two.svg"], "a b\nc d\n", "--svg draws one tree"),
    ],
)
def test_mistakes_are_told_in_one_sentence(run: Path, words: list[str], text: str, message: str) -> None:
    done = call("parse", run, *words, text=text)
    assert done.returncode == 2
    assert message in done.stderr


def test_gold_trees_alone_are_nothing_to_score(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))\n")
    done = call("evaluate", "--trees", tmp_path / "gold")
    assert done.returncode == 2
    assert "--hypotheses FILE" in done.stderr


def test_verbs_for_translation_refuse_a_parser_and_the_other_way_round(run: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('name = "translator"\n[data]\ncorpus = "en-de"\n')
    for words, message in [
        (("translate", run), 'is of task = "parsing"'),
        (("parse", tmp_path), 'is of task = "translation"'),
        (("evaluate", run, "--source", "x", "--reference", "y"), "A parser is scored against trees"),
        (("view", run, " "), "The sentence is empty"),
    ]:
        done = call(*words, text="a\n")
        assert done.returncode == 2, done.stderr
        assert message in done.stderr


def test_evaluate_tells_all_figures_and_whether_a_difference_is_real(run: Path, tmp_path: Path) -> None:
    save, plot, gold = tmp_path / "out.trees", tmp_path / "lengths.png", tmp_path / "gold.trees"
    done = call("evaluate", run, "--by-length", "--plot", plot, "--save", save, "--beam", 1, "--threads", 1)
    assert done.returncode == 0, done.stderr
    for part in ("test F1 = ", "labelled", "unlabelled", "exact match", "crossing", "own tags", "malformed", "flat"):
        assert part in done.stdout
    assert "by label" in done.stdout
    assert "by length" in done.stdout
    assert plot.stat().st_size
    treebank = load(recipe_of(Run.open(run)).data, "test")
    write_trees(gold, treebank.gold)
    again = call("evaluate", "--trees", gold, "--hypotheses", save, "--json", "--baseline", gold)
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)["gold.trees"]
    assert f"test F1 = {found['f1']:.2f}" in done.stdout
    assert found["baseline"]["f1"] == 100
    assert found["comparison"]["difference"] < 0
    assert found["comparison"]["p_value"] < 0.05
    assert found["constrained"] is None
    assert found["malformed"] is None
    few = tmp_path / "few.trees"
    write_trees(few, treebank.gold[:3])
    assert "has 3 trees but" in call("evaluate", "--trees", gold, "--hypotheses", few).stderr


def test_trees_of_a_file_that_evalb_would_not_score_are_counted_and_nothing_is_said_that_was_not_measured(
    tmp_path: Path,
) -> None:
    gold, ours = tmp_path / "gold.trees", tmp_path / "ours.trees"
    gold.write_text("(S (NP (NN a)) (VP (VBZ b)))\n" * 4)
    ours.write_text("(S (NP (NN a)) (VP (VBZ b)))\n(())\n(S (NN a) (NN c))\n(S (NN a) (NN b) (NN c))\n")
    done = call("evaluate", "--trees", gold, "--hypotheses", ours)
    assert done.returncode == 0, done.stderr
    assert "4 sentences, of them 1 skipped and 2 errors" in done.stdout
    # 3 brackets matched of 3 parsed and 12 gold: 2·3 / 15.
    assert "F1  40.00 where sentences skipped and errors count as not parsed" in done.stdout
    assert "(EVALB, COLLINS; gold tags)" in done.stdout
    assert "malformed" not in done.stdout


def test_one_of_several_treebanks_is_chosen_by_the_name_of_its_file() -> None:
    data = resolve_as(ParsingRecipe, "joint-parser").data
    one = chosen(data, "gum")
    assert ([Path(file).name for file in one.files], one.splits) == (["gum.trees.xz"], ("named",))
    assert one.test_documents == data.test_documents
    assert chosen(data, "") == data
    with pytest.raises(RegardError, match="must name one of wsj_nltk_sample"):
        chosen(data, "ptb")


def test_view_shows_the_tree_beside_what_its_brackets_attended_to(run: Path, tmp_path: Path) -> None:
    done = call("view", run, "the old dog saw Anna .", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.match(r"S +\S.* \d+%, \S.* \d+%", done.stdout.splitlines()[0])
    for ending in (".html", "-tree.html", ".png", ".svg"):
        assert (tmp_path / f"view{ending}").stat().st_size


def test_the_recipes_of_parsers_resolve() -> None:
    for name in ("demo-parser", "wsj-parser-paper", "wsj-sample-parser", "gum-parser", "craft-parser", "joint-parser"):
        assert isinstance(resolve(name), ParsingRecipe), name
    paper = resolve_as(ParsingRecipe, "wsj-parser-paper")
    assert (paper.model.n_layers, paper.model.d_model, paper.tokenizer.vocab_size) == (4, 1024, 16_000)
    assert (paper.decode.beam_size, paper.decode.length_penalty, paper.decode.extra_length) == (21, 0.3, 300)
    assert not paper.model.next_word
    assert resolve_as(ParsingRecipe, {"task": "parsing", "model": {"preset": "big"}}).model.d_model == 1024


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("tokenizer.shared", True, "leave it false"), ("model.tie", "all", "cannot share one matrix"),
        ("model.block_heads", 2, "block_heads"), ("train.freeze", "base", "train.freeze"),
        ("decode.iterations", 3, "means nothing"), ("train.best_by", "bleu", "must be one of"),
        ("decode.constraint", True, "did you mean decode.constrained"), ("train.valid_sentences", 0, "best_by"),
    ],
)  # fmt: skip
def test_a_recipe_that_cannot_be_is_refused_in_a_sentence(key: str, value: object, words: str) -> None:
    with pytest.raises(RegardError, match=re.escape(words)):
        resolve(RECIPE, {key: value})


def test_a_report_without_tags_says_nothing_of_tagging(parser: Parser) -> None:
    treebank = load(resolve_as(ParsingRecipe, RECIPE).data, "valid")
    told = Report.of(parser, treebank, "plain")
    assert "tagging_accuracy" not in told.record()
    assert not any("own tags" in line for line in told.lines())
