"""Messages between judge and runner: plain data goes through unchanged, and nothing else goes through."""

from __future__ import annotations

import json
import math
import socket
import threading

import pytest
import torch

from autograder.walls.inside import runner, wire
from autograder.walls.inside.wire import HEADER, Channel, Late, WireError, decode, encode
from autograder.walls.runners import RemoteBench, Talk
from course_lib.checking.bench import Bench, Opaque
from course_lib.checking.grading import grade
from course_lib.checking.inputs import AffineMap, NextTokenTable
from course_lib.checking.settings import TinyTraining
from course_lib.checking.subject import Subject, same_answer
from course_lib.exercises import all_exercises


def through(value, **options):
    message = encode(value)
    length, _ = HEADER.unpack(message[: HEADER.size])
    body = message[HEADER.size :]
    return decode(body[:length], body[length:], **options)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -1.5,
        math.inf,
        "text ✓",
        [],
        (),
        [1, (2, [3])],
        {"a": (1, 2), "b": {}},
        {"x", "y"},
        slice(1, None, 2),
        ...,
    ],
)
def test_plain_data_comes_back_equal(value):
    assert through(value) == value
    assert type(through(value)) is type(value)


@pytest.mark.parametrize("dtype", sorted(wire.DTYPES))
def test_tensors_come_back_equal(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(wire.DTYPES[dtype]).T
    back = through(tensor)
    assert back.dtype == tensor.dtype
    assert torch.equal(back, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_odd_shapes_come_back(shape):
    assert through(torch.ones(shape)).shape == torch.Size(shape)


def test_nan_comes_back():
    assert through(torch.tensor([math.nan, 1.0])).isnan().tolist() == [True, False]
    assert math.isnan(through(math.nan))


def test_what_is_not_plain_comes_back_as_the_name_of_its_type():
    assert through(object()) == "object"
    assert through(Opaque("numpy.ndarray"), opaque=Opaque) == Opaque("numpy.ndarray")


def test_callable_arguments_reach_the_runner():
    table = NextTokenTable(torch.rand(1, 5).double(), torch.rand(2, 5, 5).double())
    there = through(table, objects=runner.make_object)
    ids = torch.tensor([[1, 2]])
    assert torch.equal(there(ids), table(ids))


def test_settings_reach_the_runner():
    setting = TinyTraining.random(vocab=5, d_model=3, seed=1, learning_rate=0.1)
    there = through(setting, objects=runner.make_object)
    assert same_answer(dict(there.weights), dict(setting.weights))
    assert there.learning_rate == 0.1


NUMBERS = torch.tensor([[1.0, -2.0], [0.5, 0.0]])
DIFFERENT = [None, 0, 0.0, -0.0, False, "0", "", (), [], {}, [0], (0,), (0, 0), {"a": 0}, {"b": 0}, {"a": 0, "b": 0}]
DIFFERENT += [NUMBERS, NUMBERS.double(), NUMBERS[0], NUMBERS.T.contiguous(), NUMBERS * 1.0000002, -NUMBERS]
DIFFERENT += [torch.tensor(0.0), torch.tensor(-0.0), torch.zeros(0), torch.zeros(0, 2), (NUMBERS, 1), [NUMBERS, 1]]


def test_the_same_message_means_the_same_value():
    for i, first in enumerate(DIFFERENT):
        for j, second in enumerate(DIFFERENT):
            assert (encode(first) == encode(second)) == (i == j), (first, second)
    transposed = NUMBERS.T
    assert encode({"value": transposed, "changed": [1]}) == encode({"value": transposed.contiguous(), "changed": [1]})
    assert encode(math.nan) == encode(math.nan) and encode(NUMBERS * math.nan) == encode(NUMBERS * math.nan)


@pytest.mark.parametrize("value", ['"quotes" \\ \n ✓ \ud800', 10**400, -0.0, math.nan, -math.inf, 1e-300, True, None])
def test_scalars_are_written_as_the_json_module_writes_them(value):
    assert wire.scalar_text(value) == json.dumps(value)


def test_the_judge_takes_no_objects():
    with pytest.raises(WireError):
        through(AffineMap(torch.ones(2, 2), torch.ones(2)))


class RunnerHere:
    """A runner in this process. What it is asked and what it replies go through the wire all the same."""

    def __init__(self, obj):
        self.inside = runner.Runner(channel=None, cells=None)
        self.inside.benches = {0: Bench(obj)}

    def request(self, seconds, do, *, limit, **details):
        reply = getattr(self.inside, f"do_{do}")(**through(details, objects=runner.make_object))
        return through(reply, opaque=Opaque)


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [
        ("split_heads", "forgets_the_exchange"),  # its gradient is asked for at a place that it does not have
        ("TokenEmbedding", "AddsARow"),  # the check's numbers do not fit into its table
        ("softmax", "returns_exp_of_x"),
        ("train_step", "returns_the_graph"),
        ("Encoder", "ForgetsTheNormAtTheEnd"),
    ],
)
def test_the_judge_names_what_the_notebook_names(exercise, mistake):
    exercise = all_exercises()[exercise]
    (wrong,) = (m for m in exercise.misconceptions if m.__name__ == mistake)
    here, there = Subject(wrong), Subject(RemoteBench(Talk(RunnerHere(wrong), seconds=1e6)))
    reports = [grade(exercise, subject) for subject in (here, there)]
    assert [report.misconception for report in reports] == [mistake, mistake]
    assert reports[0].points == reports[1].points


def test_the_judge_accepts_a_table_with_sparse_gradients():
    exercise = all_exercises()["TokenEmbedding"]
    (right,) = (a for a in exercise.alternatives if a.__name__ == "DerivedFromTorchs")
    assert right(7, 4).sparse
    assert grade(exercise, Subject(RemoteBench(Talk(RunnerHere(right), seconds=1e6)))).passed


HOSTILE = {
    "no JSON": b"{",
    "deep nesting": b"[" * 100_000,
    "nested beyond the cap": b"[" * 60 + b"]" * 60,
    "unknown kind": b'{"pickle": "gASV"}',
    "two kinds": b'{"tuple": [], "dict": []}',
    "no kind": b"{}",
    "an object": b'{"object": ["os", "system", {}]}',
    "a tensor without bytes": b'{"tensor": ["float32", [2, 2], 0]}',
    "a tensor before the bytes": b'{"tensor": ["float32", [1], -4]}',
    "a negative shape": b'{"tensor": ["float32", [-1], 0]}',
    "an endless shape": b'{"tensor": ["float32", [99999999999999999999], 0]}',
    "a shape of truth values": b'{"tensor": ["float32", [true], 0]}',
    "an unknown dtype": b'{"tensor": ["object", [1], 0]}',
    "an endless number": b"9" * 10_000,
    "a dict of no pairs": b'{"dict": [[1, 2, 3]]}',
    "a set of lists": b'{"set": [[1]]}',
    "not UTF-8": b'"\xff\xfe"',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_messages_are_refused(text):
    with pytest.raises(WireError):
        decode(text, b"")


def test_the_same_bytes_named_often_are_counted_often():
    """A reply of a few bytes must not take up gigabytes here."""
    tensor = {"tensor": ["uint8", [wire.MOST_BYTES // 4], 0]}
    blob = bytes(wire.MOST_BYTES // 4)
    assert len(decode(json.dumps([tensor] * 3).encode(), blob)) == 3
    with pytest.raises(WireError, match="too many tensors"):
        decode(json.dumps([tensor] * 40).encode(), blob)


def test_a_stranger_sends_a_limited_number_of_values():
    assert len(decode(json.dumps([0] * 1000).encode(), b"")) == 1000
    with pytest.raises(WireError, match="too many values"):
        decode(json.dumps([0] * wire.MOST_VALUES).encode(), b"")


def test_a_stranger_sends_a_limited_number_of_tensors():
    """To read one takes as long as to read many numbers."""
    assert len(decode(json.dumps([{"tensor": ["bool", [1], 0]}] * 1000).encode(), b"1")) == 1000
    with pytest.raises(WireError, match="too many values"):
        decode(json.dumps([{"tensor": ["bool", [1], 0]}] * 10_000).encode(), b"1")


def test_names_are_short():
    (name,) = decode(json.dumps({"dict": [["n" * 10_000, 1]]}).encode(), b"")
    assert len(name) == wire.LONGEST_NAME


def test_long_and_unwritable_texts_are_tamed():
    assert len(decode(json.dumps("x" * 10**6).encode(), b"")) == wire.LONGEST_TEXT
    decode(b'"\\ud800"', b"").encode("utf-8")


def test_values_that_contain_themselves_cannot_be_sent():
    endless: list = []
    endless.append(endless)
    with pytest.raises(WireError):
        encode(endless)


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("text", "blob"), [(wire.MOST_TEXT + 1, 0), (2, wire.MOST_BYTES + 1)])
def test_a_message_that_is_announced_too_long_is_not_read(ends, text, blob):
    channel, other = ends
    other.sendall(HEADER.pack(text, blob))
    with pytest.raises(WireError, match="too long"):
        channel.receive(5)


def test_silence_and_half_a_message_are_late(ends):
    channel, other = ends
    with pytest.raises(Late):
        channel.receive(0.05)
    other.sendall(HEADER.pack(10, 0) + b"123")
    with pytest.raises(Late):
        channel.receive(0.05)


def test_a_closed_connection_is_noticed(ends):
    channel, other = ends
    other.close()
    with pytest.raises(WireError, match="gone"):
        channel.receive(5)


def test_somebody_who_does_not_listen_is_late(ends):
    channel, _ = ends
    with pytest.raises(Late):
        channel.send("x" * 10**7, 0.05)


def test_large_tensors_cross(ends):
    channel, other = ends
    tensor = torch.rand(300, 1000)
    sender = threading.Thread(target=lambda: Channel(other).send({"value": tensor}))
    sender.start()
    assert torch.equal(channel.receive(30)["value"], tensor)
    sender.join()
