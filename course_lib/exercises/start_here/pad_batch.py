"""The exercise `pad_batch`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from course_lib import start_here
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import (
    Failure,
    expect,
    expect_tensor,
    expect_tuple,
    sentence,
)

pad_batch = Exercise(
    start_here.pad_batch,
    cases=[
        {
            "sequences": [torch.tensor([5, 6]), torch.tensor([7, 8, 9, 3]), torch.tensor([4])],
            "pad_id": 1,
            "max_len": None,
        },
        {
            "sequences": [torch.tensor([3, 2, 5, 6, 8]), torch.tensor([7, 9]), torch.tensor([6, 3, 4])],
            "pad_id": 2,
            "max_len": 4,
        },
        {
            "sequences": [torch.tensor([8, 0]), torch.tensor([5, 0, 7, 0])],
            "pad_id": 0,
            "max_len": 6,
        },
        {
            "sequences": [
                torch.tensor([4, 5, 9]),
                torch.tensor([6, 7, 8, 5, 4]),
                torch.tensor([9]),
                torch.tensor([8, 6]),
            ],
            "pad_id": 7,
            "max_len": 2,
        },
        {
            "sequences": [torch.tensor([6, 4, 2]), torch.tensor([5])],
            "pad_id": 3,
            "max_len": None,
        },
    ],
    minutes=15,
    difficulty=2,
    hints=[
        "First decide how wide the rectangle is. There are two cases: max_len is None, or it is a number.",
        "Start with a rectangle full of pad_id (torch.full) and write each sequence over the start of its row.",
        "sequence[:width] cuts off what is too long and leaves the rest as it is. Its len is the length you want.",
        "batch[row, : len(kept)] = kept, and lengths.append(len(kept)), in a loop over enumerate(sequences).",
    ],
)


def padded(subject, case):
    """The subject's batch and lengths for a case, with types and shapes checked. A max_len of None is not passed."""
    sequences, pad_id, max_len = case.values()
    limit = () if max_len is None else (max_len,)
    batch, lengths = expect_tuple(subject(sequences, pad_id, *limit), ("batch", "lengths"))
    want, _ = pad_batch.want(case)
    return expect_integers(batch, tuple(want.shape), "the batch"), expect_integers(
        lengths, (len(sequences),), "the tensor of lengths"
    )


def expect_integers(got, shape, what):
    """`got` as a tensor of whole numbers of this shape, or a `Failure`."""
    got = expect_tensor(got, shape, what)
    if got.is_floating_point() and got.isnan().any():
        raise Failure(f"{sentence(what)} contains NaN (not a number).")
    if got.is_floating_point() or got.dtype == torch.bool:
        raise Failure(f"{sentence(what)} should hold integers, but its dtype is {got.dtype}.")
    return got


@pad_batch.property("a batch (batch, width) and lengths (batch,), both of integers", points=1)
def padded_shapes(subject, case):
    padded(subject, case)


@pad_batch.property("the lengths count the real entries of each row", points=1)
def padded_lengths(subject, case):
    _, lengths = padded(subject, case)
    _, want = pad_batch.want(case)
    expect(
        lengths.tolist() == want.tolist(),
        f"The lengths should be {want.tolist()}, but they are {lengths.tolist()}.",
    )


@pad_batch.property("each row begins with its sequence, or with as much of it as fits", points=2)
def padded_content(subject, case):
    batch, _ = padded(subject, case)
    want, lengths = pad_batch.want(case)
    for row, length in enumerate(lengths.tolist()):
        begins, should = batch[row, :length].tolist(), want[row, :length].tolist()
        expect(begins == should, f"Row {row} should begin with {should}, but it begins with {begins}.")


@pad_batch.property("everything after it is pad_id", points=1)
def padded_rest(subject, case):
    batch, _ = padded(subject, case)
    _, lengths = pad_batch.want(case)
    for row, length in enumerate(lengths.tolist()):
        rest = batch[row, length:].tolist()
        expect(
            rest == [case["pad_id"]] * len(rest),
            f"Row {row} has {length} real entries; after them there should be only {case['pad_id']} (pad_id), "
            f"but there is {rest}.",
        )


@pad_batch.misconception
def ignores_max_len(sequences, pad_id, max_len=None):
    """You never use max_len.

    The batch is always as wide as its longest sequence.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def never_wider_than_the_longest(sequences, pad_id, max_len=None):
    """You use max_len only to cut sequences off. If it is given, the batch is exactly that wide, even when no sequence
    is that long."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else min(longest, max_len)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def never_truncates(sequences, pad_id, max_len=None):
    """You use max_len only to widen the batch. If it is given, the batch is exactly that wide: longer sequences lose
    their end."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max(longest, max_len)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def forgets_to_cut(sequences, pad_id, max_len=None):
    """You write each sequence into its row as it is. One that is longer than max_len has to be cut off first.

    It does not fit into its row.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def lengths_before_truncation(sequences, pad_id, max_len=None):
    """Your lengths are those before the cut. Count what is really in the row.

    Some lengths exceed the width of the batch.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(sequence)
    return batch, lengths


@pad_batch.misconception
def lengths_are_the_width(sequences, pad_id, max_len=None):
    """Your lengths are all equal to the width of the batch. A length counts the real entries of its row, without the
    padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = width
    return batch, lengths


@pad_batch.misconception
def lengths_count_the_padding(sequences, pad_id, max_len=None):
    """You count the padding of each row. The lengths count what is real."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = width - len(kept)
    return batch, lengths


@pad_batch.misconception
def lengths_are_last_positions(sequences, pad_id, max_len=None):
    """Your lengths are one too small.

    They are the positions of the last real entries, counted from 0.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept) - 1
    return batch, lengths


@pad_batch.misconception
def lengths_by_value(sequences, pad_id, max_len=None):
    """You count the entries that differ from pad_id, but a real entry may have the same value. Count the entries of
    the sequence itself."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = (kept != pad_id).sum()
    return batch, lengths


@pad_batch.misconception
def lengths_by_nonzero(sequences, pad_id, max_len=None):
    """You count the entries that are not 0, but padding need not be 0, and a real entry may be. Count the entries of
    the sequence itself."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = (batch[row] != 0).sum()
    return batch, lengths


@pad_batch.misconception
def keeps_the_end(sequences, pad_id, max_len=None):
    """You cut off the beginning of a sequence that is too long. Keep its beginning and cut off its end."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[-width:]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_on_the_left(sequences, pad_id, max_len=None):
    """You put the padding before the sequence. Here it comes after it."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, width - len(kept) :] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_with_zero(sequences, pad_id, max_len=None):
    """You pad with 0 whatever pad_id is. The caller chooses the value that marks padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), 0)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def repeats_the_last_entry(sequences, pad_id, max_len=None):
    """You fill a row by repeating its last entry. Fill it with pad_id."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row] = kept[-1]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def pads_with_minus_one(sequences, pad_id, max_len=None):
    """You pad with -1 whatever pad_id is. The caller chooses the value that marks padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), -1)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def keeps_room_for_padding(sequences, pad_id, max_len=None):
    """You cut off one entry too many. A sequence may fill its row to the last place."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[: width - 1]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def one_column_too_many(sequences, pad_id, max_len=None):
    """Your batch is one column too wide.

    Even the longest row ends in padding.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width + 1), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_first(sequences, pad_id, max_len=None):
    """You take the length of the first sequence as the width. Another one may be longer."""
    longest = len(sequences[0])
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_shortest(sequences, pad_id, max_len=None):
    """You take the length of the shortest sequence as the width. The longest one sets the width, and the others are
    padded.

    Everything is cut down to the shortest.
    """
    longest = min((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def as_wide_as_the_batch_is_large(sequences, pad_id, max_len=None):
    """You use the number of sequences as the width. The batch size counts sequences (rows); the width counts time steps
    (columns)."""
    longest = len(sequences)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def puts_time_first(sequences, pad_id, max_len=None):
    """Your batch is (time, batch): each sequence is a column. In this course the batch axis comes first."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch.T, lengths


@pad_batch.misconception
def drops_long_sequences(sequences, pad_id, max_len=None):
    """You leave out the sequences that are too long. Keep them in the batch, without their end."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    sequences = [sequence for sequence in sequences if len(sequence) <= width]
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def sorts_by_length(sequences, pad_id, max_len=None):
    """You sort the sequences, the longest first. Keep their order.

    Row i no longer belongs to sequence i.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    sequences = sorted(sequences, key=len, reverse=True)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def makes_floats(sequences, pad_id, max_len=None):
    """You return floating-point numbers, but ids and lengths are integers (torch.zeros and torch.ones make floats by
    default).

    An embedding accepts integers only.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), float(pad_id))
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def returns_lengths_first(sequences, pad_id, max_len=None):
    """The two results are in the wrong order: the batch comes first, the lengths second."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return lengths, batch


@pad_batch.misconception
def lengths_are_one_too_large(sequences, pad_id, max_len=None):
    """Your lengths are one too large. A length counts the real entries of its row, and no more."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept) + 1
    return batch, lengths


@pad_batch.misconception
def pads_with_one(sequences, pad_id, max_len=None):
    """You pad with 1 whatever pad_id is. The caller chooses the value that marks padding."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), 1)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def turns_sequences_around(sequences, pad_id, max_len=None):
    """You write the entries of each sequence in reverse order. Keep their order."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept.flip(0)
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def sorts_the_shortest_first(sequences, pad_id, max_len=None):
    """You sort the sequences, the shortest first. Keep their order.

    Row i no longer belongs to sequence i.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    sequences = sorted(sequences, key=len)
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.misconception
def returns_lists(sequences, pad_id, max_len=None):
    """You return plain lists. Return two tensors."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch.tolist(), lengths.tolist()


@pad_batch.misconception
def lengths_as_a_list(sequences, pad_id, max_len=None):
    """Your lengths are a plain list. Return a tensor, as for the batch."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths.tolist()


@pad_batch.misconception
def lengths_as_a_column(sequences, pad_id, max_len=None):
    """Your lengths are a column, (batch, 1). One axis is enough: (batch,)."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths.unsqueeze(1)


@pad_batch.misconception
def returns_a_mask(sequences, pad_id, max_len=None):
    """Your second result is a mask: it marks the entries that differ from pad_id. Return the lengths, one number for
    each row."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, batch != pad_id


@pad_batch.misconception
def returns_only_the_batch(sequences, pad_id, max_len=None):
    """You return the batch without the lengths. Return (batch, lengths).

    Without the lengths nobody can tell real entries from padding.
    """
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch


@pad_batch.misconception
def pads_with_zero_and_counts_by_value(sequences, pad_id, max_len=None):
    """You pad with 0 whatever pad_id is, and your lengths count the entries of a row that differ from pad_id. Pad with
    pad_id, and let a length count the entries of the sequence itself."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), 0)
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
    return batch, (batch != pad_id).sum(dim=1)


@pad_batch.misconception
def cuts_one_entry_too_many(sequences, pad_id, max_len=None):
    """You cut a sequence that is too long down to max_len - 1 entries. Its row has room for max_len."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    width = longest if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)
    lengths = torch.zeros(len(sequences), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        kept = sequence[: width - 1] if len(sequence) > width else sequence
        batch[row, : len(kept)] = kept
        lengths[row] = len(kept)
    return batch, lengths


@pad_batch.alternative
def with_pad_sequence(sequences, pad_id, max_len=None):
    kept = [sequence[:max_len] for sequence in sequences]
    lengths = torch.tensor([len(sequence) for sequence in kept])
    batch = pad_sequence(kept, batch_first=True, padding_value=pad_id)
    if max_len is not None:
        batch = F.pad(batch, (0, max_len - batch.shape[1]), value=pad_id)
    return batch, lengths


@pad_batch.alternative
def with_lists(sequences, pad_id, max_len=None):
    width = max(map(len, sequences)) if max_len is None else max_len
    rows = [(sequence.tolist() + [pad_id] * width)[:width] for sequence in sequences]
    return torch.tensor(rows), torch.tensor([min(len(sequence), width) for sequence in sequences])


@pad_batch.alternative
def with_concatenation(sequences, pad_id, max_len=None):
    if max_len is None:
        max_len = max(s.numel() for s in sequences)
    rows = [torch.cat([s[:max_len], s.new_full((max(0, max_len - len(s)),), pad_id)]) for s in sequences]
    lengths = torch.tensor([s.numel() for s in sequences]).clamp(max=max_len)
    return torch.stack(rows, dim=1).T, lengths.int()


@pad_batch.alternative
def entry_by_entry(sequences, pad_id, max_len=None):
    width = max_len or max(len(s) for s in sequences)
    batch = torch.ones(len(sequences), width, dtype=torch.int32) * pad_id
    lengths = []
    for i, s in enumerate(sequences):
        n = 0
        for j in range(width):
            if j < len(s):
                batch[i, j] = s[j]
                n += 1
        lengths.append(n)
    return [batch, torch.tensor(lengths)]


@pad_batch.alternative
def by_indexing_one_long_tensor(sequences, pad_id, max_len=None):
    lengths = torch.tensor([len(s) for s in sequences])
    width = int(lengths.max()) if max_len is None else max_len
    flat = torch.cat(list(sequences))
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(width)
    places = (starts[:, None] + columns).clamp(max=len(flat) - 1)
    return torch.where(columns < lengths[:, None], flat[places], pad_id), lengths.clamp(max=width)
