"""Phrases followed through pieces, whatever the pieces; glossaries."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from regard.config import TokenizerConfig
from regard.data.tokenizer import EOS, UNK, Tokenizer, train_one
from regard.decode.phrases import DEAD, Glossary, Spelling, automaton, edged
from regard.errors import RegardError

WORDS = [
    "Hund",
    "Hunde",
    "Hundehütte",
    "Schäferhund",
    "der",
    "die",
    "das",
    "Haus",
    "(Haus)",
    "Hausboot",
    "ein",
    "kleiner",
    "Hund,",
    "rot",
    "rote",
    "U-Boot",
    "3",
    "30",
]
PHRASES = ["Hund", "der Hund", "Haus", "U-Boot", "3", "kleiner rot"]


@pytest.fixture(scope="module")
def spelling() -> Spelling:
    draw = random.Random(1)
    text = [" ".join(draw.choices(WORDS, k=6)) for _ in range(400)]
    return Spelling(train_one(TokenizerConfig(vocab_size=80, kind="bpe"), text, seed=1))


def spelled_somehow(tokenizer: Tokenizer, text: str, draw: random.Random) -> list[int]:
    """A text in pieces that are joined at random, down to single letters."""
    text, tokens = "▁" + text.replace(" ", "▁"), []
    pieces = {piece: token for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))) if token > UNK}
    while text:
        choices = [n for n in range(1, len(text) + 1) if text[:n] in pieces]
        n = draw.choice(choices)
        tokens.append(pieces[text[:n]])
        text = text[n:]
    return [*tokens, EOS]


def survives(table: object, tokens: list[int]) -> bool:
    state = 0
    for token in tokens:
        state = int(table[state, token])  # type: ignore[index]
        if state == DEAD:
            return False
    return True


@pytest.mark.parametrize("phrases", [[phrase] for phrase in PHRASES] + [PHRASES], ids=", ".join)
def test_the_automaton_dies_exactly_where_the_text_has_the_phrase(spelling: Spelling, phrases: list[str]) -> None:
    table, draw = automaton(spelling, phrases), random.Random(2)
    pattern = re.compile("|".join(map(edged, phrases)))
    found = []
    for _ in range(400):
        tokens = spelled_somehow(spelling.tokenizer, " ".join(draw.choices(WORDS, k=draw.randint(1, 7))), draw)
        text = spelling.tokenizer.decode(tokens)
        found.append(pattern.search(text) is not None)
        assert survives(table, tokens) != found[-1], text
    assert 2 < sum(found) < 398


def test_a_phrase_of_a_script_without_spaces_has_no_edges() -> None:
    text = ["猫が好きです", "犬と猫がいる", "黒猫を見た", "犬が好き"] * 50
    japanese = Spelling(train_one(TokenizerConfig(vocab_size=24, kind="bpe"), text, seed=1))
    table, draw = automaton(japanese, ["猫"]), random.Random(3)
    for sentence in set(text):
        for _ in range(10):
            tokens = spelled_somehow(japanese.tokenizer, sentence, draw)
            assert survives(table, tokens) == ("猫" not in sentence)
    inside = japanese.tokenizer.encode(["黒"])[0][:-1] + japanese.tokens("猫")
    assert japanese.tokenizer.decode(inside) == "黒猫"


def test_a_phrase_is_written_in_the_pieces_of_the_tokenizer(spelling: Spelling) -> None:
    assert spelling.tokenizer.decode(spelling.tokens("der Hund")) == "der Hund"
    with pytest.raises(RegardError, match="'Ж' cannot be written"):
        spelling.tokens("Ж")


def test_a_glossary_requires_the_translations_of_the_terms_a_sentence_has(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("# our terms\ndog\tHund\nguide dog\tBlindenhund\n\ncat\tKatze\n", encoding="utf-8")
    glossary = Glossary.read(path)
    assert glossary.required("The dog and another dog.") == ("Hund",)
    assert glossary.required("A Guide dog, a cat") == ("Blindenhund", "Katze")
    assert glossary.required("Dogs and concatenation") == ()


def test_a_term_is_found_where_its_case_does_not_fold_as_the_texts() -> None:
    glossary = Glossary((("istanbul", "one"), ("straße", "two"), ("K", "three")))
    assert glossary.required("İstanbul, İSTANBUL and STRAßE, at 5 \u212a") == ("one", "two", "three")
    both = Glossary((("istanbul", "one"), ("İstanbul", "two")))
    assert both.required("İstanbul") == ("two",), "each term for itself where a text has it as it stands"
    assert both.required("Istanbul") == ("one",)


def test_a_damaged_glossary_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    for text, words in (
        ("dog\tHund\ncat Katze\n", "line 2: a term, one tab and its translation"),
        ("dog\tHund\ncat\tKatze\tfeminine\n", "line 2: a term, one tab and its translation"),
        ("dog\tHund\n\tKatze\n", "line 2: a term, one tab and its translation"),
        ("dog\tHund\ncat\tKatze\nDog\tDogge\n", "line 3: 'Dog' is 'Hund' in line 1 and 'Dogge' here"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(RegardError, match=words):
            Glossary.read(path)
    path.write_text("dog\tHund\t\n# dog\tDogge\ndog\tHund\n", encoding="utf-8")
    assert Glossary.read(path).required("A dog") == ("Hund",)
