"""Questions that are sent together: the same answers count as if each had been asked by itself."""

from __future__ import annotations

import json
import select
import signal
import socket

import pytest
import torch
from classroom import by_name, full, impatient_with, judged, score, solutions, submission, with_one_exercise

from autograder.judging import work
from autograder.judging.foreseen import scripts_for
from autograder.judging.references import visible_sources
from autograder.walls import runners
from autograder.walls.foresight import BEGINNING, MOST_NUMBERS, Answers, Keys, Question, Reading, Script, key_of
from autograder.walls.inside import runner as inside
from autograder.walls.inside.walls import Limits
from autograder.walls.inside.wire import AGAIN, Channel, WireError
from autograder.walls.runners import Runner
from course_lib.exercises import exercises_to_build

pytestmark = [pytest.mark.xdist_group("judge"), pytest.mark.usefixtures("warm_process")]
STEM = "02_masks"


def question(number: int) -> Question:
    return Question(0, "call", ((number,),), None, key_of(BEGINNING, "call", ((number,),)))


ASKED_WITH_ANSWERS = {"CachedAttention"}  # each piece of a sequence comes with the cache of the piece before


def test_every_exercise_has_a_script():
    for name, exercise in exercises_to_build().items():
        if name in ASKED_WITH_ANSWERS:
            assert scripts_for(name) == (), name
            continue
        (checked, *_) = scripts_for(name)
        at_most = len(exercise.properties) * len(exercise.cases)  # some properties ask nothing about some cases
        assert len(exercise.properties) <= len(checked.parts) <= at_most, name


PEEKS = """
import sys
class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None):
        frame = sys._getframe()
        while frame.f_back and "questions" not in frame.f_locals:
            frame = frame.f_back
        found, sent = frame.f_locals.get("questions", []), frame.f_locals.get("details", [])
        ahead = [sent[place][0] for _, operation, place, *_ in found if operation == "call"]
        if cache is None and any(len(args) > 1 for args in ahead):  # the cache that a right answer has returned
            raise LookupError("peeked")
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return self.w_o(F.scaled_dot_product_attention(q, k, v, past).transpose(1, 2).flatten(2)), (k, v)
"""


def test_no_right_answer_is_in_a_question_that_is_sent_ahead():
    """A student's process sees all questions of a message before it answers the first."""
    notebook = with_one_exercise("09_decoding", "CachedAttention")
    master = json.dumps(notebook)
    next(c for c in notebook.cells if c.metadata.nbgrader.grade_id == "CachedAttention").source = PEEKS.strip()
    (answer,) = work.do(work.Task("09_decoding", "student", json.dumps(notebook), master, "")).verdict.exercises
    assert "peeked" not in answer.message
    assert score(answer) == full(answer), "it has looked at everything that there was to see, and then answered"


def test_no_two_questions_have_the_same_key():
    numbers = torch.tensor([1.0, 2.0])
    details = [1, 1.0, True, "1", None, [1], (1,), {1}, {"1": 1}, [[1]], slice(1), ..., numbers, numbers.double()]
    details += [numbers[None], numbers + 1, -numbers * 0, numbers * 0, [numbers[:1], numbers[1:]], [1, 11], [11, 1]]
    keys = [key_of(before, "call", (each,)) for each in details for before in (BEGINNING, b"built")]
    assert len(set(keys)) == len(keys)
    assert key_of(BEGINNING, "call", (numbers.clone(),)) == key_of(BEGINNING, "call", (numbers,))


def test_a_script_is_asked_in_ever_larger_parts_and_no_part_twice():
    script = Script([[question(n)] for n in range(8)])
    reading = Reading(script)
    asked = [reading.next_parts(question(n).key) for n in (0, 1, 3, 7, 0)]
    assert asked == [(0, 1), (1, 3), (3, 7), (7, 8), None]
    out_of_order = Reading(script, at_once=4)
    assert out_of_order.next_parts(question(5).key) == (5, 6)  # a diagnosis asks for something in the middle


def test_an_answer_is_taken_once_and_for_its_own_question_only():
    answers = Answers([question(1), question(2), question(1)])
    for text in (b"first", b"second", b"third"):
        answers.add((text, b""))
    assert answers.place_of(question(3).key) is None
    assert [answers.take(question(n).key)[0] for n in (1, 2, 1)] == [b"first", b"second", b"third"]
    assert answers.place_of(question(1).key) is None


def test_a_right_submission_is_asked_nothing_by_itself(monkeypatch):
    monkeypatch.setattr(runners.Talk, "ask", lambda *_: pytest.fail("this was not foreseen"))
    result = judged(STEM, submission(STEM, solutions(STEM)))
    assert result.verdict.points == result.verdict.max_points


OTHER_NAMES = """
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.stretch, self.move, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x):
        x = x - x.mean(dim=-1, keepdim=True)
        return self.stretch * x / (x.pow(2).mean(dim=-1, keepdim=True) + self.eps).sqrt() + self.move
"""


def test_a_class_whose_parameters_have_other_names_is_asked_one_by_one(monkeypatch):
    """What was foreseen for one with the reference's names does not fit."""
    asked = []
    ask = runners.Talk.ask
    monkeypatch.setattr(runners.Talk, "ask", lambda talk, *details: asked.append(details[1]) or ask(talk, *details))
    notebook = with_one_exercise("05_sublayers", "LayerNorm")
    master = json.dumps(notebook)
    next(c for c in notebook.cells if c.metadata.nbgrader.grade_id == "LayerNorm").source = OTHER_NAMES.strip()
    verdict = work.do(work.Task("05_sublayers", "student", json.dumps(notebook), master, "")).verdict
    assert verdict.points == verdict.max_points, verdict
    assert {"build", "load", "call"} <= set(asked)


CHANGES = """
calls = 0

def causal_mask(n):
    global calls
    calls += 1
    return torch.ones(n, n, dtype=torch.bool).tril({when})
"""


@pytest.mark.parametrize("when", ["calls % 2", "int(calls > 10)", "-int(calls % 3 == 0)"])
def test_each_answer_counts_even_if_the_same_was_asked_before(when):
    """All properties ask for the same masks, and this function does not always give the same."""
    right = judged(STEM, submission(STEM, solutions(STEM) | {"causal_mask": CHANGES.format(when="0")}))
    assert score(by_name(right)["causal_mask"]) == full(by_name(right)["causal_mask"])
    wrong = judged(STEM, submission(STEM, solutions(STEM) | {"causal_mask": CHANGES.format(when=when)}))
    assert score(by_name(wrong)["causal_mask"]) < full(by_name(wrong)["causal_mask"])


def test_the_same_answer_is_sent_and_read_once():
    (script, *_) = scripts_for("causal_mask")
    warm = work.warm_process()
    warm.prepare("padding_mask", visible_sources("padding_mask"))
    runner = Runner(warm, Limits())
    try:
        runner.run("import torch\ndef causal_mask(n):\n    return torch.ones(n, n, dtype=torch.bool).tril()", 60)
        talk = runners.Talk(runner, 60, [Reading(script, at_once=len(script.parts))])
        talk.begin("causal_mask")
        (answers,) = talk.asked
        runner.hear_answers(answers, answers.expected - 1, 60, 60)
        assert answers.expected == 12 and len({id(message) for message in answers.messages}) == 3
        replies = [talk.foreseen(question.key) for question in answers.questions]
        assert len({id(reply["value"]) for reply, _ in replies}) == 3
    finally:
        runner.bury()


class Interrupted(Channel):
    """Its owner is interrupted whenever a message has been read, and before one is written."""

    def receive(self, seconds=None):
        message = super().receive(seconds)
        signal.raise_signal(signal.SIGINT)
        return message

    def send_message(self, message, seconds=None):
        signal.raise_signal(signal.SIGINT)
        super().send_message(message, seconds)


ECHO = {"do": "echo", "number": 7}


@pytest.fixture
def replies_to():
    """What a runner that is interrupted all the time replies to requests, and to an echo after them."""
    before = signal.getsignal(signal.SIGINT)

    def replies_to(*requests):
        ours, theirs = socket.socketpair()
        runner = inside.Runner(Interrupted(theirs, objects=inside.make_object), None)
        signal.signal(signal.SIGINT, runner.stop)
        channel = Channel(ours)
        with ours, theirs:
            for request in (*requests, ECHO):
                channel.send(request)
            ours.shutdown(socket.SHUT_WR)
            runner.serve()
            theirs.close()
            heard = []
            with pytest.raises(WireError, match="is gone"):
                while True:
                    heard.append(channel.receive())
        return heard

    yield replies_to
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_breaks_no_message(replies_to):
    stopped, echo = {"interrupted": True}, {"echo": 7}
    assert replies_to() == [echo]
    assert replies_to({"do": "try_to_read", "paths": []}) == [stopped, echo]
    questions = {"do": "answer", "details": [[]], "questions": [[0, "call", 0, None, None]] * 3}
    assert replies_to(questions) == [stopped, echo], "the first question that is stopped is the last"
    assert replies_to(ECHO, ECHO) == [echo, echo, echo]


def test_an_interrupt_that_comes_too_late_is_not_taken_for_an_answer():
    warm = work.warm_process()
    warm.prepare("padding_mask", visible_sources("padding_mask"))
    runner = Runner(warm, Limits())
    try:
        for _ in range(100):
            runner.channel.send({"do": "run", "source": "1"})
            assert select.select([runner.channel.connection], [], [], 60)[0], "it has finished, nobody has heard it"
            runner.stop_what_it_does()
        assert runner.run("print(7)", 60).printed == "7\n"
    finally:
        runner.bury()


def test_nothing_is_the_same_as_an_answer_that_never_came():
    answers = Answers([question(1), question(2), question(1)])
    answers.add((b"first", b""))
    with pytest.raises(WireError):
        answers.add((AGAIN, b""))
    answers.add((b"second", b""))
    answers.add((AGAIN, b""))
    assert answers.messages[2] is answers.messages[0]


HANGS_LATER = """
def causal_mask(n):
    while n == {hanging}:
        pass
    return torch.zeros(n, n, 2)
"""


def test_a_question_that_was_not_needed_and_hangs_costs_nobody_else():
    """The answer to the first case is wrong, the answer to another never comes: both were asked for together."""
    hanging = exercises_to_build()["causal_mask"].cases[-1]["n"]
    answers = solutions(STEM) | {"causal_mask": HANGS_LATER.format(hanging=hanging)}
    with impatient_with("causal_mask", seconds=2.0):
        result = judged(STEM, submission(STEM, answers))
    assert score(by_name(result)["causal_mask"]) == 0
    assert all(score(e) == full(e) for name, e in by_name(result).items() if name != "causal_mask")


def test_what_one_notebook_may_see_is_not_in_the_process_of_another():
    """The references of notebook 2 are inside the walls while notebook 5 is graded. Afterwards they are not in a
    process for notebook 2, not even in memory that was freed: it descends from one that never held them."""
    warm = work.warm_process()

    def seen(first: str) -> tuple[str, str]:
        warm.prepare(first, visible_sources(first))
        runner = Runner(warm, Limits())
        try:
            source = "import inspect, os\nfrom course_lib import masks\n"
            source += "print(os.getppid(), inspect.getsource(masks.padding_mask))"
            parent, _, text = runner.run(source, 60).printed.partition(" ")
            return parent, text
        finally:
            runner.bury()

    later, before = seen("TokenEmbedding"), seen("padding_mask")
    assert "torch.arange" in later[1] and "torch.arange" not in before[1] and "ReferenceUsed" in before[1]
    assert later[0] != before[0]


def test_what_a_students_module_is_filled_with_is_not_kept():
    """For as long as the grader runs, for every student: a module may have four million numbers."""
    keys, case = Keys(), (torch.arange(6.0),)
    for size in (MOST_NUMBERS, MOST_NUMBERS + 1):
        numbers = ({"gain": torch.zeros(2), "parts": [torch.zeros(size - 2)]},)
        assert keys.key_of(BEGINNING, "load", numbers) == key_of(BEGINNING, "load", numbers)
        keys.key_of(BEGINNING, "call", case)
    assert sorted(details[0] is case[0] for _, details in keys.known.values()) == [False, True]
