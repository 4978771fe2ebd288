"""Which way each text goes: files in the language they should be in, and splits that all go from the same language to
the same other.

What is expected was given, or stands in the files' names. Where neither tells, the split that goes against all others
is the odd one; of two, nobody knows which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from regard.data.detection import WORDS
from regard.data.languages import language_of, main_code, name_of
from regard.data.scripts import Script, script_of
from regard.doctor.findings import Finding, Where, at_lines, examples_of, examples_of_pairs
from regard.doctor.languages import Profile, identify, main_script, sampled
from regard.doctor.texts import Bitext, Side


def straighten(
    splits: Mapping[str, Bitext], languages: Sequence[str], said_by: str
) -> tuple[dict[str, Bitext], list[Finding]]:
    """The splits, those that go the wrong way turned round so that all else can be judged; and what is wrong.
    `languages` are those of source and target, if they are known, and `said_by` is who says so."""
    found, straight, sure = list[Finding](), dict[str, Bitext](), set[str]()
    for split, bitext in splits.items():
        hoped, seen = expected(bitext, languages), [identify(side.lines) for side in bitext.sides]
        exchanged = hoped[0] != hoped[1] and set(hoped) <= set(WORDS) and seen == hoped[::-1]
        straight[split] = turned(bitext) if exchanged else bitext
        if exchanged:
            found.append(wrong_way(bitext, seen, said_by if languages else ""))
        else:
            found += wrong_files(bitext, hoped, seen, said_by if languages else "")
        if exchanged or seen == hoped:
            sure.add(split)
    odd, finding = odd_ones(straight, sure)
    return {split: turned(one) if split in odd else one for split, one in straight.items()}, found + finding


def turned(bitext: Bitext) -> Bitext:
    return Bitext(bitext.split, bitext.target, bitext.source)


def expected(bitext: Bitext, languages: Sequence[str]) -> list[str]:
    """The languages of source and target as they were given or as the files are named; "" where nobody says."""
    return [main_code(languages[i]) if languages else language_of(side.file) for i, side in enumerate(bitext.sides)]


def wrong_way(bitext: Bitext, seen: Sequence[str], said_by: str) -> Finding:
    other = f"correct {said_by} to {seen[0]} {seen[1]}" if said_by else "correct their names"
    source, target = map(name_of, seen)
    return Finding(
        "languages-swapped", "error", at_lines(bitext.files),
        f"Source and target are exchanged: the source seems to be {source} and the target {target}.",
        f"Give the two files in the other order, or {other}.",
        examples_of_pairs(bitext.source.lines, bitext.target.lines, [1]),
    )  # fmt: skip


def wrong_files(bitext: Bitext, hoped: Sequence[str], seen: Sequence[str], said_by: str) -> Iterator[Finding]:
    """Files that are not in the language that was given or that their names say."""
    for i, side in enumerate(bitext.sides):
        if hoped[i] in WORDS and seen[i] and hoped[i] != seen[i]:
            likely = [seen[k] or hoped[k] or "…" for k in (0, 1)]
            fix = f"Take the right file; or, if it is the right one, say --languages {' '.join(likely)}."
            what = f"The text seems to be {name_of(seen[i])}, but {said_by or 'its name'} says {name_of(hoped[i])}."
        elif strange_script(side, hoped[i]):
            fix = f"Take the right file, or correct {said_by or 'its name'}."
            what = (
                f"The text is in {main_script(side.lines)[0]} script, in which {name_of(hoped[i])}, as "
                f"{said_by or 'its name'} says, is not written."
            )
        else:
            continue
        yield Finding("wrong-language", "error", at_lines(side.file), what, fix, examples_of(side.lines, [1]))


def strange_script(side: Side, language: str) -> bool:
    """Whether hardly a letter of a text is in its language's script."""
    script, enough = script_of(language), main_script(side.lines)[1] >= 100
    return bool(script and enough and Script(script).share("".join(sampled(side.lines, 2_000))) < 0.1)


# --- one way for all -------------------------------------------------------------------------------------


def backwards(bitext: Bitext, profile: Profile) -> bool:
    """Whether a text's source is in the language of the profile's target, and its target in that of the source."""
    if not profile.telling or not len(bitext):
        return False
    left, right = ([profile.side(line) for line in sampled(side.lines, 1_000)] for side in bitext.sides)
    return sum(a < 0 for a in left) > 0.6 * len(left) and sum(b > 0 for b in right) > 0.6 * len(right)


def odd_ones(splits: Mapping[str, Bitext], sure: set[str]) -> tuple[set[str], list[Finding]]:
    """The splits to turn round so that all go one way, and a sentence on each; the `sure` ones go as they should."""
    if "train" not in splits or len(splits) == 1:
        return set(), []
    train, others = splits["train"], [bitext for split, bitext in splits.items() if split != "train"]
    profile = Profile.of(train.source.lines, train.target.lines)
    against = [bitext for bitext in others if backwards(bitext, profile)]
    if not against:
        return set(), []
    if len(others) == 1 and ("train" in sure) == (against[0].split in sure):
        return {against[0].split}, [opposed(train, against[0])]
    along = [bitext for bitext in splits.values() if bitext not in against]
    along_sure, against_sure = ([bitext.split in sure for bitext in some] for some in (along, against))
    fewer = len(along) < len(against) if any(along_sure) == any(against_sure) else any(against_sure)
    odd = along if fewer else against
    return {bitext.split for bitext in odd}, [against_the_rest(bitext, splits) for bitext in odd]


def against_the_rest(bitext: Bitext, splits: Mapping[str, Bitext]) -> Finding:
    rest = " and ".join(split for split in splits if split != bitext.split)
    return Finding(
        "languages-swapped", "error", at_lines(bitext.files),
        f"The {bitext.split} text goes {way(bitext)}, {rest} the other way.",
        f"Exchange the two files of {bitext.split}.",
        examples_of_pairs(bitext.source.lines, bitext.target.lines, [1]),
    )  # fmt: skip


def opposed(train: Bitext, other: Bitext) -> Finding:
    return Finding(
        "languages-swapped", "error", Where((*train.files, *other.files)),
        f"The train text goes {way(train)}, the {other.split} text the other way: one of them has its two files "
        "exchanged.",
        "Exchange them; --languages SOURCE TARGET tells which.",
        examples_of_pairs(train.source.lines, train.target.lines, [1])
        + examples_of_pairs(other.source.lines, other.target.lines, [1]),
    )  # fmt: skip


def way(bitext: Bitext) -> str:
    kinds = [identify(side.lines) for side in bitext.sides]
    return f"from {name_of(kinds[0])} to {name_of(kinds[1])}" if all(kinds) else "one way"
