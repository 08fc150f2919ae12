"""The exercise `fine_tune`: what must hold, and what people really write instead."""

from __future__ import annotations

import torch
from torch import nn

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.checking.settings import ABSENT, Pretrained

fine_tune = Exercise(
    classification.fine_tune,
    cases=[
        {
            "model": Pretrained(num_classes=6, d_model=3, num_layers=3),
            "num_classes": 2,
            "body_rate": 0.02,
            "head_rate": 0.5,
            "frozen_layers": 1,
        },
        {
            "model": Pretrained(num_classes=4, d_model=5, num_layers=4),
            "num_classes": 4,
            "body_rate": 0.3,
            "head_rate": 0.1,
            "frozen_layers": 3,
        },
        {
            "model": Pretrained(num_classes=2, d_model=4, num_layers=2),
            "num_classes": 7,
            "body_rate": 0.05,
            "head_rate": 0.25,
            "frozen_layers": 0,
        },
        {
            "model": Pretrained(num_classes=5, d_model=2, num_layers=2),
            "num_classes": 3,
            "body_rate": 0.01,
            "head_rate": 0.4,
            "frozen_layers": 2,
        },
    ],
    minutes=11,
    difficulty=2,
    hidden_points=2,
    hints=[
        "Three things in turn: the new head, then what is frozen, then the groups of what is left. The head comes "
        "first, so that the groups hold the new one.",
        "nn.Linear(model.head.in_features, num_classes) is a head that fits. It becomes part of the model when it is "
        "assigned to model.head.",
        "module.requires_grad_(False), with the underscore at the end, freezes all parameters of a module. A "
        "ModuleList can be cut like a list: model.encoder.layers[:frozen_layers].",
        "The rest of the body: model.encoder.layers[frozen_layers:].parameters() and model.encoder.norm.parameters(). "
        'A group is a dict: {"params": [...], "lr": body_rate}.',
    ],
)


def tuned(subject, case) -> tuple[dict, dict]:
    """The groups that were returned, parameter by parameter, and what has become of the model."""
    model, *others = case.values()
    groups, seen = subject.effect(model, *others)
    if groups is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if not isinstance(groups, dict) or "rates" not in groups:
        optimiser = "optim" in getattr(groups, "type_name", "")
        raise Failure(
            f'The result should be a list of groups, {{"params": [...], "lr": ...}} each, but it is '
            f"{name_of_type(groups)}." + (" The caller makes the optimiser from the groups." if optimiser else "")
        )
    return groups, seen


def is_frozen(name: str, case) -> bool:
    """Whether a parameter of this name should be frozen."""
    layers = tuple(f"encoder.layers.{i}." for i in range(case["frozen_layers"]))
    return name.startswith(("embedding.", "positions.", *layers))


def expect_none(names: list[str], message: str) -> None:
    more = f" (and {len(names) - 3} more)" if len(names) > 3 else ""
    expect(not names, message.format(", ".join(names[:3]) + more))


@fine_tune.property("the model gives logits for num_classes classes, from a new head", points=1)
def tuned_head(subject, case):
    _, seen = tuned(subject, case)
    logits, wanted = seen["logits"], case["num_classes"]
    expect(isinstance(logits, list), f"With its new head the model cannot be called any more. {logits}")
    expect(
        logits == [2, wanted],
        f"For two sequences and {wanted} classes the model should give logits of shape (2, {wanted}), but their shape "
        f"is {tuple(logits)}.",
    )
    expect(
        not seen["old head"],
        "model.head has the numbers that it had before. The new task needs a new head, even if it has as many classes.",
    )


@fine_tune.property("the body keeps the numbers that it has learned", points=1)
def tuned_body(subject, case):
    _, seen = tuned(subject, case)
    expect_none(seen["changed"], "These parameters of the body have other numbers than before: {}.")


@fine_tune.property("embedding, positions and the first layers are frozen, and nothing else", points=2)
def tuned_freezing(subject, case):
    _, seen = tuned(subject, case)
    learns = [name for name, learns in seen["learns"].items() if learns and is_frozen(name, case)]
    expect_none(
        learns, f"With frozen_layers = {case['frozen_layers']} these should be frozen, but ask for gradients: {{}}."
    )
    frozen = [name for name, learns in seen["learns"].items() if not learns and not is_frozen(name, case)]
    expect_none(frozen, f"With frozen_layers = {case['frozen_layers']} these should learn, but are frozen: {{}}.")


@fine_tune.property("the groups hold every parameter that learns, once, and no other", points=2)
def tuned_groups(subject, case):
    groups, seen = tuned(subject, case)
    listed = [name for name, rate in groups["rates"].items() if rate != ABSENT]
    expect(
        groups["strangers"] == 0,
        f"In your groups there are parameters that are not the model's: {groups['strangers']} of them. Is the old head "
        "among them?",
    )
    expect_none([name for name in listed if is_frozen(name, case)], "Frozen parameters are in your groups: {}.")
    missing = [name for name in seen["learns"] if name not in listed and not is_frozen(name, case)]
    expect_none(missing, "These parameters are in none of your groups, and would never learn: {}.")
    expect_none(groups["twice"], "These parameters are in your groups more than once, which an optimiser refuses: {}.")


@fine_tune.property("the body learns with body_rate, the head with head_rate", points=2)
def tuned_rates(subject, case):
    groups, _ = tuned(subject, case)
    for name, rate in groups["rates"].items():
        if rate == ABSENT:
            continue
        wanted = case["head_rate" if name.startswith("head.") else "body_rate"]
        expect(rate is not None, f'The group of {name} has no rate: the entry of a group is called "lr".')
        expect(abs(rate - wanted) < 1e-6, f"The rate of {name} should be {wanted:g}, but it is {rate:g}.")


@fine_tune.misconception
def keeps_the_old_head(model, num_classes, body_rate, head_rate, frozen_layers):
    """The head is still the old one. The new task has other classes: `model.head` has to be replaced.

    Setting its `out_features` changes an attribute, but neither its shape nor its numbers."""
    old = model.head
    pass
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def gives_the_head_another_name(model, num_classes, body_rate, head_rate, frozen_layers):
    """The new head is not `model.head`, and the model still uses the old one."""
    old = model.head
    model.classifier = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.classifier.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def collects_the_old_head(model, num_classes, body_rate, head_rate, frozen_layers):
    """Your group holds the parameters of the old head: it was made before the head was replaced.

    The new head, which knows nothing yet, would never learn."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*old.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def leaves_the_head_out(model, num_classes, body_rate, head_rate, frozen_layers):
    """The head is in none of your groups.

    The new head, which knows nothing yet, would never learn."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}]


@fine_tune.misconception
def leaves_the_body_out(model, num_classes, body_rate, head_rate, frozen_layers):
    """Only the head is in your groups. The layers that are not frozen, and the encoder's norm, learn too."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": head, "lr": head_rate}]


@fine_tune.misconception
def gives_all_the_bodys_rate(model, num_classes, body_rate, head_rate, frozen_layers):
    """Everything learns with body_rate. The head has its own rate, head_rate.

    The new head starts from nothing; with the small rate of the body it hardly moves."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": body_rate}]


@fine_tune.misconception
def gives_all_the_heads_rate(model, num_classes, body_rate, head_rate, frozen_layers):
    """Everything learns with head_rate. The body has its own rate, body_rate.

    A rate that is right for a new head wipes out what the body has learned."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": head_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def exchanges_the_rates(model, num_classes, body_rate, head_rate, frozen_layers):
    """The two rates have changed places: body_rate is for the body, head_rate for the head."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": head_rate}, {"params": head, "lr": body_rate}]


@fine_tune.misconception
def misnames_the_rate(model, num_classes, body_rate, head_rate, frozen_layers):
    """Your groups have no "lr". Optimisers know the rate under that name only.

    They would use their default for both groups, and say nothing."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "rate": body_rate}, {"params": head, "rate": head_rate}]


@fine_tune.misconception
def leaves_frozen_parameters_in_the_groups(model, num_classes, body_rate, head_rate, frozen_layers):
    """Your groups hold frozen parameters. Only what learns belongs there."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*model.embedding.parameters(), *model.positions.parameters(), *model.encoder.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def leaves_frozen_layers_in_the_groups(model, num_classes, body_rate, head_rate, frozen_layers):
    """The whole encoder is in your groups, its frozen layers included. Only what learns belongs there."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*model.encoder.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def exchanges_the_sizes_of_the_head(model, num_classes, body_rate, head_rate, frozen_layers):
    """The sizes of your new head are the wrong way round: nn.Linear takes the number of inputs first, then that of
    outputs."""
    old = model.head
    model.head = nn.Linear(num_classes, old.in_features).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def stands_on_the_old_outputs(model, num_classes, body_rate, head_rate, frozen_layers):
    """Your new head takes as many inputs as the old one had *outputs*. It takes the place of the old head, and has
    its inputs."""
    old = model.head
    model.head = nn.Linear(old.out_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def lets_the_positions_learn(model, num_classes, body_rate, head_rate, frozen_layers):
    """The positions are not frozen, and they are in your groups."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*model.positions.parameters(), *layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def lets_the_embedding_learn(model, num_classes, body_rate, head_rate, frozen_layers):
    """The embedding is not frozen, and it is in your groups."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*model.embedding.parameters(), *layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def never_switches_gradients_off(model, num_classes, body_rate, head_rate, frozen_layers):
    """You leave the frozen parts out of the groups, but their parameters still ask for gradients (requires_grad).

    The gradients of the frozen parts are computed in every step, and nobody uses them."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def sets_it_on_the_module(model, num_classes, body_rate, head_rate, frozen_layers):
    """You set `requires_grad = False` on a module. That is a new attribute without any effect: it has to be set on
    the parameters.

    Nothing is frozen."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad = False
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_the_whole_body(model, num_classes, body_rate, head_rate, frozen_layers):
    """All layers of the encoder are frozen. Only the first `frozen_layers` are."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_the_whole_encoder(model, num_classes, body_rate, head_rate, frozen_layers):
    """All of the encoder is frozen, and in none of your groups. Only its first `frozen_layers` layers are."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, model.encoder]:
        part.requires_grad_(False)
    body = []
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_everything(model, num_classes, body_rate, head_rate, frozen_layers):
    """You freeze the whole model, the new head included.

    Nothing is left that could learn."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_all_but_the_head(model, num_classes, body_rate, head_rate, frozen_layers):
    """Everything but the head is frozen. The layers after the first `frozen_layers`, and the encoder's norm, learn
    as well."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, model.encoder]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_the_head(model, num_classes, body_rate, head_rate, frozen_layers):
    """The new head is frozen.

    It starts with random numbers and would keep them."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers], model.head]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_no_embedding(model, num_classes, body_rate, head_rate, frozen_layers):
    """The embedding is not frozen."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_no_positions(model, num_classes, body_rate, head_rate, frozen_layers):
    """The positions are not frozen."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_no_tables(model, num_classes, body_rate, head_rate, frozen_layers):
    """Embedding and positions are not frozen; only layers are."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in layers[:frozen_layers]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def lets_the_tables_learn(model, num_classes, body_rate, head_rate, frozen_layers):
    """Embedding and positions are not frozen, and your groups hold them. Only what lies above the first
    `frozen_layers` layers learns."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in layers[:frozen_layers]:
        part.requires_grad_(False)
    body = [
        *model.embedding.parameters(),
        *model.positions.parameters(),
        *layers[frozen_layers:].parameters(),
        *model.encoder.norm.parameters(),
    ]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_no_layers(model, num_classes, body_rate, head_rate, frozen_layers):
    """No layer is frozen: `frozen_layers` plays no part."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions]:
        part.requires_grad_(False)
    body = [*model.encoder.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_the_last_layers(model, num_classes, body_rate, head_rate, frozen_layers):
    """You freeze the last layers. The first ones, next to the embedding, are frozen.

    They know what most tasks share; the last ones have to adapt."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[len(layers) - frozen_layers :]]:
        part.requires_grad_(False)
    body = [*layers[: len(layers) - frozen_layers].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_one_layer(model, num_classes, body_rate, head_rate, frozen_layers):
    """You freeze one layer, the one with the number `frozen_layers`. All layers before it are frozen."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[frozen_layers : frozen_layers + 1]]:
        part.requires_grad_(False)
    body = [p for p in model.encoder.parameters() if p.requires_grad]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_one_layer_too_many(model, num_classes, body_rate, head_rate, frozen_layers):
    """One layer too many is frozen."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[: frozen_layers + 1]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers + 1 :].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def freezes_the_norm(model, num_classes, body_rate, head_rate, frozen_layers):
    """The encoder's norm is frozen and in none of your groups. It belongs to what is left of the body."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers], model.encoder.norm]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def forgets_the_norm(model, num_classes, body_rate, head_rate, frozen_layers):
    """The encoder's norm is in none of your groups. It belongs to what is left of the body."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def lists_the_head_twice(model, num_classes, body_rate, head_rate, frozen_layers):
    """The head is in both groups. An optimiser refuses a parameter that it gets twice."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [p for p in model.parameters() if p.requires_grad]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.misconception
def loses_the_body(model, num_classes, body_rate, head_rate, frozen_layers):
    """The body has other numbers than before. What was learned in pre-training has to stay."""
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes).to(old.weight)
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    for parameter in model.encoder.parameters():
        nn.init.normal_(parameter)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    head = [*model.head.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": head, "lr": head_rate}]


@fine_tune.alternative
def by_names(model, num_classes, body_rate, head_rate, frozen_layers):
    model.head = nn.Linear(model.head.weight.shape[1], num_classes, bias=True)
    frozen = ("embedding.", "positions.", *(f"encoder.layers.{i}." for i in range(frozen_layers)))
    body = []
    for name, parameter in model.named_parameters():
        if name.startswith(frozen):
            parameter.requires_grad = False
        elif not name.startswith("head."):
            body.append(parameter)
    return [{"params": model.head.parameters(), "lr": head_rate}, {"params": body, "lr": body_rate}]


@fine_tune.alternative
def freezing_everything_first(model, num_classes, body_rate, head_rate, frozen_layers):
    model.requires_grad_(False)
    model.encoder.requires_grad_(True)
    for i in range(frozen_layers):
        for p in model.encoder.layers[i].parameters():
            p.requires_grad_(False)
    body = [p for p in model.parameters() if p.requires_grad]
    model.head = nn.Linear(model.embedding.table.embedding_dim, num_classes)
    nn.init.zeros_(model.head.weight)
    return (
        {"params": body, "lr": body_rate, "weight_decay": 0.1},
        {"params": [*model.head.parameters()], "lr": head_rate},
    )


@fine_tune.alternative
def with_a_group_for_each_parameter(model, num_classes, body_rate, head_rate, frozen_layers):
    old = model.head
    model.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(old.in_features, num_classes))
    frozen = nn.ModuleList([model.embedding, model.positions, *list(model.encoder.layers)[:frozen_layers]])
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    return [
        {"params": parameter, "lr": head_rate if name.startswith("head") else body_rate}
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]


@fine_tune.alternative
def with_named_parameters(model, num_classes, body_rate, head_rate, frozen_layers):
    model.head = nn.Linear(model.head.in_features, num_classes)
    for i, layer in enumerate(model.encoder.layers):
        if i < frozen_layers:
            layer.requires_grad_(False)
    model.embedding.table.weight.requires_grad = model.positions.table.weight.requires_grad = False
    body = [(name, p) for name, p in model.encoder.named_parameters() if p.requires_grad]
    return [
        {"params": body, "lr": torch.tensor(body_rate)},
        {"params": model.head.named_parameters(), "lr": head_rate},
    ]
