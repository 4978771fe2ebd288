"""Finding the files of a named corpus in a folder somebody already has.

The folder may be the corpus's own or one above it, and may hold plain or compressed text, the archives as they are
downloaded, or what was unpacked from them. A folder beside the given one is looked into as well, where a test set
lies apart from its training text.
"""

from __future__ import annotations

import os
from pathlib import Path

from regard.data.named import Part, sides
from regard.errors import RegardError

ENDINGS = ("", ".gz", ".xz", ".zst")


class Folder:
    """Every file under a folder, by name."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise RegardError(f"There is no folder {root}.")
        self.root = root.resolve()
        self.places: dict[str, list[Path]] = {}
        for folder, _, files in os.walk(self.root):
            for name in sorted(files):
                self.places.setdefault(name, []).append(Path(folder) / name)

    def find(self, part: Part, languages: tuple[str, str]) -> tuple[Path, ...] | None:
        """The files of a part, source first: text, or else what is unpacked from archives, or else the archives."""
        for names in self.choices(part, languages):
            paths = [self.locate(name) for name in names]
            found = tuple(path for path in paths if path)
            if len(found) == len(names):
                return found
        return None

    def choices(self, part: Part, languages: tuple[str, str]) -> list[tuple[str, ...]]:
        texts: list[tuple[str, ...]] = []
        for pattern in part.local:
            texts.append(sides(pattern, languages) if "{}" in pattern else (pattern,))
        archives = tuple(address.rpartition("/")[2] for address in part.addresses)
        return [choice for choice in (*texts, part.members, archives) if choice]

    def names(self, part: Part, languages: tuple[str, str]) -> list[str]:
        """What to tell somebody whose folder lacks this part."""
        choices = self.choices(part, languages)
        return [f"{Path(name).name}" for name in choices[0 if part.local else -1]]

    def locate(self, name: str) -> Path | None:
        """A file such as multi30k/train.en: there, or with its first folders left out, or anywhere if only once."""
        parts = Path(name).parts
        tails = [Path(*parts[i:]) for i in range(len(parts))]
        for ending in ENDINGS:
            for base in (*(self.root / tail for tail in tails), self.root.parent / name):
                path = base.with_name(base.name + ending)
                if path.is_file():
                    return path
        anywhere = [path for ending in ENDINGS for path in self.places.get(parts[-1] + ending, [])]
        if len(anywhere) > 1:
            raise RegardError(f"{anywhere[0]} and {anywhere[1]} could both be {name}: give the folder of one of them.")
        return anywhere[0] if anywhere else None
