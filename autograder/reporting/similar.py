"""Near-identical answers, compared after removing names, layout and order. Answers are read, never executed.

An answer becomes a set of *fragments*, without comments, docstrings and annotations, in which names that an author
chooses are exchangeable. One kind are runs of tokens within a line; of each few neighbouring ones a single one is kept
(winnowing: Schleimer, Wilkerson and Aiken, 2003). The other kind are links: a line that uses a variable, together with
the line that made it. Neither depends on what is in between, so lines may change places.

A fragment of anything that the course itself shows or knows (solutions, stubs, references, right and wrong answers,
code in the text, hints) says nothing. Only what is left is compared: two answers are alike if they share enough of it,
and most of it. Each shared fragment counts by how rare it is in the class. Students are compared only if they share a
rare fragment: a class of a thousand does not need half a million comparisons.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import keyword
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from nbformat import NotebookNode

FRAGMENT = 8  # tokens; a line with fewer is one fragment
SHORTEST = 5  # tokens of a line: shorter ones are alike by nature
WINDOW = 4  # fragments, of which one is kept
FEWEST = 12  # fragments that two answers have to share; a slip in a line of the course's own makes about six
ALIKE = 0.7  # share of common fragments from which on two answers are called near-identical
OTHERS = 20  # in a small class everything is rare or common by chance: as if this many more had written something else
COMMON = 0.05  # a fragment that more of the class have (and more than ten) leads to no comparison
LONGEST = 20_000  # characters of an answer that are looked at
WIDEST = 1_000  # characters of a line that are looked at
MOST_LINES = 200  # of an answer that are set side by side

VARIABLE = "\0"  # marks a name that its author chose

Tokens = tuple[str, ...]
Line = tuple[str, bool]  # with: is it in the other answer too, and not in the course?


@dataclass(frozen=True)
class SharedAnswer:
    """One exercise that two students answered nearly alike."""

    exercise: str
    likeness: float  # 0 to 1, of what the course does not show
    evidence: float  # bits
    first: str
    second: str
    own: frozenset[int]  # the fragments of both that the course does not show

    def marked_lines(self) -> tuple[list[Line], list[Line]]:
        """Both answers without comments and docstrings. A line is marked if the other answer has it too, except for
        names, and the course does not show it. Short lines are never marked: they say nothing."""
        sides = [plain_code(text)[:LONGEST].splitlines()[:MOST_LINES] for text in (self.first, self.second)]
        tokens = [[tokens_in(line) for line in side] for side in sides]
        bare = [{rename(line) for line in side} for side in tokens]
        first, second = (
            [
                (line, rename(words) in others and not self.own.isdisjoint(runs_in(words)))
                for line, words in zip(side, own)
            ]
            for side, own, others in zip(sides, tokens, reversed(bare))
        )
        return first, second


@dataclass(frozen=True)
class Pair:
    """Two students, and the answers that are nearly alike, the most telling one first."""

    first: str
    second: str
    evidence: float
    answers: tuple[SharedAnswer, ...]


@dataclass(frozen=True)
class Group:
    """Students who are linked by pairs, the most telling pair first."""

    students: tuple[str, ...]
    pairs: tuple[Pair, ...]

    @property
    def exercises(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(answer.exercise for pair in self.pairs for answer in pair.answers))


def similar_groups(answers: Mapping[str, Mapping[str, str]], known: frozenset[int]) -> list[Group]:
    """Groups of students whose answers are nearly alike, the most telling group first.

    answers: student -> exercise -> text. known: the fragments that say nothing, see `fragments_shown`.
    """
    found = similar_pairs(answers, known)
    group_of = {student: {student} for pair in found for student in (pair.first, pair.second)}
    for pair in found:
        together = group_of[pair.first] | group_of[pair.second]
        group_of |= dict.fromkeys(together, together)
    groups: dict[frozenset[str], list[Pair]] = defaultdict(list)
    for pair in found:
        groups[frozenset(group_of[pair.first])].append(pair)
    return [Group(tuple(sorted(students)), tuple(pairs)) for students, pairs in groups.items()]


def similar_pairs(answers: Mapping[str, Mapping[str, str]], known: frozenset[int]) -> list[Pair]:
    """The pairs of students whose answers are nearly alike, the most telling pair first."""
    found: dict[tuple[str, str], list[SharedAnswer]] = defaultdict(list)
    for exercise in sorted({exercise for texts in answers.values() for exercise in texts}):
        texts = {student: answers[student][exercise] for student in sorted(answers) if exercise in answers[student]}
        for students, shared in similar_answers(exercise, texts, known):
            found[students].append(shared)
    pairs = []
    for (first, second), shared_answers in found.items():
        most_telling_first = sorted(shared_answers, key=lambda shared: (-shared.evidence, shared.exercise))
        pairs.append(Pair(first, second, sum(s.evidence for s in shared_answers), tuple(most_telling_first)))
    return sorted(pairs, key=lambda pair: (-pair.evidence, pair.first, pair.second))


def similar_answers(
    exercise: str, texts: Mapping[str, str], known: frozenset[int]
) -> Iterator[tuple[tuple[str, str], SharedAnswer]]:
    """The pairs of students who answered one exercise nearly alike."""
    own = {student: fragments_of(text).kept - known for student, text in texts.items()}
    holders: dict[int, list[str]] = defaultdict(list)
    for student, fragments in own.items():
        if len(fragments) >= FEWEST:
            for fragment in fragments:
                holders[fragment].append(student)
    most = max(10, COMMON * len(texts))
    shared: dict[tuple[str, str], list[float]] = defaultdict(list)
    for students in holders.values():
        if len(students) <= most:
            rarity = math.log2((len(texts) + OTHERS) / len(students))
            for pair in combinations(students, 2):
                shared[pair].append(rarity)
    for (first, second), bits in shared.items():
        likeness = len(own[first] & own[second]) / len(own[first] | own[second])
        if len(bits) >= FEWEST and likeness >= ALIKE:
            one, other = texts[first], texts[second]
            ours = frozenset(fragments_of(one).all & fragments_of(other).all) - known
            yield (first, second), SharedAnswer(exercise, likeness, sum(bits), one, other, ours)


# --- from text to lines of tokens -----------------------------------------------------------------------


def plain_code(text: str) -> str:
    """An answer for the eyes of others: without comments and docstrings, in which people put their names."""
    tree = parsed(text[:LONGEST])
    try:
        if tree is not None:
            return ast.unparse(Bare().visit(tree))
    except (RecursionError, ValueError):
        pass
    return re.sub(r"(?<![ \t])[ \t]*#.*", "", text[:LONGEST])  # from the first of many spaces on, and from no other


def parsed(text: str) -> ast.Module | None:
    """The syntax tree, or None. Whatever a student may hand in, this does not raise and does not warn."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Bare(ast.NodeTransformer):
    """Removes docstrings and other bare constants, and annotations."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return node.value and ast.copy_location(ast.Assign([node.target], node.value), node)


TOKEN = re.compile(r"""[rbfu]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\#.*|\d[\w.]*|\w+|\S""", re.IGNORECASE)
GIVEN = {*keyword.kwlist, *dir(builtins), "self", "torch", "nn", "F", "math", "numpy", "np", "Tensor"}
BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def tokens_in(line: str) -> Tokens:
    """The tokens of a line of any text, with the names marked that its author chose.

    By the line alone, so that a line of an answer and the same line in the course's text are read alike: a name is
    chosen unless it is Python's or torch's, an attribute of anything but `self`, or the name of an argument in a call.
    """
    words = [word for word in TOKEN.findall(line[:WIDEST]) if not word.startswith("#")]
    found: list[str] = []
    depth = 0
    for before, word, after in zip(["", *words], words, [*words[1:], ""]):
        depth += BRACKETS.get(word, 0)
        is_name = word.isidentifier() and word not in GIVEN
        is_attribute = before == "." and found[-2:-1] != ["self"]
        is_chosen = is_name and not is_attribute and not (depth > 0 and after == "=")
        found.append(VARIABLE + word if is_chosen else word)
    return tuple(found)


def rename(tokens: Iterable[str]) -> Tokens:
    """Chosen names become their number in order of appearance."""
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(token, f"{VARIABLE}{len(numbers)}") if token.startswith(VARIABLE) else token
        for token in tokens
    )


# --- from tokens to fragments ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Fragments:
    """The fragments of a text: all runs of tokens line by line, and all links between two lines."""

    runs: tuple[tuple[int, ...], ...]
    links: frozenset[int]

    @property
    def all(self) -> set[int]:
        return {number for numbers in self.runs for number in numbers} | self.links

    @property
    def kept(self) -> set[int]:
        """The smallest number in each window of neighbouring runs, and all links."""
        windows = (
            min(numbers[i : i + WINDOW]) for numbers in self.runs for i in range(max(1, len(numbers) - WINDOW + 1))
        )
        return {*windows, *self.links}


def fragments_of(text: str) -> Fragments:
    """The fragments of what a text does; of a text that is not a program, those of the text as it is."""
    return fragments_in(plain_code(text)[:LONGEST])


@functools.lru_cache(maxsize=20_000)
def fragments_in(text: str) -> Fragments:
    lines = [tokens_in(line) for line in text.splitlines()]
    runs = tuple(found for line in lines if (found := runs_in(line)))
    return Fragments(runs, frozenset(number_of(both) for both in links(lines)))


def runs_in(line: Tokens) -> tuple[int, ...]:
    """All runs of tokens in a line; none if it is short."""
    if len(line) < SHORTEST:
        return ()
    return tuple(number_of(line[i : i + FRAGMENT]) for i in range(max(1, len(line) - FRAGMENT + 1)))


def links(lines: Iterable[Tokens]) -> Iterator[Tokens]:
    """A line that uses a variable, after the line that made it: whatever is between them, and wherever."""
    makers: dict[str, Tokens] = {}
    for line in lines:
        for name in {token for token in line if token.startswith(VARIABLE)} & makers.keys():
            yield (*makers[name][:FRAGMENT], "\n", name, *line[: 2 * FRAGMENT])
        makers |= dict.fromkeys(made_in(line), line)


def made_in(line: Tokens) -> Iterator[str]:
    """The variables that a line gives a value."""
    end = line.index("in") if line[:1] == ("for",) and "in" in line else line.index("=") if "=" in line else 0
    return (token for token in line[:end] if token.startswith(VARIABLE))


def fragments_shown(texts: Iterable[str]) -> frozenset[int]:
    """Every fragment of these, since another answer may keep a different one of the same neighbourhood; of their
    docstrings too, which count in an answer with a syntax error."""
    return frozenset().union(*(read(text).all for text in set(texts) for read in (fragments_of, fragments_in)))


def number_of(tokens: Tokens) -> int:
    """A number for a run of tokens. Names are numbered in each run separately, so an added line changes little."""
    digest = hashlib.blake2b("\1".join(rename(tokens)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


# --- what the course shows ------------------------------------------------------------------------------

CODE_IN_TEXT = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)


def code_in(text: str) -> list[str]:
    """The pieces of code in a text."""
    return [block or words for block, words in CODE_IN_TEXT.findall(text)]


def code_of_cells(cells: Iterable[NotebookNode]) -> list[str]:
    """All code that a notebook shows, in its cells and in its text."""
    parts = [[cell.source] if cell.cell_type == "code" else code_in(cell.source) for cell in cells]
    return [code for part in parts for code in part]
