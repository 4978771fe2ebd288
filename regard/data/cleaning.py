"""What is done to training text before it is trained on: the settings of the filters, and what each is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from regard.config import at_least
from regard.errors import RegardError, nearest

SHORT = 10  # words up to which the ratio of lengths says nothing
STEPS = {
    "malformed": "records that could not be read",
    "empty": "a side without text",
    "length": "a side with more words or characters than allowed",
    "ratio": f"one side many times longer than the other (and longer than {SHORT} words)",
    "script": "too few letters of a side in its language's script",
    "copy": "source and target the same but for case, punctuation and spacing",
    "leakage": "near form in the validation or test text",
    "exact duplicate": "the same pair again",
    "near duplicate": "the same near forms again: other case, punctuation, spacing or numbers at most",
    "targets": "more targets of one source (by near form) than allowed",
}


@dataclass(frozen=True)
class Cleaning:
    """What is done to the training text. 0 or `off` switches a filter off."""

    normalize: bool = True  # NFC, invisible characters dropped, any white space one space
    unescape: bool = False  # HTML entities to characters
    max_words: int = 200  # of a side; where a language has no spaces two characters count as a word
    max_characters: int = 2_000
    max_ratio: float = 3.0  # words of the longer side to words of the shorter
    min_script: float = 0.5  # share of a side's letters in the script of its language
    copies: Literal["text", "all", "off"] = "text"  # text: all but lines of numbers, symbols and capitalised names
    duplicates: Literal["near", "exact", "off"] = "near"
    targets_per_source: int = 0
    leakage: Literal["side", "pair", "off"] = "side"  # side: one side in valid or test is enough

    def __post_init__(self) -> None:
        at_least(self, "cleaning", max_words=0, max_characters=0, max_ratio=0.0, targets_per_source=0)
        for name in ("copies", "duplicates", "leakage"):
            choices = get_args(get_type_hints(Cleaning)[name])
            if (value := getattr(self, name)) not in choices:
                raise RegardError(
                    f"cleaning.{name} = {value} must be one of {', '.join(choices)}{nearest(value, choices)}."
                )
        if not 0 <= self.min_script <= 1:
            raise RegardError(f"cleaning.min_script = {self.min_script} is a share and must lie between 0 and 1.")
