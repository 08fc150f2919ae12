"""The exercise `edit_distance`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import functools
from collections import Counter

import torch

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.exercises.decoding.shared import as_number, asked

edits = Exercise(
    speech.edit_distance,
    cases=[
        {"reference": [4, 7, 7, 1], "hypothesis": [4, 7, 1, 1]},
        {"reference": [3, 1, 4, 1, 5], "hypothesis": [1, 4, 1, 5, 9, 2]},
        {"reference": ["the", "cat", "sat", "on", "the", "mat"], "hypothesis": ["cat", "the", "sat", "on", "mat"]},
        {"reference": [2, 6, 6, 8, 0, 5], "hypothesis": [6, 2, 6, 0, 8]},
        {"reference": [1, 2, 3, 4, 5, 6], "hypothesis": [9, 3, 4, 8]},
        {"reference": [5, 1, 5], "hypothesis": [0, 5, 1, 1, 0, 5, 5]},
    ],
    minutes=7,
    difficulty=2,
    hints=[
        "Think of a table: entry (i, j) is the distance between the first i items of the reference and the first j of "
        "the hypothesis. Which entries are known at once?",
        "From nothing to j items: j insertions. From i items to nothing: i deletions. That is the first row and the "
        "first column.",
        "Every other entry comes from three neighbours: the one above + 1 (an item is deleted), the one to the left + "
        "1 (an item is inserted), and the one above to the left, + 1 only if the two items differ. The smallest "
        "counts.",
        "table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (reference[i - 1] "
        "!= hypothesis[j - 1])). The answer is the last entry of the last row.",
    ],
)


def in_other_objects(sequence):
    """Words that are equal and not identical, as they are for the judge: `is` in the place of `==` shows."""
    return ["".join(item) if isinstance(item, str) else item for item in sequence]


def distance(subject, reference, hypothesis):
    """The student's number."""
    answer = as_number(asked(subject, (reference, in_other_objects(hypothesis)), as_number))
    if answer is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise Failure(f"The result should be a whole number, but it is {name_of_type(answer)}.")
    expect(answer == answer, "The result is NaN (not a number).")
    return answer


def expect_distance(subject, reference, hypothesis):
    got, want = distance(subject, reference, hypothesis), speech.edit_distance(reference, hypothesis)
    changes = "1 change is" if want == 1 else f"{want} changes are"
    expect(got == want, f"From {reference} to {hypothesis}, {changes} needed, but you have {got:g}.")


@edits.property("the result is a number, and 0 for two equal sequences", points=1)
def distance_of_equals(subject, case):
    distance(subject, *case.values())
    for sequence in case.values():
        expect_distance(subject, list(sequence), list(sequence))


@edits.property("from nothing, or to nothing, every item is one change", points=1)
def distance_to_nothing(subject, case):
    expect_distance(subject, [], case["hypothesis"])
    expect_distance(subject, case["reference"], [])


@edits.property("one item inserted, deleted or replaced is one change", points=1)
def distance_of_one_change(subject, case):
    reference = case["reference"]
    middle = len(reference) // 2
    stranger = [max(reference) * 2 + type(reference[0])(1)]  # an item that is not in it
    expect_distance(subject, reference, reference[:middle] + stranger + reference[middle:])
    expect_distance(subject, reference, reference[:middle] + reference[middle + 1 :])
    expect_distance(subject, reference, reference[:middle] + stranger + reference[middle + 1 :])


@edits.property("of all ways from one sequence to the other, the shortest counts", points=3)
def distance_in_general(subject, case):
    expect_distance(subject, *case.values())
    expect_distance(subject, case["hypothesis"], case["reference"])


@edits.misconception
def compares_place_by_place(reference, hypothesis):
    """You compare the sequences place by place. One missing item shifts all that follow: the sequences have to be
    aligned first."""
    return sum(wanted != got for wanted, got in zip(reference, hypothesis)) + abs(len(reference) - len(hypothesis))


@edits.misconception
def compares_the_common_places(reference, hypothesis):
    """You compare the sequences place by place, as far as the shorter one goes. Items that are missing or too many
    count, and the sequences have to be aligned first."""
    return sum(wanted != got for wanted, got in zip(reference, hypothesis))


@edits.misconception
def asks_for_the_same_object(reference, hypothesis):
    """You compare items with `is`, which asks whether they are one and the same object. Ask whether they are equal.

    Two equal words may be two objects; small whole numbers happen to be one."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted is not got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def shares_one_row(reference, hypothesis):
    """All rows of your table are one and the same. (`[[0] * n] * m` is one list, m times: whatever is written into one
    row is in all of them.)"""
    table = [[0] * (len(hypothesis) + 1)] * (len(reference) + 1)
    for i in range(len(reference) + 1):
        table[i][0] = i
    for j in range(len(hypothesis) + 1):
        table[0][j] = j
    for i, wanted in enumerate(reference, start=1):
        for j, got in enumerate(hypothesis, start=1):
            replaced = table[i - 1][j - 1] + (wanted != got)
            table[i][j] = min(replaced, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


@edits.misconception
def compares_the_counts(reference, hypothesis):
    """You compare how often each item occurs. The order counts, too."""
    missing = Counter(reference) - Counter(hypothesis)
    too_many = Counter(hypothesis) - Counter(reference)
    return max(sum(missing.values()), sum(too_many.values()))


@edits.misconception
def replacing_costs_two(reference, hypothesis):
    """In your count a replacement costs 2, as much as a deletion and an insertion. It is one change."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + 2 * (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def equal_items_cost_one(reference, hypothesis):
    """You count a change where the two items are equal, too. Moving past equal items is free."""
    previous = list(range(len(hypothesis) + 1))
    for i, _ in enumerate(reference):
        current = [i + 1]
        for j, _ in enumerate(hypothesis):
            replaced = previous[j] + 1
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def replacing_is_free(reference, hypothesis):
    """Your result is the difference of the two lengths: a replacement costs nothing in it. It is one change."""
    previous = list(range(len(hypothesis) + 1))
    for i, _ in enumerate(reference):
        current = [i + 1]
        for j, _ in enumerate(hypothesis):
            replaced = previous[j]
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def turns_the_comparison_round(reference, hypothesis):
    """You add 1 where the two items are equal, and nothing where they differ. It is the other way round."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted == got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def never_deletes(reference, hypothesis):
    """After the first column you never delete an item. All three changes are possible at every place."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            inserted = current[j] + 1
            current.append(min(replaced, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def never_inserts(reference, hypothesis):
    """After the first row you never insert an item. All three changes are possible at every place."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            current.append(min(replaced, deleted))
        previous = current
    return previous[-1]


@edits.misconception
def insertions_at_the_start_are_free(reference, hypothesis):
    """Your first row is 0 everywhere: items inserted at the beginning cost nothing. From nothing to j items it takes j
    changes."""
    previous = [0] * (len(hypothesis) + 1)
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def deletions_at_the_start_are_free(reference, hypothesis):
    """Your first column is 0 everywhere: items deleted at the beginning cost nothing. From i items to nothing it takes
    i changes."""
    previous = list(range(len(hypothesis) + 1))
    for wanted in reference:
        current = [0]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def starts_from_zeros(reference, hypothesis):
    """Your first row and your first column are 0: items inserted or deleted at the beginning cost nothing. From nothing
    to j items it takes j changes, and back as many."""
    previous = [0] * (len(hypothesis) + 1)
    for wanted in reference:
        current = [0]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def ends_anywhere(reference, hypothesis):
    """You return the smallest entry of the last row: items inserted at the end cost nothing. The last entry counts."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return min(previous)


@edits.misconception
def takes_the_longest_way(reference, hypothesis):
    """You take the largest of the three numbers. The shortest way counts: the smallest."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(max(replaced, deleted, inserted))
        previous = current
    return previous[-1]


@edits.misconception
def counts_what_is_not_common(reference, hypothesis):
    """You subtract the longest common subsequence from the length of the longer sequence. To keep all of it in order
    can take more changes than that."""
    previous = [0] * (len(hypothesis) + 1)
    for wanted in reference:
        current = [0]
        for j, got in enumerate(hypothesis):
            current.append(previous[j] + 1 if wanted == got else max(previous[j + 1], current[j]))
        previous = current
    return max(len(reference), len(hypothesis)) - previous[-1]


@edits.misconception
def replaces_alone(reference, hypothesis):
    """After the first row and the first column you only move on in both sequences at once: an item is replaced, never
    inserted or deleted. All three changes are possible at every place."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            current.append(previous[j] + (wanted != got))
        previous = current
    return previous[-1]


@edits.misconception
def equal_items_make_every_way_free(reference, hypothesis):
    """You add the 1 for a difference to all three neighbours alike: where two items are equal, an insertion or a
    deletion costs nothing. Only the way from above to the left is free there."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j]
            deleted = previous[j + 1]
            inserted = current[j]
            current.append(min(replaced, deleted, inserted) + (wanted != got))
        previous = current
    return previous[-1]


@edits.misconception
def goes_by_the_next_item(reference, hypothesis):
    """You go through both sequences once and decide at each difference by the next items. What looks best there need
    not be part of the shortest way: all ways have to be compared."""
    i = j = changes = 0
    while i < len(reference) and j < len(hypothesis):
        if reference[i] != hypothesis[j]:
            changes += 1
            if reference[i + 1 : i + 2] == [hypothesis[j]]:
                j -= 1
            elif hypothesis[j + 1 : j + 2] == [reference[i]]:
                i -= 1
        i, j = i + 1, j + 1
    return changes + len(reference) - i + len(hypothesis) - j


@edits.misconception
def compares_the_sets(reference, hypothesis):
    """You count the items that only one of the two has. Order and repetitions count, too."""
    return len(set(reference) ^ set(hypothesis))


@edits.misconception
def swaps_count_once(reference, hypothesis):
    """You count two neighbours that change places as one change. Only insertions, deletions and replacements count
    here."""
    rows, columns = len(reference) + 1, len(hypothesis) + 1
    table = [[i + j if i * j == 0 else 0 for j in range(columns)] for i in range(rows)]
    for i in range(1, rows):
        for j in range(1, columns):
            replaced = table[i - 1][j - 1] + (reference[i - 1] != hypothesis[j - 1])
            deleted = table[i - 1][j] + 1
            inserted = table[i][j - 1] + 1
            table[i][j] = min(replaced, deleted, inserted)
            if i > 1 < j and reference[i - 2 : i] == hypothesis[j - 2 : j][::-1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@edits.misconception
def divides_by_the_length(reference, hypothesis):
    """You divide by the length of the reference. That is the error rate; here the number of changes is wanted."""
    previous = list(range(len(hypothesis) + 1))
    for i, wanted in enumerate(reference):
        current = [i + 1]
        for j, got in enumerate(hypothesis):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1] / max(len(reference), 1)


@edits.misconception
def leaves_out_the_last_items(reference, hypothesis):
    """Your table ends one item too early: the last items of both sequences are never compared. It has one row and one
    column more than there are items."""
    previous = list(range(len(hypothesis)))
    for i, wanted in enumerate(reference[:-1]):
        current = [i + 1]
        for j, got in enumerate(hypothesis[:-1]):
            replaced = previous[j] + (wanted != got)
            deleted = previous[j + 1] + 1
            inserted = current[j] + 1
            current.append(min(replaced, deleted, inserted))
        previous = current
    return previous[-1] if previous else len(reference)


@edits.misconception
def strips_both_ends(reference, hypothesis):
    """You leave out what is equal at the beginning and at the end, and count all that is left in the longer sequence.
    Between the first difference and the last, items may be equal, too."""
    start = 0
    while start < min(len(reference), len(hypothesis)) and reference[start] == hypothesis[start]:
        start += 1
    wanted, got = list(reference[start:]), list(hypothesis[start:])
    while wanted and got and wanted[-1] == got[-1]:
        wanted.pop()
        got.pop()
    return max(len(wanted), len(got))


@edits.alternative
def with_a_table(reference, hypothesis):
    table = torch.zeros(len(reference) + 1, len(hypothesis) + 1, dtype=torch.long)
    table[:, 0] = torch.arange(len(reference) + 1)
    table[0] = torch.arange(len(hypothesis) + 1)
    for i in range(1, len(reference) + 1):
        for j in range(1, len(hypothesis) + 1):
            cost = 0 if reference[i - 1] == hypothesis[j - 1] else 1
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + cost)
    return table[-1, -1]


@edits.alternative
def by_recursion(reference, hypothesis):
    if not reference or not hypothesis:
        return len(reference) + len(hypothesis)
    if reference[0] == hypothesis[0]:
        return by_recursion(reference[1:], hypothesis[1:])
    shorter = (reference[1:], hypothesis), (reference, hypothesis[1:]), (reference[1:], hypothesis[1:])
    return 1 + min(by_recursion(*pair) for pair in shorter)


@edits.alternative
def with_a_memory(reference, hypothesis):
    @functools.cache
    def from_here(i, j):
        if i == len(reference) or j == len(hypothesis):
            return len(reference) - i + len(hypothesis) - j
        same = from_here(i + 1, j + 1) + (reference[i] != hypothesis[j])
        return min(same, from_here(i + 1, j) + 1, from_here(i, j + 1) + 1)

    return from_here(0, 0)


@edits.alternative
def by_widening_the_reach(reference, hypothesis):
    reached, changes = {(0, 0)}, 0
    while True:
        waiting = list(reached)
        while waiting:  # equal items are free
            i, j = waiting.pop()
            equal = i < len(reference) and j < len(hypothesis) and reference[i] == hypothesis[j]
            if equal and (i + 1, j + 1) not in reached:
                reached.add((i + 1, j + 1))
                waiting.append((i + 1, j + 1))
        if (len(reference), len(hypothesis)) in reached:
            return float(changes)
        steps = {(i + a, j + b) for i, j in reached for a, b in ((1, 0), (0, 1), (1, 1))}
        reached |= {(i, j) for i, j in steps if i <= len(reference) and j <= len(hypothesis)}
        changes += 1
