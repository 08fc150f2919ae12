"""An implementation as text, to be made beside a test that a student has written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .bench import COURSE_FOLDER

FILE = f"{COURSE_FOLDER}/implementation.py"  # there is none; errors in it are not the student's own


@dataclass(frozen=True)
class Program:
    """A function or class: its name, and the text of it and of what it needs. A setting for `Subject.effect`."""

    name: str
    source: str

    def make(self) -> tuple[Any]:
        """The function or class itself, newly made. All of it seems to be on one line."""
        tree = ast.parse(self.source)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = 1  # type: ignore[attr-defined]
                node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
        namespace: dict[str, Any] = {"__name__": "implementation"}
        exec(compile(tree, FILE, "exec"), namespace)
        return (namespace[self.name],)

    def read(self, result: Any, *live: Any) -> Any:
        """A truth value, however it is written; anything else unchanged."""
        is_tensor = isinstance(result, Tensor) and result.numel() == 1 and str(result.dtype) == "torch.bool"
        return bool(result) if is_tensor or isinstance(result, np.bool_) else result

    def look_at(self, *live: Any) -> dict[str, Any]:
        """Nothing: a test may do to an implementation whatever it likes."""
        return {}
