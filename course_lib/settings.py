"""Where the course computes: on which device, and with how many threads."""

from __future__ import annotations

import os
from functools import cache

import torch
from torch import nn

from course_lib.surroundings import is_graded_run

THREADS = "COURSE_THREADS"


def course_device() -> torch.device:
    """Where models and data go: the GPU if there is one, else the CPU. Call it in a notebook's set-up cell.

    On the CPU the course uses one thread: its models are small, and on a machine that others use as well, several
    threads wait for each other and take many times as long. COURSE_THREADS=4 in the environment makes it four.
    A notebook that is graded always runs on the CPU.
    """
    torch.set_num_threads(threads_wanted())
    device = torch.device("cuda" if torch.cuda.is_available() and not is_graded_run() else "cpu")
    say_once(device.type, torch.get_num_threads())
    return device


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters of a model are, and its inputs have to be."""
    return next(model.parameters()).device


def threads_wanted() -> int:
    """The number in COURSE_THREADS; 1 if there is none."""
    text = os.environ.get(THREADS, "1")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{THREADS} should be a number of threads such as 4, but it is {text!r}.")
    return int(text)


@cache
def say_once(device: str, threads: int) -> None:
    if device == "cuda":
        print(f"Computing on the GPU ({torch.cuda.get_device_name()}).")
    else:
        plural = "" if threads == 1 else "s"
        print(f"Computing on the CPU with {threads} thread{plural} ({THREADS} in the environment changes that).")
