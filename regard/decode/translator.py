"""A trained translation model as people use it: text in, text out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from regard.config import FOREIGN, DecodeConfig, foreign, read_section
from regard.data.tokenizer import BOS, EOS, PAD, UNK, TokenizerPair
from regard.decode.ahead import Ahead, LimitsAhead
from regard.decode.blockwise import decode_blocks
from regard.decode.constraints import Coverage
from regard.decode.engine import Engine
from regard.decode.ensemble import Ensemble
from regard.decode.looking import Looking
from regard.decode.margins import margin
from regard.decode.phrases import Spelling, automaton
from regard.decode.recorded import Benches, BenchRoom, KeptBench
from regard.decode.request import Request, Translation, whole
from regard.decode.sampling import Drawer, Sampling
from regard.decode.search import Take, search, work
from regard.decode.state import Hypothesis, SearchOptions
from regard.decode.step import Constraint
from regard.decode.wishes import Demand, Wish, constraints_for, in_tokens, listed, more_hypotheses
from regard.errors import RegardError, nearest
from regard.models.blockwise import TransformerBlockStep
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import step_of
from regard.models.stepping import ModelStep
from regard.models.transformer import a_transformer
from regard.nn.attention import recording

Kept = TypeVar("Kept")


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python's collector of cycles away. A search makes thousands of objects and no cycle, and the collector would
    look through all that the process has again and again: half of the host's time in bulk (docs/log.md)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Translator(Looking):
    """Translates sentences with a model, its tokenizers and its decoding options.

    `translate` gives text, `search` gives n-best lists with scores. `partners` are further models that produce each
    token together with `model`. Where there is an `engine`, that searches in place of the model, which then may be one
    of the shape alone, on torch's meta device: it gives no alignments and no attention.
    """

    task: ClassVar[str] = "translation"

    def __init__(
        self,
        name: str,
        model: EncoderDecoder,
        tokenizers: TokenizerPair,
        config: DecodeConfig,
        partners: Sequence[EncoderDecoder] = (),
        engine: Engine | None = None,
    ) -> None:
        super().__init__(name, model, tokenizers, config)
        self.engine = engine
        self.partners = [partner.eval() for partner in partners]
        self.spelling = Spelling(tokenizers.target)
        self.in_precision: dict[str, list[EncoderDecoder]] = {}
        self.benches = Benches()

    @overload
    def translate(self, text: str, **options: Any) -> str: ...
    @overload
    def translate(self, text: list[str], **options: Any) -> list[str]: ...
    def translate(self, text: str | list[str], **options: Any) -> str | list[str]:
        """The best translation of a sentence, or of each of several.

        Options are the keys of a recipe's [decode] section, e.g. `beam_size=1` for greedy search.
        """
        if text is None or isinstance(text, bytes):
            raise RegardError(f"A {type(text).__name__} cannot be translated: give a text or a list of texts.")
        sentences = [text] if isinstance(text, str) else text
        texts = [best for best, *_ in self.answer(sentences, attrgetter("text"), **options)]
        return texts[0] if isinstance(text, str) else texts

    def options(self, **changes: Any) -> DecodeConfig:
        """The decoding options with some keys changed; a wrong key or value is named."""
        known = [key for key in vars(self.config) if key not in FOREIGN[self.task]]
        for key in changes:
            if key in FOREIGN[self.task]:
                raise RegardError(foreign(self.task, key))
            if key not in known:
                raise RegardError(f"There is no decoding option {key}{nearest(key, known)}.")
        return read_section(type(self.config), {**vars(self.config), **changes}, "decode.")

    def search(
        self,
        sentences: Sequence[str],
        n_best: int = 1,
        progress: Callable[[int], None] | None = None,
        wishes: Iterable[Wish] | None = None,
        forbidden: Sequence[str] = (),
        **options: Any,
    ) -> list[list[Translation]]:
        """The n best translations of each sentence, best first; an empty sentence translates to itself.

        `progress` is told after each batch how many sentences are done. `wishes` has one for each sentence; `forbidden`
        phrases come out of none as whole words.
        """
        return self.answer(sentences, whole, n_best, progress, wishes, forbidden, **options)

    @uncollected()
    @torch.inference_mode()
    def answer(
        self,
        sentences: Sequence[str],
        keep: Callable[[Translation], Kept],
        n_best: int = 1,
        progress: Callable[[int], None] | None = None,
        wishes: Iterable[Wish] | None = None,
        forbidden: Sequence[str] = (),
        **options: Any,
    ) -> list[list[Kept]]:
        """What `keep` says of the translations that `search` would give; no more than that is kept of them."""
        config = self.options(**options)
        sentences, forbidden = listed("sentences", sentences), listed("forbidden", forbidden)
        wishes = None if wishes is None else list(wishes)
        if any(not isinstance(wish, Wish) for wish in wishes or ()):
            raise RegardError('wishes are regard.decode.wishes.Wish, one for each sentence, e.g. Wish(prefix="The").')
        if n_best < 1:
            raise RegardError(f"n_best = {n_best} must be at least 1.")
        if wishes is not None and len(wishes) != len(sentences):
            raise RegardError(f"{len(sentences)} sentences have {len(wishes)} wishes: there must be one for each.")
        if any(forbidden) or any(wish != Wish() for wish in wishes or ()):
            self.check_phrases()
        demands = [in_tokens(wish, self.spelling) for wish in wishes or ()]
        barred = automaton(self.spelling, forbidden) if any(forbidden) else None
        with recording(self.model, None) as watched:
            kept = whole if watched else keep
            found: list[list[Any]] = Request(self, sentences, n_best, config, progress, demands, barred, kept).answer()
        if not watched:
            return found
        if best_of := [best for best, *_ in found if best.target_tokens]:
            # What a capture around this call gets: the finished translations, fed once.
            self.feed([t.source_tokens for t in best_of], [t.target_tokens for t in best_of])
        return [[keep(one) for one in best] for best in found]

    def ended(self, translation: Translation) -> bool:
        """Whether the model has ended a translation of its own; else it came to the limit of its tokens."""
        return not translation.target_tokens or translation.target_tokens[-1] == EOS

    def check_phrases(self) -> None:
        """Whether outputs can be asked to have prefixes and phrases, or to be without some."""
        if self.engine:
            raise RegardError(f"{self.engine.name} knows no prefixes, required or forbidden phrases: torch does.")

    def stays(self, config: DecodeConfig) -> bool:
        """Whether slots outlast a search, where what is asked of it lets them."""
        return config.recorded == "always" or (config.recorded == "auto" and self.device.type == "cuda")

    def decode(
        self,
        sources: list[list[int]],
        n_best: int,
        config: DecodeConfig,
        progress: Callable[[int], None] | None = None,
        demands: Sequence[Demand] | None = None,
        barred: np.ndarray | None = None,
        take: Take | None = None,
    ) -> list[list[Hypothesis]]:
        """Search for the outputs of token sequences, `batch_sentences` of them at a time.

        `demands` has one for each source, all of them for equally wide beams (`equally_wide`); `barred` is an automaton
        that must not die. An output that cannot be has no hypothesis. `take` gets outputs as they are found, and they
        are not returned: what it does with them the device need not wait for.
        """
        if self.engine:
            found = self.engine.decode(sources, n_best, config, progress)
            if not take:
                return found
            take(range(len(found)), found)
            return []
        if not sources:
            return []
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        ordered = [sources[i] for i in order]
        asked = [demands[i] for i in order] if demands else [Demand()] * len(sources)
        limit = cache(partial(self.limit, config=config))
        limits = [limit(len(source), demand) for source, demand in zip(ordered, asked, strict=True)]
        room = BenchRoom.of(len(ordered), len(ordered[0]), max(limits), config.batch_sentences)
        take = partial(by_number, order, take) if take else None
        found = self.find(ordered, limits, room, n_best, config, progress, asked, barred, take)
        if take:
            return []
        in_order: list[list[Hypothesis]] = [[]] * len(order)
        for i, hypotheses in zip(order, found, strict=True):
            in_order[i] = hypotheses
        return in_order

    def begins_early(self, config: DecodeConfig) -> bool:
        """Whether `begin` knows what is asked: likely outputs, in slots that stay. (A tokenizer that is Python itself
        would be in the way of the search.)"""
        asked = config.sample or config.coverage_penalty or constraints_for(config, [], None, self.spelling, 1)
        alone = not (asked or self.partners or self.engine)
        return alone and self.stays(config) and self.tokenizers.source.vocabulary is None

    def begin(
        self, sources: Ahead, n_best: int, config: DecodeConfig, progress: Callable[[int], None], take: Take
    ) -> None:
        """Decode sources of which only the first are known yet."""
        limit = cache(partial(self.limit, demand=Demand(), config=config))
        room = BenchRoom.of(len(sources), sources.longest, limit(sources.longest), config.batch_sentences)
        limits = LimitsAhead(sources, limit, min(room.source, self.longest, config.max_source), room.output)
        asked = [Demand()] * len(sources)
        self.find(
            sources, limits, room, n_best, config, progress, asked, take=take, ready=sources.ready,
            portion=sources.piece,
        )  # fmt: skip

    def find(
        self,
        sources: Sequence[list[int]],
        limits: Sequence[int],
        room: BenchRoom,
        n_best: int,
        config: DecodeConfig,
        progress: Callable[[int], None] | None,
        demands: Sequence[Demand],
        barred: np.ndarray | None = None,
        take: Take | None = None,
        ready: Callable[[], int] = lambda: sys.maxsize,
        portion: int = 0,
    ) -> list[list[Hypothesis]]:
        """The outputs of sources in the order in which they shall enter.

        ready: how many of the first sources are tokenised yet   portion: how many are encoded before the others
        """
        beam = n_best if config.sample else beam_width(demands[0], n_best, config)
        options = self.search_options(config, beam, n_best)
        watched = self.alignment_layer if config.coverage_penalty else None
        models = self.networks(config.precision)
        steps = [self.stepping(model, sources, beam, watched) for model in models]
        step: ModelStep | Ensemble = Ensemble(steps) if self.partners else steps[0]
        constraints = self.constraints(config, demands, barred, beam, sources)
        if config.coverage_penalty:
            constraints.append(Coverage(step, config.coverage_penalty))
        sampling = Sampling(config.temperature, config.top_k, config.top_p, config.seed)
        sampler = Drawer(sampling, sources, beam) if config.sample else None
        if config.blockwise:
            beside = {
                "ensembles": self.partners, "samples": sampler,
                "prefixes, phrases, coverage, least lengths or barred repeats": constraints,
            }  # fmt: skip
            if named := [what for what, given in beside.items() if given]:
                raise RegardError(f"Blockwise decoding knows no {' and no '.join(named)}: leave one of the two out.")
            if n_best > 1:
                raise RegardError(
                    "Blockwise decoding finds what greedy search finds, one translation: leave out n_best."
                )
        if self.stays(config) and all(one.lasting for one in constraints) and not (sampler or self.partners):
            bench = self.bench(sources, room, options, config, constraints)

            def expect(numbers: range) -> None:
                bench.expect(range(numbers.start, min(numbers.stop, ready())))

            return work(
                bench.recorded, bench.parts, limits, self.device, progress, take, expect=expect, portion=portion
            )
        if config.blockwise:
            blocks, slots = self.block_step(sources, config.precision), config.batch_sentences
            return [[one] for one in decode_blocks(blocks, limits, options, self.device, slots, progress, take)]
        return search(
            step, limits, options, self.device, config.batch_sentences, progress=progress, constraints=constraints,
            sampler=sampler, take=take,
        )  # fmt: skip

    def search_options(self, config: DecodeConfig, beam: int, n_best: int) -> SearchOptions:
        return SearchOptions(
            start=self.start, end=EOS, beam_size=beam, n_best=n_best, length_penalty=config.length_penalty,
            normalization=config.normalization, banned=(PAD, BOS, UNK),
        )  # fmt: skip

    def stepping(
        self, model: EncoderDecoder, sources: Sequence[list[int]], beam: int, watched: int | None = None
    ) -> ModelStep:
        """A model in the middle of producing sequences."""
        return step_of(model, sources, beam, watched)

    def settled(self, precision: str) -> str:
        """What `auto` is here."""
        if precision != "auto":
            return precision
        half = self.device.type == "cuda" and all(model.bears_half for model in (self.model, *self.partners))
        return "bfloat16" if half else "float32"

    def networks(self, precision: str) -> list[EncoderDecoder]:
        """The models in the precision that is asked for. Their weights must not change afterwards."""
        precision = self.settled(precision)
        if precision not in self.in_precision:
            models, kind = [self.model, *self.partners], getattr(torch, precision)
            same = all(parameter.dtype == kind for model in models for parameter in model.parameters())
            self.in_precision[precision] = models if same else [deepcopy(model).to(kind) for model in models]
        return self.in_precision[precision]

    def bench(
        self,
        sources: Sequence[list[int]],
        room: BenchRoom,
        options: SearchOptions,
        config: DecodeConfig,
        constraints: Sequence[Constraint],
    ) -> KeptBench:
        """Slots that are ready for these sources: those of an earlier search like this one, where there are."""
        key = options, room, config.precision, config.blockwise, *map(type, constraints)

        def make() -> KeptBench:
            if config.blockwise:
                blocks = self.block_step(sources, config.precision)
                return KeptBench.of_blocks(blocks, *room, options)
            step = self.stepping(self.networks(config.precision)[0], sources, options.beam_size)
            return KeptBench.of_search(step, *room, options, constraints)

        bench = self.benches.get(key, make)
        bench.renew(sources, constraints)
        return bench

    def constraints(
        self,
        config: DecodeConfig,
        demands: Sequence[Demand],
        barred: np.ndarray | None,
        beam: int,
        sources: Sequence[Sequence[int]],
    ) -> list[Constraint]:
        """What the search is told of what is asked. `sources`: what each is an output of."""
        return constraints_for(config, demands, barred, self.spelling, beam)

    def limit(self, source_length: int, demand: Demand, config: DecodeConfig) -> int:
        """The most tokens an output may have. What is demanded has room where there is any."""
        wanted = max(source_length + config.extra_length, config.min_length, demand.least)
        return min(wanted, self.longest_output(config))

    def longest_output(self, config: DecodeConfig) -> int:
        return min(config.max_length or sys.maxsize, self.longest)

    def block_step(self, sources: Sequence[list[int]], precision: str) -> TransformerBlockStep:
        """The model as blockwise decoding asks for it."""
        (model,) = self.networks(precision)
        transformer, heads = a_transformer(model, "Blockwise decoding"), model.block_heads
        if heads is None:
            raise RegardError(
                f"{self.name} predicts one token at a time: train block heads for it with init, model.block_heads = 4 "
                'and train.freeze = "base", or decode without blockwise.'
            )
        return TransformerBlockStep(transformer, heads, sources)

    def width(self, wish: Wish, n_best: int) -> int:
        """How many hypotheses a search of which this is asked has at once."""
        return beam_width(in_tokens(wish, self.spelling), n_best, self.config)

    def margin(self, ours: Translation, theirs: Translation, beam_size: int) -> float:
        """The margin (`regard.decode.margins`) of two translations of a sentence by searches of this width. Where an
        engine, other models, the coverage of the source or chance decide too, how far their log-probabilities are
        apart."""
        if self.engine or self.partners or self.config.coverage_penalty or self.config.sample:
            return abs(ours.log_prob - theirs.log_prob)
        config = replace(self.config, beam_size=beam_size)
        return margin(self, ours.source_tokens, ours.target_tokens, theirs.target_tokens, config)

    def feed(self, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
        if self.device.type == "meta":
            raise RegardError(f"{self.name} has no weights for torch: attention and alignments need the run itself.")
        return super().feed(sources, targets)

    @property
    def longest(self) -> int:
        return self.engine.longest if self.engine else super().longest

    @property
    def candidates(self) -> int:
        """How many translations of a sentence a search has in the end, without being asked for several."""
        return self.config.beam_size


def beam_width(demand: Demand, n_best: int, config: DecodeConfig) -> int:
    """How many hypotheses a beam has at once."""
    return max(config.beam_size, n_best) + more_hypotheses(demand)


def by_number(numbers: Sequence[int], take: Take, places: Sequence[int], found: Sequence[list[Hypothesis]]) -> None:
    """Hand on what was found for the sentences at these places, by their numbers elsewhere."""
    take([numbers[place] for place in places], found)
