"""`compare`: several methods on one D."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.dense_fit import embed_spectrum, fit
from neucmds.ecology import cailliez, lingoes
from neucmds.embedding import Embedding
from neucmds.embedding.build import from_descent
from neucmds.errors import InputError, option
from neucmds.explore.quality import FULL_UP_TO, Quality, measure
from neucmds.form import Form
from neucmds.options import ALL_METHODS, Callback, Options, as_seed, notify
from neucmds.prepared import dense_gram, prepare
from neucmds.problem.components import (
    GOALS,
    N_COMPONENTS,
    NComponents,
    Size,
    checked_size,
    total_of,
)
from neucmds.problem.dense import Dense
from neucmds.problem.validation import as_list
from neucmds.refine.descent import Configuration
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.solve import solve_for
from neucmds.spectrum.spectrum import Spectrum

# Methods beside those of `neuc_mds`: the name of each, and its loss or its correction.
REFINED_LOSSES = {
    "refined/distance": "distance",
    "refined/relative": "relative",
}
CORRECTIONS = {"cailliez": cailliez, "lingoes": lingoes}
COMPARED = (*ALL_METHODS, *REFINED_LOSSES, *CORRECTIONS, "smacof")
# SMACOF takes longest: with this many objects about half a minute on one core.
MOST_OBJECTS_OF_SMACOF = 1000
# Random starts of SMACOF, of which the best is taken.
SMACOF_STARTS = 2


@dataclass(frozen=True, eq=False)
class ComparedMethod:
    """One method's embedding, how good it is, and how long it took.

    Parameters
    ----------
    method : str
        Name of the row, one of `COMPARED`.
    embedding : Embedding
    quality : Quality
        Against D itself, also for the corrections of D.
    seconds : float
        Time of the method, without that of a spectrum that several methods share.
    """

    method: str
    embedding: Embedding
    quality: Quality
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name."""
        return {
            "method": self.method,
            "k": self.embedding.k,
            "signature": list(self.embedding.signature),
            **self.quality.as_dict(),
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on one D.

    Parameters
    ----------
    n : int
        Number of objects.
    requested : int
        Number of coordinates asked for.
    methods : tuple of ComparedMethod
    spectrum_seconds : float
        Time of the spectrum, which the methods of `ALL_METHODS` share.
    left_out : dict of str
        Method → why it is not there.
    """

    n: int
    requested: int
    methods: tuple[ComparedMethod, ...]
    spectrum_seconds: float
    left_out: dict[str, str]

    def __getitem__(self, method: str) -> ComparedMethod:
        return next(row for row in self.methods if row.method == method)

    @property
    def best(self) -> ComparedMethod:
        """The method of least STRESS."""
        return min(self.methods, key=lambda row: row.quality.stress)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the embeddings by name."""
        return {
            "n": self.n,
            "requested": self.requested,
            "spectrum_seconds": self.spectrum_seconds,
            "methods": [row.as_dict() for row in self.methods],
            "left_out": self.left_out,
        }


def compare(
    D: Any,
    n_components: NComponents = N_COMPONENTS,
    methods: Sequence[str] = ALL_METHODS,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    curvature: float | Literal["auto"] = 0.0,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Comparison:
    """Embed D by several methods from one spectrum, and measure each result against D.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    n_components : int, (int, int), float or "auto", default=2
        Number of coordinates, as for `neuc_mds`; a share and "auto" are chosen for "neuc+".
    methods : sequence of str
        The six methods of `neuc_mds` by default. Others are "refined/distance" and
        "refined/relative", the other losses; "cailliez" and "lingoes", classical MDS of a D made
        Euclidean by a constant; and "smacof" of scikit-learn, on √D. They need D in memory and at
        most 2000 objects, "smacof" at most 1000.
    squared, symmetrize, random_state
        As for `neuc_mds`.
    weights : array of shape (n, n), optional
        As for `neuc_mds`. Only the refined methods minimise weighted sums; the others are left out
        where a weight is zero. All results are measured with the weights.
    curvature : float or "auto", default=0
        Of "refined/distance" and "refined/relative", as for `neuc_mds`.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import compare
    >>> x = np.random.default_rng(0).uniform(size=(30, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)  # squares of distances: no metric
    >>> table = compare(D, 5, methods=["classical", "neuc+", "refined"])
    >>> table.best.method, table["neuc+"].embedding.signature
    ('refined', (3, 2))
    """
    methods = as_list("methods", methods)
    unknown = [name for name in methods if name not in COMPARED]
    if unknown or not methods:
        raise InputError(
            f"{option('methods', unknown)} is unknown; choose from {', '.join(COMPARED)}."
        )
    seed = as_seed(random_state)
    problem = prepare(
        D,
        n_components,
        squared=squared,
        symmetrize=symmetrize,
        weights=weights,
        callback=callback,
    )
    size = _common_size(problem, n_components, seed)
    options = Options(size, curvature=curvature, random_state=seed)
    if curvature != 0 and not set(methods) & set(REFINED_LOSSES):
        raise InputError(
            f"{option('curvature', curvature)} is for {' and '.join(REFINED_LOSSES)}; add one to "
            f"{option('methods')}, or leave it out."
        )
    left_out = _left_out(problem, methods)
    methods = [name for name in methods if name not in left_out]
    start = time.perf_counter()
    # One spectrum that suffices for each of these.
    spectrum = None
    sharing = [name for name in methods if name in ALL_METHODS]
    if sharing:
        notify(callback, f"computing the spectrum of {problem.n:,} objects")
        spectrum = solve_for(problem.gram, size, sharing, random_state=seed)
    spectrum_seconds = time.perf_counter() - start
    rows = []
    for method in methods:
        notify(callback, method)
        start = time.perf_counter()
        try:
            embedding = _embedding(problem, spectrum, size, method, options)
        except InputError as error:
            # Other methods may not suit this D; the reason is told with the rows of those that do.
            if method in ALL_METHODS:
                raise
            left_out[method] = str(error)
            continue
        seconds = time.perf_counter() - start
        quality = measure(problem, embedding.coordinates, embedding.form)
        rows.append(ComparedMethod(method, embedding, quality, seconds))
    return Comparison(
        problem.n, total_of(size), tuple(rows), spectrum_seconds, left_out
    )


def _common_size(problem: Dense, n_components: NComponents, seed: Any) -> Size:
    """Return the size of all embeddings: as given, or the k that "neuc+" chooses for a goal."""
    if not isinstance(n_components, GOALS):
        return checked_size(n_components, problem.n)
    options = Options(n_components, "neuc+", random_state=seed)
    return fit(problem, options).requested


def _left_out(problem: Dense, methods: Sequence[str]) -> dict[str, str]:
    """Return method → reason, for those of the methods that a problem is unfit or too large for."""
    n = problem.n
    has_gaps = False
    if problem.weights is not None:
        n_known = int(np.count_nonzero(to_numpy(problem.weights)))
        has_gaps = n_known < n * (n - 1)
    most_objects = dict.fromkeys((*REFINED_LOSSES, *CORRECTIONS), FULL_UP_TO)
    most_objects["smacof"] = MOST_OBJECTS_OF_SMACOF
    reasons = {}
    for method in methods:
        most = most_objects.get(method, n)
        if has_gaps and not method.startswith("refined"):
            reasons[method] = (
                "It needs every pair, and some pairs have weight zero."
            )
        elif n > most:
            reasons[method] = (
                f"{n:,} objects take too long; at most {most:,} are compared."
            )
    return reasons


def _embedding(
    problem: Dense,
    spectrum: Spectrum | None,
    size: Size,
    method: str,
    options: Options,
) -> Embedding:
    """Embed by one of `COMPARED`; of the methods, those of `REFINED_LOSSES` alone are curved."""
    if method in REFINED_LOSSES:
        return fit(problem, replace(options, loss=REFINED_LOSSES[method]))
    if method == "refined" and problem.weights is not None:
        return fit(problem, replace(options, curvature=0.0))
    if spectrum is not None and method in ALL_METHODS:
        return embed_spectrum(problem, spectrum, size, method)
    k = total_of(size)
    if method == "smacof":
        return _smacof(problem, k, options.random_state)
    euclidean = corrected(problem, method)
    classical = solve_for(euclidean.gram, k, "classical")
    embedding = embed_spectrum(euclidean, classical, k, "classical")
    return replace(embedding, method=method)


def corrected(problem: Dense, correction: str) -> Dense:
    """Return the problem of D and a constant that makes it Euclidean, by one of `CORRECTIONS`."""
    sq_d = dense_gram(problem, correction).sq_dissimilarity
    euclidean = CORRECTIONS[correction](sq_d, squared=True)
    return replace(problem, gram=DenseGram(euclidean.sq_dissimilarity))


def _smacof(problem: Dense, k: int, seed: Any) -> Embedding:
    """Return the embedding of scikit-learn's SMACOF of d, the roots of the entries of D."""
    from sklearn.manifold import smacof

    sq_d = to_numpy(dense_gram(problem, "smacof").sq_dissimilarity)
    if sq_d.min() < 0 or not sq_d.any():
        raise InputError(
            "SMACOF needs dissimilarities that are not negative, and not all zero."
        )
    with warnings.catch_warnings():
        # scikit-learn warns that defaults will change; each is passed here.
        warnings.simplefilter("ignore", FutureWarning)
        coordinates, _ = smacof(
            np.sqrt(sq_d, dtype=np.float64),
            n_components=k,
            n_init=SMACOF_STARTS,
            normalized_stress=False,
            random_state=seed,
        )
    end = Configuration(coordinates, Form(np.ones(k)), converged=True)
    return from_descent(problem, end, k, method="smacof", solver="smacof")
