"""Looking into a model: the attention, the alignments and the logits of a translation that is there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from regard.config import DecodeConfig
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import EOS, SYMBOLS, TokenizerPair
from regard.decode.alignment import links_of, word_weights
from regard.decode.request import Translation
from regard.errors import RegardError
from regard.models.encoder_decoder import EncoderDecoder
from regard.nn.attention import attentions, capture
from regard.nn.layout import Packed, Padded


class Looking:
    """A model, its tokenizers, and its attention to translations that are there already.

    `attend` gives every attention weight, `align` the word alignments, `feed` the logits.
    """

    def __init__(self, name: str, model: EncoderDecoder, tokenizers: TokenizerPair, config: DecodeConfig) -> None:
        self.name, self.model, self.tokenizers, self.config = name, model.eval(), tokenizers, config

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The network's modules, so that `capture` takes a translator too."""
        return self.model.named_modules()

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def alignment_path(self) -> str:
        """The attention from which word alignments are read."""
        return self.model.cross_attentions[self.alignment_layer]

    @property
    def alignment_layer(self) -> int:
        """Its layer, from 0."""
        layer, n_layers = self.config.alignment_layer, len(self.model.cross_attentions)
        if not n_layers:
            raise RegardError("The model has no attention to the source: nothing to draw, align or cover it by.")
        if not -n_layers <= layer < n_layers:
            raise RegardError(f"decode.alignment_layer = {layer}: the decoder has layers 0 to {n_layers - 1}.")
        return layer % n_layers

    @property
    def longest(self) -> int:
        """The longest sequence there are positions for."""
        return self.model.longest

    @property
    def start(self) -> int:
        return SYMBOLS[self.model.config.start]

    def fit(self, tokens: list[int], config: DecodeConfig | None = None) -> list[int]:
        """A source as long as is read, the end symbol kept: a whole book in one line would take all memory."""
        longest = min(self.longest, (config or self.config).max_source)
        return tokens if len(tokens) <= longest else [*tokens[: longest - 1], EOS]

    def feed(self, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
        """Logits (B, T, V) of given outputs, in one pass (teacher forcing)."""
        src, src_layout = rectangle(sources, self.device)
        tgt, tgt_layout = rectangle([[self.start, *target[:-1]] for target in targets], self.device)
        return self.model(src, src_layout, tgt, tgt_layout)

    def attend(self, translation: Translation) -> dict[str, Tensor]:
        """Every attention of one translation: module path → (H, Q, K)."""
        return self.look(translation)[0]

    @torch.inference_mode()
    def look(self, translation: Translation) -> tuple[dict[str, Tensor], Tensor]:
        """Every attention of one translation, and the logits (T, V) from which each of its tokens was chosen."""
        with capture(self.model) as maps:
            logits = self.feed([translation.source_tokens], [translation.target_tokens])
        return {path: weights[0] for path, weights in maps.items()}, logits[0]

    @property
    def attentions(self) -> list[str]:
        """The module paths of the attentions that `attend` tells."""
        return list(attentions(self.model))

    def given(self, source: str, target: str) -> Translation:
        """A translation that somebody else has made, to be looked into as one of the model's own."""
        source_tokens = self.tokenizers.source.encode([source])[0]
        tokens = self.tokenizers.target.encode([target])[0]
        seen = self.fit(source_tokens)
        if len(tokens) > self.longest:
            raise RegardError(f"A target has {len(tokens)} tokens, and the model positions for {self.longest}.")
        return Translation(source, target, 0.0, 0.0, seen, tokens, len(source_tokens) - len(seen))

    def axes(self, translation: Translation, path: str) -> tuple[list[str], list[str]]:
        """The tokens that the rows and the columns of an attention stand for."""
        source = self.tokenizers.source.pieces(translation.source_tokens)
        if path.startswith("encoder"):
            return source, source
        produced = self.tokenizers.target.pieces(translation.target_tokens)
        given = self.tokenizers.target.pieces([self.start, *translation.target_tokens[:-1]])
        return produced, given if path.endswith("self_attn") else source

    def align(self, translations: Sequence[Translation]) -> list[list[tuple[int, int]]]:
        """Word alignments, (source word, target word) from 0, in the order of the target: each target word with the
        source word it attends to most.

        Words are those of the text as the tokenizer normalises it, which for ordinary text are `text.split()`.
        """
        return [links_of(weights) for weights in self.word_looks(translations)]

    @torch.inference_mode()
    def word_looks(self, translations: Sequence[Translation]) -> list[Tensor]:
        """How much the words of each translation attend to those of its source, (target words, source words), in the
        layer from which alignments are read."""
        looks = [torch.zeros(0, 0) for _ in translations]
        filled = [i for i, translation in enumerate(translations) if translation.target_tokens]
        lengths = [len(translations[i].target_tokens) for i in filled]
        for group in in_order_of_length(lengths, self.config.batch_sentences):
            batch = [translations[filled[i]] for i in group]
            with capture(self.model) as maps:
                self.feed([t.source_tokens for t in batch], [t.target_tokens for t in batch])
            for i, translation, weights in zip(group, batch, maps[self.alignment_path].mean(dim=1), strict=True):
                T, S = len(translation.target_tokens), len(translation.source_tokens)
                looks[filled[i]] = self.word_weights(translation, weights[:T, :S])
        return looks

    def word_weights(self, translation: Translation, weights: Tensor) -> Tensor:
        """Weights between the tokens of a translation and its source, (T, S), as those between their words."""
        rows = self.tokenizers.target.words(translation.target_tokens)
        return word_weights(weights, rows, self.tokenizers.source.words(translation.source_tokens))


def rectangle(sequences: list[list[int]], device: torch.device) -> tuple[Tensor, Padded]:
    """Token sequences as one padded tensor (B, N) and its layout."""
    lengths = [len(sequence) for sequence in sequences]
    flat = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return Packed.of(lengths).pad(flat).to(device), Padded.of(lengths).to(device)
