"""Near-identical answers are found however names, layout and order were changed, and honest ones are left alone."""

from __future__ import annotations

import inspect
import random
from collections import Counter

import pytest
from classroom import released

from autograder.classroom.course import Course
from autograder.reporting import similar
from autograder.reporting.shown import known_fragments
from autograder.reporting.similar import (
    SharedAnswer,
    code_in,
    fragments_of,
    fragments_shown,
    parsed,
    rename,
    similar_groups,
    similar_pairs,
    tokens_in,
)
from course_lib.exercises import all_exercises

STUB = '''def pad_batch(sequences, pad_id):
    """Make a batch. (batch, time)"""
    raise NotImplementedError()
'''
REFERENCE = """def pad_batch(sequences, pad_id):
    longest = max(len(s) for s in sequences)
    rows = [s + [pad_id] * (longest - len(s)) for s in sequences]
    return torch.tensor(rows)
"""
OWN_IDEA = '''def pad_batch(sequences, pad_id):
    """Make a batch. (batch, time)"""
    # Ada, 3 in the morning
    width = 0
    for sequence in sequences:
        if len(sequence) > width:
            width = len(sequence)
    table = torch.zeros(len(sequences), width, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        for column in range(width):
            table[row, column] = sequence[column] if column < len(sequence) else pad_id
    return table
'''
COPIED = '''def pad_batch(sequences: list[list[int]], pad_id: int) -> Tensor:
    """Written by me."""
    w: int = 0
    for s in sequences:
        if len(s) > w: w = len(s)  # the longest

    out = torch.zeros(
        len(sequences), w,
        dtype=torch.long,
    )
    for i, s in enumerate(sequences):
        for j in range(w): out[i, j] = s[j] if j < len(s) else pad_id
    return out
'''
ANOTHER_IDEA = """def pad_batch(sequences, pad_id):
    tensors = [torch.tensor(sequence) for sequence in sequences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad_id)
"""
MATRIX = """def own(x, n):
    left = torch.arange(n).repeat_interleave(3)
    right = torch.linspace(0.5, 2.5, steps=n)
    scale = x.std(dim=-1, correction=0).clamp(min=1e-3)
    shifted = torch.roll(x, shifts=2, dims=-1)
    total = left[:n] + right.flip(0) * scale.mean()
    return total.cumsum(0) - shifted.sum(dim=-1)[:n]
"""
REORDERED = """def own(x, n):
    s2 = torch.roll(x, shifts=2, dims=-1)
    b = torch.linspace(0.5, 2.5, steps=n)
    s1 = x.std(dim=-1, correction=0).clamp(min=1e-3)
    a = torch.arange(n).repeat_interleave(3)
    t = a[:n] + b.flip(0) * s1.mean()
    return t.cumsum(0) - s2.sum(dim=-1)[:n]
"""
KNOWN = fragments_shown([REFERENCE, STUB])


def one_exercise(**texts):
    return {student: {"pad_batch": text} for student, text in texts.items()}


def test_renamed_and_reformatted_copy_is_found():
    (pair,) = similar_pairs(one_exercise(ada=OWN_IDEA, bob=COPIED, eve=ANOTHER_IDEA, kim=REFERENCE), KNOWN)
    assert (pair.first, pair.second) == ("ada", "bob")
    assert pair.answers[0].likeness == 1.0
    assert pair.answers[0].second == COPIED


def test_copy_with_some_changes_is_found():
    changed = COPIED.replace("    return out", "    print(w)\n    return out")
    (pair,) = similar_pairs(one_exercise(ada=OWN_IDEA, bob=changed), KNOWN)
    assert similar.ALIKE <= pair.answers[0].likeness < 1


@pytest.mark.parametrize(
    "text",
    [REFERENCE, REFERENCE.replace("longest", "n").replace("rows", "r"), STUB, "", "def pad_batch(a, b):\n    return a"],
)
def test_obvious_answers_say_nothing(text):
    assert similar_pairs(one_exercise(ada=text, bob=text), KNOWN) == []


def test_what_much_of_the_class_wrote_says_nothing():
    few = one_exercise(**{f"s{i}": OWN_IDEA for i in range(3)}, other=ANOTHER_IDEA)
    many = one_exercise(**{f"s{i}": OWN_IDEA for i in range(12)}, other=ANOTHER_IDEA)
    assert len(similar_pairs(few, KNOWN)) == 3
    assert similar_pairs(many, KNOWN) == []


def test_evidence_grows_with_rarity_and_adds_up_over_exercises():
    crowd = {f"s{i}": ANOTHER_IDEA for i in range(500)}
    (small,) = similar_pairs(one_exercise(ada=OWN_IDEA, bob=COPIED), KNOWN)
    (large,) = similar_pairs(one_exercise(ada=OWN_IDEA, bob=COPIED, **crowd), KNOWN)
    assert large.evidence > small.evidence
    twice = {s: {"pad_batch": t, "second": t} for s, t in {"ada": OWN_IDEA, "bob": COPIED}.items()}
    (pair,) = similar_pairs(twice, KNOWN)
    assert {answer.exercise for answer in pair.answers} == {"pad_batch", "second"}
    assert pair.evidence == pytest.approx(sum(answer.evidence for answer in pair.answers))


def test_result_does_not_depend_on_the_order_of_students():
    texts = one_exercise(ada=OWN_IDEA, bob=COPIED, eve=ANOTHER_IDEA, zoe=OWN_IDEA)
    assert similar_pairs(dict(reversed(texts.items())), KNOWN) == similar_pairs(texts, KNOWN)


def test_lines_in_another_order_are_found():
    (pair,) = similar_pairs({"ada": {"own": MATRIX}, "bob": {"own": REORDERED}}, frozenset())
    assert pair.answers[0].likeness == 1.0
    first, second = pair.answers[0].marked_lines()
    assert all(same for _, same in first) and all(same for _, same in second)


def test_three_who_share_are_one_group():
    texts = one_exercise(ada=OWN_IDEA, bob=COPIED, cem=OWN_IDEA.replace("width", "most"), eve=ANOTHER_IDEA)
    texts |= {"xi": {"own": MATRIX}, "yo": {"own": REORDERED}}
    groups = similar_groups(texts, KNOWN)
    assert {group.students for group in groups} == {("ada", "bob", "cem"), ("xi", "yo")}
    assert {len(group.pairs) for group in groups} == {3, 1}


def test_chosen_names_are_exchangeable_and_others_are_not():
    def tokens(text):
        return rename(tokens_in(text))

    assert tokens("y = x.sum(dim=0)") == tokens("total = x.sum(dim=0)  # !") != tokens("y = x.mean(dim=0)")
    assert tokens("y = f(x, dim=0)") != tokens("y = f(x, axis=0)")
    assert tokens("self.w = 1; self.w + self.v") == tokens("self.weight = 1; self.weight + self.v")
    assert tokens("return torch.ones(n)") == tokens("return torch.ones(m)") != tokens("return torch.zeros(n)")
    assert fragments_of("a: int = f(1, b)") == fragments_of("c = f(1, d)")


def test_pieces_of_code_in_a_text():
    assert code_in("Call `f(x)`:\n```python\ny = 1\n```\nthen `g`.") == ["f(x)", "y = 1\n", "g"]


def test_broken_code_is_compared_by_its_tokens():
    broken = OWN_IDEA.replace("if len(sequence) > width:", "if len(sequence) > width")
    assert parsed(broken) is None
    (pair,) = similar_pairs(one_exercise(ada=broken, bob=broken.replace("table", "result")), KNOWN)
    assert pair.answers[0].likeness == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "-" * 20_000 + "1",
        "lambda:" * 2800 + "1",
        "(" * 5000,
        "0x" + "f" * 19_000,
        "x = '\\d'",
        "\0",
        "\ud800 = 1",
        "x = '\ud800'",
        "a = " + "a." * 9000 + "a",
        "if x:\n\t1\n        2",
        "'''",
        "async def f():\n    await x",
        "(" + " " * 400_000,
        "(" + "\t" * 400_000 + "#",
    ],
)
def test_hostile_text_is_read_without_harm(text, recwarn):
    similar_pairs(one_exercise(ada=text, bob=text), KNOWN)
    SharedAnswer("pad_batch", 1, 1, text, text, frozenset(fragments_of(text).all)).marked_lines()
    assert not recwarn


def test_nothing_is_executed():
    similar_pairs(one_exercise(ada="raise SystemExit\n" * 30, bob="raise SystemExit\n" * 30), KNOWN)


def test_lines_are_marked_that_both_have_and_the_course_does_not():
    (pair,) = similar_pairs(one_exercise(ada=OWN_IDEA, bob=COPIED), KNOWN | fragments_shown(["if len(s) > most: pass"]))
    (shared,) = pair.answers
    for side in shared.marked_lines():
        lines = {line.strip(): is_marked for line, is_marked in side}
        assert len(lines) > 8
        of_the_course = [line for line in lines if line.startswith(("def pad_batch", "if len("))]
        short = [line for line in lines if len(line.split()) <= 3 and "(" not in line]
        assert {line for line, is_marked in lines.items() if not is_marked} == {*of_the_course, *short}
        assert len(of_the_course) == 2 and short


@pytest.fixture(scope="module")
def shown_in_masks(tmp_path_factory):
    return known_fragments(Course(tmp_path_factory.mktemp("none")), "02_masks", released("02_masks").cells)


def test_everything_that_the_course_shows_says_nothing(shown_in_masks):
    """Students who answer as the course does, or make a mistake that it knows, are like many others."""
    for exercise in (e for e in all_exercises().values() if e.topic == "masks"):
        for program in (exercise.reference, *exercise.alternatives, *exercise.misconceptions):
            text = inspect.getsource(program).partition("\ndef ")
            own = fragments_of(f"def {text[2]}" if text[0].startswith("@") else text[0]).kept - shown_in_masks
            assert len(own) < similar.FEWEST, (program.__name__, own)


def test_who_made_the_same_mistake_is_not_accused(shown_in_masks):
    """Independently, in words of their own, in one exercise or in several."""
    ada = {
        "causal_mask": "def causal_mask(n):\n    future = torch.triu(torch.ones(n, n)).bool()\n    return ~future",
        "padding_mask": "def padding_mask(lengths, n):\n    return torch.arange(n) <= lengths[:, None]",
        "masked_softmax": "def masked_softmax(scores, mask):\n    scores = scores.masked_fill(~mask, -1e9)\n"
        "    return torch.softmax(scores, dim=-1)",
    }
    bob = {
        "causal_mask": "def causal_mask(n):\n    m = torch.ones(n, n).triu(diagonal=0)\n    return m.bool() == 0",
        "padding_mask": "def padding_mask(lengths, n):\n    p = torch.arange(n)\n    return p <= lengths.unsqueeze(1)",
        "masked_softmax": "def masked_softmax(scores, mask):\n    filled = scores.masked_fill(mask == 0, -1e9)\n"
        "    weights = torch.softmax(filled, dim=-1)\n    return weights",
    }
    assert similar_groups({"ada": ada, "bob": bob, "cem": ada}, shown_in_masks) == []


def test_two_with_a_syntax_error_share_the_docstring_of_the_stub_and_no_more(shown_in_masks):
    stub = next(c.source for c in released("02_masks").cells if c.get("id") == "masked_softmax")
    broken = stub.replace("raise NotImplementedError()", "return torch.ones((2, 3)")
    assert parsed(broken) is None
    assert similar_groups({"ada": {"masked_softmax": broken}, "bob": {"masked_softmax": broken}}, shown_in_masks) == []


def test_large_class_needs_few_comparisons(monkeypatch):
    """A thousand students: far fewer pairs are looked at than the half a million there are."""
    dice = random.Random(1)
    operators = ["+", "-", "*", "/", "@", "%", "**", "//"]

    def invented(size):
        lines = [
            f"    v{i} = torch.f{dice.randrange(200)}(v{i - 1}) {dice.choice(operators)} v0" for i in range(1, size)
        ]
        return "\n".join(["def pad_batch(v0):", *lines])

    texts = {f"s{i:04}": invented(8) for i in range(1000)}
    texts["s0999"] = texts["s0000"].replace("v", "name")
    looked_at = Counter()
    original = similar.combinations

    def counted(students, size):
        pairs = list(original(students, size))
        looked_at.update(pairs)
        return pairs

    monkeypatch.setattr(similar, "combinations", counted)
    (pair,) = similar_pairs(one_exercise(**texts), frozenset())
    assert (pair.first, pair.second) == ("s0000", "s0999")
    assert len(looked_at) < 1000 * 999 / 2 / 10
