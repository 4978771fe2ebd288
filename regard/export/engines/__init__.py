"""The engines: our own model, CTranslate2, ONNX and transformers, as `regard.decode.engine` describes them.

The others than ours rank by log-probability over |Y|^α ("power") and stop by rules of their own. All that they have
found is ranked here by the normalisation of the request, so that under "gnmt" the best comes first of those that were
best by "power".
"""

from __future__ import annotations

from pathlib import Path

from regard.decode.engine import Engine
from regard.export.engines.ctranslate2 import Ctranslate2Engine
from regard.export.engines.exported import Settings
from regard.export.engines.onnx import OnnxEngine
from regard.export.engines.ours import TorchEngine
from regard.export.engines.transformers import TransformersEngine
from regard.export.manifest import Manifest

__all__ = ["Ctranslate2Engine", "OnnxEngine", "Settings", "TorchEngine", "TransformersEngine", "open_engine"]


def open_engine(folder: Path, settings: Settings | None = None) -> Engine:
    """The engine for an exported folder, whatever its format."""
    manifest, settings = Manifest.open(folder), settings or Settings()
    if manifest.format == "safetensors":
        from regard.training.pairs import load_translator

        return TorchEngine(load_translator(folder, device=settings.device))
    engines: dict[str, type[Ctranslate2Engine | OnnxEngine | TransformersEngine]]
    engines = {"ctranslate2": Ctranslate2Engine, "onnx": OnnxEngine, "marian": TransformersEngine}
    return engines[manifest.format](folder, settings)
