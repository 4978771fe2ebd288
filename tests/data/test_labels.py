"""Labelled texts: files, sentiment trees, treebanks, generated corpora, and words as numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regard.config import LabelDataConfig, TreebankConfig, resolve_as
from regard.config.labels import LabelRecipe
from regard.data.generated.labels import BOTH, generate
from regard.data.labels import UNKNOWN, Example, Vocabulary, has, load
from regard.data.treebank import SPLITS, split_file
from regard.errors import RegardError

SENTIMENT = """\
(3 (2 It) (4 (2 's) (4 lovely)))
(1 (2 Not) (3 good))
(2 (2 A) (2 film))
(4 Great)
"""


def recipe(folder: Path, text: str, **data: Any) -> LabelRecipe:
    (folder / "some.txt").write_text(text, encoding="utf-8")
    task = data.pop("task", "classification")
    file = [str(folder / "some.txt")]
    return resolve_as(LabelRecipe, {"task": task, "data": {"train": file, "test": file, **data}})


def test_a_sentence_has_the_label_of_its_root(tmp_path: Path) -> None:
    found = load(recipe(tmp_path, SENTIMENT, form="sentiment"), "train")
    assert found[0] == Example(("It", "'s", "lovely"), ("3",))
    assert [each.labels[0] for each in found] == ["3", "1", "2", "4"]
    assert found[3].words == ("Great",)


def test_two_classes_leave_out_the_neutral(tmp_path: Path) -> None:
    found = load(recipe(tmp_path, SENTIMENT, form="sentiment", classes="two"), "test")
    assert [each.labels[0] for each in found] == ["positive", "negative", "positive"]


def test_phrases_are_for_training_alone(tmp_path: Path) -> None:
    asked = recipe(tmp_path, SENTIMENT, form="sentiment", phrases=True)
    assert len(load(asked, "test")) == 4
    found = load(asked, "train")
    assert Example(("'s", "lovely"), ("4",)) in found
    assert Example(("good",), ("3",)) in found
    assert len(found) == 5 + 3 + 3 + 1  # every node of every tree


def test_lines_have_a_label_or_a_tag_for_each_word(tmp_path: Path) -> None:
    assert load(recipe(tmp_path, "good\ta b c\n"), "train") == [Example(("a", "b", "c"), ("good",))]
    tags = recipe(tmp_path, "a b\tX Y\n", task="tagging")
    assert load(tags, "train") == [Example(("a", "b"), ("X", "Y"))]
    with pytest.raises(RegardError, match="line 2 is not words, a tab and as many tags"):
        load(recipe(tmp_path, "a b\tX Y\na b\tX\n", task="tagging"), "train")
    with pytest.raises(RegardError, match="line 1 is not a label, a tab and a text"):
        load(recipe(tmp_path, "no tab\n"), "train")


def tagging(folder: Path, trees: list[str], **data: Any) -> LabelRecipe:
    (folder / "bank.txt").write_text("\n".join(trees) + "\n", encoding="utf-8")
    files = {"form": "trees", "train": [str(folder / "bank.txt")], **data}
    return resolve_as(LabelRecipe, {"task": "tagging", "data": files})


def first_words(asked: LabelRecipe) -> dict[str, list[str]]:
    return {split: [each.words[0] for each in load(asked, split)] for split in SPLITS}


def test_a_treebank_is_split_by_documents(tmp_path: Path) -> None:
    """As parsing splits it: the tenth of them is for test, the one after that for validation."""
    trees = [f"d{i:02}\t(S (NN w{i}) (-NONE- *t*) (VB go))" for i in range(1, 23) for _ in range(2)]
    asked = tagging(tmp_path, trees)
    parts = first_words(asked)
    assert parts["test"] == ["w10", "w10", "w20", "w20"]
    assert parts["valid"] == ["w11", "w11", "w21", "w21"]
    assert len(parts["train"]) == 2 * 18
    split = split_file(tmp_path / "bank.txt", "every 10", TreebankConfig())
    assert parts == {name: [tree.words[0] for tree in part] for name, part in split.items()}
    assert load(asked, "test")[0] == Example(("w10", "go"), ("NN", "VB"))  # traces are not words
    assert has(asked.data, "test")


def test_a_treebank_without_documents_is_split_tree_by_tree(tmp_path: Path) -> None:
    parts = first_words(tagging(tmp_path, [f"(S (NN w{i}) (VB go))" for i in range(1, 13)]))
    assert parts["test"] == ["w10"]
    assert parts["valid"] == ["w11"]
    assert parts["train"] == [f"w{i}" for i in (*range(1, 10), 12)]


def test_a_treebank_beside_others_is_whole(tmp_path: Path) -> None:
    trees = [f"(S (NN w{i}) (VB go))" for i in range(1, 13)]
    bank = [str(tmp_path / "bank.txt")]
    assert all(len(found) == 12 for found in first_words(tagging(tmp_path, trees, valid=bank, test=bank)).values())


def test_a_text_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"no valid text: set data\.valid"):
        load(recipe(tmp_path, "good\ta\n"), "valid")


@pytest.mark.parametrize(
    ("task", "data"),
    [("tagging", {"form": "sentiment"}), ("classification", {"form": "trees"}), ("tagging", {"corpus": "polarity"})],
)
def test_data_without_the_tasks_labels_is_refused(task: str, data: dict[str, str]) -> None:
    with pytest.raises(RegardError, match="has no labels for task"):
        resolve_as(LabelRecipe, {"task": task, "data": data})


def test_generated_texts_follow_from_their_split() -> None:
    assert generate("polarity", "train", 50) == generate("polarity", "train", 60)[:50]
    assert generate("polarity", "train", 50) != generate("polarity", "test", 50)


def test_polarity_is_a_matter_of_order() -> None:
    """Some sentences have the same words and opposite labels."""
    labels: dict[tuple[str, ...], set[str]] = {}
    for words, verdict in generate("polarity", "train", 20_000):
        labels.setdefault(tuple(sorted(words)), set()).update(verdict)
    assert any(len(found) == 2 for found in labels.values())
    count = Counter(verdict for _, (verdict,) in generate("polarity", "train", 2_000))
    assert min(count.values()) > 900


def test_word_classes_are_a_matter_of_neighbours() -> None:
    tags: dict[str, set[str]] = {}
    for words, found in generate("word-classes", "train", 500):
        for word, tag in zip(words, found, strict=True):
            tags.setdefault(word, set()).add(tag)
    assert all(len(tags[word]) == 3 for word in BOTH)
    assert all(len(found) == 1 for word, found in tags.items() if word not in BOTH)


def test_rare_and_new_words_are_unknown() -> None:
    texts = [Example(("The", "dog"), ("a",)), Example(("the", "cat"), ("b",))]
    vocabulary = Vocabulary.of(texts, LabelDataConfig(min_count=2, lower=True))
    assert vocabulary.words == ("", "the")
    assert vocabulary.encode([["THE", "dog", "new"]]) == [[1, UNKNOWN, UNKNOWN]]
    assert vocabulary.encode_labels([["a", "b", "c"]]) == [[0, 1, -1]]
    cased = Vocabulary.of(texts, LabelDataConfig(min_count=1))
    assert "The" in cased.words
    assert cased.hash != vocabulary.hash


def test_a_vocabulary_survives_its_file(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of([Example(("Grüße", "x"), ("a",))], LabelDataConfig(min_count=1))
    (tmp_path / "words.json").write_text(vocabulary.dump(), encoding="utf-8")
    assert Vocabulary.load(tmp_path / "words.json") == vocabulary


def test_a_file_that_is_missing_says_how_to_name_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        RegardError, match=r"train\.txt\.xz\. Say where it lies with --set 'data\.train=.*nlp\.stanford\.edu"
    ):
        load(resolve_as(LabelRecipe, "sst-cnn"), "train")
    with pytest.raises(
        RegardError, match=r"--set 'data\.train=\[\"FILE\"\]'\.$"
    ):  # of one treebank all splits are made
        load(resolve_as(LabelRecipe, "gum-tagger"), "valid")
