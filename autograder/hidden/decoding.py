"""Hidden cases on decoding."""

from __future__ import annotations

import torch

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.inputs import NextTokenTable
from course_lib.exercises import decoding


def next_token_table(
    draw: Draw, vocab: int, rows: int, never: set[int], favoured: int, bias: float, scale: float
) -> NextTokenTable:
    """A model whose answers depend on the sentence and on the last three tokens. `never`: ids that it never writes."""
    start = draw.distinct(rows, vocab)
    start[:, list(never)] -= 30
    start[:, favoured] += bias
    return NextTokenTable(start, draw.normal(3, vocab, vocab, scale=scale))


@hidden(decoding.greedy, by_chance=True)
def greedy_decode(draw: Draw) -> list[Case]:
    def case(vocab: int, rows: int, max_len: int, bias: float) -> Case:
        bos_id, eos_id, pad_id = draw.sizes((0, vocab - 1), (0, vocab - 1), (0, vocab - 1))
        return {
            "next_logits": next_token_table(draw, vocab, rows, {bos_id, pad_id}, eos_id, bias, scale=1.5),
            "rows": rows,
            "bos_id": bos_id,
            "eos_id": eos_id,
            "pad_id": pad_id,
            "max_len": max_len,
        }

    return [
        case(*draw.sizes((7, 9), (4, 5), (6, 8)), bias=1.0),
        case(*draw.sizes((9, 11), (5, 6), (4, 5)), bias=1.5),
        case(*draw.sizes((5, 6), (3, 4), (9, 11)), bias=1.5),
        case(6, 1, draw.integer(3, 5), bias=0.5),
    ]


@hidden(decoding.beam, by_chance=True)
def beam_search(draw: Draw) -> list[Case]:
    def case(vocab: int, beam_size: int, max_len: int, bias: float) -> Case:
        bos_id, eos_id = draw.sizes((0, vocab - 1), (0, vocab - 1))
        return {
            "next_logits": next_token_table(draw, vocab, 1, {bos_id}, eos_id, bias, scale=0.8),
            "beam_size": beam_size,
            "bos_id": bos_id,
            "eos_id": eos_id,
            "max_len": max_len,
            "alpha": draw.number(0.5, 1.6),
        }

    return [
        case(draw.integer(6, 7), 2, draw.integer(4, 6), bias=1.0),
        case(draw.integer(7, 8), 3, draw.integer(4, 5), bias=0.0),
        case(5, 4, draw.integer(5, 6), bias=1.0),
        case(draw.integer(4, 5), 3, draw.integer(3, 4), bias=0.5),
    ]


@hidden(decoding.sampling, by_chance=True)
def sample(draw: Draw) -> list[Case]:
    def case(rows: int, vocab: int, temperature: float, scale: float) -> Case:
        u = torch.tensor([draw.number(0.02, 0.98) for _ in range(rows)], dtype=torch.float64)
        return {"logits": draw.normal(rows, vocab, scale=scale), "temperature": temperature, "u": u}

    return [
        case(*draw.sizes((4, 6), (5, 9)), draw.number(1.3, 2.5), 1),
        case(*draw.sizes((5, 8), (3, 4)), draw.number(0.3, 0.8), 2),
        case(1, draw.integer(10, 20), draw.number(0.5, 0.9), 1.5),
    ]


@hidden(decoding.top_k, by_chance=True)
def top_k_filter(draw: Draw) -> list[Case]:
    batch, first, second = draw.sizes((3, 5), (2, 4), (2, 4))
    return [
        {"logits": draw.distinct(batch, 8), "k": draw.integer(3, 6)},
        {"logits": draw.distinct(first, second, 5, scale=2) - 3, "k": 2},
        {"logits": draw.distinct(draw.integer(5, 7)) + 3, "k": 3},
        {"logits": draw.distinct(2, 1, 2, draw.integer(9, 20)), "k": 1},
    ]


@hidden(decoding.top_p, by_chance=True)
def top_p_filter(draw: Draw) -> list[Case]:
    batch, first, second = draw.sizes((3, 5), (2, 4), (2, 4))
    return [
        {"logits": draw.distinct(batch, draw.integer(6, 9)), "p": draw.number(0.5, 0.7)},
        {"logits": draw.distinct(first, second, 5, scale=2), "p": draw.number(0.3, 0.45)},
        {"logits": draw.distinct(draw.integer(4, 6), 6, scale=1.5), "p": draw.number(0.85, 0.95)},
        {"logits": draw.distinct(draw.integer(7, 12)), "p": draw.number(0.6, 0.8)},
    ]


@hidden(decoding.caching)
def cached_attention(draw: Draw) -> list[Case]:
    def case(batch: int, heads: int, d_k: int, *sizes: int) -> Case:
        x = draw.normal(batch, sum(sizes), heads * d_k)
        return {"d_model": heads * d_k, "num_heads": heads, "x": x, "sizes": draw.shuffled(sizes)}

    return [
        case(3, 2, draw.integer(4, 6), 1, 2, draw.integer(3, 5)),
        case(2, 3, draw.choice([2, 4]), 1, 3, 3),
        case(1, 4, 2, draw.integer(5, 8), 1, 1),
    ]


@hidden(decoding.counting)
def count_scores(draw: Draw) -> list[Case]:
    few, many = draw.integer(4, 9), draw.integer(20, 99)
    return [{"n": few, "use_cache": False}, {"n": many, "use_cache": True}]


@hidden(decoding.forgetting)
def rnn_influence(draw: Draw) -> list[Case]:
    return [
        {"n": draw.integer(3, 4), "a": -draw.number(1.05, 1.3), "b": draw.number(0.4, 0.9)},
        {"n": draw.integer(6, 9), "a": draw.number(0.4, 0.8), "b": -draw.number(1.5, 3)},
        {"n": 2, "a": draw.number(1.1, 1.9), "b": draw.number(1.5, 3)},
    ]


@hidden(decoding.measuring, by_chance=True)
def bleu(draw: Draw) -> list[Case]:
    """Translations that say words twice, leave words out and end too early; few words, so that many occur twice."""

    def case(words: list[str], *lengths: int) -> Case:
        references = [[draw.choice(words) for _ in range(length)] for length in lengths]
        return {"hypotheses": [edited(reference) for reference in references], "references": references}

    def edited(reference: list[str]) -> list[str]:
        place = draw.integer(1, len(reference) - 2)
        return draw.choice(
            [
                [*reference, *reference[:2]],
                reference[:place] + reference[place + 1 :],
                reference[:2],
                [*reference[:place], reference[0], *reference[place:]],
            ]
        )

    return [
        case(["p", "q", "r", "s", "t"], *draw.sizes((6, 8), (5, 7), (7, 9))),
        case(["the", "red", "cat", "sees", "a", "small", "dog"], draw.integer(8, 10), 6),
    ]
