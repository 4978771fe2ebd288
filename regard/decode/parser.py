"""A trained parser as people use it: sentences in, trees out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
import torch

from regard.config import DecodeConfig, ParserDecodeConfig
from regard.data.linearise import Repairs, rebuild
from regard.data.tokenizer import TokenizerPair
from regard.data.treebank import sentence_text
from regard.data.trees import JOINT, NO_PARSE, Tree, plain_word, split_unaries
from regard.decode.grammar import Grammar, TreeSymbols
from regard.decode.request import Translation
from regard.decode.step import Constraint
from regard.decode.translator import Translator
from regard.decode.wishes import Demand
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.parser import ParserStep, ParserTransformer
from regard.models.stepping import ModelStep

Words = str | Sequence[str]  # with spaces between, or one by one


@dataclass(frozen=True)
class Parsed:
    """One tree of one sentence. A sentence without words has no parse."""

    tree: Tree
    repairs: Repairs  # what had to be put right; nothing where the search was constrained
    output: Translation  # the symbols, their score, and the tokens of both sides

    @property
    def symbols(self) -> list[str]:
        return self.output.text.split()

    @property
    def confidence(self) -> float:
        """The mean probability of a symbol (geometric): 1 is sure."""
        n = len(self.output.target_tokens)
        return math.exp(self.output.log_prob / n) if n else 0.0


class Parser(Translator):
    """Parses sentences with a model, its tokenizers and its decoding options.

    `parse` gives trees, `trees` gives n-best lists with scores; `capture` and `attend` are a translator's.
    """

    task: ClassVar[str] = "parsing"

    config: ParserDecodeConfig

    def __init__(
        self,
        name: str,
        model: EncoderDecoder,
        tokenizers: TokenizerPair,
        config: ParserDecodeConfig,
        partners: Sequence[EncoderDecoder] = (),
        joined: bool = False,
    ) -> None:
        """joined: a symbol such as (S+VP opens several brackets (`data.unary` of a recipe)"""
        super().__init__(name, model, tokenizers, config, partners)
        self.joined = joined
        self.symbols = TreeSymbols.of(tokenizers.target)
        self.begins = tokenizers.source.begins()

    @overload
    def parse(self, sentences: str, **options: Any) -> Tree: ...
    @overload
    def parse(self, sentences: Sequence[Words], **options: Any) -> list[Tree]: ...
    def parse(self, sentences: str | Sequence[Words], **options: Any) -> Tree | list[Tree]:
        """The tree of a sentence, or of each of several, whose words have spaces between them or come one by one.

        Options are the keys of a recipe's [decode] section, e.g. `beam_size=1` for greedy search.
        """
        if isinstance(sentences, str):
            return self.trees([sentences], **options)[0][0].tree
        return [best[0].tree for best in self.trees(sentences, **options)]

    def trees(
        self,
        sentences: Sequence[Words],
        n_best: int = 1,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[list[Parsed]]:
        """The n best trees of each sentence, best first. In a sentence that is one string, brackets may be written as
        bracket files write them, -LRB- and -RRB-; words that come one by one are taken as they are."""
        split = [tuple(map(plain_word, one.split())) if isinstance(one, str) else tuple(one) for one in sentences]
        found = self.search([sentence_text(words) for words in split], n_best, progress, **options)
        return [[self.parsed(words, one) for one in best] for words, best in zip(split, found, strict=True)]

    def parsed(self, words: tuple[str, ...], output: Translation) -> Parsed:
        if not words:
            return Parsed(NO_PARSE, Repairs(), output)
        tree, repairs = rebuild(output.text.split(), words)
        return Parsed(split_unaries(tree) if self.joined else tree, repairs, output)

    def opened(self, parsed: Parsed) -> list[int]:
        """The symbol that opened each bracket of a tree that needed no repair, by its place in the output."""
        signs = [(i, symbol) for i, symbol in enumerate(parsed.symbols) if symbol.startswith("(")]
        return [i for i, symbol in signs for _ in range(1 + symbol.count(JOINT) * self.joined)]

    def options(self, **changes: Any) -> ParserDecodeConfig:
        changed = super().options(**changes)
        assert isinstance(changed, ParserDecodeConfig)
        return changed

    def stepping(
        self, model: EncoderDecoder, sources: Sequence[list[int]], beam: int, watched: int | None = None
    ) -> ModelStep:
        assert isinstance(model, ParserTransformer)
        return ParserStep(model, sources, beam, watched)

    def constraints(
        self,
        config: DecodeConfig,
        demands: Sequence[Demand],
        barred: np.ndarray | None,
        beam: int,
        sources: Sequence[Sequence[int]],
    ) -> list[Constraint]:
        if not (isinstance(config, ParserDecodeConfig) and config.constrained):
            return []
        words = [int(self.begins[np.asarray(source)].sum()) - 1 for source in sources]  # without the end symbol
        return [Grammar(self.symbols, words, beam)]

    def begins_early(self, config: DecodeConfig) -> bool:
        """The grammar counts the words of all sentences first."""
        return False

    def limit(self, source_length: int, demand: Demand, config: DecodeConfig) -> int:
        """The paper's: input + 300. A root over all words and the end always have room."""
        return max(super().limit(source_length, demand, config), source_length + 2)

    def memory_order(self, tokens: Sequence[int]) -> list[int]:
        """The source token that each place of the memory is of."""
        model = self.model
        if not (isinstance(model, ParserTransformer) and model.next_word):
            return list(range(len(tokens)))
        return np.argsort(~self.begins[np.asarray(tokens)], kind="stable").tolist()

    @torch.inference_mode()
    def attend(self, translation: Translation) -> dict[str, torch.Tensor]:
        """Every attention of one parse: module path → (H, Q, K), columns in the order of the sentence."""
        maps = super().attend(translation)
        back = torch.tensor(np.argsort(self.memory_order(translation.source_tokens)))
        return {
            path: weights if path.startswith("encoder") or path.endswith("self_attn") else weights[:, :, back]
            for path, weights in maps.items()
        }
