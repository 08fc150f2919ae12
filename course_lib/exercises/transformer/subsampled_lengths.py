"""The exercise `subsampled_lengths`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type

subsampled_lengths = Exercise(
    reference.subsampled_lengths,
    cases=[
        {"lengths": torch.tensor([3, 4, 5, 6, 7]), "kernel": 3, "stride": 2},
        {"lengths": torch.tensor([60, 100]), "kernel": 3, "stride": 2},
        {"lengths": torch.tensor([11, 2, 8, 5, 1, 3]), "kernel": 5, "stride": 3},
        {"lengths": torch.tensor([9, 4, 7]), "kernel": 2, "stride": 1},
        {"lengths": torch.tensor([10, 13, 3, 6]), "kernel": 1, "stride": 4},
    ],
    minutes=8,
    difficulty=2,
    hints=[
        "Draw seven frames and a window of three that moves by two. Where does it start the first time, the "
        "second, the "
        "third? When does it no longer fit?",
        "The first window always starts at 0. The last start is at most length - kernel. How many steps of `stride` "
        "is that? There is one more window than steps.",
        "Round down: torch.div(a, b, rounding_mode='floor') or a // b. Then no length may be below 0: clamp(min=0).",
    ],
)


def lengths_of(subject, case):
    got = subject(*case.values())
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if not isinstance(got, Tensor):
        raise Failure(f"The result should be a torch tensor, but it is {name_of_type(got)}.")
    expect(
        tuple(got.shape) == tuple(case["lengths"].shape),
        f"The result should have shape {tuple(case['lengths'].shape)}, but it has shape {tuple(got.shape)}.",
    )
    expect(got.dtype != torch.bool, "The result should hold whole numbers, but its dtype is torch.bool.")
    expect(not got.isnan().any() if got.is_floating_point() else True, "The result contains NaN (not a number).")
    return got


def expect_lengths(got, case, chosen):
    """The lengths at the chosen places are right."""
    for index in chosen.nonzero().flatten().tolist():
        length, kernel, stride = int(case["lengths"][index]), case["kernel"], case["stride"]
        want = int(subsampled_lengths.want(case)[index])
        windows = "1 window" if want == 1 else f"{want} windows"
        expect(
            float(got[index]) == want,
            f"A recording of length {length} has room for {windows} of width {kernel} if each begins {stride} after "
            f"the one before, but your number is {float(got[index]):g}.",
        )


@subsampled_lengths.property("one number for each recording", points=1)
def lengths_shape(subject, case):
    lengths_of(subject, case)


@subsampled_lengths.property("right where the last window fits exactly", points=1)
def lengths_exact(subject, case):
    fits = (case["lengths"] >= case["kernel"]) & ((case["lengths"] - case["kernel"]) % case["stride"] == 0)
    expect_lengths(lengths_of(subject, case), case, fits)


@subsampled_lengths.property("a window that does not fit entirely does not count", points=1)
def lengths_rounding(subject, case):
    expect_lengths(lengths_of(subject, case), case, case["lengths"] >= case["kernel"])


@subsampled_lengths.property("a recording shorter than the window has no frames left: 0, never less", points=1)
def lengths_short(subject, case):
    expect_lengths(lengths_of(subject, case), case, case["lengths"] < case["kernel"])


@subsampled_lengths.misconception
def keeps_the_lengths(lengths, kernel, stride):
    """You return the lengths from before the convolution. After it there are fewer frames.

    A mask made from them would be too long.
    """
    return lengths


@subsampled_lengths.misconception
def divides_by_the_stride(lengths, kernel, stride):
    """You only divide by the stride. The window's own width counts too: the last start is at length - kernel."""
    last_start = lengths
    windows = torch.div(last_start, stride, rounding_mode="floor")
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def divides_by_the_stride_and_rounds_up(lengths, kernel, stride):
    """You divide by the stride and round up, as if the ends were padded. Here only windows of real frames count."""
    last_start = lengths + stride - 1
    windows = torch.div(last_start, stride, rounding_mode="floor")
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def forgets_the_first_window(lengths, kernel, stride):
    """You count steps, not windows: there is one window before the first step."""
    last_start = lengths - kernel
    windows = torch.div(last_start, stride, rounding_mode="floor")
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def forgets_the_stride(lengths, kernel, stride):
    """You count every start; but the window moves by `stride` frames at a time."""
    last_start = lengths - kernel
    windows = last_start + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def divides_with_the_first_window(lengths, kernel, stride):
    """You add the one for the first window before you divide. It is one more window, not one more frame."""
    last_start = lengths - kernel + 1
    windows = torch.div(last_start, stride, rounding_mode="floor")
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def rounds_up(lengths, kernel, stride):
    """You round up. A window that does not fit entirely does not count.

    Your last window reaches beyond the recording, into the padding.
    """
    last_start = lengths - kernel + stride - 1
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def leaves_fractions(lengths, kernel, stride):
    """You leave fractions. A number of frames is whole: round down."""
    last_start = lengths - kernel
    windows = last_start / stride + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def counts_below_zero(lengths, kernel, stride):
    """Nothing keeps your numbers from falling below 0. A recording shorter than the window has no frames left: 0."""
    last_start = lengths - kernel
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows


@subsampled_lengths.misconception
def leaves_one_frame(lengths, kernel, stride):
    """You leave every recording at least one frame. If it is shorter than the window, no window fits: 0."""
    last_start = lengths - kernel
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=1)


@subsampled_lengths.misconception
def rounds_towards_zero(lengths, kernel, stride):
    """You round negative numbers up, towards 0. Round down.

    As it is, a recording a little shorter than the window gets a frame, though nothing fits there.
    """
    last_start = lengths - kernel
    windows = torch.div(last_start, stride, rounding_mode="trunc") + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def swaps_kernel_and_stride(lengths, kernel, stride):
    """Kernel and stride are swapped: the window is `kernel` wide and moves by `stride`."""
    last_start = lengths - stride
    windows = torch.div(last_start, kernel, rounding_mode="floor") + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def divides_before_it_subtracts(lengths, kernel, stride):
    """You divide the length by the stride and subtract the kernel afterwards. The kernel is counted in frames of the
    input: subtract it first.
    """
    last_start = lengths
    windows = torch.div(last_start, stride, rounding_mode="floor") - kernel + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def divides_the_kernel(lengths, kernel, stride):
    """You divide the kernel by the stride. It is the whole difference, length - kernel, that is divided: mind the
    parentheses.
    """
    last_start = lengths - kernel // stride
    windows = last_start + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def forgets_the_kernel(lengths, kernel, stride):
    """You count as if a window could begin at the very end of the recording. Its own width counts too: the last start
    is at length - kernel.
    """
    last_start = lengths
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def begins_one_frame_too_late(lengths, kernel, stride):
    """You let the last window begin at length - kernel - 1 at most. Starts count from 0: one at length - kernel still
    fits.
    """
    last_start = lengths - kernel - 1
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def rounds_to_the_nearest(lengths, kernel, stride):
    """You round to the nearest whole number. A window that does not fit entirely does not count: round down."""
    last_start = lengths - kernel
    windows = torch.round(last_start / stride) + 1
    return windows.clamp(min=0)


@subsampled_lengths.misconception
def pads_the_ends(lengths, kernel, stride):
    """You count as if there were half a window of padding at each end. Here nothing is padded."""
    last_start = lengths + 2 * (kernel // 2) - kernel
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)


@subsampled_lengths.alternative
def by_floor_division(lengths, kernel, stride):
    return torch.relu((lengths - kernel) // stride + 1)


@subsampled_lengths.alternative
def by_counting_windows(lengths, kernel, stride):
    counts = [len([s for s in range(0, n, stride) if s + kernel <= n]) for n in lengths.tolist()]
    return torch.tensor(counts)


@subsampled_lengths.alternative
def by_rounding_up_first(lengths, kernel, stride):
    return torch.ceil((lengths - kernel + 1).clamp(min=0) / stride)


@subsampled_lengths.alternative
def with_a_convolution(lengths, kernel, stride):
    result = []
    for n in lengths.tolist():
        if n < kernel:
            result.append(0)
        else:
            result.append(
                nn.functional.conv1d(torch.zeros(1, 1, n), torch.zeros(1, 1, kernel), stride=stride).shape[-1]
            )
    return torch.tensor(result)
