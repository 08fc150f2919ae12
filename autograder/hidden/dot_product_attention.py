"""Hidden cases on dot-product attention."""

from __future__ import annotations

from autograder.hidden import Hidden
from course_lib.checking.inputs import normal
from course_lib.exercises import dot_product_attention

Hidden(
    dot_product_attention.soft_lookup,
    points=1,
    cases=[
        {
            "query": normal(3, seed=25, scale=0.9),
            "keys": normal(7, 3, seed=125, scale=0.9),
            "values": normal(7, 2, seed=41),
        },
        {
            "query": normal(2, seed=37, scale=3),
            "keys": normal(5, 2, seed=137, scale=3),
            "values": normal(5, 4, seed=42),
        },
    ],
)

Hidden(
    dot_product_attention.self_attention,
    points=1,
    cases=[{"x": normal(2, 3, seed=43)}, {"x": normal(6, 5, seed=44, scale=0.6)}, {"x": normal(7, 4, seed=45)}],
)

Hidden(
    dot_product_attention.batched_self_attention,
    points=1,
    cases=[{"x": normal(3, 4, 2, seed=46)}, {"x": normal(5, 2, 6, seed=47, scale=0.6)}],
)

Hidden(
    dot_product_attention.attention_scores,
    points=1,
    cases=[
        {"q": normal(5, 2, seed=48), "k": normal(3, 2, seed=49)},
        {"q": normal(4, 2, 3, 5, seed=50, scale=3), "k": normal(4, 2, 6, 5, seed=51, scale=3)},
    ],
)

Hidden(
    dot_product_attention.scaled_dot_product_attention,
    points=2,
    cases=[
        {"q": normal(5, 2, seed=52), "k": normal(3, 2, seed=53), "v": normal(3, 4, seed=54)},
        {
            "q": normal(4, 2, 3, 5, seed=55, scale=2),
            "k": normal(4, 2, 7, 5, seed=56, scale=2),
            "v": normal(4, 2, 7, 6, seed=57),
        },
    ],
)

Hidden(
    dot_product_attention.project_qkv,
    points=1,
    cases=[
        {
            "x": normal(4, 2, seed=58),
            "w_q": normal(2, 5, seed=59),
            "w_k": normal(2, 5, seed=60),
            "w_v": normal(2, 3, seed=61),
        },
        {
            "x": normal(3, 2, 4, 6, seed=62),
            "w_q": normal(6, 5, seed=63),
            "w_k": normal(6, 5, seed=64),
            "w_v": normal(6, 7, seed=65),
        },
    ],
)

Hidden(
    dot_product_attention.attention_cost,
    points=1,
    cases=[{"n": 2, "d": 3}, {"n": 17, "d": 6}, {"n": 4096, "d": 768}],
)
