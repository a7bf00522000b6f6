"""Fitted against given dissimilarities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend.arrays import Floats, Indices, to_floats, to_numpy
from neucmds.embedding import Embedding
from neucmds.explore.quality import Quality, evaluate, problem_of
from neucmds.place.rules import OrdinalPlacement
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.tools.plots import figures
from neucmds.tools.plots.figures import GUIDE, NEGATIVE, POSITIVE
from neucmds.tools.plots.names import write_corner

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    quality: Quality | None = None,
    size: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the dissimilarities of the embedding against those given, and the line of agreement.

    Their squared correlation is in a corner. For a fit by ``loss="ordinal"`` the line is that of
    the disparities, which rise in steps, and the corner has the two R² of vegan's ``stressplot``:
    non-metric, 1 − stress-1², and linear, the squared correlation with the disparities.

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
        Chooses the pairs that are drawn.
    quality : Quality, optional
        What `evaluate` measured, for its ``shepard_r2``; by default it is measured here.
    size, ax
        As for `plot_coordinates`.

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
    >>> plot_shepard(D, neuc_mds(D, 4)).texts[0].get_text().splitlines()
    ['cor² 0.946', '66 pairs']
    """
    problem = problem_of(
        embedding,
        D,
        squared,
        symmetrize=symmetrize,
        missing=embedding.missing,
    )
    pairs = sampled_pairs(problem, embedding, max_pairs, random_state)
    ax = figures.axes_or_new(ax, size)
    negative = pairs.fitted < 0
    for subset, colour, name in (
        (~negative, POSITIVE, "D̂ ≥ 0"),
        (negative, NEGATIVE, "D̂ < 0"),
    ):
        count = int(subset.sum())
        if not count:
            continue
        ax.scatter(
            pairs.given[subset],
            pairs.fitted[subset],
            color=colour,
            s=10,
            linewidths=0,
            # A subset of few pairs is drawn strongly, to be visible among many of the other.
            alpha=float(np.clip(1500 / count, 0.12, 0.7)),
            label=f"{name} ({count:,})",
            rasterized=True,
        )
    line: Any = {"color": "black", "linewidth": 1.2}
    # The rule that places new objects holds the disparities of an ordinal fit.
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
    figures.legend_below(ax, 3)
    quality = quality or evaluate(embedding, problem)
    # It is NaN where D has negative squares, which have no roots to correlate.
    r2 = f"{quality.shepard_r2:.3f}".replace("nan", "–")
    measures = f"cor² {r2}"
    if embedding.loss == "ordinal":
        non_metric = 1 - embedding.stress1**2
        measures = f"non-metric R² {non_metric:.3f}\nlinear R² {r2}"
    points = np.column_stack([pairs.given, pairs.fitted])
    write_corner(ax, points, f"{measures}\n{pairs.count_words}")
    return ax


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Pairs of objects on the scale of the input: all of them, or a random sample.

    Parameters
    ----------
    left, right : ndarray of shape (m,)
        Indices of the two objects.
    given, fitted : ndarray of shape (m,)
        Dissimilarity of D and of the embedding; on the unsquared scale a negative D̂ is −√|D̂|.
    squared : bool
        Whether both are on the squared scale.
    total : int
        How many pairs there are in all: those of a table of directed dissimilarities are known.
    """

    left: Indices
    right: Indices
    given: Floats
    fitted: Floats
    squared: bool
    total: int

    @property
    def count_words(self) -> str:
        """The number of pairs, and that of all pairs if it is larger, as a text."""
        words = f"{self.given.size:,}"
        if self.given.size < self.total:
            words += f" of {self.total:,}"
        return f"{words} pairs"


def sampled_pairs(
    problem: Dense | Directed,
    embedding: Embedding,
    max_pairs: int = MAX_PAIRS,
    random_state: Any = 0,
) -> SampledPairs:
    """Return all pairs that are known, or random ones; parameters are those of `plot_shepard`."""
    rng = np.random.default_rng(random_state)
    if isinstance(problem, Directed):
        i, j = np.nonzero(to_numpy(problem.weights))
        total = i.size
        if total > max_pairs:
            drawn = rng.choice(total, max_pairs, replace=False)
            i = i[drawn]
            j = j[drawn]
        sq_given = to_numpy(problem.sq_dissimilarity)[i, j]
    else:
        total = math.comb(problem.n, 2)
        i, j = _undirected_pairs(problem, max_pairs, rng)
        sq_given = problem.gram.entries(i, j)
        if problem.weights is not None:
            sq_given[to_numpy(problem.weights)[i, j] == 0] = np.nan
    x = to_floats(embedding.coordinates)
    y = to_floats(embedding._targets.coordinates)
    form = embedding.form
    sq_fitted = form.to_sq_distance(form.paired_sq(x[i], y[j]))
    known = np.isfinite(sq_given) & np.isfinite(sq_fitted)
    return SampledPairs(
        i[known],
        j[known],
        on_scale(sq_given[known], problem.squared),
        on_scale(sq_fitted[known], problem.squared),
        problem.squared,
        total,
    )


def _undirected_pairs(
    problem: Dense, max_pairs: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return all pairs, or random ones, which may repeat, if there are more than `max_pairs`.

    Of a D outside memory, the first objects of all pairs are a few, whose rows are read.
    """
    n = problem.n
    rows = np.arange(n)
    if n > MAX_ROWS_READ and not isinstance(problem.gram, DenseGram):
        rows = np.sort(rng.choice(n, MAX_ROWS_READ, replace=False))
    total = math.comb(n, 2)
    if total <= max_pairs and rows.size == n:
        i, j = np.triu_indices(n, 1)
        return i, j
    i = rng.choice(rows, size=min(max_pairs, total))
    j = rng.integers(0, n - 1, size=i.size)
    # Until now j is a number among all objects but i.
    j += j >= i
    return i, j


def on_scale(sq_values: Any, squared: bool) -> Any:
    """Return squared values as they are, or their roots: −√|v| for a negative v."""
    if squared:
        return sq_values
    return np.sign(sq_values) * np.sqrt(np.abs(sq_values))
