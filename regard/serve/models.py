"""The models that are served, by language pair."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import PairRecipe
from regard.data.languages import language_of, main_code
from regard.data.named import CORPORA
from regard.data.prepared import Prepared
from regard.decode.translator import Translator
from regard.errors import RegardError, nearest
from regard.export.choice import EXPORTS, open_translator
from regard.export.engines import Settings
from regard.serve.limits import Refusal
from regard.training.run import MANIFEST, Run

PAIR = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?)[-:>]([A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?)")


@dataclass(frozen=True)
class Served:
    """A model for one pair of languages. `plain` is the same one searched by torch, for what an engine cannot do."""

    name: str
    source: str
    target: str
    translator: Translator
    plain: Translator

    @property
    def engine(self) -> str:
        return self.translator.engine.name if self.translator.engine else "torch"

    @property
    def sees(self) -> bool:
        """Whether torch has its weights, which alignments, attention and wishes need."""
        return self.plain.device.type != "meta"

    @property
    def aligns(self) -> bool:
        """Whether it tells what its words look at: some models have no attention to the source."""
        return self.sees and bool(self.plain.model.cross_attentions)


@dataclass(frozen=True)
class Place:
    """Where a model lies and what it translates: what `regard serve` is given, `RUN` or `en-de=RUN`."""

    path: Path
    source: str
    target: str

    @classmethod
    def read(cls, text: str) -> Place:
        pair, found, path = text.partition("=")
        if found and not Path(text).exists():
            match = PAIR.fullmatch(pair)
            if not match:
                raise RegardError(f"{pair} is no pair of languages: write it as en-de={path}.")
            return cls(Path(path), match[1], match[2])
        place = Path(text)
        languages = languages_of(place)
        if not languages:
            raise RegardError(f"{place} does not say which languages it translates: write source-target={place}.")
        return cls(place, *languages)


def languages_of(path: Path) -> tuple[str, str] | None:
    """The languages of a run, where its corpus or the names of its files tell them; those of its run for an export."""
    if (path / MANIFEST).is_file() and path.resolve().parent.name == EXPORTS:
        path = path.resolve().parent.parent
    if not Run(path).recipe_file.is_file() and (path / MANIFEST).is_file():
        return None
    recipe = Run.open(path).recipe
    if not isinstance(recipe, PairRecipe):
        raise RegardError(f'{path} is a run of task = "{recipe.task}": only translation models are served.')
    data = recipe.data
    if data.corpus in CORPORA:
        return CORPORA[data.corpus].languages
    if match := PAIR.fullmatch(data.corpus):
        return match[1], match[2]
    if data.prepared and Path(data.prepared).is_dir():
        return Prepared.open(data.prepared, verify=False).languages
    for files in (data.train, data.valid, data.test):
        if len(files) == 2 and all(codes := [language_of(file) for file in files]):
            return codes[0], codes[1]
    return None


def open_served(
    place: Place,
    engine: str = "auto",
    quantization: str = "",
    weights: str = "auto",
    device: str = "auto",
    settings: Settings | None = None,
    remark: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Served:
    """A model ready to serve. For CTranslate2 torch has the weights as well, where there are some: an export alone
    gives no alignments and takes no wishes."""
    whole = Run(place.path).recipe_file.is_file()
    translator = open_translator(
        place.path, engine, quantization, weights, device, settings, alignments=whole, remark=remark, **options
    )
    plain = translator
    if translator.engine:
        plain = Translator(translator.name, translator.model, translator.tokenizers, translator.config)
    name = place.path.resolve().name
    return Served(name, place.source, place.target, translator, plain)


class Models:
    """Which model answers a request."""

    def __init__(self, models: Sequence[Served]) -> None:
        self.models: dict[str, Served] = {}
        for served in models:
            name, number = served.name, 2
            while name in self.models:
                name, number = f"{served.name}-{number}", number + 1
            self.models[name] = Served(name, served.source, served.target, served.translator, served.plain)

    def __iter__(self) -> Iterator[Served]:
        return iter(self.models.values())

    def __len__(self) -> int:
        return len(self.models)

    def languages(self) -> dict[str, list[str]]:
        """Source language → the languages it is translated to, in the order they were given."""
        found: dict[str, list[str]] = {}
        for served in self:
            targets = found.setdefault(served.source, [])
            if served.target not in targets:
                targets.append(served.target)
        return found

    def find(self, source: str | None = None, target: str | None = None, name: str | None = None) -> Served:
        """The first model that is as asked; what is left open may be anything, if only one pair of languages is meant.
        Where several have the same pair, the others are asked for by their names."""
        if name is not None and name not in self.models:
            shown = name[:100]
            raise Refusal(400, f"There is no model {shown}{nearest(shown, self.models)}: GET /v1/models lists them.")
        fitting = [
            served for served in self
            if name in (None, served.name) and matches(source, served.source) and matches(target, served.target)
        ]  # fmt: skip
        if not fitting:
            raise self.unfit(source, target, name)
        if len(fitting) == 1:
            return fitting[0]
        exact = [served for served in fitting if same(source, served.source) and same(target, served.target)]
        if not exact and len({(served.source, served.target) for served in fitting}) > 1:
            raise Refusal(400, f"Say source and target: there is {pairs_of(fitting)}.")
        return (exact or fitting)[0]

    def unfit(self, source: str | None, target: str | None, name: str | None) -> Refusal:
        """What is said where no model is as asked."""
        asked = f"{(source or 'any language')[:100]} to {(target or 'any language')[:100]}"
        if name is None:
            return Refusal(400, f"{asked} is not translated here: there is {pairs_of(self)}.")
        return Refusal(
            422,
            f"The model {name} translates {pairs_of([self.models[name]])}, not {asked}: leave out model, or source and "
            "target.",
        )


def pairs_of(models: Iterable[Served]) -> str:
    return ", ".join(dict.fromkeys(f"{served.source} to {served.target}" for served in models))


def same(asked: str | None, served: str) -> bool:
    return asked is not None and asked.lower() == served.lower()


def matches(asked: str | None, served: str) -> bool:
    """Whether a language will do: pt for pt-BR, and the other way round."""
    return asked is None or same(asked, served) or main_code(asked) == main_code(served)
