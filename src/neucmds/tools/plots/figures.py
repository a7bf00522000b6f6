"""Colours, figures, legends and titles of all plots."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neucmds.errors import InputError, option

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
# Points of print: journals ask for 5 to 8.
TEXT = 8
# Labels that mark the figures made here: those of callers are not laid out.
_OURS = "neucmds"
_OF_GIVEN_WIDTH = "neucmds, of a given width"


def axes_or_new(ax: Axes | None, size: str | None = None) -> Axes:
    """Return the caller's Axes, or those of a new figure that needs no pyplot."""
    if ax is not None:
        return ax
    label = _OURS
    figure_size = (7.2, 5.0)
    if size is not None:
        label = _OF_GIVEN_WIDTH
        width = inches(size)
        figure_size = (width, 0.75 * width)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'plots need matplotlib, which is not installed: pip install "neucmds[cli]".'
        ) from error
    figure = Figure(
        figsize=figure_size,
        dpi=300,
        layout="constrained",
        label=label,
    )
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=TEXT)
    ax.xaxis.label.set_fontsize(TEXT)
    ax.yaxis.label.set_fontsize(TEXT)
    return ax


def inches(size: str) -> float:
    """Read a width: 89mm, 18cm or 7in."""
    units = {"mm": 25.4, "cm": 2.54, "in": 1.0}
    parts = re.fullmatch(r"(\d+\.?\d*) *(mm|cm|in)", str(size).strip())
    # Refused below, as a text that is no width is.
    width = 0.0
    if parts:
        width = float(parts[1]) / units[parts[2]]
    # Narrower figures have no space for their own labels.
    if not 1 <= width <= 100:
        raise InputError(
            f"{option('size', size)} is no width of a figure; pass one from 26mm to 2540mm, as in "
            "89mm."
        )
    return width


def is_ours(ax: Axes) -> bool:
    """Tell whether a figure was made here, and so may be laid out."""
    return ax.figure.get_label() in (_OURS, _OF_GIVEN_WIDTH)


def lay_out(ax: Axes) -> None:
    """Lay the figure out, twice: equal scales change the ticks, and ticks change the layout."""
    # Where `ax` is in a subfigure, this is the whole figure.
    figure: Any = ax.figure.figure
    figure.draw_without_rendering()
    figure.draw_without_rendering()


def legend_of_groups(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], title: str
) -> None:
    """Put a legend to the right, or below a figure of a given width, and make room for it."""
    figure: Any = ax.figure
    if figure.get_label() != _OF_GIVEN_WIDTH:
        # As many columns as hold the names in 18 rows each.
        columns = math.ceil(len(names) / 18)
        legend = place_legend(
            ax, "outside right upper", handles, names, columns, title
        )
        if is_ours(ax):
            width = legend.get_window_extent().width / figure.dpi
            figure.set_figwidth(figure.get_figwidth() + width)
        return
    # Try more rows until the legend is no wider than the figure, or has one column.
    for rows in range(1, len(names) + 1):
        columns = math.ceil(len(names) / rows)
        legend = place_legend(
            ax, "outside lower center", handles, names, columns, title
        )
        if legend.get_window_extent().width <= figure.bbox.width:
            break
        if columns > 1:
            legend.remove()
    height = legend.get_window_extent().height / figure.dpi
    figure.set_figheight(figure.get_figheight() + height)


def place_legend(
    ax: Axes,
    location: str,
    handles: Sequence[Any],
    names: Sequence[str],
    columns: int,
    title: str = "",
) -> Any:
    """Return a new legend: outside the data, or inside those of a caller's own figure."""
    # Numbers stand in for names: Matplotlib drops names that begin with "_", and reads "$" as math.
    stand_ins = [str(i) for i in range(len(names))]
    options: dict[str, Any] = {"ncols": columns, "title": printable(title)}
    if is_ours(ax):
        options |= {
            "loc": location,
            "frameon": False,
            "fontsize": TEXT,
            "title_fontsize": TEXT,
            "handletextpad": 0.2,
            "columnspacing": 1.0,
        }
        legend = ax.figure.legend(handles, stand_ins, **options)
    else:
        legend = ax.legend(handles, stand_ins, **options)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(printable(name))
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    handle: Any
    for handle in legend.legend_handles:
        # Many points are drawn pale, but not in the legend. Points have sizes, lines have none.
        if hasattr(handle, "set_sizes"):
            handle.set_alpha(1.0)
    return legend


def legend_below(ax: Axes, columns: int) -> None:
    """Put the legend of all labelled artists below the data."""
    handles, names = ax.get_legend_handles_labels()
    place_legend(ax, "outside lower center", handles, names, columns)


def with_minus(text: Any) -> str:
    """Write a minus sign, as print does, for the hyphen before a number."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", str(text))


def printable(text: str) -> str:
    """Escape control characters, for which fonts have no glyphs."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text
    )
