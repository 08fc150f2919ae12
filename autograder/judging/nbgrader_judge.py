"""nbgrader's own autograde step with our judge in it, so that formgrader's button grades behind the same walls.

`nbgrader_config.py` puts `Judge` where nbgrader would execute the notebook. It lets the submission be judged by
`python -m autograder judge`, in a process of its own, and hands the judged notebook on to nbgrader's SaveAutoGrades.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float

ROOT = Path(__file__).resolve().parents[2]


class Judge(NbGraderPreprocessor):
    """Stands in for nbgrader's Execute."""

    seconds = Float(30.0, help="for a student's cell, or for a check").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        names = resources["nbgrader"]
        course = Path(resources["metadata"]["path"]).resolve().parents[2]  # autograded/STUDENT/ASSIGNMENT
        command = [sys.executable, "-m", "autograder", "--course", str(course), "--db", names["db_url"], "judge"]
        done = subprocess.run(
            [*command, "--seconds", str(self.seconds), "--", names["assignment"], names["student"]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NbGraderException(done.stderr.strip() or "The judge did not answer.")
        return nbformat.from_dict(json.loads(done.stdout)), resources
