"""nbgrader's plugin for late submissions, which takes off what class.toml says."""

from __future__ import annotations

from pathlib import Path

from nbgrader.plugins import BasePlugin
from traitlets import Unicode

from autograder.classroom.class_file import read_rules


class LatePenalty(BasePlugin):
    """Named in the class's nbgrader_config.py, so that every command computes the same penalty."""

    folder = Unicode(help="of the class").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        return read_rules(Path(self.folder)).late.penalty(score, total_seconds_late)
