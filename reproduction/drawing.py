"""Figures from records, without pyplot: nothing global is set and no window opens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neucmds.tools.plots.figures import (
    GUIDE,
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
)
from reproduction.records import Panel, Record, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Curves with more points than this are lines without markers.
MANY = 40


def draw(record: Record) -> Figure:
    """Draw every panel of a record, three in a row."""
    from matplotlib.figure import Figure

    columns = min(3, max(1, len(record.panels)))
    rows = math.ceil(len(record.panels) / columns) or 1
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, panel in zip(axes, record.panels, strict=False):
        _draw_panel(ax, panel)
    for ax in axes[len(record.panels) :]:
        ax.set_axis_off()
    figure.suptitle(record.title)
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    for series in panel.series:
        if panel.kind == "bar":
            colour = POSITIVE if series.name == "positive" else NEGATIVE
            ax.bar(
                series.x, series.y, color=colour, width=1.0, label=series.name
            )
        else:
            _draw_line(ax, series)
    if panel.log_y:
        ax.set_xscale("log")
        ax.set_yscale("log")
        _leave_out_perfect_fits(ax, panel)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.legend(fontsize="x-small")


def _draw_line(ax: Axes, series: Series) -> None:
    colour, marker = METHOD_STYLES.get(series.name, (GUIDE, "."))
    few = len(series.x) <= MANY
    ax.plot(
        series.x,
        series.y,
        color=colour,
        marker=marker if few else None,
        markersize=4,
        linewidth=1.4,
        label=series.name,
    )


def _leave_out_perfect_fits(ax: Axes, panel: Panel) -> None:
    """End the axis where STRESS is only rounding: all n − 1 dimensions fit anything."""
    values = [
        value for series in panel.series for value in series.y if value > 0
    ]
    top = max(values, default=1.0)
    kept = [value for value in values if value > 1e-6 * top]
    ax.set_ylim(0.5 * min(kept, default=0.1), 2 * top)
