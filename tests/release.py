"""The notebooks as students get them, whatever somebody has done in notebooks/ of this checkout."""

from __future__ import annotations

import functools

import nbformat
from nbformat import NotebookNode

from autograder.authoring import build
from autograder.files import content_of
from autograder.working_copy import is_untouched


@functools.cache
def released_text(stem: str) -> str:
    path = build.NOTEBOOKS / f"{stem}.ipynb"
    content = content_of(path)
    if content is not None and is_untouched(content) and content == build.in_git(path):
        return content.decode()
    return build.release({stem: build.as_text(build.solution_notebook(stem))})[stem]


def released_notebook(stem: str) -> NotebookNode:
    return nbformat.reads(released_text(stem), as_version=4)
