"""What an exported folder says of itself: format, the model's shape, how it decodes, and a digest of every file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.config import DecodeConfig, PairModel, read_model, read_section
from regard.data.files import file_hash
from regard.errors import RegardError
from regard.export import marian
from regard.export.ctranslate2 import POSITIONS
from regard.training.run import MANIFEST

UNSEALED = (MANIFEST, "README.md")  # files of a folder that its digests leave out


@dataclass(frozen=True)
class Manifest:
    """What must be known of an exported model to run it."""

    format: str
    quantization: str
    model: PairModel
    decode: DecodeConfig
    weights: str = ""  # the digest of those it was made of
    files: dict[str, str] = field(default_factory=dict)  # path → sha256; exports of older versions have none

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            model = read_model(content["model"])
            decode = read_section(DecodeConfig, content["decode"], "decode.")
            origin, files = content.get("weights", ""), dict(content.get("files", {}))
            return cls(content["format"], content["quantization"], model, decode, origin, files)
        except FileNotFoundError:
            raise RegardError(f"{folder} is no export: it has no {MANIFEST}; make one with regard export.") from None
        except (ValueError, KeyError, TypeError):
            raise RegardError(f"{folder / MANIFEST} is damaged: export the run again.") from None

    @classmethod
    def verified(cls, folder: Path) -> Manifest:
        """The same, of a folder whose files are those that were exported."""
        manifest = cls.open(folder)
        if path := next(manifest.altered(folder), None):
            raise RegardError(
                f"{path} is missing or not the one that was exported: delete {folder.resolve()} and export the run "
                "again."
            )
        return manifest

    def altered(self, folder: Path) -> Iterator[Path]:
        """The files of the folder that are gone or not those that were exported."""
        for name, digest in self.files.items():
            path = folder / name
            if not path.is_file() or file_hash(path) != digest:
                yield path

    @property
    def longest(self) -> int:
        """The longest sequence there are positions for."""
        if self.model.family != "recurrent" and self.model.positions == "learned":
            return self.model.max_positions
        return marian.POSITIONS if self.format == "marian" else POSITIONS


def file_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file that decides what an exported folder answers."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: file_hash(path) for name, path in names.items() if name not in UNSEALED}
