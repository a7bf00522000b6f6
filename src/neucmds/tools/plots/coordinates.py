"""Objects on two axes, with groups, arrows and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import EnvFit
from neucmds.ecology.variables import checked_axes
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.explore import Bootstrap
from neucmds.problem.names import ordered_by_name
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
    Floats,
    printable,
)
from neucmds.tools.plots.names import write_name, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Up to this many objects are named by default.
MOST_NAMED = 60
# Largest p of a variable that is drawn in full, and share of points outside an ellipse.
SIGNIFICANT = 0.05


def plot_coordinates(
    embedding: Embedding,
    color: Sequence[object] | npt.NDArray[Any] | None = None,
    *,
    axes: tuple[int, int] = (1, 2),
    names: bool | Sequence[str] | None = None,
    ellipses: bool = False,
    arrows: EnvFit | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the objects on two of their axes.

    Of a directed embedding, each departure has an arrow to the arrival of the same object, short
    where the directions agree; arrivals of another set of objects are diamonds.

    Parameters
    ----------
    embedding : Embedding
    color : sequence of length n, optional
        A category or a number for each object. Numbers get a colour bar, categories a legend;
        whole numbers with at most 30 different values count as categories. Objects without a value
        (None, NaN) are grey.
    axes : (int, int), default=(1, 2)
        Which axes, counted from 1. `default_axes` names the pairs worth a picture.
    names : bool or sequence of str, optional
        True writes as many labels as fit, False none; by default labels of up to 60 objects are
        written. Or other names, one per object.
    ellipses : bool, default=False
        Draw the ellipse that holds 95 % of a normal distribution with the mean and the covariance
        of each category of at least three objects, as vegan's
        ``ordiellipse(kind="sd", conf=0.95)``.
    arrows : EnvFit, optional
        The result of `envfit` for these two axes. Continuous variables are arrows of length √r²,
        pale for p > 0.05; categorical variables with p ≤ 0.05 have a cross at the centroid of each
        class.
    title : str, optional
        Title of the colours.
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
    >>> ax = plot_coordinates(neuc_mds(D, 4), color=["a", "b"] * 6, title="side", ellipses=True)
    >>> [text.get_text() for text in ax.figure.legends[0].get_texts()]
    ['a', 'b']
    """
    pair = two_axes(axes, embedding.k)
    ax = figures.axes_or_new(ax)
    # An embedding of fewer than two coordinates is drawn at zero on the others.
    padded = np.pad(to_numpy(embedding.coordinates), ((0, 0), (0, 2)))
    points = padded[:, np.array(pair) - 1]
    for axis, drawn_axis in zip(pair, (ax.xaxis, ax.yaxis), strict=True):
        if axis > embedding.k:
            drawn_axis.set_ticks([])
        else:
            drawn_axis.set_label_text(axis_label(embedding, axis))
    notes = []
    colours = Colours()
    if color is None:
        ax.scatter(*points.T, color=POSITIVE, **_point_style(len(points)))
    else:
        color = ordered_by_name(
            color, embedding.labels, "rows of color", rows=True
        )
        colours = as_colours(color, embedding.n)
        missing = int((~colours.known).sum())
        if missing:
            notes.append(f"{missing:,} objects without a value in grey")
        _draw_colours(ax, points, colours, title)
    if ellipses:
        colours.check_groups()
        for group in range(len(colours.groups)):
            colour, _ = colour_and_marker(group)
            _draw_ellipse(ax, points[colours.codes == group], colour)
    if embedding.arrivals is not None:
        _draw_arrivals(ax, embedding, points, pair)
    centroids: dict[str, Any] = {}
    if arrows is not None:
        _draw_arrows(ax, arrows, pair, points)
        centroids = _centroids(arrows)
    figures.set_title(ax, _title(embedding))
    if not _set_aspect(ax):
        notes.append("axes on different scales")
    for point in centroids.values():
        ax.scatter(*point, marker="+", color="black", zorder=5)
    texts = [*centroids, *_names(names, embedding)]
    write_names(ax, np.array([*centroids.values(), *points]), texts)
    ax.annotate(
        "; ".join(notes),
        (0.995, 0.005),
        xycoords="axes fraction",
        ha="right",
        fontsize=8,
        color=GUIDE,
        zorder=6,
    )
    return ax


def _draw_arrivals(
    ax: Axes, embedding: Embedding, points: Any, pair: tuple[int, int]
) -> None:
    """Draw arrows from departures to arrivals, or the arrivals of other objects."""
    padded = np.pad(to_numpy(embedding.arrivals), ((0, 0), (0, 2)))
    arrivals = padded[:, np.array(pair) - 1]
    if embedding.arrival_labels is not None:
        ax.scatter(*arrivals.T, color=NEGATIVE, marker="D")
        texts = _names(None, embedding._targets)
        write_names(ax, arrivals, texts)
        return
    steps = arrivals - points
    ax.quiver(
        *points.T,
        *steps.T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        width=0.002,
        color=GUIDE,
        zorder=1,
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

    It holds 95 % of a normal distribution with the mean and the covariance of the replicates.

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
    pair = np.array(two_axes(axes, embedding.k)) - 1
    ax = figures.axes_or_new(ax)
    for cloud in np.moveaxis(bootstrap.clouds[:, :, pair], 1, 0):
        _draw_ellipse(ax, cloud, POSITIVE)
    return plot_coordinates(embedding, axes=axes, names=names, ax=ax)


def default_axes(embedding: Embedding) -> list[tuple[int, int]]:
    """Return pairs of axes to plot, counted from 1: the first two, and the first of each sign."""
    pairs = [(1, 2)]
    if all(embedding.signature):
        signs = to_numpy(embedding.signs)
        mixed = (int(np.argmax(signs)) + 1, int(np.argmin(signs)) + 1)
        if set(mixed) != {1, 2}:
            pairs.append(mixed)
    return pairs


def axis_label(embedding: Embedding, axis: int) -> str:
    """Label an axis with its number, its sign if negative, and its share or the R² lost without it.

    Shares are those of the trace in `Embedding.shares`; `Embedding.explained` is the R² lost.
    """
    label = f"axis {axis}"
    if to_numpy(embedding.signs)[axis - 1] < 0:
        label += ", negative"
    if axis == embedding.k and embedding.heights is not None:
        label = "height"
    if "trace" in embedding.shares:
        share = f"{100 * embedding.shares['trace'][axis - 1]:.1f} %"
        return f"{label} ({figures.with_minus(share)} of the trace)"
    lost = embedding.explained[axis - 1]
    if math.isnan(lost):
        return label
    return f"{label} (R² lost without it: {figures.with_minus(f'{lost:.3g}')})"


def two_axes(axes: Sequence[int], k: int) -> tuple[int, int]:
    """Check that axes are two different ones of k; one axis alone is drawn as a line."""
    pair = checked_axes(axes, max(k, 2))
    if len(pair) != 2:
        raise InputError(
            f"{option('axes', pair)} must be two different axes, as in (1, 2)."
        )
    return pair[0], pair[1]


def _title(embedding: Embedding) -> str:
    positive, negative = embedding.signature
    method = embedding.method
    if method == "refined":
        method += f" ({embedding.loss})"
    title = f"{method}, k = {embedding.k}: {positive} positive, {negative} negative"
    title += figures.curvature_note(embedding)
    if math.isnan(embedding.r2):
        return title
    return f"{title}, R² of all {figures.with_minus(f'{embedding.r2:.3g}')}"


def _set_aspect(ax: Axes) -> bool:
    """Draw both axes on the same scale if that leaves them readable, and tell whether it does."""
    width = ax.dataLim.width
    height = ax.dataLim.height
    # Beyond 5 : 1 the short axis, often a negative one, would be a line.
    readable = min(width, height) <= 0 or 0.2 < height / width < 5
    if readable:
        ax.set_aspect("equal", adjustable="datalim")
    return readable


def _point_style(n: int) -> dict[str, Any]:
    return {
        "s": float(np.clip(9_000 / n, 7, 42)),
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
        return
    handles = []
    for group in range(len(colours.groups)):
        colour, marker = colour_and_marker(group)
        members = points[colours.codes == group]
        handles.append(
            ax.scatter(*members.T, color=colour, marker=marker, **style)
        )
    legend = figures.place_legend(
        ax,
        "outside right upper",
        handles,
        colours.groups,
        title=printable(title),
        ncols=math.ceil(len(handles) / 18),
    )
    if figures.is_ours(ax):
        figure: Any = ax.figure
        width = legend.get_window_extent().width / figure.dpi
        figure.set_figwidth(figure.get_figwidth() + width)


def _draw_ellipse(ax: Axes, points: Floats, colour: str) -> None:
    """Draw the ellipse of a normal distribution fitted to points, unless they are on a line."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Ellipse

    if len(points) < 3:
        return
    values, vectors = np.linalg.eigh(np.cov(points.T))
    if values[0] <= 1e-12 * values[1]:
        return
    # The χ² distribution of two degrees of freedom has its quantiles in closed form.
    radius = math.sqrt(-2 * math.log(SIGNIFICANT))
    width, height = 2 * radius * np.sqrt(values)
    angle = math.degrees(math.atan2(vectors[1, 0], vectors[0, 0]))
    centre = points.mean(axis=0)
    style = {"edgecolor": colour, "facecolor": to_rgba(colour, 0.1)}
    ax.add_patch(Ellipse(centre, width, height, angle=angle, **style))


def _centroids(fit: EnvFit) -> dict[str, Floats]:
    """Return the centroid of each class of the significant variables, by name."""
    centroids: dict[str, Floats] = {}
    for factor in fit.factors:
        if factor.p <= SIGNIFICANT:
            names = [f"{factor.name} {level}" for level in factor.levels]
            centroids |= dict(zip(names, factor.centroids, strict=True))
    return centroids


def _draw_arrows(
    ax: Axes, fit: EnvFit, pair: tuple[int, int], points: Floats
) -> None:
    """Draw an arrow per continuous variable."""
    if fit.axes != pair:
        raise InputError(
            f"{option('arrows')} were fitted to axes {fit.axes}, but axes {pair} are drawn; "
            "pass axes to envfit."
        )
    vectors = [vector for vector in fit.vectors if vector.r2 > 0]
    if not vectors:
        return
    ends = np.array(
        [vector.direction * math.sqrt(vector.r2) for vector in vectors]
    )
    # As in vegan, the longest arrow reaches three quarters of the way to the border.
    border = np.abs(points).max(axis=0)
    longest = np.abs(ends).max(axis=0).clip(1e-12)
    ends *= 0.75 * float(np.min(border / longest))
    for vector, end in zip(vectors, ends, strict=True):
        alpha = 1.0
        if vector.p > SIGNIFICANT:
            alpha = 0.4
        style = {"arrowstyle": "-|>", "color": "black", "alpha": alpha}
        ax.annotate("", end, (0.0, 0.0), arrowprops=style, zorder=5)
        write_name(ax, 1.15 * end, vector.name, weight="bold", alpha=alpha)
    ax.update_datalim(1.2 * ends)
    ax.autoscale_view()


def _names(names: Any, embedding: Embedding) -> Sequence[str]:
    """Return the name of each object; empty where there is none."""
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
