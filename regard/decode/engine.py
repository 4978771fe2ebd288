"""What may stand in for our own model and search: other programs on the same weights, behind one interface.

`Translator` does all there is to do with text and leaves token sequences to an engine, where it has one. Sources end
with the end symbol; so do outputs, unless the limit of length came first. Padding, start and unknown never come out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Protocol

from regard.config import DecodeConfig
from regard.decode.state import Hypothesis

Progress = Callable[[int], None] | None
"""Told, while it works, how many sources are done."""


class Engine(Protocol):
    """Searches for the outputs of token sequences."""

    name: str
    honours: frozenset[str]  # the keys of [decode] that it knows what to do with
    at_once: int  # calls of `decode` at a time that keep it busy

    @property
    def longest(self) -> int:
        """The longest sequence there are positions for."""

    def identity(self) -> dict[str, str]:
        """What decides its answers beside the request: the engine, its weights, how it computes."""

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """The n best outputs of each source, best first."""


def refusals(honours: frozenset[str], config: DecodeConfig) -> list[str]:
    """What of a request an engine cannot honour: keys that it does not know and that are not as they are by default."""
    plain = DecodeConfig()
    return [
        f"decode.{item.name} = {getattr(config, item.name)}"
        for item in fields(config)
        if item.name not in honours and getattr(config, item.name) != getattr(plain, item.name)
    ]
