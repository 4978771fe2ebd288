"""Parsing: sentences and their trees, the Transformer, label-smoothed cross-entropy of tree symbols, labelled F1.

Everything but the target vocabulary, the search and the score is translation's (`tasks.translation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import ParsingRecipe
from regard.data import tokenizer as subwords
from regard.data.linearise import RepairTally
from regard.data.tokenizer import UNK, TokenizerPair
from regard.data.treebank import Treebank, load, symbols_of, training
from regard.data.trees import Tree, retagged
from regard.decode.grammar import TreeSymbols
from regard.decode.parser import Parsed, Parser
from regard.evaluate.parseval import Comparison, Total, compare
from regard.models.parser import ParserTransformer
from regard.tasks.task import Validation, evaluating
from regard.tasks.translation import (
    N_SAMPLES,
    Pairs,
    TranslationTask,
    keep_tokenizers,
    say_left_out,
    score_pairs,
)
from regard.wording import counted


@dataclass(frozen=True)
class Judged:
    """Parses beside gold trees. Brackets are compared under the gold tags, so that no sentence is lost to a tag that
    EVALB takes for punctuation; `own` compares the parses with the tags they came with. A parse of more or fewer words
    keeps its own: it is skipped or an error under any tags."""

    trees: list[Tree]
    comparisons: list[Comparison]
    own: list[Comparison]
    parsed: list[Parsed] = field(default_factory=list)  # how our parser came to the trees; nothing of trees of a file

    @classmethod
    def of(cls, gold: Sequence[Tree], trees: Sequence[Tree]) -> Judged:
        pairs = list(zip(gold, trees, strict=True))
        bare = [(one, retagged(tree, one.tags) if len(one.tags) == len(tree.words) else tree) for one, tree in pairs]
        return cls(list(trees), [compare(*pair) for pair in bare], [compare(*pair) for pair in pairs])

    @classmethod
    def of_parses(cls, gold: Sequence[Tree], parsed: Sequence[Parsed]) -> Judged:
        return replace(cls.of(gold, [one.tree for one in parsed]), parsed=list(parsed))

    @property
    def total(self) -> Total:
        return Total.of(self.comparisons)

    @property
    def repairs(self) -> RepairTally:
        """Of our parser's output."""
        return RepairTally.of(one.repairs for one in self.parsed)

    @property
    def tagging_accuracy(self) -> float:
        """Of words that are not punctuation, in percent; sentences that own tags make errors count nothing."""
        return Total.of(self.own).tagging_accuracy


class ParsingTask(TranslationTask):
    """Each symbol of the linear tree predicted from those before it and from the sentence."""

    recipe: ParsingRecipe

    def __init__(self, recipe: ParsingRecipe, tokenizers: TokenizerPair, train: Pairs, valid: Treebank) -> None:
        super().__init__(recipe, tokenizers, train, valid.corpus(recipe.data))
        self.treebank = spread(valid, recipe.train.valid_sentences)

    def build(self) -> ParserTransformer:
        return build(self.recipe, self.tokenizers)

    @property
    def extent(self) -> str:
        sides = self.tokenizers.source.vocab_size, self.tokenizers.target.vocab_size
        return f"{counted(len(self.order.used), 'tree')}, {sides[0]:,} subwords, {sides[1]:,} tree symbols"

    def validate(self, device: torch.device) -> Validation:
        with evaluating(self.model):
            nll, n_tokens = score_pairs(self.model, self.valid, self.recipe.train.batch_tokens, device)
            metrics = {"loss": nll / n_tokens, "perplexity": math.exp(min(nll / n_tokens, 50.0))}
            samples: list[str] = []
            if len(self.treebank):
                joined = self.recipe.data.unary == "join"
                parser = Parser(self.recipe.name, self.model, self.tokenizers, self.recipe.decode, joined=joined)
                judged = judge(parser, self.treebank, beam_size=1)
                metrics["f1"] = judged.total.labelled.f1
                if not self.recipe.decode.constrained:
                    metrics["malformed"] = judged.repairs.rate
                pairs = list(zip(self.treebank.gold, judged.trees, strict=True))[:N_SAMPLES]
                samples = [f"gold    {gold}\noutput  {tree}\n" for gold, tree in pairs]
        return Validation(metrics, samples)


def spread(treebank: Treebank, n: int) -> Treebank:
    """At most n trees from all over a treebank, which is in the order of its documents."""
    places = np.linspace(0, len(treebank) - 1, min(n, len(treebank))).round().astype(int)
    return Treebank(treebank.name, [treebank.gold[i] for i in places])


def build(recipe: ParsingRecipe, tokenizers: TokenizerPair) -> ParserTransformer:
    begins = torch.from_numpy(tokenizers.source.begins())
    return ParserTransformer(recipe.model, begins, TreeSymbols.of(tokenizers.target).leaves, UNK)


def judge(parser: Parser, treebank: Treebank, progress: Callable[[int], None] | None = None, **options: Any) -> Judged:
    """A treebank parsed and scored."""
    found = [best[0] for best in parser.trees(treebank.words, progress=progress, **options)]
    return Judged.of_parses(treebank.gold, found)


def prepare(
    recipe: ParsingRecipe,
    tokenizer: Path,
    initial: TokenizerPair | None,
    say: Callable[[str], None],
    once: Callable[[Callable[[], None]], object] = lambda action: action(),
) -> ParsingTask:
    """The task of a recipe: treebanks read, vocabularies found or made, and a word on whatever is left out.

    As `tasks.translation.prepare`.
    """
    train, valid = training(recipe.data), load(recipe.data, "valid")
    for treebank in (train, valid):
        if treebank.wordless:
            say(f"Without words, and so left out: {counted(treebank.wordless, f'{treebank.name} tree')}.")
    corpus = train.corpus(recipe.data)

    def learn() -> TokenizerPair:
        say(f"Learning {recipe.tokenizer.vocab_size:,} subwords …")
        source = subwords.train_one(recipe.tokenizer, corpus.source, recipe.seed)
        return TokenizerPair(source, symbols_of(train, recipe.data))

    once(partial(keep_tokenizers, tokenizer, lambda: initial or learn()))
    tokenizers = TokenizerPair.load(tokenizer)
    pairs = Pairs.encode(tokenizers, corpus)
    task = ParsingTask(recipe, tokenizers, pairs, valid)
    limits = f"data.max_length = {recipe.data.max_length}", f"model.max_positions = {recipe.model.max_positions}"
    say_left_out(say, "train", task.too_long, None, len(pairs.source), limits[0])
    say_left_out(say, "valid", task.too_long_to_validate, None, len(valid), limits[1])
    return task
