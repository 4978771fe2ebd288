"""Where things happen, and where people go.

Each place has one preposition per language for being there, and one for going there: "at the cinema" is always
im Kino, and "to the cinema" always ins Kino. German tells the two apart by the case (dative, accusative) or by
another preposition (zu).

A line reads: noun | English preposition | German one | German one for going there | tags. The tags say which
verbs take the place (see verbs.py), which can also name the noun itself.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from regard.data.generated.alignment import PLACE, Phrase, phrase
from regard.data.generated.german import Case
from regard.data.generated.lexicon import Noun
from regard.data.generated.nouns import NOUN

SPOTS = """
house        | in          | in     | in | home dwelling
garden       | in          | in     | in | home outdoors
kitchen      | in          | in     | in | home kitchen
room         | in          | in     | in | home
office       | in          | in     | in | indoors
church       | in          | in     | in | indoors far
hotel        | in          | in     | zu | indoors far inn dwelling
restaurant   | in          | in     | in | indoors far inn
museum       | in          | in     | in | indoors far
cinema       | at          | in     | in | indoors far
library      | in          | in     | in | indoors far
hospital     | in          | in     | in | indoors far
castle       | in          | in     | zu | indoors far dwelling
station      | at          | an     | zu | stop far
bridge       | on          | auf    | zu | outdoors
street       | on          | auf    | -  | outdoors
park         | in          | in     | in | outdoors far
forest       | in          | in     | in | outdoors far
city         | in          | in     | in | trade far dwelling
village      | in          | in     | in | trade far dwelling
market       | at          | auf    | zu | trade far
lake         | at          | an     | zu | outdoors far
beach        | at          | an     | zu | outdoors far
lake         | in          | in     | -  | swim
river        | in          | in     | -  | swim
tree         | under       | unter  | -  | outdoors
house        | behind      | hinter | -  | outdoors
church       | behind      | hinter | -  | outdoors
station      | behind      | hinter | -  | outdoors
school       | in front of | vor    | -  | outdoors
hotel        | in front of | vor    | -  | outdoors
museum       | in front of | vor    | -  | outdoors
house        | next to     | neben  | -  | outdoors
hospital     | next to     | neben  | -  | outdoors
table        | on          | auf    | -  | container
chair        | on          | auf    | -  | container
table        | under       | unter  | -  | container
bag          | in          | in     | -  | container
box          | in          | in     | -  | container
suitcase     | in          | in     | -  | container
"""

CITIES = {
    "Berlin": "Berlin", "Hamburg": "Hamburg", "Munich": "München", "Cologne": "Köln", "Vienna": "Wien",
    "Zurich": "Zürich", "London": "London", "Paris": "Paris", "Rome": "Rom",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A noun with its preposition in both languages and the case that the German one takes."""

    noun: Noun
    english: str
    german: str
    case: Case
    tags: frozenset[str]


def _spots(table: str) -> tuple[list[Spot], list[Spot]]:
    there, thither = [], []
    for line in table.strip().splitlines():
        noun, english, german, towards, tags = (column.strip() for column in line.split("|"))
        all_tags = frozenset((*tags.split(), "any", noun))
        there.append(Spot(NOUN[noun], english, german, "dat", all_tags))
        if towards != "-":
            case: Case = "dat" if towards == "zu" else "acc"
            thither.append(Spot(NOUN[noun], "to", towards, case, all_tags))
    return there, thither


LOCATIONS, DIRECTIONS = _spots(SPOTS)
AT_HOME = phrase(PLACE, "at home", "zu Hause")
AT_SCHOOL = phrase(PLACE, "at school", "in der Schule", "0-0 1-1 1-2")
HOME = phrase(PLACE, "home", "nach Hause", "0-0 0-1")
TO_SCHOOL = phrase(PLACE, "to school", "zur Schule")
IN_CITIES = tuple(phrase(PLACE, f"in {en}", f"in {de}") for en, de in CITIES.items())
TO_CITIES = tuple(phrase(PLACE, f"to {en}", f"nach {de}") for en, de in CITIES.items())


class Where(NamedTuple):
    """The places open to a verb: those that take an article and an adjective, and those that never change."""

    spots: tuple[Spot, ...]
    fixed: tuple[Phrase, ...]


@cache
def locations(tags: frozenset[str]) -> Where:
    """Where something can happen that has these place tags; one swims in a lake but sleeps at it."""
    spots = tuple(spot for spot in LOCATIONS if tags & spot.tags and not (spot.tags & {"container", "swim"}) - tags)
    at_home = (AT_HOME,) if tags & {"home", "any"} else ()
    at_school = (AT_SCHOOL,) if tags & {"school", "any"} else ()
    return Where(spots, at_home + at_school + (IN_CITIES if "towns" in tags else ()))


@cache
def directions(tags: frozenset[str]) -> Where:
    """Where somebody can go."""
    spots = tuple(spot for spot in DIRECTIONS if tags & spot.tags)
    return Where(spots, ((HOME, TO_SCHOOL) if spots else ()) + (TO_CITIES if "towns" in tags else ()))
