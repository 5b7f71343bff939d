"""What all figures share: colours, frames, and rendering without pyplot and its global state."""

from __future__ import annotations

import hashlib
import io
import re
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, distinguishable with the common colour vision deficiencies; without its black
# and yellow, which vanish on a dark or a light page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
# Names that fit into the frame of a figure: how many, and of how many characters; inches of a line below it.
_INSIDE, _SHORT, _LINE = 5, 28, 0.19
MARKERS = ("o", "s", "^", "D", "v", "P")


def panels(count: int = 1, *, width: float = 5.2, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, each without the upper and the right line of its frame."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for one in axes:
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    return figure, axes


def add_legend(figure: Figure, axes: Axes) -> None:
    """A legend inside the frame, or below the axes on added height where it would cover them."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) <= _INSIDE and max(map(len, names)) <= _SHORT:
        axes.legend(frameon=False, fontsize="small")
        return
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + _LINE * len(names))
    figure.legend(handles, names, loc="outside lower left", frameon=False, fontsize="small")


def png_of(figure: Figure, *, dots_per_inch: int = 130) -> bytes:
    """Render a figure.

    Example:
        >>> figure = curve_figure({"simcse": ([0, 50], [49.8, 65.0])}, x_label="step", y_label="score")
        >>> png_of(figure)[1:4]
        b'PNG'
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def svg_of(figure: Figure) -> str:
    """A figure as an SVG element for a page: text stays text, and black is the page's text colour.

    The same figure gives the same string.

    Example:
        >>> figure = curve_figure({"simcse": ([0, 50], [49.8, 65.0])}, x_label="step", y_label="score")
        >>> svg_of(figure)[:4]
        '<svg'
    """
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "sentemb", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    whole = buffer.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", whole[whole.index("<svg") :], flags=re.DOTALL)
    # Without its own size the figure takes the width of its place.
    opening, rest = drawn.split(">", 1)
    drawn = re.sub(r' (?:width|height)="[^"]*"', "", opening) + ">" + rest
    # Two figures of a page must not share an id.
    mark = hashlib.sha256(drawn.encode("utf-8")).hexdigest()[:8]
    drawn = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{mark}-", drawn)
    return drawn.replace("#000000", "currentColor").replace("'DejaVu Sans', ", "")


def plain(name: str) -> str:
    """A name as a figure's label: matplotlib reads what stands between two dollar signs as mathematics."""
    return name.replace("$", r"\$")
