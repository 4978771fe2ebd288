"""The whole examination: text, recipe and run, whichever there are, every check on what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import DataConfig, PairRecipe, TokenizerConfig, find, resolve, uses
from regard.data.formats import READERS, kind
from regard.data.generated import CORPORA
from regard.data.prepared import INDEX, Prepared, read_index
from regard.data.tokenizer import TokenizerPair
from regard.doctor import characters, curve, pairs, subwords
from regard.doctor import splits as between_splits
from regard.doctor.alignment import alignment, judge_of
from regard.doctor.directions import expected, straighten
from regard.doctor.findings import SEVERITIES, Finding, Where
from regard.doctor.languages import Profile, scripts, third_languages, wrong_lines
from regard.doctor.texts import SPLITS, Bitext, read_bitext, text_of
from regard.errors import RegardError
from regard.training.run import Run

TRANSLATED = 60  # sentences to translate
WATCHED = 24  # sentence pairs on which attention is watched
LONGEST = 400  # characters of a sentence to translate

Files = Mapping[str, tuple[Path, Path]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """What is to be examined."""

    splits: dict[str, Bitext]
    recipe: PairRecipe | None = None
    recipe_file: str = ""
    run: Run | None = None
    missing: tuple[Finding, ...] = ()  # texts that the recipe names but that are not there, or not whole
    languages: tuple[str, ...] = ()  # as prepared data has them


def silence(what: str) -> None:
    """Say nothing."""


def examine(
    subject: str | Path | None, files: Files | None = None, languages: Sequence[str] = (), say: Say = silence
) -> list[Finding]:
    """Everything that is wrong with a run, a recipe (its file or a shipped name), a folder of prepared data, text
    files, or all of them together; the gravest first. `files` stand in for the subject's text: {"train": (source,
    target), …}. `languages` are those of source and target, where the files' names do not tell. `say` is told what is
    being looked at."""
    opened = open_subject(subject, files or {}, say)
    known = languages or opened.languages
    say("which way the texts go")
    splits, turned = straighten(opened.splits, known, "--languages" if languages else "the prepared data")
    found = [*opened.missing, *turned, *texts(splits, known, say)]
    if opened.recipe:
        from regard.doctor import recipe as recipes  # here: it loads torch

        say("the recipe")
        train = opened.splits.get("train")
        size = recipes.TextSize.of(train) if train else None
        if size and opened.recipe.data.corpus in CORPORA:
            size = size.times(opened.recipe.data.train_size / max(1, size.pairs))
        found += recipes.examine(opened.recipe, size, opened.recipe_file)
    if opened.run:
        found += trained(opened.run, opened.splits, bool(files and "test" in files), say)
    elif splits:
        found += subwords.unseen_characters(splits, opened.recipe.tokenizer if opened.recipe else TokenizerConfig())
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def open_subject(subject: str | Path | None, files: Files, say: Say) -> Subject:
    if subject is None and not files:
        raise RegardError("Give a run, a recipe, a folder of prepared data, or two text files: SOURCE TARGET.")
    run, recipe, data = named(subject)
    file = str(run.recipe_file) if run else str(find(str(subject))) if recipe else str(subject)
    splits, missing = dict[str, Bitext](), list[Finding]()
    for split in SPLITS:
        say(f"reading {split}")
        try:
            if split in files:
                splits[split] = read_bitext(split, *files[split])
            elif data and (text := text_of(data, split)):
                splits[split] = text
        except RegardError as error:
            if split in files:
                raise
            what, fix = f"The text cannot be read: {error}", f"Get it, correct [data], or give it with --{split}."
            if what not in [finding.what for finding in missing]:
                missing.append(Finding("text-missing", "warning" if run else "error", Where((file,)), what, fix))
    languages: tuple[str, ...] = ()
    if data and data.prepared and splits.keys() - files.keys():
        missing += damage(Path(data.prepared))
        languages = tuple(read_index(Path(data.prepared))["languages"])
    return Subject(splits, recipe, file, run, tuple(missing), languages)


def named(subject: str | Path | None) -> tuple[Run | None, PairRecipe | None, DataConfig | None]:
    """The run, the recipe and the text that somebody means, whichever there are."""
    if subject is None:
        return None, None, None
    if kind(Path(subject)) in READERS:
        raise RegardError(
            f"{subject} is one file of pairs: make text of it with regard data prepare, and give the doctor the folder."
        )
    if Path(subject).is_file() and Path(subject).suffix != ".toml":
        raise RegardError(f"{subject} is one file: give two, SOURCE TARGET; a recipe ends in .toml.")
    if (Path(subject) / INDEX).is_file():
        return None, None, DataConfig(prepared=str(subject))
    run = Run.open(subject) if Path(subject).is_dir() else None
    recipe = run.recipe if run else resolve(str(subject))
    if not isinstance(recipe, PairRecipe):
        raise RegardError(
            f'{subject} is of task = "{recipe.task}", and regard doctor examines the texts, recipes and runs of '
            f"translation alone: {uses(recipe)}."
        )
    return run, recipe, recipe.data


def damage(folder: Path) -> Iterator[Finding]:
    """What keeps prepared data from being trained on."""
    try:
        Prepared.open(folder)
    except RegardError as error:
        yield Finding("prepared-damaged", "error", Where((str(folder),)), str(error), "")


def texts(splits: Mapping[str, Bitext], languages: Sequence[str], say: Say) -> Iterator[Finding]:
    """Everything about the text alone, all of which goes the same way."""
    profile, teacher = Profile.of([], []), None
    for split, bitext in splits.items():
        say(f"{split}: characters")
        for side in bitext.sides:
            yield from characters.examine(side)
            yield from scripts(side)
        say(f"{split}: languages")
        if split == "train" or "train" not in splits:
            profile = Profile.of(bitext.source.lines, bitext.target.lines)
        yield from wrong_lines(bitext, profile)
        for (side, other), language in zip(
            (bitext.sides, bitext.sides[::-1]), expected(bitext, languages), strict=True
        ):
            yield from third_languages(side, other, language)
        say(f"{split}: pairs")
        for pair_check in pairs.CHECKS:
            yield from pair_check(bitext)
        say(f"{split}: alignment")
        judge = judge_of(bitext, teacher)
        found = list(alignment(bitext, judge))
        yield from pairs.line_counts(bitext, found, judge is not None)
        yield from found
        teacher = judge if split == "train" else teacher
    say("what the splits share")
    yield from between_splits.between(splits)


def trained(run: Run, splits: Mapping[str, Bitext], given_test: bool, say: Say) -> Iterator[Finding]:
    """Everything about a run: its files, its log, its weights and what it says."""
    from regard.doctor import weights
    from regard.training.load import load_weights

    say("the log")
    for check in curve.CHECKS:
        yield from check(run.records(), str(run.log))
    say("the weights")
    broken = [*weights.sound(run), *weights.same_recipe(run), *weights.fingerprint(run)]
    yield from broken
    try:
        tokenizers = TokenizerPair.load(run.tokenizer)
    except RegardError:
        return  # said already
    if not any(finding.code == "tokenizer-mismatch" for finding in broken):
        yield from vocabulary(run, tokenizers, splits)
    if any(finding.severity == "error" for finding in broken):
        return
    yield from weights.embeddings(run, load_weights(run), tokenizers)
    held_out = splits.get("test" if given_test else "valid") or splits.get("test") or splits.get("train")
    if held_out:
        yield from spoken(run, held_out, splits.get("train"), say)


def vocabulary(run: Run, tokenizers: TokenizerPair, splits: Mapping[str, Bitext]) -> Iterator[Finding]:
    train = splits.get("train")
    for split, bitext in splits.items():
        for i, tokenizer in enumerate((tokenizers.source, tokenizers.target)):
            yield from subwords.unknown(tokenizer, bitext.sides[i])
            if split != "train":
                yield from subwords.text_like_training(tokenizer, bitext.sides[i], train.sides[i] if train else None)
    if train and len(train) <= 300_000:
        yield from subwords.unused(tokenizers, train, run.tokenizer)


def spoken(run: Run, held_out: Bitext, train: Bitext | None, say: Say) -> Iterator[Finding]:
    """What the model says to some sentences, and where it looks."""
    from regard.doctor import heads, outputs
    from regard.training.pairs import load_translator

    translator = load_translator(run.path, device="cpu")
    sources, references = (side.lines[:TRANSLATED] for side in held_out.sides)
    kept = min(len(sources), len(references))
    sources, references = [line[:LONGEST] for line in sources[:kept]], references[:kept]
    say(f"attention on {held_out.split}")
    whole = [(s, r) for s, r in zip(sources, references, strict=True) if s.strip() and r.strip() and len(r) <= LONGEST]
    if whole:
        watched = whole[:WATCHED]
        yield from heads.collapsed(translator, [s for s, _ in watched], [r for _, r in watched], str(run.path))
    say(f"translating {kept} sentences of {held_out.split}")
    text = train or held_out
    profile = Profile.of(text.source.lines, text.target.lines)
    yield from outputs.examine(sources, translator.translate(sources), references, profile, held_out.source.file)
