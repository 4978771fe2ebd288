"""`regard evaluate`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate_parser import ParserRequest, evaluate_parser
from regard.cli.options import (
    AsJson,
    BatchSentences,
    Beam,
    Device,
    Iterations,
    LengthCandidates,
    Penalty,
    Threads,
    Weights,
    bar,
    given,
    open_model,
    warn,
)
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.decode.translator import Translator
    from regard.evaluate.literature import Style
    from regard.evaluate.texts import Judgement
    from regard.tasks.test_sets import ScoredSet

COMPARING, OLDER, MORE = "Comparing", "BLEUs of older papers", "More to see and keep"
PARSING = "Of a parser"


def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory.")] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="A part of the recipe's text, e.g. valid. Repeatable.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--source", help="Source text, instead of the recipe's.")] = None,
    reference: Annotated[
        list[Path] | None, typer.Option("--reference", help="Reference text; repeat it for several references.")
    ] = None,
    hypotheses: Annotated[Path | None, typer.Option("--hypotheses", help="Score this text; no run is needed.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="Another run, or a text: is the difference real?", rich_help_panel=COMPARING),
    ] = None,
    tokenized_lowercase: Annotated[
        bool,
        typer.Option("--tokenized-lowercase", help="Moses-tokenised, lower-cased BLEU.", rich_help_panel=OLDER),
    ] = False,
    compound_split: Annotated[
        bool,
        typer.Option(
            "--compound-split", help="Tokenised BLEU, words split at hyphens (##AT##-##AT##).", rich_help_panel=OLDER
        ),
    ] = False,
    language: Annotated[
        str | None,
        typer.Option("--language", help="Of the references, e.g. de; else by recipe or file name."),
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Scores by words of the reference.", rich_help_panel=MORE)
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the scores by length as a PNG.", rich_help_panel=MORE)
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the translations to this file.", rich_help_panel=MORE)
    ] = None,
    trees: Annotated[
        Path | None,
        typer.Option(
            "--trees", help="Gold trees, instead of the recipe's; with RUN or --hypotheses.", rich_help_panel=PARSING
        ),
    ] = None,
    treebank: Annotated[
        str,
        typer.Option("--treebank", help="One of several of the recipe, as its file begins.", rich_help_panel=PARSING),
    ] = "",
    constrained: Annotated[
        bool | None,
        typer.Option(
            "--constrained/--free",
            help="Only trees come out, or whatever comes.",
            show_default=False,
            rich_help_panel=PARSING,
        ),
    ] = None,
    log_probs: Annotated[
        bool,
        typer.Option(
            "--log-probs", help="Instead: how probable the model finds each given pair.", rich_help_panel=MORE
        ),
    ] = False,
    weights: Weights = "auto",
    beam: Beam = None,
    length_penalty: Penalty = None,
    iterations: Iterations = None,
    length_candidates: LengthCandidates = None,
    batch: BatchSentences = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Score a run on its recipe's test sets or on files, or score a text against its references.

    BLEU, chrF and TER are sacreBLEU's, with their signatures and 95 % intervals by bootstrap. BLEU splits Chinese,
    Japanese, Korean and Thai as sacreBLEU does for them (--language, where recipe and file names do not tell); its
    signature says how. With --baseline each difference gets p-values by paired bootstrap and by approximate
    randomisation, and is believed where both are below 0.05: they speak of the choice of test sentences, not of the
    luck of one training. The BLEUs of older papers depend on the tokenisation: their lines say how long the reference
    is. What other verbs call --test SOURCE TARGET is --source SOURCE --reference TARGET here.

    A run of classification or tagging is scored by its accuracy on --split, test by default.

    --log-probs (forced decoding) prints a line per pair: log-probability, tokens, log-probability per token, with tabs.

    Examples:  regard evaluate runs/demo

    regard evaluate runs/demo --split valid --by-length --save valid.out

    regard evaluate runs/demo --source test.en --reference test.de --baseline runs/old

    regard evaluate --hypotheses output.de --reference test.de --baseline other.de --plot lengths.png

    regard evaluate runs/demo --source test.en --reference test.de --log-probs

    A run that parses is scored by labelled F1 as EVALB counts it, with all its figures, by label and by length:

    regard evaluate runs/demo-parser --split valid --by-length --plot lengths.png --baseline runs/old-parser

    regard evaluate --trees gold.trees --hypotheses output.trees
    """
    from regard.config import LabelRecipe
    from regard.data.languages import check_code
    from regard.evaluate.literature import COMPOUND_SPLIT, TOKENISED_LOWERCASE
    from regard.tasks import telling
    from regard.tasks.test_sets import of_files, of_hypotheses, of_recipe
    from regard.training.run import Run, write_atomically

    if run and isinstance(Run.open(run).recipe, LabelRecipe):
        if source or reference or hypotheses or baseline or log_probs or by_length or plot:
            raise RegardError(f"{run} gives labels: --split, --save, --weights, --device and --json are for it.")
        evaluate_labels(run, split or ["test"], save, weights, device, as_json)
        return
    if language and (remark := check_code(language, "--language")):
        warn(remark)
    references = reference or []
    if trees or (run and Run.open(run).recipe.task == "parsing"):
        if source or references or log_probs or tokenized_lowercase or compound_split:
            raise RegardError("A parser is scored against trees: give --trees, or nothing for the recipe's own.")
        options = given(beam_size=beam, length_penalty=length_penalty, batch_sentences=batch, constrained=constrained)
        evaluate_parser(
            ParserRequest(
                run, split or [], trees, treebank, hypotheses, baseline, by_length, plot, save, as_json, weights,
                device, threads, options,
            )
        )  # fmt: skip
        return
    if treebank or constrained is not None:
        raise RegardError("--treebank and --constrained are for a run that parses.")
    check_request(run, split or [], source, references, hypotheses)
    check_options(run, source, references, baseline, log_probs)
    if hypotheses:
        sets = [of_hypotheses(hypotheses, references, source)]
    elif source:
        sets = [of_files(source, references)]
    else:
        sets = of_recipe(Run.open(run or "").pair_recipe.data, split or [])
    wanted = {TOKENISED_LOWERCASE: tokenized_lowercase, COMPOUND_SPLIT: compound_split}
    styles = [style for style, asked in wanted.items() if asked]
    sets = [replace(one, language=language or one.language) for one in sets]
    read = [file for file in (source, *references, hypotheses, baseline) if file]
    check_outputs(sets, {"--save": save, "--plot": plot}, read, log_probs)
    if styles:
        check_rules(sets)
    if baseline and not baseline.is_dir():
        sets = [with_baseline_text(sets, baseline)]
    options = given(beam_size=beam, length_penalty=length_penalty, batch_sentences=batch)
    options |= given(iterations=iterations, length_candidates=length_candidates)
    model = None
    other = open_model(baseline, weights, device, threads) if baseline and baseline.is_dir() else None
    if run:
        model = open_model(run, weights, device, threads)
        model.config = model.options(**own_options(model, other, options))
        if log_probs:
            print_log_probs(str(run), model, sets[0], as_json)
            return
        sets = [replace(one, texts=translated(model, one, str(run))) for one in sets]
    if save:
        write_atomically(save, "".join(f"{text}\n" for text in sets[0].texts))
    if baseline and other:
        sets = with_baseline_run(sets, baseline, other, own_options(other, model, options))
    judged = [judged_set(one, styles, by_length or bool(plot), model) for one in sets]
    names = [str(run or hypotheses), *([str(baseline)] if baseline else [])]
    if plot:
        telling.draw(sets, judged, names, plot)
    if as_json:
        found = {one.name: telling.record(one, told, names) for one, told in zip(sets, judged, strict=True)}
        print(json.dumps(found))
    else:
        both = zip(sets, judged, strict=True)
        told = [line for one, each in both for line in telling.lines(one, each, names, by_length)]
        print("\n".join([*told, *(["", f"scores by length  {plot}"] if plot else [])]))


def evaluate_labels(run: Path, splits: list[str], save: Path | None, weights: str, device: str, as_json: bool) -> None:
    """Accuracy of a run that gives labels; --save writes them, a line for each text."""
    from regard.training.labels import open_labelling, scores
    from regard.training.run import Run, write_atomically

    if save and len(splits) > 1:
        raise RegardError("--save is for one text: give a single --split.")
    if wrong := set(splits) - {"train", "valid", "test"}:
        raise RegardError(f"No split {min(wrong)}: there are train, valid and test.")
    labelling = open_labelling([Run.open(run)], weights, device)
    told = {split: scores(labelling, split) for split in splits}
    if save:
        write_atomically(save, "".join(" ".join(labels) + "\n" for labels in told[splits[0]][1]))
    if as_json:
        print(json.dumps({split: [asdict(score) for score in found] for split, (_, _, found) in told.items()}))
    else:
        print("\n".join(f"{split} {score}" for split, (_, _, found) in told.items() for score in found))


def check_request(
    run: Path | None, splits: list[str], source: Path | None, references: list[Path], hypotheses: Path | None
) -> None:
    whole = "Give a RUN, or RUN with --source and --reference, or --hypotheses with --reference."
    if (source or hypotheses) and not references:
        raise RegardError(f"--reference is missing. {whole}")
    if run and hypotheses:
        raise RegardError("RUN and --hypotheses are two texts: to compare them, give one of them with --baseline.")
    if splits and (not run or source):
        raise RegardError("--split names a part of a run's recipe: give it with RUN and without --source.")
    if run and references and not source:
        raise RegardError("--source is missing: what shall the run translate for this --reference?")
    if not run and not hypotheses:
        raise RegardError(whole)


def check_options(
    run: Path | None, source: Path | None, references: list[Path], baseline: Path | None, log_probs: bool
) -> None:
    if log_probs and not run:
        raise RegardError("--log-probs asks a model: give a RUN, with --source and --reference or alone.")
    if log_probs and len(references) > 1:
        raise RegardError("--log-probs scores pairs: give one --reference.")
    if baseline and baseline.is_dir() and not (run or source):
        raise RegardError(f"The baseline {baseline} is a run: give it the --source to translate, or a text instead.")


def check_outputs(sets: list[ScoredSet], files: dict[str, Path | None], read: list[Path], log_probs: bool) -> None:
    """What would fail later fails before anything is translated."""
    if len(sets) > 1 and (files["--save"] or log_probs):
        raise RegardError(f"{'--log-probs' if log_probs else '--save'} is for one text: choose {choices(sets)}.")
    for option, file in files.items():
        if file and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise RegardError(f"{option} {file} cannot be written: give a file in a folder that exists.")
        if file and file.resolve() in [other.resolve() for other in read]:
            raise RegardError(f"{option} {file} would overwrite a text that is read: give another name.")
    plot = files["--plot"]
    if plot and plot.suffix.lower() != ".png":
        raise RegardError(f"--plot draws a PNG: name it {plot.with_suffix('.png')}.")


def check_rules(sets: list[ScoredSet]) -> None:
    """Where a text will have to be tokenised, the rules must be there."""
    from regard.data.moses import is_tokenised, moses_rules

    for one in sets:
        if not is_tokenised(one.references[0]):
            moses_rules(one.language)


def choices(sets: list[ScoredSet]) -> str:
    return " or ".join(f"--split {one.name}" for one in sets)


def translated(model: Translator, one: ScoredSet, who: str) -> list[str]:
    """The model's translations of a set, with a word on what it could not read whole."""
    assert one.source is not None
    with bar(f"{who} translates {one.name}", len(one.source)) as progress:
        found = [best[0] for best in model.search(one.source, progress=progress)]
    cut = sum(translation.cut > 0 for translation in found)
    if cut:
        warn(f"{cut} sentences of {one.name} were longer than the positions of {who} and were cut")
    return [translation.text for translation in found]


def with_baseline_text(sets: list[ScoredSet], baseline: Path) -> ScoredSet:
    from regard.data.files import read_lines
    from regard.tasks.test_sets import check_lines

    if len(sets) > 1:
        raise RegardError(f"{baseline} is one text: choose what it translates with {choices(sets)}.")
    texts = list(read_lines(baseline))
    check_lines({Path(sets[0].name): sets[0].references[0], baseline: texts})
    return replace(sets[0], baseline=texts)


def with_baseline_run(
    sets: list[ScoredSet], baseline: Path, model: Translator, options: dict[str, Any]
) -> list[ScoredSet]:
    model.config = model.options(**options)
    return [replace(one, baseline=translated(model, one, str(baseline))) for one in sets]


def own_options(model: Translator, other: Translator | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that are meant for the other model of a comparison, which is of another kind."""
    from regard.config import FOREIGN

    others = set(FOREIGN[model.task]) - set(FOREIGN[other.task]) if other else set()
    return {key: value for key, value in options.items() if key not in others}


def judged_set(one: ScoredSet, styles: list[Style], lengths: bool, model: Translator | None) -> Judgement:
    from regard.data.moses import is_tokenised
    from regard.evaluate.texts import judge

    if not styles and is_tokenised(one.references[0]):
        warn(
            f"The references of {one.name} look tokenised, but sacreBLEU is made for plain text: papers on such text "
            "report what --tokenized-lowercase prints."
        )
    told = judge(one.texts, one.references, one.baseline, styles, one.language, lengths)
    if model and one.corpus:
        from regard.tasks.scoring import model_scores  # here: it loads torch

        return replace(told, scores=told.scores + model_scores(model, one.corpus))
    return told


def print_log_probs(who: str, model: Translator, one: ScoredSet, as_json: bool) -> None:
    from regard.tasks.scoring import log_probs

    assert one.corpus is not None
    with bar(f"{who} reads {one.name}", len(one.corpus)) as progress:
        found = log_probs(model, one.corpus, progress=progress)
    for pair in found:
        if as_json:
            print(json.dumps({**asdict(pair), "per_token": pair.per_token}))
        elif pair.log_prob is None:
            print(f"nan\t{pair.tokens}\tnan")
        else:
            print(f"{pair.log_prob:.4f}\t{pair.tokens}\t{pair.per_token:.4f}")
    beyond = sum(pair.log_prob is None for pair in found)
    if beyond:
        warn(f"{beyond} pairs of {one.name} are beyond the model's positions and have no probability")
