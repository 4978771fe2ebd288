"""What is asked of single translations: how they begin, and which phrases they contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from regard.config import DecodeConfig
from regard.data.tokenizer import EOS, UNK
from regard.decode.constraints import Forbidden, MinLength, NoRepeats, Prefix, Required
from regard.decode.phrases import Spelling
from regard.decode.step import Constraint
from regard.errors import RegardError

LONGEST_PHRASE = 60  # tokens
MOST_MORE, MORE = 12, 4  # hypotheses that a beam is made wider by: so many at most, so many at a time


@dataclass(frozen=True)
class Wish:
    """What is asked of a sentence's translations: how they begin, and which phrases they contain as whole words."""

    prefix: str = ""
    required: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.prefix, str):
            raise RegardError(f"Wish(prefix={self.prefix!r}): a prefix is a text, empty where nothing is asked.")
        listed("Wish.required", self.required)


class Demand(NamedTuple):
    """The same in tokens: how an output begins, and which sequences it contains. Or why no output can be so."""

    prefix: tuple[int, ...] = ()
    required: tuple[tuple[int, ...], ...] = ()
    fault: str = ""

    @property
    def least(self) -> int:
        """The fewest tokens that have room for it and for the end."""
        return len(self.prefix) + sum(map(len, self.required)) + 1


def listed(name: str, given: Iterable[str]) -> list[str]:
    """The texts of a list, or of whatever else gives them one by one."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise RegardError(f"{name} = {given!r} is no list of texts: give one.")
    texts = list(given)
    if odd := [i for i, text in enumerate(texts) if not isinstance(text, str)]:
        raise RegardError(f"{name}[{odd[0]}] is of type {type(texts[odd[0]]).__name__}, not a text.")
    return texts


def in_tokens(wish: Wish, spelling: Spelling) -> Demand:
    """What the target's vocabulary makes of a wish."""
    prefix = tuple(spelling.tokenizer.encode([wish.prefix])[0][:-1]) if wish.prefix.strip() else ()
    if UNK in prefix:
        return Demand(fault=f"The prefix {wish.prefix!r} cannot be written in the pieces that the model knows.")
    phrases = list(dict.fromkeys(wish.required))
    try:
        required = tuple(tuple(spelling.tokens(phrase)) for phrase in phrases)
    except RegardError as error:
        return Demand(fault=f"The required phrase {error}")
    for tokens, phrase in zip(required, phrases, strict=True):
        if len(tokens) > LONGEST_PHRASE:
            return Demand(fault=f"The required phrase {phrase!r} has {len(tokens)} tokens: at most {LONGEST_PHRASE}.")
    return Demand(prefix, required)


def more_hypotheses(demand: Demand) -> int:
    """By how many a beam is wider for the phrases that are required: hypotheses that have said more or less of them do
    not compete, so each token of theirs has one to itself. In a narrower beam few are left that have said nothing, the
    phrase comes late or at the limit, and a search may even take longer (docs/log.md)."""
    tokens = sum(map(len, demand.required))
    return min(MOST_MORE, -(-tokens // MORE) * MORE)


def equally_wide(sentences: Sequence[int], demands: Sequence[Demand]) -> list[list[int]]:
    """Sentences, by number, in groups whose beams are equally wide: what one finds must not depend on the others."""
    groups: dict[int, list[int]] = {}
    for sentence in sentences:
        groups.setdefault(more_hypotheses(demands[sentence]), []).append(sentence)
    return list(groups.values())


def constraints_for(
    config: DecodeConfig, demands: Sequence[Demand], barred: np.ndarray | None, spelling: Spelling, beam: int
) -> list[Constraint]:
    """What a search is told: of the options and of one demand for each sentence only what matters to it. `barred` is an
    automaton that must not die."""
    constraints: list[Constraint] = []
    if config.min_length > 1:
        constraints.append(MinLength(config.min_length, EOS))
    if any(demand.prefix for demand in demands):
        constraints.append(Prefix([demand.prefix for demand in demands]))
    if config.no_repeat_ngram:
        constraints.append(NoRepeats(config.no_repeat_ngram))
    if barred is not None:
        constraints.append(Forbidden(barred, EOS, beam))
    if any(demand.required for demand in demands):
        going_on = torch.from_numpy(spelling.going_on)
        constraints.append(Required([demand.required for demand in demands], going_on, EOS, beam))
    return constraints
