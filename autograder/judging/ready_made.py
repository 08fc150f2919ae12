"""Does an answer use what its exercise forbids, such as torch's own norm? Read from the source.

While student code runs, the calls to torch are watched, but code can hide from a watch that runs beside it. The source
cannot be rewritten: the judge reads everything that an answer can reach by name, and what may reach further than its
names show (`getattr`, `exec`, torch's lower levels) counts as a way to the forbidden thing.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from autograder.judging.statements import (
    BACK_DOORS,
    BY_PATTERN,
    UNFAMILIAR,
    at_hand,
    defined_by,
    global_names,
    hands_over,
    has_a_star,
    is_attribute_set,
    may_change_anything,
    may_hold,
    mentions,
    names_of,
    names_used,
    roots_changed,
    statements_of,
    unfamiliar_modules,
    words_of,
)

MOST_CHARACTERS, MOST_STATEMENTS = 2_000_000, 5_000  # that are read; an honest notebook has a hundredth of them
MOST_REMEMBERED = 100_000  # characters of a submission; what is read of a longer one is forgotten
TOO_MUCH = "code that is too long to be read"
SUSPICIOUS = BACK_DOORS | {BY_PATTERN, UNFAMILIAR}


@dataclass
class Code:
    """The statements of a student's cells, and those among them that define a name."""

    statements: list[ast.stmt] = field(default_factory=list)
    defining: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def add(self, statement: ast.stmt) -> None:
        self.statements.append(statement)
        for name in defined_by(statement):
            self.defining.setdefault(name, []).append(statement)

    def behind(self, name: str) -> list[ast.stmt]:
        """Everything that runs, as far as names show, when this is used."""
        own = self.with_what_is_kept(name)
        changing = [statement for statement in self.statements if self.may_change(name, statement)]
        return self.reached([*changing, *own])

    def with_what_is_kept(self, name: str) -> list[ast.stmt]:
        """What defines this and all that it uses, and what may put something into an object that it uses, such as a
        list."""
        changed = frozenset().union(*map(roots_changed, self.statements))
        users = self.users()
        found: dict[ast.stmt, None] = {}
        names, to_read = {name}, [name]
        while to_read:
            each = to_read.pop()
            statements = list(self.defining.get(each, []))
            if self.may_keep(each, is_changed=each in changed):
                statements += at_hand(each, users)
            for statement in statements:
                if statement not in found:
                    found[statement] = None
                    to_read += names_used(statement) - names
                    names |= names_used(statement)
        return list(found)

    def users(self) -> dict[str, list[ast.stmt]]:
        """name -> the statements that use it or bind it. Each is handed out once."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.statements:
            for name in names_used(statement) | defined_by(statement):
                found.setdefault(name, []).append(statement)
        return found

    def may_keep(self, name: str, is_changed: bool) -> bool:
        """Whether an object of the student's own may hold what was put into it after it was made."""
        own = [each for each in self.defining.get(name, []) if not isinstance(each, ast.Import | ast.ImportFrom)]
        return bool(own) and (is_changed or any(may_hold(name, statement) for statement in own))

    def reached(self, statements: Iterable[ast.stmt], without: Collection[ast.stmt] = ()) -> list[ast.stmt]:
        """These, and what defines the names that they use."""
        seen = {id(statement) for statement in without}
        found, to_read = [], list(statements)
        while to_read:
            statement = to_read.pop()
            if id(statement) not in seen:
                seen.add(id(statement))
                found.append(statement)
                to_read += [maker for used in names_used(statement) for maker in self.defining.get(used, [])]
        return found

    def may_change(self, name: str, statement: ast.stmt) -> bool:
        """Whether a statement may put something in the place of this, or of one of torch's functions."""
        if may_change_anything(statement):
            return True
        if not hands_over(name, statement):
            return False
        others = self.reached([statement], without=self.defining.get(name, []))
        return any(is_attribute_set(node) for other in others for node in ast.walk(other))


def forbidden_in(name: str, forbidden: frozenset[str], cells: Sequence[str]) -> str | None:
    """The first forbidden name or back door that the answer called `name` uses; None if there is none."""
    try:
        return found_in(name, forbidden, cells)
    finally:
        if sum(map(len, cells)) > MOST_REMEMBERED:
            for cached in (statements_of, words_of, names_of, global_names, may_change_anything, roots_changed):
                cached.cache_clear()


def found_in(name: str, forbidden: frozenset[str], cells: Sequence[str]) -> str | None:
    if sum(map(len, cells)) > MOST_CHARACTERS:
        return TOO_MUCH
    found = [statements_of(source) for source in cells]
    statements = [statement for each in found for statement in each or ()]
    if None in found or len(statements) > MOST_STATEMENTS:
        return TOO_MUCH
    suspicious = SUSPICIOUS | forbidden
    if suspicious.isdisjoint(itertools.chain(*map(words_of, statements))):
        defined = {vars(statement).get("name") for statement in statements}
        if suspicious.isdisjoint({*itertools.chain(*map(names_of, statements))} - defined):
            return None  # as in most submissions: nothing of the kind stands anywhere
    code = Code()
    for statement in statements:
        code.add(statement)
    # After `from torch import *` a forbidden name is torch's, even if it gets another meaning later.
    known = {name} if any(map(has_a_star, statements)) else code.defining.keys()
    for statement in code.behind(name):
        for module in unfamiliar_modules(statement):
            return module
        names_from_elsewhere = names_used(statement) - known
        for mentioned in (*mentions(statement), *names_from_elsewhere):
            if mentioned in forbidden or mentioned in BACK_DOORS or mentioned == BY_PATTERN:
                return mentioned
    return None
