"""A trained translation model as people use it: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn

from regard.config import DecodeConfig, read_section
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import BOS, EOS, PAD, SYMBOLS, UNK, TokenizerPair
from regard.decode.blockwise import decode_blocks
from regard.decode.search import Hypothesis, SearchOptions, search
from regard.errors import RegardError
from regard.models.blockwise import TransformerBlockStep
from regard.models.stepping import TransformerStep
from regard.models.transformer import Transformer
from regard.nn.attention import capture, recording
from regard.nn.layout import Packed, Padded


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    source: str
    text: str
    score: float
    log_prob: float
    source_tokens: list[int]
    target_tokens: list[int]
    cut: int = 0  # source tokens beyond the model's positions, which it has not seen
    calls: int = 0  # of the decoder, where blocks of tokens were decoded


AT_A_TIME = 16  # batches of sentences of similar length that one search has before it


class Translator:
    """Translates sentences with a model, its tokenizers and its decoding options.

    `translate` gives text, `search` gives n-best lists with scores, `align` the word alignments, and
    `attend` every attention weight.
    """

    def __init__(self, name: str, model: Transformer, tokenizers: TokenizerPair, config: DecodeConfig) -> None:
        self.name, self.model, self.tokenizers, self.config = name, model.eval(), tokenizers, config

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The network's modules, so that `capture` takes a translator too."""
        return self.model.named_modules()

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def translate(self, text: str, **options: Any) -> str: ...
    @overload
    def translate(self, text: list[str], **options: Any) -> list[str]: ...
    def translate(self, text: str | list[str], **options: Any) -> str | list[str]:
        """The best translation of a sentence, or of each of several.

        Options are the keys of a recipe's [decode] section, e.g. `beam_size=1` for greedy search.
        """
        sentences = [text] if isinstance(text, str) else text
        texts = [best[0].text for best in self.search(sentences, **options)]
        return texts[0] if isinstance(text, str) else texts

    def options(self, **changes: Any) -> DecodeConfig:
        """The decoding options with some keys changed; a wrong key or value is named."""
        return read_section(DecodeConfig, {**vars(self.config), **changes}, "decode.")

    @torch.inference_mode()
    def search(
        self,
        sentences: Sequence[str],
        n_best: int = 1,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[list[Translation]]:
        """The n best translations of each sentence, best first; an empty sentence translates to itself.

        `progress` is told after each batch how many sentences are done.
        """
        config = self.options(**options)
        whole = self.tokenizers.source.encode(sentences)
        encoded = [self.fit(tokens) for tokens in whole]
        found: list[list[Translation]] = [[Translation(text, "", 0.0, 0.0, [], [])] for text in sentences]
        filled = [i for i, tokens in enumerate(encoded) if len(tokens) > 1]
        done = len(encoded) - len(filled)
        with recording(self.model, None) as watched:
            for group in in_order_of_length([len(encoded[i]) for i in filled], AT_A_TIME * config.batch_sentences):
                numbers = [filled[i] for i in group]
                count = partial(progress_after, done, progress)
                hypotheses = self.decode([encoded[i] for i in numbers], n_best, config, count)
                for i, best in zip(numbers, hypotheses, strict=True):
                    cut = len(whole[i]) - len(encoded[i])
                    found[i] = [self.translation(sentences[i], encoded[i], h, cut) for h in best]
                done += len(numbers)
        if watched and filled:  # what a capture around this call gets: the finished translations, fed once
            best_of = [found[i][0] for i in filled]
            self.feed([t.source_tokens for t in best_of], [t.target_tokens for t in best_of])
        return found

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        """Search for the outputs of token sequences, `batch_sentences` of them at a time."""
        options = SearchOptions(
            start=self.start, end=EOS, beam_size=max(config.beam_size, n_best), n_best=n_best,
            length_penalty=config.length_penalty, normalization=config.normalization,
            banned=(PAD, BOS, UNK),
        )  # fmt: skip
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        ordered = [sources[i] for i in order]
        limits = [min(len(source) + config.extra_length, self.model.longest) for source in ordered]
        slots = config.batch_sentences
        if config.blockwise:
            blocks = self.block_step(ordered, n_best)
            found = [[one] for one in decode_blocks(blocks, limits, options, self.device, slots, progress)]
        else:
            step = TransformerStep(self.model, ordered, options.beam_size)
            found = search(step, limits, options, self.device, slots, progress=progress)
        return [hypotheses for _, hypotheses in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]

    def block_step(self, sources: list[list[int]], n_best: int) -> TransformerBlockStep:
        """The model as blockwise decoding asks for it."""
        if n_best > 1:
            raise RegardError("Blockwise decoding finds what greedy search finds, one translation: leave out n_best.")
        heads = self.model.block_heads
        if heads is None:
            raise RegardError(
                f"{self.name} predicts one token at a time: train block heads for it with init, model.block_heads = 4 "
                'and train.freeze = "base", or decode without blockwise.'
            )
        return TransformerBlockStep(self.model, heads, sources)

    @property
    def alignment_path(self) -> str:
        """The attention from which word alignments are read."""
        layer, n_layers = self.config.alignment_layer, len(self.model.decoder.layers)
        if not -n_layers <= layer < n_layers:
            raise RegardError(f"decode.alignment_layer = {layer}: the decoder has layers 0 to {n_layers - 1}.")
        return f"decoder.layers.{layer % n_layers}.cross_attn"

    @property
    def start(self) -> int:
        return SYMBOLS[self.model.config.start]

    def fit(self, tokens: list[int]) -> list[int]:
        """A sentence as long as the model has positions for, the end symbol kept."""
        longest = self.model.longest
        return tokens if len(tokens) <= longest else [*tokens[: longest - 1], EOS]

    def translation(self, source: str, tokens: list[int], hypothesis: Hypothesis, cut: int) -> Translation:
        text = self.tokenizers.target.decode(hypothesis.tokens)
        return Translation(
            source, text, hypothesis.score, hypothesis.log_prob, tokens, hypothesis.tokens, cut, hypothesis.calls
        )

    def feed(self, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
        """Logits (B, T, V) of given outputs, in one pass (teacher forcing)."""
        src, src_layout = rectangle(sources, self.device)
        tgt, tgt_layout = rectangle([[self.start, *target[:-1]] for target in targets], self.device)
        return self.model(src, src_layout, tgt, tgt_layout)

    @torch.inference_mode()
    def attend(self, translation: Translation) -> dict[str, Tensor]:
        """Every attention of one translation: module path → (H, Q, K)."""
        with capture(self.model) as maps:
            self.feed([translation.source_tokens], [translation.target_tokens])
        return {path: weights[0] for path, weights in maps.items()}

    @torch.inference_mode()
    def align(self, translations: Sequence[Translation]) -> list[list[tuple[int, int]]]:
        """Word alignments, (source word, target word) from 0, in the order of the target.

        Words are those of the text as the tokenizer normalises it, which for ordinary text are `text.split()`.
        """
        links: list[list[tuple[int, int]]] = [[] for _ in translations]
        filled = [i for i, translation in enumerate(translations) if translation.target_tokens]
        lengths = [len(translations[i].target_tokens) for i in filled]
        for group in in_order_of_length(lengths, self.config.batch_sentences):
            batch = [translations[filled[i]] for i in group]
            with capture(self.model) as maps:
                self.feed([t.source_tokens for t in batch], [t.target_tokens for t in batch])
            for i, translation, weights in zip(group, batch, maps[self.alignment_path].mean(dim=1), strict=True):
                T, S = len(translation.target_tokens), len(translation.source_tokens)
                links[filled[i]] = self.links(translation, weights[:T, :S])
        return links

    def links(self, translation: Translation, weights: Tensor) -> list[tuple[int, int]]:
        """weights (T, S) → each target word with the source word it attends to most."""
        matrix = self.word_weights(translation, weights)
        return [(int(row.argmax()), t) for t, row in enumerate(matrix)] if matrix.numel() else []

    def word_weights(self, translation: Translation, weights: Tensor) -> Tensor:
        """Token weights (T, S) → word weights (target words, source words): the sum over the tokens of a
        source word, the mean over those of a target word."""
        rows = membership(self.tokenizers.target.words(translation.target_tokens), weights.device)
        columns = membership(self.tokenizers.source.words(translation.source_tokens), weights.device)
        return rows.T @ weights @ columns / rows.sum(dim=0)[:, None]


def progress_after(done: int, progress: Callable[[int], None] | None, more: int) -> None:
    if progress:
        progress(done + more)


def membership(words: list[int], device: torch.device) -> Tensor:
    """The word of each token, -1 for none → (tokens, words), one where a token belongs to a word."""
    numbers = torch.tensor(words, dtype=torch.long, device=device)
    return (numbers[:, None] == torch.arange(max(words, default=-1) + 1, device=device)).float()


def rectangle(sequences: list[list[int]], device: torch.device) -> tuple[Tensor, Padded]:
    """Token sequences as one padded tensor (B, N) and its layout."""
    lengths = [len(sequence) for sequence in sequences]
    flat = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return Packed.of(lengths).pad(flat).to(device), Padded.of(lengths).to(device)


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Alignment links as `0-0 1-2`, source word first."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))
