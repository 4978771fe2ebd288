"""Trees: read from any layout, written so that they read the same, normalised; errors with file and line."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path

import pytest

from regard.data.files import read_lines
from regard.data.linearise import Repairs, linearise_plain, linearise_tags, rebuild
from regard.data.trees import (
    NO_PARSE,
    Bracket,
    Tree,
    bare,
    drop_traces,
    indented_text,
    join_unaries,
    merge_repeats,
    normalise,
    read_documents,
    read_trees,
    retagged,
    split_unaries,
    strip_functions,
    strip_root,
    tree_of,
    trees_of_lines,
    write_trees,
)
from regard.errors import RegardError

FOLDER = Path(os.environ.get("REGARD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "constituency"
folder = pytest.mark.skipif(not FOLDER.is_dir(), reason="the treebanks are not here")
SEVERAL_WORDS = re.compile(r"\([^() ]+ [^() ]+ [^()]")  # under one tag

PENN = """
( (S
    (NP-SBJ-1 (DT The) (NNS shares) )
    (VP (VBD were)
      (VP (VBN bought)
        (NP (-NONE- *-1) )
        (PRN
          (-LRB- -LRB-)
          (ADVP (RB again) )
          (-RRB- -RRB-) )))
    (. .) ))
"""
SHARES = Tree(
    ("The", "shares", "were", "bought", "*-1", "(", "again", ")", "."),
    ("DT", "NNS", "VBD", "VBN", "-NONE-", "-LRB-", "RB", "-RRB-", "."),
    (
        Bracket("", 0, 9), Bracket("S", 0, 9), Bracket("NP-SBJ-1", 0, 2), Bracket("VP", 2, 8), Bracket("VP", 3, 8),
        Bracket("NP", 4, 5), Bracket("PRN", 5, 8), Bracket("ADVP", 6, 7),
    ),
)  # fmt: skip


def test_a_tree_over_many_lines_is_read() -> None:
    assert tree_of(PENN) == SHARES


def test_a_tree_is_written_on_one_line_or_on_as_many_as_show_its_form() -> None:
    tree = normalise(SHARES)
    assert str(tree) == (
        "(S (NP (DT The) (NNS shares)) (VP (VBD were) (VP (VBN bought) "
        "(PRN (-LRB- -LRB-) (ADVP (RB again)) (-RRB- -RRB-)))) (. .))"
    )
    assert indented_text(tree).split("\n") == [
        "(S",
        "  (NP (DT The) (NNS shares))",
        "  (VP (VBD were)",
        "    (VP (VBN bought)",
        "      (PRN (-LRB- -LRB-)",
        "        (ADVP (RB again))",
        "        (-RRB- -RRB-))))",
        "  (. .))",
    ]


def test_what_is_written_reads_the_same(grown: Callable[[int], str], tmp_path: Path) -> None:
    trees = [tree_of(grown(number)) for number in range(500)]
    write_trees(tmp_path / "some.trees", trees)
    assert list(read_trees(tmp_path / "some.trees")) == trees
    (tmp_path / "indented.trees").write_text("\n".join(indented_text(tree) for tree in trees) + "\n")
    assert list(read_trees(tmp_path / "indented.trees")) == trees
    assert [str(tree) for tree in trees] == [grown(number) for number in range(500)]


def test_several_trees_may_share_a_line_and_a_line_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "some.trees.gz"
    path.write_bytes(gzip.compress(b"\n(NN a)(NP (NN b))\r\n\n(NP\n(NN\nc\n)\n) (NN d)\n"))
    assert [str(tree) for tree in read_trees(path)] == ["(NN a)", "(NP (NN b))", "(NP (NN c))", "(NN d)"]


def test_documents_are_named_before_a_tab(tmp_path: Path) -> None:
    path = tmp_path / "some.trees"
    path.write_text("one\t(NN a)\none\t(NN b)\ntwo words\t(NP (NN c)\n\t(NN d))\n\t(NN e)\n", encoding="utf-8")
    names = [(name, " ".join(tree.words)) for name, tree in read_documents(path)]
    assert names == [("one", "a"), ("one", "b"), ("two words", "c d"), ("", "e")]


def test_several_words_under_a_tag_each_have_it() -> None:
    assert tree_of("(NP (DT the) (NN Xpd TTD))") == tree_of("(NP (DT the) (NN Xpd) (NN TTD))")
    assert tree_of("(NN a b)") == tree_of("(TOP (NN a) (NN b))")  # every tree has a root


def test_a_sentence_without_a_parse() -> None:
    assert tree_of("(())") == tree_of("()") == NO_PARSE
    assert str(NO_PARSE) == indented_text(NO_PARSE) == "(())"
    assert normalise(NO_PARSE) == NO_PARSE
    assert normalise(tree_of("(S (NP (-NONE- *)))")) == NO_PARSE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(S (NN a))\n(S (NP (NN b))\n", "line 2: the tree that begins here is not closed where the text ends."),
        ("(S\n(NN a)))\n", "line 2: a bracket closes that was not opened."),
        ("(S (NN a)\n (NP ))", "line 2: the bracket (NP ) holds no word. The tree begins in line 1."),
        ("(S ())", "line 1: the bracket (S ) holds no word."),
        ("(NP (NN a) dog)", "line 1: 'dog' has no part-of-speech tag, write it as (TAG dog)."),
        ("(NP dog (NN a))", "line 1: after the word 'dog' a bracket opens where one must close."),
        ("(NN a)\n\n*x*x*\n", "line 3: '*x*x*' stands outside of any tree."),
        ("(S", "line 1: the tree that begins here is not closed where the text ends."),
    ],
)
def test_errors_name_file_and_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.trees"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RegardError) as error:
        list(read_trees(path))
    assert str(error.value) == f"{path}, {says}"


def test_one_tree_is_one() -> None:
    for text, count in (("", 0), ("(NN a) (NN b)", 2)):
        with pytest.raises(RegardError, match=f"there are {count}"):
            tree_of(text)


def test_trees_come_before_the_rest_is_read() -> None:
    def lines() -> Iterator[str]:
        yield "(NN a) (NP (NN b)"
        yield ")"
        raise AssertionError("read too far")

    assert [str(tree) for _, tree in islice(trees_of_lines(lines(), "lines"), 2)] == ["(NN a)", "(NP (NN b))"]


@pytest.mark.parametrize("line", ["(S (NN a)", "(((((", "(S (NN a)) (S" + 300_000 * " a", "(NN" + 300_000 * " a"])
def test_a_bracket_that_is_never_closed_does_not_fill_the_memory(line: str) -> None:
    with pytest.raises(RegardError, match="is one never closed"):
        list(trees_of_lines(repeat(line), "endless"))


def test_what_cannot_be_written_is_said() -> None:
    for word in ("", "New York"):
        with pytest.raises(RegardError, match="no spaces"):
            str(Tree((word,), ("NN",), ()))
    for label in ("N P", "NP("):
        with pytest.raises(RegardError, match="cannot be written"):
            str(Tree(("a",), ("NN",), (Bracket(label, 0, 1),)))


def test_a_tree_of_any_depth() -> None:
    depth = 10 * sys.getrecursionlimit()
    text = depth * "(X (NP a) " + "(NN b)" + depth * ")"
    tree = tree_of(text)
    assert str(tree) == text
    assert tree == tree_of(text)
    assert hash(tree) == hash(tree_of(text))
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert normalise(tree) == tree
    assert rebuild(linearise_tags(tree), tree.words)[0] == tree
    chain = tree_of(depth * "(X " + "(NN b)" + depth * ")")
    assert str(normalise(chain)) == "(X (NN b))"


def test_function_tags_are_stripped_as_by_evalb() -> None:
    assert [bare(label) for label in ("NP", "NP-SBJ-1", "S=2", "NP=2-SBJ", "-NONE-", "ADVP|PRT", "")] == [
        "NP", "NP", "S", "NP", "-NONE-", "ADVP|PRT", "",
    ]  # fmt: skip
    assert str(strip_functions(tree_of("(S-1 (NP=2 (NN-X a)))"))) == "(S (NP (NN-X a)))"  # tags are left alone


def test_traces_go_with_the_phrases_that_held_nothing_else() -> None:
    tree = tree_of("(S (NP (-NONE- *)) (VP (VBD said) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (NP (-NONE- *) (NN now)))")
    assert str(drop_traces(tree)) == "(S (VP (VBD said)) (NP (NN now)))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("( (S (NN a) (NN b)))", "(S (NN a) (NN b))"),
        ("(ROOT (TOP (S1 (NP (NN a)))))", "(NP (NN a))"),
        ("(ROOT (UH yes))", "(UH yes)"),
        ("(ROOT (UH yes) (. .))", "(TOP (UH yes) (. .))"),
        ("(ROOT (S1 (NP (NN a)) (. .)))", "(TOP (NP (NN a)) (. .))"),
        ("(HEADING (NP (NN a)))", "(HEADING (NP (NN a)))"),
    ],
)
def test_a_root_is_kept_only_where_it_holds_several_things(before: str, after: str) -> None:
    assert str(strip_root(tree_of(before))) == after


def test_a_label_repeated_over_the_same_words_is_one() -> None:
    assert str(merge_repeats(tree_of("(S (NP (NP (NP (NN a)))) (NP (S (NP (NN b)))))"))) == (
        "(S (NP (NN a)) (NP (S (NP (NN b)))))"
    )


def test_unary_chains_are_joined_and_split_again(grown: Callable[[int], str]) -> None:
    assert str(join_unaries(tree_of("(S (VP (NP (NN a))))"))) == "(S+VP+NP (NN a))"
    assert str(join_unaries(tree_of("(S (VP (VB a) (NP (NN b))))"))) == "(S+VP (VB a) (NP (NN b)))"
    for number in range(500):
        tree = normalise(tree_of(grown(number)))
        joined = join_unaries(tree)
        assert len({one[1:] for one in joined.brackets}) == len(joined.brackets)  # no span twice
        assert split_unaries(joined) == tree
    with pytest.raises(RegardError, match="cannot be joined"):
        join_unaries(tree_of("(S+VP (NN a))"))


def test_normalising_keeps_the_words_and_is_done_once(grown: Callable[[int], str]) -> None:
    for number in range(500):
        tree = tree_of(grown(number))
        normal = normalise(tree)
        said = [(word, tag) for word, tag in zip(tree.words, tree.tags, strict=True) if tag != "-NONE-"]
        assert list(zip(normal.words, normal.tags, strict=True)) == said
        assert normalise(normal) == normal
        assert not any(set("-=") & set(one.label) for one in normal.brackets)


def test_tags_are_replaced_one_to_a_word() -> None:
    assert str(retagged(tree_of("(NP (XX a) (XX b))"), ["DT", "NN"])) == "(NP (DT a) (NN b))"
    with pytest.raises(RegardError, match="1 tags do not fit 2 words"):
        retagged(tree_of("(NP (XX a) (XX b))"), ["DT"])


@folder
@pytest.mark.parametrize(("name", "every"), [("wsj_nltk_sample", 1), ("gum", 10), ("craft", 10)])
def test_identities_on_real_trees(name: str, every: int) -> None:
    check_identities(name, every)


@folder
@pytest.mark.soak
@pytest.mark.parametrize(("name", "trees"), [("wsj_nltk_sample", 3_914), ("gum", 13_263), ("craft", 30_830)])
def test_identities_on_every_real_tree(name: str, trees: int) -> None:
    assert check_identities(name, every=1) == trees


def check_identities(name: str, every: int) -> int:
    """How many trees were tried."""
    trees = 0
    for line in islice(read_lines(FOLDER / f"{name}.trees.xz"), 0, None, every):
        ((document, tree),) = trees_of_lines([line], name)
        text = line.removeprefix(f"{document}\t")
        if not SEVERAL_WORDS.search(text):
            assert str(tree) == text
        assert tree_of(indented_text(tree)) == tree
        normal = normalise(tree)
        assert rebuild(linearise_tags(normal), normal.words) == (normal, Repairs())
        plain, repairs = rebuild(linearise_plain(normal), normal.words)
        assert (retagged(plain, normal.tags), repairs) == (normal, Repairs())
        assert split_unaries(join_unaries(normal)) == normal
        trees += 1
    return trees
