"""The judge: drives a runner through a submission and writes its reports into the check cells.

A point is given only on evidence computed here, in a process without student code: inputs, references, comparison and
diagnosis are on this side, the student's cells and objects on the other (see `runners`).

A submission is run twice, each time in a process of its own: for the checks that students see, and then for the hidden
cases. Nothing that the second run prints, raises or returns is shown to anybody, so no hidden case can be carried out.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nbformat import NotebookNode

from autograder.classroom.seed import PUBLIC
from autograder.hidden import all_hidden, conceal
from autograder.judging.foreseen import foreseen
from autograder.judging.needed import could_define, made_in, needed
from autograder.judging.ready_made import forbidden_in
from autograder.judging.rebuild import Rebuilt
from autograder.judging.references import message_that_reveals, visible_sources
from autograder.judging.verdict import ExerciseVerdict
from autograder.walls.foresight import Reading
from autograder.walls.inside.walls import Limits
from autograder.walls.runners import BudgetSpent, CellOutput, Clock, Runner, RunnerError, TimeIsUp
from autograder.walls.warm import Warm
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import failed, grade, refusal_of_kind
from course_lib.checking.report import Report
from course_lib.checking.subject import Subject
from course_lib.checking.tried import tried
from course_lib.checking.written_test import WrittenTest
from course_lib.exercises import all_exercises

CHECK, HIDDEN = "_check", "_hidden"
SET_UP = "setup_"  # begins the grade id of the set-up cell of each notebook
OPTIONAL = "_optional"  # the check of an exercise that does not count in this class
USES_THE_REFERENCE = "uses_the_reference"
MOST_RESTARTS = 5  # for a run whose code keeps ending its process
LOOKS_INSIDE = re.compile(
    r"__code__|__globals__|__closure__|f_code|f_locals|getsource|course_lib\.checking|get_objects|get_referrers|settrace"
    r"|setprofile|currentframe|_getframe|ctypes|tb_frame|f_back"
    r"|(?:^|;)[ \t]*+(?:import|from)\b[^\n#;]*\b(?:inspect|dis|gc|marshal)\b|[\"'](?:inspect|dis|gc|marshal)[\"']"
    r"|\b(?:inspect|marshal|monitoring)\.\w"
    r"|Torch(?:Function|Dispatch)Mode|__torch_\w+__|profiler|\bmock\b|setattr\(torch"
    r"|(?<![\w.])(?=[\w.]*?\btorch\.\w)[\w.]++ *+=(?!=)",  # each dotted name is tried once
    re.MULTILINE,
)
REACHES_INTO_THE_CHECKS = re.compile(r"\bcourse_lib\.checking\b|\bcourse_lib[ \t]+import\b[^\n;#]*\bchecking\b")
MISSING_NAME = re.compile(r"name '(\w+)' is not defined")
MOST_PRINTED = 2_000_000  # characters of all cells together that are kept; a page of feedback shows an eighth of it
TOO_MUCH_PRINTED = "(This notebook prints more than is kept: the output of this cell was left out.)"


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds."""

    cell: float = 30.0  # a student's cell, or all questions of one check
    demonstration: float = 600.0  # an instructor's cell
    submission: float = 900.0  # everything together: restarts, second runs and the judge's own work too


@dataclass
class Judged:
    """A submission that has been run and judged: its notebook has the judge's reports in its check cells."""

    notebook: NotebookNode
    exercises: list[ExerciseVerdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    walls: tuple[str, ...] = ()
    cell_seconds: float = 0.0
    printed: int = 0  # characters in the outputs of the student's cells
    peak_bytes: int = 0
    ran_out_of_time: bool = False  # something was stopped that might have finished with more patience


def judge(rebuilt: Rebuilt, warm: Warm, patience: Patience, limits: Limits, seed: str = PUBLIC) -> Judged:
    """Run a rebuilt submission and judge each exercise at its place. seed: of the hidden cases."""
    submission = Submission(rebuilt, warm, patience, limits, seed, Clock(patience.submission))
    judged = Judged(rebuilt.notebook, notes=list(rebuilt.notes))
    visible = Trial(submission, judged, submission.needed_cells())
    visible.run_all()
    if visible.lacks_a_skipped_name():
        judged.notes = list(rebuilt.notes)
        first, visible = visible, Trial(submission, judged, submission.code_cells())
        visible.run_all()
        visible.reports |= {name: first.reports[name] for name in visible.unfinished & first.reports.keys()}
    concealed = Trial(submission, judged, visible.to_run, seen=visible)
    concealed.run_all()
    if submission.reaches_into_the_checks():
        visible.note("A cell mentions `course_lib.checking`, the code of the checks. Please look at it.")
    write_reports(submission, judged, visible.reports, concealed.reports)
    return judged


@dataclass(frozen=True)
class Submission:
    """What is judged, with what, and the time that is left for it."""

    rebuilt: Rebuilt
    warm: Warm
    patience: Patience
    limits: Limits
    seed: str
    clock: Clock
    found_forbidden: dict[str, str | None] = field(default_factory=dict)

    @property
    def cells(self) -> list[NotebookNode]:
        return self.rebuilt.notebook.cells

    @functools.cached_property
    def all_checks(self) -> dict[int, str]:
        """position -> exercise, of its check on the visible cases and of the one on the hidden cases."""
        code = [i for i, cell in enumerate(self.cells) if cell.cell_type == "code"]
        return {i: name for i in code if (name := exercise_of(self.cells[i])) is not None}

    @functools.cached_property
    def checks(self) -> dict[int, str]:
        """position -> exercise, of its check on the visible cases: both are judged there."""
        return {i: name for i, name in self.all_checks.items() if grade_id_of(self.cells[i]).endswith(CHECK)}

    def reaches_into_the_checks(self) -> bool:
        """Whether code of the student's names that of the checks. What asks an answer is in its process, and nothing
        else can see whether an argument is changed in place."""
        own = (cell.source for cell, by_student in zip(self.cells, self.rebuilt.students) if by_student)
        return any(map(REACHES_INTO_THE_CHECKS.search, own))

    def code_cells(self) -> set[int]:
        """All code cells except the checks."""
        return {i for i, cell in enumerate(self.cells) if cell.cell_type == "code"} - self.all_checks.keys()

    def needed_cells(self) -> set[int]:
        """The student's own cells, and those that these need."""
        code = sorted(self.code_cells())
        found = needed([self.cells[i].source for i in code], [self.rebuilt.students[i] for i in code])
        return {code[i] for i in found}

    def forbidden_in(self, exercise: Exercise) -> str | None:
        """What the answer to an exercise uses although it is forbidden there. It is read once for both runs."""
        if exercise.name not in self.found_forbidden:
            code = [(c.source, own) for c, own in zip(self.cells, self.rebuilt.students) if c.cell_type == "code"]
            given = frozenset().union(*(made_in(source) for source, by_student in code if not by_student))
            own = [source for source, by_student in code if by_student]
            self.found_forbidden[exercise.name] = forbidden_in(exercise.name, exercise.forbids, own, given)
        return self.found_forbidden[exercise.name]

    @functools.cached_property
    def opening(self) -> int | None:
        """The position of the cell that every submission of the notebook begins with: the set-up."""
        return next((i for i, cell in enumerate(self.cells) if is_set_up(cell) and not self.rebuilt.students[i]), None)

    @property
    def trains(self) -> bool:
        """Whether right answers use optimisers."""
        return any(map(makes_an_optimiser, self.exercises))

    @functools.cached_property
    def exercises(self) -> list[str]:
        """In the order of the notebook."""
        return list(dict.fromkeys(self.all_checks.values()))

    @functools.cached_property
    def following(self) -> dict[str, str]:
        """exercise -> the next one."""
        return dict(itertools.pairwise(self.exercises))


class Trial:
    """One run through a notebook, for the visible cases or, if these have been `seen`, for the hidden ones."""

    def __init__(self, submission: Submission, judged: Judged, to_run: set[int], seen: Trial | None = None):
        self.submission = submission
        self.judged = judged
        self.to_run = to_run
        self.seen = seen
        self.cells = submission.cells
        self.checks = submission.checks
        self.by_student = submission.rebuilt.students
        self.patience = submission.patience
        self.reports: dict[str, Report] = {}
        self.examined: dict[str, Report] = {}  # before the mistake is looked for
        self.unfinished: set[str] = set()  # exercises for which no time was left
        self.missing: set[str] = set()  # names that the student's code did not find
        self.fatal: set[int] = (
            set() if seen is None else set(seen.fatal)
        )  # cells that ended their runner: not run again
        self.last_error: dict[str, str] = {}  # of the answer cell of an exercise
        self.restarts = 0
        self.asked_again = 0  # exercises whose answer ended the process
        self.runner: Runner | None = None

    def run_all(self) -> None:
        try:
            for i in range(self.end()):
                self.take(i, self.cells[i])
        finally:
            self.close_runner()

    def end(self) -> int:
        """Where to stop: for hidden cases, after the last exercise that still has questions."""
        if self.seen is None:
            return len(self.cells)
        wanted = [i for i in self.checks if self.is_worth_asking(i)]
        return wanted[-1] + 1 if wanted else 0

    def take(self, i: int, cell: NotebookNode) -> None:
        if i in self.checks:
            self.check(i)
        elif cell.cell_type == "code" and i not in self.submission.all_checks:
            self.show(cell, [])
            if i in self.to_run:
                self.run_cell(i, cell)

    def show(self, cell: NotebookNode, outputs: list[NotebookNode]) -> None:
        """Put outputs below a cell. Code that has seen hidden cases shows nothing."""
        if self.seen is not None:
            return
        size = sum(map(characters_in, outputs))
        if size and self.judged.printed + size > MOST_PRINTED:
            outputs = [new_output("stream", name="stdout", text=TOO_MUCH_PRINTED)]
        else:
            self.judged.printed += size
        cell.outputs = outputs

    def note(self, sentence: str) -> None:
        if sentence not in self.judged.notes:
            self.judged.notes.append(sentence)

    # --- the runner ---

    def ready_runner(self, upto: int) -> Runner:
        """The runner, in the state that the cells before `upto` have brought about. After a crash: a new one."""
        if self.runner is not None and self.runner.alive:
            return self.runner
        clock = self.submission.clock
        clock.at_most(self.patience.cell)
        if self.runner is not None:
            self.close_runner()
            self.restarts += 1
            if self.restarts > MOST_RESTARTS + self.asked_again:
                raise RunnerError("It ended its process several times.")
        self.runner = self.new_runner()
        if self.restarts:
            for i in range(upto):
                self.replay_or_skip(i, self.runner)
        return self.runner

    def new_runner(self) -> Runner:
        first, opening = self.submission.exercises[0], self.submission.opening
        set_up = "" if opening is None else self.cells[opening].source
        self.submission.warm.prepare(first, visible_sources(first), self.submission.trains, set_up)
        runner = Runner(self.submission.warm, self.submission.limits, self.submission.clock)
        if not self.begins_with_opening:
            runner.begin_anew()
        self.judged.walls = runner.walls
        return runner

    @property
    def begins_with_opening(self) -> bool:
        """Whether nothing is run before the set-up, so that it has been run for all submissions together."""
        opening = self.submission.opening
        return opening is not None and all(i >= opening for i in self.to_run)

    def replay_or_skip(self, i: int, runner: Runner) -> None:
        """A cell that took just less time than it may take can take more when it is run again. What comes after it is
        run all the same, as in the first process."""
        try:
            self.replay(i, runner)
        except RunnerError as error:
            self.fatal.add(i)
            if isinstance(error, BudgetSpent) or not runner.alive:
                raise
            self.note(f"{describe(self.cells[i])}: it was stopped when it was run again. {error}")

    def replay(self, i: int, runner: Runner) -> None:
        if i in self.checks:
            self.reveal(runner, self.checks[i])
        elif i in self.to_run and i not in self.fatal and not self.has_been_run(i):
            runner.run(self.cells[i].source, self.patience_for(i))

    def has_been_run(self, i: int) -> bool:
        """Whether a cell was run before the runner was forked."""
        return i == self.submission.opening and self.begins_with_opening

    def close_runner(self) -> None:
        if self.runner is not None:
            self.bury(self.runner)

    def bury(self, runner: Runner) -> None:
        runner.bury()
        self.judged.peak_bytes = max(self.judged.peak_bytes, runner.peak_bytes)

    def cells_for(self, upto: int, name: str) -> list[int]:
        """The cells before `upto` that the answer to an exercise needs, and the checks, which reveal references."""
        code = [i for i in sorted(self.to_run) if i < upto]
        sources = [self.cells[i].source for i in code]
        found = needed(sources, [grade_id_of(self.cells[i]) == name for i in code])
        return sorted({code[i] for i in found} | {i for i in self.checks if i < upto})

    def patience_for(self, i: int) -> float:
        return self.patience.cell if self.by_student[i] else self.patience.demonstration

    # --- cells ---

    def run_cell(self, i: int, cell: NotebookNode) -> None:
        if self.seen is not None and i in self.fatal:
            return
        try:
            runner = self.ready_runner(i)
            output = runner.opened if self.has_been_run(i) else runner.run(cell.source, self.patience_for(i))
        except RunnerError as error:
            self.fatal.add(i)
            self.judged.ran_out_of_time |= isinstance(error, TimeIsUp)
            sentence = f"This cell was stopped. {error}"
            self.show(cell, [error_output("Stopped", sentence)])
            self.note(str(error) if isinstance(error, BudgetSpent) else f"{describe(cell)}: {sentence}")
            self.last_error[grade_id_of(cell)] = sentence
            return
        self.judged.cell_seconds += output.seconds
        self.show(cell, outputs_of(output))
        if output.error is not None:
            self.last_error[grade_id_of(cell)] = ": ".join(filter(None, output.error))
            self.note_missing_name(": ".join(output.error))
            self.leave_if_out_of_memory(i, output.error[0])

    def leave_if_out_of_memory(self, i: int, kind: str) -> None:
        """A process that has run out of memory is not reliable any more: what comes next gets a new one."""
        if kind == "MemoryError" and self.runner is not None:
            self.fatal.add(i)
            self.runner.bury()

    def note_missing_name(self, message: str) -> None:
        if "NameError" in message:
            self.missing |= set(MISSING_NAME.findall(message))

    def lacks_a_skipped_name(self) -> bool:
        """Whether a name was missing that a demonstration which was not run may define."""
        skipped = self.submission.code_cells() - self.to_run
        return bool(self.missing) and could_define(self.missing, [self.cells[i].source for i in skipped])

    # --- exercises ---

    def check(self, i: int) -> None:
        """Judge an exercise, and let later answers use its reference."""
        name = self.checks[i]
        if self.seen is None or self.is_worth_asking(i):
            self.reports[name] = self.report(i, all_exercises()[name])
        if self.runner is not None and self.runner.alive:
            self.reveal(self.runner, name)

    def reveal(self, runner: Runner, name: str) -> None:
        runner.reveal(message_that_reveals(name, self.submission.following.get(name)))

    def is_worth_asking(self, i: int) -> bool:
        """Whether hidden cases could tell anything about an answer that has met the visible ones."""
        assert self.seen is not None
        return i not in self.seen.fatal and self.seen.reports[self.checks[i]].outcome != "not attempted"

    def report(self, i: int, exercise: Exercise) -> Report:
        try:
            report = self.report_or_crash(i, exercise)
        except RunnerError as error:
            self.fatal.add(i)
            self.judged.ran_out_of_time |= isinstance(error, TimeIsUp)
            if isinstance(error, BudgetSpent):
                self.unfinished.add(exercise.name)
                self.note(str(error))
            else:
                self.note_stopped(exercise, error)
            words = "The check was stopped." if isinstance(error, TimeIsUp) else "The check could not be completed."
            return failed(exercise, "raised", f"{words} {error}")
        for check in report.checks:
            self.note_missing_name(check.message)
            self.leave_if_out_of_memory(i, "MemoryError" if "raised MemoryError" in check.message else "")
        return report

    def report_or_crash(self, i: int, exercise: Exercise) -> Report:
        self.ready_runner(i)
        try:
            return self.found(i, exercise, self.foreseen(exercise.name))
        except TimeIsUp as error:
            if exercise.name not in self.examined:
                raise
            self.note_stopped(exercise, error)
            return self.examined[exercise.name]
        except RunnerError as error:
            if isinstance(exercise, WrittenTest):
                raise
            return self.asked_one_by_one(i, exercise, error)

    def note_stopped(self, exercise: Exercise, error: RunnerError) -> None:
        self.note(f"{exercise.name}: the code was stopped while it was checked. {error}")

    def asked_one_by_one(self, i: int, exercise: Exercise, error: RunnerError) -> Report:
        """The report on an answer that has ended its process, and with it the answers to all questions that were sent
        together. In another process, what is wrong before that question is found, and perhaps even its cause.

        Only the first examination that is completed counts: an answer that notices that its mistake is looked for must
        not have another try.
        """
        self.asked_again += 1
        report = self.examined.get(exercise.name)
        if report is None:
            report = self.found(i, exercise, is_diagnosed=False)
        self.note_stopped(exercise, error)
        with contextlib.suppress(RunnerError):
            return with_its_cause(report, self.found(i, exercise))
        return report

    def found(self, i: int, exercise: Exercise, foreseen: Sequence[Reading] = (), is_diagnosed: bool = True) -> Report:
        """What the runner's answers tell. Raises RunnerError."""
        found = self.ready_runner(i).find(exercise.name, self.patience.cell, foreseen)
        if found is None:
            return self.undefined(exercise)
        bench, kind = found
        report = refusal_of_kind(exercise, kind) or self.refusal_of_source(exercise)
        report = report or self.graded(i, exercise, Subject(bench), is_diagnosed)
        bench.talk.end()
        return report

    def foreseen(self, name: str) -> list[Reading]:
        """What can be asked at once. What holds on the visible cases will probably hold on the hidden ones."""
        if self.seen is None:
            return foreseen(name)
        return foreseen(name, self.submission.seed, self.seen.reports[name].checks)

    def refusal_of_source(self, exercise: Exercise) -> Report | None:
        """A report on an answer whose source uses what the exercise forbids, or None."""
        if not exercise.forbids:
            return None
        found = self.submission.forbidden_in(exercise)
        if found is None:
            return None
        return failed(exercise, "wrong", f"Write the formula yourself: `{found}` is not allowed in this exercise.")

    def graded(self, i: int, exercise: Exercise, subject: Subject, is_diagnosed: bool) -> Report:
        if isinstance(exercise, WrittenTest):
            return self.tried(i, exercise)
        examined = functools.partial(self.examined.setdefault, exercise.name)
        if self.seen is None:
            return grade(exercise, subject, is_diagnosed=is_diagnosed, examined=examined)
        cases = all_hidden()[exercise.name].cases(self.submission.seed)
        # A mistake on the visible cases has been diagnosed already; only what is right there is diagnosed again.
        is_diagnosed = is_diagnosed and self.seen.reports[exercise.name].passed
        return grade(exercise, subject, cases, is_diagnosed=is_diagnosed, examined=examined)

    def tried(self, i: int, exercise: WrittenTest) -> Report:
        """The report on a test that the student has written. What it is asked is drawn from the secret seed, for the
        visible check too: the order and the disguises that students see are known to them.
        """
        self.note_looks_inside(i, exercise.name)
        seed = self.submission.seed
        cases = exercise.questions(f"shown {seed}") if self.seen is None else all_hidden()[exercise.name].cases(seed)
        with Rounds(self, i, exercise) as rounds:
            return tried(exercise, rounds.subject, cases)

    def note_looks_inside(self, i: int, name: str) -> None:
        """Implementations are in the process of the test. Their disguise keeps code from being recognised at a glance,
        but not from being taken apart: whoever does so is shown to a person.
        """
        own = [self.cells[j].source for j in self.cells_for(i, name) if self.by_student[j]]
        words = sorted(set(LOOKS_INSIDE.findall("\n".join(own))))
        if words:
            named = ", ".join(f"`{word}`" for word in words)
            self.note(
                f"{name}: it should test what an implementation does, but it mentions {named}. Please look at it."
            )

    def undefined(self, exercise: Exercise) -> Report:
        """The cell of the answer did not define it: it raised an error, or the function has another name."""
        error = self.last_error.get(exercise.name)
        if error:
            return failed(exercise, "raised", f"The cell with {exercise.name} did not run: {error}")
        return failed(exercise, "wrong", f"There is no {exercise.name}: define it under exactly this name.")


class Rounds:
    """The processes in which a student's test is tried. Each round of questions has a new one, in which nothing has run
    but the cell of the test and what it needs: nothing that was met in one round can be remembered in another.
    """

    def __init__(self, trial: Trial, i: int, exercise: WrittenTest):
        self.trial = trial
        self.i = i
        self.exercise = exercise
        self.seconds = trial.patience.cell
        self.deadline = time.monotonic() + self.seconds  # for all rounds together
        self.number = -1
        self.runner: Runner | None = None
        self.current: Subject | None = None

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        if self.runner is not None:
            self.trial.bury(self.runner)

    def subject(self, number: int) -> Subject:
        """The test, for this round."""
        if number != self.number or self.current is None:
            self.__exit__()
            self.runner = runner = self.trial.new_runner()
            for i in self.trial.cells_for(self.i, self.exercise.name):
                self.trial.replay(i, runner)
            found = runner.find(self.exercise.name, self.seconds)
            if found is None:
                raise RunnerError("The cell of the test did not define it again.")
            bench, _ = found
            bench.talk.deadline = self.deadline
            self.number, self.current = number, Subject(bench)
        return self.current


# --- what came of it ------------------------------------------------------------------------------------------------


def write_reports(submission: Submission, judged: Judged, visible: dict[str, Report], asked: dict[str, Report]) -> None:
    """The reports become the outputs of their cells, and the verdicts on the exercises."""
    worth = points_in([submission.cells[i] for i in submission.all_checks])
    concealed = {
        name: concealed_report(name, report, asked.get(name)).worth(worth.get(name + HIDDEN, all_hidden()[name].points))
        for name, report in visible.items()
    }
    visible = {name: report.worth(worth[name + CHECK]) for name, report in visible.items()}
    for i, name in submission.all_checks.items():
        submission.cells[i].outputs = [report_output((visible if i in submission.checks else concealed)[name])]
    for name, report in visible.items():
        answer = submission.rebuilt.answers.get(name, "")
        judged.exercises.append(verdict(name, report, concealed[name], answer))


def with_its_cause(report: Report, again: Report) -> Report:
    """The report with the mistake that was found when everything was asked again, if the answers were the same."""
    results, same = ([(check.passed, check.message) for check in each.checks] for each in (report, again))
    return replace(report, diagnosis=again.diagnosis, advice=again.advice) if results == same else report


def concealed_report(name: str, visible: Report, asked: Report | None) -> Report:
    """The report on the hidden cases without the cases."""
    found = visible if asked is None else asked
    return conceal(all_hidden()[name], found if visible.passed else replace(found, diagnosis=visible.diagnosis))


def verdict(name: str, visible: Report, concealed: Report, answer: str) -> ExerciseVerdict:
    diagnosis = visible.diagnosis or concealed.diagnosis
    message = " ".join(check.message for check in visible.checks if check.passed is False)
    misconception, sentence = (diagnosis.id, diagnosis.sentence) if diagnosis else (None, None)
    if "raised ReferenceUsed" in message:
        misconception, sentence = USES_THE_REFERENCE, "The answer calls the course's own reference."
    return ExerciseVerdict(
        name=name,
        outcome=concealed.outcome if visible.passed else visible.outcome,
        points=visible.points,
        max_points=visible.max_points,
        hidden_points=concealed.points,
        hidden_max_points=concealed.max_points,
        misconception=misconception,
        sentence=sentence,
        message=message,
        answer=answer,
    )


@functools.cache
def makes_an_optimiser(name: str) -> bool:
    """Whether the right answer to an exercise does."""
    return "optim" in inspect.getsource(all_exercises()[name].reference)


@functools.cache
def exercise_names() -> frozenset[str]:
    return frozenset(all_exercises())


def grade_id_of(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def is_written_answer(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(cell.metadata.get("nbgrader", {}).get("grade"))


def exercise_of(cell: NotebookNode) -> str | None:
    """The exercise that a check cell, visible or hidden, belongs to; None for any other cell."""
    return checked_by(grade_id_of(cell))


@functools.lru_cache(maxsize=4096)
def checked_by(grade_id: str) -> str | None:
    """The exercise that the check with this grade id belongs to."""
    for suffix in (CHECK, HIDDEN):
        name = grade_id.removesuffix(suffix)
        if name != grade_id and name in exercise_names():
            return name
    return None


def exercises_in(cells: Sequence[NotebookNode]) -> list[str]:
    """The exercises that count, in the order of the notebook."""
    return list(dict.fromkeys(name for cell in cells if (name := exercise_of(cell)) is not None))


def points_in(cells: Sequence[NotebookNode]) -> dict[str, float]:
    """grade id of a check, visible or hidden -> what the class gives for it."""
    return {grade_id_of(cell): float(cell.metadata.nbgrader.points) for cell in cells if exercise_of(cell) is not None}


def optional_exercise(cell: NotebookNode) -> str | None:
    """The exercise that this check belongs to, if it does not count in this class."""
    name = grade_id_of(cell).removesuffix(OPTIONAL)
    return name if name != grade_id_of(cell) and name in exercise_names() else None


def is_set_up(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and grade_id_of(cell).startswith(SET_UP)


def describe(cell: NotebookNode) -> str:
    return f"the cell {grade_id_of(cell)!r}" if grade_id_of(cell) else "a cell of the student's own"


def outputs_of(output: CellOutput) -> list[NotebookNode]:
    """The outputs of a student's cell: what it printed, and its error. No HTML, no pictures, no scripts."""
    made = []
    if output.printed:
        made.append(new_output("stream", name="stdout", text=output.printed))
    if output.complaints:
        made.append(new_output("stream", name="stderr", text=output.complaints))
    if output.error is not None:
        made.append(error_output(*output.error))
    return made


def characters_in(output: NotebookNode) -> int:
    return len(output.get("text", "")) + sum(map(len, output.get("traceback", [])))


def error_output(name: str, message: str) -> NotebookNode:
    return new_output("error", ename=name, evalue=message, traceback=[f"{name}: {message}"])


def report_output(report: Report) -> NotebookNode:
    """A report as the result of its cell: nbgrader reads the score, people the rest."""
    data = NotebookNode(report.for_nbgrader())
    return new_output("execute_result", data=data, metadata=NotebookNode(), execution_count=None)


def new_output(kind: str, **content: Any) -> NotebookNode:
    """As nbformat's function of this name, which checks each output against the format and takes milliseconds."""
    return NotebookNode(output_type=kind, **content)
