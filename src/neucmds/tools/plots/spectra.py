"""Eigenvalues of B, and STRESS against k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neucmds.backend.arrays import Floats, Marks, to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore import StressCurves
from neucmds.explore.diagnosis import largest_eigenpairs
from neucmds.prepared import prepare
from neucmds.spectrum.spectrum import Spectrum
from neucmds.tools.plots import figures
from neucmds.tools.plots.figures import (
    GUIDE,
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_spectrum(
    D: Any,
    kept: Embedding | None = None,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Plot each eigenvalue of B against its rank by magnitude among those of its sign.

    Parameters
    ----------
    D : as for `neuc_mds`, or Spectrum
        With more than 2,000 objects only the largest eigenvalues are computed.
    kept : Embedding, optional
        Its kept eigenvalues are drawn larger and filled; for "refined", those that it started from.
    squared, symmetrize
        As in `neuc_mds`.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from neucmds.tools.plots import plot_spectrum
    >>> plot_spectrum([[0, 1, 1], [1, 0, 4], [1, 4, 0]]).get_ylabel()
    'eigenvalue of B'
    """
    spectrum = _spectrum(D, squared, symmetrize)
    lam = by_magnitude(spectrum.values)
    ax = figures.axes_or_new(ax)
    rank = ranks(lam)
    for part in _parts(lam, kept):
        style: dict[str, Any] = {"s": 14, "facecolors": "none"}
        if part.is_kept:
            style = {"s": 44, "facecolors": part.colour}
        count = int(part.members.sum())
        ax.scatter(
            rank[part.members],
            lam[part.members],
            edgecolors=part.colour,
            label=f"{part.label} ({count:,})",
            **style,
        )
    ax.axhline(0.0, color=GUIDE, linewidth=0.8)
    _symlog_y(ax, lam)
    # More than 60 points would overlap on a linear x axis.
    if lam.size > 60:
        _log_x(ax)
    ax.set_xlabel("rank among the eigenvalues of the same sign")
    label = "eigenvalue of B"
    if not spectrum.complete:
        label += " (only the largest)"
    ax.set_ylabel(label)
    figures.legend_below(ax, 2)
    return ax


def plot_scree(
    D: Any,
    kept: Embedding | None = None,
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
    >>> plot_scree([[0, 1, 1], [1, 0, 4], [1, 4, 0]]).get_ylabel()
    'share of the trace of B in %'
    """
    spectrum = _spectrum(D, squared, symmetrize)
    trace = spectrum.trace
    if trace <= 0:
        raise InputError(
            f"a scree plot needs a positive trace of B, the sum of all eigenvalues; it is {trace}; "
            "use plot_spectrum."
        )
    ax = figures.axes_or_new(ax)
    lam = by_magnitude(spectrum.values)
    share = 100 * lam / trace
    position = np.arange(1, lam.size + 1)
    for part in _parts(lam, kept):
        shown = part.members & (position <= first)
        alpha = 1.0
        if kept is not None and not part.is_kept:
            alpha = 0.35
        bars = ax.bar(
            position[shown],
            share[shown],
            color=part.colour,
            label=part.label,
            alpha=alpha,
        )
        texts = [
            figures.with_minus(f"{value:.1f} %") for value in share[shown]
        ]
        ax.bar_label(bars, texts, fontsize=8, padding=2)
    ax.axhline(0.0, color=GUIDE, linewidth=0.8)
    ax.margins(y=0.1)
    ax.set_xlabel("eigenvalue, by magnitude")
    ax.set_ylabel("share of the trace of B in %")
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
        # A fit that is perfect up to rounding has no place on a log scale.
        values[values < 1e-28] = np.nan
        ax.plot(
            curves.ks,
            values,
            color=colour,
            marker=marker,
            markersize=4.5,
            linewidth=1.5,
            label=method,
        )
        # An axis without a point stays linear.
        if np.isfinite(values).any():
            ax.set_yscale("log")
    if len(curves.ks) > 1:
        _log_x(ax)
    ax.set_xlabel("number of coordinates k")
    ax.set_ylabel("STRESS / ‖D‖²")
    figures.legend_below(ax, 6)
    return ax


def by_magnitude(eigenvalues: Floats) -> Any:
    """Sort eigenvalues by |λ|, the largest first, without those that are zero up to rounding."""
    magnitudes = np.abs(eigenvalues)
    rounding = 1e-12 * magnitudes.max(initial=0.0)
    nonzero = eigenvalues[magnitudes > rounding]
    order = np.argsort(-np.abs(nonzero), kind="stable")
    return nonzero[order]


def ranks(eigenvalues: Floats) -> Any:
    """Return the rank, from 1 on, of each eigenvalue among those of its sign.

    They come sorted by magnitude.
    """
    positive = eigenvalues > 0
    return np.where(positive, np.cumsum(positive), np.cumsum(~positive))


def kept_words(embedding: Embedding) -> tuple[str, str]:
    """Return words for the eigenvalues that `mark_kept` marks, and for the others."""
    if embedding.method == "refined":
        return "start of the fit", "other"
    return "kept", "dropped"


def mark_kept(values: Floats, embedding: Embedding) -> Marks:
    """Tell which of `values` are eigenvalues that the embedding keeps.

    For each eigenvalue kept, the nearest of `values` that has no mark yet is marked.
    """
    kept_eigenvalues = to_numpy(embedding.info.eigenvalues)
    marked = np.zeros(values.size, dtype=bool)
    # The eigenpairs that "refined" starts from have residuals up to 1e-3 of the largest |λ|.
    tolerance = 1e-3 * float(np.abs(values).max(initial=0.0))
    for eigenvalue in by_magnitude(kept_eigenvalues):
        differences = np.where(marked, np.inf, np.abs(values - eigenvalue))
        if differences.min(initial=np.inf) <= tolerance:
            marked[differences.argmin()] = True
    return marked


def _spectrum(D: Any, squared: bool, symmetrize: bool) -> Spectrum:
    """Return D if it is a Spectrum, or else compute that of D."""
    if isinstance(D, Spectrum):
        return D
    problem = prepare(D, squared=squared, symmetrize=symmetrize)
    return largest_eigenpairs(problem.gram)


class _Part(NamedTuple):
    """Eigenvalues that are drawn alike: of one sign, and either all kept or all not."""

    members: Marks
    colour: str
    label: str
    is_kept: bool


def _parts(values: Floats, embedding: Embedding | None) -> list[_Part]:
    """Split eigenvalues by sign, and into those kept and the others, without empty parts.

    Without an embedding, none is kept.
    """
    is_kept = np.zeros(values.size, dtype=bool)
    kept_word = ""
    other_word = "eigenvalues"
    if embedding is not None:
        is_kept = mark_kept(values, embedding)
        kept_word, other_word = kept_words(embedding)
    positive = values > 0
    parts = (
        _Part(positive & is_kept, POSITIVE, f"positive, {kept_word}", True),
        _Part(positive & ~is_kept, POSITIVE, f"positive, {other_word}", False),
        _Part(~positive & is_kept, NEGATIVE, f"negative, {kept_word}", True),
        _Part(
            ~positive & ~is_kept, NEGATIVE, f"negative, {other_word}", False
        ),
    )
    return [part for part in parts if part.members.any()]


def _symlog_y(ax: Axes, values: Floats) -> None:
    """Scale y logarithmically over at most four decades, and linearly around zero.

    Values within two decades stay on a linear scale.
    """
    magnitudes = np.abs(values)
    largest = magnitudes.max(initial=0.0)
    smallest = magnitudes.min(initial=np.inf)
    if largest > 100 * smallest:
        threshold = max(smallest, 1e-4 * largest)
        ax.set_yscale("symlog", linthresh=threshold, linscale=0.4)


def _log_x(ax: Axes) -> None:
    """Scale x logarithmically, and label it with whole numbers."""
    from matplotlib.ticker import LogLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
