"""The verbs, with what may be their subject and their object, and where and when they make sense.

A line reads: English | German | subjects | objects | places | remarks. Subjects, objects and places are tags or
English nouns of nouns.py ("-" for none). A bar in the German marks a separable particle, an|rufen. Remarks:
- "state": simple present in English ("knows"), and no habits; "need", "see" and "hear" can be future too;
- "event": too short to be going on, so no present at all ("lost", "will lose");
- "present": never in the past;
- "project": no habit, and what comes into being has no qualities yet;
- "unwilled": no modal, nobody can or wants to lose something;
- "timed": a habit at a certain time ("every day") rather than a frequent one ("often");
- "familiar": of somebody or something in particular ("likes the dog") or of a mass ("likes cheese");
- "placed": the sentence is incomplete without a place.

One English verb has two German ones only where the sentence shows which: people essen and animals fressen, one
knows a person (kennen) or that something is so (wissen), believes somebody or that something is so (glauben).
"""

from dataclasses import dataclass
from typing import Literal

from regard.data.generated.german import Case

Frame = Literal["intransitive", "transitive", "dative", "ditransitive", "direction", "preposition", "copula"]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    english: str  # "turn on": the verb and what always goes with it
    german: str
    frame: Frame
    subjects: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    remarks: frozenset[str] = frozenset()
    preposition: tuple[str, str, Case] | None = None  # of a prepositional object: "for", "auf", accusative

    @property
    def stative(self) -> bool:
        return "state" in self.remarks or self.frame == "copula"


INTRANSITIVE = """
sleep       | schlafen      | person animal | - | home outdoors | -
work        | arbeiten      | person        | - | any towns | -
play        | spielen       | kid pet       | - | home outdoors | -
swim        | schwimmen     | person dog duck | - | swim | -
dance       | tanzen        | person        | - | any | -
sing        | singen        | person bird   | - | any | -
laugh       | lachen        | person        | - | any | -
cry         | weinen        | person        | - | any | unwilled
run         | rennen        | person pet horse | - | outdoors | -
sit         | sitzen        | person pet    | - | any | placed
stay        | bleiben       | person        | - | any towns | placed
live        | wohnen        | person        | - | dwelling towns | placed state
shop        | ein|kaufen    | person        | - | trade towns | -
watch TV    | fern|sehen    | person        | - | home | -
get up      | auf|stehen    | person        | - | - | timed
fall asleep | ein|schlafen  | person pet    | - | home | timed
arrive      | an|kommen     | person public | - | stop towns | timed
leave       | ab|fahren     | public        | - | - | timed unwilled
come back   | zurück|kommen | person pet    | - | - | -
"""

DIRECTION = """
go    | gehen   | person        | - | any | -
drive | fahren  | grown         | - | far towns | -
fly   | fliegen | person        | - | towns | -
come  | kommen  | person        | - | far | -
"""

TRANSITIVE = """
eat        | essen       | person        | food | home park inn outdoors | -
eat        | fressen     | animal        | feed | outdoors | -
drink      | trinken     | person        | drink | home inn outdoors | -
cook       | kochen      | person        | cooked | kitchen | -
order      | bestellen   | person        | food drink | inn | -
bring      | mit|bringen | person        | food drink portable | - | -
buy        | kaufen      | person        | food drink wear private device portable furniture | trade towns | -
sell       | verkaufen   | grown         | wear private device house picture horse cow bread apple | trade towns | -
read       | lesen       | person        | book newspaper letter story poem | home library park | -
write      | schreiben   | person        | written book song | home library | -
sing       | singen      | person        | song | church park | -
wear       | tragen      | person        | wear | - | -
put on     | an|ziehen   | person        | garment | - | -
take off   | aus|ziehen  | person        | garment | - | -
wash       | waschen     | person        | shirt jacket coat dress car dog cup glass | - | -
clean      | putzen      | person        | window door kitchen car table bicycle | - | -
tidy       | auf|räumen  | person        | room kitchen office house garden | - | -
repair     | reparieren  | grown         | device vehicle door chair clock bridge | - | -
build      | bauen       | grown         | house bridge church boat table chair | - | project
paint      | malen       | person        | picture flower animal | - | -
open       | auf|machen  | person        | opening gift letter umbrella | - | -
close      | zu|machen   | person        | opening umbrella book | - | -
turn on    | an|machen   | person        | device | - | -
turn off   | aus|machen  | person        | device | - | -
throw away | weg|werfen  | person        | portable wear chair bread | - | -
take       | nehmen      | person        | portable cake apple | - | -
look for   | suchen      | person        | portable pet kid kin wear | home | -
feed       | füttern     | person        | animal | - | -
watch      | beobachten  | person pet    | animal person public | - | -
visit      | besuchen    | person        | person museum castle church | - | -
meet       | treffen     | person        | person | any towns | -
call       | an|rufen    | person        | person | - | -
invite     | ein|laden   | person        | person | - | -
pick up    | ab|holen    | person        | person | stop school | -
ask        | fragen      | person        | person | - | -
kiss       | küssen      | person        | person | - | -
find       | finden      | person        | portable pet wear | any | event
lose       | verlieren   | person        | portable wear | any | event unwilled
forget     | vergessen   | person        | portable wear | - | event unwilled
see        | sehen       | person pet    | person animal building vehicle tree lake | any | state future
hear       | hören       | person pet    | person animal song public radio | - | state future
need       | brauchen    | person        | portable device private wear furniture job | - | state future unwilled
have       | haben       | person        | portable device private wear furniture animal | - | state
know       | kennen      | person        | person story poem song city village | - | state present familiar
understand | verstehen   | person        | person story poem letter book | - | state familiar
like       | mögen       | person        | person animal food drink read land | - | state present familiar
love       | lieben      | person        | person animal song city | - | state familiar
"""

DATIVE = """
help      | helfen    | person        | person animal | any | -
thank     | danken    | person        | person | - | -
answer    | antworten | person        | person | - | -
follow    | folgen    | person pet    | person animal car bus | - | -
listen to | zu|hören  | person        | person | - | -
believe   | glauben   | person        | person | - | state
belong to | gehören   | portable private animal wear house garden | person | - | state
"""

DITRANSITIVE = """
give  | geben     | person        | portable wear animal food drink | - | -
show  | zeigen    | person        | portable animal building device wear | - | -
send  | schicken  | person        | letter book gift flower picture poem story | - | -
offer | an|bieten | person        | food drink | - | -
"""

# The last column is the preposition, English and German.
PREPOSITIONAL = """
wait | warten   | person        | person public letter | - | for auf
talk | sprechen | person        | person | - | to mit
play | spielen  | kid pet       | ball animal kid | - | with mit
"""
PREPOSITION_CASES: dict[str, Case] = {"auf": "acc", "mit": "dat"}


def _verbs(frame: Frame, table: str) -> tuple[Verb, ...]:
    verbs = []
    for line in table.strip().splitlines():
        english, german, *columns = (column.strip() for column in line.split(" | "))
        subjects, objects, places, remarks = (column.replace("-", "").split() for column in columns)
        preposition = None
        if frame == "preposition":
            preposition = (remarks[0], remarks[1], PREPOSITION_CASES[remarks[1]])
        verbs.append(
            Verb(
                english,
                german,
                frame,
                frozenset(subjects),
                frozenset(objects),
                frozenset(places),
                frozenset(remarks),
                preposition,
            )
        )
    return tuple(verbs)


VERBS = (
    *_verbs("intransitive", INTRANSITIVE),
    *_verbs("direction", DIRECTION),
    *_verbs("transitive", TRANSITIVE),
    *_verbs("dative", DATIVE),
    *_verbs("ditransitive", DITRANSITIVE),
    *_verbs("preposition", PREPOSITIONAL),
)

BE = Verb("be", "sein", "copula")
WEATHER = tuple(
    Verb(english, german, "intransitive", places=frozenset({"towns"}))
    for english, german in (("rain", "regnen"), ("snow", "schneien"))
)

# Verbs with a clause for an object. They are always in the simple present, so that no tense depends on another.
KNOW, BELIEVE, SAY, HOPE, THINK, ASK = (
    Verb(english, german, "intransitive", frozenset({"person"}), remarks=frozenset({"state"}))
    for english, german in (
        ("know", "wissen"),
        ("believe", "glauben"),
        ("say", "sagen"),
        ("hope", "hoffen"),
        ("think", "denken"),
        ("ask", "fragen"),
    )
)
