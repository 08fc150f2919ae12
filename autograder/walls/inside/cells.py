"""Runs cells as IPython does, but without IPython's ceremony where a cell is nothing but Python.

IPython takes a cell apart several times in search of magics, and runs its statements one by one, each compiled by
itself. For most answers, which define a function, that takes several times as long as running them.
"""

from __future__ import annotations

import ast
import io
import sys
import time
from types import CodeType
from typing import Any

PRINTED_AT_MOST = 20_000  # characters of a cell's output that are kept
PROMPTS = ("In [", ">>>")  # copied along with the code: IPython removes them


class Cells:
    """The cells of one submission, run in an IPython shell."""

    def __init__(self, shell: Any):
        self.shell = shell
        self.habits = self.current_habits()
        self.before_the_opening: dict[str, Any] = {}

    def open_with(self, source: str) -> dict[str, Any]:
        """Run a cell that all submissions begin with."""
        self.before_the_opening = dict(self.shell.user_ns)
        return self.outcome(source)

    def forget_the_opening(self) -> None:
        self.shell.user_ns.clear()
        self.shell.user_ns.update(self.before_the_opening)

    def outcome(self, source: str) -> dict[str, Any]:
        """Run a cell. Returns: what it printed, the error that it ended with, and how long it took."""
        printed, complaints = Printed(), Printed()
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = printed, complaints
        start = time.thread_time()  # process_time counts in large steps where a limit on CPU time is set
        try:
            error = self.run(source)
        finally:
            sys.stdout, sys.stderr = before
        return {
            "printed": printed.text(),
            "complaints": complaints.text(),
            "error": None if error is None else [type(error).__name__, first_line(error)],
            "seconds": time.thread_time() - start,
        }

    def run(self, source: str) -> BaseException | None:
        """Run a cell. Returns: the error that it ended with, if any."""
        code = self.compiled(source)
        if code is None:
            result = self.shell.run_cell(source, store_history=False)
            return result.error_before_exec or result.error_in_exec
        self.shell.user_global_ns.pop("__warningregistry__", None)  # lines of other cells have the same numbers
        with self.shell.builtin_trap:
            try:
                exec(code, self.shell.user_global_ns, self.shell.user_ns)
            except BaseException as error:  # as in IPython, where an interrupt or exit() ends only the cell
                return error
        return None

    def compiled(self, source: str) -> CodeType | None:
        """The code of a cell that IPython would run in the same way. None if it shows a value, if it is not Python, or
        if student code has changed what IPython does."""
        if not source or source[0].isspace() or source.startswith(PROMPTS) or self.is_changed():
            return None
        compiler = self.shell.compile
        lines = source if source.endswith("\n") else source + "\n"
        name = compiler.cache(lines, self.shell.execution_count, raw_code=source)
        try:
            tree = compiler.ast_parse(lines, name)
            if not tree.body or isinstance(tree.body[-1], ast.Expr):
                return None
            return compiler(tree, name, "exec")
        except Exception:  # IPython says what is wrong with it, after it has run the statements before
            return None

    def is_changed(self) -> bool:
        """Whether student code has told IPython to treat cells in another way: then IPython does."""
        return self.current_habits() != self.habits

    def current_habits(self) -> list[Any]:
        shell = self.shell
        manager = shell.input_transformer_manager
        transforms = (manager.cleanup_transforms, manager.line_transforms, manager.token_transformers)
        callbacks = map(tuple, shell.events.callbacks.values())
        others = (tuple(shell.ast_transformers), shell.ast_node_interactivity, shell.custom_exceptions)
        return [*map(len, transforms), *callbacks, *others, len(shell.input_transformers_post)]


class Printed(io.TextIOBase):
    """What a cell prints, up to a cap: an endless print may cost time, but no memory."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.size < PRINTED_AT_MOST:
            self.pieces.append(str(text)[: PRINTED_AT_MOST - self.size])
        self.size += len(text)
        return len(text)

    def text(self) -> str:
        cut = "\n… (more was printed than is kept)\n" if self.size > PRINTED_AT_MOST else ""
        return "".join(self.pieces) + cut


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""
