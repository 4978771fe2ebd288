"""What a translation looks at, ready for `regard.view`."""

from __future__ import annotations

from pathlib import Path

from regard.decode.translator import Translation, Translator
from regard.view import AttentionMap, AttentionView, alignment_text, attention_page, attention_png


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
