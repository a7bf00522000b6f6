"""Eigenvalues of B, and STRESS against k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore import StressCurves
from neucmds.prepared import prepare
from neucmds.problem.components import Components
from neucmds.problem.dense import Dense
from neucmds.spectrum.solve import solve_for
from neucmds.spectrum.spectrum import Spectrum, full_spectrum
from neucmds.tools.plots import figures
from neucmds.tools.plots.figures import (
    GUIDE,
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
    Floats,
    Marks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All eigenvalues of 2,000 objects take 2 s on two cores, of 5,000 half a minute.
MOST_COMPLETE = 2_000


def plot_spectrum(
    D: Any,
    kept: Any = (),
    *,
    squared: bool = False,
    symmetrize: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw every eigenvalue of B by its rank among those of its sign, negative ones below zero.

    Parameters
    ----------
    D : array-like, path, Spectrum, …
        Whatever `neuc_mds` takes, or a spectrum; but a vector is taken as all eigenvalues, in any
        order. Of more than 2,000 objects only the largest eigenvalues are computed.
    kept : Embedding or array-like of shape (k,)
        Eigenvalues that an embedding keeps, or that "refined", which keeps none, starts from; they
        are drawn larger and filled.
    squared, symmetrize
        As in `neuc_mds`.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from neucmds.tools.plots import plot_spectrum
    >>> plot_spectrum([3.0, 1.0, -2.0], kept=[3.0, -2.0]).get_title(loc="left")
    'Spectrum: 2 positive, 1 negative eigenvalues'
    """
    lam, _, complete = _eigenvalues(D, squared, symmetrize)
    ax = figures.axes_or_new(ax)
    is_kept = mark_kept(lam, kept)
    seen = is_seen(lam)
    rank = ranks(lam)
    for part, name, colour, chosen in _parts(
        np.where(seen, lam, 0.0), is_kept
    ):
        style: dict[str, Any] = {
            "s": 14,
            "facecolors": "none",
            "edgecolors": colour,
            "zorder": 3,
        }
        if chosen:
            style = {
                "s": 44,
                "facecolors": colour,
                "edgecolors": "black",
                "zorder": 4,
            }
        role = kept_words(kept)[not chosen] if is_kept.any() else "eigenvalues"
        ax.scatter(
            rank[part],
            lam[part],
            marker={"positive": "o", "negative": "v"}[name],
            linewidths=0.7,
            label=f"{name}, {role} ({int(part.sum()):,})",
            **style,
        )
    _signed_log_scale(ax, lam[seen])
    if lam.size > 60:
        ax.set_xscale("log")
        _plain_ticks(ax)
    ax.set_xlabel("rank among the eigenvalues of the same sign")
    ax.set_ylabel("eigenvalue of B")
    positive = int((lam[seen] > 0).sum())
    negative = int((lam[seen] < 0).sum())
    title = (
        f"Spectrum: {positive:,} positive, {negative:,} negative eigenvalues"
    )
    if not complete:
        title += ", the largest of all"
    figures.set_title(ax, title)
    figures.legend_below(ax, 2)
    return ax


def plot_scree(
    D: Any,
    kept: Any = (),
    *,
    first: int = 12,
    squared: bool = False,
    symmetrize: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest eigenvalues, of either sign, as bars in percent of the trace of B.

    Parameters
    ----------
    D, kept, squared, symmetrize, ax
        As in `plot_spectrum`. Bars of eigenvalues that are not kept are pale.
    first : int, default=12
        Number of bars.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from neucmds.tools.plots import plot_scree
    >>> plot_scree([3.0, 1.0, -2.0], kept=[3.0, -2.0]).get_title(loc="left")
    'Scree plot'
    """
    lam, trace, complete = _eigenvalues(D, squared, symmetrize)
    if trace <= 0:
        raise InputError(
            f"a scree plot needs a positive trace of B, the sum of all eigenvalues; it is {trace}; "
            "use plot_spectrum."
        )
    ax = figures.axes_or_new(ax)
    is_kept = mark_kept(lam, kept)
    words = kept_words(kept)
    share = 100 * lam[:first] / trace
    rank = np.arange(1, share.size + 1)
    for part, name, colour, chosen in _parts(share, is_kept[:first]):
        style: dict[str, Any] = {"color": colour, "label": name}
        if is_kept.any():
            style["label"] += f", {words[not chosen]}"
            style["alpha"] = {True: 1.0, False: 0.35}[chosen]
        bars = ax.bar(
            rank[part],
            share[part],
            width=0.75,
            **style,
        )
        texts = [figures.percent(value / 100) for value in share[part]]
        ax.bar_label(bars, texts, fontsize=8, padding=2)
    ax.axhline(0.0, color=GUIDE, linewidth=0.8)
    ax.margins(y=0.1)
    ax.grid(False, axis="x")
    if share.size <= 20:
        ax.set_xticks(rank)
    ax.set_xlabel("eigenvalue, by magnitude")
    ax.set_ylabel("share of the trace of B in %")
    title = "Scree plot"
    if complete and lam.size > first:
        rest = figures.percent(1 - lam[:first].sum() / trace)
        title += f"; the other {lam.size - first:,} together {rest}"
    figures.set_title(ax, title)
    figures.legend_below(ax, 4)
    return ax


def plot_stress_curve(curves: StressCurves, *, ax: Axes | None = None) -> Axes:
    """Draw STRESS, as a share of ‖D‖², against k for every method, both on log scales.

    Parameters
    ----------
    curves : StressCurves
        As `neucmds.stress_curve` returns it.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import stress_curve
    >>> from neucmds.tools.plots import plot_stress_curve
    >>> x = np.random.default_rng(0).uniform(size=(12, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> len(plot_stress_curve(stress_curve(D, methods=["classical", "neuc"])).lines)
    2

    Paper: fig:dim-paradox.
    """
    ax = figures.axes_or_new(ax)
    for method in curves.stress:
        colour, marker = METHOD_STYLES.get(method, (GUIDE, "."))
        values = np.array(curves.normalized(method))
        # Rounding of a perfect fit: a log scale has no place for it.
        values[values < 1e-28] = np.nan
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markersize": 4.5,
        }
        ax.plot(curves.ks, values, linewidth=1.5, label=method, **style)
        if np.isfinite(values).any():
            ax.set_yscale("log")
    if len(curves.ks) > 1:
        ax.set_xscale("log")
        _plain_ticks(ax)
    ax.set_xlabel("number of coordinates k")
    ax.set_ylabel("STRESS / ‖D‖²")
    figures.set_title(ax, "STRESS against k")
    figures.legend_below(ax, 6)
    return ax


def by_magnitude(eigenvalues: Floats) -> Floats:
    """Sort eigenvalues, the largest first."""
    return eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")]


def is_seen(eigenvalues: Floats) -> Marks:
    """Tell which eigenvalues are not zero up to rounding."""
    size = np.abs(eigenvalues)
    return np.asarray(size > 1e-12 * size.max(initial=0.0))


def ranks(eigenvalues: Floats) -> Any:
    """Return the rank of each eigenvalue, by magnitude, among those of its sign."""
    positive = eigenvalues > 0
    return np.where(positive, np.cumsum(positive), np.cumsum(~positive))


def kept_words(kept: Any) -> tuple[str, str]:
    """Return what eigenvalues that are marked and others are called."""
    if isinstance(kept, Embedding) and kept.method == "refined":
        return "start of the fit", "other"
    return "kept", "dropped"


def mark_kept(values: Floats, kept: Any) -> Marks:
    """Mark the nearest of `values` for each that is kept; of ties as many as are kept."""
    if isinstance(kept, Embedding):
        kept = kept.info.eigenvalues
    targets = np.asarray(to_numpy(kept), dtype=np.float64).ravel()
    mark = np.zeros(values.size, dtype=bool)
    # Two solves agree to their tolerance, which is 1e-3 of ‖B‖ where "refined" starts.
    tolerance = 1e-3 * float(np.abs(values).max(initial=0.0))
    for target in by_magnitude(targets):
        gap = np.where(mark, np.inf, np.abs(values - target))
        if gap.min(initial=np.inf) <= tolerance:
            mark[gap.argmin()] = True
    return mark


def spectrum_of(problem: Dense) -> Spectrum:
    """Compute all eigenpairs, or of many objects the largest, to the digits of a picture."""
    if problem.n <= MOST_COMPLETE:
        return full_spectrum(problem.gram)
    return solve_for(
        problem.gram,
        Components(40),
        "exact",
        tol=1e-4,
        random_state=0,
    )


def _eigenvalues(
    D: Any, squared: bool, symmetrize: bool
) -> tuple[Floats, float, bool]:
    """Return eigenvalues of B by magnitude, its trace, and whether they are all."""
    if not isinstance(D, Spectrum) and _is_vector(D):
        values = np.asarray(to_numpy(D), dtype=np.float64)
        return by_magnitude(values), float(values.sum()), True
    if not isinstance(D, Spectrum):
        D = spectrum_of(prepare(D, squared=squared, symmetrize=symmetrize))
    return by_magnitude(D.values), D.trace, D.n_top == D.values.size


def _is_vector(D: Any) -> bool:
    if isinstance(D, (list, tuple)):
        return all(np.ndim(value) == 0 for value in D)
    return len(getattr(D, "shape", ())) == 1


def _parts(
    values: Floats, is_kept: Marks
) -> Iterator[tuple[Marks, str, str, bool]]:
    """Yield who is positive and kept, positive and dropped, and so on: name, colour, whether kept.

    Parts without members are left out.
    """
    for sign, colour, name in (
        (1, POSITIVE, "positive"),
        (-1, NEGATIVE, "negative"),
    ):
        for chosen in (True, False):
            part = (np.sign(values) == sign) & (is_kept == chosen)
            if part.any():
                yield part, name, colour, chosen


def _signed_log_scale(ax: Axes, values: Floats) -> None:
    """Scale y logarithmically away from zero; in four decades at the most, and evenly nearer."""
    ax.axhline(0.0, color=GUIDE, linewidth=0.8)
    smallest = np.abs(values).min(initial=np.inf)
    largest = np.abs(values).max(initial=0.0)
    if largest < 100 * smallest:
        return
    threshold = 10.0 ** np.floor(np.log10(max(smallest, 1e-4 * largest)))
    ax.set_yscale("symlog", linthresh=threshold, linscale=0.4)


def _plain_ticks(ax: Axes) -> None:
    """Label a log axis with whole numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
