"""What a translation looks at, ready for `regard.view`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.decode.parser import Parsed, Parser
from regard.decode.request import Translation
from regard.decode.translator import Translator
from regard.view import AttentionMap, AttentionView, Step, alignment_text, attention_page, attention_png, named_every
from regard.view.tree_page import tree_page
from regard.view.trees import tree_svg, tree_text

ALTERNATIVES = 8  # tokens told for each step


def silence(what: str) -> None:
    """Say nothing."""


def draw(
    translator: Translator,
    translations: Sequence[Translation],
    folder: Path,
    name: str,
    progress: Callable[[int], None] | None = None,
    remark: Callable[[str], None] = silence,
) -> tuple[Path, Path]:
    """Write the attention page of some translations and a picture of the first. `progress` is told how many are done,
    `remark` where the picture is not the one to look at."""
    views = []
    for done, translation in enumerate(translations, start=1):
        views.append(attention_view(translator, translation))
        if progress:
            progress(done)
    page, png = folder / f"{name}.html", folder / f"{name}.png"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(attention_page(*views), encoding="utf-8")
    attention_png(views[0], png)
    if (every := named_every(views[0])) > 1:
        remark(f"{png} is of so many tokens that it names one in {every}: look at {page}, which shows them all.")
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


def word_alignment(translator: Translator, translation: Translation, found: dict[str, Tensor]) -> AttentionMap | None:
    """Target words by source words, from the layer that word alignments are read from; None where there is no word."""
    path = translator.alignment_path
    weights = translator.word_weights(translation, found[path].mean(dim=0)).float().cpu().numpy()
    rows = translator.tokenizers.target.word_texts(translation.target_tokens)
    columns = translator.tokenizers.source.word_texts(translation.source_tokens)
    return AttentionMap(path, rows, columns, weights[None]) if rows and columns else None


def decoding_steps(translator: Translator, translation: Translation, logits: Tensor) -> list[Step]:
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


def alignment_picture(translator: Translator, translation: Translation, height: int | None = None) -> str:
    """Which source word each target word looks at, as text; of the first `height` words, or of all."""
    one = word_alignment(translator, translation, translator.attend(translation))
    return alignment_text(one.rows, one.columns, one.weights[0], height=height) if one else ""


def draw_tree(
    parser: Parser, parsed: Parsed, folder: Path, name: str, remark: Callable[[str], None] = silence
) -> list[Path]:
    """Write the tree beside the attention of its brackets, the page and picture of every head, and the tree as SVG."""
    drawn = list(draw(parser, [parsed.output], folder, name, remark=remark))
    tree, svg = folder / f"{name}-tree.html", folder / f"{name}.svg"
    layers = {path.split(".")[2]: weights.cpu().numpy() for path, weights in bracket_attention(parser, parsed).items()}
    tree.write_text(tree_page(f"{parser.name}: {parsed.output.source}", parsed.tree, layers), encoding="utf-8")
    svg.write_text(tree_svg(parsed.tree), encoding="utf-8")
    return [tree, *drawn, svg]


def bracket_attention(parser: Parser, parsed: Parsed) -> dict[str, Tensor]:
    """How much each bracket attended to each word when it was opened, (brackets, words), the mean of all heads: by
    module path, layer after layer. Nothing where the tree was repaired: some of its brackets are then not the model's.
    """
    if parsed.repairs.total:
        return {}
    return {
        path: parser.word_weights(parsed.output, weights.mean(dim=0))[parser.opened(parsed)]
        for path, weights in parser.attend(parsed.output).items()
        if path.endswith("cross_attn")
    }


def tree_beside_attention(parser: Parser, parsed: Parsed, width: int = 100, shown: int = 3) -> str:
    """The tree, a line for each phrase and word; beside a phrase, what its bracket attended to when it was opened, in
    the layer that alignments are read from."""
    weights = bracket_attention(parser, parsed).get(parser.alignment_path)
    remarks = {}
    for i, row in enumerate(weights if weights is not None else ()):
        best = row.argsort(descending=True)[:shown].tolist()
        remarks[i] = ", ".join(f"{parsed.tree.words[word]} {float(row[word]):.0%}" for word in best)
    return tree_text(parsed.tree, width, remarks)
