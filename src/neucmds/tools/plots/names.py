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
    ax: Axes, points: Floats, names: Sequence[str], size: float, taken: Floats, **style: Any
) -> tuple[list[Any], Floats]:
    """Write names where there is space; return those written, and all boxes that are taken.

    `size` is the area of a point, and `taken` are boxes in pixels.
    """
    texts = []
    for point, name in zip(points, names, strict=True):
        if not name:
            continue
        if len(name) > 20:
            name = f"{name[:19]}…"
        text = _text(ax, name, point, **style)
        spots = _boxes_around(ax, text, point, size)
        free = spots[_is_free(ax, spots, taken)]
        if free.size:
            _move(ax, text, point, free[0])
            taken = np.vstack([taken, free[0]])
            texts.append(text)
        else:
            text.remove()
    return texts, taken


def write_tip(ax: Axes, end: Floats, name: str, size: float, taken: Floats, **style: Any) -> Floats:
    """Write the name of an arrow at its end, even if there is no space; return what is taken."""
    text = _text(ax, name, end, **style)
    origin, tip = ax.transData.transform(np.stack([np.zeros(2), end]))
    spots = _boxes_around(ax, text, end, size, toward=tip - origin)
    free = spots[_is_free(ax, spots, taken)]
    chosen = np.vstack([free, spots])[0]
    _move(ax, text, end, chosen)
    return np.vstack([taken, chosen])


def boxes_of_points(ax: Axes, points: Floats, size: float) -> Floats:
    """Lay the figure out, and return the boxes in pixels that points of an area take."""
    settle(ax)
    centres = ax.transData.transform(points)
    # A name may touch the corner of a round point's box.
    half = 0.8 * _radius(ax, size)
    return np.hstack([centres - half, centres + half])


def _radius(ax: Axes, size: float) -> float:
    return 0.5 * math.sqrt(size) * ax.figure.dpi / 72


def _text(ax: Axes, name: str, point: Floats, **style: Any) -> Any:
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


def _move(ax: Axes, text: Any, point: Floats, box: Floats) -> None:
    """Move a text from its point into a box."""
    centre = (box[:2] + box[2:]) / 2
    text.set_position((centre - ax.transData.transform(point)) * 72 / ax.figure.dpi)


def _is_free(ax: Axes, boxes: Floats, taken: Floats) -> Any:
    """Tell which boxes lie inside the Axes and overlap none that is taken."""
    inside = (boxes[:, :2] >= ax.bbox.min) & (boxes[:, 2:] <= ax.bbox.max)
    apart = (boxes[:, None, :2] >= taken[:, 2:]) | (boxes[:, None, 2:] <= taken[:, :2])
    return np.all(inside, axis=1) & np.all(np.any(apart, axis=2), axis=1)


def _boxes_around(
    ax: Axes, text: Any, point: Floats, size: float, toward: Floats | None = None
) -> Floats:
    """Return boxes for a text that touch a point's circle: nearer ones, then farther ones.

    Right, left, above, below, then the corners; with `toward`, those in that direction first.
    """
    sides = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1], [1, -1], [-1, -1]])
    if toward is not None:
        along = sides @ toward / np.linalg.norm(sides, axis=1)
        sides = sides[np.argsort(-along, kind="stable")]
    extent = text.get_window_extent()
    half = np.array([extent.width, extent.height]) / 2
    centre = ax.transData.transform(point)
    # At a corner the box may come nearer on both axes.
    nearer = np.where((sides != 0).all(axis=1, keepdims=True), 0.7, 1.0)
    boxes = []
    for gap in (1.0, 5.0):
        centres = centre + sides * (half + nearer * (_radius(ax, size) + gap))
        boxes.append(np.hstack([centres - half, centres + half]))
    return np.vstack(boxes)
