"""Pictures of results: functions that take them and return matplotlib Axes.

Figures are made without pyplot, so nothing global is set and no window opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import to_numpy
from neucmds.api import StressCurves
from neucmds.embedding import Embedding
from neucmds.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "axis_names",
    "plot_coordinates",
    "plot_curve",
    "plot_shepard",
    "plot_spectrum",
]

# Okabe and Ito's colours, told apart by all common kinds of colour vision.
POSITIVE, NEGATIVE, GUIDE = "#0072B2", "#D55E00", "#555555"
METHOD_STYLES: dict[str, tuple[str, str]] = {
    "classical": ("#555555", "o"),
    "lower": ("#E69F00", "s"),
    "neuc": ("#56B4E9", "^"),
    "neuc+": ("#0072B2", "v"),
    "exact": ("#009E73", "D"),
    "refined": ("#CC79A7", "P"),
}
# Okabe and Ito's without the pale yellow, and three of Tol's; markers tell apart what is alike.
GROUP_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#000000",
    "#882255",
    "#999933",
    "#332288",
)
GROUP_MARKERS = "os^Dv<>PX*"
MAX_GROUPS = 20
MAX_PAIRS = 20_000


def plot_spectrum(
    eigenvalues: npt.ArrayLike,
    kept: npt.ArrayLike = (),
    *,
    complete: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw every eigenvalue of B by its rank among those of its sign, negative ones below zero.

    Parameters
    ----------
    eigenvalues : array-like of shape (m,)
        In any order; those that are zero up to rounding are left out.
    kept : array-like of shape (k,)
        Those that an embedding keeps; they are drawn larger and filled.
    complete : bool
        Whether these are all eigenvalues, or only the largest of either sign.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from neucmds.plots import plot_spectrum
    >>> plot_spectrum([3.0, 1.0, -2.0], kept=[3.0, -2.0]).get_title(loc="left")
    'Spectrum: 2 positive, 1 negative eigenvalues'
    """
    ax = _axes(ax)
    lam = np.asarray(eigenvalues, dtype=np.float64).ravel()
    lam = lam[np.argsort(-np.abs(lam), kind="stable")]
    is_kept = _matched(lam, np.asarray(kept, dtype=np.float64).ravel())
    seen = np.abs(lam) > 1e-12 * np.abs(lam).max(initial=0.0)
    for sign, colour, name in ((1, POSITIVE, "positive"), (-1, NEGATIVE, "negative")):
        here = seen & (np.sign(lam) == sign)
        rank = np.cumsum(here)
        for chosen in (True, False):
            some = here & (is_kept == chosen)
            what = ("kept" if chosen else "dropped") if is_kept.any() else "eigenvalues"
            if not some.any():
                continue
            ax.scatter(
                rank[some],
                lam[some],
                s=44 if chosen else 9,
                marker="o" if sign > 0 else "v",
                facecolors=colour if chosen else "none",
                edgecolors="black" if chosen else colour,
                linewidths=0.7,
                zorder=4 if chosen else 3,
                label=f"{name}, {what} ({int(some.sum())})",
            )
    _signed_log_scale(ax, lam[seen])
    if lam.size > 60:
        ax.set_xscale("log")
        _plain_ticks(ax, range(1, lam.size))
    ax.set_xlabel("rank among the eigenvalues of the same sign")
    ax.set_ylabel("eigenvalue of B")
    positive, negative = int((lam[seen] > 0).sum()), int((lam[seen] < 0).sum())
    which = "" if complete else ", the largest known"
    title = f"Spectrum: {positive} positive, {negative} negative eigenvalues{which}"
    ax.set_title(title, loc="left")
    _legend_below(ax, 2)
    return ax


def plot_curve(curves: StressCurves, *, ax: Axes | None = None) -> Axes:
    """Draw STRESS, as a share of ‖D‖², against k for every method, both on log scales.

    Parameters
    ----------
    curves : StressCurves
        As `neucmds.curve` returns it.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import curve
    >>> from neucmds.plots import plot_curve
    >>> x = np.random.default_rng(0).uniform(size=(12, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> len(plot_curve(curve(D, methods=["classical", "neuc"])).lines)
    2

    Paper: fig:dim-paradox.
    """
    ax = _axes(ax)
    for method in curves.stress:
        colour, marker = METHOD_STYLES.get(method, (GUIDE, "."))
        values = np.array(curves.normalized(method))
        # Rounding of a perfect fit: a log scale has no place for it.
        values = np.where(values > 1e-28, values, np.nan)
        ax.plot(
            curves.ks,
            values,
            color=colour,
            marker=marker,
            markersize=4.5,
            linewidth=1.5,
            label=method,
        )
    # A log scale has no place for curves that are zero throughout: perfect fits.
    if any(np.isfinite(line.get_ydata()).any() for line in ax.lines):
        ax.set_yscale("log")
    if len(curves.ks) > 1:
        ax.set_xscale("log")
        _plain_ticks(ax, curves.ks)
    ax.set_xlabel("number of coordinates k")
    ax.set_ylabel("STRESS / ‖D‖²")
    ax.set_title("STRESS against k", loc="left")
    _legend_below(ax, 6)
    return ax


def plot_coordinates(
    embedding: Embedding,
    labels: Sequence[object] | None = None,
    *,
    axes: tuple[int, int] = (0, 1),
    title: str = "label",
    ax: Axes | None = None,
) -> Axes:
    """Draw two coordinates, the first by default, with their signs in the axis labels.

    Parameters
    ----------
    embedding : Embedding
    labels : sequence, optional
        A group, or a number, for each object, which gives it its colour.
    axes : (int, int)
        Which coordinates.
    title : str
        What the labels are.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.plots import plot_coordinates
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> plot_coordinates(neuc_mds(D, 2), ["a", "b", "b"]).get_ylabel()
    'axis2_neg'
    """
    ax = _axes(ax)
    x = to_numpy(embedding.coordinates)
    names = axis_names(embedding)
    # A coordinate that is not there is drawn as zero.
    columns = [x[:, a] if a < embedding.k else np.zeros(embedding.n) for a in axes]
    shown = [names[a] if a < embedding.k else "" for a in axes]
    ax.set_xlabel(shown[0])
    ax.set_ylabel(shown[1])
    size = float(np.clip(20_000 / embedding.n, 11, 40))
    _scatter_groups(ax, columns[0], columns[1], labels, size, title)
    ax.set_aspect("equal", adjustable="datalim")
    positive, negative = embedding.signature
    ax.set_title(f"{embedding.method}: {positive} coordinates (+), {negative} (−)", loc="left")
    return ax


def plot_shepard(
    sq_dissimilarity: Any,
    embedding: Embedding,
    *,
    max_pairs: int = MAX_PAIRS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw D̂ against D for the pairs of objects, squared scale, with the line where they agree.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
    embedding : Embedding
    max_pairs : int
        With more pairs than this, so many are drawn at random.
    random_state : int
        Which ones.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.plots import plot_shepard
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> plot_shepard(D**2, neuc_mds(D, 2)).get_xlabel()
    'D, the input (squared scale)'
    """
    ax = _axes(ax)
    n = embedding.n
    n_pairs = n * (n - 1) // 2
    i, j = _pairs(n, max_pairs, np.random.default_rng(random_state))
    d = to_numpy(sq_dissimilarity[i, j]).astype(np.float64)
    gap = to_numpy(embedding.coordinates)[i] - to_numpy(embedding.coordinates)[j]
    d_hat = (gap * gap) @ to_numpy(embedding.signs)
    negative = d_hat < 0
    alpha = float(np.clip(1500 / i.size, 0.07, 0.6))
    common: dict[str, Any] = {"s": 9, "linewidths": 0, "alpha": alpha, "rasterized": True}
    ax.scatter(d[~negative], d_hat[~negative], color=POSITIVE, label="D̂ ≥ 0", **common)
    if negative.any():
        ax.scatter(d[negative], d_hat[negative], color=NEGATIVE, label="D̂ < 0", **common)
    low, high = float(min(d.min(), 0.0)), float(d.max())
    ax.plot([low, high], [low, high], color="black", linewidth=1.2, label="D̂ = D")
    ax.axhline(0.0, color=GUIDE, linewidth=0.6)
    ax.set_xlabel("D, the input (squared scale)")
    ax.set_ylabel("D̂, the embedding")
    drawn = f"{i.size:,} of {n_pairs:,} pairs" if i.size < n_pairs else f"{n_pairs:,} pairs"
    ax.set_title(f"Shepard plot, {embedding.method}, k = {embedding.k} ({drawn})", loc="left")
    legend = _legend_below(ax, 3)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
            if hasattr(handle, "set_sizes"):
                handle.set_sizes([30])
    return ax


def axis_names(embedding: Embedding) -> list[str]:
    """Name the coordinates; negative ones end in ``_neg``, a name that R keeps as it is.

    Parameters
    ----------
    embedding : Embedding

    Returns
    -------
    list of str

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.plots import axis_names
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> axis_names(neuc_mds(D, 2))
    ['axis1', 'axis2_neg']
    """
    signs = to_numpy(embedding.signs)
    return [f"axis{a}{'_neg' if sign < 0 else ''}" for a, sign in enumerate(signs, 1)]


def _literal(text: str) -> str:
    """Keep matplotlib from reading mathematics, hidden names or control characters in a label."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    # A leading underscore would leave the entry out of the legend.
    return ("\u200b" if shown.startswith("_") else "") + shown.replace("$", r"\$")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            'plots need matplotlib, which is not installed: pip install "neucmds[cli]".'
        ) from error
    figure = Figure(figsize=(7.2, 5.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def _legend(ax: Axes, place: str, **options: Any) -> Any:
    """Put the legend outside the data; in a caller's own figure, where matplotlib finds room."""
    figure: Any = ax.figure
    if not ax.get_legend_handles_labels()[1]:
        return None
    if getattr(figure, "get_layout_engine", lambda: None)() is None:
        return ax.legend(title=options.get("title"))
    return figure.legend(loc=place, frameon=False, **options)


def _legend_below(ax: Axes, columns: int) -> Any:
    return _legend(ax, "outside lower center", ncols=columns)


def _signed_log_scale(ax: Axes, values: npt.NDArray[np.float64]) -> None:
    """Scale y logarithmically away from zero; in four decades at the most, and evenly nearer."""
    from matplotlib.ticker import SymmetricalLogLocator

    size = np.abs(values)
    if not size.size or size.max() < 100 * size.min():
        ax.axhline(0.0, color=GUIDE, linewidth=0.8)
        return
    threshold = 10.0 ** np.floor(np.log10(max(size.min(), 1e-4 * size.max())))
    ax.set_yscale("symlog", linthresh=threshold, linscale=0.4)
    ax.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=threshold))
    ax.axhline(0.0, color=GUIDE, linewidth=0.8)


def _plain_ticks(ax: Axes, ks: Sequence[int]) -> None:
    """Label a log axis with whole numbers."""
    from matplotlib.ticker import FixedLocator, NullFormatter, ScalarFormatter

    low, high = min(ks), max(ks)
    ticks = [b * 10**e for e in range(9) for b in (1, 2, 5) if low <= b * 10**e <= high]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())


def _matched(
    values: npt.NDArray[np.float64], kept: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Mark in `values` as many of each as there are in `kept`: ties are counted, not all taken."""
    mark = np.zeros(values.size, dtype=bool)
    tolerance = 1e-9 * float(np.abs(values).max(initial=0.0))
    order, at = np.argsort(values), 0
    for target in np.sort(kept):
        while at < values.size and values[order[at]] < target - tolerance:
            at += 1
        if at < values.size and abs(values[order[at]] - target) <= tolerance:
            mark[order[at]] = True
            at += 1
    return mark


def _pairs(
    n: int, max_pairs: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All pairs i < j, or as many random ones as allowed."""
    if n * (n - 1) // 2 <= max_pairs:
        return np.triu_indices(n, 1)
    i = rng.integers(0, n, size=max_pairs)
    j = rng.integers(0, n - 1, size=max_pairs)
    return i, j + (j >= i)


def _scatter_groups(
    ax: Axes,
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    labels: Sequence[object] | None,
    size: float,
    title: str,
) -> None:
    common: dict[str, Any] = {"s": size, "linewidths": 0, "alpha": 0.85}
    if labels is None:
        ax.scatter(x, y, color=POSITIVE, **common)
        return
    numbers = _as_numbers(labels)
    if numbers is not None:
        points = ax.scatter(x, y, c=numbers, cmap="viridis", **common)
        ax.figure.colorbar(points, ax=ax, label=_literal(title))
        return
    texts = np.array([str(label) for label in labels])
    names, counts = np.unique(texts, return_counts=True)
    if names.size > MAX_GROUPS:
        # The largest groups keep their names, the rest share one.
        large = names[np.argsort(-counts, kind="stable")[: MAX_GROUPS - 1]]
        texts = np.where(np.isin(texts, large), texts, "other")
        names = np.append(np.sort(large), "other")
    for g, name in enumerate(sorted(names, key=_natural)):
        of_group = texts == name
        colour = GROUP_COLOURS[g % len(GROUP_COLOURS)]
        marker = GROUP_MARKERS[(g + g // len(GROUP_COLOURS)) % len(GROUP_MARKERS)]
        ax.scatter(
            x[of_group], y[of_group], color=colour, marker=marker, label=_literal(name), **common
        )
    _legend(ax, "outside right upper", title=_literal(title), markerscale=max(1.0, 6 / size**0.5))


def _as_numbers(labels: Sequence[object]) -> npt.NDArray[np.float64] | None:
    """Labels as numbers if they are, and are too many to be groups."""
    try:
        numbers = np.array([float(str(label)) for label in labels])
    except ValueError:
        return None
    return numbers if np.unique(numbers).size > MAX_GROUPS else None


def _natural(name: str) -> tuple[int, float, str]:
    """Sort numbers by value, before text."""
    try:
        return 0, float(name), ""
    except ValueError:
        return 1, 0.0, str(name)
