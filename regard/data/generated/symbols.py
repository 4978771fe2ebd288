"""Sequences of symbols to be copied or reversed: the first things a sequence model must be able to learn."""

from random import Random
from string import ascii_lowercase, digits

SYMBOLS = ascii_lowercase + digits
LONGEST = 8


def draw_symbols(random: Random) -> list[str]:
    """1 to LONGEST symbols, every length as likely as any other."""
    return random.choices(SYMBOLS, k=random.randint(1, LONGEST))


def transformed(corpus: str, symbols: list[str]) -> tuple[list[str], tuple[tuple[int, int], ...]]:
    """The target of "copy" or "reverse", and which source symbol each target symbol comes from."""
    last = len(symbols) - 1
    if corpus == "copy":
        return symbols, tuple((i, i) for i in range(len(symbols)))
    return symbols[::-1], tuple((i, last - i) for i in range(len(symbols)))
