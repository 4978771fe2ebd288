"""How tokens and module paths are written for a person.

Tokens come from other people's text. A label must never be invisible, must not reorder what stands beside it
(bidirectional overrides) and must not steer a terminal (escape characters), so those are spelt out.
"""

import unicodedata
from collections.abc import Sequence

ENCODER_SELF = "Encoder self-attention"
DECODER_SELF = "Decoder self-attention"
CROSS = "Cross-attention"
SELF = "Self-attention"
KINDS = (ENCODER_SELF, DECODER_SELF, CROSS, SELF)

# Embeddings, overrides and isolates reorder their surroundings. The plain marks (U+200E, U+200F) and the
# joiners (U+200C, U+200D) are left alone: ordinary Arabic, Persian and emoji need them.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SPACE = "\u2581"  # how SentencePiece writes the space before a word
_PICTURED = {"\n": "↵", "\t": "⇥", " ": "␣"}


def visible(text: str) -> str:
    """`text` with each character that would be unseen, or do something, replaced by one that is only seen."""
    if not text:
        return "∅"
    if all(_leaves_no_ink(char) for char in text):
        return "".join(_spelt(char) for char in text)
    return "".join(_spelt(char) if _acts(char) else char for char in text)


def as_read(pieces: Sequence[str]) -> list[str]:
    """Subwords for a reader: without the mark of a word's beginning, and with a dot before the letters that go on with
    a word. Labels none of which has that mark are no subwords and stay as they are."""
    if not any(piece.startswith(_SPACE) for piece in pieces):
        return list(pieces)
    shown = []
    for i, piece in enumerate(pieces):
        goes_on = i > 0 and piece[:1].isalnum()
        shown.append(f"·{piece}" if goes_on else " " if piece == _SPACE else piece.removeprefix(_SPACE))
    return shown


def group_of(name: str) -> str:
    """The kind of attention a module path names; for an unknown path, the path without its indices."""
    parts = name.lower().split(".")
    if any(part.startswith("cross") for part in parts):
        return CROSS
    if any(part.startswith("self_att") for part in parts):
        if any("encoder" in part for part in parts):
            return ENCODER_SELF
        if any("decoder" in part for part in parts):
            return DECODER_SELF
        return SELF
    return ".".join(part for part in name.split(".") if not part.isdigit()) or "Attention"


def layer_of(name: str) -> str:
    """The indices in a module path, as "layer 0"; empty where the path has none."""
    indices = [part for part in name.split(".") if part.isdigit()]
    return f"layer {'.'.join(indices)}" if indices else ""


def _acts(char: str) -> bool:
    # Controls, line and paragraph separators, and lone surrogates, which no file could hold.
    return char in _REORDERING or unicodedata.category(char) in {"Cc", "Zl", "Zp", "Cs"}


def _leaves_no_ink(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Zs", "Zl", "Zp", "Cs"}


def _spelt(char: str) -> str:
    return _PICTURED.get(char, f"⟨U+{ord(char):04X}⟩")
