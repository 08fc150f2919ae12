"""Checks what the text says about its outputs.

A cell `# %% claims` of a source follows the cell whose numbers the text is about, and calls `claim`. Such cells
are only in the notebooks that are executed here and by the tests; no student ever gets one.

The tests set COURSE_FAST=1, with which some notebooks train less and claim less. What only the full training shows is
proved by `make claims`. It executes those notebooks in full and writes what it has measured to solutions/claims.json.
That file is committed, and the tests fail if a claim in it does not hold, or if the notebook or what it is measured
with has changed since.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import itertools
import json
import os
import re
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

from nbformat import NotebookNode

from autograder.files import write_whole
from autograder.working_copy import ROOT

SECONDS_FOR_A_CELL = 1800  # the longest one trains a translator
FAST = "COURSE_FAST"  # in the environment, and in the source of every notebook that can be cut short
LIBRARY = ROOT / "course_lib"
SHOWS_AND_CHECKS = (  # parts of course_lib on which no measured number depends
    "checking", "colours", "contents", "exercises", "interactive", "notebooks", "plotting", "progress_bar", "student",
    "surroundings", "transformer_map",
)  # fmt: skip
MIME = "application/vnd.course-claim+json"
COMMAND = "python -m autograder.authoring.claims"


class ClaimFailed(Exception):
    """A sentence of the text that the cell above it contradicts."""


class Outcome(TypedDict):
    """How a claim went in a whole run."""

    claim: str
    holds: bool
    measured: dict[str, Any]


class Proof(TypedDict):
    """The entry of a notebook in solutions/claims.json."""

    digest: str
    claims: list[Outcome]


def claim(sentence: str, holds: object) -> None:
    """Raise `ClaimFailed` with this sentence unless it holds. `holds`: a comparison, of numbers or of tensors."""
    if not is_so(sentence, holds):
        raise ClaimFailed(f"The cell above contradicts this claim of the text: {sentence}")


def is_so(sentence: str, holds: object) -> bool:
    truth = holds.item() if hasattr(holds, "item") else holds
    if not isinstance(truth, bool):
        raise TypeError(f"A claim has to be True or False, not {truth!r}: {sentence}")
    return truth


# --- a whole run ----------------------------------------------------------------------------------------------------


def noted_claim(sentence: str, holds: object, measured: dict[str, Any]) -> None:
    """Replaces `claim` in a whole run: leaves the outcome in the cell's output, and continues if it does not hold."""
    from IPython.display import display

    values = {name: plain(value) for name, value in measured.items()}
    display({MIME: {"claim": sentence, "holds": is_so(sentence, holds), "measured": values}}, raw=True)


def plain(value: Any) -> Any:
    """A value in the form in which the record keeps it, numbers with four digits."""
    value = value.item() if getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value if isinstance(value, (bool, int)) else str(value)[:80]


def with_measurements(source: str) -> str:
    """A cell of claims in which each claim also gets the values that its condition compares."""
    tree = ast.parse(source)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "claim":
            sides = {ast.unparse(side): side for side in compared(call.args[1]) if not is_number(side)}
            call.args.append(ast.Dict([ast.Constant(text) for text in sides], list(sides.values())))
    return "from autograder.authoring.claims import noted_claim as claim\n\n" + ast.unparse(tree)


def compared(condition: ast.expr) -> Iterator[ast.expr]:
    """The sides of the comparisons of which a condition is made."""
    match condition:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from compared(part)
        case ast.UnaryOp(operand=part):
            yield from compared(part)
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)


def is_number(side: ast.expr) -> bool:
    return not any(isinstance(node, (ast.Name, ast.Call)) for node in ast.walk(side))


def execute(stem: str) -> list[Outcome]:
    """Every claim of the solved notebook, executed whole. Raises `nbclient.exceptions.CellExecutionError`."""
    from nbclient import NotebookClient

    from autograder.authoring.build import CLAIMS, solution_notebook

    notebook = solution_notebook(stem, claims=True)
    for cell in notebook.cells:
        if cell.source.startswith(CLAIMS):
            cell.source = with_measurements(cell.source.removeprefix(CLAIMS))
    environment = {name: value for name, value in os.environ.items() if name != FAST}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:  # where the checks leave their record of progress
        client = NotebookClient(
            notebook, timeout=SECONDS_FOR_A_CELL, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    return list(outcomes(notebook))


def outcomes(notebook: NotebookNode) -> Iterator[Outcome]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if MIME in output.get("data", {}):
                yield output.data[MIME]


# --- what a proof is good for ---------------------------------------------------------------------------------------


def digest_of(stem: str) -> str:
    """Changes with the code of the notebook, with what it uses of our modules and data, and with the version of torch.

    It does not change with words: comments, docstrings, texts that are only shown, and modules that only show or check.
    """
    from autograder.authoring.build import source_cells

    code = "\n".join(cell.source for cell in source_cells(stem) if cell.cell_type == "code")
    modules = modules_used_by(code)
    sources = (code, *parts_used_by(code, modules))
    texts = [without_words(without_shown_texts(source)) for source in sources]
    torch_pin = re.search(r"^torch==.*$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    digest = hashlib.sha256("\0".join([*texts, torch_pin[0] if torch_pin else ""]).encode())
    for path in data_used_by(modules):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def modules_used_by(code: str) -> list[Path]:
    """The modules of course_lib that this code imports, and those that they import, without what shows and checks."""
    found: set[Path] = set()
    waiting = [code]
    while waiting:
        new = set(imported(waiting.pop())) - found
        found |= new
        waiting += [path.read_text(encoding="utf-8") for path in new]
    return sorted(found)


def imported(code: str) -> Iterator[Path]:
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.ImportFrom):
            module = ".".join([LIBRARY.name] * (node.level > 0) + [node.module or ""]).strip(".")
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            path = LIBRARY.joinpath(*rest).with_suffix(".py")
            if first == LIBRARY.name and rest and rest[0] not in SHOWS_AND_CHECKS and path.is_file():
                yield path


def parts_used_by(code: str, modules: Sequence[Path]) -> list[str]:
    """The texts of these modules without the functions and classes that are not used: a new exercise, whose reference
    no other notebook uses yet, makes no proof of theirs stale."""
    texts = [path.read_text(encoding="utf-8") for path in modules]
    statements = [ast.parse(text).body for text in texts]
    unused = {each for body in statements for each in body if may_be_unused(each)}
    named = set(names_in(ast.parse(code)))
    for body in statements:
        named.update(*(names_in(each) for each in body if each not in unused))
    while used := {each for each in unused if name_of(each) in named}:
        named.update(*map(names_in, used))
        unused -= used
    return [without_lines(text, [each for each in body if each in unused]) for text, body in zip(texts, statements)]


def may_be_unused(statement: ast.stmt) -> bool:
    """Whether it does nothing but define a name. A decorator may do more, and Python itself calls `__getattr__`."""
    name = name_of(statement)
    return name != "" and not name.startswith("__") and not getattr(statement, "decorator_list", None)


def name_of(statement: ast.stmt) -> str:
    """The name of the function or class that it defines, if it defines one."""
    return statement.name if isinstance(statement, ast.FunctionDef | ast.ClassDef) else ""


def names_in(tree: ast.AST) -> Iterator[str]:
    """Everything in a piece of code that may name a function or class, whatever module it is in."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=str() as name)
            ):
                yield name


def without_lines(text: str, statements: Sequence[ast.stmt]) -> str:
    lines = text.splitlines(keepends=True)
    for statement in statements:
        for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[number] = ""
    return "".join(lines)


def data_used_by(modules: Sequence[Path]) -> list[Path]:
    """The shipped files that these modules name: weights beside them, data in data/."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    shipped = [*LIBRARY.glob("*.pt"), *(LIBRARY / "data").glob("*")]
    return sorted(path for path in shipped if f'"{path.name}"' in text)


def without_shown_texts(code: str) -> str:
    """The code without the words in `print(…)`, in titles and in the messages of errors.

    What is computed inside such a text stays: of f"{loss:.2f} bits", only " bits" goes.
    """
    lines = code.encode().splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    rest, kept = b"".join(lines), []
    for text in sorted(shown_texts(ast.parse(code)), key=lambda text: -starts[text.lineno - 1] - text.col_offset):
        start = starts[text.lineno - 1] + text.col_offset
        end = starts[(text.end_lineno or 1) - 1] + (text.end_col_offset or 0)
        if end <= len(rest):  # otherwise it lies inside another one
            kept += [rest[end:], repr(fields_in(rest[start:end].decode())).encode()]
            rest = rest[:start]
    return b"".join([rest, *reversed(kept)]).decode()


def shown_texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """The strings in a program that a person reads and no code does."""
    for node in ast.walk(tree):
        arguments: list[ast.expr] = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            arguments = node.exc.args
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            arguments = node.args if name in ("print", "set_title", "suptitle") else []
            arguments = arguments + [keyword.value for keyword in node.keywords if keyword.arg == "title"]
        for argument in arguments:
            if isinstance(argument, ast.JoinedStr) or isinstance(getattr(argument, "value", None), str):
                assert isinstance(argument, (ast.Constant, ast.JoinedStr))
                yield argument


def fields_in(text: str) -> str:
    """What is between the braces of a string. The words around them are left out."""
    fields, depth = "", 0
    for part in re.findall(r"\{\{|\}\}|.", text, re.DOTALL):
        depth -= part == "}"
        fields += part if depth > 0 else ""
        depth += part == "{"
    return fields


def without_words(code: str) -> str:
    """The lines of the code without docstrings, comments and empty lines."""
    lines: list[str] = code.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            words = node.body[0]
            for number in range(words.lineno - 1, words.end_lineno or words.lineno):
                lines[number] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


# --- the record -----------------------------------------------------------------------------------------------------


def record_path() -> Path:
    from autograder.authoring import build

    return build.SOLUTIONS / "claims.json"


def read_record() -> dict[str, Proof]:
    record: dict[str, Proof] = json.loads(record_path().read_text(encoding="utf-8")) if record_path().exists() else {}
    return record


def write_record(record: dict[str, Proof]) -> None:
    text = json.dumps(dict(sorted(record.items())), indent=1, ensure_ascii=False)
    write_whole(record_path(), f"{text}\n".encode())


def cut_short() -> list[str]:
    """The notebooks that do less in the tests than for a student."""
    from autograder.authoring.build import source_cells, stems

    return [stem for stem in stems() if any(FAST in cell.source for cell in source_cells(stem))]


def out_of_date() -> list[str]:
    """The notebooks whose entry in the record is out of date."""
    record = read_record()
    return [stem for stem in cut_short() if stem not in record or record[stem]["digest"] != digest_of(stem)]


def problems() -> list[str]:
    """What is wrong with the record, one sentence each. The tests accept none."""
    stale = [f"{stem} has changed since its claims were last proved. Run `make claims`." for stem in out_of_date()]
    return stale + [f"{stem}: {failure}" for stem, proof in read_record().items() for failure in failures(proof)]


def failures(proof: Proof) -> list[str]:
    return [
        f"the text says, and the cell above contradicts it: {outcome['claim']} {outcome['measured'] or ''}".rstrip()
        for outcome in proof["claims"]
        if not outcome["holds"]
    ]


def prove(stem: str) -> list[str]:
    """Execute a notebook whole and keep the outcome. Returns the claims that failed."""
    digest = digest_of(stem)  # of what is executed, even if somebody edits it meanwhile
    proof = Proof(digest=digest, claims=execute(stem))
    if stem in cut_short():
        kept = {name: known for name, known in read_record().items() if name in cut_short()}
        write_record(kept | {stem: proof})
    return failures(proof)


def main(arguments: Sequence[str] | None = None) -> int:
    from nbclient.exceptions import CellExecutionError

    from autograder.authoring.build import stems

    description = "Execute whole notebooks, and record in solutions/claims.json whether the claims of their text hold."
    parser = argparse.ArgumentParser(prog=COMMAND, description=description)
    help_ = f"such as {stems()[-1]}; if none are named, those whose entry in the record is out of date"
    parser.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=help_)
    parser.add_argument("--check", action="store_true", help="only say whether the record is up to date")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.notebooks) - set(stems()))
    if unknown:
        parser.error(f"there is no notebook {unknown[0]}. There are: {', '.join(stems())}.")
    if options.check:
        print(*problems() or ["The record of claims is up to date, and all of them hold."], sep="\n")
        return 1 if problems() else 0
    has_failed = False
    for stem in options.notebooks or out_of_date():
        print(f"{stem} …", end=" ", flush=True)
        try:
            failed = prove(stem)
        except CellExecutionError as error:
            failed = [f"{error.ename}: {error.evalue}"]
        has_failed = has_failed or bool(failed)
        print("\n  ".join(["not every claim holds", *failed]) if failed else "every claim holds")
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
