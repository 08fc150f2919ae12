"""A small world to translate: English into French, both made by one grammar.

A sentence is *subject, verb, object*, and now and then *preposition, noun phrase*; or it says where something is. That
is enough for most of what makes translation more than looking words up:

    gender       the black dog → le chien noir          the black cow → la vache noire
    number       this old house → cette vieille maison  these old houses → ces vieilles maisons
    order        the small red car → la petite voiture rouge
    elision      the tree → l'arbre                     my old tree → mon vieil arbre
    negation     the boy does not love a cat → le garçon n'aime pas de chat
                 the cat is not on the mat → le chat n'est pas sur le tapis

The grammar knows which French word stands for which English one, so attention can be compared with the truth. Some
adjective–noun pairs never occur in the training sentences: a second test set is made of them.

Words are separated by spaces; an elided word (`l'`, `n'`, `d'`) is a word of its own. No sentence of the data has more
than 16, and no noun more than two adjectives; `write_pair` can write more of both, to see where a translator breaks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

MAX_WORDS = 16

# --- the words ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noun:
    """A noun in both languages. `elides`: le and la lose their vowel before it."""

    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    kind: str  # what it is, one of KINDS: this decides what may be said of it
    feminine: bool
    elides: bool


@dataclass(frozen=True)
class Adjective:
    """An adjective: one English form, up to five French ones."""

    english: str
    masculine: tuple[str, str]  # singular, plural
    feminine: tuple[str, str]
    before_vowel: str  # the masculine singular before a vowel: un *bel* arbre
    before_noun: bool  # un *petit* chat, but un chat *noir*
    elides: bool
    kinds: frozenset[str]  # the nouns it can describe


@dataclass(frozen=True)
class Verb:
    """A verb in the present tense, third person."""

    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    subjects: frozenset[str]  # kinds of nouns
    objects: frozenset[str]
    besides: frozenset[str]  # what else can be said: place, spot (on the *mat*), with, for


# Each line is a kind of noun: the masculine ones, a bar, the feminine ones. The kinds make sentences sensible, and they
# keep them decent: what is said of a box (it is brown, expensive, bought, hidden) is not said of a person.
NOUN_LINES = """
child: boy garçon | girl fille
adult: man/men homme | woman/women femme
family: father père, brother frère, uncle oncle | mother mère, sister sœur, aunt tante
role: king roi, doctor médecin, baker boulanger | queen reine, engineer ingénieure
pet: cat chat, dog chien, bird oiseau/oiseaux | mouse/mice souris/souris, turtle tortue, bee abeille, spider araignée
farm: horse cheval/chevaux | cow vache, goat chèvre
wild: lion lion, wolf/wolves loup, owl *hibou/hiboux, bear ours/ours | otter loutre
food: cake gâteau/gâteaux, egg œuf | apple pomme, pear poire
plant: tree arbre | flower fleur
text: book livre | letter lettre
decor: mirror miroir, painting tableau/tableaux | lamp lampe, clock horloge
tool: pencil crayon, computer ordinateur | key clé
container: bag sac, basket panier | box/boxes boîte, bottle bouteille
tableware: | cup tasse, plate assiette
fabric: hat chapeau/chapeaux, coat manteau/manteaux, mat tapis/tapis | scarf/scarves écharpe
furniture: | table table, chair chaise
vehicle: boat bateau/bateaux, plane avion, train train, bike vélo, truck camion | car voiture
opening: | door porte, window fenêtre
building: castle château/châteaux, bridge pont, wall mur | house maison
place: garden jardin, hospital hôpital/hôpitaux | school école, kitchen cuisine, city/cities ville, street rue
nature: | mountain montagne, river rivière, island île
sky: cloud nuage | star étoile
"""

KINDS = [line.partition(":")[0] for line in NOUN_LINES.strip().splitlines()]

GROUPS = {
    "people": "child adult family role",
    "animals": "pet farm wild",
    "handy": "text decor tool container tableware fabric",
    "goods": "text decor tool container tableware fabric furniture vehicle",
    "sites": "building place nature",
}


def kinds(text: str) -> frozenset[str]:
    """The kinds that a list of kinds and groups names."""
    found = frozenset(kind for word in text.split() for kind in GROUPS.get(word, word).split())
    if unknown := found - set(KINDS):
        raise ValueError(f"There is no kind of noun called {', '.join(sorted(unknown))}.")
    return found


# English, masculine, feminine; then the masculine plural and the form before a vowel, where they are irregular.
# After the colon: the kinds of nouns that it can describe.
ADJECTIVES_BEFORE = """
small petit petite: animals food plant goods opening sites sky
large grand grande: food plant goods opening sites sky
beautiful beau belle beaux bel: animals plant goods opening sites sky
new nouveau nouvelle nouveaux nouvel: goods opening building place
old vieux vieille vieux vieil: adult plant text decor tool tableware fabric furniture vehicle opening building place
young jeune jeune: people animals plant
good bon bonne: food text tool furniture vehicle place
bad mauvais mauvaise mauvais: food text decor tool
pretty joli jolie: pet plant decor container tableware fabric furniture opening sites sky
huge énorme énorme: food plant container furniture vehicle opening sites sky
long long longue: text fabric vehicle building
former ancien ancienne: building place
"""

ADJECTIVES_AFTER = """
black noir noire: animals goods opening building
white blanc blanche: animals food plant goods opening building
red rouge rouge: food plant goods opening building
green vert verte: food plant goods opening building
blue bleu bleue: plant goods opening building
yellow jaune jaune: food plant goods opening building
grey gris grise gris: animals goods opening building
brown brun brune: animals food goods opening building
pink rose rose: food plant goods opening building
heavy lourd lourde: text decor container fabric furniture vehicle opening
light léger légère: decor container fabric furniture vehicle
expensive cher chère: food plant goods
clean propre propre: container tableware fabric furniture vehicle opening place
strange étrange étrange: plant text decor tool container vehicle sites sky
dangerous dangereux dangereuse dangereux: farm wild nature
famous célèbre célèbre: people text decor sites
quiet tranquille tranquille: people animals place nature
fast rapide rapide: animals vehicle
slow lent lente: animals vehicle
round rond ronde: food decor container tableware furniture opening
curious curieux curieuse curieux: people animals
happy heureux heureuse heureux: people animals
sad triste triste: animals text
kind gentil gentille: people
brave courageux courageuse courageux: people pet wild
wet mouillé mouillée: plant container fabric furniture vehicle opening
cold froid froide: food tableware place nature
hot chaud chaude: food tableware nature
"""

# A verb; the kinds of its subjects; the kinds of its objects; what else can be said: the place where it is done, the
# spot where its object is (on a table, in a box), with whom, for whom.
VERB_LINES = """
see voit voient | people animals | people animals food plant goods opening sites sky | place spot with
watch/watches regarde | people animals | animals vehicle nature sky | place spot with
love aime | people animals | pet food plant nature sky |
find trouve | people | pet farm food plant handy | place spot with for
seek cherche | people | pet farm food plant handy | place with for
take prend prennent | people | food handy vehicle | with for
leave quitte | people animals | place nature | with
follow suit suivent | people animals | animals vehicle | place with
hear entend entendent | people animals | people animals vehicle | place spot with
know connaît connaissent | people | people text sites |
draw dessine | people | family role animals food plant handy furniture vehicle sites sky | place spot with for
paint peint peignent | people | role animals food plant furniture vehicle opening sites sky | place with for
buy achète | people | food plant goods | place with for
sell vend vendent | people | food plant goods | place with
break casse | people | decor tool tableware furniture | place with
repair répare | people | decor tool furniture vehicle opening building | place with for
wash/washes lave | people | tableware fabric vehicle opening | place with for
open ouvre | people | text container opening | place with for
close ferme | people | text container opening | place with for
push/pushes pousse | people farm wild | container furniture vehicle opening | place with
pull tire | people farm wild | container furniture vehicle opening | place with
hide cache | people | food text tool container fabric | place spot with
show montre | people | animals food plant goods sites sky | place with
touch/touches touche | people animals | plant decor container fabric furniture opening | place
forget oublie | people | food handy | place
lose perd perdent | people | text tool container fabric | place
keep garde | people | food plant handy | place for
choose choisit choisissent | people | food plant goods | place with for
await attend attendent | people | family role vehicle | place with
help aide | people | people animals | place with
protect protège | people | people animals plant sites | place with
admire admire | people | role animals plant decor vehicle sites sky | place with
prefer préfère | people | food plant goods sites |
want veut veulent | people | food plant goods |
visit visite | people | sites | with
describe décrit décrivent | people | family role animals plant goods sites sky | with
fear craint craignent | people pet farm | wild |
count compte | people | animals food plant goods sky | place spot with
bring apporte | people | food plant handy furniture | with for
thank remercie | people | people | place
greet salue | people | people | place with
"""

PREPOSITIONS = {"in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "with": "avec", "for": "pour"}

# Where things are and happen: outdoors there is room for everything, indoors for what fits into a room (or is seen from
# there), at a spot for what fits on a chair.
PLACE_LINES = """
in | garden city street | house castle school kitchen hospital | box basket bag
on | bridge island mountain boat | | table chair mat
under | tree bridge | | table chair
behind | house castle school hospital wall tree | door | lamp box mirror computer clock
"""

PEOPLE, LIVING, SITES = kinds("people"), kinds("people animals"), kinds("sites")
INDOORS = kinds("people pet food handy furniture opening sky")
AT_A_SPOT = kinds("pet food handy")
COMPANIONS = kinds("family role")  # with and for whom something is done


def entries(text: str) -> list[list[str]]:
    """The words of each entry of a list written as above."""
    return [entry.split() for entry in text.split(",") if entry.strip()]


def forms(word: str) -> tuple[str, str]:
    """Singular and plural of a noun: `wolf/wolves` says both, `cat` takes an s."""
    singular, _, plural = word.partition("/")
    return singular, plural or singular + "s"


def starts_with_vowel(word: str) -> bool:
    """Whether the word before it is elided. An h is silent here, unless a star marks it as aspirated: le *hibou."""
    return word[0] in "aeiouhàâéèêîôœ"


def lines(text: str, separator: str) -> list[list[str]]:
    """The parts of each line of a table written as above."""
    return [[part.strip() for part in line.split(separator)] for line in text.strip().splitlines()]


def make_nouns(text: str) -> list[Noun]:
    nouns = []
    for kind, words in lines(text, ":"):
        masculine, feminine = words.split("|")
        for listed, is_feminine in ((masculine, False), (feminine, True)):
            for english, french in entries(listed):
                both = forms(english), forms(french.removeprefix("*"))
                nouns.append(Noun(*both, kind, is_feminine, starts_with_vowel(french)))
    return nouns


def make_adjectives(text: str, before_noun: bool) -> list[Adjective]:
    adjectives = []
    for words, described in lines(text, ":"):
        english, masculine, feminine, *irregular = words.split()
        plural = irregular[0] if irregular else masculine + "s"
        before_vowel = irregular[1] if len(irregular) > 1 else masculine
        both = (masculine, plural), (feminine, feminine + "s")
        vowel = starts_with_vowel(masculine)
        adjectives.append(Adjective(english, *both, before_vowel, before_noun, vowel, kinds(described)))
    return adjectives


def make_verbs(text: str) -> list[Verb]:
    verbs = []
    for words, subjects, objects, besides in lines(text, "|"):
        english, singular, *irregular = words.split()
        base, _, third_person = english.partition("/")
        both = (third_person or base + "s", base), (singular, irregular[0] if irregular else singular + "nt")
        verbs.append(Verb(*both, kinds(subjects), kinds(objects), frozenset(besides.split())))
    return verbs


def make_places(text: str) -> dict[str, tuple[list[Noun], list[Noun], list[Noun]]]:
    """For each preposition of place the nouns outdoors, indoors, and at a spot."""
    by_name = {noun.english[0]: noun for noun in NOUNS}
    places = {}
    for preposition, *listed in lines(text, "|"):
        outdoors, indoors, spots = ([by_name[word] for word in words.split()] for words in listed)
        places[preposition] = outdoors, indoors, spots
    return places


NOUNS = make_nouns(NOUN_LINES)
BEFORE = make_adjectives(ADJECTIVES_BEFORE, before_noun=True)
AFTER = make_adjectives(ADJECTIVES_AFTER, before_noun=False)
ADJECTIVES = BEFORE + AFTER
ACTIONS = make_verbs(VERB_LINES)
BE = Verb(
    ("is", "are"),
    ("est", "sont"),
    subjects=kinds("people animals food plant goods"),
    objects=frozenset(),
    besides=frozenset({"place", "spot", "with", "for"}),
)
VERBS = [*ACTIONS, BE]
PLACES = make_places(PLACE_LINES)

# --- the grammar ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages. `alignment`: (French place, English place) of every noun, adjective and verb."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]
    combinations: frozenset[tuple[str, str]]  # the (adjective, noun) pairs in it, in English


@dataclass(frozen=True)
class NounPhrase:
    """A determiner (the, a, this, my, our), a noun, and the adjectives on each side of the French noun."""

    determiner: str
    noun: Noun
    plural: bool
    before: tuple[Adjective, ...] = ()
    after: tuple[Adjective, ...] = ()

    @property
    def adjectives(self) -> tuple[Adjective, ...]:
        return self.before + self.after


class Sentence:
    """A pair of sentences while it is being written, word by word."""

    def __init__(self) -> None:
        self.english: list[str] = []
        self.french: list[str] = []
        self.alignment: list[tuple[int, int]] = []

    def phrase(self, phrase: NounPhrase, negated: bool = False) -> None:
        """Add a noun phrase; `negated`: it is the object of a negated verb."""
        content: list[Noun | Adjective] = [*phrase.adjectives, phrase.noun]
        english = [english_form(word, phrase) for word in content]
        self.english += [english_determiner(phrase, english[0], negated), *english]
        first_content = len(self.english) - len(english)

        order: list[Noun | Adjective] = [*phrase.before, phrase.noun, *phrase.after]
        self.french.append(french_determiner(phrase, order[0], negated))
        for word, next_word in zip(order, [*order[1:], None]):
            self.alignment.append((len(self.french), first_content + content.index(word)))
            self.french.append(french_form(word, phrase, next_word))

    def verb(self, verb: Verb, plural: bool, negated: bool) -> None:
        """Add a verb that agrees with its subject."""
        english, french = [verb.english[plural]], [verb.french[plural]]
        english_place = french_place = 0
        if negated:
            french, french_place = ["n'" if starts_with_vowel(french[0]) else "ne", *french, "pas"], 1
            if verb is BE:
                english = [*english, "not"]
            else:
                english, english_place = ["do" if plural else "does", "not", verb.english[1]], 2
        self.alignment.append((len(self.french) + french_place, len(self.english) + english_place))
        self.english += english
        self.french += french

    def preposition(self, english: str) -> None:
        self.english.append(english)
        self.french.append(PREPOSITIONS[english])


def english_form(word: Noun | Adjective, phrase: NounPhrase) -> str:
    """English adjectives do not agree with anything."""
    return word.english[phrase.plural] if isinstance(word, Noun) else word.english


def french_form(word: Noun | Adjective, phrase: NounPhrase, next_word: Noun | Adjective | None) -> str:
    """The noun in its number; an adjective in the noun's gender and number."""
    if isinstance(word, Noun):
        return word.french[phrase.plural]
    if phrase.noun.feminine:
        return word.feminine[phrase.plural]
    if next_word and next_word.elides and word.before_noun and not phrase.plural:
        return word.before_vowel
    return word.masculine[phrase.plural]


def english_determiner(phrase: NounPhrase, next_word: str, negated: bool) -> str:
    """the, a or an, some (any after a negation), this or these, my, our."""
    if phrase.determiner == "a":
        if phrase.plural:
            return "any" if negated else "some"
        return "an" if next_word[0] in "aeiou" else "a"
    if phrase.determiner == "this":
        return "these" if phrase.plural else "this"
    return phrase.determiner


def french_determiner(phrase: NounPhrase, next_word: Noun | Adjective, negated: bool) -> str:
    """The determiner in the noun's gender and number, and in the form that the next word's first sound asks for."""
    vowel = next_word.elides
    if phrase.determiner == "a":
        if negated or (phrase.plural and phrase.before):  # ne … pas de chat, de petits chats
            return "d'" if vowel else "de"
        return "des" if phrase.plural else ("une" if phrase.noun.feminine else "un")
    masculine, masculine_vowel, feminine, feminine_vowel, plural = {
        "the": ("le", "l'", "la", "l'", "les"),
        "this": ("ce", "cet", "cette", "cette", "ces"),
        "my": ("mon", "mon", "ma", "mon", "mes"),
        "our": ("notre", "notre", "notre", "notre", "nos"),
    }[phrase.determiner]
    if phrase.plural:
        return plural
    if phrase.noun.feminine:
        return feminine_vowel if vowel else feminine
    return masculine_vowel if vowel else masculine


def write_pair(
    subject: NounPhrase,
    verb: Verb,
    object_: NounPhrase | None = None,
    negated: bool = False,
    places: Sequence[tuple[str, NounPhrase]] = (),
) -> Pair:
    """Both sentences of a pair, from its parts. `places`: prepositions, each with its noun phrase."""
    sentence = Sentence()
    sentence.phrase(subject)
    sentence.verb(verb, subject.plural, negated)
    if object_:
        sentence.phrase(object_, negated)
    for preposition, place in places:
        sentence.preposition(preposition)
        sentence.phrase(place)
    phrases = [subject, *([object_] if object_ else []), *(place for _, place in places)]
    combinations = frozenset((a.english, phrase.noun.english[0]) for phrase in phrases for a in phrase.adjectives)
    return Pair(tuple(sentence.english), tuple(sentence.french), tuple(sentence.alignment), combinations)


def spell(words: Sequence[str]) -> str:
    """Words as text: an elided word is written together with the next one."""
    return " ".join(words).replace("' ", "'")


# --- the sentences -------------------------------------------------------------------------------------------


@cache
def nouns_of(wanted: frozenset[str]) -> list[Noun]:
    """The nouns of these kinds."""
    return [noun for noun in NOUNS if noun.kind in wanted]


@cache
def adjectives_of(noun: Noun) -> tuple[list[Adjective], list[Adjective]]:
    """The adjectives that can describe the noun: those before the French noun, those after it."""
    before, after = ([a for a in adjectives if noun.kind in a.kinds] for adjectives in (BEFORE, AFTER))
    return before, after


def determiners(noun: Noun) -> list[str]:
    """The determiners it can have. Nobody owns a man, a woman or a child."""
    return ["the", "a", "this"] if noun.kind in ("child", "adult") else ["the", "a", "this", "my", "our"]


@cache
def places_of(verb: Verb, subject_kind: str, object_kind: str | None) -> dict[str, list[Noun]]:
    """What can follow each preposition in a sentence of such words. Without an object it says where the subject is."""
    located = object_kind or subject_kind
    found: dict[str, list[Noun]] = {}
    if "place" in verb.besides and located not in SITES:
        for preposition, (outdoors, indoors, spots) in PLACES.items():
            if located in PEOPLE and preposition not in ("in", "on"):
                continue
            found[preposition] = list(outdoors)
            if {subject_kind, located} <= INDOORS:
                found[preposition] += indoors
            if "spot" in verb.besides and located in AT_A_SPOT:
                found[preposition] += spots
    if "with" in verb.besides and subject_kind in (PEOPLE if object_kind else LIVING):
        found["with"] = nouns_of(COMPANIONS)
    if "for" in verb.besides and located not in LIVING:
        found["for"] = nouns_of(COMPANIONS)
    return found


def random_phrase(rng: random.Random, nouns: Sequence[Noun]) -> NounPhrase:
    """A noun phrase; each of the two places for an adjective is filled half of the time, if there is one that fits."""
    noun = rng.choice(nouns)
    before, after = adjectives_of(noun)
    return NounPhrase(
        determiner=rng.choice(determiners(noun)),
        noun=noun,
        plural=rng.random() < 0.5,
        before=(rng.choice(before),) if before and rng.random() < 0.5 else (),
        after=(rng.choice(after),) if after and rng.random() < 0.5 else (),
    )


def random_pair(rng: random.Random) -> Pair:
    """A sentence; one in six says where something is. Every third is negated, about half have a preposition."""
    if rng.random() < 1 / 6:
        verb, object_ = BE, None
    else:
        verb = rng.choice(ACTIONS)
        object_ = random_phrase(rng, nouns_of(verb.objects))
    subject = random_phrase(rng, nouns_of(verb.subjects))
    negated = rng.random() < 1 / 3
    known = places_of(verb, subject.noun.kind, object_ and object_.noun.kind)
    if not known or (object_ and rng.random() < 0.4):
        return write_pair(subject, verb, object_, negated)
    preposition = rng.choice(list(known))
    return write_pair(subject, verb, object_, negated, [(preposition, random_phrase(rng, known[preposition]))])


@cache
def unseen_combinations() -> frozenset[tuple[str, str]]:
    """The (adjective, noun) pairs that are kept out of training: two adjectives for every noun."""
    pairs = set()
    for n, noun in enumerate(NOUNS):
        before, after = adjectives_of(noun)
        adjectives = before + after
        for shift in (0, len(adjectives) // 2):
            pairs.add((adjectives[(3 * n + shift) % len(adjectives)].english, noun.english[0]))
    return frozenset(pairs)


@dataclass(frozen=True)
class Data:
    """Three sets of pairs that have no sentence in common."""

    train: list[Pair]
    test: list[Pair]  # new sentences out of known adjective–noun pairs
    unseen: list[Pair]  # each with at least one pair that never occurs in the other two


@cache
def make_data(train: int = 60_000, test: int = 1_000) -> Data:
    """The same sentences every time: `train` of them, and `test` for each of the two test sets."""
    rng = random.Random(2017)
    known: dict[tuple[str, ...], Pair] = {}
    unseen: dict[tuple[str, ...], Pair] = {}
    while len(known) < train + test or len(unseen) < test:
        pair = random_pair(rng)
        is_unseen = bool(pair.combinations & unseen_combinations())
        (unseen if is_unseen else known)[pair.english] = pair
    pairs = list(known.values())
    return Data(pairs[:train], pairs[train : train + test], list(unseen.values())[:test])


@cache
def english_words() -> list[str]:
    """Every word that an English sentence can have, in alphabetical order."""
    words = {"the", "a", "an", "some", "any", "this", "these", "my", "our", "do", "does", "not", *PREPOSITIONS}
    words.update(form for noun in NOUNS for form in noun.english)
    words.update(adjective.english for adjective in ADJECTIVES)
    words.update(form for verb in VERBS for form in verb.english)
    return sorted(words)


@cache
def french_words() -> list[str]:
    """Every word that a French sentence can have, in alphabetical order."""
    words = {"le", "la", "l'", "les", "un", "une", "des", "de", "d'", "ce", "cet", "cette", "ces"}
    words |= {"mon", "ma", "mes", "notre", "nos", "ne", "n'", "pas", *PREPOSITIONS.values()}
    words.update(form for noun in NOUNS for form in noun.french)
    words.update(form for a in ADJECTIVES for form in (*a.masculine, *a.feminine, a.before_vowel))
    words.update(form for verb in VERBS for form in verb.french)
    return sorted(words)
