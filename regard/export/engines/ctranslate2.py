"""CTranslate2 as an engine: batches side by side, and a limit of length for each sentence, not one for a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.config import DecodeConfig
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import BOS, EOS, PAD, TokenizerPair
from regard.decode.engine import Progress
from regard.decode.state import Hypothesis
from regard.errors import RegardError
from regard.export.engines.exported import BANNED, HONOURED, Exported, Found, Settings, alike, needed, ranked


class Ctranslate2Engine(Exported):
    """CTranslate2 on an exported folder."""

    name, honours = "CTranslate2", HONOURED | {"max_length"}  # no min_length: it makes other tokens more probable
    at_once = 2  # while the last batches of one call are at work, the first of the next fill what they leave idle

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, settings)
        ctranslate2 = needed("ctranslate2", "fast")
        tokenizers = TokenizerPair.load(folder / "tokenizer")
        sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
        self.source, self.target = tokenizers.source.pieces(range(sizes[0])), tokenizers.target.pieces(range(sizes[1]))
        self.numbers = {piece: number for number, piece in enumerate(self.target)}
        device, _, index = self.settings.device.partition(":")
        threads = torch.get_num_threads()
        try:
            able = ctranslate2.get_supported_compute_types(device, int(index or 0))
            lacking = self.settings.compute_type == "default" and self.manifest.quantization not in able
            self.instead = "float32" if lacking else ""  # CTranslate2 itself would take int8 for int16
            self.translator = ctranslate2.Translator(
                str(folder), device=device, device_index=int(index or 0),
                compute_type=self.instead or self.settings.compute_type,
                inter_threads=self.settings.inter_threads, intra_threads=self.settings.intra_threads,
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise RegardError(f"CTranslate2 cannot open {folder}: {error}.") from None
        finally:
            torch.set_num_threads(threads)  # it changes those of the whole process
        for side, pieces in (("source", self.source), ("target", self.target)):
            for path in (folder / f"{side}_vocabulary.json", folder / "shared_vocabulary.json"):
                if path.is_file() and json.loads(path.read_text(encoding="utf-8")) != pieces:
                    raise RegardError(
                        f"{path} and {folder / 'tokenizer'} have different pieces, so one of them is another model's: "
                        "export the run again."
                    )

    @property
    def compute_type(self) -> str:
        return self.instead or self.settings.compute_type

    def limit(self, source: Sequence[int], config: DecodeConfig) -> int:
        """The most tokens an output may have."""
        return min(len(source) + config.extra_length, config.max_length or self.longest, self.longest)

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """The sources of a batch differ in length, and CTranslate2 has one limit for all of them. Where that was above
        a source's own, and an output came so far, the source is searched again with its like."""
        self.check_lengths(sources)
        limits = [self.limit(source, config) for source in sources]
        width = max(config.beam_size, n_best)
        batch = even(len(sources), config.batch_sentences, self.settings.inter_threads)
        groups = in_order_of_length([len(source) for source in sources], batch)
        found: list[list[Found]] = [[] for _ in sources]
        beyond, done = set(), 0
        for group, pools in self.search(sources, groups, limits, width, config):
            ceiling = max(limits[i] for i in group)
            for i, pool in zip(group, pools, strict=True):
                found[i] = pool
                if limits[i] < ceiling and any(len(tokens) >= limits[i] for tokens, _ in pool):
                    beyond.add(i)
            done += len(group)
            if progress:
                progress(done - len(beyond))
        for group, pools in self.search(sources, alike(beyond, limits, batch), limits, width, config):
            for i, pool in zip(group, pools, strict=True):
                found[i] = pool
        # What is barred here leaves the other tokens more probable than they are, and a beam then ranks otherwise: so
        # nothing is, until it comes out.
        odd = [i for i, pool in enumerate(found) if any(not set(BANNED).isdisjoint(tokens) for tokens, _ in pool)]
        barred = {"disable_unk": True, "suppress_sequences": [[self.target[PAD]], [self.target[BOS]]]}
        for group, pools in self.search(sources, alike(odd, limits, batch), limits, width, config, barred):
            for i, pool in zip(group, pools, strict=True):
                found[i] = self.rescored(sources[i], pool)
        if progress:
            progress(len(sources))
        return [ranked(pool, n_best, config) for pool in found]

    def rescored(self, source: Sequence[int], pool: list[Found]) -> list[Found]:
        """Outputs with the log-probabilities that they have where nothing is barred."""
        pieces = [[self.source[token] for token in source[:-1]]] * len(pool)
        outputs = [[self.target[token] for token in tokens if token != EOS] for tokens, _ in pool]  # it adds the end
        scored = self.translator.score_batch(pieces, outputs, max_input_length=0)
        return [(tokens, sum(score.log_probs[: len(tokens)])) for (tokens, _), score in zip(pool, scored, strict=True)]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        groups: Iterable[list[int]],
        limits: Sequence[int],
        width: int,
        config: DecodeConfig,
        barred: dict[str, Any] | None = None,
    ) -> Iterator[tuple[list[int], list[list[Found]]]]:
        """All that a beam has found for the sources of each group, under the largest of their limits."""
        waiting: list[tuple[list[int], list[Any]]] = []
        for group in groups:
            pieces = [[self.source[token] for token in sources[i][:-1]] for i in group]  # it adds the end symbol
            answers = self.translator.translate_batch(
                pieces, asynchronous=True, beam_size=width, num_hypotheses=width, length_penalty=config.length_penalty,
                patience=self.settings.patience if width > 1 else 1, min_decoding_length=0,
                max_decoding_length=max(limits[i] for i in group), max_input_length=0, return_scores=True,
                return_end_token=True, **(barred or {}),
            )  # fmt: skip
            waiting.append((group, answers))
        for group, answers in waiting:
            yield group, [self.outputs(answer.result(), config.length_penalty) for answer in answers]

    def outputs(self, answer: Any, length_penalty: float) -> list[Found]:
        return [
            ([self.numbers[piece] for piece in pieces], score * len(pieces) ** length_penalty)
            for pieces, score in zip(answer.hypotheses, answer.scores, strict=True)
        ]


def even(count: int, batch: int, workers: int) -> int:
    """The smallest batch with which no worker has more batches than with `batch`: the last round is as full as the
    others."""
    rounds = max(1, -(-count // (batch * workers)))
    return max(1, -(-count // (rounds * workers)))
