"""The nouns, with gender, plural and the tags by which verbs and adjectives choose them.

A line reads: English | German with its article | German plural | tags. A plural of "-" is a noun used in the
singular only. The tags decide what makes sense, so that people read letters and dogs do not:
- "mass" nouns take no "a" and no plural; "own" nouns take my, his, our and Anna's;
- "kin" are people one speaks of as somebody's, never "a mother" or "this uncle";
- "weak" nouns decline like der Junge; "he" and "she" are the pronouns that can take the noun up again.
"""

from functools import cache

from regard.data.generated.german import Gender
from regard.data.generated.lexicon import Noun, Sex

PEOPLE = """
man          | der Mann             | Männer          | he grown
woman        | die Frau             | Frauen          | she grown
child        | das Kind             | Kinder          | kid
boy          | der Junge            | Jungen          | kid weak he
girl         | das Mädchen          | Mädchen         | kid
teacher      | der Lehrer           | Lehrer          | job own he grown
doctor       | der Arzt             | Ärzte           | job own he grown
student      | der Student          | Studenten       | job weak he grown
pupil        | der Schüler          | Schüler         | job he grown
baker        | der Bäcker           | Bäcker          | job he grown
farmer       | der Bauer            | Bauern          | job weak he grown
waiter       | der Kellner          | Kellner         | job he grown
policeman    | der Polizist         | Polizisten      | job weak he grown
nurse        | die Krankenschwester | Krankenschwestern | job she grown
lawyer       | der Anwalt           | Anwälte         | job own he grown
lady         | die Dame             | Damen           | she grown
guest        | der Gast             | Gäste           | own he grown
friend       | der Freund           | Freunde         | kin own he grown
brother      | der Bruder           | Brüder          | kin own he grown
sister       | die Schwester        | Schwestern      | kin own she grown
son          | der Sohn             | Söhne           | kin own he grown
daughter     | die Tochter          | Töchter         | kin own she grown
uncle        | der Onkel            | -               | kin own he grown
aunt         | die Tante            | Tanten          | kin own she grown
father       | der Vater            | -               | kin own he grown
mother       | die Mutter           | -               | kin own she grown
grandfather  | der Großvater        | -               | kin own he grown
grandmother  | die Großmutter       | -               | kin own she grown
"""

ANIMALS = """
dog          | der Hund             | Hunde           | pet
cat          | die Katze            | Katzen          | pet
horse        | das Pferd            | Pferde          | farm
cow          | die Kuh              | Kühe            | farm
pig          | das Schwein          | Schweine        | farm
duck         | die Ente             | Enten           | farm
goat         | die Ziege            | Ziegen          | farm
rabbit       | das Kaninchen        | Kaninchen       | pet
mouse        | die Maus             | Mäuse           | pet
bird         | der Vogel            | Vögel           | pet
"""

FOOD = """
apple        | der Apfel            | Äpfel           | fresh sweet feed
pear         | die Birne            | Birnen          | fresh sweet feed
banana       | die Banane           | Bananen         | sweet
carrot       | die Karotte          | Karotten        | fresh sweet feed
potato       | die Kartoffel        | Kartoffeln      | cooked feed
tomato       | die Tomate           | Tomaten         | fresh
egg          | das Ei               | Eier            | fresh cooked
cake         | der Kuchen           | Kuchen          | fresh sweet
soup         | die Suppe            | Suppen          | warmth cooked
bread        | das Brot             | -               | mass fresh feed
meat         | das Fleisch          | -               | mass fresh cooked
fish         | der Fisch            | -               | mass fresh cooked
cheese       | der Käse             | -               | mass
rice         | der Reis             | -               | mass cooked
"""

DRINKS = """
water        | das Wasser           | -               | mass warmth
milk         | die Milch            | -               | mass warmth fresh
coffee       | der Kaffee           | -               | mass warmth
tea          | der Tee              | -               | mass warmth sweet
beer         | das Bier             | -               | mass
wine         | der Wein             | -               | mass sweet
juice        | der Saft             | -               | mass fresh sweet
"""

BELONGINGS = """
book         | das Buch             | Bücher          | read length portable
newspaper    | die Zeitung          | Zeitungen       | read portable
letter       | der Brief            | Briefe          | read length portable written
story        | die Geschichte       | Geschichten     | read length written
poem         | das Gedicht          | Gedichte        | read length written
song         | das Lied             | Lieder          | read length
coat         | der Mantel           | Mäntel          | wear garment colour length washable
hat          | der Hut              | Hüte            | wear colour
dress        | das Kleid            | Kleider         | wear garment colour length washable
shirt        | das Hemd             | Hemden          | wear garment colour washable
jacket       | die Jacke            | Jacken          | wear garment colour washable
sweater      | der Pullover         | Pullover        | wear garment colour washable
lamp         | die Lampe            | Lampen          | device
computer     | der Computer         | Computer        | device heavy
radio        | das Radio            | Radios          | device
television   | der Fernseher        | Fernseher       | device heavy
car          | das Auto             | Autos           | vehicle private colour washable
bicycle      | das Fahrrad          | Fahrräder       | vehicle private colour washable
boat         | das Boot             | Boote           | vehicle private colour
bus          | der Bus              | Busse           | vehicle public full
train        | der Zug              | Züge            | vehicle public full
door         | die Tür              | Türen           | opening colour washable
window       | das Fenster          | Fenster         | opening washable
bag          | die Tasche           | Taschen         | vessel opening colour heavy portable
box          | die Kiste            | Kisten          | vessel opening colour heavy
bottle       | die Flasche          | Flaschen        | vessel opening portable
suitcase     | der Koffer           | Koffer          | vessel opening colour heavy
cup          | die Tasse            | Tassen          | vessel washable breakable portable
glass        | das Glas             | Gläser          | vessel washable breakable portable
plate        | der Teller           | Teller          | vessel washable breakable portable
table        | der Tisch            | Tische          | furniture washable heavy
chair        | der Stuhl            | Stühle          | furniture washable heavy breakable
ball         | der Ball             | Bälle           | thing colour portable
picture      | das Bild             | Bilder          | thing sight
flower       | die Blume            | Blumen          | flower colour portable
key          | der Schlüssel        | Schlüssel       | thing portable
knife        | das Messer           | Messer          | thing washable portable
gift         | das Geschenk         | Geschenke       | thing portable
ticket       | die Fahrkarte        | Fahrkarten      | portable priced
umbrella     | der Regenschirm      | Regenschirme    | thing colour breakable portable
clock        | die Uhr              | Uhren           | thing breakable heavy portable
"""

PLACES = """
house        | das Haus             | Häuser          | building dim own colour
garden       | der Garten           | Gärten          | land calm own
kitchen      | die Küche            | -               | room warmth washable own
room         | das Zimmer           | Zimmer          | room warmth calm dim washable own
office       | das Büro             | -               | room calm own
school       | die Schule           | -               | building
church       | die Kirche           | -               | building calm dim
hotel        | das Hotel            | -               | building inn full calm
restaurant   | das Restaurant       | -               | building inn full
museum       | das Museum           | -               | building sight
cinema       | das Kino             | -               | building full
library      | die Bibliothek       | -               | building calm
hospital     | das Krankenhaus      | -               | building
castle       | das Schloss          | -               | building
station      | der Bahnhof          | -               | building
bridge       | die Brücke           | Brücken         | building length
street       | die Straße           | -               | land length calm dim
park         | der Park             | -               | land calm
forest       | der Wald             | -               | land calm dim
city         | die Stadt            | -               | land sight
village      | das Dorf             | -               | land calm
market       | der Markt            | -               | land
lake         | der See              | -               | water warmth
river        | der Fluss            | -               | water
beach        | der Strand           | -               | water
tree         | der Baum             | -               | scenery
"""

GENDER_OF_ARTICLE: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}


def _nouns(table: str, *shared: str) -> tuple[Noun, ...]:
    nouns = []
    for line in table.strip().splitlines():
        english, german, plural, own_tags = (part.strip() for part in line.split("|"))
        article, word = german.split()
        tags = frozenset((*own_tags.split(), *shared))
        sex: Sex = "he" if "he" in tags else "she" if "she" in tags else ""
        gender = GENDER_OF_ARTICLE[article]
        nouns.append(Noun(english, word, gender, plural.strip("-"), tags, "weak" in tags, sex))
    return tuple(nouns)


NOUNS = (
    *_nouns(PEOPLE, "person"),
    *_nouns(ANIMALS, "animal", "own"),
    *_nouns(FOOD, "food", "own"),
    *_nouns(DRINKS, "drink", "own"),
    *_nouns(BELONGINGS, "belonging", "own"),
    *_nouns(PLACES, "place"),
)
NOUN = {noun.english: noun for noun in NOUNS}


@cache
def nouns_of(tags: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns that carry one of the tags, or whose own English word is named among them."""
    return tuple(noun for noun in NOUNS if tags & noun.tags or noun.english in tags)
