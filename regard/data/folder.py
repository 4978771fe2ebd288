"""Finding the files of a named corpus in a folder somebody already has.

The folder may be the corpus's own or one above it, and may hold plain or compressed text, the archives as they are
downloaded, or what was unpacked from them. A folder beside the given one is looked into as well, where a test set
lies apart from its training text. The two languages of a part always come from one and the same folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from regard.data.files import ENDINGS
from regard.data.named import Part, sides
from regard.errors import RegardError

KINDS = ("text", "members", "archives")  # what a part can be found as: the text, unpacked or in its archives


class Folder:
    """Every file under a folder, by name."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise RegardError(f"There is no folder {root}.")
        self.root = root.resolve()
        self.folders: dict[str, list[Path]] = {}  # name → the folders that have such a file
        for folder, _, files in os.walk(self.root):
            for name in sorted(files):
                self.folders.setdefault(name, []).append(Path(folder))

    def find(self, part: Part, languages: tuple[str, str], kinds: Iterable[str] = KINDS) -> tuple[Path, ...] | None:
        """The files of a part, source first, as the first of the kinds they are there in."""
        choices = self.choices(part, languages)
        return next((found for kind in kinds for names in choices[kind] if (found := self.together(names))), None)

    def choices(self, part: Part, languages: tuple[str, str]) -> dict[str, list[tuple[str, ...]]]:
        """The names a part may have, by kind."""
        texts = [sides(pattern, languages) if "{}" in pattern else (pattern,) for pattern in part.local]
        archives = tuple(address.rpartition("/")[2] for address in part.addresses)
        return {
            "text": list(texts),
            "members": [part.members] if part.members else [],
            "archives": [archives] if archives else [],
        }

    def names(self, part: Part, languages: tuple[str, str]) -> list[str]:
        """What to tell somebody whose folder lacks this part."""
        choices = self.choices(part, languages)
        return [Path(name).name for name in (choices["text"] or choices["archives"])[0]]

    def together(self, names: tuple[str, ...]) -> tuple[Path, ...] | None:
        """Files such as multi30k/train.en and its other language: there, or with their first folders left out, or
        beside, or in a folder anywhere below if only one has them all."""
        parts = [Path(name).parts for name in names]
        for i in range(max(map(len, parts))):
            if found := self.under(self.root, [Path(*part[min(i, len(part) - 1) :]) for part in parts]):
                return found
        if found := self.under(self.root.parent, [Path(name) for name in names]):
            return found
        last = [Path(part[-1]) for part in parts]
        folders = dict.fromkeys(folder for ending in ENDINGS for folder in self.folders.get(f"{last[0]}{ending}", []))
        anywhere = [found for folder in folders if (found := self.under(folder, last))]
        if len(anywhere) > 1:
            raise RegardError(
                f"{anywhere[0][0]} and {anywhere[1][0]} could both be {names[0]}: give the folder of one of them."
            )
        return anywhere[0] if anywhere else None

    @staticmethod
    def under(folder: Path, tails: list[Path]) -> tuple[Path, ...] | None:
        """The files in one folder, plain or compressed, if all are there."""
        found = []
        for tail in tails:
            paths = (folder / tail.with_name(tail.name + ending) for ending in ENDINGS)
            found.append(next((path for path in paths if path.is_file()), None))
        whole = tuple(path for path in found if path)
        return whole if len(whole) == len(tails) else None
