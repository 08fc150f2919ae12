"""The exercise `transformer_parameters`: what must hold, and what people really write instead."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib import transformer as reference
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type

transformer_parameters = Exercise(
    reference.transformer_parameters,
    cases=[
        {
            "table_rows": 5,
            "d_model": 2,
            "d_ff": 3,
            "encoder_layers": 1,
            "decoder_layers": 0,
            "extra_norms": 0,
        },
        {
            "table_rows": 17,
            "d_model": 6,
            "d_ff": 10,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "extra_norms": 1,
        },
        {
            "table_rows": 101,
            "d_model": 8,
            "d_ff": 12,
            "encoder_layers": 0,
            "decoder_layers": 4,
            "extra_norms": 3,
        },
        {
            "table_rows": 37_000,
            "d_model": 512,
            "d_ff": 2048,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "extra_norms": 0,
        },
    ],
    minutes=12,
    difficulty=2,
    hints=[
        "Go through the parts one by one and write down the shape of every matrix and of every bias. Multiply the "
        "numbers of each shape.",
        "An attention has four matrices d_model × d_model and four biases. A norm has a gain and a bias, d_model each.",
        "The feed-forward network has d_model → d_ff → d_model: two matrices of the same size, and two biases of "
        "different sizes.",
        "An encoder layer: one attention, one feed-forward network, two norms. A decoder layer: two attentions, one "
        "feed-forward network, three norms. Then add up tables, layers and the norms outside the layers.",
    ],
)


def count_of(subject, case, **changes):
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


def expect_count(got, want, what):
    if got != want:
        off = f"{abs(got - want):,} too {'many' if got > want else 'few'}"
        raise Failure(f"{what} {want:,} numbers, but you count {got:,}: {off}.")


NOTHING = {"encoder_layers": 0, "decoder_layers": 0, "extra_norms": 0}


@transformer_parameters.property("the tables: table_rows vectors of d_model numbers", points=1)
def count_tables(subject, case):
    want = case["table_rows"] * case["d_model"]
    expect_count(
        count_of(subject, case, **NOTHING),
        want,
        "Asked without any layer or norm (0, 0, 0 at the end), the tables alone have",
    )


@transformer_parameters.property("an encoder layer: attention, feed-forward network, two norms", points=1)
def count_encoder(subject, case):
    empty = count_of(subject, case, **NOTHING)
    got = count_of(subject, case, **{**NOTHING, "encoder_layers": 1}) - empty
    want = reference.transformer_parameters(0, case["d_model"], case["d_ff"], 1, 0)
    expect_count(got, want, "Asked without layers and then with one encoder layer: that layer has")


@transformer_parameters.property("a decoder layer: a second attention and a third norm", points=1)
def count_decoder(subject, case):
    empty = count_of(subject, case, **NOTHING)
    got = count_of(subject, case, **{**NOTHING, "decoder_layers": 1}) - empty
    want = reference.transformer_parameters(0, case["d_model"], case["d_ff"], 0, 1)
    expect_count(got, want, "Asked without layers and then with one decoder layer: that layer has")


@transformer_parameters.property("norms outside the layers: a gain and a bias each", points=1)
def count_norms(subject, case):
    empty = count_of(subject, case, **NOTHING)
    got = count_of(subject, case, **{**NOTHING, "extra_norms": 3}) - empty
    want = 3 * 2 * case["d_model"]
    expect_count(got, want, "Asked without norms and then with three outside the layers: these have")


@transformer_parameters.property("all together, with every layer counted", points=1)
def count_everything(subject, case):
    expect_count(count_of(subject, case), transformer_parameters.want(case), "The whole model has")


@transformer_parameters.misconception
def forgets_the_attentions_biases(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """An attention's four linear layers have a bias each; you count only their matrices."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_all_biases(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count only matrices. The linear layers of attention and feed-forward network have biases too."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_output_projection(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """An attention has four matrices: W_Q, W_K, W_V, and W_O after the heads. You count three."""
    tables = table_rows * d_model
    attention = 3 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_networks_biases(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The two layers of the feed-forward network have biases: d_ff and d_model numbers."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def gives_both_biases_one_size(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A bias has as many numbers as its layer has outputs. The network's second layer ends in d_model features."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_ff)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_way_back(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The feed-forward network has a second matrix, back from d_ff to d_model."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def assumes_four_times_the_width(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You take 4 · d_model for the network's width. That is common, but here it is d_ff, whatever that may be."""
    d_ff = 4 * d_model
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_norms_bias(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A LayerNorm learns two vectors, a gain and a bias; you count one."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def counts_two_numbers_a_norm(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A norm's gain and bias are vectors with a number for each feature; you count two numbers in all."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_layers_norms(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The norms inside the layers are missing: one for each sub-layer."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward
    decoder_layer = 2 * attention + feed_forward
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def counts_one_norm_a_layer(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """Every sub-layer has its own norm: two in an encoder layer, three in a decoder layer. You count one per layer."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + norm
    decoder_layer = 2 * attention + feed_forward + norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_cross_attention(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A decoder layer has two attentions: over the targets and over the source. Yours has one."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_third_norm(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A decoder layer has three sub-layers and so three norms. You count two."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 2 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def takes_all_layers_for_encoder_layers(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count decoder layers as if they were encoder layers. They have one more attention and one more norm."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = attention + feed_forward + 2 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def counts_two_networks_in_the_decoder(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """A decoder layer has two attentions but only one feed-forward network."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + 2 * feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_extra_norms(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The norms outside the layers (`extra_norms`) are missing from your sum."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer


@transformer_parameters.misconception
def forgets_the_tables(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The tables are missing from your sum. Their rows are learned like everything else."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def gives_the_tables_biases(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You give every row of the tables a bias. A table is only looked up: there are none in it."""
    tables = table_rows * d_model + table_rows
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def counts_the_tables_twice(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count the tables twice. `table_rows` has the rows of all of them already, the output layer's too if it has
    its own.
    """
    tables = 2 * table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def counts_each_layer_once(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count one layer of each kind. The layers look alike but share nothing: each has its own weights."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + (encoder_layers > 0) * encoder_layer + (decoder_layers > 0) * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def gives_the_attention_one_bias(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """An attention has four linear layers, each with its own bias. You count one."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model) + d_model
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_networks_second_bias(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The second layer of the feed-forward network has a bias too: d_model numbers."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_networks_first_bias(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The first layer of the feed-forward network has a bias too: d_ff numbers."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.misconception
def forgets_the_bias_of_the_extra_norms(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """The norms outside the layers learn a gain and a bias, as those inside do. You count one vector for each."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * d_model


@transformer_parameters.misconception
def counts_one_number_an_extra_norm(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count one number for each norm outside the layers. It has two vectors, a gain and a bias."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms


@transformer_parameters.misconception
def always_counts_two_extra_norms(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count two norms outside the layers whatever `extra_norms` says."""
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + 2 * norm


@transformer_parameters.misconception
def counts_rows_for_numbers(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    """You count the rows of the tables. Each row is a vector of d_model numbers."""
    tables = table_rows
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm


@transformer_parameters.alternative
def by_listing_shapes(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    linear = [[(d_model, d_model), (d_model,)]] * 4
    network = [[(d_ff, d_model), (d_ff,)], [(d_model, d_ff), (d_model,)]]
    norm = [[(d_model,), (d_model,)]]

    def size(groups):
        return sum(math.prod(shape) for group in groups for shape in group)

    layers = encoder_layers * size(linear + network + norm * 2) + decoder_layers * size(linear * 2 + network + norm * 3)
    return math.prod((table_rows, d_model)) + layers + extra_norms * size(norm)


@transformer_parameters.alternative
def by_building_it(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    with torch.device("meta"):
        encoder_layer = nn.TransformerEncoderLayer(d_model, 1, d_ff)
        decoder_layer = nn.TransformerDecoderLayer(d_model, 1, d_ff)
        norm, table = nn.LayerNorm(d_model), nn.Embedding(table_rows, d_model)

    def size(module):
        return sum(p.numel() for p in module.parameters())

    total = size(table) + extra_norms * size(norm)
    return total + encoder_layers * size(encoder_layer) + decoder_layers * size(decoder_layer)


@transformer_parameters.alternative
def in_closed_form(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    d, f = d_model, d_ff
    encoder = 4 * d**2 + 2 * d * f + 9 * d + f
    decoder = 8 * d**2 + 2 * d * f + 15 * d + f
    return d * table_rows + encoder * encoder_layers + decoder * decoder_layers + 2 * d * extra_norms


@transformer_parameters.alternative
def as_a_float(table_rows, d_model, d_ff, encoder_layers, decoder_layers, extra_norms=0):
    total = torch.tensor(float(table_rows * d_model), dtype=torch.float64)
    for kind, attentions in ((encoder_layers, 1), (decoder_layers, 2)):
        for _ in range(kind):
            total += attentions * 4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + d_model
            total += 2 * d_model * (attentions + 1)
    return total + 2 * d_model * extra_norms
