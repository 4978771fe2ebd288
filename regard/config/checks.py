"""Bounds of a section's values."""

from __future__ import annotations

from regard.errors import RegardError


def at_least(section: object, where: str, **minima: float) -> None:
    """where: the section's name, empty for values that are in none"""
    for key, minimum in minima.items():
        if getattr(section, key) < minimum:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must be at least {minimum}.")


def between(section: object, where: str, low: float, high: float, *keys: str) -> None:
    for key in keys:
        if not low <= getattr(section, key) < high:
            raise RegardError(f"{dotted(where, key)} = {getattr(section, key)} must lie in [{low:g}, {high:g}).")


def dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
