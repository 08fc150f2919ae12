"""What the grammar can say: every combination of words that it allows is sensible, and decent, in both languages.

The classes below are listed by hand. They are not derived from the grammar's own, which they judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from course_lib.grammar import (
    ACTIONS,
    ADJECTIVES,
    BE,
    NOUNS,
    VERBS,
    Noun,
    Verb,
    adjectives_of,
    determiners,
    kinds,
    make_data,
    nouns_of,
    places_of,
)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CHILDREN = words("boy girl")
FREE = CHILDREN | words("man woman")  # nobody's
COMPANIONS = words("father mother brother sister uncle aunt king queen doctor baker engineer")
PEOPLE = FREE | COMPANIONS
ANIMALS = words("cat dog bird mouse turtle bee spider horse cow goat lion wolf owl bear otter")
WILD = words("lion wolf owl bear otter")
FOOD = words("cake egg apple pear")
PLANTS = words("tree flower")
SKY = words("cloud star")
INSTITUTIONS = words("hospital school city street kitchen garden")
BUILDINGS = words("castle bridge wall house")
LANDSCAPE = words("mountain river island")
SITES = INSTITUTIONS | BUILDINGS | LANDSCAPE
VEHICLES = words("boat plane train bike truck car")
HOUSEHOLD = words(
    "book letter mirror painting lamp clock pencil computer key bag basket box bottle cup plate hat coat mat scarf "
    "table chair door window"
)
SMALL = HOUSEHOLD - words("table chair door window") | FOOD | words("cat dog bird mouse turtle bee spider")

COLOURS = words("black white red green blue yellow grey brown pink")
SIZES = words("small large huge long heavy light round")
PRICES = words("expensive")
VERDICTS = words("good bad former strange dangerous slow fast sad beautiful pretty new clean")
TOUCH = words("wet hot cold")
OF_PEOPLE = words("young famous quiet curious happy kind brave")
OF_ANIMALS = (
    OF_PEOPLE - words("famous kind")
    | words("small beautiful pretty fast slow sad dangerous")
    | words("black white grey brown")
)

# The verbs whose object can be a person at all, and which people.
WITH_PEOPLE = {
    **dict.fromkeys(words("see hear know help protect thank greet"), PEOPLE),
    **dict.fromkeys(words("draw await describe"), COMPANIONS),
    **dict.fromkeys(words("paint admire"), words("king queen doctor baker engineer")),
}
BY_ANIMALS = words("see watch love leave follow hear push pull touch fear")
WITH_ANIMALS = words("see watch love find seek follow hear draw paint show help protect admire describe count fear")
COMPANY = words("with for")
SPOTS = words("box basket bag table chair mat lamp mirror computer clock")
ROOMS = words("house castle school kitchen hospital")
LARGE = WILD | VEHICLES | words("horse cow goat tree")  # not in a room
PLACES = {
    "in": ROOMS | words("garden city street box basket bag"),
    "on": words("bridge island mountain boat table chair mat"),  # but dans la rue
    "under": words("tree bridge table chair"),
    "behind": words("house castle school hospital wall tree door lamp box mirror computer clock"),
    "with": COMPANIONS,
    "for": COMPANIONS,
}


def name(noun: Noun) -> str:
    return noun.english[0]


def base(verb: Verb) -> str:
    return "be" if verb is BE else verb.english[1]


DESCRIBED = [(a.english, name(noun)) for noun in NOUNS for side in adjectives_of(noun) for a in side]
DONE = {  # subject, verb, object
    (name(subject), base(verb), name(object_))
    for verb in ACTIONS
    for subject, object_ in product(nouns_of(verb.subjects), nouns_of(verb.objects))
}


def settings() -> Iterator[tuple[Verb, str, str | None, str, frozenset[str]]]:
    """Every verb, kind of subject, kind of object (None with *be*) and preposition, with the places after it."""
    for verb in VERBS:
        for subject, object_ in product(verb.subjects, verb.objects or [None]):
            for preposition, places in places_of(verb, subject, object_).items():
                yield verb, subject, object_, preposition, frozenset(map(name, places))


def test_the_classes_above_are_complete():
    nouns = PEOPLE | ANIMALS | FOOD | PLANTS | SKY | SITES | VEHICLES | HOUSEHOLD
    assert nouns == {name(noun) for noun in NOUNS}
    adjectives = COLOURS | SIZES | PRICES | VERDICTS | TOUCH | OF_PEOPLE | words("old")
    assert adjectives == {adjective.english for adjective in ADJECTIVES}
    assert set(WITH_PEOPLE) | BY_ANIMALS | WITH_ANIMALS < {base(verb) for verb in VERBS}


def test_what_is_said_of_people():
    said = {noun: {a for a, described_noun in DESCRIBED if described_noun == noun} for noun in PEOPLE}
    assert all(said[person] == OF_PEOPLE for person in PEOPLE - words("man woman"))
    assert said["man"] == said["woman"] == OF_PEOPLE | {"old"}  # vieille fille and old queen mean something else
    assert not (OF_PEOPLE | {"old"}) & (COLOURS | SIZES | PRICES | VERDICTS | TOUCH)


def test_what_is_said_of_animals():
    assert {adjective for adjective, noun in DESCRIBED if noun in ANIMALS} == OF_ANIMALS


@pytest.mark.parametrize(
    ("adjectives", "nouns"),
    [
        (COLOURS, ANIMALS | FOOD | PLANTS | VEHICLES | HOUSEHOLD | BUILDINGS),  # no white school, no étoile jaune
        (PRICES, FOOD | PLANTS | VEHICLES | HOUSEHOLD - words("door window")),
        (words("bad"), FOOD | HOUSEHOLD),
        (words("former"), BUILDINGS | INSTITUTIONS),
        (words("dangerous"), WILD | LANDSCAPE | words("horse cow goat")),
        (words("wet"), PLANTS | VEHICLES | HOUSEHOLD),
        (words("hot"), FOOD | LANDSCAPE | words("cup plate")),
        (words("cold"), FOOD | LANDSCAPE | INSTITUTIONS | words("cup plate")),
        (words("large huge heavy light round long"), FOOD | PLANTS | SKY | SITES | VEHICLES | HOUSEHOLD),
        (words("old"), words("man woman") | PLANTS | VEHICLES | HOUSEHOLD - words("bag") | BUILDINGS | INSTITUTIONS),
        (words("slow fast"), ANIMALS | VEHICLES),
    ],
    ids=lambda listed: " ".join(sorted(listed)[:3]),
)
def test_adjectives_fall_only_on(adjectives, nouns):
    fallen_on = {noun for adjective, noun in DESCRIBED if adjective in adjectives}
    assert fallen_on and fallen_on <= nouns


def test_every_noun_can_be_described_and_every_adjective_has_nouns():
    assert all(sum(noun == name(n) for _, noun in DESCRIBED) >= 6 for n in NOUNS)
    assert all(sum(adjective == a.english for adjective, _ in DESCRIBED) >= 9 for a in ADJECTIVES)


def test_what_is_done_to_people():
    befallen: dict[str, set[str]] = {}
    for _, verb, object_ in DONE:
        if object_ in PEOPLE:
            befallen.setdefault(verb, set()).add(object_)
    assert befallen == WITH_PEOPLE  # nobody is bought, taken, wanted, hidden, touched, followed or counted


def test_who_does_things():
    for subject, verb, object_ in DONE:
        assert subject in PEOPLE or (subject in ANIMALS and verb in BY_ANIMALS), (subject, verb, object_)
        assert object_ not in ANIMALS or verb in WITH_ANIMALS, (subject, verb, object_)


@pytest.mark.parametrize(
    ("verbs", "objects"),
    [
        ("buy sell want choose", FOOD | PLANTS | VEHICLES | HOUSEHOLD),
        ("take bring keep hide forget lose", FOOD | PLANTS | VEHICLES | HOUSEHOLD),
        ("break wash", VEHICLES | HOUSEHOLD),
        ("open close", words("book letter bag basket box bottle door window")),
        ("push pull", VEHICLES | HOUSEHOLD),
        ("repair", VEHICLES | HOUSEHOLD | BUILDINGS),
        ("touch", PLANTS | HOUSEHOLD),
        ("visit", SITES),
        ("leave", INSTITUTIONS | LANDSCAPE),
        ("love", FOOD | PLANTS | SKY | LANDSCAPE | words("cat dog bird mouse turtle bee spider")),
        ("fear", WILD),
        ("thank greet", PEOPLE),
    ],
)
def test_verbs_have_objects_that_make_sense(verbs, objects):
    assert {object_ for _, verb, object_ in DONE if verb in words(verbs)} <= objects


def test_where_things_are_and_happen():
    for verb, subject_kind, object_kind, preposition, places in settings():
        subjects = {name(noun) for noun in nouns_of(kinds(subject_kind))}
        located = {name(noun) for noun in nouns_of(kinds(object_kind))} if object_kind else subjects
        said = (base(verb), subjects, located, preposition, places)
        if preposition in COMPANY:
            assert places == COMPANIONS, said
            assert not located & (PEOPLE | ANIMALS) if preposition == "for" else subjects <= PEOPLE | ANIMALS, said
        else:
            assert places <= PLACES[preposition], said
            assert not located & SITES, said
            assert not located & PEOPLE or preposition in ("in", "on"), said
            assert not places & SPOTS or located <= SMALL, said
            assert not (preposition == "in" and places & ROOMS) or not (subjects | located) & LARGE, said


def test_every_preposition_is_used_with_every_place():
    used = {(preposition, place) for *_, preposition, places in settings() for place in places}
    assert used == {(preposition, place) for preposition, places in PLACES.items() for place in places}


def test_nobody_owns_a_man_a_woman_or_a_child():
    for noun in NOUNS:
        assert {"my", "our"}.isdisjoint(determiners(noun)) == (name(noun) in FREE)


def test_the_data_say_nothing_else():
    """The sentences themselves, word by word: whatever makes them, none puts a colour or a price on a person."""
    forbidden = COLOURS | SIZES | PRICES | VERDICTS | TOUCH
    people = {form for noun in NOUNS if name(noun) in PEOPLE for form in noun.english}
    data = make_data()
    for pair in data.train + data.test + data.unseen:
        for place, word in enumerate(pair.english):
            if word in people:
                assert forbidden.isdisjoint(pair.english[max(0, place - 2) : place]), pair.english


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no kind of noun called dragons"):
        kinds("people dragons")
