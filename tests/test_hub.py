"""A class on a JupyterHub: assignments go to students' servers through nbgrader's exchange, and feedback comes back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import nbformat
import pytest
from accounts import ROOT, Person, accounts, open_folder
from classroom import solutions
from grading import STEM
from hub import OnTheHub, jupyterhub

from autograder.classroom.course import Course
from autograder.judging.verdict import read_verdict

pytestmark = pytest.mark.xdist_group("hub")
COURSE = "transformer"
WRONG = "def causal_mask(n):\n    return torch.ones(n, n, dtype=torch.bool)"


class Student(OnTheHub):
    """Uses the Assignment List of JupyterLab: these are its requests."""

    def exchange(self, action: str) -> list[dict[str, object]]:
        details = {"course_id": COURSE, "assignment_id": STEM}
        answer = self.ask("POST", f"assignments/{action}", data=details).json()
        assert answer["success"], answer["value"]
        return list(answer["value"])

    def hand_in(self, **answers: str) -> None:
        self.exchange("fetch")
        path = f"api/contents/{STEM}/{STEM}.ipynb"
        notebook = nbformat.from_dict(self.ask("GET", path).json()["content"])
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = (solutions(STEM) | answers).get(grade_id, cell.source)
        self.ask("PUT", path, json={"type": "notebook", "content": notebook})
        self.exchange("submit")

    def feedback(self) -> str:
        (submission,) = [s for each in self.exchange("fetch_feedback") for s in each.get("submissions", [])]
        folder = submission["local_feedback_path"]
        return str(self.ask("GET", f"api/contents/{folder}/{STEM}.html?format=text").json()["content"])


def test_a_class_on_a_jupyterhub() -> None:
    people = accounts("teacher", "ada", "ben")
    with people as (teacher, ada, ben), open_folder("hub") as folder, open_folder("exchange") as exchange:
        (folder / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.course_id = {COURSE!r}\n"
        )
        environment = {"JUPYTER_CONFIG_PATH": str(folder), "PYTHONPATH": str(ROOT), "COURSE_FAST": "1"}
        with jupyterhub([teacher, ada, ben], folder, environment) as address:
            everybody = OnTheHub(address, teacher), Student(address, ada), Student(address, ben)
            for one in everybody:
                one.wait_for_server()
            play(*everybody, exchange)


def play(teacher: OnTheHub, ada: Student, ben: Student, exchange: Path) -> None:
    """Ada's work is collected by nbgrader, Ben's by this grader. Another one comes by mail."""
    python, folder = shlex.quote(sys.executable), teacher.person.home / "class"
    teacher.run(
        f"{python} -m autograder init && echo 'c.Exchange.root = \"{exchange}\"' >> class/nbgrader_config.py"
        f" && {python} -m autograder release {STEM} && cd class && {python} -m nbgrader release_assignment {STEM}"
    )
    ada.hand_in()
    collected = teacher.run(f"cd class && {python} -m nbgrader collect {STEM}")
    assert "cheating attempt" not in collected
    ben.hand_in(causal_mask=WRONG)
    by_mail = f"class/submitted/mail/{STEM}"
    teacher.run(
        f"{python} -m autograder collect {exchange}/{COURSE}/inbound"
        f" && mkdir -p {by_mail} && cp class/submitted/{ada.person.name}/{STEM}/{STEM}.ipynb {by_mail}"
        f" && {python} -m autograder grade && {python} -m autograder feedback"
        f" && cd class && {python} -m nbgrader release_feedback {STEM}"
    )
    scores = [shown_score(folder, student.person) for student in (ada, ben)]
    assert scores[0] != scores[1]
    for student, score in zip((ada, ben), scores):
        page = student.feedback()
        assert page == Course(folder).feedback(STEM, student.person.name).read_text(encoding="utf-8")
        assert score in page
    ben.run(f"! ls {folder} 2>&1 | grep -v 'Permission denied'")  # the class is closed to students


def shown_score(folder: Path, student: Person) -> str:
    verdict = read_verdict(Course(folder).verdict(STEM, student.name))
    assert verdict.status == "graded"
    return f"{verdict.points:g} of {verdict.max_points:g}"
