"""Small words of messages."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 tree`, `2,000 trees`, `0 leaves`; the plural where it is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
