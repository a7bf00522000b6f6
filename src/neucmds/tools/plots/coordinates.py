"""Objects on two axes, with groups, arrows and names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Floats, to_numpy
from neucmds.ecology import EnvFit, VariableFit
from neucmds.ecology.variables import axis_numbers
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.explore import Bootstrap
from neucmds.problem.names import examples, ordered_by_name
from neucmds.tools.plots import figures
from neucmds.tools.plots.colours import (
    Colours,
    as_colours,
    colour_and_marker,
)
from neucmds.tools.plots.figures import (
    GUIDE,
    NEGATIVE,
    POSITIVE,
    TEXT,
    printable,
)
from neucmds.tools.plots.names import write_corner, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Up to this many objects are named by default.
MOST_NAMED = 60


def plot_coordinates(
    embedding: Embedding,
    color: Sequence[object] | npt.NDArray[Any] | None = None,
    *,
    axes: tuple[int, int] = (1, 2),
    names: bool | Sequence[str] | None = None,
    ellipses: Literal["none", "sd", "se"] = "none",
    conf: float = 0.95,
    hulls: bool = False,
    spiders: bool = False,
    filled: bool = False,
    arrows: EnvFit | None = None,
    variables: Sequence[str] | None = None,
    p_max: float = 1.0,
    centroids: bool = False,
    stress: bool = True,
    title: str = "",
    size: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the objects on two of their axes.

    A figure of its own has 300 dpi, text of 7 and 8 points, and no title; `caption` writes what to
    say below it. Of a directed embedding, each departure has an arrow to the arrival of the same
    object, short where the directions agree; arrivals of another set of objects are diamonds.

    Parameters
    ----------
    embedding : Embedding
    color : sequence of length n, optional
        A category or a number for each object. Numbers get a colour bar, categories a legend;
        integers with at most 30 different values count as categories. Objects without a value
        (None, NaN) are grey.
    axes : (int, int), default=(1, 2)
        Which axes, counted from 1. `default_axes` names the pairs worth a picture.
    names : bool or sequence of str, optional
        True writes the name of each object, False none, and a sequence other names, one per object
        or departure; by default objects are named if they have names and are at most 60, as are
        arrivals of another set beside a sequence. No two names overlap: those without space are
        left out, and a warning counts them if names were asked for.
    ellipses : {"none", "sd", "se"}, default="none"
        An ellipse for each category of at least three objects, as vegan's ``ordiellipse``: "sd"
        holds the share `conf` of a normal distribution with the mean and covariance of the
        objects, "se" is the confidence region of their mean.
    conf : float, default=0.95
        Share of the ellipses, between 0 and 1; 0.393 is one standard deviation, or one standard
        error.
    hulls : bool, default=False
        Draw the convex hull of each category, as ``ordihull``.
    spiders : bool, default=False
        Draw a line from each object to the mean of its category, as ``ordispider``.
    filled : bool, default=False
        Whether ellipses and hulls are filled with a pale colour.
    arrows : EnvFit, optional
        The result of `envfit` for these two axes. Continuous variables are arrows of length
        proportional to √r².
    variables : sequence of str, optional
        Which variables of `arrows` to draw; all by default.
    p_max : float, default=1.0
        Variables of `arrows` with a larger p are not drawn.
    centroids : bool, default=False
        Mark the centroid of each class of the categorical variables of `arrows` by a cross.
    stress : bool, default=True
        Write stress-1 in a corner, for fits by ``loss="ordinal"`` and ``"distance"``.
    title : str, optional
        Title of the legend or colour bar.
    size : str, optional
        Width of the figure, as in "89mm"; its legend is then below, and adds to its height.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.tools.plots import plot_coordinates
    >>> x = np.random.default_rng(0).uniform(size=(12, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> ax = plot_coordinates(neuc_mds(D, 4), color=["a", "b"] * 6, title="side", hulls=True)
    >>> [text.get_text() for text in ax.figure.legends[0].get_texts()]
    ['a', 'b']
    """
    pair = two_axes(axes, embedding.k)
    ax = figures.axes_or_new(ax, size)
    points = _on_axes(embedding.coordinates, pair)
    for axis, drawn_axis in zip(pair, (ax.xaxis, ax.yaxis), strict=True):
        # With one coordinate the second axis is empty.
        if axis > embedding.k:
            drawn_axis.set_ticks([])
        else:
            drawn_axis.set_label_text(axis_label(embedding, axis))
    # Written in a corner.
    notes = []
    if stress and math.isfinite(embedding.stress1):
        notes.append(f"stress {embedding.stress1:.3f}")
    colours = Colours()
    if color is None:
        ax.scatter(*points.T, color=POSITIVE, **_point_style(len(points)))
    else:
        color = ordered_by_name(
            color, embedding.labels, "rows of color", rows=True
        )
        colours = as_colours(color, embedding.n)
        n_unknown = int((~colours.known).sum())
        if n_unknown:
            notes.append(f"{n_unknown:,} objects without a value in grey")
        _draw_colours(ax, points, colours, title)
    if ellipses != "none" or hulls or spiders:
        colours.check_groups()
        if ellipses not in ("none", "sd", "se"):
            raise InputError(
                f"{option('ellipses', ellipses)} must be 'none', 'sd' or 'se'."
            )
        if not 0 < conf < 1:
            raise InputError(
                f"{option('conf', conf)} must be between 0 and 1, as 0.95 is."
            )
        for group in range(len(colours.groups)):
            colour, _ = colour_and_marker(group)
            style = _shape_style(colour, filled)
            members = points[colours.codes == group]
            if ellipses != "none":
                draw_ellipse(
                    ax, members, style, conf, of_mean=ellipses == "se"
                )
            if hulls:
                _draw_hull(ax, members, style)
            if spiders:
                _draw_spider(ax, members, colour)
    # Names must cover neither marks, which are points, nor lines.
    marks = points
    lines: list[Any] = []
    arrivals: Any = None
    if embedding.arrivals is not None:
        arrivals = _on_axes(embedding.arrivals, pair)
        marks = np.vstack([points, arrivals])
        if embedding.arrival_labels is None:
            _draw_steps(ax, points, arrivals)
            lines = list(zip(points, arrivals, strict=True))
        else:
            style = _point_style(len(arrivals)) | {"color": NEGATIVE}
            ax.scatter(*arrivals.T, marker="D", **style)
    # Name of a variable or class → the tip of its arrow or its centroid.
    tips: dict[str, Any] = {}
    crosses: dict[str, Any] = {}
    if arrows is not None:
        check_plane(embedding.k)
        fits = drawn_fits(arrows, variables, p_max)
        tips = _draw_arrows(ax, arrows.axes, fits, pair, points)
        lines += [((0.0, 0.0), tip) for tip in tips.values()]
        if centroids:
            crosses = _centroids(fits)
    on_same_scale = _set_aspect(ax)
    if not on_same_scale:
        notes.append("axes on different scales")
    for cross in crosses.values():
        ax.scatter(*cross, marker="+", color="black", zorder=5, linewidths=0.8)
    marks = np.vstack([marks, *crosses.values()])
    write_corner(ax, marks, "\n".join(notes))
    obstacles: Any = {"marks": marks, "lines": lines}
    variable_points = tips | crosses
    n_unwritten = write_names(
        ax,
        np.array([*variable_points.values()]),
        [*variable_points],
        **obstacles,
        leaders_cross_marks=True,
        weight="bold",
    )
    texts = _object_names(names, embedding)
    n_unnamed = write_names(ax, points, texts, **obstacles)
    if embedding.arrival_labels is not None:
        # A sequence has the names of the departures.
        arrival_names = names if isinstance(names, bool) else None
        texts = _object_names(arrival_names, embedding._targets)
        n_unnamed += write_names(ax, arrivals, texts, **obstacles)
    # Names that are written by default were not asked for.
    if names is not None:
        n_unwritten += n_unnamed
    if n_unwritten:
        message = (
            f"the figure has no space for {n_unwritten} of the names; pass a larger "
            f"{option('size')}, or fewer names."
        )
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    return ax


def _on_axes(coordinates: Any, pair: tuple[int, int]) -> Floats:
    """Return two columns of coordinates; an axis beyond their number is zero."""
    # An embedding may have a single coordinate, or none.
    padded = np.pad(to_numpy(coordinates), ((0, 0), (0, 2)))
    on_axes: Floats = padded[:, np.array(pair) - 1]
    return on_axes


def _draw_steps(ax: Axes, points: Floats, arrivals: Floats) -> None:
    """Draw an arrow from the departure of each object to its arrival."""
    steps = arrivals - points
    ax.quiver(
        *points.T,
        *steps.T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        width=0.003,
        # A step shorter than its head stays as short as it is.
        minshaft=1,
        minlength=0,
        color=GUIDE,
        zorder=4,
    )
    # Arrows do not widen the axes by themselves.
    ax.update_datalim(arrivals)
    ax.autoscale_view()


def plot_bootstrap(
    bootstrap: Bootstrap,
    *,
    axes: tuple[int, int] = (1, 2),
    names: bool | Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the objects on two of their axes, each with the ellipse of its replicates.

    An ellipse holds 95 % of a normal distribution with the mean and covariance of the replicates.
    With one coordinate there are no ellipses; `bootstrap.spread` says how far each object moves.

    Parameters
    ----------
    bootstrap : Bootstrap
        The result of `neucmds.bootstrap`.
    axes, names, ax
        As for `plot_coordinates`.

    Returns
    -------
    Axes
    """
    embedding = bootstrap.embedding
    pair = two_axes(axes, embedding.k)
    ax = figures.axes_or_new(ax)
    style = _shape_style(POSITIVE, filled=True)
    # Clouds (replicates, n, k) → the replicates of one object after the other.
    for cloud in np.moveaxis(bootstrap.clouds, 1, 0):
        draw_ellipse(ax, _on_axes(cloud, pair), style)
    return plot_coordinates(embedding, axes=axes, names=names, ax=ax)


def default_axes(embedding: Embedding) -> list[tuple[int, int]]:
    """Return pairs of axes to plot: the first two and, if another pair, the first of each sign."""
    pairs = [(1, 2)]
    if all(embedding.signature):
        signs = to_numpy(embedding.signs)
        mixed = (int(np.argmax(signs)) + 1, int(np.argmin(signs)) + 1)
        if set(mixed) != {1, 2}:
            pairs.append(mixed)
    return pairs


def axis_label(embedding: Embedding, axis: int) -> str:
    """Name an axis, counted from 1, with its sign if negative and its share of the trace.

    The axis of heights is called by its name alone.
    """
    kind = "axis "
    if embedding.method == "classical":
        kind = "PCoA"
    if embedding.loss == "ordinal":
        kind = "NMDS"
    sign = to_numpy(embedding.signs)[axis - 1]
    if sign > 0:
        label = f"{kind}{axis}"
    elif sign < 0:
        label = f"{kind}{axis}, negative"
    else:
        label = embedding.axis_names[axis - 1]
    if "trace" in embedding.shares:
        share = f"{100 * embedding.shares['trace'][axis - 1]:.1f} %"
        label += f" ({figures.with_minus(share)})"
    return label


def drawn_fits(
    fit: EnvFit, variables: Sequence[str] | None, p_max: float
) -> list[VariableFit]:
    """Return the variables to draw; parameters are those of `plot_coordinates`."""
    names = [each.name for each in fit.fits]
    chosen = list(variables or names)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InputError(
            f"{option('variables')}: {unknown[0]!r} was not fitted; there are {examples(names)}."
        )
    # Without permutations p is NaN.
    return [
        each for each in fit.fits if each.name in chosen and not each.p > p_max
    ]


def two_axes(axes: Sequence[int], k: int) -> tuple[int, int]:
    """Return axes, which must be two different ones of 1 … k, or 1 and 2 if k is 0 or 1."""
    pair = axis_numbers(axes, max(k, 2))
    if len(pair) != 2:
        raise InputError(
            f"{option('axes', pair)} must be two different axes, as in (1, 2)."
        )
    return pair[0], pair[1]


def check_plane(k: int) -> None:
    """Refuse arrows of fewer than two coordinates."""
    if k < 2:
        raise InputError(
            f"{option('arrows')} need two coordinates instead of {k}; leave them out, or call "
            "neucmds.ecology.envfit for the numbers."
        )


def _set_aspect(ax: Axes) -> bool:
    """Draw both axes on the same scale if they stay readable, and tell whether they do."""
    width = ax.dataLim.width
    height = ax.dataLim.height
    # Beyond 5 : 1 the short axis, often a negative one, would be a line. Points on a line have no
    # short axis to read.
    is_readable = min(width, height) <= 0 or 0.2 < height / width < 5
    if is_readable:
        ax.set_aspect("equal", adjustable="datalim")
    return is_readable


def _point_style(n: int) -> dict[str, Any]:
    """Return options of `scatter`: the more points, the smaller."""
    return {
        "s": float(np.clip(2_000 / n, 3, 20)),
        "alpha": 0.8,
        "linewidths": 0.0,
        "zorder": 3,
        # Thousands of points as shapes make a pdf or svg of megabytes.
        "rasterized": n > 1000,
    }


def _draw_colours(
    ax: Axes, points: Floats, colours: Colours, title: str
) -> None:
    """Draw the points, those without a value in grey, with a colour bar or a legend."""
    style = _point_style(len(points))
    known = colours.known
    if not known.all():
        ax.scatter(*points[~known].T, color="#BBBBBB", **style)
    if colours.numbers is not None:
        style["c"] = colours.numbers[known]
        dots = ax.scatter(*points[known].T, **style)
        bar: Any = ax.figure.colorbar(dots, ax=ax, pad=0.02, aspect=30)
        bar.set_label(printable(title), parse_math=False)
        bar.solids.set_alpha(1.0)
        if figures.is_ours(ax):
            bar.ax.tick_params(labelsize=TEXT)
            bar.ax.yaxis.label.set_fontsize(TEXT)
        return
    handles = []
    for group in range(len(colours.groups)):
        colour, marker = colour_and_marker(group)
        members = points[colours.codes == group]
        handles.append(
            ax.scatter(*members.T, color=colour, marker=marker, **style)
        )
    figures.legend_of_groups(ax, handles, colours.groups, title)


def _shape_style(colour: str, filled: bool) -> dict[str, Any]:
    """Return options of ellipses and hulls."""
    from matplotlib.colors import to_rgba

    inside: Any = "none"
    if filled:
        inside = to_rgba(colour, 0.12)
    return {"edgecolor": colour, "facecolor": inside, "linewidth": 0.8}


def draw_ellipse(
    ax: Axes,
    points: Floats,
    style: dict[str, Any],
    conf: float = 0.95,
    *,
    of_mean: bool = False,
) -> None:
    """Draw the ellipse of a normal distribution fitted to points (m, 2), unless they are on a line.

    With `of_mean` it is the confidence region of their mean.
    """
    from matplotlib.patches import Ellipse

    if _are_on_line(points):
        return
    variances, directions = np.linalg.eigh(np.cov(points.T))
    if of_mean:
        variances = variances / len(points)
    # The χ² distribution of two degrees of freedom has its quantiles in closed form.
    radius = math.sqrt(-2 * math.log(1 - conf))
    width, height = 2 * radius * np.sqrt(variances)
    angle = math.degrees(math.atan2(directions[1, 0], directions[0, 0]))
    centre = points.mean(axis=0)
    ax.add_patch(Ellipse(centre, width, height, angle=angle, **style))


def _draw_hull(ax: Axes, points: Floats, style: dict[str, Any]) -> None:
    """Draw the convex hull of points, unless they are on a line."""
    from matplotlib.patches import Polygon
    from scipy.spatial import ConvexHull

    if _are_on_line(points):
        return
    # Qhull's tolerance grows with the distance from the origin.
    hull = ConvexHull(points - points[0])
    ax.add_patch(Polygon(points[hull.vertices], **style))


def _are_on_line(points: Floats) -> bool:
    """Tell whether points (m, 2) are on a line, as fewer than three always are."""
    if len(points) < 3:
        return True
    # Differences of near points are exact, means are not.
    variances = np.linalg.eigvalsh(np.cov((points - points[0]).T))
    # On a line the smaller variance is zero up to rounding.
    return bool(variances[0] <= 1e-12 * variances[1])


def _draw_spider(ax: Axes, points: Floats, colour: str) -> None:
    """Draw a line from the mean of points to each of them."""
    from matplotlib.collections import LineCollection

    middle = points.mean(axis=0)
    lines = [(middle, point) for point in points]
    ax.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.6, zorder=2)
    )


def _centroids(fits: Sequence[VariableFit]) -> dict[str, Floats]:
    """Return the centroid of each class of the categorical variables, by variable and class."""
    centroids: dict[str, Floats] = {}
    # Continuous variables have no levels.
    for fit in fits:
        names = [f"{fit.name} {level}" for level in fit.levels]
        centroids |= dict(zip(names, fit.centroids, strict=True))
    return centroids


def _draw_arrows(
    ax: Axes,
    fitted_axes: tuple[int, ...],
    fits: Sequence[VariableFit],
    pair: tuple[int, int],
    points: Floats,
) -> dict[str, Floats]:
    """Draw an arrow per continuous variable, and return the tip of each by name."""
    if fitted_axes != pair:
        raise InputError(
            f"{option('arrows')} were fitted to axes {fitted_axes}, but axes {pair} are drawn; "
            "pass axes to envfit."
        )
    vectors = [fit for fit in fits if fit.kind == "vector" and fit.r2 > 0]
    if not vectors:
        return {}
    tips = np.array(
        [vector.direction * math.sqrt(vector.r2) for vector in vectors]
    )
    # As in vegan, no arrow goes beyond three quarters of the extent of the points, in x or in y.
    extent = np.abs(points).max(axis=0)
    arrow_extent = np.abs(tips).max(axis=0).clip(1e-12)
    tips *= 0.75 * float(np.min(extent / arrow_extent))
    style = {
        "arrowstyle": "-|>",
        "color": "black",
        "linewidth": 0.8,
        "mutation_scale": TEXT,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    for tip in tips:
        ax.annotate("", tip, (0.0, 0.0), arrowprops=style, zorder=5)
    # Beyond each tip there is space for the name.
    ax.update_datalim(1.2 * tips)
    ax.autoscale_view()
    return {
        vector.name: tip for vector, tip in zip(vectors, tips, strict=True)
    }


def _object_names(names: Any, embedding: Embedding) -> Sequence[str]:
    """Return the name to write for each object, empty for none."""
    if names is None:
        names = embedding.labels is not None and embedding.n <= MOST_NAMED
    if names is True:
        return embedding.labels or [str(i) for i in range(embedding.n)]
    if names is False:
        return [""] * embedding.n
    if len(names) != embedding.n:
        raise InputError(
            f"{option('names')} has {len(names)} entries for {embedding.n} objects."
        )
    return [str(name) for name in names]
