"""Tries a student's test on right and wrong implementations, and says what it missed."""

from __future__ import annotations

import ast
import functools
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from .bench import NotAttempted
from .diagnosis import deed_of, sentence_of
from .disguise import Implementation, disguised, text_of
from .exercise import REGISTRY, Case, Exercise
from .expect import name_of_type
from .patience import TimeIsUp, at_most
from .programs import Program
from .properties import NOTHING_WRITTEN, Examination, describe_case, describe_error, describe_value, failed
from .report import CheckResult, Diagnosis, Outcome, Report
from .subject import Subject
from .written_test import ACCEPTS, CATCHES, Reply, WrittenTest, reply_to, whole_points

MOST_NAMED = 3  # things that a test missed, in the name of what is wrong with it
REFUSES, LETS_THROUGH = "refuses_", "lets_through_"  # begin the ids of what it missed
A_RIGHT_ONE = "refuses a right implementation"


def tried(
    exercise: WrittenTest,
    subject_of: Callable[[int], Subject],
    cases: Sequence[Case] | None = None,
    seconds: float | None = None,
    is_diagnosed: bool = True,
) -> Report:
    """The report on a test. `subject_of`: the test, for each round of questions."""
    replies = []
    try:
        for case in exercise.questions() if cases is None else cases:
            with at_most(seconds):
                replies.append(reply_to(subject_of(case["round"]), case))
    except NotAttempted:
        return failed(exercise, "not attempted", NOTHING_WRITTEN)
    except (TimeIsUp, KeyboardInterrupt) as end:
        if seconds is None:  # nobody is waiting in a notebook: an interrupt is meant for the whole program
            raise
        why = f"was still running after {seconds:g} s" if isinstance(end, TimeIsUp) else "was interrupted"
        return failed(exercise, "stopped", f"Your test {why}. Is there a loop that does not end?")
    odd = next((reply for reply in replies if reply.error is None and not isinstance(reply.value, bool)), None)
    if odd is not None:
        words = "None: is a `return` missing?" if odd.value is None else f"{described(odd.value)}."
        return failed(exercise, "wrong", f"Return True to accept, False to reject. Your test returned {words}")
    return Findings(exercise, replies).report(is_diagnosed)


def described(value: Any) -> str:
    return describe_value(value) if isinstance(value, Tensor | int | float | str) else name_of_type(value)


class Findings:
    """What a test said about each implementation. One that is asked about again has to get the same answer."""

    def __init__(self, exercise: WrittenTest, replies: Sequence[Reply]):
        self.exercise = exercise
        self.replies = replies
        names = {reply.case["stands_for"]: reply.case["is_right"] for reply in replies}
        self.right = [name for name in exercise.right if names.get(name) is True]
        self.wrong = [name for name in exercise.mistakes if names.get(name) is False]
        missed = {reply.case["stands_for"]: reply for reply in reversed(replies) if not reply.is_right}
        self.refused = {name: missed[name] for name in self.right if name in missed}
        self.slipped = [name for name in self.wrong if name in missed]

    def report(self, is_diagnosed: bool) -> Report:
        exercise = self.exercise
        accepted, caught = len(self.right) - len(self.refused), len(self.wrong) - len(self.slipped)
        points = whole_points(exercise.points, accepted / len(self.right), caught / len(self.wrong))
        diagnosis = self.diagnosis() if is_diagnosed and self.outcome == "wrong" else None
        said = diagnosis.sentence if diagnosis else ""
        first, second = f"{ACCEPTS}: {accepted} of {len(self.right)}", f"{CATCHES}: {caught} of {len(self.wrong)}"
        return Report(
            exercise.name,
            self.outcome,
            (
                CheckResult(first, not self.refused, self.words_on_refused(said), 0.0, 0.0),
                CheckResult(second, not self.slipped, self.words_on_slipped(said), points, exercise.points),
            ),
            diagnosis,
            num_hints=len(exercise.hints),
            is_attempt=len({reply.accepts for reply in self.replies}) > 1,
        )

    @property
    def outcome(self) -> Outcome:
        if not self.refused and not self.slipped:
            return "right"
        return "raised" if all(reply.error for reply in self.replies) else "wrong"

    # --- in words ---

    def words_on_refused(self, said: str) -> str:
        """The first right implementation that was refused, and how it differs. `said`: what the student reads first."""
        if not self.refused:
            return ""
        name, reply = next(iter(self.refused.items()))
        error = f"There {describe_error(self.exercise, reply.error)}." if reply.error else ""
        also = also_named("Also refused", self.refused)
        difference = difference_of(self.exercise.tested, self.exercise.right[name])
        return joined(said, sentence_about(self.exercise, REFUSES + name), difference, error, also)

    def words_on_slipped(self, said: str) -> str:
        """The first mistake that slipped through, and what would have shown it."""
        if not self.slipped:
            return ""
        name = self.slipped[0]
        also = also_named("Also let through", self.slipped)
        return joined(
            said, sentence_about(self.exercise, LETS_THROUGH + name), shown_by(self.exercise.tested.name, name), also
        )

    def diagnosis(self) -> Diagnosis | None:
        """The listed wrong test that answers as this one does; else what was refused and what slipped through."""
        answers = {reply.case["stands_for"]: reply.accepts for reply in self.replies}
        for wrong in self.exercise.misconceptions:
            if all(accepts(self.exercise.name, wrong.__name__, name) == answer for name, answer in answers.items()):
                return Diagnosis(wrong.__name__, sentence_of(wrong))
        names = [*(REFUSES + name for name in self.refused), *(LETS_THROUGH + name for name in self.slipped)]
        return Diagnosis(" + ".join(names[:MOST_NAMED]), sentence_about(self.exercise, names[0]))


def sentence_about(exercise: WrittenTest, name: str) -> str:
    """What a test missed, from its id; empty if the exercise does not know it."""
    if name.startswith(REFUSES):
        return f"Your test {A_RIGHT_ONE}, `{name.removeprefix(REFUSES)}`."
    mistake = exercise.known.get(name.removeprefix(LETS_THROUGH))
    return f'Your test lets a mistake through, `{mistake.__name__}`: "{deed_of(mistake)}"' if mistake else ""


def joined(said: str, *sentences: str) -> str:
    """The sentences that have not been said yet."""
    return " ".join(sentence for sentence in sentences if sentence and sentence != said)


def also_named(words: str, names: Sequence[str] | Mapping[str, Any]) -> str:
    more = [f"`{name}`" for name in list(names)[1:]]
    return f"{words}: {', '.join(more)}." if more else ""


@functools.cache
def accepts(exercise_name: str, wrong_test: str, name: str) -> bool:
    """Whether one of the wrong tests of an exercise accepts an implementation."""
    exercise = REGISTRY[exercise_name]
    assert isinstance(exercise, WrittenTest)
    test = next(wrong for wrong in exercise.misconceptions if wrong.__name__ == wrong_test)
    return reply_to(Subject(test), {"program": in_a_disguise(exercise_name, name), "is_right": True}).accepts


@functools.cache
def in_a_disguise(exercise_name: str, name: str) -> Program:
    """An implementation that the tests of an exercise are asked about, always in the same disguise."""
    exercise = REGISTRY[exercise_name]
    assert isinstance(exercise, WrittenTest)
    return disguised(exercise.tested, {**exercise.right, **exercise.mistakes}[name], random.Random(0))


# --- what would have shown a mistake, and how a right answer differs ------------------------------------------------


@functools.cache
def shown_by(exercise_name: str, mistake: str) -> str:
    """The smallest input on which a mistake shows, and what its own check says about it there."""
    exercise = REGISTRY[exercise_name]
    wrong = next(wrong for wrong in exercise.misconceptions if wrong.__name__ == mistake)
    case = smallest(exercise, wrong)
    result = next(result for result in examined(exercise, wrong, case).results if result.passed is False)
    said = result.message.removeprefix(f"On the input {describe_case(case)}: ")
    return f'The smallest input that shows it: {describe_case(case)}. There its own check says: "{said}"'


def examined(exercise: Exercise, implementation: Implementation, case: Case) -> Examination:
    return Examination(exercise, Subject(implementation), [case]).run()


def smallest(exercise: Exercise, wrong: Implementation) -> Case:
    """The smallest of the exercise's cases that show a mistake, made smaller as long as it does."""
    case = next(c for c in sorted(exercise.cases, key=size_of) if examined(exercise, wrong, c).outcome != "right")
    while True:
        for smaller in smaller_ones(case):
            shows = examined(exercise, wrong, smaller).outcome != "right"
            if shows and examined(exercise, exercise.reference, smaller).outcome == "right":
                case = smaller
                break
        else:
            return case


def smaller_ones(case: Case) -> Iterator[Case]:
    """The cases with one whole number halved, or less by one. Where there is more than whole numbers, they may not fit
    together."""
    if all(type(value) is int for value in case.values()):
        for name, value in case.items():
            if value > 3:
                yield {**case, name: value // 2}
        for name, value in case.items():
            if value > 1:
                yield {**case, name: value - 1}


def size_of(value: Any) -> int:
    """How much there is to read in an input."""
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple | set):
        return sum(map(size_of, value))
    return value if type(value) is int and value > 0 else 1


@functools.cache
def code_of(implementation: Implementation, reference: Implementation) -> str:
    """Its last line, or of a class that of `forward`."""
    tree = ast.parse(text_of(implementation, reference)).body[0]
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    forward = next((method for method in methods if method.name == "forward"), methods[0])
    return ast.unparse(forward.body[-1])


def difference_of(exercise: Exercise, right: Implementation) -> str:
    """How a right implementation differs from the reference, in a line."""
    if right is exercise.reference:
        return "It is the course's own."
    if right.__doc__:
        return inspect.cleandoc(right.__doc__)
    dtypes = [dtype_of_result(exercise, program) for program in (right, exercise.reference)]
    if all(dtypes) and dtypes[0] != dtypes[1]:
        return f"It returns {dtypes[0]}, where the course's own returns {dtypes[1]}."
    return f"It is only written differently: `{code_of(right, exercise.reference)}`."


def dtype_of_result(exercise: Exercise, program: Implementation) -> str:
    """The dtype of what it returns for the first case, if that is a tensor."""
    try:
        result = Subject(program)(*exercise.cases[0].values())
    except Exception:  # a class, or something that wants more than plain data
        return ""
    return str(result.dtype) if isinstance(result, Tensor) else ""
