"""Attention weights and training logs as things people look at: a page, pictures, a terminal drawing.

This room takes numpy arrays and lists of strings; it knows nothing of models, torch or training.
"""

from regard.view.document import attention_document
from regard.view.maps import AttentionMap, AttentionView, Step, recurrent_view, set_map
from regard.view.page import attention_page
from regard.view.pictures import attention_png, loss_curve_png, named_every
from regard.view.tables import line_png, table_png
from regard.view.terminal import alignment_text

__all__ = [
    "AttentionMap",
    "AttentionView",
    "Step",
    "alignment_text",
    "attention_document",
    "attention_page",
    "attention_png",
    "line_png",
    "loss_curve_png",
    "named_every",
    "recurrent_view",
    "set_map",
    "table_png",
]
