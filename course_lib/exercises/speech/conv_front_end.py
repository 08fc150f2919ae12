"""The exercise `ConvFrontEnd`: what must hold, and what people really write instead.

A case holds the arguments of the constructor, then those of `forward`. The check puts its own numbers into the
parameters and compares with the reference, which holds the same numbers. Frames that are not real may hold anything, in
the input and in the result.
"""

from __future__ import annotations

import functools
import math
from itertools import islice, product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import speech
from course_lib.checking.bench import NotAttempted, StudentError
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, expect_floats, expect_tensor, expect_tuple, is_close
from course_lib.checking.inputs import normal
from course_lib.checking.subject import Event
from course_lib.exercises.multi_head_attention.shared import expect_count, layers_in_plain_lists_explained, listing
from course_lib.speech import ConvFrontEnd
from course_lib.transformer import subsampled_lengths


def recordings(n_mels, d_model, time, lengths, seed):
    """A batch in which the padding holds large numbers, so that it shows where they go."""
    lengths = torch.tensor(lengths)
    padding = torch.arange(time) >= lengths[:, None]
    features = normal(len(lengths), time, n_mels, seed=seed)
    return {
        "n_mels": n_mels,
        "d_model": d_model,
        "features": torch.where(padding[:, :, None], features + 20.0, features),
        "lengths": lengths,
    }


front_end = Exercise(
    speech.ConvFrontEnd,
    cases=[
        recordings(2, 4, time=11, lengths=[11, 8], seed=1),
        recordings(4, 6, time=16, lengths=[9, 16, 6], seed=2),
        recordings(7, 5, time=23, lengths=[20, 13, 23, 2], seed=3),
    ],
    minutes=9,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Two things have to be made: the new frames, and their number for each recording. Two convolutions, so both "
        "things happen twice.",
        "nn.Conv1d takes (batch, channels, time). Swap the last two axes before the convolutions and after them: "
        "transpose(1, 2). (reshape would mix up the numbers.)",
        "In __init__: nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2), and a second one from d_model to d_model. "
        "torch.relu after each.",
        "reference.subsampled_lengths(lengths, kernel=3, stride=2), the exercise of notebook 7, is the number of "
        "frames after one convolution. Call it as often as there are convolutions.",
    ],
)


# --- numbers for the parameters ---------------------------------------------------------------------------


@functools.cache
def numbers(n_mels, d_model):
    """A number for every parameter of the reference, by name."""
    return {
        "conv_1.weight": normal(d_model, n_mels, 3, seed=n_mels, scale=0.8),
        "conv_1.bias": normal(d_model, seed=n_mels + 1, scale=0.5),
        "conv_2.weight": normal(d_model, d_model, 3, seed=n_mels + 2, scale=0.6),
        "conv_2.bias": normal(d_model, seed=n_mels + 3, scale=0.5),
    }


def in_shape(tensor, shape):
    """The ways to see one parameter of the reference in this shape: a kernel with axes of length 1, a matrix."""
    bare = tuple(size for size in shape if size != 1)
    if bare == tuple(tensor.shape):
        return [tensor.reshape(shape)]
    if tensor.dim() == 3 and len(shape) == 2 and shape[0] == len(tensor) and shape[1] == tensor[0].numel():
        return [tensor.flatten(1), tensor.transpose(1, 2).flatten(1)]
    return []


def placements(shapes, case):
    """The ways to put the check's numbers into parameters of these names and shapes, the most natural one first."""
    wanted = numbers(case["n_mels"], case["d_model"])
    if all(shapes.get(name) == tuple(tensor.shape) for name, tensor in wanted.items()):
        return [{name: wanted.get(name, normal(*shape, seed=7)) for name, shape in shapes.items()}]
    choices = []
    biases = [name for name, shape in shapes.items() if math.prod(shape) == case["d_model"]]
    for name, shape in shapes.items():
        if name in biases:
            order = ["conv_1.bias", "conv_2.bias"] if biases.index(name) == 0 else ["conv_2.bias", "conv_1.bias"]
            found = [wanted[bias].reshape(shape) for bias in order]
        else:
            found = [way for tensor in wanted.values() for way in in_shape(tensor, shape)]
        choices.append(found or [normal(*shape, seed=7, scale=0.5)])
    return [dict(zip(shapes, way)) for way in islice(product(*choices), 16)]


def filled(subject, case):
    """The student's module with the check's numbers in it: so that it answers as it should, if there is such a way."""
    built = subject.build(case["n_mels"], case["d_model"])
    ways = placements({name: tuple(shape) for name, shape in built.shapes().items()}, case)
    for way in ways[1:] and ways:
        if answers_right(built, way, case):
            return built
    built.load(ways[0])
    return built


def answers_right(built, way, case):
    with built.unobserved():
        try:
            built.load(way)
            got = built(case["features"], case["lengths"])
        except (StudentError, NotAttempted):
            return False
    new, lengths = right_answer(case)
    got = got[0] if isinstance(got, tuple | list) and got else got
    if not isinstance(got, Tensor) or tuple(got.shape) != tuple(new.shape):
        return False
    return is_close(without_padding(got, lengths), without_padding(new, lengths))


RIGHT_ANSWERS: dict = {}  # a diagnosis asks for the same few answers hundreds of times


def right_answer(case):
    known, answer = RIGHT_ANSWERS.get(id(case), (None, None))
    if known is not case:
        module = ConvFrontEnd(case["n_mels"], case["d_model"]).double()
        module.load_state_dict(numbers(case["n_mels"], case["d_model"]))
        with torch.no_grad():
            answer = module(case["features"], case["lengths"])
        RIGHT_ANSWERS[id(case)] = (case, answer)
    return answer


# --- what is asked ----------------------------------------------------------------------------------------


def without_padding(x, lengths):
    """The result with zeros in the frames that are not real."""
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(real[:, :, None], x.double(), 0.0)


def as_lengths(value):
    """Whole numbers, of whatever type."""
    if isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return torch.tensor(value)
    if isinstance(value, Tensor) and value.is_floating_point() and value.numel() and (value == value.round()).all():
        return value.long()
    return value


def answer_of(built, case):
    """The student's new frames and lengths, as far as their shapes are right."""
    new, new_lengths = right_answer(case)
    before = len(built.trace)
    answer = built(case["features"], case["lengths"])
    changes = [event for event in built.trace[before:] if event.question == "changed"]
    if isinstance(answer, tuple | list) and len(answer) == 2:
        x, lengths = answer[0], as_lengths(answer[1])
        if isinstance(x, Tensor) and x.shape == new.shape:
            x = tuple(without_padding(x, new_lengths))  # recording by recording: so it shows where two modules differ
        built.trace[before:] = [*changes, Event("call", x), Event("lengths", lengths)]
    x, lengths = expect_tuple(answer, ("features", "lengths"))
    x = expect_floats(x, tuple(new.shape), "the tensor of new frames (batch, time', d_model)")
    lengths = expect_tensor(as_lengths(lengths), tuple(new_lengths.shape), "the tensor of lengths")
    expect(lengths.dtype != torch.bool, "The lengths should be whole numbers, but their dtype is torch.bool.")
    return x, lengths


@front_end.property("new frames (batch, time', d_model), their lengths (batch,), and two convolutions", points=1)
def front_end_shapes(subject, case):
    count = sum(tensor.numel() for tensor in numbers(case["n_mels"], case["d_model"]).values())
    built = filled(subject, case)
    with layers_in_plain_lists_explained(built, count):
        answer_of(built, case)
    expect_count(built, count)


@front_end.property("the lengths are those after both convolutions", points=2)
def front_end_lengths(subject, case):
    _, lengths = answer_of(filled(subject, case), case)
    want = right_answer(case)[1]
    for row, (got, right) in enumerate(zip(lengths.tolist(), want.tolist(), strict=True)):
        real = int(case["lengths"][row])
        expect(
            got == right,
            f"Of recording {row}, {real} of {case['features'].shape[1]} frames are real. After two convolutions with "
            f"kernel 3 and stride 2, the number of new frames that saw only real frames is {right}, but your length "
            f"is {got:g}.",
        )


@front_end.property("every real frame is right, whatever the padding holds", points=3)
def front_end_values(subject, case):
    built = filled(subject, case)
    expect_frames(built, case)
    other = {**case, "features": with_other_padding(case)}
    expect_frames(built, other, " after other numbers were put into the padding")


def with_other_padding(case):
    """The same recordings, and 0 in the padding."""
    padding = torch.arange(case["features"].shape[1]) >= case["lengths"][:, None]
    return case["features"].masked_fill(padding[:, :, None], 0.0)


def expect_frames(built, case, when=""):
    x, _ = answer_of(built, case)
    want, lengths = right_answer(case)
    got, want = without_padding(x, lengths), without_padding(want, lengths)
    if not is_close(got, want):
        row, frame, feature = (int(i) for i in (~torch.isclose(got, want, rtol=1e-4, atol=1e-5)).nonzero()[0])
        place = f"Recording {row}, new frame {frame}, feature {feature}"
        raise Failure(
            f"{place} should be {want[row, frame, feature]:.4f}, but yours is {got[row, frame, feature]:.4f}"
            f"{when}. {unknown_parameters(built, case)}".strip()
        )


def unknown_parameters(built, case):
    """A word about parameters that the check cannot place."""
    with built.unobserved():
        found = {name: tuple(shape) for name, shape in built.shapes().items()}
    wanted = numbers(case["n_mels"], case["d_model"])
    shapes = {tuple(tensor.shape) for tensor in wanted.values()}
    if all(tuple(size for size in shape if size != 1) in shapes for shape in found.values()):
        return ""
    return (
        "The check fills your parameters with its own numbers and may not know this way to keep them: "
        f"{listing(found)}. The names in the docstring are always understood."
    )


@front_end.property("in training too, and every parameter learns", points=1)
def front_end_learns(subject, case):
    built = filled(subject, case)
    built.train()
    with built.unobserved():
        x, _ = answer_of(built, case)
    want, lengths = right_answer(case)
    is_same = is_close(without_padding(x, lengths), without_padding(want, lengths))
    built.note("right in training", is_same)
    expect(is_same, "In evaluation mode the new frames are right, in training mode they are not. Is there a dropout?")
    built.train(False)
    if built.changed_inputs:  # the last property says so
        return
    whole = torch.full_like(case["lengths"], case["features"].shape[1])  # so that every new frame is real
    with built.unobserved():
        slopes = built.parameter_gradients(case["features"], whole)
    got = sum(float(slope.double().pow(2).sum()) for slope in slopes.values())
    built.note("squared gradient", got)
    still = [name for name, slope in slopes.items() if not slope.any()]
    expect(
        abs(got / right_squared_gradient(case, whole) - 1) < 1e-3,
        "The new frames are right, but the gradient does not come back to the parameters as it should: is something "
        "detached (.detach(), .data, torch.no_grad) on the way?"
        + (f" No gradient reaches {' and '.join(still)}." if still else ""),
    )


def right_squared_gradient(case, lengths):
    """The sum of all squared slopes: it is the same however the parameters are packed."""
    key = (id(case), "slopes")
    known, total = RIGHT_ANSWERS.get(key, (None, None))
    if known is not case:
        module = ConvFrontEnd(case["n_mels"], case["d_model"]).double()
        module.load_state_dict(numbers(case["n_mels"], case["d_model"]))
        (module(case["features"], lengths)[0] ** 2).sum().backward()
        total = sum(float(parameter.grad.pow(2).sum()) for parameter in module.parameters())
        RIGHT_ANSWERS[key] = (case, total)
    return total


# --- wrong answers ----------------------------------------------------------------------------------------


@front_end.misconception
class KeepsTheLengths(ConvFrontEnd):
    """You return the lengths from before the convolutions. There are far fewer frames after them.

    A mask made from them hides nothing of the padding, and no error says so."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        return x.transpose(1, 2), lengths


@front_end.misconception
class CountsOneConvolution(ConvFrontEnd):
    """Your lengths are those after one convolution. There are two."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class DividesTheLengthsByFour(ConvFrontEnd):
    """Each of your lengths is a quarter of the old one, rounded down. A window has a width, too: without padding at the
    ends fewer of them fit."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = lengths // 4
        return x.transpose(1, 2), lengths


@front_end.misconception
class DividesTheLengthsByFourAndRoundsUp(ConvFrontEnd):
    """Each of your lengths is a quarter of the old one, rounded up, as it would be if both ends were padded
    (padding=1). Here nothing is padded, and only windows of real frames count."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = (lengths + 3) // 4
        return x.transpose(1, 2), lengths


@front_end.misconception
class CountsOneLongWindow(ConvFrontEnd):
    """You count windows of 3 frames that move by 4. After two convolutions a new frame has seen 7 frames: 3 windows of
    3 that move by 2."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=4)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ForgetsTheFirstWindow(ConvFrontEnd):
    """You count steps, (length - 3) // 2 for each convolution. There is one window before the first step."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = ((lengths - 3) // 2).clamp(min=0)
        lengths = ((lengths - 3) // 2).clamp(min=0)
        return x.transpose(1, 2), lengths


@front_end.misconception
class LeavesFractions(ConvFrontEnd):
    """Your lengths have fractions. A number of frames is whole: round down after each convolution."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = ((lengths - 3) / 2 + 1).clamp(min=0)
        lengths = ((lengths - 3) / 2 + 1).clamp(min=0)
        return x.transpose(1, 2), lengths


@front_end.misconception
class CountsBelowZero(ConvFrontEnd):
    """Nothing keeps your lengths from falling below 0. A recording too short for a window has no new frame: 0."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = (lengths - 3) // 2 + 1
        lengths = (lengths - 3) // 2 + 1
        return x.transpose(1, 2), lengths


@front_end.misconception
class LeavesOneFrame(ConvFrontEnd):
    """You leave every recording at least one new frame. If it is too short, no new frame saw only real frames: 0."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths.clamp(min=1)


@front_end.misconception
class AllAreWhole(ConvFrontEnd):
    """All your lengths are the number of new frames in the batch, as if no recording had padding."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        return x.transpose(1, 2), torch.full_like(lengths, x.shape[2])


@front_end.misconception
class ReturnsAMask(ConvFrontEnd):
    """Your second result is a mask. The lengths are wanted, one number for each recording."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), torch.arange(x.shape[2]) < lengths[:, None]


@front_end.misconception
class ReturnsTheFramesAlone(ConvFrontEnd):
    """You return the new frames alone. The new lengths are wanted, too."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        return x.transpose(1, 2)


@front_end.misconception
class SwapsTheResults(ConvFrontEnd):
    """You return the lengths first. The order is new frames, lengths."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return lengths, x.transpose(1, 2)


@front_end.misconception
class LeavesChannelsFirst(ConvFrontEnd):
    """Your new frames are (batch, d_model, time'). The axes have to be swapped back after the convolutions."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x, lengths


@front_end.misconception
class ReshapesTheInput(ConvFrontEnd):
    """You bring the features to (batch, n_mels, time) by reshape or view. The shape is right, but the numbers are mixed
    up: a channel then holds pieces of all frames. Swap the axes instead."""

    def forward(self, features, lengths):
        x = features.reshape(features.shape[0], features.shape[2], features.shape[1])
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ReshapesTheOutput(ConvFrontEnd):
    """You bring the result to (batch, time', d_model) by reshape or view. The shape is right, but the numbers are mixed
    up. Swap the axes instead."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.reshape(x.shape[0], x.shape[2], x.shape[1]), lengths


@front_end.misconception
class ForgetsTheFirstReLU(ConvFrontEnd):
    """The ReLU after the first convolution is missing."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = self.conv_1(x)
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ForgetsTheLastReLU(ConvFrontEnd):
    """The ReLU after the second convolution is missing."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = self.conv_2(x)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class HasNoReLU(ConvFrontEnd):
    """There is no ReLU in your front end. One follows each convolution."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = self.conv_1(x)
        x = self.conv_2(x)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ReLUBeforeEachConvolution(ConvFrontEnd):
    """Your ReLU comes before each convolution. It comes after each of them."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = self.conv_1(torch.relu(x))
        x = self.conv_2(torch.relu(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class UsesGELU(ConvFrontEnd):
    """You use GELU after the convolutions. Here it is ReLU."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = F.gelu(self.conv_1(x))
        x = F.gelu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class LeavesOutTheSecondConvolution(ConvFrontEnd):
    """Your second convolution is never used."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class PadsTheEnds(nn.Module):
    """Your convolutions add a frame of zeros at both ends (padding=1). Here nothing is padded."""

    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2, padding=1)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2, padding=1)

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ForgetsTheStride(nn.Module):
    """Your convolutions have stride 1, the default of nn.Conv1d. It should be 2.

    Time is not shortened."""

    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3)

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ForgetsTheSecondStride(nn.Module):
    """Your second convolution has stride 1. Both have stride 2."""

    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3)

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class ForgetsTheBias(nn.Module):
    """Your convolutions have no bias. Both have one."""

    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv_1 = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2, bias=False)
        self.conv_2 = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2, bias=False)

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = torch.relu(self.conv_2(x))
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


@front_end.misconception
class DropsFrames(ConvFrontEnd):
    """There is dropout in your front end. It has two convolutions, each with a ReLU, and nothing else.

    In training mode some of its numbers are set to 0 at random."""

    def forward(self, features, lengths):
        x = features.transpose(1, 2)
        x = torch.relu(self.conv_1(x))
        x = F.dropout(torch.relu(self.conv_2(x)), 0.5, self.training)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        lengths = subsampled_lengths(lengths, kernel=3, stride=2)
        return x.transpose(1, 2), lengths


# --- right answers ----------------------------------------------------------------------------------------


@front_end.alternative
class WithASequential(nn.Module):
    def __init__(self, n_mels, d_model):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(n_mels, d_model, 3, 2), nn.ReLU(), nn.Conv1d(d_model, d_model, 3, 2), nn.ReLU()
        )

    def forward(self, features, lengths):
        frames = self.layers(features.permute(0, 2, 1)).permute(0, 2, 1)
        for _ in range(2):
            lengths = torch.relu((lengths - 3) // 2 + 1)
        return frames, lengths


@front_end.alternative
class WithZerosInThePadding(ConvFrontEnd):
    def forward(self, features, lengths):
        real = torch.arange(features.shape[1], device=lengths.device) < lengths[:, None]
        x = features * real[:, :, None]
        x = self.conv_2(self.conv_1(x.mT).clamp(min=0)).clamp(min=0).mT
        lengths = ((lengths - 3) // 4).clamp(min=0)  # a new frame has seen 7 frames, and they begin 4 apart
        real = torch.arange(x.shape[1], device=lengths.device) < lengths[:, None]
        return x.masked_fill(~real[:, :, None], 0.0), lengths


@front_end.alternative
class WithWindowsAndLinears(nn.Module):
    def __init__(self, n_mels, d_model):
        super().__init__()
        self.first = nn.Linear(3 * n_mels, d_model)
        self.second = nn.Linear(3 * d_model, d_model)

    def forward(self, features, lengths):
        x = features
        for layer in (self.first, self.second):
            x = torch.relu(layer(x.unfold(1, 3, 2).flatten(2)))
        counts = []
        for length in lengths.tolist():
            counts.append(len([start for start in range(0, length, 4) if start + 7 <= length]))
        return x, torch.tensor(counts)


@front_end.alternative
class WithBareParameters(nn.Module):
    def __init__(self, n_mels, d_model):
        super().__init__()
        self.second = nn.ParameterDict(
            {"weight": torch.randn(d_model, d_model, 3) / 9, "bias": torch.zeros(d_model)},
        )
        self.first = nn.ParameterDict({"weight": torch.randn(d_model, n_mels, 3) / 9, "bias": torch.zeros(d_model)})

    def forward(self, features, lengths):
        x = features.transpose(-1, -2)
        for layer in (self.first, self.second):
            x = F.relu(F.conv1d(x, layer["weight"], layer["bias"], stride=2))
            lengths = torch.clamp(torch.div(lengths - 1, 2, rounding_mode="floor"), min=0)
        return x.transpose(-1, -2).contiguous(), lengths


@front_end.alternative
class WithPicturesOfHeightOne(nn.Module):
    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv_1 = nn.Conv2d(n_mels, d_model, (3, 1), stride=(2, 1))
        self.conv_2 = nn.Conv2d(d_model, d_model, (3, 1), stride=(2, 1))

    def forward(self, features, lengths):
        x = features.transpose(1, 2).unsqueeze(-1)
        x = self.conv_2(self.conv_1(x).relu()).relu()
        return x.squeeze(-1).mT, subsampled_lengths(lengths, 7, 4)
