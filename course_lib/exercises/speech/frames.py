"""The exercise `frames`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

import torch

from course_lib import speech
from course_lib.checking.bench import StudentError
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import expect, expect_floats, is_close
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Event


def recording(samples, seed):
    """Samples that are all different."""
    return normal(samples, seed=seed) + 0.001 * torch.arange(samples)


framing = Exercise(
    speech.frames,
    cases=[
        {"wave": recording(13, seed=1), "length": 5, "hop": 3},  # two samples are left
        {"wave": recording(18, seed=2), "length": 6, "hop": 4},  # nothing is left
        {"wave": recording(17, seed=3), "length": 3, "hop": 5},  # gaps between the frames
        {"wave": recording(9, seed=4), "length": 4, "hop": 1},
        {"wave": recording(25, seed=5), "length": 10, "hop": 2},
    ],
    minutes=4,
    difficulty=1,
    hints=[
        "Draw 13 samples, and under them a frame of 5 that moves by 3. Where does it start the first time, the second, "
        "the third? When does it no longer fit?",
        "Frame i begins at i · hop. The last one may begin at samples - length at the latest, and there is one more "
        "frame than there are steps: 1 + (samples - length) // hop.",
        "wave[places] with a tensor of places (frames, length) takes all frames at once. Row i of the places counts on "
        "from i · hop.",
        "places = hop * torch.arange(n_frames)[:, None] + torch.arange(length). Or a loop: torch.stack of the slices "
        "wave[i * hop : i * hop + length].",
    ],
)


def told(wave, length, hop):
    return f"{len(wave)} samples, length {length}, hop {hop}"


def pieces(subject, wave, length, hop):
    """The student's answer. A torch.stack of no frames at all, which torch refuses, is an answer without frames."""
    before = len(subject.trace)
    try:
        return subject(wave, length, hop)
    except StudentError as error:
        if "non-empty" not in error.message:
            raise
    nothing = wave.new_zeros(0, length)
    subject.trace[before:] = [Event("call", nothing)]
    return nothing


def cut(subject, wave, length, hop):
    """The student's frames, as far as their width is right."""
    got = expect_floats(pieces(subject, wave, length, hop))
    want = speech.frames(wave, length, hop)
    expect(
        got.dim() == 2 and got.shape[1] == length,
        f"The result should have shape (frames, length) = {tuple(want.shape)}, but it has shape {tuple(got.shape)}.",
    )
    return got, want


def cut_to_size(subject, wave, length, hop):
    got, want = cut(subject, wave, length, hop)
    expect(
        len(got) == len(want),
        f"{told(wave, length, hop)}: {len(want)} whole frames fit, but you have {len(got)}.",
    )
    return got, want


def listed(values):
    return [round(value, 3) for value in values.tolist()]


def expect_frames(got, want, wave, length, hop):
    for i, (mine, right) in enumerate(zip(got, want, strict=True)):
        expect(
            is_close(mine, right),
            f"{told(wave, length, hop)}: frame {i} should be the samples {i * hop} to {i * hop + length - 1}, "
            f"{listed(right)}, but yours is {listed(mine)}.",
        )


@framing.property("each row of the result is a frame of `length` samples", points=1)
def frames_shape(subject, case):
    cut(subject, *case.values())


@framing.property("there are as many frames as fit entirely", points=1)
def frames_number(subject, case):
    cut_to_size(subject, *case.values())


@framing.property("frame i begins at sample i · hop", points=2)
def frames_starts(subject, case):
    got, want = cut_to_size(subject, *case.values())
    for i, (mine, right) in enumerate(zip(got[:, 0].tolist(), want[:, 0].tolist(), strict=True)):
        expect(
            abs(mine - right) < 1e-4,
            f"{told(*case.values())}: frame {i} should begin with sample {i * case['hop']}, {right:.3f}, but yours "
            f"begins with {mine:.3f}.",
        )


@framing.property("and holds the samples that follow, unchanged", points=3)
def frames_content(subject, case):
    expect_frames(*cut_to_size(subject, *case.values()), *case.values())


@framing.property("a recording of `length` samples is one frame", points=1)
def frames_single(subject, case):
    short = case["wave"][: case["length"]]
    arguments = (short, case["length"], case["hop"])
    expect_frames(*cut_to_size(subject, *arguments), *arguments)


@framing.misconception
def leaves_out_the_last_frame(wave, length, hop):
    """You count steps, not frames: your last frame is missing. There is one frame before the first step."""
    n_frames = (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def stops_before_an_exact_fit(wave, length, hop):
    """You leave out a frame that ends exactly where the recording ends. It is a whole frame. A range ends before its
    end: starts go up to samples - length, which is included."""
    n_frames = 1 + (len(wave) - length - 1) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def pads_the_rest_with_zeros(wave, length, hop):
    """You fill up what is left at the end with zeros and make a frame of it. Only whole frames count."""
    n_frames = 1 + -(-(len(wave) - length) // hop)
    wave = torch.cat([wave, wave.new_zeros(length + hop)])
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def a_frame_at_every_start(wave, length, hop):
    """You make a frame at 0, hop, 2 · hop, … up to the end of the recording, and fill up with zeros what is missing of
    the last ones. Only whole frames count."""
    n_frames = 1 + (len(wave) - 1) // hop
    wave = torch.cat([wave, wave.new_zeros(length)])
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def repeats_the_last_sample(wave, length, hop):
    """You repeat the last sample until what is left at the end makes a frame. Only whole frames count."""
    n_frames = 1 + -(-(len(wave) - length) // hop)
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places.clamp(max=len(wave) - 1)]


@framing.misconception
def wraps_around(wave, length, hop):
    """Your last frame continues at the beginning of the recording. Only whole frames count."""
    n_frames = 1 + -(-(len(wave) - length) // hop)
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places % len(wave)]


@framing.misconception
def moves_the_last_frame_back(wave, length, hop):
    """Your last frame is the last `length` samples, so that nothing is lost. Every frame begins at a multiple of hop,
    and what is left at the end is dropped."""
    n_frames = 1 + -(-(len(wave) - length) // hop)
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts.clamp(max=len(wave) - length)[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def ignores_the_hop(wave, length, hop):
    """Your frames lie side by side, one after the other, and the hop plays no part. Each begins `hop` samples after the
    one before."""
    n_frames = 1 + (len(wave) - length) // length
    starts = length * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def hop_is_the_overlap(wave, length, hop):
    """You take the hop for the number of samples that two neighbours share. It is the distance between their starts."""
    hop = max(length - hop, 1)
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def moves_by_one_sample(wave, length, hop):
    """Each of your frames begins one sample after the one before. It should begin `hop` samples after it."""
    n_frames = 1 + (len(wave) - length)
    starts = torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def right_number_but_one_sample_apart(wave, length, hop):
    """You have the right number of frames, but each begins one sample after the one before. It should begin `hop`
    samples after it."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def swaps_length_and_hop(wave, length, hop):
    """You use `length` as the hop and `hop` as the length."""
    n_frames = 1 + (len(wave) - hop) // length
    starts = length * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(hop, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def one_column_per_frame(wave, length, hop):
    """Your frames are columns: (length, frames). Each frame is a row."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[None, :] + steps[:, None]
    return wave[places]


@framing.misconception
def centres_the_frames(wave, length, hop):
    """You add half a frame of zeros at both ends, so that frame i is centred at i · hop (torch.stft does so). Here it
    begins there, and nothing is added."""
    half = wave.new_zeros(length // 2)
    wave = torch.cat([half, wave, half])
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def begins_one_hop_late(wave, length, hop):
    """Your frames begin at hop, 2 · hop, …: one hop late. The first begins at sample 0."""
    n_frames = (len(wave) - length) // hop
    starts = hop * torch.arange(1, n_frames + 1, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def counts_from_the_end(wave, length, hop):
    """You count the frames from the end of the recording, so that what is left over is dropped at its beginning. The
    first frame begins at sample 0."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device) + (len(wave) - length) % hop
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def one_sample_too_many(wave, length, hop):
    """Your frames have length + 1 samples: the end of a slice is not part of it, so nothing has to be added."""
    length = length + 1
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places]


@framing.misconception
def returns_the_places(wave, length, hop):
    """You return the places of the samples. The samples themselves are wanted."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return places.to(wave)


@framing.misconception
def applies_the_window(wave, length, hop):
    """You multiply the frames by a Hann window. That comes later: a frame holds the samples as they are."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    return wave[places] * torch.hann_window(length, dtype=wave.dtype)


@framing.misconception
def subtracts_the_mean(wave, length, hop):
    """You subtract its mean from each frame. A frame holds the samples as they are."""
    n_frames = 1 + (len(wave) - length) // hop
    starts = hop * torch.arange(n_frames, device=wave.device)
    steps = torch.arange(length, device=wave.device)
    places = starts[:, None] + steps[None, :]
    pieces = wave[places]
    return pieces - pieces.mean(dim=1, keepdim=True)


@framing.alternative
def with_unfold(wave, length, hop):
    return wave.unfold(0, length, hop)


@framing.alternative
def with_a_loop(wave, length, hop):
    pieces = []
    start = 0
    while start + length <= len(wave):
        pieces.append(wave[start : start + length])
        start += hop
    return torch.stack(pieces)


@framing.alternative
def filled_row_by_row(wave, length, hop):
    starts = range(0, len(wave) - length + 1, hop)
    result = torch.zeros(len(starts), length)
    for row, start in enumerate(starts):
        result[row] = wave[start : start + length]
    return result


@framing.alternative
def with_strides(wave, length, hop):
    wave = wave.contiguous()
    return wave.as_strided(((len(wave) - length) // hop + 1, length), (hop, 1))


@framing.alternative
def with_columns(wave, length, hop):
    columns = [wave[step : len(wave) - length + step + 1 : hop] for step in range(length)]
    return torch.stack(columns).T
