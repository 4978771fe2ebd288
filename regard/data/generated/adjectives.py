"""The adjectives, each with the kinds of nouns it can sensibly describe (the tags of nouns.py)."""

from regard.data.generated.lexicon import Adjective

# Things are not "very red", "very empty" or "very broken".
NEVER_VERY = frozenset(("colour", "broken", "empty", "full"))
EVEN_TOO = "old young big small long short expensive heavy sweet lazy fast slow tired sick warm cold quiet dark"


def _adjectives(table: str, passing: bool) -> tuple[Adjective, ...]:
    rows = (row.split() for row in table.strip().splitlines())
    return tuple(
        Adjective(en, de, frozenset(tags), passing, not NEVER_VERY & {en, *tags}, en in EVEN_TOO.split())
        for en, de, *tags in rows
    )


LASTING = _adjectives(
    """
    old          alt          grown animal read wear device vehicle building thing vessel furniture tree
    young        jung         kid job lady man woman brother sister animal
    new          neu          read wear device vehicle building thing vessel furniture
    big          groß         animal vehicle building land thing vessel furniture room tree
    small        klein        kid animal vehicle building land thing vessel furniture room tree
    beautiful    schön        wear building land flower animal water tree
    good         gut          job read food drink
    bad          schlecht     job read food drink
    long         lang         length
    short        kurz         length
    expensive    teuer        wear vehicle device thing inn priced
    cheap        billig       wear vehicle device thing inn priced
    heavy        schwer       heavy
    red          rot          colour
    blue         blau         colour
    green        grün         colour
    yellow       gelb         colour
    black        schwarz      colour animal
    white        weiß         colour animal
    brown        braun        colour animal
    fresh        frisch       fresh
    sweet        süß          sweet
    friendly     freundlich   person animal
    nice         nett         person
    rich         reich        person
    poor         arm          person
    clever       klug         person animal
    lazy         faul         person animal
    strong       stark        person animal
    famous       berühmt      person
    fast         schnell      vehicle animal
    slow         langsam      vehicle animal
    interesting  interessant  read sight
    boring       langweilig   read sight
    """,
    passing=False,
)

PASSING = _adjectives(
    """
    tired        müde         person animal
    hungry       hungrig      person animal
    sick         krank        person animal
    happy        glücklich    person
    sad          traurig      person
    angry        wütend       person
    warm         warm         warmth
    cold         kalt         warmth
    quiet        ruhig        calm
    dark         dunkel       dim
    empty        leer         vessel full
    full         voll         vessel full
    clean        sauber       washable
    dirty        schmutzig    washable
    broken       kaputt       device vehicle breakable
    """,
    passing=True,
)

ADJECTIVES = LASTING + PASSING
