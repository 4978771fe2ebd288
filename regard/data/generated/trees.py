"""A treebank that needs no download: English sentences drawn from a small grammar, with their trees.

    S → NP VP PUNCT | NP , NP VP PUNCT      NP → DT (JJ) NN | NNP | PRP | NP PP | NP SBAR | NP CC NP
    VP → (ADVP) V (NP) (PP) | (ADVP) MD VP (PP) | (ADVP) V SBAR          PP → IN NP          SBAR → WHNP S | (IN) S

with the Penn Treebank's labels. Every sentence has one tree: a prepositional phrase with "with" or "in" hangs from the
nearest verb, one with "of" or "near" from the noun before it.
A sentence belongs to one split for ever: a checksum of its words decides.
"""

from __future__ import annotations

from random import Random
from zlib import crc32

from regard.data.trees import Builder, Tree

LONGEST = 30  # words
DETERMINERS = ("the", "a", "every", "this", "some")
ADJECTIVES = ("old", "small", "green", "quiet", "strange", "heavy", "young", "famous", "broken", "early")
NOUNS = (
    "dog", "teacher", "house", "river", "letter", "doctor", "song", "market", "child", "engine", "garden", "window",
    "story", "bridge", "painter", "horse", "village", "clock", "farmer", "book",
)  # fmt: skip
NAMES = ("Anna", "Peter", "London", "Maria", "Smith", "Berlin", "Clara", "Tom")
PRONOUNS = ("he", "she", "it", "they", "we")
INTRANSITIVE = ("slept", "laughed", "arrived", "waited", "fell", "sang")
TRANSITIVE = ("saw", "found", "painted", "liked", "sold", "carried", "broke", "followed")
BARE = ("see", "find", "paint", "like", "sell", "carry", "break", "follow")
THINKING = ("thought", "said", "knew", "believed")
MODALS = ("will", "could", "must", "may")
ADVERBS = ("often", "quietly", "finally", "again", "slowly")
OF_NOUNS, OF_VERBS = ("of", "near", "behind"), ("with", "in", "without")
TIMES = ("yesterday", "today", "tomorrow")


class _Drawn(Builder):
    """A sentence while it is drawn. Deep places draw what is short, so that sentences end."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self.dice = dice

    def leaf(self, tag: str, words: tuple[str, ...]) -> None:
        self.put(self.dice.choice(words), tag)

    def chance(self, p: float) -> bool:
        return self.dice.random() < p / (1 + len(self.opened) / 3)

    def sentence(self, ending: bool = True) -> None:
        self.open("S")
        if ending and self.chance(0.15):
            self.open("NP")
            self.leaf("NN", TIMES)
            self.close()
            self.put(",", ",")
        self.noun_phrase()
        self.verb_phrase()
        if ending:
            self.leaf(".", (".", ".", ".", "!"))
        self.close()

    def noun_phrase(self) -> None:
        self.open("NP")
        if self.chance(0.3):
            self.noun_phrase_alone()
            self.open("PP")
            self.leaf("IN", OF_NOUNS)
            self.noun_phrase()
            self.close()
        elif self.chance(0.15):
            self.noun_phrase_alone()
            self.open("SBAR")
            self.open("WHNP")
            self.leaf("WP", ("who", "that"))
            self.close()
            self.open("S")
            self.verb_phrase()
            self.close()
            self.close()
        elif self.chance(0.15):
            self.noun_phrase_alone()
            self.leaf("CC", ("and", "or"))
            self.noun_phrase_alone()
        else:
            self.noun_words()
        self.close()

    def noun_phrase_alone(self) -> None:
        self.open("NP")
        self.noun_words()
        self.close()

    def noun_words(self) -> None:
        kind = self.dice.random()
        if kind < 0.15:
            self.leaf("PRP", PRONOUNS)
        elif kind < 0.35:
            self.leaf("NNP", NAMES)
        else:
            self.leaf("DT", DETERMINERS)
            if self.dice.random() < 0.4:
                self.leaf("JJ", ADJECTIVES)
            self.leaf("NN", NOUNS)

    def verb_phrase(self) -> None:
        begun = len(self.brackets)
        self.open("VP")
        if self.chance(0.25):
            self.open("ADVP")
            self.leaf("RB", ADVERBS)
            self.close()
        kind = self.dice.random()
        if kind < 0.3:
            self.leaf("VBD", INTRANSITIVE)
        elif kind < 0.65:
            self.leaf("VBD", TRANSITIVE)
            self.noun_phrase()
        elif kind < 0.85 or not self.chance(1.0):
            self.leaf("MD", MODALS)
            self.open("VP")
            self.leaf("VB", BARE)
            self.noun_phrase()
            self.close()
        else:
            self.leaf("VBD", THINKING)
            self.open("SBAR")
            if self.dice.random() < 0.6:
                self.put("that", "IN")
            self.sentence(ending=False)
            self.close()
        clauses = any(one.label == "SBAR" for one in self.brackets[begun:])  # a verb in them would claim the phrase
        if not clauses and self.chance(0.4):
            self.open("PP")
            self.leaf("IN", OF_VERBS)
            self.noun_phrase()
            self.close()
        self.close()


def split_of(words: tuple[str, ...]) -> str:
    bucket = crc32(" ".join(words).encode()) % 100
    return "valid" if bucket < 10 else "test" if bucket < 20 else "train"


def trees(split: str, n: int, seed: int = 1) -> list[Tree]:
    """The first `n` different trees of a split; the same arguments always give the same trees."""
    dice, found = Random(f"trees {split} {seed}"), dict[tuple[str, ...], Tree]()
    while len(found) < n:
        drawn = _Drawn(dice)
        drawn.sentence()
        tree = drawn.tree()
        if len(tree.words) <= LONGEST and split_of(tree.words) == split:
            found.setdefault(tree.words, tree)
    return list(found.values())
