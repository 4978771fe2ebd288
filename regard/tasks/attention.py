"""What a translation looks at, ready for `regard.view`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from regard.decode.translator import Translation, Translator
from regard.view import AttentionMap, AttentionView, Step, alignment_text, attention_page, attention_png

ALTERNATIVES = 8  # tokens told for each step


def draw(
    translator: Translator,
    translations: Sequence[Translation],
    folder: Path,
    name: str,
    progress: Callable[[int], None] | None = None,
) -> tuple[Path, Path]:
    """Write the attention page of some translations and a picture of the first."""
    views = []
    for done, translation in enumerate(translations, start=1):
        views.append(attention_view(translator, translation))
        if progress:
            progress(done)
    page, png = folder / f"{name}.html", folder / f"{name}.png"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(attention_page(*views), encoding="utf-8")
    attention_png(views[0], png)
    return page, png


def attention_view(translator: Translator, translation: Translation) -> AttentionView:
    """Every attention of a translation with the tokens that its rows and columns stand for, and how it was decoded."""
    found, logits = translator.look(translation)
    maps = [
        AttentionMap(path, *translator.axes(translation, path), weights.float().cpu().numpy())
        for path, weights in found.items()
    ]
    alignment = word_alignment(translator, translation, found)
    steps = decoding_steps(translator, translation, logits)
    return AttentionView(translator.name, translation.source, translation.text, maps, alignment, steps)


def word_alignment(
    translator: Translator, translation: Translation, found: dict[str, torch.Tensor]
) -> AttentionMap | None:
    """Target words by source words, from the layer that word alignments are read from; None where there is no word."""
    path = translator.alignment_path
    weights = translator.word_weights(translation, found[path].mean(dim=0)).float().cpu().numpy()
    rows = translator.tokenizers.target.word_texts(translation.target_tokens)
    columns = translator.tokenizers.source.word_texts(translation.source_tokens)
    return AttentionMap(path, rows, columns, weights[None]) if rows and columns else None


def decoding_steps(translator: Translator, translation: Translation, logits: torch.Tensor) -> list[Step]:
    """logits (T, V) → each token of the output with its probability and the most probable tokens at its place."""
    probabilities = logits.float().softmax(dim=-1)
    tokens = torch.tensor(translation.target_tokens, device=probabilities.device)
    own = probabilities.gather(1, tokens[:, None])[:, 0].tolist()
    most, which = (part.tolist() for part in probabilities.topk(min(ALTERNATIVES, probabilities.shape[1]), dim=-1))
    pieces = translator.tokenizers.target.pieces
    spoken = pieces(translation.target_tokens)
    return [
        Step(token, probability, list(zip(pieces(numbers), values, strict=True)))
        for token, probability, numbers, values in zip(spoken, own, which, most, strict=True)
    ]


def alignment_picture(translator: Translator, translation: Translation) -> str:
    """Which source word each target word looks at, as text."""
    one = word_alignment(translator, translation, translator.attend(translation))
    return alignment_text(one.rows, one.columns, one.weights[0]) if one else ""
