"""What an object has answered already, so that a diagnosis need not ask it again.

The properties of an exercise ask for much the same: a module is built, filled, called, and only then do they ask
something of their own. So one module is built and filled and asked again and again, and a question that it has
answered is not put to it a second time, as long as it can be seen that questions leave it as it was. Otherwise, and
where nothing can be seen because the module is in another process, a grade is given on fresh answers. The same holds
for functions. A diagnosis, which has to know the answers to everything, takes all known ones from here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from .bench import SCALARS, SEQUENCES, Answer, Bench, NotAttempted, NotPossible, StudentError
from .twins import FRESH, REGISTRIES, can_be_copied, may_keep_something

Step = tuple[str, tuple[Any, ...]]  # an operation of the bench, and its details
# These should leave a module as it is.
READING = ("shapes", "buffers", "state", "call", "gradient", "gradients", "parameter_gradients")
MOST_COMMON = frozenset([type(None), bool, int, float, str])
EMPTY = {name: value for name, value in FRESH.items() if isinstance(value, dict) and name not in REGISTRIES}


class Moment:
    """A state of an object: what it just answered, and what was asked next."""

    def __init__(self, step: Step | None = None, outcome: Answer | Exception | None = None):
        self.step = step  # also keeps the details alive, whose ids are in the keys
        self.outcome = outcome
        self.later: dict[Hashable, Moment] = {}
        self.model: Model | None = None  # of a building: the module that is asked many things
        self.is_steady: bool | None = None  # of the start: whether modules stay as they are when they are read


class Memory(Bench):
    """The bench of a function or class, with everything that was asked of it."""

    def __init__(self, bench: Bench, start: Moment, recalls: bool):
        self.bench = bench
        self.start = start
        self.recalls = recalls  # otherwise asks everything again, except what a module that stays the same has answered

    def ask(self, operation: str, *details: Any) -> Answer:
        key = (operation, key_of(details))
        may_recall = self.recalls or (operation == "build" and self.start.is_steady)
        known = self.start.later.get(key) if may_recall else None
        moment = self.start.later[key] = known or asked(self.bench, (operation, details))
        answer = outcome_of(moment)
        if operation != "build":
            return answer
        return Answer(InstanceMemory(self, moment, None if known else answer.value), answer.changed)


class InstanceMemory(Bench):
    """The bench of a module, with everything that was asked of modules that were built in the same way."""

    def __init__(self, parent: Memory, built: Moment, bench: Bench | None):
        self.parent = parent
        self.path = [built]
        self.changes = [built]  # the questions on the path that were meant to change the module
        self.bench = bench  # a module that was asked all that is on the path; None if that can be the model

    def ask(self, operation: str, *details: Any) -> Answer:
        step, key = (operation, details), (operation, key_of(details))
        now = self.before(step)
        may_recall = self.parent.recalls or self.bench is None
        moment = now.later.get(key) if may_recall else None
        if moment is not None:
            self.bench = None  # it was not asked, so it is not up to date
        elif self.parent.start.is_steady is False:
            self.bench = self.bench or self.rebuilt(self.path)
            moment = asked(self.bench, step)
        elif operation in READING:
            moment = self.read(step)
        else:
            model = self.model(step)
            moment = asked(model.bench, step)
            model.now_at([*self.changes_until(now), moment])
        now.later[key] = moment
        if operation not in READING:
            self.changes = [*self.changes_until(now), moment]
        self.path.append(moment)
        return outcome_of(moment)

    def before(self, step: Step) -> Moment:
        """The moment that a question comes after: for steady modules, that of the last change that matters."""
        if not self.parent.start.is_steady:
            return self.path[-1]
        model = self.path[0].model
        is_refilled = model is not None and model.can_be_filled_by(step) and are(("load",), self.changes[1:])
        return self.path[0] if is_refilled else self.changes[-1]

    def changes_until(self, now: Moment) -> list[Moment]:
        return self.changes[: self.changes.index(now) + 1] if now in self.changes else self.changes

    def model(self, step: Step) -> Model:
        """The model, changed as the path says, as far as it matters for a question."""
        model = self.path[0].model
        matters = model is None or not (model.can_be_filled_by(step) and are(("load",), self.changes[1:]))
        if model is None or (matters and not model.was_brought_to(self.changes)):
            is_here = self.bench is not None and self.path[-1] is self.changes[-1]
            bench = self.bench if self.bench is not None and is_here else self.rebuilt(self.changes)
            model = self.path[0].model = Model(bench, self.changes)
        self.bench = None
        return model

    def read(self, step: Step) -> Moment:
        """The answer of the model, which has been asked other things too. If that changed it, it is dropped."""
        model = self.model(step)
        moment = asked(model.bench, step)
        self.parent.start.is_steady = model.is_unchanged()
        if not self.parent.start.is_steady:
            self.bench, self.path[0].model = model.bench, None
        return moment

    def rebuilt(self, path: Sequence[Moment]) -> Bench:
        """A module that has been asked all of this."""
        (_, arguments), *steps = (moment.step for moment in path if moment.step is not None)
        bench: Bench = self.parent.bench.ask("build", *arguments).value
        for step in steps:
            asked(bench, step)
        return bench


class Model:
    """A module in one state, and everything that it keeps in that state."""

    def __init__(self, bench: Bench, changes: Sequence[Moment]):
        self.bench = bench
        module = getattr(bench, "obj", None)
        self.module = module if isinstance(module, nn.Module) and is_visible(module) else None
        self.names = Bench(self.module).shapes().value.keys() if self.module is not None else set()
        self.parts: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.now_at(changes)

    def now_at(self, changes: Sequence[Moment]) -> None:
        self.changes = changes
        if self.module is not None:
            tensors = [*self.module.parameters(), *self.module.buffers()]
            self.versions = [(tensor, tensor._version) for tensor in tensors]
            if not self.keeps_the_same():
                self.parts = [(vars(part), as_copied(vars(part))) for part in self.module.modules()]

    def can_be_filled_by(self, step: Step | None) -> bool:
        """Whether a question sets all parameters, so that their earlier values do not matter."""
        return self.loads_all(step) and are(("load",), self.changes[1:])

    def loads_all(self, step: Step | None) -> bool:
        return step is not None and step[0] == "load" and step[1][0].keys() == self.names

    def was_brought_to(self, changes: Sequence[Moment]) -> bool:
        """Whether it has been changed like this, or can be and is now."""
        if self.changes[-1] is changes[-1]:
            return True
        steps = [change.step for change in changes[1:] if change.step is not None]
        loads = [step for step in steps if step[0] == "load"]
        if not loads or not self.loads_all(loads[-1]) or not are(("load", "train"), [*changes[1:], *self.changes[1:]]):
            return False
        evaluation: Step = ("train", (False,))  # as every module is at first
        for step in (evaluation, loads[-1], *(step for step in steps if step[0] == "train")):
            asked(self.bench, step)
        self.now_at(changes)
        return True

    def is_unchanged(self) -> bool:
        """Whether it keeps what it kept before; False if not all of that can be seen."""
        is_seen = self.module is not None and all(tensor._version == version for tensor, version in self.versions)
        return is_seen and self.keeps_the_same()

    def keeps_the_same(self) -> bool:
        """Whether its attributes are the same as before, while the numbers in its tensors may differ."""
        try:
            return bool(self.parts) and all(now == before for now, before in self.parts)
        except RuntimeError:  # a tensor that took the place of another
            return False


def are(operations: Sequence[str], changes: Sequence[Moment]) -> bool:
    return all(change.step is not None and change.step[0] in operations for change in changes)


def is_visible(module: nn.Module) -> bool:
    """Whether everything that a module keeps can be seen."""
    kinds = {type(part) for part in module.modules()}
    return can_be_copied(module) and not any(may_keep_something(kind) for kind in kinds)


def as_copied(contents: dict[str, Any]) -> dict[str, Any]:
    """The contents of a module that is visible: all that could be changed in them is registered, or empty."""
    return {**contents, **EMPTY, **{name: contents[name].copy() for name in REGISTRIES}}


def asked(bench: Bench, step: Step) -> Moment:
    """The moment after a question, which is asked now."""
    operation, details = step
    try:
        return Moment(step, bench.ask(operation, *details))
    except (StudentError, NotAttempted, NotPossible) as error:
        return Moment(step, error)


def outcome_of(moment: Moment) -> Answer:
    if isinstance(moment.outcome, Exception):
        raise moment.outcome
    assert moment.outcome is not None
    return moment.outcome


def key_of(value: Any) -> Hashable:
    """The same for the same details. Of tensors: for the same object with the same numbers in it."""
    kind = type(value)
    if kind in MOST_COMMON:
        return kind, value
    if isinstance(value, Tensor):
        return id(value), value._version
    if isinstance(value, SEQUENCES):
        return kind, tuple([key_of(item) for item in value])
    if isinstance(value, Mapping):
        return tuple([(name, key_of(item)) for name, item in value.items()])
    return (kind, value) if isinstance(value, SCALARS) else id(value)
