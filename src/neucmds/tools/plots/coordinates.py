"""Objects on two axes, with groups, arrows and names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import EnvFit, envfit
from neucmds.ecology.variables import checked_axes
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.explore.resampling import Bootstrap
from neucmds.tools.plots import _figures as figures
from neucmds.tools.plots._figures import GUIDE, NEGATIVE, POSITIVE, Floats, Marks
from neucmds.tools.plots._names import write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without the pale yellow, and three of Tol's.
GROUP_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9",
    "#CC79A7", "#000000", "#882255", "#999933", "#332288",
)  # fmt: skip
# Markers, with areas that look equal.
GROUP_MARKERS = {
    "o": 1.0, "s": 0.85, "^": 1.1, "D": 0.7, "v": 1.1,
    "<": 1.1, ">": 1.1, "P": 1.2, "X": 1.2, "*": 1.9,
}  # fmt: skip
MISSING_COLOUR = "#BBBBBB"
MAX_GROUPS = 30
# So many different whole numbers at most are groups.
MAX_NUMBERED_GROUPS = 20
MOST_NAMED = 60
SIGNIFICANT = 0.05
_ARROW = {
    "arrowstyle": "-|>", "color": "black", "linewidth": 1.3,
    "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11,
}  # fmt: skip


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
    pair = _checked_axes(embedding, axes)
    ax = figures.axes_or_new(ax)
    x = to_numpy(embedding.coordinates).astype(np.float64)
    zeros = np.zeros(embedding.n)  # a second axis, if there is one alone
    points = np.stack([x[:, a - 1] if a <= embedding.k else zeros for a in pair], axis=1)
    size = float(np.clip(9_000 / max(embedding.n, 1), 7, 42))
    _label_axes(ax, embedding, pair)
    colours = as_colours(color, embedding.n)
    groups = _draw_points(ax, points, colours, size, title)
    if ellipses is not False:
        _draw_ellipses(ax, points, groups, 0.95 if ellipses is True else ellipses)
    tips = [] if arrows is None else _draw_arrows(ax, embedding, pair, arrows, points)
    positive, negative = embedding.signature
    signs = f"{positive} positive, {negative} negative"
    whose = f" of all {embedding.k} axes" if embedding.k > 2 else ""
    whose += "" if embedding.landmarks is None else " of the landmarks"
    r2 = "" if math.isnan(embedding.r2) else f", R²{whose} {embedding.r2:.3g}".replace("-", "−")
    method = embedding.method + (f" ({embedding.loss})" if embedding.method == "refined" else "")
    figures.set_title(ax, f"{method}, k = {embedding.k}: {signs}{figures.bend(embedding)}{r2}")
    notes = _set_aspect(ax)
    if colours is not None and not colours.known.all():
        notes.append(f"{int((~colours.known).sum()):,} objects without a value in grey")
    wanted = _as_names(names, embedding)
    notes += write_names(ax, points, wanted, size, all_or_none=names is None, tips=tips)
    if notes:
        style: dict[str, Any] = {"fontsize": 8, "color": GUIDE, "zorder": 6}
        place: dict[str, Any] = {"transform": ax.transAxes, "ha": "right", "va": "bottom"}
        ax.text(0.995, 0.005, "; ".join(notes), **place, **style)
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
    pair = [a - 1 for a in _checked_axes(embedding, axes)]
    if max(pair) >= embedding.k:
        raise InputError("one coordinate has no ellipses; see Bootstrap.spread.")
    ax = figures.axes_or_new(ax)
    for cloud in np.moveaxis(bootstrap.clouds[:, :, pair], 1, 0):
        _draw_ellipse(ax, cloud, POSITIVE, level)
    return plot_coordinates(embedding, axes=axes, names=names, ax=ax)


def default_axes(embedding: Embedding) -> tuple[tuple[int, int], ...]:
    """Return pairs of axes to plot, counted from 1: the first two, and one of each sign.

    Parameters
    ----------
    embedding : Embedding

    Returns
    -------
    tuple of (int, int)
    """
    signs = to_numpy(embedding.signs)
    pairs = [(1, 2)]
    if (signs > 0).any() and (signs < 0).any():
        mixed = (int(np.argmax(signs > 0)) + 1, int(np.argmax(signs < 0)) + 1)
        pairs += [mixed] if sorted(mixed) != [1, 2] else []
    return tuple(pairs)


def axis_label(embedding: Embedding, axis: int) -> str:
    """Label an axis with its number, its sign if negative, and its share or the R² lost without it.

    Shares are those of the trace in `Embedding.shares`; `Embedding.explained` is the R² lost.

    Parameters
    ----------
    embedding : Embedding
    axis : int

    Returns
    -------
    str
        Empty for an axis that the embedding does not have.
    """
    if axis > embedding.k:
        return ""
    negative = to_numpy(embedding.signs)[axis - 1] < 0
    label = f"axis {axis}" + (", negative" if negative else "")
    if "trace" in embedding.shares:
        return f"{label} ({figures.percent(embedding.shares['trace'][axis - 1])} of the trace)"
    lost = f"{embedding.explained[axis - 1]:.3g}".replace("-", "−")
    return label if lost == "nan" else f"{label} (R² lost without it: {lost})"


def normal_ellipse(points: Floats, level: float = 0.95) -> Floats | None:
    """Return the ellipse that holds a share of a normal distribution fitted to points.

    Parameters
    ----------
    points : ndarray of shape (m, 2)
    level : float
        The share.

    Returns
    -------
    ndarray of shape (100, 2) or None
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
    outline: Floats = points.mean(axis=0) + radius * ((vectors * np.sqrt(values)) @ circle).T
    return outline


def _set_aspect(ax: Axes) -> list[str]:
    """Draw both axes on the same scale, if that leaves them readable; else return a note."""
    width, height = ax.dataLim.width, ax.dataLim.height
    # Beyond 5 : 1 the short axis, often a negative one, would be a line.
    same = not (width > 0 and height > 0) or 0.2 < height / width < 5
    if same:
        ax.set_aspect("equal", adjustable="datalim")
    if figures.is_ours(ax) and same and width > 0 and height > 0:
        figure: Any = ax.figure
        # A flat plot must be as high as its label.
        label = ax.yaxis.label.get_window_extent().height / figure.dpi
        figure.set_figheight(float(np.clip(0.9 + 5.9 * height / width, max(3.6, label + 1.3), 6.6)))
        figures.settle(ax)  # else the first file cuts labels off
    return [] if same else ["axes on different scales"]


@dataclass(frozen=True)
class Colours:
    """Colours of the objects: numbers, or group names in their order; None for grey."""

    numbers: Floats | None = None
    groups: tuple[str | None, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def known(self) -> Marks:
        """Which objects have a value."""
        if self.numbers is not None:
            return np.isfinite(self.numbers)
        return np.array([group is not None for group in self.groups])


def as_colours(color: Any, n: int) -> Colours | None:
    """Return numbers or groups; beyond `MAX_GROUPS`, small groups are merged."""
    if color is None:
        return None
    values = list(to_numpy(color)) if hasattr(color, "dtype") else list(color)
    if len(values) != n:
        raise InputError(f"{option('color')} has {len(values)} entries for {n} objects.")
    missing = [_is_missing(value) for value in values]
    numbers = _as_numbers(values, missing)
    if numbers is not None:
        return Colours(numbers=numbers)
    texts = [None if gone else _group_name(v) for v, gone in zip(values, missing, strict=True)]
    known = [text for text in texts if text is not None]
    names, counts = np.unique(known, return_counts=True) if known else (np.array([]), np.array([]))
    if names.size <= MAX_GROUPS:
        return Colours(groups=tuple(texts), order=tuple(sorted(map(str, names), key=_natural)))
    # The largest groups keep their names, the rest share one.
    large = {str(name) for name in names[np.argsort(-counts, kind="stable")[: MAX_GROUPS - 1]]}
    other = f"other ({names.size - MAX_GROUPS + 1} groups)"
    texts = [text if text is None or text in large else other for text in texts]
    return Colours(groups=tuple(texts), order=(*sorted(large, key=_natural), other))


def _group_name(value: Any) -> str:
    """Write whole numbers as such: a legend says 3, not 3.0."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value
    return value is None or str(value) in ("nan", "NaT", "<NA>")


def _as_numbers(values: Sequence[Any], missing: Sequence[bool]) -> Floats | None:
    """Values as numbers if they are, and are fractions or too many to be groups."""
    try:
        numbers = np.array(
            [np.nan if gone else float(str(v)) for v, gone in zip(values, missing, strict=True)]
        )
    except ValueError:
        return None
    finite = numbers[np.isfinite(numbers)]
    whole = bool((finite == np.round(finite)).all())
    few = np.unique(finite).size <= MAX_NUMBERED_GROUPS
    return None if not finite.size or (whole and few) else numbers


def _natural(name: str) -> list[tuple[int, float, str]]:
    """Sort numbers by value, also within text: plot 9 before plot 10."""
    try:
        return [(0, float(name), "")]
    except ValueError:
        parts = re.split(r"(\d+(?:\.\d+)?)", name.casefold())
        return [(0, float(p), "") if p[:1].isdecimal() else (1, 0.0, p) for p in parts if p]


def _checked_axes(embedding: Embedding, axes: Sequence[int]) -> tuple[int, int]:
    # One axis alone is drawn as a line.
    pair = checked_axes(axes, max(embedding.k, 2))
    if len(pair) != 2:
        raise InputError(f"{option('axes', pair)} must be two different axes, as in (1, 2).")
    return pair[0], pair[1]


def _label_axes(ax: Axes, embedding: Embedding, pair: tuple[int, int]) -> None:
    signs = to_numpy(embedding.signs)
    for axis, drawn in zip(pair, (ax.xaxis, ax.yaxis), strict=True):
        negative = axis <= embedding.k and signs[axis - 1] < 0
        drawn.set_label_text(axis_label(embedding, axis), color=NEGATIVE if negative else "black")
    if max(pair) > embedding.k:
        ax.set_yticks([])


def _draw_points(
    ax: Axes, points: Floats, colours: Colours | None, size: float, title: str
) -> dict[str, tuple[Marks, str]]:
    """Draw all points; return the members and the colour of each group."""
    small = len(points) > 1000
    common: dict[str, Any] = {
        "s": size,
        "alpha": 0.75 if small else 0.9,
        "linewidths": 0.0 if small else 0.4,
        "edgecolors": "none" if small else "white",
        # Thousands of points as shapes make a pdf or svg of megabytes.
        "rasterized": len(points) > 2000,
        "zorder": 3,
    }
    if colours is None:
        ax.scatter(*points.T, color=POSITIVE, **common)
        return {}
    known = colours.known
    if not known.all():
        ax.scatter(*points[~known].T, color=MISSING_COLOUR, **(common | {"zorder": 2}))
    if colours.numbers is not None:
        x, y = points[known].T
        drawn = ax.scatter(x, y, c=colours.numbers[known], cmap="viridis", **common)
        bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, aspect=30)
        bar.set_label(figures.printable(title), parse_math=False)
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.solids.set_alpha(1.0)  # type: ignore[union-attr]
        return {}
    groups, handles = {}, []
    for g, name in enumerate(colours.order):
        members = np.array([group == name for group in colours.groups])
        colour = GROUP_COLOURS[g % len(GROUP_COLOURS)]
        marker = list(GROUP_MARKERS)[(g + g // len(GROUP_COLOURS)) % len(GROUP_MARKERS)]
        style = common | {"s": size * GROUP_MARKERS[marker]}
        drawn = ax.scatter(*points[members].T, color=colour, marker=marker, label=name, **style)
        handles.append(drawn)
        groups[name] = (members, colour)
    _group_legend(ax, handles, list(colours.order), size, title)
    return groups


def _group_legend(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], size: float, title: str
) -> None:
    """Put the legend to the right, and widen the figure by its width."""
    legend = figures.place_legend(
        ax,
        "outside right upper",
        handles,
        [name if len(name) <= 28 else f"{name[:27]}…" for name in names],
        title=figures.printable(title) or None,
        markerscale=max(1.0, 6.5 / size**0.5),
        ncols=1 if len(names) <= 18 else 2,
        columnspacing=1.0,
        handletextpad=0.3,
    )
    if legend is not None and figures.is_ours(ax):
        figure: Any = ax.figure
        width = legend.get_window_extent().width / figure.dpi
        figure.set_figwidth(figure.get_figwidth() + width)


def _draw_ellipses(
    ax: Axes, points: Floats, groups: Mapping[str, tuple[Marks, str]], level: float
) -> None:
    if not groups:
        raise InputError(f"{option('ellipses')} need categories; pass them as {option('color')}.")
    if not 0 < level < 1:
        raise InputError(f"{option('ellipses', level)} must be a share between 0 and 1.")
    for members, colour in groups.values():
        _draw_ellipse(ax, points[members], colour, level)


def _draw_ellipse(ax: Axes, points: Floats, colour: str, level: float) -> None:
    """Draw the ellipse of points that have one."""
    from matplotlib.patches import Polygon

    outline = normal_ellipse(points, level)
    if outline is not None:
        style: dict[str, Any] = {"facecolor": colour, "edgecolor": "none", "alpha": 0.10}
        ax.add_patch(Polygon(outline, zorder=1.5, **style))
        ax.plot(*outline.T, color=colour, linewidth=1.0, alpha=0.8, zorder=2)


def _draw_arrows(
    ax: Axes, embedding: Embedding, pair: tuple[int, int], arrows: Any, points: Floats
) -> list[tuple[Floats, str, bool | None]]:
    """Draw arrows and centroids; return their ends, names, and whether p is small."""
    fit = arrows
    if not isinstance(arrows, EnvFit):
        fit = envfit(embedding, arrows, axes=pair, random_state=0)
    if fit.axes != pair:
        raise InputError(
            f"{option('arrows')} were fitted to axes {fit.axes}, but axes {pair} are drawn; "
            "pass axes to envfit."
        )
    centroids: list[tuple[Floats, str, bool | None]] = []
    for factor in fit.factors:
        if factor.p <= SIGNIFICANT:
            x, y = factor.centroids.T
            ax.scatter(x, y, marker="+", color="black", s=60, zorder=5)
            names = [f"{factor.name} {level}" for level in factor.levels]
            centroids += zip(factor.centroids, names, [None] * len(names), strict=True)
    known = [vector for vector in fit.vectors if vector.r2 > 0]
    if not known:
        return centroids
    ends = np.stack([vector.direction * math.sqrt(vector.r2) for vector in known])
    # As vegan: the longest arrow reaches three quarters of the way to the border.
    reach = np.maximum(np.abs(points.max(axis=0)), np.abs(points.min(axis=0)))
    ends *= 0.75 * float(np.min(reach / np.abs(ends).max(axis=0).clip(1e-12)))
    tips: list[tuple[Floats, str, bool | None]] = []
    for vector, end in zip(known, ends, strict=True):
        certain = not vector.p > SIGNIFICANT
        style = _ARROW | {"alpha": 1.0 if certain else 0.35}
        ax.annotate("", xy=(end[0], end[1]), xytext=(0.0, 0.0), arrowprops=style, zorder=5)
        tips.append((end, vector.name, certain))
    ax.update_datalim(1.1 * ends)
    ax.autoscale_view()
    return tips + centroids


def _as_names(names: Any, embedding: Embedding) -> Sequence[str] | None:
    if names is False or (names is None and embedding.n > MOST_NAMED):
        return None
    if names is None or (names is True and embedding.labels is not None):
        return embedding.labels
    if names is True:
        return [str(i) for i in range(embedding.n)]
    if len(names) != embedding.n:
        raise InputError(f"{option('names')} has {len(names)} entries for {embedding.n} objects.")
    return [str(name) for name in names]
