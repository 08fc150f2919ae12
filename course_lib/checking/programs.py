"""An implementation as text, to be made beside a test that a student has written."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
from torch import Tensor

from .bench import COURSE_FOLDER

FILE = f"{COURSE_FOLDER}/implementation.py"  # there is none; errors in it are not the student's own

# An entry of the table of lines that every code object has: up to 8 units of code are on the line of those before.
ON_THE_SAME_LINE, MOST_UNITS, BYTES_OF_A_UNIT = 0x80 | 13 << 3, 8, 2


def entry(units: int) -> bytes:
    return bytes([ON_THE_SAME_LINE | units - 1, 0])


def on_one_line(code: CodeType) -> CodeType:
    """The same code with another table of lines. To change the lines in the text's tree would take far longer."""
    whole, rest = divmod(len(code.co_code) // BYTES_OF_A_UNIT, MOST_UNITS)
    table = entry(MOST_UNITS) * whole + (entry(rest) if rest else b"")
    inner = (on_one_line(value) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=table, co_consts=tuple(inner))


@dataclass(frozen=True)
class Program:
    """A function or class: its name, and the text of it and of what it needs. A setting for `Subject.effect`."""

    name: str
    source: str

    def make(self) -> tuple[Any]:
        """The function or class itself, newly made. All of it seems to be on one line."""
        namespace: dict[str, Any] = {"__name__": "implementation"}
        exec(on_one_line(compile(self.source, FILE, "exec")), namespace)
        return (namespace[self.name],)

    def read(self, result: Any, *live: Any) -> Any:
        """A truth value, however it is written; anything else unchanged."""
        is_tensor = isinstance(result, Tensor) and result.numel() == 1 and str(result.dtype) == "torch.bool"
        return bool(result) if is_tensor or isinstance(result, np.bool_) else result

    def look_at(self, *live: Any) -> dict[str, Any]:
        """Nothing: a test may do to an implementation whatever it likes."""
        return {}
