"""The exercise `pad_features`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_lib import speech
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_floats, expect_tuple, is_close
from course_lib.checking.inputs import normal
from course_lib.exercises.decoding.shared import asked
from course_lib.exercises.start_here.pad_batch import expect_integers


def recordings(*lengths, n_mels, seed, silent=()):
    """Features of recordings; some frames, given as (recording, frame), hold nothing but zeros, and are real."""
    found = [normal(length, n_mels, seed=seed + i) + 0.005 for i, length in enumerate(lengths)]
    for recording, frame in silent:
        found[recording][frame] = 0.0
    return found


padding = Exercise(
    speech.pad_features,
    cases=[
        {"features": recordings(2, 4, 1, n_mels=3, seed=1)},
        {"features": recordings(3, 6, 5, 8, n_mels=2, seed=10, silent=[(0, 2), (1, 3), (2, 4)])},
        {"features": recordings(7, 3, n_mels=4, seed=20)},
        {"features": recordings(5, 2, 9, 6, 4, n_mels=1, seed=30)},
        {"features": recordings(4, n_mels=5, seed=40)},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "How large is the rectangle? As many recordings as the list has, as many frames as the longest one has, n_mels "
        "numbers for each frame.",
        "Begin with torch.zeros of that shape, and write each recording over the beginning of its row.",
        "len(recording) is the number of its frames. batch[row, : len(recording)] = recording, in a loop over "
        "enumerate(features).",
        "torch.nn.utils.rnn.pad_sequence(features, batch_first=True) does the same. The lengths are "
        "torch.tensor([len(recording) for recording in features]).",
    ],
)


def without_infinities(answer):
    """Two infinite numbers cannot be compared."""
    if isinstance(answer, tuple | list):
        return tuple(map(without_infinities, answer))
    return answer.clamp(-1e6, 1e6) if isinstance(answer, Tensor) and answer.is_floating_point() else answer


def padded(subject, case):
    """The student's batch and lengths, and how they should be."""
    features = case["features"]
    want, want_lengths = speech.pad_features(features)
    batch, lengths = expect_tuple(asked(subject, (features,), without_infinities), ("batch", "lengths"))
    batch = expect_floats(batch, tuple(want.shape), "the batch")
    lengths = expect_integers(lengths, tuple(want_lengths.shape), "the tensor of lengths")
    return batch, lengths, want, want_lengths.tolist()


def sizes(case):
    return f"The recordings have {', '.join(str(len(recording)) for recording in case['features'])} frames"


@padding.property("a batch (batch, longest time, n_mels), and lengths (batch,) of whole numbers", points=1)
def padded_shapes(subject, case):
    padded(subject, case)


@padding.property("the lengths say how many frames of each recording are real", points=1)
def padded_lengths(subject, case):
    _, lengths, _, want = padded(subject, case)
    expect(lengths.tolist() == want, f"{sizes(case)}, but your lengths are {lengths.tolist()}.")


@padding.property("each row begins with its recording", points=2)
def padded_content(subject, case):
    batch, _, want, lengths = padded(subject, case)
    for row, length in enumerate(lengths):
        for frame in range(length):
            mine, right = batch[row, frame], want[row, frame]
            expect(
                is_close(mine, right),
                f"{sizes(case)}. Row {row}, frame {frame} should be {right.tolist()}, but yours is {mine.tolist()}.",
            )


@padding.property("everything after it is 0", points=1)
def padded_rest(subject, case):
    batch, _, _, lengths = padded(subject, case)
    for row, length in enumerate(lengths):
        rest = batch[row, length:]
        expect(
            not rest.any(),
            f"{sizes(case)}. After the {length} frames of row {row} there should be zeros, but there is "
            f"{rest.tolist()}.",
        )


@padding.misconception
def pads_in_front(features):
    """You put the padding before the recordings. It belongs after them."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, longest - len(recording) :] = recording
    return batch, lengths


@padding.misconception
def pads_at_both_ends(features):
    """You put half of the padding before each recording. All of it belongs after the recording."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        start = (longest - len(recording)) // 2
        batch[row, start : start + len(recording)] = recording
    return batch, lengths


@padding.misconception
def lengths_with_padding(features):
    """Your lengths are all the same: you count the frames of the padded rows. Count them before the padding.

    Nobody can tell real frames from padding any more."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, torch.full_like(lengths, longest)


@padding.misconception
def counts_the_padding(features):
    """Your lengths count the padding: how many frames were added. They should count the real ones."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, longest - lengths


@padding.misconception
def counts_the_mels(features):
    """Your lengths are the numbers of features in a frame, n_mels. They should be the numbers of frames: a recording
    is (time, n_mels)."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, torch.tensor([recording.shape[1] for recording in features])


@padding.misconception
def counts_all_numbers(features):
    """Your lengths count every number of a recording (numel). They should count its frames."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, torch.tensor([recording.numel() for recording in features])


@padding.misconception
def lengths_are_last_places(features):
    """Each of your lengths is one too small: the place of the last real frame, counted from 0. Their number is
    wanted."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths - 1


@padding.misconception
def counts_frames_that_are_not_zero(features):
    """You count the frames of the batch that are not 0. A real frame may be 0, too: take the lengths from the
    recordings."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, (batch != 0).any(dim=-1).sum(dim=-1)


@padding.misconception
def returns_a_mask(features):
    """Your second result is a mask. The lengths are wanted, one number for each recording."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, torch.arange(longest) < lengths[:, None]


@padding.misconception
def cuts_to_the_shortest(features):
    """You cut every recording to the length of the shortest. Nothing may be lost: the others are filled up to the
    longest."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.min())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row] = recording[:longest]
    return batch, lengths


@padding.misconception
def as_long_as_the_first(features):
    """Your batch is as long as the first recording. It has to be as long as the longest."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths[0])
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        kept = recording[:longest]
        batch[row, : len(kept)] = kept
    return batch, lengths


@padding.misconception
def as_long_as_the_last(features):
    """Your batch is as long as the last recording. It has to be as long as the longest."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths[-1])
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        kept = recording[:longest]
        batch[row, : len(kept)] = kept
    return batch, lengths


@padding.misconception
def one_frame_too_long(features):
    """Your batch has one frame more than the longest recording."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max()) + 1
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def loses_the_last_frame(features):
    """The last frame of every recording is missing from your batch: the end of a slice is not part of it."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording) - 1] = recording[:-1]
    return batch, lengths


@padding.misconception
def time_first(features):
    """Your batch is (time, batch, n_mels), as pad_sequence makes it unless it is told batch_first=True. The batch comes
    first."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(longest, len(features), n_mels)
    for row, recording in enumerate(features):
        batch[: len(recording), row] = recording
    return batch, lengths


@padding.misconception
def channels_first(features):
    """Your batch is (batch, n_mels, time). Time comes before the features: (batch, time, n_mels)."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), n_mels, longest)
    for row, recording in enumerate(features):
        batch[row, :, : len(recording)] = recording.T
    return batch, lengths


@padding.misconception
def repeats_the_last_frame(features):
    """You fill up with the last frame of each recording. Fill up with zeros."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row] = recording[-1]
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def begins_the_recording_again(features):
    """You fill up with the recording itself, from its beginning. Fill up with zeros."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row] = recording[torch.arange(longest) % len(recording)]
    return batch, lengths


@padding.misconception
def fills_with_silence(features):
    """You fill up with log(1e-6), the feature of silence. Fill up with zeros: later on the padding is masked anyway."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_full((len(features), longest, n_mels), math.log(1e-6))
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def fills_with_ones(features):
    """You fill up with ones. Fill up with zeros."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_ones(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def fills_with_minus_infinity(features):
    """You fill up with -inf. Fill up with zeros: -inf makes NaN of whatever is computed with it."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_full((len(features), longest, n_mels), -math.inf)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def sorts_the_recordings(features):
    """You sort the recordings by their lengths. They keep their order: the texts that belong to them do, too."""
    features = sorted(features, key=len, reverse=True)
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return batch, lengths


@padding.misconception
def swaps_the_results(features):
    """You return the lengths first. The order is batch, lengths."""
    lengths = torch.tensor([len(recording) for recording in features])
    longest = int(lengths.max())
    n_mels = features[0].shape[1]
    batch = features[0].new_zeros(len(features), longest, n_mels)
    for row, recording in enumerate(features):
        batch[row, : len(recording)] = recording
    return lengths, batch


@padding.alternative
def with_pad_sequence(features):
    return pad_sequence(list(features), batch_first=True), torch.tensor([recording.shape[0] for recording in features])


@padding.alternative
def with_pad(features):
    lengths = [len(recording) for recording in features]
    rows = [F.pad(recording, (0, 0, 0, max(lengths) - len(recording))) for recording in features]
    return torch.stack(rows), torch.tensor(lengths, dtype=torch.int32)


@padding.alternative
def by_concatenation(features):
    longest = max(recording.size(0) for recording in features)
    rows = []
    lengths = torch.empty(len(features), dtype=torch.int64)
    for row, recording in enumerate(features):
        rest = torch.zeros(longest - recording.size(0), recording.size(1))
        rows.append(torch.cat((recording, rest)))
        lengths[row] = recording.size(0)
    return torch.stack(rows), lengths


@padding.alternative
def frame_by_frame(features):
    longest = max(map(len, features))
    batch = torch.zeros(longest, features[0].shape[-1], len(features))
    for row, recording in enumerate(features):
        for time, frame in enumerate(recording):
            batch[time, :, row] = frame
    return [batch.permute(2, 0, 1), torch.tensor(list(map(len, features)))]
