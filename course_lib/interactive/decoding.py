"""Figures of decoding: what is left of a distribution after the filters, and the tree of a beam search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.decoding import NextLogits, beam_search, uncached
from course_lib.grammar import MAX_WORDS
from course_lib.interactive.attention import draw_bars, require_names
from course_lib.interactive.figure import BLUE, GREEN, InteractiveFigure, brief
from course_lib.transformer import Transformer
from course_lib.translation import BOS, EOS, english_vocabulary, french_vocabulary

MOST_TOKENS = 5000

# --- filters --------------------------------------------------------------------------------------------


def next_token_filters(tokens: Sequence[str], logits: Tensor, shown: int = 12) -> InteractiveFigure:
    """A model's next-token distribution with sliders for temperature, top-k and top-p, applied in this order.

    It shows which tokens are left, their probabilities, the entropy, and draws tokens by a generator with a fixed seed:
    everybody who presses the button sees the same draws.

    tokens: the vocabulary; logits: (vocab,), -inf allowed; shown: how many of the likeliest get a bar.

    >>> next_token_filters(french_vocabulary().words, next_logits(prefix)[0])  # doctest: +SKIP
    """
    if logits.dim() != 1:
        raise ValueError(f"logits should be (vocab,), one number a token, but they are {tuple(logits.shape)}.")
    require_names(tokens, len(logits), "logits")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(
            f"The figure holds {MOST_TOKENS} tokens, but there are {len(tokens)}: give the likeliest ones."
        )
    values = logits.detach().to("cpu").double()
    if values.isnan().any() or (values == math.inf).any() or not values.isfinite().any():
        raise ValueError("Each logit should be a number or -inf, and at least one a number.")

    def still(figure: Figure) -> None:
        top = values.topk(min(shown, len(values)))
        names = [tokens[i] for i in top.indices.tolist()]
        probabilities = values.softmax(dim=0)[top.indices].tolist()
        draw_bars(figure.subplots(), names, probabilities, "probability of the next token", BLUE)

    alt = (
        f"Bars: the probabilities of the {min(shown, len(tokens))} likeliest of {len(tokens)} next tokens. Sliders set "
        "temperature, top-k and top-p, and a button draws a token from what is left."
    )
    data = {
        "tokens": list(tokens),
        "logits": [round(value, 4) if math.isfinite(value) else None for value in values.tolist()],
        "shown": shown,
        "mostK": min(len(tokens) - 1, 50),
    }
    return InteractiveFigure("next_token_filters", data, alt, still, size=(7.5, 3.2))


# --- beam search ----------------------------------------------------------------------------------------


State = Literal["kept", "pruned", "finished"]


@dataclass(frozen=True)
class Hypothesis:
    """A prefix in one round of a beam search, and what became of it in that round."""

    tokens: tuple[str, ...]  # without BOS
    log_probability: float
    state: State
    score: float | None = None  # of a finished one: log-probability / length^alpha


@dataclass(frozen=True)
class Beam:
    """A beam search, round by round: the hypotheses of each, the likeliest first."""

    steps: Sequence[Sequence[Hypothesis]]
    alpha: float


def beam_tree(beam: Beam) -> InteractiveFigure:
    """A beam search as a tree that grows by a button: what is kept, pruned and finished in each round.

    >>> beam_tree(translation_beam(load_translator(), "the cat is on the mat"))  # doctest: +SKIP
    """
    if not beam.steps or not all(beam.steps):
        raise ValueError("A beam needs at least one step, and each step at least one hypothesis.")
    require_parents(beam)

    def still(figure: Figure) -> None:
        figure.set_layout_engine("none")
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set_axis_off()
        draw_tree(ax, beam)

    width = max(len(step) for step in beam.steps)
    alt = (
        f"A beam search of {len(beam.steps)} steps as a tree, with up to {width} prefixes in each: those that go on, "
        "those that are pruned and those that have ended, with their log-probabilities."
    )
    steps = [[as_data(hypothesis) for hypothesis in step] for step in beam.steps]
    size = (min(9.5, 1.0 + 0.8 * len(beam.steps)), 0.4 + 0.45 * width)
    return InteractiveFigure("beam_tree", {"steps": steps, "alpha": beam.alpha}, alt, still, size)


def as_data(hypothesis: Hypothesis) -> dict[str, Any]:
    """What the script is told of a hypothesis."""
    return {
        "tokens": hypothesis.tokens,
        "logProbability": round(hypothesis.log_probability, 5),
        "state": hypothesis.state,
        "score": None if hypothesis.score is None else round(hypothesis.score, 5),
    }


def require_parents(beam: Beam) -> None:
    """Raise unless every hypothesis continues one that was kept in the step before."""
    going_on: set[tuple[str, ...]] = {()}
    for number, step in enumerate(beam.steps, start=1):
        for hypothesis in step:
            if tuple(hypothesis.tokens[:-1]) not in going_on or not hypothesis.tokens:
                text = " ".join(hypothesis.tokens)
                raise ValueError(
                    f'Step {number}: "{text}" does not continue a prefix that was kept in the step before.'
                )
        going_on = {tuple(h.tokens) for h in step if h.state == "kept"}


def draw_tree(ax: Any, beam: Beam) -> None:
    """The whole tree, one column per step."""
    styles = {"kept": (BLUE, "-"), "finished": (GREEN, "-"), "pruned": ("grey", ":")}
    places: dict[tuple[str, ...], tuple[float, float]] = {(): (0.0, 0.0)}
    ax.text(0, 0, "start", ha="center", va="center", bbox={"fc": "white", "ec": BLUE})
    for x, step in enumerate(beam.steps, start=1):
        for rank, h in enumerate(step):
            colour, line = styles[h.state]
            x0, y0 = places[tuple(h.tokens[:-1])]
            ax.plot((x0, x), (y0, -rank), color=colour, linestyle=line, zorder=1)
            label = f"{brief(h.tokens)[-1]}\n{h.log_probability:z.2f}"  # z: no minus before 0.00
            box = {"fc": "white", "ec": colour, "ls": line}
            ax.text(x, -rank, label, ha="center", va="center", fontsize=7, bbox=box)
        places = {tuple(h.tokens): (x, -rank) for rank, h in enumerate(step)}
    ax.margins(0.06, 0.15)


@torch.no_grad()
def recorded_beam(
    next_logits: NextLogits,
    words: Sequence[str],
    beam_size: int,
    bos_id: int,
    eos_id: int,
    max_len: int,
    alpha: float,
    pruned: int = 2,
) -> Beam:
    """Run `course_lib.decoding.beam_search` and note what it saw in each round.

    words: the word of each id. pruned: how many continuations that just missed the beam are noted too, the best ones.
    The other arguments are those of `beam_search`.
    """
    rounds: list[tuple[Tensor, Tensor]] = []  # the prefixes (beam, time), and their log-probabilities (beam, vocab)

    def noted(prefixes: Tensor) -> Tensor:
        logits = next_logits(prefixes)
        rounds.append((prefixes, logits.log_softmax(dim=-1)))
        return logits

    beam_search(noted, beam_size, bos_id, eos_id, max_len, alpha)
    totals: dict[tuple[int, ...], float] = {(): 0.0}  # of the prefixes that go on
    steps = []
    for length, (prefixes, log_probabilities) in enumerate(rounds, start=1):
        known = [tuple(prefix[1:]) for prefix in prefixes.tolist()]
        before = torch.tensor([totals[prefix] for prefix in known])  # (beam,)
        candidates = (before[:, None] + log_probabilities).flatten()  # (beam · vocab,)
        best = candidates.topk(min(beam_size + pruned, len(candidates)))
        step, totals = [], {}
        for rank, (total, place) in enumerate(zip(best.values.tolist(), best.indices.tolist())):
            parent, token = divmod(place, log_probabilities.shape[-1])
            ids = (*known[parent], token)
            state: State = "pruned" if rank >= beam_size else "kept"
            if state == "kept" and (token == eos_id or length == max_len):
                state = "finished"
            if state == "kept":
                totals[ids] = total
            score = total / length**alpha if state == "finished" else None
            if total > -math.inf:  # the others only fill places that nothing possible is left for
                step.append(Hypothesis(tuple(words[i] for i in ids), total, state, score))
        steps.append(step)
    return Beam([step for step in steps if step], alpha)


@torch.no_grad()
def translation_beam(
    model: Transformer, sentence: str, beam_size: int = 3, alpha: float = 0.6, pruned: int = 2
) -> Beam:
    """The beam search of a translator for one English sentence, to be given to `beam_tree`."""
    device = next(model.parameters()).device
    source = english_vocabulary().encode(sentence.lower().removesuffix(".").split())[None].to(device)
    words = french_vocabulary().words
    was_training = model.training
    try:
        next_logits = uncached(model.eval(), source)
        return recorded_beam(next_logits, words, beam_size, BOS, EOS, MAX_WORDS + 1, alpha, pruned)
    finally:
        model.train(was_training)
