"""Brackets scored as EVALB scores them: every rule by hand, and the program's own loops beside ours."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from regard.data.branching import flat, left_branching, right_branching
from regard.data.linearise import linearise_tags, rebuild
from regard.data.trees import NO_PARSE, Tree, bare, normalise, read_trees, tree_of
from regard.evaluate.parseval import (
    Brackets,
    Comparison,
    Total,
    by_label,
    by_length,
    compare,
    f1_interval,
    label_table,
    length_table,
)

FOLDER = Path(os.environ.get("REGARD_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "constituency"

CAT = "(S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .))"


def counts(gold: str, parsed: str) -> tuple[str, Brackets, Brackets, int, int, int]:
    """Status, labelled and unlabelled brackets (gold, parsed, matched), crossing ones, words, correct tags."""
    one = compare(tree_of(gold), tree_of(parsed))
    return one.status, one.labelled, one.unlabelled, one.crossing, one.words, one.correct_tags


def test_a_parse_is_as_good_as_itself() -> None:
    # S, NP, VP, PP and NP make five brackets; the full stop is not among the six words.
    assert counts(CAT, CAT) == ("scored", Brackets(5, 5, 5), Brackets(5, 5, 5), 0, 6, 6)
    assert compare(tree_of(CAT), tree_of(CAT)).exact


def test_label_span_and_tag_count() -> None:
    parsed = "(S (NP (DT the) (NN cat) (VBN sat)) (PP (IN on) (NP (DT the) (NN mat))) (. .))"
    # Gold: S 0–6, NP 0–2, VP 2–6, PP 3–6, NP 4–6. Parse: S 0–6, NP 0–3, PP 3–6, NP 4–6. Matched: S, PP, NP.
    # NP 0–3 crosses VP 2–6. Of six tags VBN is wrong.
    assert counts(CAT, parsed) == ("scored", Brackets(5, 4, 3), Brackets(5, 4, 3), 1, 6, 5)
    total = Total.of([compare(tree_of(CAT), tree_of(parsed))])
    assert (total.labelled.precision, total.labelled.recall) == (75.0, 60.0)
    assert total.labelled.f1 == pytest.approx(2 * 75 * 60 / (75 + 60))
    assert total.tagging_accuracy == pytest.approx(100 * 5 / 6)


def test_a_wrong_label_counts_only_without_labels() -> None:
    parsed = CAT.replace("(PP", "(ADJP")
    assert counts(CAT, parsed) == ("scored", Brackets(5, 5, 4), Brackets(5, 5, 5), 0, 6, 6)


def test_punctuation_does_not_move_brackets() -> None:
    gold = "(S (NP (NNP Ann)) (, ,) (NP (NN boss)) (VP (VBD left)) (. .))"
    parsed = "(S (NP (NNP Ann) (, ,)) (NP (NN boss)) (VP (VBD left) (. .)))"
    # Without the comma and the full stop both have S 0–3, NP 0–1, NP 1–2, VP 2–3.
    assert counts(gold, parsed) == ("scored", Brackets(4, 4, 4), Brackets(4, 4, 4), 0, 3, 3)


@pytest.mark.parametrize("tag", [",", ":", "``", "''", "."])
def test_each_mark_is_left_out(tag: str) -> None:
    gold = f"(S (NP (NN a) (NN b)) (VP (VB c) ({tag} x)))"
    # NP 0–2, S 0–3, VP 2–3 in both; the PRN of the parse holds nothing but the mark and is no bracket.
    parsed = f"(S (NP (NN a) (NN b)) (VP (VB c)) (PRN ({tag} x)))"
    assert counts(gold, parsed) == ("scored", Brackets(3, 3, 3), Brackets(3, 3, 3), 0, 3, 3)


@pytest.mark.parametrize("tag", ["-LRB-", "-RRB-", "HYPH", "SYM", "$", "#", "POS", "?"])
def test_other_signs_are_words(tag: str) -> None:
    gold, parsed = f"(S (NP (NN a)) ({tag} x))", f"(S (NP (NN a) ({tag} x)))"
    # Gold: S 0–2, NP 0–1. Parse: S 0–2, NP 0–2.
    assert counts(gold, parsed) == ("scored", Brackets(2, 2, 1), Brackets(2, 2, 1), 0, 2, 2)


def test_traces_and_what_holds_only_traces_are_left_out() -> None:
    gold = "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))"
    # S 0–1 and VP 0–1 are left of five brackets.
    assert counts(gold, "(S (VP (VB go)) (. .))") == ("scored", Brackets(2, 2, 2), Brackets(2, 2, 2), 0, 1, 1)


def test_function_tags_and_indices_are_cut_off() -> None:
    gold = "(S-1 (NP-SBJ-2 (NN a)) (VP (VB b) (NP=3 (NN c))))"
    assert counts(gold, "(S (NP (NN a)) (VP (VB b) (NP (NN c))))")[1] == Brackets(4, 4, 4)
    assert counts(gold, "(S (NP-OBJ (NN a)) (VP-X=4 (VB b) (NP (NN c))))")[1] == Brackets(4, 4, 4)
    # Tags keep theirs: NN-X is another tag than NN.
    assert counts("(NP (NN a))", "(NP (NN-X a))")[-1] == 0


def test_top_is_no_bracket_and_root_is_one() -> None:
    assert counts(f"(TOP {CAT})", CAT)[1] == Brackets(5, 5, 5)
    assert counts(CAT, f"(TOP-1 {CAT})")[1] == Brackets(5, 5, 5)  # after function tags are cut off
    assert counts(f"(ROOT {CAT})", CAT)[1] == Brackets(6, 5, 5)  # EVALB's COLLINS names TOP alone
    assert counts(CAT, f"( {CAT})")[1] == Brackets(5, 6, 5)


def test_adverbs_and_particles_are_one_label() -> None:
    gold = "(VP (VB go) (PRT (RP up)) (ADVP (RB now)))"
    parsed = "(VP (VB go) (ADVP (RB up)) (PRT (RP now)))"
    # VP 0–3, PRT 1–2, ADVP 2–3: all match. RP against RB is twice a wrong tag.
    assert counts(gold, parsed) == ("scored", Brackets(3, 3, 3), Brackets(3, 3, 3), 0, 3, 1)
    assert by_label([compare(tree_of(gold), tree_of(parsed))]) == {"ADVP": Brackets(2, 2, 2), "VP": Brackets(1, 1, 1)}
    # ADVP over PRT has two of that label, one of which is matched.
    assert counts("(VP (VB go) (ADVP (PRT (RP up))))", "(VP (VB go) (ADVP (RP up)))")[1] == Brackets(3, 2, 2)


def test_the_same_bracket_twice_matches_as_often_as_both_have_it() -> None:
    twice, once, thrice = (f"(S {n * '(NP '}(NN a){n * ')'} (VP (VB b)))" for n in (2, 1, 3))
    # With S and VP: 4, 3 and 5 brackets; of NP over one word two and one have one in common, two and three have two.
    assert counts(twice, once)[1:3] == (Brackets(4, 3, 3), Brackets(4, 3, 3))
    assert counts(twice, thrice)[1:3] == (Brackets(4, 5, 4), Brackets(4, 5, 4))
    # A unary chain in the other order has the same brackets.
    assert counts("(S (VP (VB a)))", "(VP (S (VB a)))")[1] == Brackets(2, 2, 2)
    # Without labels the two of a chain match any two.
    assert counts("(S (VP (VB a)))", "(NP (NP (VB a)))")[1:3] == (Brackets(2, 2, 0), Brackets(2, 2, 2))


def test_crossing_brackets_are_those_of_the_parse() -> None:
    gold = "(S (X (NN a) (NN b)) (Y (NN c) (NN d)))"
    # B 1–3 crosses X 0–2 and Y 2–4 and counts once; so does C 1–3 around it; D 2–3 lies inside Y, and S around all.
    parsed = "(S (NN a) (C (B (NN b) (D (NN c)))) (NN d))"
    assert counts(gold, parsed) == ("scored", Brackets(3, 4, 1), Brackets(3, 4, 1), 2, 4, 4)
    # Seen from the other side X and Y cross: also two, but other ones.
    assert counts(parsed, gold)[3] == 2
    # What touches does not cross: A 0–2 against X 0–1 and Y 1–2.
    assert counts("(S (X (NN a)) (Y (NN b)) (NN c))", "(S (A (NN a) (NN b)) (NN c))")[3] == 0


def test_other_words_are_an_error_and_are_in_no_figure() -> None:
    cases = {
        "(S (NN a) (NN b))": "scored",
        "(S (NN a))": "error",  # one is missing
        "(S (NN a) (NN b) (NN c))": "error",  # one is too many
        "(S (NN a) (NN B))": "error",  # another one
        "(S (NN a) (. b))": "error",  # b is punctuation here and a word there
        "(S (NN a) (, ,) (NN b) (. .))": "scored",  # marks may be more or fewer
        "(())": "skipped",  # no parse
        "(S (. a) (. b))": "skipped",  # nothing is left of it
    }
    comparisons = [compare(tree_of("(S (NN a) (NN b))"), tree_of(parsed)) for parsed in cases]
    assert [one.status for one in comparisons] == list(cases.values())
    total = Total.of(comparisons)
    assert (total.sentences, total.scored, total.errors, total.skipped) == (8, 2, 4, 2)
    assert total.labelled == Brackets(2, 2, 2)
    assert (total.labelled.f1, total.exact_match, total.words) == (100.0, 100.0, 4)
    # Of eight gold brackets six are those of sentences that were not scored: 2·2 / (8 + 2).
    assert total.f1_of_all == pytest.approx(40)
    assert "100.00" in str(total)
    assert "40.00 where sentences skipped and errors count as not parsed" in str(total)


def test_gold_of_nothing_but_punctuation() -> None:
    assert counts("(S (. .))", "(S (. .))")[0] == "skipped"
    assert counts("(S (. .))", "(S (NN .))")[0] == "error"


def test_the_sum_is_over_brackets_not_over_sentences() -> None:
    golds = [CAT, "(S (VP (VB go)))", "(S (NN a) (NN b))"]
    parses = [CAT, "(NP (NP (VB go)))", "(S (NN a) (NN b))"]
    # Matched 5 of 5 and 5, none of 2 and 2, 1 of 1 and 1: six of eight. The middle one has no brackets right.
    total = Total.of(map(compare, map(tree_of, golds), map(tree_of, parses)))
    assert total.labelled == Brackets(8, 8, 6)
    assert total.unlabelled == Brackets(8, 8, 8)
    assert total.labelled.f1 == 75.0
    assert total.exact_match == pytest.approx(200 / 3)
    assert (total.average_crossing, total.no_crossing) == (0.0, 3)
    assert total.figures()["f1"] == 75.0


def test_crossing_is_reported_as_by_evalb() -> None:
    gold = "(S (A (NN a) (NN b)) (NN c) (NN d))"
    deep = "(S (NN a) (B (C (D (NN b) (NN c)))) (NN d))"  # B, C and D are all 1–3 and cross A 0–2
    total = Total.of(map(compare, map(tree_of, [gold, gold]), map(tree_of, [deep, gold])))
    assert (total.crossing, total.average_crossing, total.no_crossing, total.two_or_less) == (3, 1.5, 1, 1)
    assert total.figures()["two_or_less_crossing"] == 50.0


def test_nothing_at_all_gives_nought() -> None:
    total = Total.of([])
    assert all(figure == 0 for figure in total.figures().values())
    assert compare(tree_of("(NN a)"), tree_of("(NN a)")).exact  # no brackets, all of them matched
    assert Total.of([compare(tree_of("(S (NN a))"), NO_PARSE)]).labelled.f1 == 0.0
    assert f1_interval([]) is None


def test_figures_by_label() -> None:
    parsed = "(S (NP (DT the) (NN cat)) (VP (VBD sat)) (NP (IN on) (NP (DT the) (NN mat))) (. .))"
    # VP 2–3 for 2–6; NP 3–6 for PP 3–6.
    labels = by_label([compare(tree_of(CAT), tree_of(parsed))])
    assert list(labels) == ["NP", "PP", "S", "VP"]  # most frequent first
    assert labels["NP"] == Brackets(2, 3, 2)
    assert labels["PP"] == Brackets(1, 0, 0)
    assert labels["VP"] == Brackets(1, 1, 0)
    assert label_table(labels).split("\n")[1].split() == ["NP", "2", "3", "80.00", "66.67", "100.00"]


def test_figures_by_length() -> None:
    """Length is that of the gold tree, punctuation counted and traces not."""
    short = "(S (NN a) (NN b) (NN c) (NN d) (-NONE- *) (. .))"  # 5
    longer = "(S (NN a) (NN b) (NN c) (NN d) (NN e) (. .))"  # 6
    golds = [tree_of(text) for text in (short, longer, short)]
    comparisons = list(map(compare, golds, [*golds[:2], NO_PARSE]))
    lengths = by_length(comparisons)
    assert {name: (one.sentences, one.scored) for name, one in lengths.items()} == {"1–5": (2, 1), "6–10": (1, 1)}
    assert length_table(lengths).split("\n")[2].split() == ["6–10", "1", "100.00", "100.00", "100.00", "100.00"]
    assert Total.of(one for one in comparisons if one.length <= 5).sentences == 2


def test_a_label_that_begins_with_a_hyphen_is_cut_to_nothing() -> None:
    """EVALB's rule, and not that of normalising, which leaves such a label alone."""
    assert bare("-X-") == "-X-"
    assert by_label([compare(tree_of("(S (-X (NN a)) (NN b))"), tree_of("(S (-Y (NN a)) (NN b))"))]) == {
        "": Brackets(1, 1, 1), "S": Brackets(1, 1, 1),
    }  # fmt: skip


def test_the_interval_holds_what_other_samples_of_sentences_give() -> None:
    alike = [compare(tree_of(CAT), tree_of(CAT))] * 50
    assert f1_interval(alike) == 0.0
    half = [Comparison(1, labelled=Brackets(1, 1, i % 2)) for i in range(400)]
    # F1 is the mean of 400 fair coins: its standard deviation is 2.5, and 1.96 of those are 4.9.
    assert f1_interval(half) == pytest.approx(4.9, abs=0.5)


def evalb(gold: Tree, parsed: Tree, labelled: bool) -> tuple[int, ...]:
    """As the program goes about it, bracket against bracket: status, gold, parsed, matched, crossing, tags."""
    deleted, sides = ("TOP", "-NONE-", ",", ":", "``", "''", "."), []
    for tree in (gold, parsed):
        kept = [i for i, tag in enumerate(tree.tags) if tag not in deleted]
        brackets = []
        for label, start, end in tree.brackets:
            first, last = sum(i < start for i in kept), sum(i < end for i in kept)
            for mark in "-=":
                label = label[: label.index(mark)] if mark in label else label
            if first != last and label not in deleted:
                brackets.append([label, first, last, False])
        sides.append(([tree.words[i] for i in kept], [tree.tags[i] for i in kept], brackets))
    (words1, tags1, brackets1), (words2, tags2, brackets2) = sides
    if not words2:
        return (2,)
    if words1 != words2:
        return (1,)
    same = [{"ADVP", "PRT"}]
    matched = crossing = 0
    for label1, *span1, _ in brackets1:
        for two in brackets2:
            equal = not labelled or label1 == two[0] or {label1, two[0]} in same
            if not two[3] and span1 == two[1:3] and equal:
                two[3] = True
                matched += 1
                break
    for _, start2, end2, _ in brackets2:
        crossing += any(
            (start1 < start2 < end1 < end2) or (start2 < start1 < end2 < end1) for _, start1, end1, _ in brackets1
        )
    tags = sum(one == two or {one, two} in same for one, two in zip(tags1, tags2, strict=True))
    return 0, len(brackets1), len(brackets2), matched, crossing, tags


def test_counts_are_those_of_evalb_on_trees_damaged_at_random() -> None:
    generator = random.Random(6)
    tags = ["NN", "VB", "ADVP", "PRT", ",", ".", "-NONE-"]
    labels = ["S", "NP", "NP-SBJ", "VP=2", "ADVP", "PRT", "TOP", "X"]
    symbols = [*(f"({label}" for label in labels), *(f"){label}" for label in labels), *tags, *tags, *tags]
    statuses = set()
    for _ in range(3_000):
        words = [generator.choice("abc") for _ in range(generator.randrange(1, 12))]
        gold = rebuild(generator.choices(symbols, k=30), words)[0]
        damaged = linearise_tags(gold)
        for _ in range(generator.randrange(6)):
            damaged[generator.randrange(len(damaged))] = generator.choice(symbols)
        parsed = rebuild(damaged, words if generator.random() < 0.95 else words[1:])[0]
        one = compare(gold, parsed)
        status = ["scored", "error", "skipped"].index(one.status)
        statuses.add(status)
        for labelled, side in ((True, one.labelled), (False, one.unlabelled)):
            found = (status, side.gold, side.parsed, side.matched, one.crossing, one.correct_tags)
            assert (found if not status else found[:1]) == evalb(gold, parsed, labelled)
        assert sum(one.labels.values(), Brackets()) == one.labelled
    assert statuses == {0, 1, 2}


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the treebanks are not here")
def test_trivial_trees_have_the_scores_known_of_them() -> None:
    """Labelled F1 of three trivial parsers on the Wall Street Journal sample, as another program had counted them."""
    golds = list(read_trees(FOLDER / "wsj_nltk_sample.trees.xz"))
    plain = [normalise(tree) for tree in golds]
    scores = []
    for draw in (flat, right_branching, left_branching):
        total = Total.of(compare(gold, draw(tree.words, tree.tags)) for gold, tree in zip(golds, plain, strict=True))
        assert (total.sentences, total.scored) == (3_914, 3_914)
        scores.append(round(total.labelled.f1, 2))
    assert scores == [9.16, 17.27, 8.28]
