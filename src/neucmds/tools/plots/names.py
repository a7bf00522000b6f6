"""Write names beside points without overlap, as many as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.tools.plots.figures import Floats, printable, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_names(
    ax: Axes,
    points: Floats,
    names: Sequence[str],
    size: float,
    taken: Floats,
    **style: Any,
) -> tuple[list[Any], Floats]:
    """Write names where there is space; return those written, and all boxes that are taken.

    `size` is the area of a point, and `taken` are boxes in pixels.
    """
    texts = []
    for point, name in zip(points, names, strict=True):
        if not name:
            continue
        text = write_name(ax, point, name, **style)
        boxes = _boxes_around(ax, text, point, size)
        free = boxes[_is_free(ax, boxes, taken)]
        if not free.size:
            text.remove()
            continue
        centre = (free[0, :2] + free[0, 2:]) / 2
        text.set_position(
            (centre - ax.transData.transform(point)) * 72 / ax.figure.dpi
        )
        taken = np.vstack([taken, free[0]])
        texts.append(text)
    return texts, taken


def write_name(ax: Axes, point: Floats, name: str, **style: Any) -> Any:
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


def boxes_of_points(ax: Axes, points: Floats, size: float) -> Floats:
    """Lay the figure out, and return the boxes in pixels that points of an area take."""
    settle(ax)
    centres = ax.transData.transform(points)
    # A name may touch the corner of a round point's box.
    half = 0.8 * _radius(ax, size)
    return np.hstack([centres - half, centres + half])


def _radius(ax: Axes, size: float) -> float:
    return 0.5 * math.sqrt(size) * ax.figure.dpi / 72


def _is_free(ax: Axes, boxes: Floats, taken: Floats) -> Any:
    """Tell which boxes lie inside the Axes and overlap none that is taken."""
    inside = (boxes[:, :2] >= ax.bbox.min) & (boxes[:, 2:] <= ax.bbox.max)
    apart = (boxes[:, None, :2] >= taken[:, 2:]) | (
        boxes[:, None, 2:] <= taken[:, :2]
    )
    return np.all(inside, axis=1) & np.all(np.any(apart, axis=2), axis=1)


def _boxes_around(ax: Axes, text: Any, point: Floats, size: float) -> Floats:
    """Return boxes for a text that touch a point's circle: nearer ones, then farther ones."""
    sides = np.array(
        [(x, y) for x in (1, 0, -1) for y in (0, 1, -1) if x or y]
    )
    half = text.get_window_extent().size / 2
    boxes = []
    for gap in (1.0, 5.0):
        away = sides * (half + _radius(ax, size) + gap)
        centres = ax.transData.transform(point) + away
        boxes.append(np.hstack([centres - half, centres + half]))
    return np.vstack(boxes)
