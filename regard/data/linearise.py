"""Trees as sequences of symbols that a translation model can write, and back (Vinyals et al. 2015, section 2).

    (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S          plain: every word is XX
    (S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S         tags: every word is its part-of-speech tag

Depth first; a bracket opens with its label and closes with its label, and the words are left out, since the input has
them. `rebuild` makes a tree over given words of any symbols whatever. What a model wrote well is untouched; the rest is
repaired from left to right and counted:

    a bracket closes that is not the innermost one        those inside it are closed too
    a bracket closes that is not open                     left out
    a bracket has no word in it                           left out
    a symbol has no label, or spaces or brackets in it    left out
    more leaves than words                                left out
    the symbols end in the middle of a phrase             what is open is closed
    fewer leaves than words                               the last words hang from the root, tagged XX
    several trees, or words without one                   a root TOP is put over them

Departures from the paper: none known; it says of repairs only that brackets were added.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from regard.data.trees import Builder, Tree, walk
from regard.wording import counted

LEAF = "XX"
_SYMBOL = re.compile(r"[()]?[^()\s]+", re.ASCII)


def linearise_plain(tree: Tree) -> list[str]:
    """The form without part-of-speech tags."""
    return _symbols(tree, [LEAF] * len(tree.words))


def linearise_tags(tree: Tree) -> list[str]:
    """The form with part-of-speech tags."""
    return _symbols(tree, tree.tags)


FORMS: dict[str, Callable[[Tree], list[str]]] = {"plain": linearise_plain, "tags": linearise_tags}


def _symbols(tree: Tree, leaves: Sequence[str]) -> list[str]:
    sign = {"open": "(", "close": ")"}
    return [leaves[i] if event == "word" else sign[event] + tree.brackets[i].label for event, i in walk(tree)]


@dataclass(frozen=True)
class Repairs:
    """How often each thing was put right."""

    unclosed: int = 0  # brackets
    unopened: int = 0
    empty: int = 0
    unreadable: int = 0  # symbols
    surplus: int = 0  # leaves
    missing: int = 0
    unrooted: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass(frozen=True)
class RepairTally:
    """The repairs of many outputs."""

    outputs: int
    malformed: int  # outputs that needed any
    repairs: Repairs

    @classmethod
    def of(cls, repairs: Iterable[Repairs]) -> RepairTally:
        outputs = malformed = 0
        total = Repairs()
        for one in repairs:
            outputs += 1
            malformed += one.total > 0
            total += one
        return cls(outputs, malformed, total)

    @property
    def rate(self) -> float:
        """Malformed outputs in percent."""
        return 100 * self.malformed / self.outputs if self.outputs else 0.0

    def __str__(self) -> str:
        text = f"malformed: {self.malformed:,} of {counted(self.outputs, 'output')} ({self.rate:.1f} %)"
        done = self.repairs
        named = [
            (done.unclosed, "bracket", "", "closed"), (done.unopened, "closing bracket", "", "left out"),
            (done.empty, "empty bracket", "", "left out"), (done.unreadable, "unreadable symbol", "", "left out"),
            (done.surplus, "leaf", "leaves", "left out"), (done.missing, "word", "", "added to the root"),
            (done.unrooted, "root", "", "added"),
        ]  # fmt: skip
        parts = [f"{counted(count, noun, plural)} {what}" for count, noun, plural, what in named if count]
        return f"{text}: {', '.join(parts)}." if parts else f"{text}."


def rebuild(symbols: Iterable[str], words: Sequence[str]) -> tuple[Tree, Repairs]:
    """The tree over exactly these words that the symbols describe, whatever they are; and what had to be repaired."""
    builder = Builder()
    opened: Counter[str] = Counter()
    done: Counter[str] = Counter()

    def close() -> str:
        closed = builder.close()
        opened[closed.label] -= 1
        done["empty"] += closed.start == closed.end
        return closed.label

    for symbol in symbols:
        label = symbol[1:]
        if not _SYMBOL.fullmatch(symbol):
            done["unreadable"] += 1
        elif symbol.startswith("("):
            opened[label] += 1
            builder.open(label)
        elif symbol.startswith(")"):
            if not opened[label]:
                done["unopened"] += 1
                continue
            while close() != label:
                done["unclosed"] += 1
        elif len(builder.words) < len(words):
            builder.put(words[len(builder.words)], symbol)
        else:
            done["surplus"] += 1

    done["unclosed"] += len(builder.opened)
    while builder.opened:
        close()
    done["missing"] = len(words) - len(builder.words)
    if done["missing"] and builder.brackets and builder.rooted():
        builder.brackets[0] = builder.brackets[0]._replace(end=len(words))
    for word in words[len(builder.words) :]:
        builder.put(word, LEAF)
    done["unrooted"] = not builder.rooted()
    return builder.tree(), Repairs(**done)
