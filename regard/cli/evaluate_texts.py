"""`regard evaluate` for a run that translates, and for translations in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.evaluating import Request
from regard.cli.options import bar, open_model, warn
from regard.errors import RegardError
from regard.wording import counted

if TYPE_CHECKING:
    from regard.decode.translator import Translator
    from regard.evaluate.literature import Style
    from regard.evaluate.texts import Judgement
    from regard.tasks.test_sets import ScoredSet


def evaluate_texts(asked: Request) -> None:
    """Translate what is not there, score, compare, write and draw."""
    from regard.data.languages import check_code
    from regard.training.run import write_atomically

    if asked.language and (remark := check_code(asked.language, "--language")):
        warn(remark)
    check_request(asked)
    sets, styles = asked_sets(asked), asked_styles(asked)
    if not asked.log_probs:
        check_references(sets)
    read = [file for file in (asked.source, *asked.references, asked.hypotheses, asked.baseline) if file]
    check_outputs(sets, {"--save": asked.save, "--plot": asked.plot}, read, asked.log_probs)
    if styles:
        check_rules(sets)
    if asked.baseline and not asked.baseline.is_dir():
        sets = [with_baseline_text(sets, asked.baseline)]
    model, other = models(asked)
    if model:
        model.config = model.options(**own_options(model, other, asked.options))
        if asked.log_probs:
            print_log_probs(str(asked.run), model, sets[0], asked.as_json)
            return
        sets = [replace(one, texts=translated(model, one, str(asked.run))) for one in sets]
    if asked.save:
        write_atomically(asked.save, "".join(f"{text}\n" for text in sets[0].texts))
    if asked.baseline and other:
        sets = with_baseline_run(sets, asked.baseline, other, own_options(other, model, asked.options))
    judged = [judged_set(one, styles, asked.by_length or bool(asked.plot), model) for one in sets]
    tell(asked, sets, judged)


def asked_sets(asked: Request) -> list[ScoredSet]:
    """Texts with their references: given, or parts of the run's recipe."""
    from regard.tasks.test_sets import of_files, of_hypotheses, of_recipe
    from regard.training.run import Run

    if asked.hypotheses:
        sets = [of_hypotheses(asked.hypotheses, asked.references, asked.source)]
    elif asked.source:
        sets = [of_files(asked.source, asked.references)]
    else:
        sets = of_recipe(Run.open(asked.run or "").pair_recipe.data, asked.splits)
    return [replace(one, language=asked.language or one.language) for one in sets]


def asked_styles(asked: Request) -> list[Style]:
    from regard.evaluate.literature import COMPOUND_SPLIT, TOKENISED_LOWERCASE

    wanted = {TOKENISED_LOWERCASE: asked.tokenized_lowercase, COMPOUND_SPLIT: asked.compound_split}
    return [style for style, wished in wanted.items() if wished]


def models(asked: Request) -> tuple[Translator | None, Translator | None]:
    """The run's, and that of a baseline that is a run."""
    where = asked.weights, asked.device, asked.threads
    other = open_model(asked.baseline, *where) if asked.baseline and asked.baseline.is_dir() else None
    return open_model(asked.run, *where) if asked.run else None, other


def tell(asked: Request, sets: list[ScoredSet], judged: list[Judgement]) -> None:
    """Draw and print."""
    from regard.tasks import telling

    names = [str(asked.run or asked.hypotheses), *([str(asked.baseline)] if asked.baseline else [])]
    if asked.plot:
        telling.draw(sets, judged, names, asked.plot)
    if asked.as_json:
        found = {one.name: telling.record(one, told, names) for one, told in zip(sets, judged, strict=True)}
        print(json.dumps(found))
        return
    both = zip(sets, judged, strict=True)
    told = [line for one, each in both for line in telling.lines(one, each, names, asked.by_length)]
    print("\n".join([*told, *(["", f"scores by length  {asked.plot}"] if asked.plot else [])]))


def check_request(asked: Request) -> None:
    """What cannot be meant together, or is not enough."""
    whole = "Give a RUN, or RUN with --source and --reference, or --hypotheses with --reference (parses: --trees)."
    run, source, references, baseline = asked.run, asked.source, asked.references, asked.baseline
    if asked.treebank or "constrained" in asked.options:
        raise RegardError("--treebank and --constrained are for a run that parses.")
    if (source or asked.hypotheses) and not references:
        raise RegardError(f"--reference is missing. {whole}")
    if run and asked.hypotheses:
        raise RegardError("RUN and --hypotheses are two texts: to compare them, give one of them with --baseline.")
    if asked.splits and (not run or source):
        raise RegardError("--split names a part of a run's recipe: give it with RUN and without --source.")
    if run and references and not source:
        raise RegardError("--source is missing: what shall the run translate for this --reference?")
    if not run and not asked.hypotheses:
        raise RegardError(whole)
    if asked.log_probs and not run:
        raise RegardError("--log-probs asks a model: give a RUN, with --source and --reference or alone.")
    if asked.log_probs and len(references) > 1:
        raise RegardError("--log-probs scores pairs: give one --reference.")
    asked.need_model()
    told = "baseline", "language", "tokenized_lowercase", "compound_split", "by_length", "plot", "save", "options"
    if asked.log_probs and (idle := asked.first_of(*told)):
        raise RegardError(f"--log-probs prints a line for each given pair and no score: leave {idle} out.")
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


def check_references(sets: list[ScoredSet]) -> None:
    """Where there is nothing to score against, or not everywhere."""
    for one in sets:
        missing, total = one.without_reference(), len(one.references[0])
        if missing and len(missing) == total:
            raise RegardError(f"All references of {one.name} are empty lines: there is nothing to score against.")
        if missing:
            warn(
                f"{len(missing):,} of {total:,} references of {one.name} {'is' if len(missing) == 1 else 'are'} empty, "
                f"the first in line {missing[0]:,}: every word said there counts as wrong."
            )


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
        warn(
            f"{counted(cut, 'sentence')} of {one.name} are longer than {who} reads (decode.max_source): cut off there."
        )
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
        warn(f"Beyond the model's positions, so without a probability: {counted(beyond, 'pair')} of {one.name}.")
