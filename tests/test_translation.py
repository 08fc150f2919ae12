"""The grammar, its data, and the translator that comes with the course."""

from __future__ import annotations

import pytest
import torch

from course_lib.grammar import (
    ADJECTIVES,
    BE,
    MAX_WORDS,
    NOUNS,
    PREPOSITIONS,
    VERBS,
    NounPhrase,
    make_data,
    spell,
    unseen_combinations,
    write_pair,
)
from course_lib.translation import (
    BOS,
    EOS,
    PAD,
    WEIGHTS,
    alignment_accuracy,
    copy_batches,
    encode_pairs,
    english_vocabulary,
    french_vocabulary,
    load_translator,
    random_batches,
    translate,
    translation_quality,
    usual_words,
)

NOUN = {noun.english[0]: noun for noun in NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
VERB = {verb.english[1]: verb for verb in VERBS}


# The grammar writes whatever it is asked to write; what it says by itself is judged in test_grammar.py.


def phrase(text: str) -> NounPhrase:
    """`the small black cats` as a noun phrase."""
    determiner, *adjectives, noun = text.split()
    determiner = {"an": "a", "some": "a", "any": "a", "these": "this"}.get(determiner, determiner)
    singular = next(n for n in NOUNS if noun in n.english)
    found = [ADJECTIVE[word] for word in adjectives]
    before = tuple(a for a in found if a.before_noun)
    after = tuple(a for a in found if not a.before_noun)
    return NounPhrase(determiner, singular, noun == singular.english[1], before, after)


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("the cat", "le chat"),
        ("the tree", "l'arbre"),
        ("the owl", "le hibou"),
        ("the man", "l'homme"),
        ("the clock", "l'horloge"),
        ("the men", "les hommes"),
        ("the old house", "la vieille maison"),
        ("the old tree", "le vieil arbre"),
        ("the old trees", "les vieux arbres"),
        ("the former school", "l'ancienne école"),
        ("a beautiful hospital", "un bel hôpital"),
        ("a beautiful owl", "un beau hibou"),
        ("an apple", "une pomme"),
        ("some pears", "des poires"),
        ("some small pears", "de petites poires"),
        ("some red pears", "des poires rouges"),
        ("some former castles", "d'anciens châteaux"),
        ("this egg", "cet œuf"),
        ("this white egg", "cet œuf blanc"),
        ("this new plane", "ce nouvel avion"),
        ("this former bridge", "cet ancien pont"),
        ("this island", "cette île"),
        ("these mice", "ces souris"),
        ("my star", "mon étoile"),
        ("my small star", "ma petite étoile"),
        ("my huge cloud", "mon énorme nuage"),
        ("my former kitchen", "mon ancienne cuisine"),
        ("my engineer", "mon ingénieure"),
        ("a mat", "un tapis"),
        ("some mats", "des tapis"),
        ("these hospitals", "ces hôpitaux"),
        ("my horses", "mes chevaux"),
        ("our happy uncle", "notre oncle heureux"),
        ("our long letters", "nos longues lettres"),
        ("the small black cow", "la petite vache noire"),
        ("the young happy bears", "les jeunes ours heureux"),
        ("these bad light lamps", "ces mauvaises lampes légères"),
    ],
)
def test_noun_phrases(english, french):
    pair = write_pair(phrase(english), VERB["see"], phrase("the cat"))
    verb = pair.french.index("voient" if phrase(english).plural else "voit")
    assert spell(pair.french[:verb]) == french
    assert " ".join(pair.english).startswith(english + " see")


@pytest.mark.parametrize(
    ("subject", "verb", "negated", "object_", "english", "french"),
    [
        ("the boy", "love", False, "a cat", "the boy loves a cat", "le garçon aime un chat"),
        ("the boy", "love", True, "a cat", "the boy does not love a cat", "le garçon n'aime pas de chat"),
        ("the boys", "see", True, "some eggs", "the boys do not see any eggs", "les garçons ne voient pas d'œufs"),
        ("the boys", "see", True, "some old hats", "the boys do not see any old hats",
         "les garçons ne voient pas de vieux chapeaux"),
        ("a girl", "take", True, "the egg", "a girl does not take the egg", "une fille ne prend pas l'œuf"),
        ("some aunts", "know", False, "my city", "some aunts know my city", "des tantes connaissent ma ville"),
    ],
)  # fmt: skip
def test_sentences(subject, verb, negated, object_, english, french):
    pair = write_pair(phrase(subject), VERB[verb], phrase(object_), negated)
    assert " ".join(pair.english) == english
    assert spell(pair.french) == french


@pytest.mark.parametrize(
    ("subject", "negated", "place", "english", "french"),
    [
        ("the cat", False, "the mat", "the cat is on the mat", "le chat est sur le tapis"),
        ("the cat", True, "the mat", "the cat is not on the mat", "le chat n'est pas sur le tapis"),
        ("my cups", False, "the table", "my cups are on the table", "mes tasses sont sur la table"),
        ("my cups", True, "a table", "my cups are not on a table", "mes tasses ne sont pas sur une table"),
    ],
)
def test_sentences_that_say_where_something_is(subject, negated, place, english, french):
    pair = write_pair(phrase(subject), BE, negated=negated, places=[("on", phrase(place))])
    assert " ".join(pair.english) == english
    assert spell(pair.french) == french
    verb = pair.french.index("est" if "est" in pair.french else "sont"), 2
    assert verb in pair.alignment


def test_the_longest_sentence_has_sixteen_words():
    long = phrase("the small black cat")
    pair = write_pair(long, VERB["see"], long, True, [("behind", long)])
    assert len(pair.english) == len(pair.french) == MAX_WORDS
    assert spell(pair.french).endswith("derrière le petit chat noir")


def test_the_grammar_writes_more_than_its_data_have():
    three = write_pair(phrase("a beautiful small curious black owl"), VERB["see"], phrase("the beautiful former tree"))
    assert " ".join(three.english) == "a beautiful small curious black owl sees the beautiful former tree"
    assert spell(three.french) == "un beau petit hibou curieux noir voit le bel ancien arbre"
    without_object = write_pair(phrase("the cat"), VERB["see"])
    assert (without_object.english, without_object.french) == (("the", "cat", "sees"), ("le", "chat", "voit"))
    places = [
        ("in", phrase("the house")),
        ("on", phrase("a mat")),
        ("under", phrase("the table")),
        ("with", phrase("my aunt")),
    ]
    far = write_pair(phrase("the cat"), VERB["see"], phrase("a bee"), places=places)
    assert spell(far.french) == "le chat voit une abeille dans la maison sur un tapis sous la table avec ma tante"
    for pair in (three, without_object, far):  # inside the vocabularies
        assert len(english_vocabulary().encode(pair.english)) == len(pair.english) + 1
        assert len(french_vocabulary().encode(pair.french)) == len(pair.french) + 1


def test_alignment_links_words_that_mean_the_same():
    cows, tree, place = phrase("the small black cows"), phrase("an old tree"), ("on", phrase("my mat"))
    pair = write_pair(cows, VERB["love"], tree, True, [place])
    links = {(pair.french[french], pair.english[english]) for french, english in pair.alignment}
    assert links == {
        ("petites", "small"),
        ("vaches", "cows"),
        ("noires", "black"),
        ("aiment", "love"),
        ("vieil", "old"),
        ("arbre", "tree"),
        ("tapis", "mat"),
    }
    assert pair.combinations == {("small", "cow"), ("black", "cow"), ("old", "tree")}


def test_the_lexicon():
    assert (len(NOUNS), len(ADJECTIVES), len(VERBS)) == (80, 40, 42)
    assert sum(noun.feminine for noun in NOUNS) == 40
    forms = [form for noun in NOUNS for form in noun.english] + [a.english for a in ADJECTIVES]
    forms += [form for verb in VERBS for form in verb.english] + list(PREPOSITIONS)
    assert len(set(forms)) == len(forms)  # no English word means two things
    assert all(feminine[0].endswith("e") for feminine in (a.feminine for a in ADJECTIVES))
    assert all(verb.french[1].endswith("nt") for verb in VERBS)


def test_data_is_deterministic_and_its_sets_are_disjoint():
    data = make_data()
    assert (len(data.train), len(data.test), len(data.unseen)) == (60_000, 1_000, 1_000)
    sentences = [pair.english for pair in data.train + data.test + data.unseen]
    assert len(set(sentences)) == 62_000
    assert make_data.__wrapped__(2_000, 50) == make_data.__wrapped__(2_000, 50)
    assert " ".join(data.train[0].english) == "these women do not hide our pretty green baskets"
    assert max(len(pair.english) for pair in data.train) == max(len(pair.french) for pair in data.train) == MAX_WORDS


def test_unseen_combinations_are_unseen():
    data, unseen = make_data(), unseen_combinations()
    assert len(unseen) == 160
    assert all(not pair.combinations & unseen for pair in data.train + data.test)
    assert all(pair.combinations & unseen for pair in data.unseen)
    assert all(sum(noun.english[0] == name for _, name in unseen) == 2 for noun in NOUNS)
    known_adjectives = {adjective for pair in data.train for adjective, _ in pair.combinations}
    known_nouns = {noun for pair in data.train for _, noun in pair.combinations}
    assert len(known_adjectives) == 40 and len(known_nouns) == 80


def test_vocabularies_know_every_word_and_complain_about_others():
    for pair in make_data().unseen:
        assert english_vocabulary().decode(english_vocabulary().encode(pair.english)) == list(pair.english)
        assert french_vocabulary().decode(french_vocabulary().encode(pair.french)) == list(pair.french)
    with pytest.raises(ValueError, match=r"Not in the vocabulary: dragon\."):
        english_vocabulary().encode(["the", "dragon"])


def test_batches():
    source, targets = encode_pairs(make_data().test)
    batches = list(random_batches(source, targets, batch_size=5, steps=3, seed=1))
    again = list(random_batches(source, targets, batch_size=5, steps=3, seed=1))
    assert len(batches) == 3
    for batch, same in zip(batches, again):
        assert all(torch.equal(one, two) for one, two in zip(batch, same))
        assert all(len(ids) == 5 and (ids[:, -1] != PAD).any() for ids in batch)
        assert all(((ids == EOS).sum(dim=1) == 1).all() for ids in batch)


def test_copy_and_reversal():
    ((source, copied),) = copy_batches(50, 1, seed=3)
    ((same, reversed_),) = copy_batches(50, 1, seed=3, reverse=True)
    assert torch.equal(source, copied) and torch.equal(source, same)
    for row, back in zip(source, reversed_):
        length = int((row > EOS).sum())
        assert 4 <= length <= 16
        assert torch.equal(row[:length].flip(0), back[:length]) and back[length] == EOS and not back[length + 1 :].any()
    assert BOS not in source


def test_the_shipped_translator_translates():
    assert WEIGHTS.stat().st_size < 4e6
    model, data = load_translator(), make_data()
    assert not model.training
    assert translate(model, ["The small black cat does not love an old tree."]) == [
        "le petit chat noir n'aime pas de vieil arbre"
    ]
    assert translate(model, ["the cat is on the mat", "The cats are not on the mat."]) == [
        "le chat est sur le tapis",
        "les chats ne sont pas sur le tapis",
    ]
    exact, score = translation_quality(model, data.test[:200])
    assert exact >= 0.95 and score >= 98
    assert translation_quality(model, data.unseen[:200])[0] >= 0.92
    assert max(alignment_accuracy(model, data.test[:200])) >= 0.95


def test_usual_words_find_a_partner_for_every_word_they_have_seen():
    usual = usual_words(make_data().train[:2000])
    assert {word: usual[word] for word in ("cat", "sees", "in", "not")} == {
        "cat": "chat", "sees": "voit", "in": "dans", "not": "pas",
    }  # fmt: skip
    assert all(word in usual for pair in make_data().train[:2000] for word in pair.english)
