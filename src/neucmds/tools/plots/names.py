"""Write names beside points without overlap, as many as fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend.arrays import Floats
from neucmds.tools.plots.figures import GUIDE, TEXT, lay_out, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of print between the middle of a mark and a name beside it.
REACH = 3.5


def write_corner(ax: Axes, points: Floats, text: str) -> None:
    """Write a text in the corner where it covers the fewest of the points, in units of the data."""
    if not text:
        return
    lay_out(ax)
    note: Any = ax.annotate(
        text,
        (0, 0),
        xycoords="axes fraction",
        fontsize=TEXT - 1,
        color=GUIDE,
        zorder=6,
    )
    # The layout, which is done, stays as it is.
    note.set_in_layout(False)
    size = note.get_window_extent().size
    pixels = ax.transData.transform(points)
    # Corner, in fractions of the Axes → how many points the text would cover there.
    n_covered = {}
    for y in (0.99, 0.01):
        for x in (0.99, 0.01):
            low = ax.bbox.min + (x, y) * (ax.bbox.size - size)
            inside = np.all((pixels > low) & (pixels < low + size), axis=1)
            n_covered[x, y] = int(inside.sum())
    x, y = min(n_covered, key=n_covered.__getitem__)
    sides = {0.01: ("left", "bottom"), 0.99: ("right", "top")}
    note.set_position((x, y))
    note.set_horizontalalignment(sides[x][0])
    note.set_verticalalignment(sides[y][1])


def write_names(
    ax: Axes,
    anchors: Floats,
    names: Sequence[str],
    *,
    marks: Floats,
    lines: Iterable[tuple[Any, Any]] = (),
    leaders_cross_marks: bool = False,
    **style: Any,
) -> int:
    """Write a name beside each anchor where there is space, and return how many are left out.

    Names overlap neither each other, nor other texts, nor `marks`, which are points, nor `lines`,
    which are pairs of ends, all in units of the data. A name that does not touch its anchor has a
    thin line to it, its leader. A leader overlaps none of these either, but with
    `leaders_cross_marks` it may cross marks. A name without a leader is nearest to its own mark. An
    empty name is not written.
    """
    lay_out(ax)
    # Pixels per point of print, as the sizes of texts are.
    point = ax.figure.dpi / 72
    to_pixels = ax.transData.transform
    # A box is (left, bottom, right, top), in pixels.
    mark_middles = to_pixels(marks)
    mark_boxes = _boxes(mark_middles, REACH / 2 * point)
    # Boxes of lines, texts and leaders. One empty array, so that there is something to stack.
    obstacles = [mark_boxes[:0]]
    for start, end in lines:
        first, last = to_pixels([start, end])
        obstacles.append(_line_boxes(first, last, point))
    for text in ax.texts:
        if text.get_text():
            box: Any = text.get_window_extent().padded(point).extents
            obstacles.append(box[None])
    left_out = 0
    for anchor, name in zip(anchors, names, strict=True):
        if not name:
            continue
        text = _write(ax, anchor, name, style)
        half_size = text.get_window_extent().padded(point).size / 2
        middle = to_pixels(anchor)
        name_obstacles = np.vstack([*obstacles, mark_boxes])
        leader_obstacles = name_obstacles
        if leaders_cross_marks:
            leader_obstacles = np.vstack(obstacles)
        boxes = _free_boxes(
            ax,
            middle,
            half_size,
            name_obstacles,
            leader_obstacles,
            mark_middles,
            point,
        )
        if boxes is None:
            text.remove()
            left_out += 1
            continue
        obstacles.append(boxes)
        # The first box is that of the name, the others are those of its leader.
        low, high = np.split(boxes[0] - np.tile(middle, 2), 2)
        text.set_position((low + high) / 2 / point)
        if len(boxes) > 1:
            _draw_leader(ax, anchor, _nearest_edge(low, high) / point)
    return left_out


def _write(ax: Axes, anchor: Any, name: str, style: dict[str, Any]) -> Any:
    """Write a name in the middle of a point, and return its text."""
    from matplotlib.patheffects import withStroke

    text: Any = ax.annotate(
        printable(name),
        (anchor[0], anchor[1]),
        (0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        zorder=6,
        parse_math=False,
        annotation_clip=False,
        fontsize=TEXT - 1,
        path_effects=[withStroke(linewidth=1.5, foreground="white")],
        **style,
    )
    text.set_in_layout(False)
    return text


def _draw_leader(ax: Axes, anchor: Any, edge: Any) -> None:
    """Draw a thin line from a point to the edge of its name.

    `edge` is measured from the point, in points of print.
    """
    line = {
        "arrowstyle": "-",
        "color": GUIDE,
        "linewidth": 0.4,
        "shrinkA": 0,
        "shrinkB": REACH / 2,
    }
    leader: Any = ax.annotate(
        "",
        (anchor[0], anchor[1]),
        tuple(edge),
        textcoords="offset points",
        arrowprops=line,
        zorder=5,
    )
    leader.set_in_layout(False)


def _free_boxes(
    ax: Axes,
    middle: Any,
    half_size: Any,
    name_obstacles: Floats,
    leader_obstacles: Floats,
    marks: Floats,
    point: float,
) -> Any:
    """Return the nearest free box for a name, then the boxes of its leader; None if none is free.

    `middle` is that of the mark, `half_size` that of the name. Obstacles are boxes that the name
    and its leader must not overlap, `marks` the middles of all marks. All is in pixels, also a
    `point` of print.
    """
    reach = REACH * point
    # Distances from the mark, in multiples of the reach.
    for ring in (1, 2, 4, 6, 9, 12):
        # The eight directions from a point, the right first.
        for x in (1, 0, -1):
            for y in (0, 1, -1):
                if not (x or y):
                    continue
                offset = np.array([x, y]) * (half_size + reach * ring)
                name_box = _boxes(middle + offset, half_size)[None]
                if not _is_free(ax, name_box, name_obstacles):
                    continue
                edge = _nearest_edge(offset - half_size, offset + half_size)
                if ring == 1:
                    # A name that touches its mark needs no leader, unless it would be read as
                    # that of another mark.
                    nearest = _gaps(name_box[0], marks).min()
                    if np.linalg.norm(edge) > nearest + point / 10:
                        continue
                    return name_box
                mark_edge = reach * edge / np.linalg.norm(edge)
                leader = _line_boxes(middle + mark_edge, middle + edge, point)
                if _is_free(ax, leader, leader_obstacles):
                    return np.vstack([name_box, leader])
    return None


def _nearest_edge(low: Any, high: Any) -> Any:
    """Return the point of a box, given by two corners, that is nearest to the origin."""
    return np.clip(0, low, high)


def _gaps(box: Floats, marks: Floats) -> Any:
    """Return how far each mark is from a box."""
    low, high = np.split(box, 2)
    return np.linalg.norm(marks - np.clip(marks, low, high), axis=1)


def _boxes(middles: Floats, half_size: Any) -> Any:
    """Return the boxes of a size around points: left, bottom, right, top."""
    return np.hstack([middles - half_size, middles + half_size])


def _line_boxes(start: Any, end: Any, point: float) -> Any:
    """Return small boxes in a row that cover a line, in pixels, as is a `point` of print."""
    n_boxes = 2 + int(np.linalg.norm(end - start) / (REACH * point / 2))
    return _boxes(np.linspace(start, end, n_boxes), point / 2)


def _is_free(ax: Axes, boxes: Floats, obstacles: Floats) -> bool:
    """Tell whether boxes lie inside the Axes and overlap none of the obstacles."""
    inside = (boxes[:, :2] >= ax.bbox.min) & (boxes[:, 2:] <= ax.bbox.max)
    # Two boxes are apart if they are so in x or in y.
    apart = (boxes[:, None, :2] >= obstacles[:, 2:]) | (
        boxes[:, None, 2:] <= obstacles[:, :2]
    )
    return bool(inside.all() and apart.any(axis=2).all())
