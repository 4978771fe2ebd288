"""An alignment drawn in the terminal: queries down the side, keys across the top, weights as shades."""

import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.view.labels import visible

# The weight from which each shade is used. Below the first a dot; exactly zero stays blank, so that a mask
# can be told from a weak weight.
_SHADES = ((0.05, "░"), (0.25, "▒"), (0.5, "▓"), (0.75, "█"))
_LEGEND = ("blank = 0", f"· < {_SHADES[0][0]:g}", *(f"{shade} ≥ {least:g}" for least, shade in _SHADES))

_NARROWEST = 12
_WIDEST_COLUMN = 10
_READABLE_COLUMN = 4  # labels are cut down to this before the picture is broken into bands


def alignment_text(
    rows: list[str],
    columns: list[str],
    weights: npt.NDArray[np.floating[Any]],
    width: int = 100,
    height: int | None = None,
) -> str:
    """The (Q, K) matrix `weights` as lines of at most `width` cells, of its first `height` rows, or of all.

    Labels are cut with an ellipsis when they do not fit; when cutting is not enough, the columns continue in
    a further band below, with the row labels repeated.
    """
    expected = (len(rows), len(columns))
    if weights.shape != expected:
        raise ValueError(f"weights have shape {weights.shape}, but the tokens ask for (Q, K) = {expected}")
    if not bool(np.all(np.isfinite(weights))):
        raise ValueError("weights must be finite")
    if width < _NARROWEST:
        raise ValueError(f"width is {width}; an alignment needs at least {_NARROWEST} cells")
    if not rows or not columns:
        return shorten(f"nothing to draw: {len(rows)} queries, {len(columns)} keys", width)

    row_labels = [visible(token) for token in rows[:height]]
    left_out = len(rows) - len(row_labels)
    column_labels = [visible(token) for token in columns]
    gutter = min(max(map(cell_width, row_labels)), max(4, width // 4))
    room = width - gutter
    longest = max(map(cell_width, column_labels))
    column = min(longest, _WIDEST_COLUMN, max(room // len(columns) - 1, _READABLE_COLUMN))
    per_band = room // (column + 1)  # at least one: the narrowest width leaves eight cells

    bands = []
    for start in range(0, len(columns), per_band):
        labels = column_labels[start : start + per_band]
        lines = [_line("", [_pad(shorten(label, column), column) for label in labels], gutter)]
        for label, row in zip(row_labels, weights[:height], strict=True):
            cells = [_cell(float(weight), column) for weight in row[start : start + per_band]]
            lines.append(_line(label, cells, gutter))
        lines += [shorten(f"… {left_out} more", width)] if left_out else []
        bands.append("\n".join(lines))
    return "\n\n".join([*bands, _legend(width)])


def cell_width(text: str) -> int:
    """How many terminal cells `text` takes: two for wide East Asian characters, none for combining marks."""
    return sum(_char_cells(char) for char in text)


def shorten(text: str, cells: int) -> str:
    """`text` if it fits into `cells` cells, otherwise as much of it as fits before an ellipsis."""
    if cell_width(text) <= cells:
        return text
    kept, used = "", 0
    for char in text:
        used += _char_cells(char)
        if used > cells - 1:
            break
        kept += char
    return kept + "…"


def _char_cells(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _cell(weight: float, column: int) -> str:
    if weight == 0.0:
        return " " * column
    if weight < _SHADES[0][0]:
        return "·".center(column)
    return [shade for least, shade in _SHADES if weight >= least][-1] * column


def _line(label: str, cells: list[str], gutter: int) -> str:
    start = _pad(shorten(label, gutter), gutter, right=True)
    return " ".join([start, *cells]).rstrip()


def _pad(text: str, cells: int, right: bool = False) -> str:
    space = " " * (cells - cell_width(text))
    return space + text if right else text + space


def _legend(width: int) -> str:
    lines = [_LEGEND[0]]
    for entry in _LEGEND[1:]:
        longer = f"{lines[-1]}   {entry}"
        if cell_width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(entry)
    return "\n".join(lines)
