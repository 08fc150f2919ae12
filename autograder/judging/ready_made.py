"""Does an answer use what its exercise forbids, such as torch's own norm? Read from the source.

While student code runs, the calls to torch are watched, but code can hide from a watch that runs beside it. The source
cannot be rewritten: the judge reads everything that an answer can reach by name, and what may reach further than its
names show (`getattr`, `exec`, torch's lower levels) counts as a way to the forbidden thing.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from autograder.judging.attributes import Objects, bound_in, may_set_attributes
from autograder.judging.statements import (
    ALWAYS_THERE,
    BACK_DOORS,
    BY_PATTERN,
    MODULES_OF_TORCH,
    PRIVATE,
    STAR,
    UNFAMILIAR,
    at_hand,
    defined_by,
    files_named,
    global_names,
    has_a_star,
    imports_everything,
    is_used_while_defined,
    may_bind_anything,
    may_hold,
    mentions,
    names_from_stars,
    names_handed_on,
    names_of,
    names_out_of_the_course,
    names_used,
    plainly_used,
    private_members,
    private_names_made,
    roots_changed,
    sets_an_attribute,
    statements_of,
    unfamiliar_modules,
    words_of,
)

MOST_CHARACTERS, MOST_STATEMENTS = 2_000_000, 5_000  # that are read; an honest notebook has a hundredth of them
# Of a submission that is longer than what follows: reading takes a microsecond for each, ten times.
MOST_NODES = 300_000
MOST_REMEMBERED = 100_000  # characters of a submission; what is read of a longer one is forgotten
TOO_MUCH = "code that is too long to be read"
SUSPICIOUS = BACK_DOORS | {BY_PATTERN, UNFAMILIAR, PRIVATE}


@dataclass
class Code:
    """The statements of a student's cells, and those among them that define a name."""

    statements: list[ast.stmt] = field(default_factory=list)
    defining: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def add(self, statement: ast.stmt) -> None:
        self.statements.append(statement)
        for name in defined_by(statement) | names_out_of_the_course(statement):
            self.defining.setdefault(name, []).append(statement)

    def behind(self, name: str) -> list[ast.stmt]:
        """Everything that runs, as far as names show, when this is used."""
        own = self.with_what_is_kept(name)
        objects = Objects(name, bound_in(self.statements))
        files = frozenset().union(*map(files_named, self.statements))
        changing = [
            each
            for each in self.statements
            if may_bind_anything(each) or self.may_set(each, objects) or not files.isdisjoint(unfamiliar_modules(each))
        ]
        return self.reached([*changing, *self.changing_what_they_get(name, objects), *own])

    @staticmethod
    def may_set(statement: ast.stmt, objects: Objects, of_arguments: bool = False) -> bool:
        """Whether a statement may put something in the place of a function of this answer or of torch's."""
        return sets_an_attribute(statement) and may_set_attributes(statement, objects, of_arguments)

    def changing_what_they_get(self, name: str, objects: Objects) -> list[ast.stmt]:
        """The statements that hand this, or a module of torch's, to code that may set attributes of what it gets, also
        under another name."""
        own = dict.fromkeys(self.defining.get(name, ()))
        users = self.by_name(names_handed_on)
        handing, to_read = dict.fromkeys(own), [name, *filter(self.is_imported, {*MODULES_OF_TORCH, *self.defining})]
        while to_read:
            for statement in users.pop(to_read.pop(), ()):
                if statement not in handing:
                    handing[statement] = None
                    to_read += defined_by(statement)
        if len(handing) == len(own):
            return []
        setting = self.leading_to_sets(own, objects)
        return [statement for statement in handing if statement in setting and statement not in own]

    def leading_to_sets(self, without: Iterable[ast.stmt], objects: Objects) -> dict[ast.stmt, None]:
        """The statements that may set attributes of what they get, and those that use these, directly or not."""
        users = self.by_name(names_used)
        found = dict.fromkeys(without)
        to_read = [each for each in self.statements if self.may_set(each, objects, of_arguments=True)]
        while to_read:
            statement = to_read.pop()
            if statement not in found:
                found[statement] = None
                to_read += [user for made in defined_by(statement) for user in users.pop(made, ())]
        return found

    def by_name(self, names_in: Callable[[ast.stmt], Collection[str]]) -> dict[str, list[ast.stmt]]:
        """name -> the statements with this name."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.statements:
            for name in names_in(statement):
                found.setdefault(name, []).append(statement)
        return found

    def with_what_is_kept(self, name: str) -> list[ast.stmt]:
        """What defines this and all that it uses, and what may put something into an object that it uses, such as a
        list."""
        changed = frozenset().union(*map(roots_changed, self.statements))
        users = self.by_name(lambda each: names_used(each) | defined_by(each))  # each is handed out once
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

    def may_keep(self, name: str, is_changed: bool) -> bool:
        """Whether an object of the student's own may hold what was put into it after it was made."""
        own = [each for each in self.defining.get(name, []) if not isinstance(each, ast.Import | ast.ImportFrom)]
        return bool(own) and (is_changed or any(may_hold(name, statement) for statement in own))

    def reached(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """These, and what defines the names that they use."""
        found = dict.fromkeys(statements)
        names: set[str] = set()
        to_read = list(found)
        while to_read:
            used = names_used(to_read.pop()) - names
            names |= used
            new = [maker for each in used for maker in self.defining.get(each, ()) if maker not in found]
            found |= dict.fromkeys(new)
            to_read += new
        return list(found)

    def is_imported(self, name: str) -> bool:
        """Whether nobody but an import, or the instructor, gives a global name its meaning."""
        return all(isinstance(each, ast.Import | ast.ImportFrom) for each in self.defining.get(name, ()))

    def hides_torchs(self, name: str) -> bool:
        """Whether everything is imported from torch before this is defined, and nothing reads its name before: then it
        always stands for the student's own."""
        first = next((each for each in self.statements if name in names_used(each) | defined_by(each)), None)
        later = itertools.dropwhile(lambda each: each is not first, self.statements)
        if not isinstance(first, ast.ClassDef | ast.FunctionDef) or first.name != name:
            return False
        return not any(map(imports_everything, later)) and not is_used_while_defined(name, first)


def forbidden_in(
    name: str, forbidden: frozenset[str], cells: Sequence[str], given: Collection[str] | None = None
) -> str | None:
    """The first forbidden name or back door that the answer called `name` uses; None if there is none.

    given: the names that the instructor's cells define. None: whatever the student's cells do not define.
    """
    try:
        return found_in(name, forbidden, cells, given)
    finally:
        if sum(map(len, cells)) > MOST_REMEMBERED:
            for cached in CACHED:
                cached.cache_clear()


def found_in(
    name: str, forbidden: frozenset[str], cells: Sequence[str], given: Collection[str] | None = None
) -> str | None:
    if sum(map(len, cells)) > MOST_CHARACTERS:
        return TOO_MUCH
    found = [statements_of(source) for source in cells]
    statements = [statement for each in found for statement in each or ()]
    if None in found or len(statements) > MOST_STATEMENTS:
        return TOO_MUCH
    if sum(map(len, cells)) > MOST_REMEMBERED and has_more_nodes(statements, MOST_NODES):
        return TOO_MUCH
    suspicious = SUSPICIOUS | forbidden
    if suspicious.isdisjoint(itertools.chain(*map(words_of, statements))):
        defined = {vars(statement).get("name") for statement in statements}
        if suspicious.isdisjoint({*itertools.chain(*map(names_of, statements))} - defined):
            return None  # as in most submissions: nothing of the kind stands anywhere
    code = Code()
    for statement in statements:
        code.add(statement)
    strange = (BACK_DOORS | {BY_PATTERN} | forbidden) - {STAR}
    is_hidden = code.hides_torchs(name)
    # After `from torch import *` a forbidden name is torch's, even if it gets another meaning later.
    known = {name} if any(map(has_a_star, statements)) else code.defining.keys()
    there = names_there(statements, given)
    own_private = frozenset().union(*map(private_names_made, statements))
    for statement in code.behind(name):
        for module in unfamiliar_modules(statement):
            return module
        if imports_everything(statement) and not is_hidden:
            return STAR
        names_from_elsewhere = names_used(statement) - known - plainly_used(statement)
        for mentioned in (*mentions(statement), *names_from_elsewhere):
            if mentioned in strange:
                return mentioned
        for member, owner in private_members(statement):
            if member not in own_private or (owner in names_used(statement) and code.is_imported(owner)):
                return member
        for used in names_used(statement) - code.defining.keys() - there if there is not None else ():
            return used
    return None


def has_more_nodes(statements: Iterable[ast.stmt], most: int) -> bool:
    nodes = itertools.chain.from_iterable(map(ast.walk, statements))
    return next(itertools.islice(nodes, most, None), None) is not None


def names_there(statements: Iterable[ast.stmt], given: Collection[str] | None) -> frozenset[str] | None:
    """The names that need no statement of the student's to define them; None if that is not known."""
    imported = names_from_stars(statements)
    return None if given is None or imported is None else ALWAYS_THERE | imported | frozenset(given)


CACHED = (
    *(statements_of, words_of, names_of, global_names, roots_changed),
    *(may_bind_anything, sets_an_attribute, names_handed_on, private_names_made, files_named),
)
