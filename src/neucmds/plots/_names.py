"""Names beside points: put where they overlap nothing, as many as there is space for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.plots._figures import Floats, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_names(
    ax: Axes,
    points: Floats,
    names: Sequence[str] | None,
    size: float,
    *,
    all_or_none: bool,
    tips: Sequence[tuple[Floats, str, bool]] = (),
) -> list[str]:
    """Write the names of arrows and points where they overlap nothing.

    Parameters
    ----------
    ax : Axes
    points : ndarray of shape (m, 2)
    names : sequence of str, optional
        One for each point.
    size : float
        Area of a point, in square points.
    all_or_none : bool
        Write none of the points' names unless all fit.
    tips : sequence of (ndarray, str, bool)
        Tips of arrows, their names, and whether these are certain.

    Returns
    -------
    list of str
        What should be said of names that did not fit.
    """
    if names is None and not tips:
        return []
    figure: Any = ax.figure.figure  # the whole, should this be a part of one
    # The layout decides how far points lie apart; equal scales settle in the second pass.
    figure.draw_without_rendering()
    figure.draw_without_rendering()
    radius = 0.5 * math.sqrt(size) * figure.dpi / 72
    space = _Space(ax.bbox.extents, ax.transData.transform(points), radius)
    for end, name, certain in tips:
        _name_arrow(ax, space, end, name, {"alpha": 1.0 if certain else 0.5})
    if names is None:
        return []
    texts = []
    for i in space.lonely_first():
        text = _name_point(ax, space, points[i], _shortened(names[i]))
        if text is not None:
            texts.append(text)
        elif all_or_none:
            for written in texts:
                written.remove()
            return []
    fitting, total = len(texts), len(points)
    return [] if fitting == total else [f"{fitting:,} of {total:,} names fit"]


def _name_arrow(ax: Axes, space: _Space, end: Floats, name: str, style: Mapping[str, Any]) -> None:
    text = _text(ax, name, end, {"fontsize": 9, "fontweight": "bold", **style})
    tip, origin = ax.transData.transform(np.stack([end, np.zeros(2)]))
    extent = _extent(text)
    spot = space.around(tip, extent, toward=tip - origin)
    # An arrow without its name says nothing: then it is written over points.
    spot = spot or next(_spots(tip, extent, space.radius, tip - origin))
    _move(text, tip, spot)
    space.take(spot, extent)


def _name_point(ax: Axes, space: _Space, point: Floats, name: str) -> Any:
    """Write a name beside a point; return None if there is no space."""
    text = _text(ax, name, point, {"fontsize": 7.5})
    at, extent = ax.transData.transform(point), _extent(text)
    spot = space.around(at, extent)
    if spot is None:
        text.remove()
        return None
    _move(text, at, spot)
    space.take(spot, extent)
    return text


def _shortened(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def _text(ax: Axes, name: str, at: Floats, style: Mapping[str, Any]) -> Any:
    from matplotlib.patheffects import withStroke

    text = ax.annotate(
        printable(name), (at[0], at[1]), (0, 0), textcoords="offset points",
        ha="center", va="center", zorder=6, parse_math=False, annotation_clip=False, **style,
        path_effects=[withStroke(linewidth=2, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)
    return text


def _extent(text: Any) -> tuple[float, float]:
    box = text.get_window_extent()
    return box.width, box.height


def _move(text: Any, point: Floats, spot: tuple[float, float]) -> None:
    """Move a text from its point to a spot, both in pixels."""
    scale = text.figure.dpi / 72
    text.set_position(((spot[0] - point[0]) / scale, (spot[1] - point[1]) / scale))


class _Space:
    """Where in the picture, in pixels, text still finds a free box."""

    def __init__(self, bounds: Sequence[float], marks: Floats, radius: float) -> None:
        self.bounds, self.marks, self.radius = bounds, marks, radius
        self.boxes = np.empty((0, 4))

    def lonely_first(self) -> npt.NDArray[np.intp]:
        """Order points by the distance to their nearest, farthest first."""
        from scipy.spatial import KDTree

        if len(self.marks) < 2:
            return np.arange(len(self.marks))
        nearest = np.asarray(KDTree(self.marks).query(self.marks, k=2)[0])[:, 1]
        return np.argsort(-nearest, kind="stable")

    def around(
        self, point: Floats, extent: tuple[float, float], toward: Floats | None = None
    ) -> tuple[float, float] | None:
        """Return the centre of a free box of this extent beside a point, the nearest one first."""
        for x, y in _spots(point, extent, self.radius, toward):
            if self._is_free(x, y, *extent):
                return x, y
        return None

    def take(self, spot: tuple[float, float], extent: tuple[float, float]) -> None:
        """Mark a box as taken."""
        (x, y), (w, h) = spot, extent
        self.boxes = np.vstack([self.boxes, [x - w / 2, y - h / 2, x + w / 2, y + h / 2]])

    def _is_free(self, x: float, y: float, w: float, h: float) -> bool:
        left, low, right, high = x - w / 2, y - h / 2, x + w / 2, y + h / 2
        if (
            left < self.bounds[0]
            or low < self.bounds[1]
            or right > self.bounds[2]
            or high > self.bounds[3]
        ):
            return False
        r, m, b = 0.8 * self.radius, self.marks, self.boxes
        on_marks = (
            (m[:, 0] > left - r)
            & (m[:, 0] < right + r)
            & (m[:, 1] > low - r)
            & (m[:, 1] < high + r)
        )
        on_boxes = (b[:, 0] < right) & (b[:, 2] > left) & (b[:, 1] < high) & (b[:, 3] > low)
        return not (on_marks.any() or on_boxes.any())


def _spots(
    point: Floats, extent: tuple[float, float], radius: float, toward: Floats | None
) -> Iterator[tuple[float, float]]:
    """Yield centres of boxes that touch a point's circle: right, left, above, below, corners."""
    directions = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    if toward is not None:
        directions.sort(key=lambda d: -(d[0] * toward[0] + d[1] * toward[1]) / math.hypot(*d))
    w, h = extent
    for gap in (radius + 1.0, radius + 5.0):
        for dx, dy in directions:
            # At a corner the box may come nearer on both axes.
            near = gap if 0 in (dx, dy) else 0.7 * gap
            yield float(point[0] + dx * (w / 2 + near)), float(point[1] + dy * (h / 2 + near))
