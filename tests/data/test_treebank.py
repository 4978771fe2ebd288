"""Splitting treebanks, and trees as a parser sees them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Literal

import pytest

from regard.config import TreebankConfig
from regard.config.parsing import SourceTokenizerConfig
from regard.data import treebank
from regard.data.generated.trees import split_of, trees
from regard.data.linearise import rebuild
from regard.data.penn_words import penn_words
from regard.data.tokenizer import EOS, UNK, Symbols, TokenizerPair, train_one
from regard.data.treebank import Treebank, load, split_every, symbols_of, training
from regard.data.trees import normalise, split_unaries, tree_of, write_trees
from regard.errors import RegardError

TREE = "(TOP (S (NP-SBJ (NP (DT the) (NN dog))) (VP (VBZ barks) (NP (-NONE- *))) (. .)))"


def write(path: Path, documents: int, each: int = 2) -> Path:
    lines = [f"d{i:02d}\t(S (NP (NN w{i})) (VP (VBZ x{j})))" for i in range(1, documents + 1) for j in range(each)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


def numbers(treebank: Treebank) -> list[int]:
    return [int(tree.words[0][1:]) for tree in treebank.gold]


def test_every_tenth_document_is_for_test_and_the_one_after_it_for_validation(tmp_path: Path) -> None:
    config = TreebankConfig(files=(str(write(tmp_path / "bank.gz", 31)),), splits=("every 10",))
    parts = {split: numbers(load(config, split)) for split in treebank.SPLITS}
    assert parts["test"] == [10, 10, 20, 20, 30, 30]
    assert parts["valid"] == [11, 11, 21, 21, 31, 31]
    assert sorted(number for part in parts.values() for number in part) == [i for i in range(1, 32) for _ in range(2)]
    assert split_every(["a", "b", "c", "d"], 3) == {"c": "test", "d": "valid"}


def test_documents_may_be_named_and_treebanks_joined(tmp_path: Path) -> None:
    files = str(write(tmp_path / "one.gz", 5)), str(write(tmp_path / "two.gz", 4, each=1))
    named = {"valid_documents": ("d02",), "test_documents": ("d05",)}
    config = TreebankConfig(files=files, splits=("named", "every 3"), **named)  # type: ignore[arg-type]
    assert numbers(load(config, "valid")) == [2, 2, 4]
    assert numbers(load(config, "test")) == [5, 5, 3]
    assert numbers(load(config, "train")) == [1, 1, 3, 3, 4, 4, 1, 2]


def test_trees_without_documents_are_split_one_by_one(tmp_path: Path) -> None:
    write_trees(tmp_path / "bank", [tree_of(f"(S (NN w{i}) (VB x))") for i in range(1, 8)])
    config = TreebankConfig(files=(str(tmp_path / "bank"),), splits=("every 3",))
    assert [numbers(load(config, split)) for split in treebank.SPLITS] == [[1, 2, 5], [4, 7], [3, 6]]


def test_what_is_scored_against_keeps_repeated_labels_and_what_is_learned_does_not() -> None:
    bank = Treebank.of("x", [tree_of(TREE), tree_of("(())"), tree_of("(S (-NONE- *))")])
    assert bank.wordless == 2
    assert [str(tree) for tree in bank.gold] == ["(S (NP (NP (DT the) (NN dog))) (VP (VBZ barks)) (. .))"]
    corpus = bank.corpus(TreebankConfig())
    assert corpus.source == ["the dog barks ."]
    assert corpus.target == ["(S (NP DT NN )NP (VP VBZ )VP . )S"]
    assert bank.corpus(TreebankConfig(form="plain")).target == ["(S (NP XX XX )NP (VP XX )VP XX )S"]
    assert rebuild(corpus.target[0].split(), bank.gold[0].words)[0] == normalise(tree_of(TREE))


def test_unary_chains_are_one_symbol_where_asked_for_and_come_back_as_they_were() -> None:
    bank = Treebank.of("x", [tree_of("(TOP (S (VP (NP (NP (NN a))) (NN b))))"), tree_of("(S (NN c))")])
    config = TreebankConfig(unary="join")
    assert bank.corpus(config).target == ["(S+VP (NP NN )NP NN )S+VP", "(S NN )S"]
    assert symbols_of(bank, config).vocabulary[4:] == ["NN", "(NP", ")NP", "(S", ")S", "(S+VP", ")S+VP"]
    for text, gold in zip(bank.corpus(config).target, bank.gold, strict=True):
        assert split_unaries(rebuild(text.split(), gold.words)[0]) == normalise(gold)


@pytest.mark.parametrize(("form", "leaves"), [("plain", ["XX"]), ("tags", [".", "DT", "NN", "VBZ"])])
def test_the_symbols_of_a_treebank_read_and_write_its_trees(
    form: Literal["plain", "tags"], leaves: list[str], tmp_path: Path
) -> None:
    bank, config = Treebank.of("x", [tree_of(TREE)]), TreebankConfig(form=form)
    symbols = symbols_of(bank, config)
    assert symbols.vocabulary == ["<pad>", "<s>", "</s>", "<unk>", *leaves, "(NP", ")NP", "(S", ")S", "(VP", ")VP"]
    text = bank.corpus(config).target
    (tokens,) = symbols.encode(text)
    assert symbols.decode(tokens) == text[0]
    assert tokens[-1] == EOS
    assert UNK not in tokens
    assert symbols.encode(["(NP ??"]) == [[symbols.numbers["(NP"], UNK, EOS]]
    assert symbols.words(tokens) == [*range(len(tokens) - 1), -1]
    assert symbols.word_texts(tokens) == text[0].split()
    source = train_one(SourceTokenizerConfig(vocab_size=20), ["the dog barks ."] * 5, 1)
    pair = TokenizerPair(source, symbols)
    pair.save(tmp_path / "tokenizer")
    loaded = TokenizerPair.load(tmp_path / "tokenizer")
    assert isinstance(loaded.target, Symbols)
    assert loaded.hash == pair.hash
    (tmp_path / "tokenizer" / "target.symbols.json").write_text('["<pad>", "(S"]')
    with pytest.raises(RegardError, match="damaged"):
        TokenizerPair.load(tmp_path / "tokenizer")


def test_the_tokenizer_finds_as_many_words_as_the_tree_has() -> None:
    """Whatever is in them: a no-break space, marks that NFKC takes apart, the sign SentencePiece has for a space."""
    sentences = [("a\xa0b", "´", "c▁d", "…", "½", "日本"), ("▁",), ("e\u3000f", "x" * 300)]
    texts = [treebank.sentence_text(words) for words in sentences]
    tokenizer = train_one(SourceTokenizerConfig(vocab_size=40), texts + ["a b c d e f x"] * 3, 1)
    for words, tokens in zip(sentences, tokenizer.encode(texts), strict=True):
        assert tokenizer.begins()[tokens].sum() == len(words) + 1  # and the end symbol


def test_extra_trees_stand_beside_gold_ones(tmp_path: Path) -> None:
    gold, extra = tmp_path / "gold", tmp_path / "extra"
    write_trees(gold, [tree_of("(S (NN w1) (VB x))")])
    write_trees(extra, [tree_of("(S (NN w2) (VB x))"), tree_of("(())")])
    bank = training(TreebankConfig(train=(str(gold),), valid=(str(gold),), extra=(str(extra),), gold_times=3))
    assert numbers(bank) == [1, 1, 1, 2]
    assert bank.wordless == 1


def test_mistakes_are_told_in_a_sentence(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("(())\n")
    for config, split, words in [
        (TreebankConfig(train=(str(empty),)), "train", "no train trees"),
        (TreebankConfig(train=(str(empty),)), "valid", "no valid trees"),
        (TreebankConfig(corpus="poems"), "train", "No generated treebank"),
        (TreebankConfig(corpus="sentences"), "tset", "did you mean test"),
    ]:
        with pytest.raises(RegardError, match=words):
            load(config, split)
    (tmp_path / "open").write_text("(S (NP (NN dog)\n")
    with pytest.raises(RegardError, match="line 1: the tree that begins here is not closed"):
        load(TreebankConfig(train=(str(tmp_path / "open"),)), "train")
    for values, words in [
        ({"files": ("a",)}, "data.splits"), ({"files": ("a",), "splits": ("every 2",)}, "at least 3"),
        ({"files": ("a",), "splits": ("named",)}, "valid_documents"), ({"corpus": "x", "train": ("a",)}, "exclude"),
    ]:  # fmt: skip
        with pytest.raises(RegardError, match=words):
            TreebankConfig(**values)  # type: ignore[arg-type]


def test_generated_trees_are_whole_different_and_always_the_same() -> None:
    train, test = trees("train", 300), trees("test", 100)
    assert train == trees("train", 400)[:300]
    assert len({tree.words for tree in train}) == 300
    assert not {tree.words for tree in train} & {tree.words for tree in test}
    assert {split_of(tree.words) for tree in test} == {"test"}
    for tree in train:
        assert normalise(tree) == tree
        assert tree_of(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('He said, "I can\'t go (now)."', "He said , `` I ca n't go ( now ) . ''"),
        ("Mr. Smith's 1,234 dogs cost $5.50.", "Mr. Smith 's 1,234 dogs cost $ 5.50 ."),
        ("We cannot... wait -- no!", "We can not ... wait -- no !"),
        ("“Yes,” she said; it's 5:30", "`` Yes , '' she said ; it 's 5:30"),
        ("", ""),
    ],
)
def test_running_text_in_words_of_the_penn_treebank(text: str, words: str) -> None:
    assert " ".join(penn_words(text)) == words
