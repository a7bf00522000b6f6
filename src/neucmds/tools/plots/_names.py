"""Write names beside points without overlap, as many as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.tools.plots._figures import Floats, printable, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where a name goes, seen from its point: right, left, above, below, corners.
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def write_names(
    ax: Axes,
    points: Floats,
    names: Sequence[str] | None,
    size: float,
    *,
    all_or_none: bool,
    tips: Sequence[tuple[Floats, str, bool | None]] = (),
) -> list[str]:
    """Write names of points and arrows without overlap, and return notes on names left out.

    `tips` are ends of arrows, their names, and whether p is small; None stands for a centroid.
    `size` is the area of a point. With `all_or_none`, points are named only if all names fit.
    """
    if names is None and not tips:
        return []
    settle(ax)  # the layout decides how far points lie apart
    radius = 0.5 * math.sqrt(size) * ax.figure.dpi / 72
    marks = ax.transData.transform(points)
    taken = np.hstack([marks - 0.8 * radius, marks + 0.8 * radius])
    for end, name, certain in tips:
        style: dict[str, Any] = {"fontsize": 8, "fontstyle": "italic"}
        if certain is not None:
            style = {"fontsize": 9, "fontweight": "bold", "alpha": 1.0 if certain else 0.5}
        _, taken = _write(ax, name, end, taken, radius, style, of_arrow=certain is not None)
    if names is None:
        return []
    texts, wanted = [], [i for i, name in enumerate(names) if name]
    for i in wanted:
        name = names[i] if len(names[i]) <= 20 else f"{names[i][:19]}…"
        text, taken = _write(ax, name, points[i], taken, radius, {"fontsize": 7.5})
        if text is not None:
            texts.append(text)
        elif all_or_none:
            for written in texts:
                written.remove()
            return []
    fitting, total = len(texts), len(wanted)
    return [] if fitting == total else [f"{fitting:,} of {total:,} names fit"]


def _write(
    ax: Axes,
    name: str,
    at: Floats,
    taken: Floats,
    radius: float,
    style: dict[str, Any],
    *,
    of_arrow: bool = False,
) -> tuple[Any, Floats]:
    """Write a name on the first free side of a point; None if there is no space.

    `taken` are boxes in pixels; the box of the name is added. The name of an arrow prefers the side
    it points to, and is always written.
    """
    from matplotlib.patheffects import withStroke

    text: Any = ax.annotate(
        printable(name), (at[0], at[1]), (0, 0), textcoords="offset points",
        ha="center", va="center", zorder=6, parse_math=False, annotation_clip=False, **style,
        path_effects=[withStroke(linewidth=2, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)
    box = text.get_window_extent()
    half = np.array([box.width, box.height]) / 2
    point, origin = ax.transData.transform(np.stack([at, np.zeros(2)]))
    spots = _beside(point, half, radius, point - origin if of_arrow else None)
    boxes = np.hstack([spots - half, spots + half])
    (left, low), (right, high) = ax.bbox.min, ax.bbox.max
    inside = (boxes >= [left, low, left, low]).all(axis=1)
    inside &= (boxes <= [right, high, right, high]).all(axis=1)
    apart = (boxes[:, None, :2] >= taken[:, 2:]) | (boxes[:, None, 2:] <= taken[:, :2])
    free = np.flatnonzero(inside & np.all(np.any(apart, axis=2), axis=1))
    if not free.size and not of_arrow:
        text.remove()
        return None, taken
    chosen = int(free[0]) if free.size else 0
    text.set_position((spots[chosen] - point) * 72 / text.figure.dpi)
    return text, np.vstack([taken, boxes[chosen]])


def _beside(point: Floats, half: Floats, radius: float, toward: Floats | None) -> Floats:
    """Return centres of boxes that touch a point's circle, nearer ones first."""
    sides = np.array(_SIDES, dtype=np.float64)
    if toward is not None:
        along = sides @ toward / np.hypot(*sides.T)
        sides = sides[np.argsort(-along, kind="stable")]
    # At a corner the box may come nearer on both axes.
    nearer = np.where(np.all(sides != 0, axis=1, keepdims=True), 0.7, 1.0)
    gaps = [nearer * (radius + gap) for gap in (1.0, 5.0)]
    return np.vstack([point + sides * (half + gap) for gap in gaps])
