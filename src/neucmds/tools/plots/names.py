"""Write names beside points without overlap, as many as fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.tools.plots.figures import Floats, printable, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Pixels between the middle of a point and a name beside it.
REACH = 6


def write_name(ax: Axes, point: Any, name: str, **style: Any) -> Any:
    """Write a name at a point."""
    from matplotlib.patheffects import withStroke

    text: Any = ax.annotate(
        printable(name),
        (point[0], point[1]),
        (0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        zorder=6,
        parse_math=False,
        annotation_clip=False,
        path_effects=[withStroke(linewidth=2, foreground="white")],
        **style,
    )
    text.set_in_layout(False)
    return text


def write_names(ax: Axes, points: Floats, names: Sequence[str]) -> None:
    """Write names beside points where there is space."""
    settle(ax)
    middles = ax.transData.transform(points)
    # A box is (left, bottom, right, top), in pixels.
    taken = np.hstack([middles - REACH / 2, middles + REACH / 2])
    for text in ax.texts:
        taken = np.vstack([taken, text.get_window_extent().extents])
    # The eight directions from a point, the right first.
    directions = np.array(
        [(x, y) for x in (1, 0, -1) for y in (0, 1, -1) if x or y]
    )
    for point, middle, name in zip(points, middles, names, strict=True):
        if not name:
            continue
        text = write_name(ax, point, name, fontsize=7.5)
        half_size = text.get_window_extent().size / 2
        offsets = directions * (half_size + REACH)
        boxes = np.hstack([offsets - half_size, offsets + half_size])
        boxes += np.tile(middle, 2)
        free = np.flatnonzero(_is_free(ax, boxes, taken))
        if not free.size:
            text.remove()
            continue
        best = free[0]
        # Offsets are in pixels, positions in points of 1/72 inch.
        text.set_position(offsets[best] * 72 / ax.figure.dpi)
        taken = np.vstack([taken, boxes[best]])


def _is_free(ax: Axes, boxes: Floats, taken: Floats) -> Any:
    """Tell which boxes lie inside the Axes and overlap none that is taken."""
    inside = (boxes[:, :2] >= ax.bbox.min) & (boxes[:, 2:] <= ax.bbox.max)
    apart = (boxes[:, None, :2] >= taken[:, 2:]) | (
        boxes[:, None, 2:] <= taken[:, :2]
    )
    return np.all(inside, axis=1) & np.all(np.any(apart, axis=2), axis=1)
