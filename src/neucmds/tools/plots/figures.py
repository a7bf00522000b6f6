"""Colours, figures, legends and titles of all plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.embedding import Embedding
from neucmds.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

# Okabe and Ito's colours, told apart by all common kinds of colour vision.
POSITIVE = "#0072B2"
NEGATIVE = "#D55E00"
GUIDE = "#555555"
METHOD_STYLES: dict[str, tuple[str, str]] = {
    "classical": ("#555555", "o"),
    "lower": ("#E69F00", "s"),
    "neuc": ("#56B4E9", "^"),
    "neuc+": ("#0072B2", "v"),
    "exact": ("#009E73", "D"),
    "refined": ("#CC79A7", "P"),
}
# Label of the figures made here, which may be laid out and widened; those of a caller may not.
_OURS = "neucmds"


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the caller's Axes, or those of a new figure that needs no pyplot."""
    if ax is not None:
        return ax
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'plots need matplotlib, which is not installed: pip install "neucmds[cli]".'
        ) from error
    figure = Figure(
        figsize=(7.2, 5.0),
        dpi=120,
        layout="constrained",
        label=_OURS,
    )
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def is_ours(ax: Axes) -> bool:
    """Tell a figure that may be laid out and widened from a caller's own."""
    return ax.figure.get_label() == _OURS


def settle(ax: Axes) -> None:
    """Lay a figure out twice: equal scales change the ticks, and ticks change the layout."""
    figure: Any = (
        ax.figure.figure
    )  # the whole figure, where `ax` is in a subfigure
    figure.draw_without_rendering()
    figure.draw_without_rendering()


def place_legend(
    ax: Axes,
    location: str,
    handles: Sequence[Any],
    names: Sequence[str],
    **options: Any,
) -> Any:
    """Put the legend outside the data; in a caller's own figure inside."""
    # Numbers stand in for names: Matplotlib drops names that begin with "_", and reads "$" as math.
    stand_ins = [str(i) for i in range(len(names))]
    if is_ours(ax):
        options |= {"loc": location, "frameon": False}
        legend = ax.figure.legend(handles, stand_ins, **options)
    else:
        legend = ax.legend(handles, stand_ins, **options)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(printable(name))
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    handle: Any
    for handle in legend.legend_handles:
        # Points have sizes; many are drawn pale.
        if hasattr(handle, "set_sizes"):
            handle.set_alpha(1.0)
    return legend


def legend_below(ax: Axes, columns: int) -> None:
    """Put the legend of all labelled artists below the data."""
    handles, names = ax.get_legend_handles_labels()
    place_legend(ax, "outside lower center", handles, names, ncols=columns)


def set_title(ax: Axes, title: str) -> None:
    """Put a title above the data, on the left."""
    ax.set_title(title, loc="left", fontsize=11).set_parse_math(False)


def curvature_note(embedding: Embedding) -> str:
    """Say how an embedding is curved, for a title; nothing where it is flat."""
    if not embedding.curvature:
        return ""
    return f", curvature {with_minus(f'{embedding.curvature:.3g}')}"


def with_minus(text: str) -> str:
    """Write the sign of a number as print does."""
    return text.replace("-", "−")


def printable(text: str) -> str:
    """Escape control characters, for which fonts have no glyphs."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text
    )
