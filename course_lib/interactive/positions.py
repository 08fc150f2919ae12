"""Sinusoidal position vectors, with sliders for base and width."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.interactive.figure import BLUE, InteractiveFigure
from course_lib.plotting import DIVERGING
from course_lib.positions import sinusoidal_encoding

MOST_POSITIONS, MOST_FEATURES = 256, 256


def position_waves(n: int = 64, d_model: int = 32, position: int = 20) -> InteractiveFigure:
    """The table of sinusoidal position vectors, and the dot product of each with a chosen one.

    Sliders set the base (10 to 100,000; the paper has 10,000), the width d_model and the chosen position.
    n: how many positions; d_model, position: where the sliders start.

    >>> position_waves(n=48, d_model=64)  # doctest: +SKIP
    """
    if not 2 <= n <= MOST_POSITIONS or not 2 <= d_model <= MOST_FEATURES or d_model % 2:
        raise ValueError(
            f"n = {n}, d_model = {d_model}: the figure has room for 2 to {MOST_POSITIONS} positions and an even number "
            f"of features, at most {MOST_FEATURES}."
        )
    if not 0 <= position < n:
        raise ValueError(f"position = {position}: there are the positions 0 to {n - 1}.")

    def still(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
        table = sinusoidal_encoding(n, d_model)
        top.imshow(table.T.numpy(), aspect="auto", cmap=DIVERGING, vmin=-1, vmax=1)
        top.set(ylabel="feature", title="position vectors: one column per position (base 10,000)")
        bottom.plot((table @ table[position]).tolist(), color=BLUE, marker=".")
        bottom.set(xlabel="position", title=f"dot product with position {position}")

    alt = (
        f"The sinusoidal position vectors of {n} positions as a heat map, and the dot product of each with a chosen "
        "one. Sliders set the base of the wavelengths, the width and the chosen position."
    )
    data = {"n": n, "width": d_model, "widest": max(128, d_model), "position": position}
    return InteractiveFigure("position_waves", data, alt, still, size=(7.5, 4.2))
