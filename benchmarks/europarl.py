"""Europarl English → German as numbers, for benchmarks that are not about reading text.

    python benchmarks/europarl.py --data FOLDER --out PREPARED

Learns one vocabulary of 32,000 for both languages and turns the training text into token numbers.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

import numpy as np

from regard.config import TokenizerConfig
from regard.data import tokenizer as subwords
from regard.data.corpus import Corpus, read_pair
from regard.data.tokenizer import Ragged, TokenizerPair
from regard.tasks.translation import Pairs

SIDES = {"source": "en", "target": "de"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of train.en.xz, train.de.xz, valid.en.xz, …")
    parser.add_argument("--out", type=Path, required=True, help="where to put the numbers; a tokenizer there is used")
    arguments = parser.parse_args()
    prepare(arguments.data, arguments.out)


def prepare(data: Path, out: Path) -> None:
    train, valid = (
        {
            side: lzma.decompress((data / f"{split}.{language}.xz").read_bytes()).decode()
            for side, language in SIDES.items()
        }
        for split in ("train", "valid")
    )
    lines = {side: text.splitlines() for side, text in train.items()}
    if not (out / "tokenizer").is_dir():
        config = TokenizerConfig(vocab_size=32_000)
        subwords.train(config, lines["source"], lines["target"], seed=1).save(out / "tokenizer")
    tokenizers = TokenizerPair.load(out / "tokenizer")
    arrays: dict[str, np.ndarray] = {}
    for side in SIDES:
        tokens: Ragged = getattr(tokenizers, side).encode_corpus(lines[side])
        arrays |= {f"{side}.values": tokens.values, f"{side}.offsets": tokens.offsets}
        (out / f"valid.{side}").write_text(valid[side], encoding="utf-8")
    np.savez(out / "train.npz", **arrays)
    print(f"{len(lines['source']):,} pairs, {len(arrays['target.values']):,} target tokens")


def load(prepared: Path) -> tuple[TokenizerPair, Pairs, Corpus]:
    """The tokenizer, the training pairs and the validation text."""
    arrays = np.load(prepared / "train.npz")
    pairs = Pairs(*(Ragged(arrays[f"{side}.values"], arrays[f"{side}.offsets"]) for side in SIDES))
    valid = read_pair("valid", prepared / "valid.source", prepared / "valid.target")
    return TokenizerPair.load(prepared / "tokenizer"), pairs, valid


if __name__ == "__main__":
    main()
