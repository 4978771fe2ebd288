"""What is in a corpus: figures that can be counted by hand, and a brute-force count of a corpus that cannot."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from regard.config import TokenizerConfig
from regard.data import statistics, tokenizer
from regard.data.generated import generate
from regard.errors import RegardError
from regard.view.corpus_page import corpus_page
from regard.view.corpus_picture import corpus_png
from regard.view.corpus_table import corpus_text

SOURCE = ["A dog runs.", "A dog runs.", "the Dog", "", "same", "one two three four", "A dog runs."]
TARGET = ["Ein Hund rennt.", "Ein Hund läuft.", "der Hund", "nichts", "same", "eins", "Ein Hund rennt."]


def summary(**splits: tuple[list[str], list[str]]) -> dict[str, object]:
    measured = {name: statistics.measure(name, *texts) for name, texts in splits.items()}
    return statistics.summarise("corpus", ("en", "de"), measured)


def test_a_corpus_of_seven_lines_is_counted_as_by_hand() -> None:
    found = summary(train=(SOURCE, TARGET))["splits"]["train"]
    assert (found["pairs"], found["pairs_with_an_empty_side"], found["copies"]) == (7, 1, 1)
    source, target = found["source"], found["target"]
    assert (source["words"], source["characters"], source["empty"]) == (16, 62, 1)
    assert (target["words"], target["empty"]) == (14, 0)
    assert source["length"]["histogram"] == [(0, 1), (1, 1), (2, 1), (3, 3), (4, 1)]
    assert source["length"]["percentiles"]["50"] == 3
    assert source["vocabulary"]["distinct"] == 9  # a dog runs the same one two three four
    assert source["vocabulary"]["once"] == 6
    assert found["ratio"]["beyond_twice"] == 1  # four words for one
    assert sum(found["ratio"]["log2_counts"]) == 6
    assert found["repetitions"] == {
        "duplicate_pairs": 1, "distinct_sources": 4, "sources_with_several_targets": 1, "distinct_targets": 5,
        "targets_with_several_sources": 0,
    }  # fmt: skip
    assert sum(map(sum, found["joint"]["counts"])) == 6


def test_figures_of_a_large_corpus_agree_with_a_plain_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "CHUNK", 700)  # several chunks, the last one ragged
    pairs = generate("en-de", "train", 3000)
    source, target = [pair.source for pair in pairs] + ["Hm."] * 3, [pair.target for pair in pairs] + ["Hm."] * 3
    found = summary(train=(source, target))["splits"]["train"]
    lengths = sorted(len(line.split()) for line in source)
    assert found["source"]["length"]["percentiles"]["95"] == lengths[-(-len(lengths) * 95 // 100) - 1]
    assert found["source"]["length"]["mean"] == pytest.approx(sum(lengths) / len(lengths))
    assert found["target"]["characters"] == sum(map(len, target))
    together = Counter(zip(source, target, strict=True))
    assert found["repetitions"]["duplicate_pairs"] == len(source) - len(together)
    several = Counter(one for one, _ in together)
    assert found["repetitions"]["sources_with_several_targets"] == sum(count > 1 for count in several.values())
    assert found["copies"] == sum(a == b for a, b in zip(source, target, strict=True))
    words = Counter(word.strip(".,?!").casefold() for line in source for word in line.split())
    assert found["source"]["vocabulary"]["distinct"] == len(words)
    assert found["source"]["vocabulary"]["curve"][-1] == [len(words), 1.0]


def test_leaks_are_judged_by_near_form_as_prepare_judges_them() -> None:
    train = ["In 1999 a dog ran.", "12", "A cat, asleep"], ["1999 rannte ein Hund.", "12", "Eine Katze schläft"]
    test = ["in 2001 a DOG ran!", "13", "a cat asleep"], ["2001 rannte ein Hund", "14", "Ein Hund schläft"]
    (leak,) = summary(train=train, test=test)["leakage"]
    assert [leak[what] for what in ("pairs", "sources", "targets")] == [1, 2, 1]  # numbers alone are in every text


def test_leaks_and_unseen_words_between_splits_are_found() -> None:
    test = (["A dog runs.", "a cat sleeps", "same"], ["Ein Hund rennt.", "eine Katze schläft", "gleich"])
    found = summary(train=(SOURCE, TARGET), valid=(["x"], ["same"]), test=test)
    leaks = {(one["of"], one["in"]): one for one in found["leakage"]}
    assert [leaks["test", "train"][what] for what in ("pairs", "sources", "targets")] == [1, 2, 1]
    assert [leaks["valid", "train"][what] for what in ("pairs", "sources", "targets")] == [0, 0, 1]
    assert [leaks["test", "valid"][what] for what in ("pairs", "sources", "targets")] == [0, 0, 0]
    covered = found["coverage"]["test"]["source"]
    assert covered["running"] == pytest.approx(5 / 7)  # a dog runs a … … same
    assert sorted(covered["most_frequent_unseen"]) == ["cat", "sleeps"]
    assert covered["distinct"] == pytest.approx(4 / 6)


def test_characters_are_counted_by_script_and_kind() -> None:
    line = "Ab Жж αβ 漢字 1, \u0007\ufffd€"
    found = summary(train=([line], ["x"]))["splits"]["train"]["source"]["scripts"]
    expected = {
        "Latin": 2, "Cyrillic": 2, "Greek": 2, "Han": 2, "digits": 1, "punctuation": 1, "control": 1,
        "replacement": 1, "symbols": 1, "spaces": 5,
    }  # fmt: skip
    assert found == expected


def test_subwords_are_counted_with_a_tokenizer() -> None:
    pairs = generate("en-de", "train", 800)
    source, target = [pair.source for pair in pairs], [pair.target for pair in pairs]
    tokenizers = tokenizer.train(TokenizerConfig(vocab_size=400), source, target, 1)
    source[0] = "漢字"  # two characters the tokenizer has never met: one unknown piece
    measured = statistics.measure("train", source, target, tokenizers)
    found = statistics.summarise("corpus", ("en", "de"), {"train": measured})["splits"]["train"]["source"]["subwords"]
    encoded = [tokens[:-1] for tokens in tokenizers.source.encode(source)]
    assert found["pieces"] == sum(map(len, encoded))
    assert found["per_word"] == pytest.approx(found["pieces"] / sum(len(line.split()) for line in source))
    assert found["unknown"] == pytest.approx(sum(line.count(tokenizer.UNK) for line in encoded) / found["pieces"])
    assert found["unknown"] > 0
    assert found["vocabulary_used"] == len({token for line in encoded for token in line})
    assert found["length"]["percentiles"]["100"] == max(map(len, encoded))


def test_texts_of_unequal_length_and_empty_ones_are_refused() -> None:
    with pytest.raises(RegardError, match="The source of train has 2 lines but the target of train has 1"):
        statistics.measure("train", ["a", "b"], ["x"])
    with pytest.raises(RegardError, match="not a single line in test"):
        statistics.measure("test", [], [])


def test_the_report_is_plain_values_a_table_a_picture_and_one_page(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    found = summary(train=(SOURCE, TARGET), test=([hostile], [hostile]))
    found = json.loads(json.dumps(found))
    text = corpus_text(found)
    assert "corpus: en → de" in text
    assert "duplicate pairs" in text
    assert all(len(line) < 200 for line in text.splitlines())
    corpus_png(found, tmp_path / "report.png")
    picture = (tmp_path / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    page = corpus_page(found, picture)
    assert "<script" not in page
    assert "\u202e" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "https://" not in page
    assert "data:image/png;base64," in page
