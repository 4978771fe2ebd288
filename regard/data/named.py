"""The public corpora known by name: where their files lie, under which licence, and how they become aligned text.

A corpus is a table of splits; a split is a list of parts that follow each other; a part is the same lines in two
languages, as two files or as two members of archives. Checksums stand here where they are certain; for everything
else the first download is recorded in the corpus's lock.json and every later one is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Part:
    """The same lines in the two languages, source first."""

    addresses: tuple[str, ...] = ()  # one file each, or one archive twice; none where nothing is public
    members: tuple[str, ...] = ()  # the files inside the archives
    local: tuple[str, ...] = ()  # what `--from` looks for, folder/name with {} for the language, the best first


@dataclass(frozen=True)
class Named:
    """A corpus and how to get it."""

    languages: tuple[str, str]
    licence: str
    parts: Mapping[str, tuple[Part, ...]]  # split → its parts
    pairs: int = 0  # of the training text, where known; of WMT's to the nearest half million
    further: tuple[str, ...] = ()  # splits that may be missing from a folder given with `--from`
    form: Literal["text", "tatoeba", "iwslt"] = "text"  # what has to be done to the files
    checksums: Mapping[str, str] = field(default_factory=dict)  # file name → algorithm:hexadecimal

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.parts)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every download once."""
        found = (address for parts in self.parts.values() for part in parts for address in part.addresses)
        return tuple(dict.fromkeys(found))

    @property
    def public(self) -> bool:
        return all(part.addresses for split in self.parts if split not in self.further for part in self.parts[split])


def sides(pattern: str, languages: tuple[str, str]) -> tuple[str, str]:
    return pattern.format(languages[0]), pattern.format(languages[1])


# --- Multi30k: captions of Flickr pictures ---------------------------------------------------------------

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
MULTI30K_LICENCE = "research and education, Flickr's terms"
MULTI30K_CHECKSUMS = {
    "train.en.gz": "sha256:d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "sha256:726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "sha256:14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "sha256:f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "sha256:611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "sha256:9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2018_flickr.de.gz": "md5:87e00327083dd69feaa029a8f7c1a047",
    "test_2018_flickr.fr.gz": "md5:a64563e986438ed731a6713027c36bfd",
    "test_2018_flickr.cs.gz": "md5:4c6b6490e58107b2e397c5e3e1690abc",
}


def multi30k(target: str, tokenized: bool = False) -> Named:
    languages = ("en", target)
    stems = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    further = ("test_2018_flickr",) if target == "cs" else ("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")
    parts = {}
    for split, stem in (stems | {name: name for name in further}).items():
        name = f"{stem}.lc.norm.tok.{{}}" if tokenized else f"{stem}.{{}}"
        address = f"{MULTI30K}/tok/{name}" if tokenized else f"{MULTI30K}/raw/{name}.gz"
        local = (f"multi30k/tok/{name}", f"multi30k/{name}") if tokenized else (f"multi30k/{name}",)
        parts[split] = (Part(sides(address, languages), local=local),)
    checksums = {} if tokenized else MULTI30K_CHECKSUMS
    return Named(languages, MULTI30K_LICENCE, parts, 29_000, further, checksums=checksums)


# --- Tatoeba: short sentences by volunteers --------------------------------------------------------------


def tatoeba(code: str, target: str) -> Named:
    """One table, English first; the splits are drawn from it by a hash of the English sentence."""
    table = Part((f"https://www.manythings.org/anki/{code}-eng.zip",), (f"{code}.txt",), (
        f"tatoeba_manythings/{code}-eng.tsv", f"tatoeba_manythings/{code}.txt",
    ))  # fmt: skip
    parts = dict.fromkeys(("train", "valid", "test"), (table,))
    return Named(("en", target), "CC BY 2.0 (manythings.org, tatoeba.org)", parts, form="tatoeba")


# --- IWSLT 2014: TED talks -------------------------------------------------------------------------------

IWSLT14 = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
IWSLT14_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def iwslt14() -> Named:
    languages = ("de", "en")
    archives = (IWSLT14, IWSLT14)

    def part(name: str, *local: str) -> Part:
        return Part(archives, sides(f"de-en/{name}", languages), tuple(f"iwslt14_deen/{one}" for one in local))

    train = part("train.tags.de-en.{}", "train.tok.lc.{}", "train_sample4600.tok.lc.{}")
    valid = part("train.tags.de-en.{}", "valid.tok.lc.{}")
    tests = tuple(part(f"IWSLT14.{name}.de-en.{{}}.xml", "test.tok.lc.{}") for name in IWSLT14_TESTS)
    parts = {"train": (train,), "valid": (valid,), "test": tests}
    return Named(languages, "TED's: CC BY-NC-ND, none stated with the archive", parts, 160_239, form="iwslt")


# --- WMT 2014 and the European Parliament ----------------------------------------------------------------

STATMT = "https://www.statmt.org"
WMT_LICENCE = "none stated; research use (statmt.org/wmt14)"
WMT_CHECKSUMS = {
    "test.tgz": "md5:48eca5d02f637af44e85186847141f67",
    "test-full.tgz": "md5:a8cd784e006feb32ac6f3d9ec7eb389a",
}


def wmt14(target: str, pairs: int) -> Named:
    languages = ("en", target)

    def archive(address: str, member: str) -> Part:
        return Part((f"{STATMT}/{address}",) * 2, sides(member, languages))

    train = [
        archive("wmt13/training-parallel-europarl-v7.tgz", f"training/europarl-v7.{target}-en.{{}}"),
        archive("wmt13/training-parallel-commoncrawl.tgz", f"commoncrawl.{target}-en.{{}}"),
        archive("wmt14/training-parallel-nc-v9.tgz", f"training/news-commentary-v9.{target}-en.{{}}"),
    ]
    if target == "fr":
        train += [
            archive("wmt13/training-parallel-un.tgz", "un/undoc.2000.fr-en.{}"),
            archive("wmt10/training-giga-fren.tar", "giga-fren.release2.fixed.{}.gz"),
        ]
    valid = Part(
        (f"{STATMT}/wmt13/test.tgz",) * 2, sides("test/newstest2013-src.{}.sgm", languages),
        ("wmt_newstest/newstest2013.{}",),
    )  # fmt: skip
    parts = {"train": tuple(train), "valid": (valid,), "test": (newstest2014(languages),)}
    return Named(languages, WMT_LICENCE, parts, pairs, checksums=WMT_CHECKSUMS)


def newstest2014(languages: tuple[str, str]) -> Part:
    source, target = languages
    stem = f"test-full/newstest2014-{target}{source}"
    return Part(
        (f"{STATMT}/wmt14/test-full.tgz",) * 2, (f"{stem}-src.{source}.sgm", f"{stem}-ref.{target}.sgm"),
        (f"wmt_newstest/newstest2014.{source}-{target}.{{}}",),
    )  # fmt: skip


def europarl(target: str, pairs: int) -> Named:
    """The debates aligned anew: not Europarl v7, and nowhere public, so `--from` only."""
    languages = ("en", target)
    parts = {split: (Part(local=(f"europarl_en{target}/{split}.{{}}",)),) for split in ("train", "valid")}
    licence = "none stated (Multilingual-Parallel-Direct-Europarl)"
    return Named(languages, licence, parts | {"test": (newstest2014(languages),)}, pairs, further=("test",))


CORPORA: dict[str, Named] = {
    "multi30k-en-de": multi30k("de"),
    "multi30k-en-fr": multi30k("fr"),
    "multi30k-en-cs": multi30k("cs"),
    "multi30k-en-de-tok": multi30k("de", tokenized=True),
    "multi30k-en-fr-tok": multi30k("fr", tokenized=True),
    "tatoeba-en-de": tatoeba("deu", "de"),
    "tatoeba-en-fr": tatoeba("fra", "fr"),
    "iwslt14-de-en": iwslt14(),
    "wmt14-en-de": wmt14("de", 4_500_000),
    "wmt14-en-fr": wmt14("fr", 36_000_000),
    "europarl-en-de": europarl("de", 800_000),
    "europarl-en-fr": europarl("fr", 350_000),
}
