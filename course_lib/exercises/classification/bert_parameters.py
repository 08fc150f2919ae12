"""The exercise `bert_parameters`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type

bert_parameters = Exercise(
    classification.bert_parameters,
    cases=[
        {"vocab_size": 11, "max_len": 5, "num_segments": 2, "d_model": 3, "d_ff": 7, "num_layers": 1},
        {"vocab_size": 101, "max_len": 17, "num_segments": 4, "d_model": 6, "d_ff": 10, "num_layers": 3},
        {"vocab_size": 23, "max_len": 50, "num_segments": 1, "d_model": 8, "d_ff": 5, "num_layers": 2},
        {"vocab_size": 30522, "max_len": 512, "num_segments": 2, "d_model": 1024, "d_ff": 4096, "num_layers": 24},
    ],
    minutes=7,
    difficulty=2,
    hints=[
        "Go through the parts one by one and write down the shape of every matrix and of every vector. Multiply the "
        "numbers of each shape.",
        "Outside the layers: three tables whose rows have d_model numbers, one norm (a gain and a bias), and the "
        "pooler, a linear layer from d_model to d_model with a bias.",
        "A layer: four linear layers from d_model to d_model, one from d_model to d_ff, one back, each with a bias as "
        "long as its output, and two norms.",
        "attention = 4 * (d_model * d_model + d_model); feed_forward = d_model * d_ff + d_ff + d_ff * d_model + "
        "d_model; a layer is attention + feed_forward + 2 * (2 * d_model).",
    ],
)


def count_of(subject, case, **changes) -> int:
    """The subject's count for a case with some of its numbers changed."""
    got = subject(*{**case, **changes}.values())
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Failure(f"The result should be a whole number, but it is {name_of_type(got)}.")
    expect(got == int(got), f"The result should be a whole number, but it is {got!r}.")
    return int(got)


def expect_count(got: int, want: int, what: str) -> None:
    if got != want:
        off = f"{abs(got - want):,} too {'many' if got > want else 'few'}"
        raise Failure(f"{what} {want:,} numbers, but you count {got:,}: {off}.")


@bert_parameters.property("one more token, position or segment is one more row of d_model numbers", points=1)
def count_rows(subject, case):
    before = count_of(subject, case)
    for size, what in (("vocab_size", "token"), ("max_len", "position"), ("num_segments", "segment")):
        after = count_of(subject, case, **{size: case[size] + 1})
        expect_count(after - before, case["d_model"], f"Asked again with one {what} more: its row has")


@bert_parameters.property("one more layer: attention, feed-forward network, two norms", points=2)
def count_layer(subject, case):
    before = count_of(subject, case)
    after = count_of(subject, case, num_layers=case["num_layers"] + 1)
    want = classification.bert_parameters(**{**case, "num_layers": 1})
    want -= classification.bert_parameters(**{**case, "num_layers": 0})
    expect_count(after - before, want, "Asked again with one layer more: a layer has")


@bert_parameters.property("without layers: the tables, their norm and the pooler", points=1)
def count_outside(subject, case):
    want = classification.bert_parameters(**{**case, "num_layers": 0})
    got = count_of(subject, case, num_layers=0)
    expect_count(got, want, "Asked with num_layers = 0: what is outside the layers has")


@bert_parameters.property("all together", points=1)
def count_everything(subject, case):
    expect_count(count_of(subject, case), bert_parameters.want(case), "The whole model has")


@bert_parameters.misconception
def forgets_the_pooler(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The pooler is missing from your sum: a linear layer with d_model inputs and outputs."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer


@bert_parameters.misconception
def forgets_one_vector_outside_the_layers(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """Outside the layers d_model numbers are missing. The pooler has a bias, and the norm after the tables both a
    gain and a bias."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_norm_of_the_tables(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The norm after the tables is missing from your sum. It has a gain and a bias, like every norm."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_segments(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The table of the segments is missing from your sum. It is small, but it is learned like the others."""
    tables = (vocab_size + max_len) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_positions(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The table of the positions is missing from your sum. BERT learns its positions.

    The original Transformer computes its position vectors from a formula; there, nothing would be missing."""
    tables = (vocab_size + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_the_tokens_table_alone(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count one table, that of the tokens. Positions and segments have tables too, and they are learned as well."""
    tables = vocab_size * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_tables(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The tables are missing from your sum. Their rows are learned like everything else."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_rows_for_numbers(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count the rows of the tables. Each row is a vector of d_model numbers."""
    tables = vocab_size + max_len + num_segments
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def gives_the_attention_one_bias(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """In each layer 3 · d_model numbers are missing. An attention has four linear layers, each with its own bias."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model) + d_model
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_four_vectors_in_each_layer(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """In each layer 4 · d_model numbers are missing. The attention's four biases are as many, and so are the two
    norms with their gains and biases: one of the two is not in your sum."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_one_vector_in_each_layer(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """In each layer d_model numbers are missing. The attention's four linear layers and the second one of the
    feed-forward network have such a bias each."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_output_projection(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """An attention has four matrices: W_Q, W_K, W_V, and W_O after the heads. You count three."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 3 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_networks_biases(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The two layers of the feed-forward network have biases: d_ff and d_model numbers."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_networks_first_bias(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The first layer of the feed-forward network has a bias too: d_ff numbers."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def gives_both_biases_one_size(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """A bias has as many numbers as its layer has outputs. The network's second layer ends in d_model features."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_ff)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_way_back(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """The feed-forward network has a second linear layer, back from d_ff to d_model."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def assumes_four_times_the_width(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You take 4 · d_model for the network's width. In BERT that is so, but the function is given d_ff."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    d_ff = 4 * d_model
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_all_biases(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count the matrices of the linear layers and none of their biases."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_layers_biases(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """Inside the layers you count the matrices and none of the biases. Every linear layer has one."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def forgets_the_norms_bias(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """A norm learns two vectors, a gain and a bias; you count one."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_two_numbers_a_norm(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """A norm's gain and bias are vectors with a number for each feature; you count two numbers in all."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_one_norm_a_layer(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """In each layer 2 · d_model numbers are missing. A layer has two norms, and each has a gain and a bias."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_a_norm_at_the_end(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count 2 · d_model numbers too many, as many as one more norm has. BERT's layers are post-norm: there is no
    norm after the last one."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + norm + pooler


@bert_parameters.misconception
def gives_every_table_a_norm(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count a norm for each of the three tables. They are added up first, and the sum is normalised once."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + 3 * norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_a_head(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count vocab_size · d_model numbers too many. Count BERT without an output layer over
    the vocabulary."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler + d_model * vocab_size


@bert_parameters.misconception
def counts_a_head_with_a_bias(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count an output layer over the vocabulary, with its bias. Count BERT without a head."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler + d_model * vocab_size + vocab_size


@bert_parameters.misconception
def counts_one_layer(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count one layer, whatever num_layers says. The layers look alike but share nothing."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + (num_layers > 0) * layer + pooler


@bert_parameters.misconception
def gives_every_layer_a_pooler(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count a pooler for every layer. There is one, after the last layer."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * (layer + pooler)


@bert_parameters.misconception
def counts_decoder_layers(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count a second attention and a third norm in each layer, as a decoder has them. BERT's layers are encoder
    layers."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = 2 * attention + feed_forward + 3 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def pools_into_segments(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """Your pooler has one output for each segment. It has d_model inputs and d_model outputs."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * num_segments + num_segments
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def multiplies_the_tables(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You multiply the sizes of the tables. Each table has its own rows: add them."""
    tables = vocab_size * max_len * num_segments * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    layer = attention + feed_forward + 2 * norm
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * layer + pooler


@bert_parameters.misconception
def counts_matrices_alone(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    """You count the tables and the matrices of the layers. The biases, the norms and the pooler are missing."""
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    layer = attention + feed_forward
    pooler = d_model * d_model + d_model
    return tables + num_layers * layer


@bert_parameters.alternative
def in_closed_form(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    d = d_model
    return d * (vocab_size + max_len + num_segments + 2 + d + 1) + num_layers * (4 * d * d + 9 * d + d_ff * (2 * d + 1))


@bert_parameters.alternative
def by_listing_shapes(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    norm = [(d_model,), (d_model,)]
    square = [(d_model, d_model), (d_model,)]
    layer = square * 4 + [(d_ff, d_model), (d_ff,), (d_model, d_ff), (d_model,)] + norm * 2
    outside = [(vocab_size, d_model), (max_len, d_model), (num_segments, d_model), *norm, *square]
    return sum(math.prod(shape) for shape in outside + layer * num_layers)


@bert_parameters.alternative
def by_building_it(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    with torch.device("meta"):
        tables = [nn.Embedding(rows, d_model) for rows in (vocab_size, max_len, num_segments)]
        parts = nn.ModuleList([*tables, nn.LayerNorm(d_model), nn.Linear(d_model, d_model)])
        layer = nn.TransformerEncoderLayer(d_model, 1, d_ff)
    outside, inside = (sum(p.numel() for p in module.parameters()) for module in (parts, layer))
    return outside + num_layers * inside


@bert_parameters.alternative
def in_a_loop_of_floats(vocab_size, max_len, num_segments, d_model, d_ff, num_layers):
    total = torch.tensor(0.0, dtype=torch.float64)
    for rows in (vocab_size, max_len, num_segments):
        total += rows * d_model
    total += 2 * d_model
    for _ in range(num_layers):
        for inputs, outputs in [(d_model, d_model)] * 4 + [(d_model, d_ff), (d_ff, d_model)]:
            total += (inputs + 1) * outputs
        total += 4 * d_model
    return total + (d_model + 1) * d_model
