"""What all pictures share: colours, fonts, short labels, plain axes, and how a figure becomes a file.

Figures are built with matplotlib's object interface and drawn by Agg, so nothing global is touched and no display is
needed.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from regard.view.labels import visible

INK, MUTED, GRID = "#1c2333", "#5b6478", "#e3e6ee"
TRAIN, VALID, BLEU = "#9db2e8", "#1f3a93", "#0b7a75"
FIRST, SECOND = VALID, "#c2571a"  # source and target, or a system and its baseline
THIRD, FOURTH = BLEU, "#8a3b8f"  # further systems
PALE = "#9aa3b5"  # what others have found
LABEL_LENGTH = 14  # characters; longer tokens end in an ellipsis

# matplotlib's own font has no East Asian or emoji glyphs; these are tried after it where they are installed.
FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Noto Sans Arabic",
    "Noto Emoji",
)


def short_label(text: str, length: int = LABEL_LENGTH) -> str:
    shown = visible(text)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def font() -> list[str]:
    installed = set(font_manager.fontManager.get_font_names())
    return ["DejaVu Sans", *(font for font in FALLBACK_FONTS if font in installed)]


def tidy(axes: Axes) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(y=0.14)
    axes.tick_params(colors=MUTED, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(GRID)


def save(figure: Figure, *paths: Path, dpi: float) -> None:
    """As a PNG, or as what else a path ends in. The same picture is the same bytes: an SVG has no date."""
    FigureCanvasAgg(figure)  # attaches itself: savefig then draws with Agg, whatever backend the user has set
    with rc_context({"svg.hashsalt": "regard"}):
        for path in paths:
            kind = path.suffix.removeprefix(".") or "png"
            figure.savefig(path, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)
