"""Trees and nothing else: a constraint under which only well-formed linear trees over all words come out.

    (S (NP XX )NP (VP XX )VP XX )S

What may come next follows from four things each hypothesis keeps: how many words are left, which brackets are open, and
whether the innermost has just been opened, and how many symbols there is still room for.

    open     words are left, something has been begun or nothing at all, and there is room to close what opens
    close    the label of the innermost bracket, which holds a word; the outermost only when no word is left
    leaf     words are left, and a bracket is open, unless the sentence is one word
    end      no word is left and no bracket is open

Every string that these rules let through can be finished: words left + open brackets + the end symbol always fit. So
what comes out needs none of the repairs of `regard.data.linearise.rebuild`, and all that needs none can come out, up to
`DEEPEST` brackets inside one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.decode.constraints import placed
from regard.decode.state import State
from regard.decode.step import Constraint

DEEPEST = 96  # brackets inside one another


@dataclass(frozen=True)
class TreeSymbols:
    """What each symbol of a target vocabulary is."""

    opens: Tensor  # (V,), the number of the label that a symbol opens, −1 for others
    closing: Tensor  # (labels,), the symbol that closes each label
    leaves: Tensor  # (V,) bool
    end: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> TreeSymbols:
        """A bracket that cannot be closed, or was never opened, is no symbol of a tree."""
        names = tokenizer.pieces(range(tokenizer.vocab_size))
        numbers = {name: number for number, name in enumerate(names) if number > UNK}
        labels = [name[1:] for name in numbers if name.startswith("(") and f"){name[1:]}" in numbers]
        opens = torch.full((len(names),), -1)
        opens[[numbers[f"({label}"] for label in labels]] = torch.arange(len(labels))
        closing = torch.tensor([numbers[f"){label}"] for label in labels], dtype=torch.long)
        leaves = torch.tensor([i > UNK and not name.startswith(("(", ")")) for i, name in enumerate(names)])
        return cls(opens, closing, leaves, EOS)

    def to(self, device: torch.device) -> TreeSymbols:
        return TreeSymbols(self.opens.to(device), self.closing.to(device), self.leaves.to(device), self.end)


class Grammar(Constraint):
    """Each output is a tree over as many words as its sentence has."""

    lasting = True

    def __init__(self, symbols: TreeSymbols, words: Sequence[int], beam: int) -> None:
        """words: of each sentence, at least one"""
        self.symbols, self.words, self.beam = symbols, words, beam
        self.single = self.left = self.depth = self.fresh = self.stack = torch.empty(0)

    def renew(self, other: Grammar) -> None:
        self.words = other.words

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        device, shape = slots.device, (len(slots), self.beam)
        if not len(self.left):
            self.symbols = self.symbols.to(device)
        words = torch.tensor([self.words[sentence] for sentence in sentences], device=device)[:, None]
        nothing = torch.zeros(shape, dtype=torch.long, device=device)
        self.single = placed(self.single, slots, words == 1)  # (B, 1)
        self.left = placed(self.left, slots, words.expand(shape))  # (B, W), words
        self.depth = placed(self.depth, slots, nothing)  # (B, W), open brackets
        self.fresh = placed(self.fresh, slots, nothing.bool())  # (B, W), the last symbol opened a bracket
        self.stack = placed(self.stack, slots, nothing[:, :, None].repeat(1, 1, DEEPEST + 1))  # (B, W, .), their labels

    def bar(self, logits: Tensor, state: State) -> None:
        left, depth, symbols = self.left, self.depth, self.symbols
        room = (state.limit - state.here)[:, None]  # (B, 1), symbols, the next one among them
        more = left > 0
        may_open = more & (depth < DEEPEST) & (left + depth + 3 <= room)
        may_leaf = more & ((depth > 0) | self.single)
        may_close = (depth > 0) & ~self.fresh & ((depth > 1) | ~more)
        may_end = ~more & (depth == 0)
        allowed = may_open[:, :, None] & (symbols.opens >= 0) | may_leaf[:, :, None] & symbols.leaves  # (B, W, V)
        if len(symbols.closing):
            top = self.stack.gather(2, (depth - 1).clamp(min=0)[:, :, None])[:, :, 0]
            allowed.scatter_(2, symbols.closing[top][:, :, None], may_close[:, :, None])
        allowed[:, :, symbols.end] = may_end
        logits.masked_fill_(~allowed, -torch.inf)

    def follow(self, parents: Tensor, tokens: Tensor) -> None:
        stack = self.stack.gather(1, parents[:, :, None].expand_as(self.stack))
        left, depth = self.left.gather(1, parents), self.depth.gather(1, parents)
        label, leaf = self.symbols.opens[tokens], self.symbols.leaves[tokens]
        opened = label >= 0
        closed = ~opened & ~leaf & (tokens != self.symbols.end)
        # Above the innermost bracket the stack has nothing to keep: what is not an opened label may be written there.
        self.stack = stack.scatter(2, depth.clamp(max=DEEPEST)[:, :, None], label.clamp(min=0)[:, :, None])
        self.left = (left - leaf.long()).clamp(min=0)
        self.depth = (depth + opened.long() - closed.long()).clamp(0, DEEPEST)
        self.fresh = opened

    def keep(self, slots: Tensor) -> None:
        self.single, self.left, self.depth = self.single[slots], self.left[slots], self.depth[slots]
        self.fresh, self.stack = self.fresh[slots], self.stack[slots]
