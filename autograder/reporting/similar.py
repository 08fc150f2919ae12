"""Near-identical answers, compared after removing names and layout. Answers are read, never executed.

An answer becomes a list of tokens: without comments, docstrings, annotations and the lines that the release already
had, and with the names that its author chose made exchangeable. A *fragment* is a run of tokens; of each few
neighbouring ones a single one is kept (winnowing: Schleimer, Wilkerson and Aiken, 2003), so that any long enough run
that two answers share shows. A fragment of an answer that the course knows, right or wrong, says nothing; any other
counts by how rare it is in the class. Two students are compared only if they share a rare fragment: a class of a
thousand needs no half a million comparisons.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import keyword
import math
import re
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import combinations

FRAGMENT = 8  # tokens
WINDOW = 4  # fragments, of which one is kept
SHORTEST = 25  # tokens: shorter answers are alike by nature
LONGEST = 20_000  # characters of an answer that are looked at
MOST_LINES = 200  # of an answer that are set side by side
ALIKE = 0.7  # share of common fragments from which on two answers are called near-identical
EVIDENCE = 40.0  # bits that two submissions have to share
OTHERS = 20  # in a small class everything is rare or common by chance: as if so many more had written something else
COMMON = 0.05  # a fragment that more of the class have (and more than ten) leads to no comparison

VARIABLE = "\0"  # marks a name that its author chose

Tokens = tuple[str, ...]


@dataclass(frozen=True)
class SharedAnswer:
    """One exercise that two students answered nearly alike."""

    exercise: str
    likeness: float  # 0 to 1
    evidence: float  # bits
    first: str
    second: str

    def marked_lines(self) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
        """Both answers as (line, is it the same in the other one but for names and layout?), comments left out."""
        sides = [text[:LONGEST].splitlines()[:MOST_LINES] for text in (self.first, self.second)]
        bare = [[rename(tokens_in(line, None)) for line in side] for side in sides]
        same: tuple[set[int], set[int]] = set(), set()
        for start, other, size in SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_matching_blocks():
            same[0].update(range(start, start + size))
            same[1].update(range(other, other + size))
        marked = [
            [(line, i in marks and bool(tokens[i])) for i, line in enumerate(side)]
            for side, tokens, marks in zip(sides, bare, same)
        ]
        return marked[0], marked[1]


@dataclass(frozen=True)
class Pair:
    """Two students, and the answers that are nearly alike, the most telling one first."""

    first: str
    second: str
    evidence: float
    answers: tuple[SharedAnswer, ...]


@dataclass
class Known:
    """What may be alike in an exercise without telling anything: what many people write there, right or wrong, and
    what the release already had."""

    usual: Sequence[str] = ()
    stub: str = ""
    whole: set[Tokens] = field(init=False)
    fragments: set[int] = field(init=False)

    def __post_init__(self) -> None:
        lists = [normalised(text, self.stub) for text in self.usual]
        self.whole = {rename(tokens) for tokens in lists}
        lists += [tokens_as_written(text, self.stub) for text in self.usual]  # as answers with a syntax error are read
        # Every fragment of them, since another answer may keep a different one of the same neighbourhood.
        self.fragments = {fragment for tokens in lists for fragment in all_fragments(tokens)}


def similar_pairs(answers: Mapping[str, Mapping[str, str]], known: Mapping[str, Known]) -> list[Pair]:
    """The pairs of students whose answers are nearly alike, the most telling pair first.

    answers: student -> exercise -> text. known: exercise -> what says nothing there.
    """
    found: dict[tuple[str, str], list[SharedAnswer]] = defaultdict(list)
    exercises = sorted({exercise for texts in answers.values() for exercise in texts})
    for exercise in exercises:
        texts = {student: answers[student][exercise] for student in sorted(answers) if exercise in answers[student]}
        for students, shared in similar_answers(exercise, texts, known.get(exercise, Known())):
            found[students].append(shared)
    pairs = []
    for (first, second), shared_answers in found.items():
        evidence = sum(shared.evidence for shared in shared_answers)
        if evidence >= EVIDENCE:
            most_telling_first = sorted(shared_answers, key=lambda shared: (-shared.evidence, shared.exercise))
            pairs.append(Pair(first, second, evidence, tuple(most_telling_first)))
    return sorted(pairs, key=lambda pair: (-pair.evidence, pair.first, pair.second))


def similar_answers(
    exercise: str, texts: Mapping[str, str], known: Known
) -> Iterator[tuple[tuple[str, str], SharedAnswer]]:
    """The pairs of students who answered one exercise nearly alike."""
    prints: dict[str, frozenset[int]] = {}
    for student, text in texts.items():
        tokens = normalised(text, known.stub)
        if len(tokens) >= SHORTEST and rename(tokens) not in known.whole:
            prints[student] = frozenset(kept_fragments(tokens))
    holders: dict[int, list[str]] = defaultdict(list)
    for student, fragments in prints.items():
        for fragment in fragments - known.fragments:
            holders[fragment].append(student)
    most = max(10, COMMON * len(texts))
    evidence: dict[tuple[str, str], float] = defaultdict(float)
    for students in holders.values():
        if len(students) <= most:
            rarity = math.log2((len(texts) + OTHERS) / len(students))
            for pair in combinations(students, 2):
                evidence[pair] += rarity
    for (first, second), bits in evidence.items():
        likeness = len(prints[first] & prints[second]) / len(prints[first] | prints[second])
        if likeness >= ALIKE:
            yield (first, second), SharedAnswer(exercise, likeness, bits, texts[first], texts[second])


# --- from text to tokens --------------------------------------------------------------------------------


def normalised(text: str, stub: str) -> Tokens:
    """The tokens of an answer that its author wrote; chosen names are marked, not yet replaced."""
    text = text[:LONGEST]
    tree = parsed(text)
    if tree is None:
        return tokens_as_written(text, stub)
    try:
        tree = Bare().visit(tree)
        plain = ast.unparse(tree)
    except (RecursionError, ValueError):
        return tokens_as_written(text, stub)
    return tokens_in(without_lines(plain, bare_stub(stub)), chosen_names(tree))


def tokens_as_written(text: str, stub: str) -> Tokens:
    """The tokens of a text that is no program. Who chose which name cannot be known: all are marked."""
    return tokens_in(without_lines(text, stub), None)


@functools.cache
def bare_stub(stub: str) -> str:
    """A stub without docstring and annotations. The same few are asked for by everybody's answers."""
    return plain_code(stub)


def plain_code(text: str) -> str:
    """An answer for the eyes of others: without comments and docstrings, in which people put their names."""
    tree = parsed(text[:LONGEST])
    try:
        if tree is not None:
            return ast.unparse(Bare().visit(tree))
    except (RecursionError, ValueError):
        pass
    return re.sub(r"[ \t]*#.*", "", text)


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


def chosen_names(tree: ast.AST) -> set[str]:
    """The names that the author of a program chose: of variables, arguments, functions, classes and attributes."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                names.add(name)
    return names


def without_lines(text: str, stub: str) -> str:
    """The text without the lines that the stub has too, and without indentation: what is left of it fits no more."""
    given = {line.strip() for line in stub.splitlines()}
    return "\n".join(line.strip() for line in text.splitlines() if line.strip() not in given)


LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def tokens_in(text: str, chosen: set[str] | None) -> Tokens:
    """The tokens of any text, as far as it can be read. `chosen` None: every name counts as chosen."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in LAYOUT:
                continue
            is_chosen = token.type == tokenize.NAME and (
                not keyword.iskeyword(token.string) if chosen is None else token.string in chosen
            )
            found.append(VARIABLE + token.string if is_chosen else token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # an unclosed bracket, a bad indentation: what came before it counts
    return tuple(found)


def rename(tokens: Iterable[str]) -> Tokens:
    """Chosen names become their number in order of appearance."""
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(token, f"{VARIABLE}{len(numbers)}") if token.startswith(VARIABLE) else token
        for token in tokens
    )


# --- from tokens to fragments ---------------------------------------------------------------------------


def all_fragments(tokens: Tokens) -> list[int]:
    """A number for each run of tokens. Names are counted anew in each: an added line changes its surroundings alone."""
    return [number_of(rename(tokens[i : i + FRAGMENT])) for i in range(len(tokens) - FRAGMENT + 1)]


def kept_fragments(tokens: Tokens) -> set[int]:
    """The smallest number in each window of neighbouring fragments."""
    numbers = all_fragments(tokens)
    return {min(numbers[i : i + WINDOW]) for i in range(max(1, len(numbers) - WINDOW + 1))}


def number_of(tokens: Tokens) -> int:
    digest = hashlib.blake2b("\1".join(tokens).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
