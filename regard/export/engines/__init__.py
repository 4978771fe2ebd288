"""The engines: our own model, CTranslate2, ONNX and transformers, as `regard.decode.engine` describes them.

ONNX runs our search. CTranslate2 and transformers have their own, which rank by log-probability over |Y|^α ("power")
and stop by rules of their own: all that they have found is ranked again (`exported.ranked`).
"""

from __future__ import annotations

from pathlib import Path

from regard.decode.engine import Engine
from regard.errors import RegardError
from regard.export.engines.ctranslate2 import Ctranslate2Engine
from regard.export.engines.exported import Exported, Settings
from regard.export.engines.onnx import OnnxEngine
from regard.export.engines.ours import TorchEngine
from regard.export.engines.transformers import TransformersEngine
from regard.export.manifest import Manifest

__all__ = ["Ctranslate2Engine", "OnnxEngine", "Settings", "TorchEngine", "TransformersEngine", "open_engine"]

EXPORTED: dict[str, type[Exported]] = {
    "ctranslate2": Ctranslate2Engine,
    "onnx": OnnxEngine,
    "marian": TransformersEngine,
}


def open_engine(folder: Path, settings: Settings | None = None) -> Engine:
    """The engine for an exported folder, whatever its format."""
    manifest, settings = Manifest.open(folder), settings or Settings()
    if manifest.format == "safetensors":
        from regard.training.pairs import load_translator

        return TorchEngine(load_translator(folder, device=settings.device))
    if manifest.format not in EXPORTED:
        raise RegardError(f"{folder} is an export in the format {manifest.format}, which this version cannot run.")
    return EXPORTED[manifest.format](folder, settings)
