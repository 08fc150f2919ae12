"""nbgrader's configuration for this course. Run nbgrader's commands in this folder; all paths are relative to it.

Deadlines, penalties, extensions, exercises and points are in class.toml. This file is for nbgrader's own options.
"""

import os
from pathlib import Path

from autograder.classroom.class_file import configure

here = Path(__file__).resolve().parent

c = get_config()  # type: ignore[name-defined]  # noqa: F821  provided by traitlets

c.CourseDirectory.course_id = "transformer"
c.CourseDirectory.root = str(here)
c.CourseDirectory.db_url = f"sqlite:///{here / 'gradebook.db'}"
c.Exchange.root = str(here / "exchange")

configure(c, here)  # late penalties, and which version counts, by class.toml

# Where a kernel that nbgrader starts finds what the hidden cases of this class are made from.
os.environ["COURSE_HIDDEN_SEED"] = str(here / "hidden_seed")

# A training cell takes minutes on a slow laptop; the checks themselves take milliseconds.
c.ExecutePreprocessor.timeout = 600
c.ExecutePreprocessor.startup_timeout = 120
c.ExecutePreprocessor.interrupt_on_timeout = True
c.ExecutePreprocessor.error_on_timeout = {
    "ename": "TimeoutError",
    "evalue": "This cell did not finish within 10 minutes.",
    "traceback": ["This cell did not finish within 10 minutes."],
}

# Feedback pages that can be read without a network, and in which nothing of a student's runs.
c.GenerateFeedback.exporter_class = "autograder.reporting.feedback.FeedbackExporter"

# Nor in formgrader: otherwise a script in a written answer could give itself points when the instructor looks at it.
c.HTMLExporter.filters = {"markdown2html": "autograder.reporting.feedback.common_markdown"}

# nbgrader autograde, and formgrader's button: the judge behind walls instead of a kernel. Take these lines out, and
# nbgrader executes the notebooks itself: the same scores for honest work, but slower, and every submission is trusted.
c.Autograde.autograde_preprocessors = [
    "autograder.judging.nbgrader_judge.Judge",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
]
