"""Figures that can be moved: sliders, buttons and the mouse, with no kernel behind them and nothing fetched.

Each function returns a figure that shows itself as the last line of a cell:

    scale_and_softmax()               the scale of the scores, and how sharp their softmax is
    query_among_keys()                a query in the plane, its weights and its output
    paint_a_mask()                    a mask painted by hand, and what leaks through it
    position_waves()                  sinusoidal position vectors: base, width and dot products
    attention_explorer(maps)          a model's attention: maps = translation_attention(model, sentence)
    next_token_filters(words, logits) temperature, top-k and top-p
    beam_tree(beam)                   a beam search: beam = translation_beam(model, sentence)
"""

from .attention import query_among_keys, scale_and_softmax
from .decoding import Beam, Hypothesis, beam_tree, next_token_filters, recorded_beam, translation_beam
from .explorer import AttentionMap, attention_explorer, translation_attention
from .figure import InteractiveFigure
from .masks import paint_a_mask
from .positions import position_waves

__all__ = [
    "AttentionMap",
    "Beam",
    "Hypothesis",
    "InteractiveFigure",
    "attention_explorer",
    "beam_tree",
    "next_token_filters",
    "paint_a_mask",
    "position_waves",
    "query_among_keys",
    "recorded_beam",
    "scale_and_softmax",
    "translation_attention",
    "translation_beam",
]
