"""What an object has answered already, so that a diagnosis need not ask it again.

The properties of an exercise ask for much the same: a module is built, filled, called, and only then comes something of
their own. A grade is given on fresh answers. A diagnosis, which has to know the answers to everything, takes the known
ones from here. What is new is asked of a module that was built and filled in the same way, again and again of the same
one as long as it can be seen that a question leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from .bench import Answer, Bench, NotAttempted, NotPossible, StudentError
from .twins import FRESH, REGISTRIES, Plain, may_keep_something

Step = tuple[str, tuple[Any, ...]]  # an operation of the bench, and its details
# These should leave a module as it is.
READING = ("shapes", "buffers", "state", "call", "gradient", "gradients", "parameter_gradients")


class Moment:
    """A point in the life of an object: what it just answered, and what was asked next."""

    def __init__(self, step: Step | None = None, outcome: Answer | Exception | None = None):
        self.step = step  # also keeps the details alive, whose ids are in the keys
        self.outcome = outcome
        self.later: dict[Hashable, Moment] = {}
        self.model: Bench | None = None  # a module at this point, which is asked many things
        self.marks: list[Hashable] | None = None  # of the model
        self.is_steady: bool | None = None  # of the start: whether modules stay as they are when they are read


class Memory(Bench):
    """The bench of a function or class, with all that was asked of it."""

    def __init__(self, bench: Bench, start: Moment, recalls: bool):
        self.bench = bench
        self.start = start
        self.recalls = recalls  # or asks everything anew

    def ask(self, operation: str, *details: Any) -> Answer:
        key = (operation, key_of(details))
        known = self.start.later.get(key) if self.recalls else None
        moment = self.start.later[key] = known or asked(self.bench, (operation, details))
        answer = outcome_of(moment)
        if operation != "build":
            return answer
        return Answer(InstanceMemory(self, moment, None if known else answer.value), answer.changed)


class InstanceMemory(Bench):
    """The bench of a module, with all that was asked of modules that were built in the same way."""

    def __init__(self, parent: Memory, built: Moment, bench: Bench | None):
        self.parent = parent
        self.path = [built]
        self.base = built  # after the last question that was meant to change the module
        self.bench = bench  # a module that was asked all that is on the path, if there is one

    def ask(self, operation: str, *details: Any) -> Answer:
        step, key = (operation, details), (operation, key_of(details))
        now = self.path[-1]
        moment = now.later.get(key) if self.parent.recalls else None
        if moment is None and self.parent.recalls and operation in READING and self.bench is None:
            moment = self.read(step, key)
        if moment is not None:
            self.bench = None  # it was not asked, and is behind
        else:
            self.bench = self.bench or self.taken() or self.rebuilt(self.path)
            moment = asked(self.bench, step)
        now.later[key] = moment
        if operation in READING:
            self.base.later.setdefault(key, moment)
        else:
            self.base = moment
        self.path.append(moment)
        return outcome_of(moment)

    def read(self, step: Step, key: Hashable) -> Moment | None:
        """The answer of a module that may have been asked other things before; None if these may change it."""
        start, base = self.parent.start, self.base
        if start.is_steady is False:
            return None
        if base.model is None:
            base.model = self.rebuilt(self.path[: self.path.index(base) + 1])
            base.marks = marks_of(base.model)
        if start.is_steady and key in base.later:
            return base.later[key]
        moment = asked(base.model, step) if base.marks is not None else None
        start.is_steady = base.marks is not None and base.marks == marks_of(base.model)
        return moment if start.is_steady else None

    def taken(self) -> Bench | None:
        """The model, which is then nobody else's."""
        model = self.base.model if self.parent.start.is_steady else None
        self.base.model = None
        return model

    def rebuilt(self, path: Sequence[Moment]) -> Bench:
        """A module that has been asked all of this."""
        (_, arguments), *steps = (moment.step for moment in path if moment.step is not None)
        bench: Bench = self.parent.bench.ask("build", *arguments).value
        for step in steps:
            if not (self.parent.start.is_steady and step[0] in READING):
                asked(bench, step)
        return bench


def marks_of(bench: Bench) -> list[Hashable] | None:
    """What changes with everything that a module keeps; None if that cannot be seen."""
    module = getattr(bench, "obj", None)
    if not isinstance(module, nn.Module) or any(may_keep_something(type(part)) for part in module.modules()):
        return None
    marks: list[Hashable] = []
    for part in module.modules():
        for name, value in vars(part).items():
            if name in REGISTRIES:
                marks += [key_of(item) for item in (value.values() if isinstance(value, dict) else value)]
            elif isinstance(value, Plain):
                marks.append(value)
            elif name not in FRESH or value != FRESH[name]:
                return None
    return marks


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
    if isinstance(value, Tensor):
        return id(value), value._version
    if isinstance(value, Mapping):
        return tuple((name, key_of(item)) for name, item in value.items())
    if isinstance(value, tuple | list):
        return type(value), tuple(key_of(item) for item in value)
    return (type(value), value) if value is None or isinstance(value, bool | int | float | str) else id(value)
