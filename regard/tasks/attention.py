"""What a translation looks at, ready for `regard.view`."""

from __future__ import annotations

from pathlib import Path

from regard.decode.parser import Parsed, Parser
from regard.decode.translator import Translation, Translator
from regard.view import AttentionMap, AttentionView, alignment_text, attention_page, attention_png
from regard.view.trees import tree_svg, tree_text


def draw(translator: Translator, translation: Translation, folder: Path, name: str) -> tuple[Path, Path]:
    """Write the attention page and picture of a translation."""
    view = attention_view(translator, translation)
    page, png = folder / f"{name}.html", folder / f"{name}.png"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(attention_page(view), encoding="utf-8")
    attention_png(view, png)
    return page, png


def attention_view(translator: Translator, translation: Translation) -> AttentionView:
    """Every attention of a translation with the tokens that its rows and columns stand for."""
    maps = [
        AttentionMap(path, *translator.axes(translation, path), weights.float().cpu().numpy())
        for path, weights in translator.attend(translation).items()
    ]
    return AttentionView(translator.name, translation.source, translation.text, maps)


def alignment_picture(translator: Translator, translation: Translation) -> str:
    """Which source word each target word looks at, as text."""
    weights = translator.attend(translation)[translator.alignment_path].mean(dim=0)
    words = translator.word_weights(translation, weights).cpu().numpy()
    rows = translator.tokenizers.target.word_texts(translation.target_tokens)
    columns = translator.tokenizers.source.word_texts(translation.source_tokens)
    return alignment_text(rows, columns, words)


def draw_tree(parser: Parser, parsed: Parsed, folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Write the attention page and picture of a parse, and its tree beside them as SVG."""
    page, png = draw(parser, parsed.output, folder, name)
    svg = folder / f"{name}.svg"
    svg.write_text(tree_svg(parsed.tree), encoding="utf-8")
    return page, png, svg


def bracket_attention(parser: Parser, parsed: Parsed) -> list[tuple[str, list[tuple[str, float]]]]:
    """Each bracket as it was opened, in the order of the tree, and the words its symbol attended to, by weight: the
    mean of the heads of the layer that alignments are read from."""
    weights = parser.attend(parsed.output)[parser.alignment_path].mean(dim=0)
    matrix = parser.word_weights(parsed.output, weights)  # (symbols, words)
    words = parser.tokenizers.source.word_texts(parsed.output.source_tokens)
    found = []
    for symbol, row in zip(parsed.symbols, matrix.tolist(), strict=True):
        if symbol.startswith("("):
            found.append((symbol, sorted(zip(words, row, strict=True), key=lambda pair: -pair[1])))
    return found


def tree_beside_attention(parser: Parser, parsed: Parsed, width: int = 100, shown: int = 3) -> str:
    """The tree, a line for each phrase and word; beside a phrase, what its bracket attended to when it was opened."""
    if parsed.repairs.total:  # some of the tree's brackets are then not the model's
        return tree_text(parsed.tree, width)
    brackets = {
        i: ", ".join(f"{word} {weight:.0%}" for word, weight in best[:shown])
        for i, (_, best) in enumerate(bracket_attention(parser, parsed))
    }
    return tree_text(parsed.tree, width, brackets)
