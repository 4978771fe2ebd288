"""Set anomaly detection: *Set Transformer*, §5.5: which image does not share what the others share?

The paper takes CelebA: seven images with two attributes, and one with neither. Departure: CelebA is not at hand. The
meta-task is built from Flickr8k (Hodosh et al., 2013), whose five captions an image say what is to be seen: an image
has the attribute *dog* if at least two captions have one of its words. Seven images that share two attributes and one
that has neither make a set, as in the paper. Training sets are made of Flickr8k's training images, held-out ones of its
development and test images, so that no image is seen in both.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from regard.data.sets.stream import Sets, need_file
from regard.errors import RegardError

SEED = 85  # of the sets where they are a fixed number
AGREEING = 2  # captions that name an attribute
LISTS = {"train": "train", "valid": "dev", "test": "test"}
CAPTIONS = "Flickr8k.token.txt.xz"


def list_of(split: str) -> str:
    return f"Flickr_8k.{LISTS[split]}Images.txt.xz"


FILES = ("index.npz", "images_jpeg.bin", CAPTIONS, *map(list_of, LISTS))
FOLDER = f"the folder of Flickr8k with {', '.join(FILES[:-1])} and {FILES[-1]}"
# What people say of an image, and the words that say it.
ATTRIBUTES = {
    "dog": "dog dogs puppy", "man": "man men", "woman": "woman women lady", "boy": "boy boys", "girl": "girl girls",
    "child": "child children kid kids toddler baby", "group": "group crowd several people many",
    "two": "two couple both", "water": "water lake river ocean sea pool waves wave", "snow": "snow snowy",
    "grass": "grass grassy lawn", "beach": "beach sand sandy shore", "field": "field", "street": "street road sidewalk",
    "mountain": "mountain mountains cliff rock rocks rocky hill", "ball": "ball football soccer basketball tennis",
    "bike": "bike bicycle biker bicyclist motorcycle cyclist", "running": "running runs run", "playing":
    "playing plays play", "jumping": "jumping jumps jump leaps leaping air midair", "sitting": "sitting sits sit",
    "standing": "standing stands stand", "swimming": "swimming swims swim splashing splashes", "red": "red",
    "blue": "blue", "white": "white", "black": "black", "yellow": "yellow", "green": "green",
    "brown": "brown tan", "orange": "orange", "pink": "pink", "hat": "hat cap helmet", "shirt": "shirt",
}  # fmt: skip


@dataclass(frozen=True)
class Anomalies:
    """Sets of images of which one lacks what the others share; the target is its place."""

    images: np.ndarray  # (n, side, side, 3) uint8
    attributes: np.ndarray  # (n, attributes) bool
    size: int
    count: int | None  # None: a new set each time
    fingerprint: str

    @property
    def extent(self) -> str:
        return f"{f'{self.count:,}' if self.count else 'endless'} sets of {self.size} of {len(self.images):,} images"

    def draw(self, chance: np.random.Generator, numbers: np.ndarray) -> Sets:
        if self.count is None:
            rows = [self.members(chance) for _ in numbers]
        else:
            rows = [self.members(np.random.default_rng([SEED, int(number)])) for number in numbers]
        members, places = np.stack([row for row, _ in rows]), np.array([place for _, place in rows])
        outlier = np.arange(self.size) == places[:, None]
        sizes = np.full(len(numbers), self.size)
        return Sets(self.images[members], sizes, places, {"outlier": outlier, "image": members})

    def members(self, chance: np.random.Generator) -> tuple[np.ndarray, int]:
        """The images of one set, and the place of the one that does not belong."""
        first, second = self.pairs[chance.integers(len(self.pairs))]
        both = np.flatnonzero(self.attributes[:, first] & self.attributes[:, second])
        neither = np.flatnonzero(~self.attributes[:, first] & ~self.attributes[:, second])
        inside = chance.choice(both, self.size - 1, replace=False)
        place = int(chance.integers(self.size))
        return np.insert(inside, place, chance.choice(neither)), place

    @cached_property
    def pairs(self) -> np.ndarray:
        """(pairs, 2): attributes that enough images share, and enough lack."""
        has = self.attributes.astype(np.int64)
        both, neither = has.T @ has, (1 - has).T @ (1 - has)
        found = np.argwhere(np.triu(both >= self.size - 1, 1) & (neither >= 1))
        if not len(found):
            raise RegardError(f"No two attributes are shared by {self.size - 1} images: lower data.size.")
        return found


def flickr8k(path: str, split: str, size: int, count: int | None, side: int) -> Anomalies:
    """Flickr8k as a folder: index.npz (offsets, names), images_jpeg.bin, the captions and the lists of its splits."""
    images, attributes, parts, fingerprint = read_flickr8k(path, side)
    part = parts[split]
    return Anomalies(images[part], attributes[part], size, count, fingerprint)


@lru_cache(maxsize=1)
def read_flickr8k(path: str, side: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], str]:
    from PIL import Image

    need_file(path, FOLDER, folder=True)
    folder = Path(path)
    for file in FILES:
        if not (folder / file).is_file():
            raise RegardError(f"data.path = {path} has no file {file}: it should be {FOLDER}.")
    try:
        with np.load(folder / "index.npz", allow_pickle=False) as index:
            offsets, names = index["offsets"], [str(name) for name in index["names"]]
    except (KeyError, ValueError, BadZipFile):
        raise RegardError(f"{folder / 'index.npz'} should have the arrays offsets and names.") from None
    raw = (folder / "images_jpeg.bin").read_bytes()
    captions = unpacked(folder / CAPTIONS)
    lists = {split: unpacked(folder / list_of(split)).split() for split in LISTS}
    images = np.empty((len(names), side, side, 3), dtype=np.uint8)
    for i in range(len(names)):
        picture = Image.open(io.BytesIO(raw[offsets[i] : offsets[i + 1]])).convert("RGB")
        images[i] = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))
    number = {name: i for i, name in enumerate(names)}
    parts = {
        split: np.array(sorted(number[name] for name in listed if name in number)) for split, listed in lists.items()
    }
    fingerprint = hashlib.sha256(raw + captions.encode()).hexdigest()
    return images, named(captions, number), parts, fingerprint


def unpacked(path: Path) -> str:
    try:
        return lzma.decompress(path.read_bytes()).decode("utf-8")
    except (lzma.LZMAError, UnicodeDecodeError):
        raise RegardError(f"{path} should be a text that xz has packed.") from None


def named(captions: str, number: dict[str, int]) -> np.ndarray:
    """(images, attributes) bool, from lines `NAME#i<TAB>caption`."""
    votes = np.zeros((len(number), len(ATTRIBUTES)), dtype=np.int64)
    attribute = {word: i for i, words in enumerate(ATTRIBUTES.values()) for word in words.split()}
    for line in captions.splitlines():
        image, _, caption = line.partition("\t")
        row = number.get(image.partition("#")[0])
        if row is not None:
            words = re.findall(r"[a-z]+", caption.lower())
            votes[row, sorted({attribute[word] for word in words if word in attribute})] += 1
    return votes >= AGREEING
