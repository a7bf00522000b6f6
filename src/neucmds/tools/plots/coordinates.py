"""Objects on two axes, with groups, arrows and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import EnvFit, VariableFit, envfit
from neucmds.ecology.variables import checked_axes
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.explore import Bootstrap
from neucmds.tools.plots import figures
from neucmds.tools.plots.colours import Colours, as_colours
from neucmds.tools.plots.figures import (
    GUIDE,
    NEGATIVE,
    POSITIVE,
    Floats,
    printable,
)
from neucmds.tools.plots.names import boxes_of_points, write_name, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Objects that are named unasked.
MOST_NAMED = 60
# Largest p of a variable that is drawn strongly.
SIGNIFICANT = 0.05


def plot_coordinates(
    embedding: Embedding,
    color: Sequence[object] | npt.NDArray[Any] | None = None,
    *,
    axes: tuple[int, int] = (1, 2),
    names: bool | Sequence[str] | None = None,
    ellipses: bool | float = False,
    arrows: Any = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the objects on two of their axes.

    Parameters
    ----------
    embedding : Embedding
    color : sequence of length n, optional
        A category or a number for each object. Numbers get a colour bar, categories a legend;
        whole numbers with at most 20 different values count as categories. Objects without a value
        (None, NaN) are grey.
    axes : (int, int), default=(1, 2)
        Which axes, counted from 1. `default_axes` names the pairs worth a picture.
    names : bool or sequence of str, optional
        True writes as many labels as fit, False none; by default labels are written if all fit. Or
        other names, one per object.
    ellipses : bool or float, default=False
        Draw the ellipse that holds 95 % (or this share) of a normal distribution with the mean and
        the covariance of each category of at least three objects, as vegan's
        ``ordiellipse(kind="sd", conf=0.95)``.
    arrows : EnvFit, DataFrame or mapping, optional
        The result of `envfit` for these two axes, or variables to fit. Continuous variables are
        arrows of length √r², pale for p > 0.05; categorical variables with p ≤ 0.05 have a cross
        at the centroid of each class.
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
    pair = _two_axes(embedding, axes)
    ax = figures.axes_or_new(ax)
    points = _points(embedding, pair)
    size = float(np.clip(9_000 / embedding.n, 7, 42))
    _label_axes(ax, embedding, pair)
    notes = []
    groups = Colours()
    if color is None:
        ax.scatter(
            *points.T, color=POSITIVE, **_point_style(len(points), size)
        )
    else:
        groups = as_colours(color, embedding.n)
        missing = int((~groups.known).sum())
        if missing:
            notes.append(f"{missing:,} objects without a value in grey")
        _draw_colours(ax, points, groups, size, title)
    if ellipses:
        _draw_ellipses(ax, points, groups, ellipses)
    fit = _envfit(embedding, pair, arrows)
    ends = _draw_arrows(ax, fit, points)
    figures.set_title(ax, _title(embedding))
    if not _set_aspect(ax):
        notes.append("axes on different scales")
    taken = boxes_of_points(ax, points, size)
    taken = _name_variables(ax, fit, ends, size, taken)
    texts = _names(names, embedding)
    written, _ = write_names(ax, points, texts, size, taken, fontsize=7.5)
    wanted = np.count_nonzero(texts)
    if len(written) < wanted and names is None:
        for text in written:
            text.remove()
    elif len(written) < wanted:
        notes.append(f"{len(written):,} of {wanted:,} names fit")
    if notes:
        corner: dict[str, Any] = {
            "transform": ax.transAxes,
            "ha": "right",
            "va": "bottom",
        }
        ax.text(
            0.995,
            0.005,
            "; ".join(notes),
            fontsize=8,
            color=GUIDE,
            zorder=6,
            **corner,
        )
    return ax


def plot_bootstrap(
    bootstrap: Bootstrap,
    *,
    axes: tuple[int, int] = (1, 2),
    level: float = 0.95,
    names: bool | Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the objects on two of their axes, each with the ellipse of its replicates.

    Parameters
    ----------
    bootstrap : Bootstrap
        The result of `neucmds.bootstrap`.
    axes, names, ax
        As for `plot_coordinates`.
    level : float, default=0.95
        Share of a normal distribution with the mean and the covariance of the replicates.

    Returns
    -------
    Axes
    """
    embedding = bootstrap.embedding
    pair = np.array(_two_axes(embedding, axes)) - 1
    ax = figures.axes_or_new(ax)
    for cloud in np.moveaxis(bootstrap.clouds[:, :, pair], 1, 0):
        _draw_ellipse(ax, cloud, POSITIVE, level)
    return plot_coordinates(embedding, axes=axes, names=names, ax=ax)


def default_axes(embedding: Embedding) -> list[tuple[int, int]]:
    """Return pairs of axes to plot, counted from 1: the first two, and one of each sign."""
    pairs = [(1, 2)]
    positive, negative = embedding.signature
    if positive and negative:
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
    if "trace" in embedding.shares:
        return f"{label} ({figures.percent(embedding.shares['trace'][axis - 1])} of the trace)"
    lost = embedding.explained[axis - 1]
    if math.isnan(lost):
        return label
    return f"{label} (R² lost without it: {figures.with_minus(f'{lost:.3g}')})"


def normal_ellipse(points: Floats, level: float = 0.95) -> Floats | None:
    """Return the outline that holds a share of a normal distribution fitted to points (m, 2).

    None for less than three points, or points on a line.
    """
    if len(points) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov(points.T))
    if values[0] <= 1e-12 * values[1]:
        return None
    # The χ² distribution of two degrees of freedom has its quantiles in closed form.
    radius = math.sqrt(-2 * math.log1p(-level))
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    outline: Floats = (
        points.mean(axis=0) + radius * ((vectors * np.sqrt(values)) @ circle).T
    )
    return outline


def _two_axes(embedding: Embedding, axes: Sequence[int]) -> tuple[int, int]:
    # One axis alone is drawn as a line.
    pair = checked_axes(axes, max(embedding.k, 2))
    if len(pair) != 2:
        raise InputError(
            f"{option('axes', pair)} must be two different axes, as in (1, 2)."
        )
    return pair[0], pair[1]


def _points(embedding: Embedding, pair: tuple[int, int]) -> Floats:
    """Return two columns of the coordinates; the second of one axis alone is zero."""
    x = np.zeros((embedding.n, max(embedding.k, 2)))
    x[:, : embedding.k] = to_numpy(embedding.coordinates)
    return x[:, np.array(pair) - 1]


def _label_axes(ax: Axes, embedding: Embedding, pair: tuple[int, int]) -> None:
    signs = to_numpy(embedding.signs)
    for axis, drawn in zip(pair, (ax.xaxis, ax.yaxis), strict=True):
        if axis > embedding.k:
            drawn.set_ticks([])
            continue
        drawn.set_label_text(axis_label(embedding, axis))
        if signs[axis - 1] < 0:
            drawn.label.set_color(NEGATIVE)


def _title(embedding: Embedding) -> str:
    positive, negative = embedding.signature
    method = embedding.method
    if method == "refined":
        method += f" ({embedding.loss})"
    title = f"{method}, k = {embedding.k}: {positive} positive, {negative} negative"
    title += figures.curvature_note(embedding)
    if math.isnan(embedding.r2):
        return title
    title += ", R²"
    if embedding.k > 2:
        title += f" of all {embedding.k} axes"
    if embedding.landmarks is not None:
        title += " of the landmarks"
    return f"{title} {figures.with_minus(f'{embedding.r2:.3g}')}"


def _set_aspect(ax: Axes) -> bool:
    """Draw both axes on the same scale, and tell whether that leaves them readable."""
    width = ax.dataLim.width
    height = ax.dataLim.height
    # Beyond 5 : 1 the short axis, often a negative one, would be a line.
    readable = min(width, height) <= 0 or 0.2 < height / width < 5
    if readable:
        ax.set_aspect("equal", adjustable="datalim")
    return readable


def _point_style(n: int, size: float) -> dict[str, Any]:
    many = n > 1000
    return {
        "s": size,
        "alpha": 0.75 if many else 0.9,
        "linewidths": 0.0 if many else 0.4,
        "edgecolors": "white",
        "zorder": 3,
        # Thousands of points as shapes make a pdf or svg of megabytes.
        "rasterized": many,
    }


def _draw_colours(
    ax: Axes,
    points: Floats,
    colours: Colours,
    size: float,
    title: str,
) -> None:
    """Draw the points, those without a value in grey, with a colour bar or a legend."""
    style = _point_style(len(points), size)
    known = colours.known
    if not known.all():
        ax.scatter(
            *points[~known].T, color="#BBBBBB", **(style | {"zorder": 2})
        )
    if colours.numbers is not None:
        x, y = points[known].T
        drawn = ax.scatter(
            x,
            y,
            c=colours.numbers[known],
            cmap="viridis",
            **style,
        )
        bar: Any = ax.figure.colorbar(
            drawn,
            ax=ax,
            pad=0.02,
            aspect=30,
        )
        bar.set_label(printable(title), parse_math=False)
        bar.outline.set_visible(False)
        bar.solids.set_alpha(1.0)
        return
    handles = []
    for g in range(len(colours.groups)):
        colour, marker = colours.look(g)
        members = points[colours.codes == g]
        handles.append(
            ax.scatter(
                *members.T,
                color=colour,
                marker=marker,
                **style,
            )
        )
    legend = figures.place_legend(
        ax,
        "outside right upper",
        handles,
        colours.groups,
        title=printable(title) or None,
        markerscale=max(1.0, 6.5 / math.sqrt(size)),
        ncols=math.ceil(len(handles) / 18),
        columnspacing=1.0,
        handletextpad=0.3,
    )
    if figures.is_ours(ax):
        figure: Any = ax.figure
        width = legend.get_window_extent().width / figure.dpi
        figure.set_figwidth(figure.get_figwidth() + width)


def _draw_ellipses(
    ax: Axes,
    points: Floats,
    colours: Colours,
    ellipses: bool | float,
) -> None:
    if not colours.groups:
        raise InputError(
            f"{option('ellipses')} need categories; pass them as {option('color')}."
        )
    level = 0.95 if ellipses is True else ellipses
    for g in range(len(colours.groups)):
        _draw_ellipse(
            ax, points[colours.codes == g], colours.look(g)[0], level
        )


def _draw_ellipse(ax: Axes, points: Floats, colour: str, level: float) -> None:
    """Draw the ellipse of points that have one."""
    from matplotlib.patches import Polygon

    outline = normal_ellipse(points, level)
    if outline is not None:
        ax.add_patch(
            Polygon(
                outline,
                facecolor=colour,
                edgecolor="none",
                alpha=0.1,
                zorder=1.5,
            )
        )
        ax.plot(
            *outline.T,
            color=colour,
            linewidth=1.0,
            alpha=0.8,
            zorder=2,
        )


def _envfit(
    embedding: Embedding, pair: tuple[int, int], arrows: Any
) -> EnvFit:
    """Return the fit of the variables that are drawn: those with an r² above zero."""
    if arrows is None:
        return EnvFit(pair, (), 0)
    fit: EnvFit = arrows
    if not isinstance(arrows, EnvFit):
        fit = envfit(embedding, arrows, axes=pair, random_state=0)
    if fit.axes != pair:
        raise InputError(
            f"{option('arrows')} were fitted to axes {fit.axes}, but axes {pair} are drawn; "
            "pass axes to envfit."
        )
    return replace(
        fit, fits=tuple(variable for variable in fit.fits if variable.r2 > 0)
    )


def _draw_arrows(ax: Axes, fit: EnvFit, points: Floats) -> Floats:
    """Draw an arrow per continuous variable and crosses at centroids; return ends of arrows."""
    for factor in fit.factors:
        if factor.p <= SIGNIFICANT:
            x, y = factor.centroids.T
            ax.scatter(
                x,
                y,
                marker="+",
                color="black",
                s=60,
                zorder=5,
            )
    ends = np.array(
        [vector.direction * math.sqrt(vector.r2) for vector in fit.vectors]
    )
    if not ends.any():
        return ends
    # As vegan: the longest arrow reaches three quarters of the way to the border.
    reach = np.abs(points).max(axis=0)
    ends *= 0.75 * float(np.min(reach / np.abs(ends).max(axis=0).clip(1e-12)))
    for vector, end in zip(fit.vectors, ends, strict=True):
        style = {
            "arrowstyle": "-|>",
            "color": "black",
            "linewidth": 1.3,
            "shrinkA": 0,
            "shrinkB": 0,
            "mutation_scale": 11,
            "alpha": _strength(vector),
        }
        ax.annotate(
            "",
            xy=(end[0], end[1]),
            xytext=(0.0, 0.0),
            arrowprops=style,
            zorder=5,
        )
    ax.update_datalim(1.1 * ends)
    ax.autoscale_view()
    return ends


def _name_variables(
    ax: Axes,
    fit: EnvFit,
    ends: Floats,
    size: float,
    taken: Floats,
) -> Floats:
    """Name arrows beyond their ends, and centroids; return the boxes that are taken."""
    for vector, end in zip(fit.vectors, ends, strict=True):
        style = {
            "fontsize": 9,
            "fontweight": "bold",
            "alpha": _strength(vector),
        }
        text = write_name(ax, 1.08 * end, vector.name, **style)
        taken = np.vstack([taken, text.get_window_extent().extents])
    for factor in fit.factors:
        if factor.p <= SIGNIFICANT:
            names = [f"{factor.name} {level}" for level in factor.levels]
            style = {"fontsize": 8, "fontstyle": "italic"}
            _, taken = write_names(
                ax, factor.centroids, names, size, taken, **style
            )
    return taken


def _strength(variable: VariableFit) -> float:
    """Return the opacity of an arrow."""
    return 0.4 if variable.p > SIGNIFICANT else 1.0


def _names(names: Any, embedding: Embedding) -> Sequence[str]:
    """Return the name of each object; empty where there is none."""
    if names is True:
        return embedding.labels or [str(i) for i in range(embedding.n)]
    if (
        names is None
        and embedding.n <= MOST_NAMED
        and embedding.labels is not None
    ):
        return embedding.labels
    if names is None or names is False:
        return [""] * embedding.n
    if len(names) != embedding.n:
        raise InputError(
            f"{option('names')} has {len(names)} entries for {embedding.n} objects."
        )
    return [str(name) for name in names]
