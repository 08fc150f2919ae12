"""The exercise `ctc_collapse`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

from itertools import groupby, pairwise

import torch

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect
from course_lib.exercises.decoding.shared import asked
from course_lib.exercises.language_model.shared import as_ids, expect_list_of_ids

collapsing = Exercise(
    speech.ctc_collapse,
    cases=[
        {"ids": [3, 3, 0, 3, 5, 5, 0, 0, 2], "blank": 0},
        {"ids": [0, 4, 4, 4, 0, 0, 1, 4, 0, 4, 4, 1], "blank": 4},
        {"ids": [2, 7, 7, 2, 2, 6, 0, 6, 7, 7, 1, 1], "blank": 2},
        {"ids": [9, 9, 9, 8, 9, 0, 0, 0, 0, 8, 8, 9, 0, 9, 9, 9], "blank": 0},
        {"ids": [5, 1, 5, 0, 0, 5, 5, 1, 1, 3, 5, 3], "blank": 5},
        {"ids": [6, 6, 6], "blank": 6},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        'Do it by hand for "a a _ a b b": which labels stay? Two steps, and their order matters.',
        "Runs first: a label stays if it is not the same as the one right before it in the path. Then leave out the "
        "blanks.",
        "Go through the path and remember the previous label, the blank included: that is what separates the two a's.",
        "if label != previous and label != blank: append it. After that, whatever happened: previous = label.",
    ],
)


def collapsed(subject, ids, blank):
    """The student's labels, as a list."""
    return expect_list_of_ids(asked(subject, (ids, blank), as_ids))


def expect_labels(subject, ids, blank):
    got, want = collapsed(subject, ids, blank), speech.ctc_collapse(ids, blank)
    expect(got == want, f"The path {ids} with the blank {blank} says {want}, but you have {got}.")


@collapsing.property("the result is a list of labels, and no blank is left in it", points=1)
def collapse_has_no_blanks(subject, case):
    got = collapsed(subject, *case.values())
    expect(
        case["blank"] not in got,
        f"The path {case['ids']} with the blank {case['blank']}: there is a blank left in your {got}.",
    )


@collapsing.property("in a path without blanks, runs of the same label become one", points=1)
def collapse_runs(subject, case):
    expect_labels(subject, [label for label in case["ids"] if label != case["blank"]], case["blank"])


@collapsing.property("in a path without runs, the blanks go and nothing else", points=1)
def collapse_blanks(subject, case):
    expect_labels(subject, [label for label, _ in groupby(case["ids"])], case["blank"])


@collapsing.property("both together: a blank between two equal labels keeps them apart", points=2)
def collapse_both(subject, case):
    expect_labels(subject, *case.values())


@collapsing.misconception
def merges_across_blanks(ids, blank=0):
    """You merge equal labels that a blank keeps apart, as if the blanks were left out first. Runs are merged first.

    No path could say a word with a double letter."""
    kept = []
    previous = None
    for label in ids:
        if label != previous and label != blank:
            kept.append(label)
            previous = label
    return kept


@collapsing.misconception
def keeps_the_blanks(ids, blank=0):
    """You merge runs and leave the blanks in."""
    kept = []
    previous = None
    for label in ids:
        if label != previous:
            kept.append(label)
        previous = label
    return kept


@collapsing.misconception
def keeps_the_runs(ids, blank=0):
    """You leave out the blanks and merge nothing. A run of the same label, frame after frame, is one label."""
    kept = []
    for label in ids:
        if label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def keeps_each_label_once(ids, blank=0):
    """You keep every label once in the whole path. Only neighbours are merged; later on a label may come again."""
    kept = []
    for label in ids:
        if label not in kept and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def blank_is_always_zero(ids, blank=0):
    """Your blank is always 0. It is the label `blank`, whichever that is."""
    kept = []
    previous = None
    for label in ids:
        if label != previous and label != 0:
            kept.append(label)
        previous = label
    return kept


@collapsing.misconception
def merges_two_at_a_time(ids, blank=0):
    """You merge two equal neighbours into one and continue after them. Of a run of three labels you leave two. A run
    becomes one label, however long it is."""
    kept = []
    place = 0
    while place < len(ids):
        if ids[place] != blank:
            kept.append(ids[place])
        place += 2 if ids[place : place + 1] == ids[place + 1 : place + 2] else 1
    return kept


@collapsing.misconception
def keeps_runs_alone(ids, blank=0):
    """You keep only labels that are repeated. A label of a single frame counts, too."""
    kept = []
    for label, run in groupby(ids):
        if len(list(run)) > 1 and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def keeps_single_labels_alone(ids, blank=0):
    """You leave out every label that is repeated. A run becomes one label; it does not go."""
    kept = []
    for label, run in groupby(ids):
        if len(list(run)) == 1 and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def one_label_between_blanks(ids, blank=0):
    """You take one label from each stretch between blanks. A new label needs no blank before it: every change
    counts."""
    kept = []
    previous = blank
    for label in ids:
        if previous == blank and label != blank:
            kept.append(label)
        previous = label
    return kept


@collapsing.misconception
def stops_at_the_first_blank(ids, blank=0):
    """You stop at the first blank. It is not the end of the text: labels may follow it."""
    kept = []
    previous = None
    for label in ids:
        if label == blank:
            break
        if label != previous:
            kept.append(label)
        previous = label
    return kept


@collapsing.misconception
def forgets_the_first_label(ids, blank=0):
    """The first label of the path is never kept: you compare each label with the one before and begin at the second.
    The first one has nothing before it, and counts."""
    kept = []
    for previous, label in pairwise(ids):
        if label != previous and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def forgets_the_last_label(ids, blank=0):
    """The label at the end of the path is lost: you keep a label when the next one differs, and the last one has no
    next."""
    kept = []
    for label, following in pairwise(ids):
        if label != following and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def keeps_a_blank_in_front(ids, blank=0):
    """You keep the first label of the path whatever it is. If it is the blank, it goes like any other blank."""
    kept = []
    previous = None
    for label in ids:
        if previous is None or (label != previous and label != blank):
            kept.append(label)
        previous = label
    return kept


@collapsing.misconception
def removes_one_blank(ids, blank=0):
    """You remove one blank, the first. All of them go."""
    kept = []
    previous = None
    for label in ids:
        if label != previous:
            kept.append(label)
        previous = label
    if blank in kept:
        kept.remove(blank)
    return kept


@collapsing.misconception
def first_in_a_circle(ids, blank=0):
    """You compare the first label with the last one (ids[-1]): if they are equal, the first is lost. There is
    nothing before the first label."""
    kept = []
    for place, label in enumerate(ids):
        if label != ids[place - 1] and label != blank:
            kept.append(label)
    return kept


@collapsing.misconception
def returns_the_places(ids, blank=0):
    """You return the places of the labels in the path. The labels themselves are wanted."""
    kept = []
    previous = None
    for place, label in enumerate(ids):
        if label != previous and label != blank:
            kept.append(place)
        previous = label
    return kept


@collapsing.misconception
def starts_with_zero(ids, blank=0):
    """A path that begins with the label 0 loses it: you begin as if there were a 0 before the path. There is none."""
    kept = []
    previous = 0
    for label in ids:
        if label != previous and label != blank:
            kept.append(label)
        previous = label
    return kept


@collapsing.alternative
def with_groupby(ids, blank=0):
    return [label for label, _ in groupby(ids) if label != blank]


@collapsing.alternative
def by_places(ids, blank=0):
    return [ids[i] for i in range(len(ids)) if ids[i] != blank and (i == 0 or ids[i - 1] != ids[i])]


@collapsing.alternative
def with_unique_consecutive(ids, blank=0):
    runs = torch.unique_consecutive(torch.as_tensor(ids, dtype=torch.long))
    return runs[runs != blank]


@collapsing.alternative
def in_two_steps(ids, blank=0):
    merged = []
    for label in ids:
        if not merged or merged[-1] != label:
            merged.append(label)
    return tuple(filter(lambda label: label != blank, merged))


@collapsing.alternative
def from_the_end(ids, blank=0):
    rest, text = list(ids), []
    while rest:
        label = rest.pop()
        if label != blank and (not rest or rest[-1] != label):
            text.insert(0, label)
    return text
