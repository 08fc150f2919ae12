"""The commands of the grader. Each imports what it needs when it runs: `--help` answers at once."""

from __future__ import annotations

import argparse
import errno
import gc
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from autograder.classroom.class_folder import make_class, make_folder, require_class
from autograder.errors import CourseError
from autograder.files import told_of_kept_files
from autograder.quick_imports import import_nbgrader
from autograder.suggest import DEFAULT, command
from autograder.walls.inside import walls
from autograder.walls.sight import class_folders

if TYPE_CHECKING:
    from autograder.classroom.course import Course
    from autograder.classroom.grade import Summary
    from autograder.judging.verdict import Verdict

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

FULL = (errno.ENOSPC, errno.EDQUOT)
NO_WALLS = (
    "This machine has no wall around student code. A submission could read every file of yours and use your network. "
    "Grade on a machine with walls, or, if you trust the class, add --without-walls. To see what is missing: {doctor}"
)


def say(text: str) -> None:
    """Print a line without wrapping it. File names come from students, so escape codes in them are made harmless."""
    out.print(text.replace("\x1b", "␛"), soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        import_nbgrader()
        return int(options.run(options))
    except CourseError as error:
        err.print(f"[bold]{escape(str(error))}[/bold]", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        err.print("Stopped. What was finished is saved.")
        return 130
    except Exception as error:
        sentence = about_the_machine(error)
        if not sentence:
            raise
        err.print(f"[bold]{escape(sentence)}[/bold] What was finished is saved.", soft_wrap=True)
        return 1
    finally:
        for sentence in told_of_kept_files():
            err.print(escape(sentence.replace("\x1b", "␛")), soft_wrap=True)


def about_the_machine(error: Exception) -> str:
    """What this machine refused: a file that cannot be written, a gradebook that cannot be used. Otherwise nothing."""
    if isinstance(error, OSError) and (error.filename is not None or error.errno in FULL):
        return f"{f'{error.filename}: ' if error.filename is not None else ''}{error.strerror}."
    from sqlalchemy.exc import DatabaseError, OperationalError  # only now: it takes time

    is_refused = type(error) in (DatabaseError, OperationalError)  # their other kinds are faults of the grader
    if isinstance(error, DatabaseError) and is_refused:
        return f"The gradebook cannot be used: {str(error.orig).strip().splitlines()[0]}."
    return ""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m autograder",
        description="Grade a class: student code runs behind walls, mistakes are named. A class is an nbgrader course.",
    )
    top.set_defaults(course=Path(DEFAULT), db="")
    where = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for said in (top, where):  # before the command or after it
        said.add_argument("--course", type=Path, metavar="FOLDER", help=f"folder of the class (default: {DEFAULT}/)")
        said.add_argument("--db", metavar="URL", help="of the gradebook (default: the one in nbgrader_config.py)")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], says: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says, description=says, parents=[where])
        made.set_defaults(run=run)
        return made

    one = command("init", run_init, "create the folder of a class: configuration, secret seed, a README")
    one.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help=f"where to create it (default: {DEFAULT})")

    one = command("release", run_release, "make the notebooks for students and register them in the gradebook")
    one.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="for example 02_masks (default: all)")
    one.add_argument("--new-seed", action="store_true", help="draw new hidden cases; everything is then graded again")

    one = command("collect", run_collect, "import submissions from a folder or zip file that an LMS or Colab gave you")
    one.add_argument("downloaded", type=Path, metavar="DOWNLOAD", help="the folder or zip file")
    one.add_argument("--assignment", help="of the download (default: recognised by names and contents)")
    one.add_argument(
        "--pattern", help="a regular expression for paths, with (?P<student>…) and perhaps (?P<assignment>…)"
    )

    one = command("grade", run_grade, "grade new and changed submissions; safe to interrupt and to repeat")
    one.add_argument("assignment", nargs="?", metavar="ASSIGNMENT", help="(default: all that have submissions)")
    one.add_argument("--students", nargs="+", metavar="STUDENT", help="only these (ids or names)")
    one.add_argument("--jobs", type=positive, metavar="N", help="submissions at a time (default: one per processor)")
    one.add_argument("--force", action="store_true", help="also regrade what has not changed")
    time_arguments(one)
    one.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for example tcp://10.0.0.1:8786")
    one.add_argument("--without-walls", action="store_true", help="grade even if this machine has no walls")

    one = command("judge", run_judge, "judge one submission and print the judged notebook (for formgrader's button)")
    one.add_argument("assignment", metavar="ASSIGNMENT")
    one.add_argument("student", metavar="STUDENT")
    time_arguments(one)

    one = command("feedback", run_feedback, "write a feedback page for each student")
    one.add_argument("assignment", nargs="?", metavar="ASSIGNMENT", help="(default: all that are graded)")
    one.add_argument("--students", nargs="+", metavar="STUDENT", help="only these (ids or names)")

    one = command("written", run_written, "write a page with all answers to each written question, and enter marks")
    one.add_argument("assignment", nargs="?", metavar="ASSIGNMENT", help="(default: all that are graded)")
    one.add_argument("--marks", nargs="+", type=Path, default=[], metavar="FILE", help="tables saved from the pages")

    one = command("report", run_report, "write one page about the class: what to talk about, who needs help, scores")
    one.add_argument("assignment", nargs="?", metavar="ASSIGNMENT", help="only this one (default: all that are graded)")
    one.add_argument("--student", metavar="STUDENT", default="", help="a page about this student (id or name)")

    one = command("export", run_export, "write CSV files: for the LMS, per exercise, per misconception")
    one.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="(default: export/ in the folder of the class)"
    )

    command("doctor", run_doctor, "show which walls this machine has, and test what student code can read")

    one = command("sample", run_sample, "make, grade and report on a fictitious class of 24")
    one.add_argument("assignment", nargs="?", default="02_masks", metavar="ASSIGNMENT", help="(default: 02_masks)")
    one.add_argument("--jobs", type=positive, metavar="N", help="submissions at a time (default: one per processor)")
    return top


def time_arguments(parser: argparse.ArgumentParser) -> None:
    one, whole = (
        "limit for one student cell or one check (default: 30)",
        "limit for everything that is done with one submission",
    )
    parser.add_argument("--seconds", type=more_than_none, default=30.0, help=one)
    parser.add_argument(
        "--budget", type=more_than_none, default=900.0, metavar="SECONDS", help=f"{whole} (default: 900)"
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def more_than_none(text: str) -> float:
    number = float(text)
    if not number > 0:  # nor nan
        raise argparse.ArgumentTypeError("more than 0")
    return number


def course_of(options: argparse.Namespace) -> Course:
    from autograder.classroom.course import Course

    root = options.course.resolve()
    if options.run not in MAKE_A_CLASS:
        require_class(root)
    course = Course(root, options.db)
    if getattr(options, "students", None):
        options.students = [id_of(course, said) for said in options.students]
    if names := named(options):
        from autograder.authoring.assignment import require_assignment  # slow to import

        for name in names:
            require_assignment(course, name)
    return course


def id_of(course: Course, said: str) -> str:
    """The id of a student who was named by anything that the roster knows; what was said if it does not tell."""
    found = course.roster().find([said])
    return found[0].id if len(found) == 1 else said


def named(options: argparse.Namespace) -> list[str]:
    """The assignments that were named on the command line."""
    one = getattr(options, "assignment", None)
    return [one] if one else list(getattr(options, "assignments", ()))


# --- init, release, collect ------------------------------------------------------------------------------------------


def run_init(options: argparse.Namespace) -> int:
    folder = (options.folder or options.course).resolve()
    made = make_class(folder)
    for path in made:
        say(f"made {escape(str(path))}")
    if not made:
        say(f"{escape(str(folder))} is a class already: nothing was changed.")
    if folder.stat().st_mode & 0o077:
        close = shlex.join(["chmod", "700", str(folder)])
        say(f"Other accounts of this machine may open it. To close it: {escape(close)}")
    say(f"Next: {escape(command(folder, 'release', db=options.db))}")
    return 0


def run_release(options: argparse.Namespace) -> int:
    from autograder.authoring.assignment import assignments_of
    from autograder.authoring.release import release

    course = course_of(options)
    assignments = options.assignments or assignments_of(course.rules())
    told: list[str] = []
    done = 0
    try:
        with bar("releasing", len(assignments)) as progress:
            for assignment in assignments:
                release(course, [assignment], new_seed=options.new_seed and done == 0, tell=told.append)
                done += 1
                progress.advance(progress.task_ids[0])
    finally:  # also if one of them cannot be released
        if done:
            say(f"{done} released: {escape(str(course.root / 'release'))}")
        for sentence in told:
            say(f"  {escape(sentence)}")
    return 0


def run_collect(options: argparse.Namespace) -> int:
    from autograder.classroom.collect import collect

    course = course_of(options)
    collected = collect(course, options.downloaded, options.assignment, options.pattern)
    say(f"{len(collected.placed)} placed in {escape(str(course.root / 'submitted'))}")
    roster = course.roster()
    for placed in collected.placed:
        remarks = placed.reason.removeprefix(f"It is {placed.assignment} of {placed.student}.").strip()
        who = escape(roster.called(placed.student))
        say(f"  {who}, {placed.assignment}: {escape(placed.path)}. {escape(remarks)}".rstrip())
    for is_lost, heading in ((True, "could not be placed"), (False, "not needed")):
        left = [each for each in collected.unplaced if each.is_lost is is_lost]
        if left:
            say(f"[bold]{len(left)} {heading}:[/bold]")
        for each in left:
            say(f"  {escape(each.path)}: {escape(each.reason)}")
    for warning in collected.warnings:
        say(f"[bold]Note:[/bold] {escape(warning)}")
    return 0


# --- grade -----------------------------------------------------------------------------------------------------------


def run_grade(options: argparse.Namespace) -> int:
    if options.scheduler:
        try:
            from autograder.classroom.cluster import ClusterWorkers
        except ModuleNotFoundError as error:
            advice = "In the course's folder: pip install -c constraints.txt distributed"
            raise CourseError(f"--scheduler needs Dask, and {error.name} is not installed here. {advice}") from None

        folders = class_folders(options.course, options.db)
        with ClusterWorkers(options.scheduler, options.without_walls, folders) as workers:
            return grade_all(options, workers)
    require_walls(options, options.without_walls)
    with local_workers(options) as workers:
        return grade_all(options, workers)


def require_walls(options: argparse.Namespace, told_so: bool) -> None:
    from autograder.walls.warm import walled_off

    if not told_so and not walled_off():
        raise CourseError(NO_WALLS.format(doctor=command(options.course, "doctor", db=options.db)))


class local_workers:
    """Warm processes start first; while they import torch, so does the grader."""

    def __init__(self, options: argparse.Namespace):
        from autograder.walls.warm import Starting, processors

        self.starting = Starting(options.jobs or processors(), class_folders(options.course, options.db))
        gc.disable()  # a third of the time of all these imports would be spent on searching them for garbage
        self.trusts_the_class = getattr(options, "without_walls", False)

    def __enter__(self):  # type: ignore[no-untyped-def]
        try:
            from autograder.classroom.grade import LocalWorkers
            from autograder.walls.sight import require_blindness

            warm = self.starting.all()
            if not self.trusts_the_class:
                require_blindness(warm[0])  # the others are started in the same way
        except BaseException:
            self.starting.close()
            raise
        self.workers = LocalWorkers(warm)
        gc.enable()
        return self.workers

    def __exit__(self, *_: object) -> None:
        self.workers.close()


def grade_all(options: argparse.Namespace, workers) -> int:  # type: ignore[no-untyped-def]
    from autograder.classroom.grade import grade
    from autograder.judging.judge import Patience

    course = course_of(options)
    assignments = [options.assignment] if options.assignment else handed_in_by(course, options.students)
    if not assignments:
        step = course.command("collect", "DOWNLOAD") if course.released() else course.command("release")
        raise CourseError(f"There is nothing to grade. First run: {step}")
    interrupted = False
    for assignment in assignments:
        for student in strangers(course, assignment):
            say(f"[bold]Note:[/bold] class.toml gives {escape(student)} more time for {assignment}. Who is that?")
        with bar(f"grading {assignment}", None) as progress:

            def tell(done: Verdict | str, total: int, progress: Progress = progress) -> None:
                progress.update(progress.task_ids[0], total=total, advance=1)

            summary = grade(
                course,
                assignment,
                workers,
                students=those_of(course, assignment, options),
                force=options.force,
                patience=Patience(cell=options.seconds, submission=options.budget),
                progress=tell,
            )
        if summary.graded and (course.root / "written" / assignment).is_dir():
            from autograder.reporting.written import close_what_is_marked  # slow to import

            close_what_is_marked(course, assignment)
        show_summary(course, summary, options.force)
        say_what_is_older(course, assignment, [verdict.student for verdict in summary.graded])
        if summary.left:
            interrupted = True
            show_what_remains(course, assignments[assignments.index(assignment) + 1 :], options)
            break
    return 130 if interrupted else 0


def say_what_is_older(course: Course, assignment: str, students: Sequence[str]) -> None:
    """`export` packs the feedback pages that are there: whoever has new scores or marks needs new ones first."""
    from autograder.reporting.words import counted

    pages = sum(course.feedback(assignment, student).exists() for student in students)
    if pages:
        are = "is" if pages == 1 else "are"
        again = escape(course.command("feedback", assignment))
        say(f"{counted(pages, 'feedback page')} {are} older than this. To write them again: {again}")


def show_what_remains(course: Course, assignments: Sequence[str], options: argparse.Namespace) -> None:
    """How to continue with the assignments that `grade --force` did not reach; otherwise the same command does it."""
    students = ["--students", *options.students] if options.students else []
    for assignment in assignments if options.force else ():
        say(f"{assignment} was not reached: {escape(course.command('grade', assignment, '--force', *students))}")


def handed_in_by(course: Course, students: Sequence[str] | None) -> list[str]:
    """The assignments that any of these students has handed in; None: anybody."""
    handed_in = {assignment: set(course.students(assignment)) for assignment in course.released()}
    unknown = sorted(set(students or ()) - set().union(*handed_in.values()))
    if unknown:
        raise CourseError(f"{unknown[0]} has handed in nothing.")
    return [a for a, found in handed_in.items() if (found if students is None else found & set(students))]


def strangers(course: Course, assignment: str) -> list[str]:
    """Who has more time by class.toml, but is not on the roster and has handed in nothing: perhaps a typing error."""
    known = {*course.roster().by_id, *course.students(assignment)}
    return sorted(set(course.rules().of(assignment).extensions) - known)


def those_of(course: Course, assignment: str, options: argparse.Namespace) -> list[str] | None:
    """The students to grade in an assignment. If it was not named, those who were named need not all have it."""
    if options.assignment or options.students is None:
        return options.students
    return [student for student in options.students if student in course.students(assignment)]


def run_judge(options: argparse.Namespace) -> int:
    """nbgrader, which calls this, writes the notebook, and enters the same scores once more. Without a notebook it does
    neither, so this does."""
    import nbformat

    from autograder.classroom import grade
    from autograder.classroom.book import open_book
    from autograder.judging import work
    from autograder.judging.judge import Patience

    require_walls(options, told_so=False)
    course = course_of(options)
    grade.require_submissions(course, options.assignment)
    work.warm_process(folders=class_folders(course.root, course.db))
    with open_book(course) as gradebook:
        patience = Patience(cell=options.seconds, submission=options.budget)
        (task,) = grade.plan(course, gradebook, options.assignment, [options.student], patience, None)
        result = work.do(task)
        work.forget_warm_process()
        if result.notebook is None:
            grade.save(course, gradebook, options.assignment, result, grade.Summary(options.assignment))
            raise CourseError(f"{options.student} — {result.verdict.status}: {result.verdict.reason}")
        grade.enter(course, gradebook, result.verdict, nbformat.from_dict(json.loads(result.notebook)))
    print(result.notebook)
    return 0


def show_summary(course: Course, summary: Summary, is_forced: bool = False) -> None:
    """Who was graded, zeroed or flagged, and why; what changed; what is left."""
    called = course.roster().called
    graded = summary.with_status("graded")
    parts = [f"{len(graded)} graded"]
    parts += [f"{len(found)} {status}" for status in ("zeroed", "flagged") if (found := summary.with_status(status))]
    parts += [f"{len(summary.unchanged)} unchanged"] if summary.unchanged else []
    say(f"[bold]{summary.assignment}[/bold]: {', '.join(parts)}")
    for note in summary.notes:
        say(f"  [bold]Note:[/bold] {escape(note)}")
    for status in ("zeroed", "flagged"):
        for verdict in summary.with_status(status):
            say(f"  {status}: {escape(called(verdict.student))} — {escape(verdict.reason)}")
    for verdict in graded:
        for note in verdict.notes:
            say(f"  note: {escape(called(verdict.student))} — {escape(note)}")
    if summary.changes:
        table = Table("student", "before", "after", "changed in", title="Scores that changed", title_justify="left")
        for change in summary.changes:
            table.add_row(
                escape(called(change.student)), f"{change.before:g}", f"{change.after:g}", ", ".join(change.exercises)
            )
        out.print(table)
    one_or_more = f"{len(summary.left)} {'is' if len(summary.left) == 1 else 'are'} left"
    if summary.left and is_forced:  # the same command would begin from the start
        how = escape(course.command("grade", summary.assignment, "--force", "--students", *summary.left))
        say(f"[bold]Stopped.[/bold] {one_or_more}, with the earlier results. Continue with: {how}")
    elif summary.left:
        say(f"[bold]Stopped.[/bold] {one_or_more}; the same command continues from here.")


def bar(what: str, total: int | None) -> Progress:
    progress = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=err, transient=False
    )
    progress.add_task(what, total=total)
    return progress


# --- feedback, report, export ----------------------------------------------------------------------------------------


def run_feedback(options: argparse.Namespace) -> int:
    from autograder.reporting.feedback import write_feedback
    from autograder.reporting.words import counted

    course = course_of(options)
    pages: list[Path] = []
    failures: list[str] = []
    for assignment in [options.assignment] if options.assignment else course.released():
        graded = [s for s in course.students(assignment) if course.autograded(assignment, s).exists()]
        chosen = [student for student in graded if not options.students or student in options.students]
        if chosen:
            with bar(f"feedback on {assignment}", len(chosen)) as progress:
                try:
                    pages += write_feedback(course, assignment, chosen, partial(one_done, progress))
                except CourseError as error:
                    failures.append(str(error))
    if failures:
        raise CourseError("\n".join(failures))
    if not pages:
        chosen = [*filter(None, [options.assignment]), *(["--students", *options.students] if options.students else [])]
        first = course.command("grade", *chosen)
        raise CourseError(f"There is nothing graded yet to give feedback on. First run: {first}")
    say(f"{counted(len(pages), 'page')} in {escape(str(course.root / 'feedback'))}")
    return 0


def one_done(progress: Progress, student: str) -> None:
    progress.advance(progress.task_ids[0])


def run_report(options: argparse.Namespace) -> int:
    from autograder.reporting.report import write_report

    chosen = [options.assignment] if options.assignment else None
    say(f"report: {escape(str(write_report(course_of(options), chosen, options.student)))}")
    return 0


def run_written(options: argparse.Namespace) -> int:
    """0 if every mark could be entered."""
    from autograder.reporting.report import graded_assignments
    from autograder.reporting.words import counted
    from autograder.reporting.written import mark_written

    course = course_of(options)
    assignments = [options.assignment] if options.assignment else graded_assignments(course)
    outcomes = mark_written(course, assignments, options.marks)
    for outcome in outcomes:
        counts = f"{counted(outcome.answers, 'answer')}, {outcome.marked} marked, {outcome.blank} left empty"
        say(f"[bold]{escape(outcome.question.id)}[/bold]: {counts}: {escape(str(outcome.page))}")
        for change in outcome.changes:
            say(f"  entered: {escape(change)}")
        for problem in outcome.problems:
            say(f"  [bold]not entered:[/bold] {escape(problem)}")
    for assignment in dict.fromkeys(outcome.question.assignment for outcome in outcomes if outcome.changes):
        found = course.root.glob(f"feedback/*/{assignment}/{assignment}.html")
        say_what_is_older(course, assignment, [page.parent.parent.name for page in found])
    if not outcomes:
        say("There are no written questions here.")
    return 1 if any(outcome.problems for outcome in outcomes) else 0


def run_export(options: argparse.Namespace) -> int:
    from autograder.reporting.export import export

    course = course_of(options)
    for path in export(course, options.folder or course.root / "export"):
        say(escape(str(path)))
    return 0


# --- doctor, sample --------------------------------------------------------------------------------------------------


def run_doctor(options: argparse.Namespace) -> int:
    """0 if student code would be walled off and could read nothing of the course or the class, else 1."""
    from autograder.walls.warm import walled_off

    found = walls.describe()
    table = Table("", "wall", "what it does", "what to do")
    for wall in found:
        table.add_row("✓" if wall.works else "✗", wall.name, wall.keeps_out, wall.why)
    out.print(table)
    if not walled_off():
        return 1
    if not next(wall for wall in found if wall.name == walls.PACKAGES).works:
        say("Packages are missing, so it could not be tested whether student code can read the course.")
        return 1
    return 1 if tried_to_read(class_folders(options.course, options.db)) else 0


def tried_to_read(folders: Sequence[Path]) -> str:
    """Print what a runner can read although it must not, and return that sentence; empty if there is nothing."""
    from autograder.walls.sight import complaint, witnesses
    from autograder.walls.warm import Warm

    warm = Warm(folders=folders)
    try:
        found = complaint(warm)
    finally:
        warm.close()
    tried = len(witnesses(folders))
    nothing = f"✓ Student code tried to read {tried} files of the course and the class, and could read none of them."
    say(f"[bold]✗ {escape(found)}[/bold]" if found else nothing)
    return found


def jupyter() -> str:
    """The command in a form that works whether or not its environment is active."""
    return shlex.quote(str(Path(sys.executable).parent / "jupyter"))


def run_sample(options: argparse.Namespace) -> int:
    """Everything an instructor does in a term, once, in a folder of its own, with a fictitious class."""
    from autograder.classroom.sample import sample_class, sample_due_date

    require_walls(options, told_so=False)
    if options.course == Path(DEFAULT):
        options.course = Path.cwd() / "sample_class"
    make_folder(options.course)  # a folder can be closed to student code only if it exists
    with local_workers(options) as workers:
        course = course_of(options)
        assignment = options.assignment
        options.assignments, options.new_seed = [], False
        run_release(options)
        with course.gradebook() as gradebook:
            gradebook.update_or_create_assignment(assignment, duedate=sample_due_date(assignment))
        folder = course.root / "handed_in"
        students = sample_class(course, assignment, folder)
        with course.gradebook() as gradebook:
            for one in students:
                first, last = one.name.split()
                gradebook.update_or_create_student(one.id, first_name=first, last_name=last)
        say(f"{len(students)} fictitious students handed in to {escape(str(folder))}")
        options.downloaded, options.pattern = folder, None
        run_collect(options)
        options.students, options.force, options.seconds, options.budget = None, False, 5.0, 900.0
        code = grade_all(options, workers)
    if code == 0:
        run_feedback(options)
        options.assignment, options.student, options.marks = None, "", []
        run_written(options)
        run_report(options)
        options.folder = None
        run_export(options)
        there = shlex.quote(str(course.root))
        say(f"\nTo look at single answers in nbgrader's own pages: cd {escape(there)} && {escape(jupyter())} lab")
        say("then choose in the menu: Nbgrader → Formgrader")
    return code


MAKE_A_CLASS = (run_init, run_release, run_sample, run_doctor)  # the others need one
