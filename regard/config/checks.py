"""Bounds of a section's values."""

from __future__ import annotations

import typing
from collections.abc import Sequence

from regard.errors import RegardError, nearest


def at_least(section: object, where: str, **minima: float) -> None:
    """where: the section's name, empty for values that are in none"""
    for key, minimum in minima.items():
        if getattr(section, key) < minimum:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must be at least {minimum}.")


def one_of(value: object, choices: Sequence[str], name: str) -> None:
    if value not in choices:
        named = ", ".join(repr(choice) for choice in choices if choice)
        raise RegardError(f"{name} = {value!r} must be one of {named}{nearest(str(value), choices)}.")


def known_words(section: object, where: str) -> None:
    """Refuse a word that is none of those that its key may be. Recipes are read so; a section made in Python is not."""
    for key, hint in typing.get_type_hints(type(section)).items():
        if typing.get_origin(hint) is typing.Literal:
            one_of(getattr(section, key), typing.get_args(hint), dotted(where, key))


def between(section: object, where: str, low: float, high: float, *keys: str) -> None:
    for key in keys:
        if not low <= getattr(section, key) < high:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must lie in [{low:g}, {high:g}).")


def dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
