"""A small world to translate: English into French, both made by one grammar.

A sentence is *subject, verb, object*, and now and then *preposition, noun phrase*. That is enough for most of what
makes translation more than looking words up:

    gender       the black dog → le chien noir          the black cow → la vache noire
    number       this old house → cette vieille maison  these old houses → ces vieilles maisons
    order        the small red car → la petite voiture rouge
    elision      the tree → l'arbre                     my old tree → mon vieil arbre
    negation     the boy does not love a cat → le garçon n'aime pas de chat

The grammar knows which French word stands for which English one, so attention can be compared with the truth. Some
adjective–noun pairs never occur in the training sentences: a second test set is made of them.

Words are separated by spaces; an elided word (`l'`, `n'`, `d'`) is a word of its own. No sentence has more than 16.
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


@dataclass(frozen=True)
class Verb:
    """A verb in the present tense, third person. `elides`: ne loses its vowel before it."""

    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    elides: bool


MASCULINE_NOUNS = """
cat chat, dog chien, horse cheval/chevaux, bird oiseau/oiseaux, lion lion, wolf/wolves loup, owl *hibou/hiboux,
bear ours/ours, boy garçon, man/men homme, king roi, father père, brother frère, uncle oncle, doctor médecin,
baker boulanger, book livre, tree arbre, cake gâteau/gâteaux, knife/knives couteau/couteaux, boat bateau/bateaux,
hat chapeau/chapeaux, coat manteau/manteaux, plane avion, train train, bike vélo, truck camion, garden jardin, wall mur,
bridge pont, castle château/châteaux, bed lit, mirror miroir, pencil crayon, bag sac, basket panier, egg œuf,
hotel hôtel, painting tableau/tableaux, computer ordinateur
"""

FEMININE_NOUNS = """
girl fille, woman/women femme, queen reine, mother mère, sister sœur, aunt tante, mouse/mice souris/souris, cow vache,
hen poule, goat chèvre, bee abeille, spider araignée, turtle tortue, whale baleine, giraffe girafe, house maison,
table table, chair chaise, door porte, window fenêtre, car voiture, flower fleur, apple pomme, pear poire, star étoile,
island île, school école, church/churches église, clock horloge, mountain montagne, river rivière, city/cities ville,
street rue, letter lettre, key clé, lamp lampe, box/boxes boîte, bottle bouteille, cup tasse, plate assiette
"""

# English, masculine, feminine; then the masculine plural and the form before a vowel, where they are irregular.
ADJECTIVES_BEFORE = """
small petit petite, large grand grande, beautiful beau belle beaux bel, new nouveau nouvelle nouveaux nouvel,
old vieux vieille vieux vieil, young jeune jeune, good bon bonne, bad mauvais mauvaise mauvais, pretty joli jolie,
fat gros grosse gros, long long longue, former ancien ancienne
"""

ADJECTIVES_AFTER = """
black noir noire, white blanc blanche, red rouge rouge, green vert verte, blue bleu bleue, yellow jaune jaune,
grey gris grise gris, brown brun brune, pink rose rose, heavy lourd lourde, light léger légère, strong fort forte,
dirty sale sale, rich riche riche, strange étrange étrange, dangerous dangereux dangereuse dangereux,
famous célèbre célèbre, quiet tranquille tranquille, fast rapide rapide, slow lent lente, round rond ronde,
curious curieux curieuse curieux, happy heureux heureuse heureux, sad triste triste, wet mouillé mouillée,
cold froid froide, hot chaud chaude, soft doux douce doux
"""

VERB_FORMS = """
see voit voient, watch/watches regarde, love aime, hate déteste, find trouve, seek cherche, take prend prennent,
leave quitte, follow suit suivent, hear entend entendent, know connaît connaissent, draw dessine, paint peint peignent,
buy achète, sell vend vendent, break casse, repair répare, wash/washes lave, open ouvre, close ferme,
push/pushes pousse, pull tire, throw lance, catch/catches attrape, hide cache, show montre, touch/touches touche,
forget oublie, lose perd perdent, keep garde, choose choisit choisissent, await attend attendent, help aide,
protect protège, admire admire, prefer préfère, want veut veulent, visit visite, describe décrit décrivent,
fear craint craignent, count compte, bring apporte
"""

PREPOSITIONS = {"in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "with": "avec", "for": "pour"}


def entries(text: str) -> list[list[str]]:
    """The words of each entry of a list written as above."""
    return [entry.split() for entry in text.split(",")]


def forms(word: str) -> tuple[str, str]:
    """Singular and plural of a noun: `wolf/wolves` says both, `cat` takes an s."""
    singular, _, plural = word.partition("/")
    return singular, plural or singular + "s"


def starts_with_vowel(word: str) -> bool:
    """Whether the word before it is elided. An h is silent here, unless a star marks it as aspirated: le *hibou."""
    return word[0] in "aeiouhàâéèêîôœ"


def make_nouns(text: str, feminine: bool) -> list[Noun]:
    return [
        Noun(forms(english), forms(french.removeprefix("*")), feminine, starts_with_vowel(french))
        for english, french in entries(text)
    ]


def make_adjectives(text: str, before_noun: bool) -> list[Adjective]:
    adjectives = []
    for english, masculine, feminine, *irregular in entries(text):
        plural = irregular[0] if irregular else masculine + "s"
        before_vowel = irregular[1] if len(irregular) > 1 else masculine
        both = (masculine, plural), (feminine, feminine + "s")
        adjectives.append(Adjective(english, *both, before_vowel, before_noun, starts_with_vowel(masculine)))
    return adjectives


def make_verbs(text: str) -> list[Verb]:
    verbs = []
    for english, singular, *irregular in entries(text):
        base, _, third_person = english.partition("/")
        plural = irregular[0] if irregular else singular + "nt"
        verbs.append(Verb((third_person or base + "s", base), (singular, plural), starts_with_vowel(singular)))
    return verbs


NOUNS = make_nouns(MASCULINE_NOUNS, feminine=False) + make_nouns(FEMININE_NOUNS, feminine=True)
BEFORE = make_adjectives(ADJECTIVES_BEFORE, before_noun=True)
AFTER = make_adjectives(ADJECTIVES_AFTER, before_noun=False)
ADJECTIVES = BEFORE + AFTER
VERBS = make_verbs(VERB_FORMS)

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
    """A determiner (the, a, this, my, our), at most one adjective on each side of the French noun, a noun."""

    determiner: str
    noun: Noun
    plural: bool
    before: Adjective | None
    after: Adjective | None

    @property
    def adjectives(self) -> list[Adjective]:
        return [adjective for adjective in (self.before, self.after) if adjective]


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

        order = [word for word in (phrase.before, phrase.noun, phrase.after) if word]
        self.french.append(french_determiner(phrase, order[0], negated))
        for word in order:
            self.alignment.append((len(self.french), first_content + content.index(word)))
            self.french.append(french_form(word, phrase))

    def verb(self, verb: Verb, plural: bool, negated: bool) -> None:
        """Add a verb that agrees with its subject."""
        if negated:
            self.english += ["do" if plural else "does", "not", verb.english[1]]
            self.french += ["n'" if verb.elides else "ne", verb.french[plural]]
        else:
            self.english.append(verb.english[plural])
            self.french.append(verb.french[plural])
        self.alignment.append((len(self.french) - 1, len(self.english) - 1))
        if negated:
            self.french.append("pas")

    def preposition(self, english: str) -> None:
        self.english.append(english)
        self.french.append(PREPOSITIONS[english])


def english_form(word: Noun | Adjective, phrase: NounPhrase) -> str:
    """English adjectives do not agree with anything."""
    return word.english[phrase.plural] if isinstance(word, Noun) else word.english


def french_form(word: Noun | Adjective, phrase: NounPhrase) -> str:
    """The noun in its number; an adjective in the noun's gender and number."""
    if isinstance(word, Noun):
        return word.french[phrase.plural]
    if phrase.noun.feminine:
        return word.feminine[phrase.plural]
    if word.before_noun and phrase.noun.elides and not phrase.plural:
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
    object_: NounPhrase,
    negated: bool = False,
    preposition: str | None = None,
    place: NounPhrase | None = None,
) -> Pair:
    """Both sentences of a pair, from its parts."""
    sentence = Sentence()
    sentence.phrase(subject)
    sentence.verb(verb, subject.plural, negated)
    sentence.phrase(object_, negated)
    phrases = [subject, object_]
    if preposition and place:
        sentence.preposition(preposition)
        sentence.phrase(place)
        phrases.append(place)
    combinations = frozenset((a.english, phrase.noun.english[0]) for phrase in phrases for a in phrase.adjectives)
    return Pair(tuple(sentence.english), tuple(sentence.french), tuple(sentence.alignment), combinations)


def spell(words: Sequence[str]) -> str:
    """Words as text: an elided word is written together with the next one."""
    return " ".join(words).replace("' ", "'")


# --- the sentences -------------------------------------------------------------------------------------------


def random_phrase(rng: random.Random) -> NounPhrase:
    """A noun phrase; each of the two places for an adjective is filled half of the time."""
    return NounPhrase(
        determiner=rng.choice(["the", "a", "this", "my", "our"]),
        noun=rng.choice(NOUNS),
        plural=rng.random() < 0.5,
        before=rng.choice(BEFORE) if rng.random() < 0.5 else None,
        after=rng.choice(AFTER) if rng.random() < 0.5 else None,
    )


def random_pair(rng: random.Random) -> Pair:
    """A sentence; every third is negated, every second has a preposition."""
    subject, verb, object_ = random_phrase(rng), rng.choice(VERBS), random_phrase(rng)
    negated = rng.random() < 1 / 3
    if rng.random() < 0.5:
        return write_pair(subject, verb, object_, negated)
    return write_pair(subject, verb, object_, negated, rng.choice(list(PREPOSITIONS)), random_phrase(rng))


@cache
def unseen_combinations() -> frozenset[tuple[str, str]]:
    """The (adjective, noun) pairs that are kept out of training: one in twenty, two adjectives for every noun."""
    return frozenset(
        (adjective.english, noun.english[0])
        for a, adjective in enumerate(ADJECTIVES)
        for n, noun in enumerate(NOUNS)
        if (7 * a + 3 * n) % 20 == 0
    )


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
