"""Fitted against given dissimilarities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.place.rules import OrdinalPlacement
from neucmds.prepared import prepare
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.tools.plots import figures
from neucmds.tools.plots.figures import GUIDE, NEGATIVE, POSITIVE, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = npt.NDArray[np.intp]

MAX_PAIRS = 20_000
# Rows to read of a D outside memory; pairs are drawn from these.
MAX_ROWS_READ = 200


def plot_shepard(
    D: Any,
    embedding: Embedding,
    *,
    squared: bool | None = None,
    symmetrize: bool = False,
    max_pairs: int = MAX_PAIRS,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the dissimilarities of the embedding against those given, and the line of agreement.

    Of a fit by ``loss="ordinal"`` the line is that of the disparities, which rise in steps.

    Parameters
    ----------
    D : array, DataFrame, DistanceMatrix, condensed vector, path, Dense, …
        Whatever `neuc_mds` takes. Pairs that the fit ignored as missing are left out; of a D
        outside memory, only pairs of sampled rows are drawn.
    embedding : Embedding
    squared : bool, optional
        Whether D holds squared dissimilarities; as in the fit by default. The plot is on the same
        scale as D: where D is not squared, a negative D̂ is drawn at −√|D̂|.
    symmetrize : bool, default=False
        As in `neuc_mds`.
    max_pairs : int, default=20000
        If there are more pairs, this many are drawn at random.
    random_state : int, Generator or None, default=0
        Seed of the pairs that are drawn.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.tools.plots import plot_shepard
    >>> x = np.random.default_rng(0).uniform(size=(12, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> plot_shepard(D, neuc_mds(D, 4)).get_title(loc="left")
    'Shepard plot, refined, k = 4 (66 pairs)'
    """
    squared = embedding.squared if squared is None else squared
    missing: Any = embedding.missing
    problem = prepare(
        D, squared=squared, symmetrize=symmetrize, missing=missing
    )
    pairs = sampled_pairs(problem, embedding, max_pairs, random_state)
    ax = figures.axes_or_new(ax)
    negative = pairs.fitted < 0
    for subset, colour, name in (
        (~negative, POSITIVE, "D̂ ≥ 0"),
        (negative, NEGATIVE, "D̂ < 0"),
    ):
        count = int(subset.sum())
        ax.scatter(
            pairs.given[subset],
            pairs.fitted[subset],
            color=colour,
            s=10,
            linewidths=0,
            # Few pairs are drawn strongly, so that they stay visible among many.
            alpha=float(np.clip(1500 / max(count, 1), 0.12, 0.7)),
            label=f"{name} ({count:,})",
            rasterized=True,
        )
    line: Any = {"color": "black", "linewidth": 1.2}
    rule = embedding.placement
    if isinstance(rule, OrdinalPlacement):
        dissimilarity = on_scale(rule.dissimilarity**2, pairs.squared)
        disparity = on_scale(rule.disparity**2, pairs.squared)
        ax.step(
            dissimilarity, disparity, where="post", label="disparities", **line
        )
    else:
        diagonal = [
            pairs.given.min(initial=0.0),
            pairs.given.max(initial=0.0),
        ]
        ax.plot(diagonal, diagonal, label="agreement", **line)
    ax.axhline(0.0, color=GUIDE, linewidth=0.6, zorder=1)
    unit = " (squared)" if pairs.squared else ""
    ax.set_xlabel(f"dissimilarity given{unit}")
    ax.set_ylabel(f"dissimilarity of the embedding{unit}")
    fit = f"{embedding.method}, k = {embedding.k}{figures.curvature_note(embedding)}"
    figures.set_title(ax, f"Shepard plot, {fit} ({pairs.counted})")
    figures.legend_below(ax, 3)
    return ax


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Pairs of objects on the scale of the input: all of them, or a random sample.

    Parameters
    ----------
    left, right : ndarray of shape (m,)
        Numbers of the two objects.
    given, fitted : ndarray of shape (m,)
        Dissimilarity of D and of the embedding; on the unsquared scale a negative D̂ is −√|D̂|.
    squared : bool
        Whether they are on the squared scale.
    total : int
        How many pairs there are in all.
    """

    left: Numbers
    right: Numbers
    given: Floats
    fitted: Floats
    squared: bool
    total: int

    @property
    def counted(self) -> str:
        """The number of pairs, in words; of a sample also the number of all pairs."""
        count = f"{self.given.size:,}"
        if self.given.size < self.total:
            count += f" of {self.total:,}"
        return f"{count} pairs"


def sampled_pairs(
    problem: Dense,
    embedding: Embedding,
    max_pairs: int = MAX_PAIRS,
    random_state: Any = 0,
) -> SampledPairs:
    """Return pairs of D and of the embedding; parameters are those of `plot_shepard`."""
    n = embedding.n
    if problem.n != n:
        raise InputError(
            f"D has {problem.n} objects, but the embedding {n}; pass the D it was made of."
        )
    rows_read = np.arange(n)
    rng = np.random.default_rng(random_state)
    if n > MAX_ROWS_READ and not isinstance(problem.gram, DenseGram):
        rows_read = np.sort(rng.choice(n, MAX_ROWS_READ, replace=False))
    total = n * (n - 1) // 2
    if total <= max_pairs and rows_read.size == n:
        i, j = np.triu_indices(n, 1)
    else:
        i = rng.choice(rows_read, size=min(max_pairs, total))
        j = rng.integers(0, n - 1, size=i.size)
        j += j >= i  # any object but i
    sq_given = problem.gram.entries(i, j)
    if problem.weights is not None:
        sq_given[to_numpy(problem.weights)[i, j] == 0] = np.nan
    d_hat = to_numpy(embedding.unnamed.distance(i, j, squared=True))
    sq_fitted = embedding.form.to_sq_distance(d_hat.astype(np.float64))
    known = np.isfinite(sq_given) & np.isfinite(sq_fitted)
    return SampledPairs(
        i[known],
        j[known],
        on_scale(sq_given[known], problem.squared),
        on_scale(sq_fitted[known], problem.squared),
        problem.squared,
        total,
    )


def on_scale(sq_values: Any, squared: bool) -> Any:
    """Return squared values as they are, or their roots: −√|v| for a negative v."""
    if squared:
        return sq_values
    return np.sign(sq_values) * np.sqrt(np.abs(sq_values))
