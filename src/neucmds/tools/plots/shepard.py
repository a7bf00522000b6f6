"""Fitted against given dissimilarities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.form import flat
from neucmds.prepared import prepare
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.choose import lazy_operator
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.tools.plots import _figures as figures
from neucmds.tools.plots._figures import GUIDE, NEGATIVE, POSITIVE, Floats, Marks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PAIRS = 20_000
# Rows of a D outside memory that pairs are drawn from: 200 reads of 160 kB at n = 20,000.
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

    Parameters
    ----------
    D : array, DataFrame, DistanceMatrix, condensed vector, path, Dense, …
        Whatever `neuc_mds` takes. Missing pairs are left out; of a D outside memory only sampled
        rows are drawn.
    embedding : Embedding
    squared : bool, optional
        Whether D holds squared dissimilarities; as in the fit by default. The plot is on the same
        scale as D: where D is not squared, a negative D̂ is drawn at −√|D̂|.
    symmetrize : bool, default=False
        As in `neuc_mds`.
    max_pairs : int, default=20000
        With more pairs than this, so many are drawn at random.
    random_state : int, Generator or None, default=0
        Which ones.
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
    pairs = sampled_pairs(D, embedding, squared, symmetrize, max_pairs, random_state)
    ax = figures.axes_or_new(ax)
    _scatter_pairs(ax, pairs.given, pairs.fitted, pairs.fitted < 0)
    ends = [min(float(pairs.given.min(initial=0.0)), 0.0), float(pairs.given.max(initial=0.0))]
    ax.plot(ends, ends, color="black", linewidth=1.2, label="agreement")
    ax.axhline(0.0, color=GUIDE, linewidth=0.6, zorder=1)
    unit = " (squared)" if pairs.squared else ""
    ax.set_xlabel(f"dissimilarity given{unit}")
    ax.set_ylabel(f"dissimilarity of the embedding{unit}")
    what = f"{embedding.method}, k = {embedding.k}{figures.bend(embedding)}"
    figures.set_title(ax, f"Shepard plot, {what} ({pairs.drawn})")
    figures.legend_below(ax, 3)
    return ax


@dataclass(frozen=True)
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

    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    given: Floats
    fitted: Floats
    squared: bool
    total: int

    @property
    def drawn(self) -> str:
        """How many pairs these are, and of how many."""
        of_all = f" of {self.total:,}" if self.given.size < self.total else ""
        return f"{self.given.size:,}{of_all} pairs"


def sampled_pairs(
    D: Any,
    embedding: Embedding,
    squared: bool | None = None,
    symmetrize: bool = False,
    max_pairs: int = MAX_PAIRS,
    random_state: Any = 0,
) -> SampledPairs:
    """Return pairs of D and of the embedding; parameters are those of `plot_shepard`."""
    squared = embedding.squared if squared is None else squared
    known = D if isinstance(D, Dense) else _behind_operator(D, squared, symmetrize)
    n, gram = embedding.n, known.gram
    if gram.n != n:
        raise InputError(
            f"D has {gram.n} objects, but the embedding {n}; pass the D it was made of."
        )
    i, j = _pairs(n, max_pairs, n if isinstance(gram, DenseGram) else MAX_ROWS_READ, random_state)
    sq_given = gram.entries(i, j)
    if known.weights is not None:
        sq_given = np.where(to_numpy(known.weights)[i, j] > 0, sq_given, np.nan)
    x = to_numpy(embedding.coordinates)
    sq_fitted = ((x[i] - x[j]) ** 2).astype(np.float64) @ to_numpy(embedding.signs)
    sq_fitted = flat(sq_fitted, embedding.kappa)
    finite = np.isfinite(sq_given) & np.isfinite(sq_fitted)
    on_scale: Callable[[Floats], Floats] = np.asarray if known.squared else signed_root
    return SampledPairs(
        i[finite],
        j[finite],
        on_scale(sq_given[finite]),
        on_scale(sq_fitted[finite]),
        known.squared,
        n * (n - 1) // 2,
    )


def _behind_operator(D: Any, squared: bool, symmetrize: bool) -> Dense:
    """Let D hand out its rows; pairs may be missing from one in memory."""
    outside = D
    if not isinstance(D, Gram):
        outside = lazy_operator(D, None, squared=squared)
    if outside is None:
        return prepare(D, squared=squared, symmetrize=symmetrize, missing="ignore")
    return Dense(outside, squared=squared)


def signed_root(values: Floats) -> Floats:
    """Return √x, and −√|x| below zero."""
    with np.errstate(invalid="ignore"):  # pairs that are not known
        root: Floats = np.sign(values) * np.sqrt(np.abs(values))
    return root


def _pairs(
    n: int, max_pairs: int, max_rows: int, random_state: Any
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All pairs i < j, or as many random ones as allowed, from so many rows."""
    if n * (n - 1) // 2 <= max_pairs and n <= max_rows:
        return np.triu_indices(n, 1)
    rng = np.random.default_rng(random_state)
    rows = np.arange(n) if max_rows >= n else np.sort(rng.choice(n, max_rows, replace=False))
    i = rng.choice(rows, size=min(max_pairs, n * (n - 1) // 2))
    j = rng.integers(0, n - 1, size=i.size)
    return i, j + (j >= i)


def _scatter_pairs(ax: Axes, x: Floats, y: Floats, negative: Marks) -> None:
    alpha = float(np.clip(1500 / max(x.size, 1), 0.12, 0.7))
    size = 12 if x.size < 2000 else 6
    common: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": x.size > 2000}
    label = f"D̂ ≥ 0 ({int((~negative).sum()):,})" if negative.any() else None
    ax.scatter(x[~negative], y[~negative], color=POSITIVE, label=label, alpha=alpha, **common)
    if negative.any():
        # Few and important: they stay visible among the others.
        label = f"D̂ < 0 ({int(negative.sum()):,})"
        strong = max(alpha, min(0.8, 400 / int(negative.sum())))
        ax.scatter(x[negative], y[negative], color=NEGATIVE, label=label, alpha=strong, **common)
