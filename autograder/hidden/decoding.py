"""Hidden cases on decoding."""

from __future__ import annotations

import torch

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import decoding
from course_lib.exercises.decoding.beam_search import beam_case
from course_lib.exercises.decoding.bleu import sentences
from course_lib.exercises.decoding.cached_attention import pieces_case
from course_lib.exercises.decoding.greedy_decode import greedy_case
from course_lib.exercises.decoding.shared import distinct

Hidden(
    decoding.greedy,
    points=2,
    cases=[
        greedy_case(8, 4, bos_id=6, eos_id=1, pad_id=2, max_len=7, seed=201, eos_bias=1.0),
        greedy_case(10, 6, bos_id=0, eos_id=9, pad_id=4, max_len=5, seed=211, eos_bias=1.5),
        greedy_case(6, 3, bos_id=3, eos_id=2, pad_id=5, max_len=10, seed=221, eos_bias=1.5),
    ],
)

Hidden(
    decoding.beam,
    points=2,
    cases=[
        beam_case(6, 2, bos_id=5, eos_id=3, max_len=5, alpha=0.6, seed=49, eos_bias=1.0),
        beam_case(8, 3, bos_id=2, eos_id=7, max_len=4, alpha=1.3, seed=76),
        beam_case(5, 4, bos_id=0, eos_id=1, max_len=6, alpha=0.9, seed=70, eos_bias=1.0),
    ],
)

Hidden(
    decoding.sampling,
    points=1,
    cases=[
        {"logits": normal(4, 6, seed=261), "temperature": 1.6, "u": torch.tensor([0.36, 0.81, 0.08, 0.59]).double()},
        {
            "logits": normal(5, 3, seed=262, scale=2),
            "temperature": 0.4,
            "u": torch.tensor([0.2, 0.5, 0.9, 0.7, 0.95]).double(),
        },
    ],
)

Hidden(
    decoding.top_k,
    points=1,
    cases=[
        {"logits": distinct(4, 8, seed=271), "k": 5},
        {"logits": distinct(3, 2, 5, seed=272, scale=2) - 3, "k": 2},
        {"logits": distinct(6, seed=273) + 3, "k": 3},
    ],
)

Hidden(
    decoding.top_p,
    points=1,
    cases=[
        {"logits": distinct(3, 8, seed=281), "p": 0.6},
        {"logits": distinct(2, 4, 5, seed=282, scale=2), "p": 0.4},
        {"logits": distinct(5, 6, seed=283, scale=1.5), "p": 0.9},
    ],
)

Hidden(
    decoding.caching,
    points=2,
    cases=[
        pieces_case(3, [2, 1, 4], d_model=10, num_heads=2, seed=291),
        pieces_case(2, [1, 3, 3], d_model=6, num_heads=3, seed=292),
    ],
)

Hidden(
    decoding.counting,
    points=1,
    cases=[{"n": 4, "use_cache": False}, {"n": 64, "use_cache": True}],
)

Hidden(
    decoding.forgetting,
    points=1,
    cases=[{"n": 3, "a": -1.1, "b": 0.7}, {"n": 7, "a": 0.6, "b": -2.5}],
)

Hidden(
    decoding.measuring,
    points=1,
    cases=[
        {
            "hypotheses": sentences("p q r s t p q", "q r", "u v w p q r s t"),
            "references": sentences("p q r s t q", "q r s t u p", "u w v p q r s"),
        },
        {
            "hypotheses": sentences("the dog does not see the cat the cat", "a red house"),
            "references": sentences("the dog does not see the red cat", "a small red house stands here now"),
        },
    ],
)
