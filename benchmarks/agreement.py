"""One trained model, decoded in many ways: are the outputs the same?

    python benchmarks/agreement.py RUN [--source FILE] [--batches 7 64 512] [--formats ctranslate2 onnx marian]

The test text of the run, or FILE, is decoded a sentence at a time in float32, greedily and with a beam of 4. Beside
that stand larger batches in an order of their own, a search that keeps nothing from one token to the next, and exports
in other formats. It fails where differences are more than `regard export --check` allows (`regard.export.check.RULE`);
all are listed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import regard
from benchmarks.blockwise import text
from regard.config import DecodeConfig
from regard.decode.engine import Engine
from regard.decode.search import search
from regard.decode.state import Hypothesis
from regard.decode.translator import Translator
from regard.decode.wishes import Demand
from regard.export.check import RULE, SEARCHES, Comparison, compare, search_for, sentences_of
from regard.export.engines import open_engine
from regard.export.formats import export

SLOTS = 64  # of the search that keeps nothing

Way = Callable[[list[list[int]], DecodeConfig], list[Hypothesis]]
"""Sources and what is asked → the best output of each."""


class Afresh:
    """A step that keeps no keys and values: encoder and decoder begin anew with every token."""

    def __init__(self, translator: Translator, sources: Sequence[list[int]], beam: int) -> None:
        self.translator, self.sources, self.beam = translator, sources, beam
        self.inside: list[list[int]] = []  # the source of each slot
        self.outputs: list[list[list[int]]] = []  # (B, W), what each hypothesis has produced

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        if not self.inside:
            self.inside, self.outputs = [[] for _ in slots], [[] for _ in slots]
        for slot, sentence in zip(slots.tolist(), sentences, strict=True):
            self.inside[slot], self.outputs[slot] = self.sources[sentence], [[] for _ in range(self.beam)]

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        B, W = tokens.shape
        for hypotheses, position, last in zip(self.outputs, positions.tolist(), tokens.tolist(), strict=True):
            for output, token in zip(hypotheses, last, strict=True):
                output[max(position - 1, 0) :] = [token] * (position > 0)  # before the first token is the start symbol
        sources = [source for source in self.inside for _ in range(W)]
        asked = [[*output, 0] for hypotheses in self.outputs for output in hypotheses]  # what comes last is not fed
        logits = self.translator.feed(sources, asked)  # (B·W, T, V)
        places = positions.repeat_interleave(W)
        return logits[torch.arange(B * W), places].unflatten(0, (B, W))

    def reorder(self, parents: Tensor, longest: int) -> None:
        self.outputs = [
            [[*hypotheses[parent]] for parent in row]
            for hypotheses, row in zip(self.outputs, parents.tolist(), strict=True)
        ]

    def keep(self, slots: Tensor) -> None:
        self.inside, self.outputs = ([had[slot] for slot in slots.tolist()] for had in (self.inside, self.outputs))


def in_batches(translator: Translator, size: int, sources: list[list[int]], config: DecodeConfig) -> list[Hypothesis]:
    """So many sentences at a time, in an order of their own."""
    order = random.Random(size).sample(range(len(sources)), len(sources))
    found: dict[int, Hypothesis] = {}
    for start in range(0, len(order), size):
        group = order[start : start + size]
        outputs = translator.decode([sources[i] for i in group], 1, replace(config, batch_sentences=size))
        found.update((i, best) for i, (best, *_) in zip(group, outputs, strict=True))
    return [found[i] for i in range(len(sources))]


def afresh(translator: Translator, sources: list[list[int]], config: DecodeConfig) -> list[Hypothesis]:
    step = Afresh(translator, sources, config.beam_size)
    limits = [translator.limit(len(source), Demand(), config) for source in sources]
    options = translator.search_options(config, config.beam_size, 1)
    return [best for best, *_ in search(step, limits, options, translator.device, SLOTS)]


def by_engine(engine: Engine, sources: list[list[int]], config: DecodeConfig) -> list[Hypothesis]:
    return [best for best, *_ in engine.decode(sources, 1, config)]


@contextmanager
def ways(
    run: Path, weights: str, translator: Translator, batches: Sequence[int], formats: Sequence[str]
) -> Iterator[dict[str, Way]]:
    """Every way beside one sentence at a time, by its name."""
    found: dict[str, Way] = {f"batches of {size}": partial(in_batches, translator, size) for size in batches}
    found["no cache"] = partial(afresh, translator)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for to in formats:
            exported = stack.enter_context(export(run, to, Path(folder, to), weights=weights))
            found[to] = partial(by_engine, open_engine(exported.folder))
        yield found


@torch.inference_mode()
def compared(
    translator: Translator, sentences: Sequence[str], others: dict[str, Way], say: Callable[[str], None]
) -> dict[str, list[Comparison]]:
    """Every way beside one sentence at a time: by name, for each search."""
    lines, sources = sentences_of(translator, sentences)
    found: dict[str, list[Comparison]] = {name: [] for name in others}
    for name_of_search in SEARCHES:
        config = search_for(name_of_search)
        alone = in_batches(translator, 1, sources, config)
        for name, way in others.items():
            differences, apart = compare(translator, sources, alone, way(sources, config), lines, config)
            found[name].append(Comparison(name_of_search, len(lines), differences, apart))
            say(f"{name_of_search}, {name}: {len(differences)} of {len(lines):,} differ")
    return found


def table(found: dict[str, list[Comparison]]) -> str:
    titles = [f"{search}: {what}" for search in SEARCHES for what in ("differ", "apart, a token")]
    lines = [["one sentence at a time against", *titles], ["---", *["--:"] * len(titles)]]
    for name, each in found.items():
        cells = ((f"{len(one.differences)} of {one.sentences:,}", f"{one.scores:.1e}") for one in each)
        lines.append([name, *(cell for pair in cells for cell in pair)])
    listed = [
        f"{one.search}, {name}, line {d.line}, margin {d.margin:.1e}: {d.ours!r} alone, {d.theirs!r} there"
        for name, each in found.items()
        for one in each
        for d in one.differences
    ]
    return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), *(["", *listed] if listed else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, help="sentences, one a line; else the test text of the run's recipe")
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--batches", type=int, nargs="*", default=[7, 64, 512])
    parser.add_argument("--formats", nargs="*", default=["ctranslate2", "onnx", "marian"])
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--out", type=Path, help="folder for agreement.json")
    arguments = parser.parse_args()

    translator = regard.load(arguments.run, arguments.weights, "cpu")
    sentences, _ = text(arguments.run, arguments.source, arguments.sentences)
    with ways(arguments.run, arguments.weights, translator, arguments.batches, arguments.formats) as others:
        found = compared(translator, sentences, others, lambda line: print(line, file=sys.stderr))
    print(table(found))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        plain = {name: [one.plain() for one in each] for name, each in found.items()}
        content = json.dumps(plain, indent=1, allow_nan=False) + "\n"
        (arguments.out / "agreement.json").write_text(content, encoding="utf-8")
    if not all(one.exact for each in found.values() for one in each):
        sys.exit(f"Refused: {RULE}.")


if __name__ == "__main__":
    main()
