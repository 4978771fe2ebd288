"""Models one token at a time, as a search asks for it (`regard.decode.step.Step`): what they share, and the
Transformer. The others are beside their models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer import DecoderLayer, Transformer
from regard.nn import kernels
from regard.nn.alignment import Source
from regard.nn.cache import Memory, Past, future
from regard.nn.layout import Layout, Packed, send
from regard.nn.linear import linear


class EndToEnd(NamedTuple):
    """Sources as the encoder takes them, and how long each is."""

    tokens: Tensor
    lengths: np.ndarray

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], device: torch.device) -> EndToEnd:
        tokens = np.fromiter(chain.from_iterable(sources), np.int64)
        return cls(send(torch.from_numpy(tokens), device), np.array([len(source) for source in sources], np.int64))

    def some(self, first: int, count: int) -> EndToEnd:
        before, lengths = self.lengths[:first].sum(), self.lengths[first : first + count]
        return EndToEnd(self.tokens[before : before + lengths.sum()], lengths)

    @classmethod
    def joined(cls, parts: Sequence[EndToEnd]) -> EndToEnd:
        """All in one, in memory of its own: a part may begin at an odd address, for which kernels are compiled anew."""
        tokens, lengths = zip(*parts, strict=True)
        return cls(torch.cat(tokens), np.concatenate(lengths))


class Expected(NamedTuple):
    """Sources that will enter, one after another, laid out already."""

    sources: Sequence[Sequence[int]]
    numbers: range
    laid_out: EndToEnd

    def ahead(self, sources: Sequence[Sequence[int]], first: int) -> int:
        """How many of these sources there are from `first` on."""
        return self.numbers.stop - first if sources is self.sources and first in self.numbers else 0


AT_A_STEP = 1_024  # sources, at most, that are laid out beside it: with more, the device would be done and wait
NOTHING = Expected((), range(0), EndToEnd(torch.empty(0), np.empty(0)))


class ModelStep(ABC):
    """Decoding of some of many sources, `beam` hypotheses each. Sources must come longest first, where room for the
    longest was not reserved and the kind of model does not say otherwise.

    `watched`: an attention to the source, by its place in `cross_attentions`, whose weights are added up, the mean of
    its heads. What a kind of model keeps for each slot, and for each of the R = B·W hypotheses, its own class says.
    """

    def __init__(
        self, model: EncoderDecoder, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        self.network, self.sources, self.beam, self.watched = model, sources, beam, watched
        self.reserved = False
        self.expected = NOTHING
        self.barred = torch.empty(0)  # (B, 1, S), −∞ where a slot's source has no position
        self.attended = torch.empty(0)  # (B, W, S), the attention each position has had, if `watched`; 1 where none is
        self.lengths = torch.empty(0)  # (B,), of the sources

    @property
    def device(self) -> torch.device:
        return self.network.output.weight.device

    def reserve(self, slots: int, source_room: int, room: int = 0) -> None:
        """Make place for so many sources of at most `source_room` tokens, and for so many tokens of each output; more
        comes when it is needed."""
        self.barred = self.network.output.weight.new_zeros(slots, 1, source_room)
        self.attended = self.barred.new_zeros(slots, self.beam, source_room)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=self.barred.device)
        self.make_room(slots, source_room, room)
        self.reserved = True

    def expect(self, sentences: range) -> None:
        """Lay out some more of the sources that will enter next, while the device makes a step."""
        there = self.expected.ahead(self.sources, sentences.start)
        if there < len(sentences):
            numbers = sentences[: there + AT_A_STEP]
            self.expected = Expected(self.sources, numbers, self.lay_out(numbers))

    def lay_out(self, sentences: Sequence[int]) -> EndToEnd:
        """The sources of these sentences; the first of them may have been expected."""
        first, count = sentences[0], len(sentences)
        if list(range(first, first + count)) != list(sentences):
            return EndToEnd.of([self.sources[sentence] for sentence in sentences], self.device)
        there = min(self.expected.ahead(self.sources, first), count)
        parts = [self.expected.laid_out.some(first - self.expected.numbers.start, there)] if there else []
        if there < count:
            parts.append(EndToEnd.of(self.sources[first + there : first + count], self.device))
        return EndToEnd.joined(parts)

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        tokens, lengths = self.lay_out(sentences)
        layout = Packed.of(lengths)
        if not self.reserved:
            self.reserve(len(slots), layout.size)
        elif self.barred.shape[2] < layout.size:
            self.lengthen(layout.size)
        self.take_in(slots, tokens, layout.to(self.device))

    def take_in(self, slots: Tensor, src: Tensor, layout: Layout) -> None:
        """Encode sources, in `layout`, into slots that have room for them."""
        memory = self.network.encode(src, layout)
        self.barred.index_fill_(0, slots, -torch.inf)
        self.barred[slots, :, : layout.size] = self.barred.new_zeros(layout.mask.shape).masked_fill_(
            ~layout.mask, -torch.inf
        )[:, None]
        if self.watched is not None:
            self.attended[slots] = (self.barred[slots] == -torch.inf).to(self.attended.dtype)
        self.lengths[slots] = layout.lengths
        self.put(slots, memory, layout)

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """tokens: (B, W)   positions: (B,)   → (B, W, V)"""
        rows = positions.repeat_interleave(self.beam)[:, None]  # (R, 1)
        return self.logits(self.hidden(tokens.flatten(), rows, longest)).unflatten(0, tokens.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, V), in the type of the products"""
        return linear(hidden, self.network.output.weight, self.network.output.bias)

    def reorder(self, parents: Tensor, longest: int) -> None:
        B, W = parents.shape
        rows = (parents + W * torch.arange(B, device=parents.device)[:, None]).flatten()
        if W == 1 or (not rows.is_cuda and bool((rows == torch.arange(B * W)).all())):
            return
        if self.watched is not None:
            self.attended = self.attended.gather(1, parents[:, :, None].expand_as(self.attended))
        self.move(rows, longest)

    def keep(self, slots: Tensor) -> None:
        rows = self.rows(slots)
        self.barred, self.attended, self.lengths = self.barred[slots], self.attended[slots], self.lengths[slots]
        self.leave(slots, rows)

    def rows(self, slots: Tensor) -> Tensor:
        """The hypotheses of these slots."""
        return (slots[:, None] * self.beam + torch.arange(self.beam, device=slots.device)).flatten()

    @abstractmethod
    def make_room(self, slots: int, source_room: int, room: int) -> None:
        """Tensors that stay where they are until somebody leaves: recorded steps write to them (`decode.recorded`)."""

    @abstractmethod
    def put(self, slots: Tensor, memory: Any, layout: Layout) -> None:
        """What the encoder says of new sources, into their slots; their hypotheses have produced nothing."""

    @abstractmethod
    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """What the decoder says at one position more. tokens: (R,)   positions: (R, 1), below `longest`   → (R, D)"""

    @abstractmethod
    def move(self, rows: Tensor, longest: int) -> None:
        """Hypothesis i goes on from what `rows[i]` was."""

    @abstractmethod
    def leave(self, slots: Tensor, rows: Tensor) -> None:
        """Go on with these slots and hypotheses alone, in this order."""

    def lengthen(self, source_room: int) -> None:
        """Make place for longer sources than came before, where the kind of model can."""
        raise ValueError(f"a source of {source_room} tokens comes after shorter ones: sources must come longest first")


class KeptSource:
    """Values and keys of the sources in the slots, for a decoder that attends to them by `regard.nn.alignment`."""

    def __init__(self, values: Tensor, keys: Tensor) -> None:
        """(B, S, d), (B, S, …): room, nobody in it"""
        self.values, self.keys = values, keys

    def put(self, slots: Tensor, values: Tensor, keys: Tensor) -> None:
        for kept, new in ((self.values, values), (self.keys, keys)):
            kept[slots, : new.shape[1]] = new.to(kept.dtype)

    def seen(self, barred: Tensor) -> Source:
        """barred: (B, 1, S), −∞ where a source has no position"""
        return Source(self.values, self.keys, barred == 0)

    def keep(self, slots: Tensor) -> None:
        self.values, self.keys = self.values[slots], self.keys[slots]


class TransformerStep(ModelStep):
    """The Transformer: keys and values of all positions so far. By kernels they stay where they were written, and what
    moves with the hypotheses is a table of who wrote them.

    Sentences may join while others are under way (`regard.decode.joining`), longer ones too.
    """

    def __init__(
        self, model: Transformer, sources: Sequence[Sequence[int]], beam: int, watched: int | None = None
    ) -> None:
        super().__init__(model, sources, beam, watched)
        self.model = model
        self.layers: list[tuple[DecoderLayer, Past, Memory]] = []
        self.ancestors: Tensor | None = None  # (R, room), which hypothesis of its slot wrote what is kept; by kernels

    def make_room(self, slots: int, source_room: int, room: int) -> None:
        for layer in self.model.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            past = Past(layer.self_attn, slots, self.beam, room)
            self.layers.append((layer, past, Memory(layer.cross_attn, slots, source_room)))
        if kernels.usable(self.barred):
            places = self.layers[0][1].k.shape[2]
            self.ancestors = self.lengths.new_zeros(slots * self.beam, places, dtype=torch.int32)

    def put(self, slots: Tensor, memory: Tensor, layout: Layout) -> None:
        for _, _, kept in self.layers:
            kept.enter(slots, memory, layout)

    def hidden(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """What the decoder says at Q positions more. tokens: (R·Q,)   positions: (R, Q), below `longest` → (R·Q, D)"""
        model = self.model
        seen = min(longest, model.longest)  # beyond the last position of a table, its last: nobody asks what is there
        x = self.embed(tokens, positions.flatten().clamp(max=seen - 1), seen)  # (R·Q, D)
        ahead = self.see_past(positions, longest)
        sources = self.barred  # as far as the longest source here goes, where asking for that costs nothing
        if self.watched is None and not sources.is_cuda:
            sources = sources[:, :, : int(self.lengths.max())]
        for i, (layer, past, memory) in enumerate(self.layers):
            x = layer.self_attn_residual(x, partial(ahead, past))
            x = layer.cross_attn_residual(x, partial(self.see_source, memory, sources, i == self.watched))
            x = layer.feed_forward_residual(x, layer.feed_forward)
        if self.watched is not None:
            self.attended = self.attended + self.layers[self.watched][2].weights.mean(dim=1)
        return model.decoder.norm(x)

    def embed(self, tokens: Tensor, places: Tensor, seen: int) -> Tensor:
        """tokens, places: (R·Q,), below `seen` → (R·Q, D)"""
        embedding = self.model.target_embedding
        if self.ancestors is not None:
            from regard.nn.kernels.embedding import embed

            table = embedding.positions.rows(seen)
            return embed(tokens.contiguous(), embedding.tokens.weight, places, table, embedding.scale, 0.0, table.dtype)
        return embedding.tokens(tokens) * embedding.scale + embedding.positions(places, seen)

    def see_past(self, positions: Tensor, longest: int) -> Callable[[Past, Tensor], Tensor]:
        """How a layer attends to what has been produced."""
        if self.ancestors is None:
            barred = future(positions, longest, self.model.config.n_heads).to(self.barred.dtype)
            return lambda past, x: past(x, positions, barred)
        for _, past, _ in self.layers:
            past.reach(longest)
        if more := self.layers[0][1].k.shape[2] - self.ancestors.shape[1]:
            self.ancestors = F.pad(self.ancestors, (0, more))
        table = self.ancestors
        if self.beam > 1:  # each writes this position itself
            itself = torch.arange(len(table), dtype=table.dtype, device=table.device) % self.beam
            table.scatter_(1, positions, itself[:, None])
        return lambda past, x: past.by_kernel(x, positions, table, self.beam)

    def see_source(self, memory: Memory, barred: Tensor, watched: bool, x: Tensor) -> Tensor:
        """How a layer attends to the source; where it is watched, in a way that leaves its weights behind."""
        by_kernel = self.ancestors is not None and not watched
        return memory.by_kernel(x, self.lengths) if by_kernel else memory(x, barred)

    def move(self, rows: Tensor, longest: int) -> None:
        if self.ancestors is not None:
            self.ancestors.copy_(self.ancestors[rows])
            return
        moved = torch.arange(len(rows), device=rows.device)
        if not rows.is_cuda:
            moved = (rows != moved).nonzero()[:, 0]  # most hypotheses go on from themselves
        for _, past, _ in self.layers:
            past.move(moved, rows[moved], longest)

    def leave(self, slots: Tensor, rows: Tensor) -> None:
        if self.ancestors is not None:
            self.ancestors = self.ancestors[rows]
        for _, past, memory in self.layers:
            past.keep(rows)
            memory.keep(slots)

    def grow(self, slots: int) -> None:
        """Make place for so many slots in all; none of what was kept where there are to be none."""
        if not slots:
            self.layers, self.ancestors, self.reserved = [], None, False
        elif self.reserved:
            more = slots - len(self.lengths)
            self.barred, self.attended = (F.pad(kept, (0, 0, 0, 0, 0, more)) for kept in (self.barred, self.attended))
            self.lengths = F.pad(self.lengths, (0, more))
            if self.ancestors is not None:
                self.ancestors = F.pad(self.ancestors, (0, 0, 0, more * self.beam))
            for _, past, memory in self.layers:
                past.grow(more * self.beam)
                memory.grow(more, self.barred.shape[2])

    def lengthen(self, source_room: int) -> None:
        more = source_room - self.barred.shape[2]
        self.barred = F.pad(self.barred, (0, more), value=-torch.inf)
        self.attended = F.pad(self.attended, (0, more), value=1.0)
        for _, _, memory in self.layers:
            memory.grow(0, source_room)
