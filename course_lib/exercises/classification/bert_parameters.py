"""The exercise `bert_parameters`: a first version."""

from __future__ import annotations

import torch  # noqa: F401

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.inputs import normal  # noqa: F401

bert_parameters = Exercise(
    classification.bert_parameters,
    cases=[{"vocab_size": 5, "max_len": 3, "num_segments": 2, "d_model": 4, "d_ff": 7, "num_layers": 2}],
    minutes=12,
    difficulty=2,
    hints=["to be written", "to be written", "to be written"],
)


@bert_parameters.property("it answers", points=4)
def answers(subject, case):
    pass
