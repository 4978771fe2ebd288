"""Regard: attention models for sequences and sets. Train them, check them, look inside them.

import regard
model = regard.load("runs/demo")
model.translate("The old dog is sleeping in the garden.")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard.config import SetTransformerConfig as SetTransformerConfig
    from regard.config import TransformerConfig as TransformerConfig
    from regard.decode.translator import Translator as Translator
    from regard.errors import RegardError as RegardError
    from regard.estimators.sets import SetTransformerClassifier as SetTransformerClassifier
    from regard.estimators.sets import SetTransformerClusterer as SetTransformerClusterer
    from regard.estimators.sets import SetTransformerRegressor as SetTransformerRegressor
    from regard.models.set_transformer import SetTransformer as SetTransformer
    from regard.models.transformer import Transformer as Transformer
    from regard.nn.attention import capture as capture
    from regard.training.load import load as load
    from regard.training.start import train as train

# Each public name and the module it lives in. They are imported when first asked for, so that
# `regard --help` does not wait for torch.
PUBLIC = {
    "RegardError": "regard.errors",
    "SetTransformer": "regard.models.set_transformer",
    "SetTransformerClassifier": "regard.estimators.sets",
    "SetTransformerClusterer": "regard.estimators.sets",
    "SetTransformerConfig": "regard.config",
    "SetTransformerRegressor": "regard.estimators.sets",
    "Transformer": "regard.models.transformer",
    "TransformerConfig": "regard.config",
    "Translator": "regard.decode.translator",
    "capture": "regard.nn.attention",
    "load": "regard.training.load",
    "train": "regard.training.start",
}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(PUBLIC[name]), name)
