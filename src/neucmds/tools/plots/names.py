"""Write names beside points without overlap, as many as fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend.arrays import Floats
from neucmds.tools.plots.figures import GUIDE, TEXT, printable, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of print between the middle of a mark and a name beside it.
REACH = 3.5


def write_corner(ax: Axes, points: Floats, text: str) -> None:
    """Write a text in the corner where it covers the fewest points."""
    if not text:
        return
    settle(ax)
    note: Any = ax.annotate(
        text,
        (0, 0),
        xycoords="axes fraction",
        fontsize=TEXT - 1,
        color=GUIDE,
        zorder=6,
    )
    note.set_in_layout(False)
    size = note.get_window_extent().size
    middles = ax.transData.transform(points)
    covered = {}
    for y in (0.99, 0.01):
        for x in (0.99, 0.01):
            low = ax.bbox.min + (x, y) * (ax.bbox.size - size)
            inside = np.all((middles > low) & (middles < low + size), axis=1)
            covered[x, y] = int(inside.sum())
    x, y = min(covered, key=lambda corner: covered[corner])
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
    """Write a name beside each anchor where there is space, and count those left out.

    Names overlap neither each other, nor other texts, nor the `marks` of points, nor `lines`, which
    are pairs of ends. A name that does not touch its anchor has a thin line to it, its leader. A
    leader overlaps none of these either, but with `leaders_cross_marks` it may cross marks.
    """
    settle(ax)
    # Pixels per point of print, as the sizes of texts are.
    point = ax.figure.dpi / 72
    to_pixels = ax.transData.transform
    # A box is (left, bottom, right, top), in pixels.
    mark_boxes = _boxes(to_pixels(marks), REACH / 2 * point)
    # One empty array, so that there is something to stack.
    taken = [mark_boxes[:0]]
    for start, end in lines:
        first, last = to_pixels([start, end])
        taken.append(_line_boxes(first, last, point))
    for text in ax.texts:
        if text.get_text():
            box: Any = text.get_window_extent().padded(point).extents
            taken.append(box[None])
    left_out = 0
    for anchor, name in zip(anchors, names, strict=True):
        if not name:
            continue
        text = _write(ax, anchor, name, style)
        half_size = text.get_window_extent().padded(point).size / 2
        middle = to_pixels(anchor)
        in_way = np.vstack([*taken, mark_boxes])
        in_way_of_leader = in_way
        if leaders_cross_marks:
            in_way_of_leader = np.vstack(taken)
        added = _free_boxes(
            ax, middle, half_size, in_way, in_way_of_leader, point
        )
        if added is None:
            text.remove()
            left_out += 1
            continue
        taken.append(added)
        # The first box is that of the name.
        offset = (added[0, :2] + added[0, 2:]) / 2 - middle
        text.set_position(offset / point)
        if len(added) > 1:
            edge = np.clip(0, offset - half_size, offset + half_size)
            _draw_leader(ax, anchor, edge / point)
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
    in_way: Floats,
    in_way_of_leader: Floats,
    point: float,
) -> Any:
    """Return the nearest free box for a name, then the boxes of its leader; None if none is free.

    `middle` is that of the mark; `point` is a point of print, in pixels.
    """
    reach = REACH * point
    for ring in (1, 2, 4, 6, 9, 12):
        # The eight directions from a point, the right first.
        for x in (1, 0, -1):
            for y in (0, 1, -1):
                if not (x or y):
                    continue
                offset = np.array([x, y]) * (half_size + reach * ring)
                box = np.concatenate([offset - half_size, offset + half_size])
                name_box = (np.tile(middle, 2) + box)[None]
                if not _is_free(ax, name_box, in_way):
                    continue
                if ring == 1:
                    return name_box
                edge = np.clip(0, box[:2], box[2:])
                own_mark = reach * edge / np.linalg.norm(edge)
                leader = _line_boxes(middle + own_mark, middle + edge, point)
                if _is_free(ax, leader, in_way_of_leader):
                    return np.vstack([name_box, leader])
    return None


def _boxes(middles: Floats, half_size: float) -> Any:
    return np.hstack([middles - half_size, middles + half_size])


def _line_boxes(start: Any, end: Any, point: float) -> Any:
    """Return small boxes that cover a line; `point` is a point of print, in pixels."""
    n_boxes = 2 + int(np.linalg.norm(end - start) / (REACH * point / 2))
    return _boxes(np.linspace(start, end, n_boxes), point / 2)


def _is_free(ax: Axes, boxes: Floats, taken: Floats) -> bool:
    """Tell whether boxes lie inside the Axes and overlap none of those taken."""
    inside = (boxes[:, :2] >= ax.bbox.min) & (boxes[:, 2:] <= ax.bbox.max)
    apart = (boxes[:, None, :2] >= taken[:, 2:]) | (
        boxes[:, None, 2:] <= taken[:, :2]
    )
    return bool(inside.all() and apart.any(axis=2).all())
