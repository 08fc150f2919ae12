"""The colours of the course. Colour-blind readers can tell them apart."""

from __future__ import annotations

# Okabe and Ito's palette: blue, vermilion, green, orange, sky blue, purple, yellow, black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
SEQUENTIAL = "cividis"
DIVERGING = "PuOr_r"


def readable(colour: str) -> str:
    """CSS for text in this colour: nearer to the page's own text colour, so that it has contrast in light and dark."""
    return f"color:{colour};color:color-mix(in srgb, {colour} 65%, currentColor)"


# One colour for each part of the Transformer, in every diagram: the same hues, lighter or darker where two of them look
# alike to some. Write in white on mask, positions, output, encoder and decoder, in black on the others.
PARTS = {
    "embedding": "#E4A9CA",
    "positions": "#007F5C",
    "attention": "#E89B0C",
    "mask": "#333333",
    "feed_forward": "#56B4E9",
    "norm": "#F6EC6E",
    "output": "#B94A00",
    "encoder": "#0072B2",
    "decoder": "#661100",
}
