"""The judge: drives a runner through a submission and writes its reports into the check cells.

A point is given only on evidence computed here, in a process without student code: inputs, references, comparison and
diagnosis are on this side, the student's cells and objects on the other (see `runners`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nbformat import NotebookNode

from autograder.hidden import Hidden, all_hidden, conceal
from autograder.inside.walls import Limits
from autograder.needed import needed
from autograder.rebuild import Rebuilt
from autograder.references import revealed_after, visible_sources
from autograder.runners import CellOutput, Runner, RunnerError, TimeIsUp
from autograder.seed import PUBLIC
from autograder.verdict import ExerciseVerdict
from autograder.warm import Warm
from course_lib.checking.exercise import Exercise
from course_lib.checking.grading import failed, grade, refusal_of_kind
from course_lib.checking.report import Report
from course_lib.checking.subject import Subject
from course_lib.exercises import all_exercises

CHECK, HIDDEN = "_check", "_hidden"
USES_THE_REFERENCE = "uses_the_reference"
MOST_RESTARTS = 5  # of a submission whose code keeps ending its process


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds."""

    cell: float = 30.0  # a student's cell, or all questions of one check
    demonstration: float = 600.0  # an instructor's cell


@dataclass
class Judged:
    """A submission that has been run and judged: its notebook has the judge's reports in its check cells."""

    notebook: NotebookNode
    exercises: list[ExerciseVerdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    walls: tuple[str, ...] = ()
    cell_seconds: float = 0.0
    peak_bytes: int = 0


def judge(rebuilt: Rebuilt, warm: Warm, patience: Patience, limits: Limits, seed: str = PUBLIC) -> Judged:
    """Run a rebuilt submission and judge each exercise at its place. seed: of the hidden cases."""
    trial = Trial(rebuilt, warm, patience, limits, seed)
    trial.run_all()
    if trial.lacks_a_name:
        trial = Trial(rebuilt, warm, patience, limits, seed, everything=True)
        trial.run_all()
    return trial.judged


class Trial:
    """One run through a notebook."""

    def __init__(
        self, rebuilt: Rebuilt, warm: Warm, patience: Patience, limits: Limits, seed: str, everything: bool = False
    ):
        self.rebuilt = rebuilt
        self.warm = warm
        self.patience = patience
        self.limits = limits
        self.seed = seed
        self.cells = rebuilt.notebook.cells
        self.by_student = rebuilt.students
        self.judged = Judged(rebuilt.notebook, notes=list(rebuilt.notes))
        self.to_run = self.cells_to_run(everything)
        self.some_were_skipped = not everything
        self.lacks_a_name = False
        self.fatal: set[int] = set()  # cells and checks that ended their runner: not run again
        self.last_error: dict[str, str] = {}  # of the answer cell of an exercise
        self.restarts = 0
        self.runner: Runner | None = None

    def cells_to_run(self, everything: bool) -> set[int]:
        code = [i for i, cell in enumerate(self.cells) if cell.cell_type == "code" and exercise_of(cell) is None]
        if everything:
            return set(code)
        found = needed([self.cells[i].source for i in code], [self.by_student[i] for i in code])
        return {code[i] for i in found}

    def run_all(self) -> None:
        try:
            for i, cell in enumerate(self.cells):
                if cell.cell_type == "code":
                    self.take(i, cell)
        finally:
            self.close_runner()

    def take(self, i: int, cell: NotebookNode) -> None:
        name = exercise_of(cell)
        if name is None:
            cell.outputs = []
            if i in self.to_run:
                self.run_cell(i, cell)
        elif grade_id_of(cell).endswith(CHECK):
            self.check(i, cell, name)

    # --- the runner ---

    def ready_runner(self, upto: int) -> Runner:
        """The runner, in the state that the cells before `upto` have brought about. After a crash: a new one."""
        if self.runner is not None and self.runner.alive:
            return self.runner
        if self.runner is not None:
            self.close_runner()
            self.restarts += 1
            if self.restarts > MOST_RESTARTS:
                raise RunnerError("It ended its process again and again.")
        self.runner = runner = Runner(self.warm, self.limits)
        self.judged.walls = runner.walls
        names = [name for cell in self.cells if (name := exercise_of(cell)) is not None]
        runner.request(self.patience.cell, "course", modules=visible_sources(names[0]))
        if self.restarts:
            for i in range(upto):
                self.replay(i, runner)
        return runner

    def replay(self, i: int, runner: Runner) -> None:
        cell = self.cells[i]
        name = exercise_of(cell) if cell.cell_type == "code" else None
        if name is not None and grade_id_of(cell).endswith(CHECK):
            runner.request(self.patience.cell, "reveal", definitions=revealed_after(name))
        elif i in self.to_run and i not in self.fatal:
            runner.run(cell.source, self.patience_for(i))

    def close_runner(self) -> None:
        if self.runner is not None:
            self.runner.bury()
            self.judged.peak_bytes = max(self.judged.peak_bytes, self.runner.peak_bytes)

    def patience_for(self, i: int) -> float:
        return self.patience.cell if self.by_student[i] else self.patience.demonstration

    # --- cells ---

    def run_cell(self, i: int, cell: NotebookNode) -> None:
        try:
            output = self.ready_runner(i).run(cell.source, self.patience_for(i))
        except RunnerError as error:
            self.fatal.add(i)
            sentence = f"This cell was stopped. {error}"
            cell.outputs = [error_output("Stopped", sentence)]
            self.judged.notes.append(f"{describe(cell)}: {sentence}")
            self.last_error[grade_id_of(cell)] = sentence
            return
        self.judged.cell_seconds += output.seconds
        cell.outputs = outputs_of(output)
        if output.error is not None:
            self.last_error[grade_id_of(cell)] = ": ".join(filter(None, output.error))
            self.note_missing_name(output.error[0])
            self.leave_if_out_of_memory(i, output.error[0])

    def leave_if_out_of_memory(self, i: int, kind: str) -> None:
        """A process without memory does nothing right any more: what comes next gets a new one."""
        if kind == "MemoryError" and self.runner is not None:
            self.fatal.add(i)
            self.runner.bury()

    def note_missing_name(self, kind: str) -> None:
        """A name that is missing may come from a demonstration that was not run."""
        self.lacks_a_name |= kind == "NameError" and self.some_were_skipped

    # --- exercises ---

    def check(self, i: int, cell: NotebookNode, name: str) -> None:
        """Judge an exercise on its visible and its hidden cases, and reveal its reference."""
        exercise, hidden = all_exercises()[name], all_hidden()[name]
        visible = self.report(i, exercise, lambda bench: grade(exercise, Subject(bench)))
        if i in self.fatal or visible.outcome == "not attempted":
            concealed = conceal(hidden, visible)
        else:
            cases = hidden.cases(self.seed)
            # What is wrong on the visible cases has its name already; only what is right there is looked into again.
            found = self.report(
                i, exercise, lambda bench: grade(exercise, Subject(bench), cases, is_diagnosed=visible.passed)
            )
            concealed = conceal(hidden, found if visible.passed else replace(found, diagnosis=visible.diagnosis))
        cell.outputs = [report_output(visible)]
        for later in self.cells:
            if grade_id_of(later) == name + HIDDEN:
                later.outputs = [report_output(concealed)]
        self.judged.exercises.append(self.verdict(exercise, hidden, visible, concealed))
        self.reveal(name)

    def reveal(self, name: str) -> None:
        """Let later answers use the reference. A runner that does not listen is replaced."""
        if self.runner is None or not self.runner.alive:
            return
        try:
            self.runner.request(self.patience.cell, "reveal", definitions=revealed_after(name))
        except RunnerError:
            self.runner.bury()

    def report(self, i: int, exercise: Exercise, judge_it: Callable[[Any], Report]) -> Report:
        try:
            found = self.ready_runner(i).find(exercise.name, self.patience.cell)
            if found is None:
                return self.undefined(exercise)
            bench, kind = found
            report = refusal_of_kind(exercise, kind) or judge_it(bench)
        except RunnerError as error:
            self.fatal.add(i)
            self.judged.notes.append(f"{exercise.name}: while it was checked, the code was stopped. {error}")
            words = "The check was stopped." if isinstance(error, TimeIsUp) else "The check could not be completed."
            return failed(exercise, "raised", f"{words} {error}")
        for check in report.checks:
            self.note_missing_name("NameError" if "raised NameError" in check.message else "")
            self.leave_if_out_of_memory(i, "MemoryError" if "raised MemoryError" in check.message else "")
        return report

    def undefined(self, exercise: Exercise) -> Report:
        """The cell of the answer did not define it: it raised, or somebody renamed the function."""
        error = self.last_error.get(exercise.name)
        if error:
            return failed(exercise, "raised", f"The cell with {exercise.name} did not run: {error}")
        self.note_missing_name("NameError")
        return failed(exercise, "wrong", f"There is no {exercise.name}: define it under exactly this name.")

    def verdict(self, exercise: Exercise, hidden: Hidden, visible: Report, concealed: Report) -> ExerciseVerdict:
        diagnosis = visible.diagnosis or concealed.diagnosis
        message = next((check.message for check in visible.checks if check.passed is False), "")
        misconception, sentence = (diagnosis.id, diagnosis.sentence) if diagnosis else (None, None)
        if "raised ReferenceUsed" in message:
            misconception, sentence = USES_THE_REFERENCE, "The answer calls the course's own reference."
        return ExerciseVerdict(
            name=exercise.name,
            outcome=concealed.outcome if visible.passed else visible.outcome,
            points=visible.points,
            max_points=exercise.max_points,
            hidden_points=concealed.points,
            hidden_max_points=hidden.points,
            misconception=misconception,
            sentence=sentence,
            message=message,
            answer=self.rebuilt.answers.get(exercise.name, ""),
        )


@functools.cache
def exercise_names() -> frozenset[str]:
    return frozenset(all_exercises())


def grade_id_of(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def exercise_of(cell: NotebookNode) -> str | None:
    """The exercise that a check cell, visible or hidden, belongs to; None for any other cell."""
    grade_id = grade_id_of(cell)
    for suffix in (CHECK, HIDDEN):
        name = grade_id.removesuffix(suffix)
        if name != grade_id and name in exercise_names():
            return name
    return None


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


def error_output(name: str, message: str) -> NotebookNode:
    return new_output("error", ename=name, evalue=message, traceback=[f"{name}: {message}"])


def report_output(report: Report) -> NotebookNode:
    """A report as the result of its cell: nbgrader reads the score, people the rest."""
    data = NotebookNode(report.for_nbgrader())
    return new_output("execute_result", data=data, metadata=NotebookNode(), execution_count=None)


def new_output(kind: str, **content: Any) -> NotebookNode:
    """As nbformat's function of this name, which checks each output against the format and takes milliseconds."""
    return NotebookNode(output_type=kind, **content)
