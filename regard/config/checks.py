"""Bounds of a section's values."""

from __future__ import annotations

import typing

from regard.errors import RegardError, nearest


def at_least(section: object, where: str, **minima: float) -> None:
    """where: the section's name, empty for values that are in none"""
    for key, minimum in minima.items():
        if getattr(section, key) < minimum:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must be at least {minimum}.")


def one_of(section: object, where: str) -> None:
    """Refuse a word that is none of those that its key may be. Recipes are read so; a section made in Python is not."""
    for key, hint in typing.get_type_hints(type(section)).items():
        words, value = typing.get_args(hint), getattr(section, key)
        if typing.get_origin(hint) is typing.Literal and value not in words:
            near = nearest(str(value), words)
            raise RegardError(f"{dotted(where, key)} = {value!r} must be one of {', '.join(map(repr, words))}{near}.")


def between(section: object, where: str, low: float, high: float, *keys: str) -> None:
    for key in keys:
        if not low <= getattr(section, key) < high:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must lie in [{low:g}, {high:g}).")


def dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
