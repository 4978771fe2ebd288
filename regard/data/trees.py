"""Constituency trees in the Penn Treebank's bracket notation: reading, writing, normalising.

    (S (NP-SBJ (NNP John)) (VP (VBZ sleeps)) (. .))

A tree is kept flat, as its words, their part-of-speech tags and its brackets, outer before inner and left before right.
That says everything the notation says, and neither a deep tree nor a long unary chain meets a recursion limit. Round
brackets, which the notation cannot hold inside a word, are -LRB- and -RRB- in files and themselves in memory.

`(())` is a sentence without a parse: the one tree that has no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from regard.data.files import read_lines
from regard.errors import RegardError

TRACE = "-NONE-"  # the tag of what is understood but not said
PUNCTUATION = (",", ":", "``", "''", ".")  # tags of what EVALB takes out before it counts
TOP = "TOP"  # the label of a root that only holds things together
ROOTS = ("", TOP, "ROOT", "S1")  # what such a root is called in various treebanks
JOINT = "+"  # between the labels of a joined unary chain
MOST_NODES = 200_000  # words and brackets of one tree; more of them mean a bracket that is never closed

# White space of ASCII only: others, such as the no-break space, occur inside words.
TOKEN = re.compile(r"\(([^()\s]+)\s+([^()\s]+)\s*\)|[()]|[^()\s]+", re.ASCII)  # a whole leaf, or less
BLANK = re.compile(r"\s", re.ASCII)


class Bracket(NamedTuple):
    """A phrase: the words from `start` up to, not including, `end`."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Of one word, which may stand alone, or of more, over all of which the first bracket stretches."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]

    def __str__(self) -> str:
        """In the notation, on one line."""
        return written(self)


NO_PARSE = Tree((), (), ())


class Builder:
    """Grows a tree from left to right."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.tags: list[str] = []
        self.brackets: list[Bracket] = []
        self.opened: list[int] = []  # numbers of the brackets still open, outer before inner

    def open(self, label: str) -> None:
        self.opened.append(len(self.brackets))
        self.brackets.append(Bracket(label, len(self.words), -1))

    def put(self, word: str, tag: str) -> None:
        self.words.append(word)
        self.tags.append(tag)

    def close(self) -> Bracket:
        """Close the innermost bracket. One without words is not kept."""
        number = self.opened.pop()
        closed = self.brackets[number]._replace(end=len(self.words))
        if closed.start == closed.end:
            self.brackets.pop()  # those inside it held no words either and are gone
        else:
            self.brackets[number] = closed
        return closed

    def rooted(self) -> bool:
        """Whether what is built hangs together."""
        return len(self.words) < 2 or (len(self.brackets) > 0 and self.brackets[0][1:] == (0, len(self.words)))

    def tree(self) -> Tree:
        """What has been built; a root is put over parts that have none."""
        root = [] if self.rooted() else [Bracket(TOP, 0, len(self.words))]
        return Tree(tuple(self.words), tuple(self.tags), (*root, *self.brackets))


# --- reading ---------------------------------------------------------------------------------------------


def read_trees(path: Path) -> Iterator[Tree]:
    """The trees of a file, one after the other; an error names its line. A tree may take one line or many."""
    for _, tree in read_documents(path):
        yield tree


def read_documents(path: Path) -> Iterator[tuple[str, Tree]]:
    """As `read_trees`, with the name of the document before each tree where lines are `name<TAB>(tree)`, else ""."""
    yield from trees_of_lines(read_lines(path), str(path))


def tree_of(text: str) -> Tree:
    """The one tree written in `text`."""
    trees = [tree for _, tree in trees_of_lines(text.split("\n"), "The tree")]
    if len(trees) != 1:
        raise RegardError(f"One tree was expected but there are {len(trees)}: {text[:80]!r}.")
    return trees[0]


def trees_of_lines(lines: Iterable[str], name: str) -> Iterator[tuple[str, Tree]]:
    """Document and tree, from the lines of a bracket file called `name`."""
    reader, document, first = Reader(), "", 0
    for number, line in enumerate(lines, start=1):
        if not reader.begun:
            head, tab, rest = line.partition("\t")
            document = head.strip() if tab and "(" not in head else ""
            line = rest if document else line
        for token in TOKEN.finditer(line):
            first = first if reader.begun else number
            try:
                tree = reader.take_leaf(token[1], token[2]) if token[1] else reader.take(token[0])
            except ValueError as error:
                begun = f" The tree begins in line {first}." if first < number else ""
                raise RegardError(f"{name}, line {number}: {error}{begun}") from None
            if tree is not None:
                yield document, tree
                reader = Reader()
    if reader.begun:
        raise RegardError(f"{name}, line {first}: the tree that begins here is not closed where the text ends.")


class Reader:
    """One tree, token by token. Whether a bracket is a phrase or a tag is known only from what follows its label."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.begun = False
        self.label: str | None = None  # of a bracket whose nature is not yet known
        self.fresh = False  # nothing has followed the last opening bracket
        self.words: list[str] = []  # after that label

    def take(self, token: str) -> Tree | None:
        """The tree, with the token that ends it. A ValueError says what is wrong with the token."""
        if token == "(":
            self.open()
        elif token == ")":
            return self.close()
        elif self.fresh:
            self.label, self.fresh = token, False
        elif self.label is not None:
            self.words.append(token)
            self.check_size()
        elif not self.begun:
            raise ValueError(f"{token[:40]!r} stands outside of any tree.")
        else:
            raise ValueError(f"{token[:40]!r} has no part-of-speech tag, write it as (TAG {token[:40]}).")
        return None

    def take_leaf(self, tag: str, word: str) -> Tree | None:
        """As `take` of "(", the tag, the word and ")"."""
        self.open()
        self.builder.put(plain_word(word), tag)
        self.label, self.fresh = None, False
        return None if self.builder.opened else self.builder.tree()

    def open(self) -> None:
        if self.words:
            raise ValueError(f"after the word {self.words[-1][:40]!r} a bracket opens where one must close.")
        if self.label is not None:
            self.builder.open(self.label)
        self.check_size()
        self.label, self.fresh, self.begun = "", True, True

    def close(self) -> Tree | None:
        if self.label is None:
            if not self.builder.opened:
                raise ValueError("a bracket closes that was not opened.")
            self.check_filled(self.builder.close())
        elif self.words:
            for word in self.words:  # where there are several, the tag is each one's
                self.builder.put(plain_word(word), self.label)
        else:
            self.check_filled(Bracket(self.label, 0, 0))
        self.label, self.fresh, self.words = None, False, []
        return None if self.builder.opened else self.builder.tree()

    def check_filled(self, closed: Bracket) -> None:
        if closed.start == closed.end and closed.label:
            raise ValueError(f"the bracket ({closed.label[:40]} ) holds no word.")

    def check_size(self) -> None:
        if len(self.words) + len(self.builder.words) + len(self.builder.brackets) > MOST_NODES:
            raise ValueError(f"the tree has more than {MOST_NODES:,} words and brackets; is one never closed?")


# --- writing ---------------------------------------------------------------------------------------------


def write_trees(path: Path, trees: Iterable[Tree]) -> None:
    """One tree to a line."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for tree in trees:
            file.write(str(tree) + "\n")


def indented_text(tree: Tree) -> str:
    """In the notation, each phrase on a line of its own and further in than the one around it."""
    return written(tree, indented=True)


def walk(tree: Tree) -> Iterator[tuple[Literal["open", "word", "close"], int]]:
    """The tree from left to right: which bracket opens, which word comes, which bracket closes, by number."""
    opened: list[int] = []
    following = 0
    for i in range(len(tree.words)):
        while following < len(tree.brackets) and tree.brackets[following].start == i:
            opened.append(following)
            yield "open", following
            following += 1
        yield "word", i
        while opened and tree.brackets[opened[-1]].end == i + 1:
            yield "close", opened.pop()


def written(tree: Tree, indented: bool = False) -> str:
    pieces: list[str] = []
    depth = 0
    last = ""
    for event, i in walk(tree):
        if event == "close":
            pieces.append(")")
            depth -= 1
        else:
            new_line = indented and (event == "open" or last == "close")
            pieces.append("" if not depth else "\n" + "  " * depth if new_line else " ")
        if event == "open":
            pieces.append("(" + symbol(tree.brackets[i].label))
            depth += 1
        elif event == "word":
            pieces.append(f"({symbol(tree.tags[i])} {escaped(tree.words[i])})")
        last = event
    return "".join(pieces) or "(())"


def symbol(label: str) -> str:
    if "(" in label or ")" in label or BLANK.search(label):
        raise RegardError(f"The label {label!r} cannot be written: labels have no brackets and no spaces in them.")
    return label


def escaped(word: str) -> str:
    if not word or BLANK.search(word):
        raise RegardError(f"The word {word!r} cannot stand in a bracket file: words have no spaces in them.")
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def plain_word(word: str) -> str:
    """A word of a bracket file as it is in memory."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


# --- normalising -----------------------------------------------------------------------------------------


def normalise(tree: Tree) -> Tree:
    """What a parser learns: no function tags, no traces, no bare roots, no label twice over the same words.

    EVALB does the first two itself and counts a label as often as it stands: `as_scored` is what to compare with.
    """
    return merge_repeats(as_scored(tree))


def as_scored(tree: Tree) -> Tree:
    """Without function tags, traces and bare roots, whatever those are called: what EVALB counts, and no less."""
    return strip_root(drop_traces(strip_functions(tree)))


def strip_functions(tree: Tree) -> Tree:
    """NP-SBJ-1 and NP=2 become NP."""
    return replace(tree, brackets=tuple(one._replace(label=bare(one.label)) for one in tree.brackets))


def bare(label: str) -> str:
    """A label without function tags and indices. One that begins with a hyphen, such as -NONE-, is left alone: a phrase
    keeps a name. EVALB cuts it to nothing, and so does `evaluate.parseval`, after this."""
    return label if label.startswith(("-", "=")) else re.split("[-=]", label, maxsplit=1)[0]


def drop_traces(tree: Tree) -> Tree:
    """Without the leaves tagged -NONE- and the phrases that held nothing else."""
    kept = [i for i, tag in enumerate(tree.tags) if tag != TRACE]
    if len(kept) == len(tree.tags):
        return tree
    before = [0]  # how many leaves are kept before each
    for tag in tree.tags:
        before.append(before[-1] + (tag != TRACE))
    moved = (Bracket(label, before[start], before[end]) for label, start, end in tree.brackets)
    return Tree(
        tuple(tree.words[i] for i in kept), tuple(tree.tags[i] for i in kept),
        tuple(one for one in moved if one.start < one.end),
    )  # fmt: skip


def strip_root(tree: Tree) -> Tree:
    """Without the roots TOP, ROOT, S1 or nameless that hold one thing; one that holds several is called TOP."""
    brackets = tree.brackets
    while brackets and brackets[0].label in ROOTS:
        if len(tree.words) > 1 and (len(brackets) == 1 or brackets[1][1:] != brackets[0][1:]):
            return replace(tree, brackets=(brackets[0]._replace(label=TOP), *brackets[1:]))
        brackets = brackets[1:]
    return replace(tree, brackets=brackets)


def merge_repeats(tree: Tree) -> Tree:
    """A phrase directly in one of the same label over the same words is one phrase with it."""
    kept: list[Bracket] = []
    for one in tree.brackets:
        if not kept or one != kept[-1]:
            kept.append(one)
    return replace(tree, brackets=tuple(kept))


def join_unaries(tree: Tree) -> Tree:
    """Brackets over the same words become one: S over VP is called S+VP. `split_unaries` undoes it."""
    joined: list[Bracket] = []
    for one in tree.brackets:
        if JOINT in one.label:
            raise RegardError(f"The label {one.label!r} has a {JOINT} in it, so that unary chains cannot be joined.")
        if joined and one[1:] == joined[-1][1:]:
            one = one._replace(label=joined.pop().label + JOINT + one.label)
        joined.append(one)
    return replace(tree, brackets=tuple(joined))


def split_unaries(tree: Tree) -> Tree:
    """A bracket called S+VP becomes an S over a VP."""
    parts = (one._replace(label=label) for one in tree.brackets for label in one.label.split(JOINT))
    return replace(tree, brackets=tuple(parts))


def retagged(tree: Tree, tags: Sequence[str]) -> Tree:
    """With other part-of-speech tags, one to a word."""
    if len(tags) != len(tree.words):
        raise RegardError(f"{len(tags)} tags do not fit {len(tree.words)} words.")
    return replace(tree, tags=tuple(tags))
