"""The one way of the data: input → operator → spectrum → method → `Embedding`.

`neuc_mds` walks it from end to end. `compare`, `inspect`, `curve` and `evaluate` take any D that it
takes; estimators, commands and the paper call these or their parts (`prepare`, `fit`, `solve_for`,
`embed_spectrum`), and nobody repeats the order.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, is_array, is_dask, to_numpy
from neucmds._input import as_dissimilarity, as_weighted
from neucmds._input.components import AUTO, Components, NComponents
from neucmds._input.containers import as_labels
from neucmds._input.pairs import Pairs, as_pairs, check_pairs
from neucmds._methods.exact import MAX_DENSE, exact_selection
from neucmds._methods.peer_smacof import smacof_solution
from neucmds._methods.refined.completion import complete_and_refine
from neucmds._methods.refined.descent import Callback
from neucmds._methods.refined.loss_starts import Place, as_start, refine_for_loss
from neucmds._methods.refined.objective import refine
from neucmds._methods.refined.sparse_pairs import refine_pairs
from neucmds._methods.refined.starts import RefineSettings, best_refined
from neucmds._methods.refined.weighted import refine_weighted
from neucmds._methods.selection import METHODS, Selection, neuc_plus, union
from neucmds._methods.solution import (
    Solution,
    from_loss,
    from_pairs,
    from_refinement,
    from_selection,
    from_weighted,
)
from neucmds._methods.stress import stress_terms
from neucmds._operator import DenseGram, Gram
from neucmds._operator.blocked import Progress
from neucmds._operator.choose import Limit, dense_operator, lazy_operator, loaded
from neucmds._operator.graph import as_graph, graph_pairs, shortest_path_rows
from neucmds._operator.sampled_pairs import Sizes
from neucmds._placement.dimension import (
    LEAST_OBJECTS,
    DimensionScan,
    fewest,
    scan_dimensions,
)
from neucmds._placement.triangulation import (
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds._spectrum import Ends, Spectrum, full_spectrum, solve
from neucmds._spectrum.solve import check_solver, check_tolerance
from neucmds.corrections import cailliez, lingoes
from neucmds.diagnostics import (
    Inspection,
    TurningPoint,
    classical_turning_point,
    describe,
    spaced_ks,
)
from neucmds.embedding import Embedding, build_embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    PrecisionWarning,
    option,
)
from neucmds.metrics import Quality, measure

__all__ = [
    "ALL_METHODS",
    "CLOSED_FORMS",
    "COMPARED",
    "DEFAULT_METHOD",
    "ComparedMethod",
    "Comparison",
    "Prepared",
    "StressCurves",
    "compare",
    "curve",
    "evaluate",
    "inspect",
    "neuc_mds",
    "prepare",
]

ALL_METHODS = (*METHODS, "exact", "refined")
# What `compare` can put beside them: two more losses, and what people do today.
REFINED_LOSSES = {"refined/distance": "distance", "refined/relative": "relative"}
CORRECTIONS = {"cailliez": cailliez, "lingoes": lingoes}
COMPARED = (*ALL_METHODS, *REFINED_LOSSES, *CORRECTIONS, "smacof")
# Most objects of each: about half a minute on one core.
COMPARED_UP_TO = {name: 2000 for name in COMPARED if name not in ALL_METHODS} | {"smacof": 1000}
CLOSED_FORMS = tuple(method for method in ALL_METHODS if method != "refined")
# Of all methods "refined" has the least STRESS on fitted objects (docs/quality.md) and on objects
# placed later (benchmarks/records/placement.json); of 8000 objects it takes 1.1 to 1.8 times the
# time of "neuc+" (benchmarks/records/refined_at_scale.json).
DEFAULT_METHOD = "refined"
# Of more than 5000 objects no more than this many coordinates are tried to reach a share of R²: all
# of the spectrum would take hours.
MOST_FOR_SHARE = 1000
ALL_TRIED_UP_TO = 5000
# Up to here `inspect` and `curve` compute all eigenvalues (2 s); of more objects the largest ones,
# to a tolerance for which products in single precision suffice: errors of λ are its square.
FULL_UP_TO = 2000
INSPECTED_PAIRS = 100
INSPECTED_TOL = 1e-5
# From here on the time that a spectrum will take is said before.
TIMED_FROM = 1000
PRODUCTS_PER_PAIR = 4
# Largest k of a curve unless the caller says otherwise.
CURVE_TO = 100

OnStep = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A D of any kind, read, validated and behind its operator, with what goes along with it.

    Every function of this module takes it in place of D, so that D is read once for several calls;
    `squared`, `labels` and `weights` are then its own.

    Parameters
    ----------
    gram : Gram
        B = −½CDC; D is on the squared scale from here on.
    labels : tuple of str or None
    squared : bool
        Whether the input held squared dissimilarities.
    weights : array of shape (n, n), optional
        How much each pair counts, zero where it was not observed; None if all count alike.
    """

    gram: Gram
    labels: tuple[str, ...] | None = None
    squared: bool = False
    weights: Array | None = None

    @property
    def n(self) -> int:
        """Number of objects."""
        return self.gram.n


@dataclass(frozen=True, eq=False)
class Fit:
    """An embedding, and the eigenpairs that it was made from (None with weights or gaps)."""

    embedding: Embedding
    spectrum: Spectrum | None


def neuc_mds(
    D: Any,
    n_components: NComponents = 2,
    method: str = DEFAULT_METHOD,
    *,
    loss: str = "squared",
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    labels: Any = None,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    copy: bool = True,
    max_memory: Limit = None,
    max_iter: int | None = None,
    stress_tol: float | None = None,
    climb: bool | None = None,
    n_init: int | None = None,
    init: Any = None,
    callback: Callback | None = None,
    progress: Progress | None = None,
) -> Embedding:
    """Embed dissimilarities as real coordinates with a sign for each coordinate.

    Parameters
    ----------
    D : array, DataFrame, DistanceMatrix, condensed vector, nested list, path, Gram or sparse array
        Symmetric dissimilarities with a zero diagonal; they need not be Euclidean, nor metric. An
        npy file, memory map, zarr array or HDF5 dataset that does not fit in memory is read in
        blocks of rows. The chunks of a dask array stay on its workers. `BlockedGram` and
        `FeatureGram` of `neucmds.operators` are taken as they are. Of a `scipy.sparse` array what
        is stored was observed, zeros included, and the rest was not: "refined" then takes memory
        and time for these pairs alone.
    n_components : int, (int, int), float, "auto" or None, default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones. With "refined" and up
        to 2000 objects, a pair of at most 25 contained ones never ends above any of them; fewer
        columns are returned where more do not lower the STRESS. A share between 0 and 1: the fewest
        coordinates whose R² (`Embedding.r2`) reaches it; for "exact" and "refined" found by
        bisection, for which R² is taken to grow with k. "auto": the fewest coordinates whose error
        on pairs of held-out objects, placed by "neuc+", is within one standard error of the least
        (at most 100). What was chosen is `Embedding.requested`. None: 20, or n − 1 if that is less.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's, "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" sets the coordinates free.
    loss : {"squared", "distance", "relative"}, default="squared"
        What "refined" minimises. "squared": Σ(D̂ − D)², the paper's STRESS, in which far pairs rule.
        "distance": Σ(√D̂⁺ − d)², with d = √D: what SMACOF minimises. "relative": Σ(D̂/D − 1)², in
        which near pairs count like far ones; d below half of the 1 % quantile of the positive d
        counts as that much. The last two need D ≥ 0, and all of D in memory. New objects are
        placed by the same loss.
    squared : bool, default=False
        False: D holds dissimilarities and is squared inside, as in scikit-learn, scikit-bio and R.
        True: D is taken as it is, and may hold negative entries; this is the paper's D.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D.
    weights : array of shape (n, n), optional
        How much each pair counts: the loss of a pair is multiplied by it. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in D means that the pair was not observed, and does not count. "refined" only.
    labels : sequence of str, optional
        Names of the objects, for input that has none of its own.
    solver : {"auto", "full", "krylov"}, default="auto"
        How the eigenpairs are computed; "auto" chooses by size.
    tol : float, default=1e-7
        Largest ‖Bu − λu‖ of the returned eigenpairs, relative to the largest kept |λ| (iterative
        solver). From 1e-6 up no product in double precision is needed, which takes up to a third
        less time. "refined" only starts from eigenpairs: they are computed to max(tol, 1e-3) there,
        and its `eigenvalues` are known to `residuals`.
    random_state : int, RandomState or None
        Seed of the iterative solver's start.
    copy : bool, default=True
        False allows D to be squared in place.
    max_memory : int or str, optional
        Most memory to use beyond a D that is in memory already: bytes, or "2GB". By default what is
        free. A D outside memory that needs more is read in blocks.
    max_iter : int, optional
        Most iterations of "refined": 100 for the squared loss, 500 for others.
    stress_tol : float, optional
        "refined" stops when three iterations together gain less than this share of the loss, and
        one more promises less: 2e-3 for the squared loss; for others 1e-6 up to 600 objects, then
        1e-4 ("distance") or 2e-3.
    climb : bool, optional
        Let "refined" also try signatures with one negative coordinate more or fewer, as long as
        that helps: a few times the work. By default only for the losses other than "squared", and
        up to 600 objects.
    n_init : int, optional
        Starts of the losses other than "squared", of which the best is returned; 12 for up to 10
        coordinates of up to 600 objects, else 1.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature.
    callback : callable, optional
        Called by "refined" with the iteration and the loss after every step.
    progress : callable, optional
        Called while a D outside memory is read: the number of the pass, rows done in it, and n.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])  # 4 > 1 + 1: no metric
    >>> neuc_mds(D, n_components=2).signature
    (1, 1)
    """
    settings = RefineSettings(max_iter, stress_tol, climb, callback, loss, n_init)
    _check_arguments(D, n_components, method, solver, tol, random_state)
    start = as_start(init)
    if start is not None:
        n_components = _signature_of(start, n_components)
    _refuse_without_refinement(method, settings, start)
    if isinstance(D, Pairs) or hasattr(D, "tocoo"):
        _refuse_for_pairs(method, weights, missing)
        pairs = as_pairs(D, squared=squared, symmetrize=symmetrize, labels=labels)
        embedding = embed_pairs(pairs, n_components, squared, settings, start, random_state)
        warn_of_surprises(embedding)
        return embedding
    prepared = prepare(
        D,
        n_components,
        squared=squared,
        symmetrize=symmetrize,
        weights=weights,
        missing=missing,
        labels=labels,
        copy=copy,
        max_memory=max_memory,
        keep_copy=method == "refined",
        progress=progress,
    )
    found = fit(
        prepared,
        n_components,
        method,
        solver=solver,
        tol=tol,
        random_state=random_state,
        settings=settings,
        start=start,
    )
    warn_of_surprises(found.embedding)
    return found.embedding


def prepare(
    D: Any,
    n_components: NComponents = None,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    labels: Any = None,
    copy: bool = True,
    max_memory: Limit = None,
    keep_copy: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Read and validate D, and put it behind the operator that the memory allows.

    Parameters
    ----------
    D : as for `neuc_mds`, or Prepared
        The latter is returned as it is.
    n_components : as for `neuc_mds`
        Number of coordinates that the memory must suffice for.
    squared, symmetrize, weights, missing, labels, copy, max_memory, progress
        As for `neuc_mds`.
    keep_copy : bool, default=False
        Whether a float32 working copy of D is kept after the spectrum: for "refined".

    Returns
    -------
    Prepared

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import compare, inspect
    >>> from neucmds.api import prepare
    >>> D = prepare(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]]))
    >>> inspect(D).euclidean, compare(D, 1).best.method
    (False, 'exact')
    """
    if isinstance(D, Prepared):
        return D
    gram = lazy_operator(
        D,
        n_components,
        complete=weights is None and missing == "error",
        squared=squared,
        symmetrize=symmetrize,
        max_memory=max_memory,
        labels=labels,
        progress=progress,
    )
    if gram is not None:
        return Prepared(gram, as_labels(labels, gram.n), getattr(gram, "squared", squared))
    D, copy = loaded(D, copy)
    complete = weights is None and missing == "error"
    data = as_dissimilarity(
        D,
        squared=squared,
        symmetrize=symmetrize,
        labels=labels,
        # Weights are checked against the gaps of D, and refused ones must leave D as it was.
        copy=copy or not complete,
        missing=missing,
    )
    weighted = None if complete else as_weighted(data, weights)
    if weighted is not None:
        values, pair_weights = weighted
        return Prepared(DenseGram(values), data.labels, squared, pair_weights)
    gram = dense_operator(data, n_components, max_memory, keep_copy=keep_copy)
    return Prepared(gram, data.labels, squared)


def fit(
    prepared: Prepared,
    n_components: NComponents = None,
    method: str = DEFAULT_METHOD,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    settings: RefineSettings | None = None,
    start: Place | None = None,
    on_step: OnStep | None = None,
) -> Fit:
    """Embed what is prepared: spectrum, method, `Embedding`.

    Parameters
    ----------
    prepared : Prepared
    n_components, method, solver, tol, random_state
        As for `neuc_mds`.
    settings : RefineSettings, optional
        For "refined".
    start : Place, optional
        Where "refined" starts.
    on_step : callable, optional
        Called with a few words before each longer piece of work.

    Returns
    -------
    Fit
    """
    components = Components.parse(n_components, prepared.n)
    settings = settings or RefineSettings()
    tell = on_step or _silent
    _refuse_without_refinement(method, settings, start)
    if start is not None and int(start.coordinates.shape[0]) != prepared.n:
        raise InputError(
            f"{option('init')} has coordinates of {int(start.coordinates.shape[0])} objects, but D "
            f"has {prepared.n}."
        )
    if components.goal is not None:
        fit_k = partial(
            fit,
            prepared,
            method=method,
            solver=solver,
            tol=tol,
            random_state=random_state,
            settings=settings,
            start=start,
            on_step=on_step,
        )
        return _fit_chosen(prepared, components.goal, method, fit_k, solver, random_state, tell)
    if prepared.weights is not None or settings.loss != "squared" or start is not None:
        tell(f"embedding by {method}")
        solve = partial(_solve_roughly, solver=solver, tol=tol)
        solution = _free_coordinates(
            prepared, components, method, solve, settings, start, random_state
        )
        embedding = build_embedding(
            solution,
            method=method,
            requested=components.total,
            squared=prepared.squared,
            labels=prepared.labels,
        )
        return Fit(embedding, None)
    tell(f"computing the spectrum of {prepared.n:,} objects")
    spectrum = solve_for(
        prepared.gram, components, method, solver=solver, tol=tol, random_state=random_state
    )
    tell(f"embedding by {method}")
    embedding = embed_spectrum(
        prepared.gram,
        spectrum,
        components,
        method,
        squared=prepared.squared,
        labels=prepared.labels,
        settings=settings,
    )
    return Fit(embedding, spectrum)


def _fit_chosen(
    prepared: Prepared,
    goal: float | str,
    method: str,
    fit_k: Callable[[int], Fit],
    solver: str,
    random_state: Any,
    tell: OnStep,
) -> Fit:
    """Choose the number of coordinates by a goal, and embed with it."""
    gram = prepared.gram
    if goal == AUTO:
        _refuse_weights(prepared, option("n_components", AUTO), "pass a number")
        tell("predicting objects held out, to choose k")
        return fit_k(_held_out_scan(gram, solver, random_state).k)
    share = float(goal)
    if not gram.moments.total_sum_of_squares:
        raise InputError(
            f"{option('n_components', share)} is a share of R², which has no meaning here: all "
            "dissimilarities are equal; pass a number."
        )
    tell(f"looking for the fewest coordinates with an R² of {share:g}")
    complete = prepared.weights is None
    closed = method if method in METHODS else "neuc+"
    start, best = _fewest_closed(gram, closed, share, solver) if complete else (None, -np.inf)
    if method in METHODS:
        return fit_k(_reached(start, share, method, best))
    found: dict[int, Fit] = {}

    def reaches(k: int) -> bool:
        found[k] = fit_k(k)
        return bool(found[k].embedding.r2 >= share)

    k = fewest(reaches, start or 8, _most_for_share(prepared.n))
    best = max((one.embedding.r2 for one in found.values()), default=best)
    return found[_reached(k, share, method, best)]


def _chosen_for_all(
    prepared: Prepared, goal: float | str, solver: str, random_state: Any
) -> Components:
    """Choose one number of coordinates for several methods: as "neuc+" would."""

    def fit_k(k: int) -> Fit:
        return fit(prepared, k, "neuc+", solver=solver, random_state=random_state)

    found = _fit_chosen(prepared, goal, "neuc+", fit_k, solver, random_state, _silent)
    return Components(found.embedding.requested)


def _reached(k: int | None, share: float, method: str, best: float) -> int:
    if k is None:
        raise InputError(
            f"{option('n_components', share)} asks for an R² of {share:g}, but "
            f"{option('method', method)} reaches {best:.4g} at most; ask for less, or pass a "
            "number of coordinates."
        )
    return k


def _most_for_share(n: int) -> int:
    return n - 1 if n <= ALL_TRIED_UP_TO else MOST_FOR_SHARE


def _fewest_closed(gram: Gram, method: str, share: float, solver: str) -> tuple[int | None, float]:
    """Return the fewest coordinates of a closed form that reach an R², and the largest R² seen.

    Every k is tried from one on, as R² need not grow with k: classical MDS gets worse in the end.
    """
    total, most = gram.moments.total_sum_of_squares, _most_for_share(gram.n)
    known, tried, best = min(16, most), 0, -np.inf
    while True:
        sizes = [Components(k) for k in spaced_ks(known)]
        spectrum = solve_for(gram, sizes, method, solver=solver, random_state=0)
        known = most if spectrum.complete else known
        for k in range(tried + 1, known + 1):
            selection = METHODS[method](spectrum.ends, Components(k))
            r2 = 1 - sum(stress_terms(spectrum, gram.diagonal(), selection)) / total
            best = max(best, r2)
            if r2 >= share:
                return k, best
            if method in ("classical", "lower") and selection.k < k:
                return None, best  # there are no more to be had
        if known == most:
            return None, best
        tried, known = known, min(4 * known, most)


def _held_out_scan(gram: Gram, solver: str, random_state: Any) -> DimensionScan:
    """Measure the error on pairs of held-out objects against the number of coordinates."""

    def spectrum(part: Gram, k: int) -> Spectrum:
        sizes = [Components(size) for size in spaced_ks(k)]
        return solve_for(part, sizes, "neuc+", solver=solver, tol=1e-5, random_state=0)

    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    # The same D deserves the same k: None is a fixed seed here.
    rng = check_random_state(0 if random_state is None else random_state)
    return scan_dimensions(gram, spectrum, random_state=rng)


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
        On top of the spectrum for the methods that share it.
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
    left_out: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, method: str) -> ComparedMethod:
        return next(one for one in self.methods if one.method == method)

    @property
    def best(self) -> ComparedMethod:
        """The method of least STRESS."""
        return min(self.methods, key=lambda one: one.quality.stress)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the embeddings by name."""
        return {
            "n": self.n,
            "requested": self.requested,
            "spectrum_seconds": self.spectrum_seconds,
            "methods": [one.as_dict() for one in self.methods],
            "left_out": self.left_out,
        }


def compare(
    D: Any,
    n_components: NComponents = None,
    methods: Sequence[str] = ALL_METHODS,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    labels: Any = None,
    solver: str = "auto",
    random_state: Any = 0,
    max_memory: Limit = None,
    on_step: OnStep | None = None,
) -> Comparison:
    """Embed D by several methods from one spectrum, and measure each result against D.

    Parameters
    ----------
    D : as for `neuc_mds`, or Prepared
    n_components : int, (int, int), float, "auto" or None
        Number of coordinates, as for `neuc_mds`; a share and "auto" are chosen for "neuc+".
    methods : sequence of str
        The six methods of `neuc_mds` by default. Beside them there are "refined/distance" and
        "refined/relative", the other losses; "cailliez" and "lingoes", classical MDS of a D made
        Euclidean by a constant; and "smacof", scikit-learn's, on √D. Those are for a D in memory of
        up to 2000 objects, "smacof" of up to 1000.
    squared, symmetrize, labels, solver, random_state, max_memory
        As for `neuc_mds`.
    on_step : callable, optional
        Called with a few words before each longer piece of work.

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
    prepared = prepare(
        D,
        n_components,
        squared=squared,
        symmetrize=symmetrize,
        labels=labels,
        max_memory=max_memory,
        keep_copy="refined" in methods,
    )
    _refuse_weights(prepared, "compare")
    components = Components.parse(n_components, prepared.n)
    if components.goal is not None:
        components = _chosen_for_all(prepared, components.goal, solver, random_state)
    tell = on_step or _silent
    unknown = [name for name in methods if name not in COMPARED]
    if unknown or not methods:
        raise InputError(
            f"{option('methods', unknown)} is unknown; choose from {', '.join(COMPARED)}."
        )
    shared = [name for name in methods if name in ALL_METHODS]
    start, spectrum = time.perf_counter(), None
    if shared:
        tell(f"computing the spectrum of {prepared.n:,} objects")
        spectrum = solve_for(
            prepared.gram, components, shared, solver=solver, random_state=random_state
        )
    spectrum_seconds = time.perf_counter() - start
    rows, left_out = [], {}
    for method in methods:
        tell(method)
        try:
            rows.append(_compared(prepared, spectrum, components, method, random_state))
        except InputError as problem:
            if method in ALL_METHODS:
                raise
            left_out[method] = str(problem)
    return Comparison(prepared.n, components.total, tuple(rows), spectrum_seconds, left_out)


def _compared(
    prepared: Prepared,
    spectrum: Spectrum | None,
    components: Components,
    method: str,
    random_state: Any,
) -> ComparedMethod:
    start = time.perf_counter()
    if method in ALL_METHODS:
        assert spectrum is not None
        embedding = embed_spectrum(
            prepared.gram,
            spectrum,
            components,
            method,
            squared=prepared.squared,
            labels=prepared.labels,
        )
    else:
        embedding = _beside(prepared, components, method, random_state)
    seconds = time.perf_counter() - start
    quality = measure(prepared.gram, embedding.coordinates, embedding.signs)
    return ComparedMethod(method, embedding, quality, seconds)


def _beside(
    prepared: Prepared, components: Components, method: str, random_state: Any
) -> Embedding:
    """Embed by another loss, by a correction of D, or by SMACOF."""
    if prepared.n > (most := COMPARED_UP_TO[method]):
        raise InputError(f"{prepared.n:,} objects take too long, more than {most:,}.")
    if method in REFINED_LOSSES:
        settings = RefineSettings(loss=REFINED_LOSSES[method])
        wanted = components.signature or components.total
        return fit(
            prepared, wanted, "refined", settings=settings, random_state=random_state
        ).embedding
    gram, k = _dense(prepared, method), components.total
    facts: dict[str, Any] = {
        "method": method,
        "requested": k,
        "squared": prepared.squared,
        "labels": prepared.labels,
    }
    if method == "smacof":
        found = smacof_solution(gram, k, random_state=random_state)
        return build_embedding(found, **facts)
    corrected = CORRECTIONS[method](gram.sq_dissimilarity, squared=True)
    own = DenseGram(corrected.sq_dissimilarity)
    classical = solve_for(own, Components(k), "classical", random_state=0)
    return replace(embed_spectrum(own, classical, Components(k), "classical"), **facts)


@dataclass(frozen=True, eq=False)
class StressCurves:
    """STRESS of every method at every k of a grid.

    Parameters
    ----------
    ks : tuple of int
    stress : dict of tuples of floats
        Method → STRESS at each k.
    sq_norm : float
        ‖D‖²_F, which normalises STRESS.
    turning_point : TurningPoint
        Where more coordinates begin to make classical MDS worse, over all k that the known
        eigenvalues allow.
    eigenvalues : ndarray
        Eigenvalues of B but the constant vector's zero, largest first: all n − 1 of up to 2000
        objects, of more those from both ends that the largest k needs.
    """

    ks: tuple[int, ...]
    stress: dict[str, tuple[float, ...]]
    sq_norm: float
    turning_point: TurningPoint
    eigenvalues: npt.NDArray[np.float64]

    def normalized(self, method: str) -> tuple[float, ...]:
        """STRESS as a share of ‖D‖²_F."""
        return tuple(value / self.sq_norm if self.sq_norm else 0.0 for value in self.stress[method])

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the eigenvalues by name."""
        return {
            "k": list(self.ks),
            "stress": {method: list(values) for method, values in self.stress.items()},
            "normalized_stress": {m: list(self.normalized(m)) for m in self.stress},
            "sq_norm": self.sq_norm,
            "classical": self.turning_point.as_dict(),
        }


def curve(
    D: Any,
    ks: Iterable[int] | None = None,
    methods: Sequence[str] = CLOSED_FORMS,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    max_memory: Limit = None,
    on_step: OnStep | None = None,
) -> StressCurves:
    """Compute STRESS against the number of coordinates, for several methods from one spectrum.

    Of more than 2000 objects only the eigenpairs that the largest k needs are computed.

    Parameters
    ----------
    D : as for `neuc_mds`, or Prepared
    ks : iterable of int, optional
        Numbers of coordinates; by default a grid up to 100, or n − 1 if that is less.
    methods : sequence of str
        The closed forms by default: "refined" takes longer.
    squared, symmetrize, max_memory
        As for `neuc_mds`.
    on_step : callable, optional
        Called with a few words before each longer piece of work.

    Returns
    -------
    StressCurves

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import curve
    >>> x = np.random.default_rng(0).uniform(size=(30, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> found = curve(D, ks=[2, 4, 8], methods=["classical", "neuc"])
    >>> found.turning_point.paradox  # more coordinates make classical MDS worse
    True

    Paper: fig:dim-paradox, fig:dim-para-all.
    """
    prepared = prepare(D, squared=squared, symmetrize=symmetrize, max_memory=max_memory)
    _refuse_weights(prepared, "curve")
    gram, tell = prepared.gram, on_step or _silent
    grid = spaced_ks(min(CURVE_TO, prepared.n - 1)) if ks is None else tuple(ks)
    sizes = [Components.parse(k, prepared.n) for k in grid]
    if not sizes or any(size.goal is not None for size in sizes):
        raise InputError(
            f"{option('ks', grid)} must be whole numbers of coordinates, at least one."
        )
    _check_methods(methods)
    largest = max(size.total for size in sizes)
    tell(_spectrum_ahead(gram, largest, on_step))
    if _takes_all(gram.n, largest):
        spectrum = full_spectrum(gram)
    else:
        spectrum = solve_for(gram, sizes, methods, solver="krylov", tol=1e-6, random_state=0)
    stress: dict[str, list[float]] = {method: [] for method in methods}
    for components in sizes:
        tell(f"k = {components.total}")
        for method in methods:
            embedding = embed_spectrum(gram, spectrum, components, method)
            stress[method].append(embedding.stress)
    return StressCurves(
        grid,
        {method: tuple(values) for method, values in stress.items()},
        gram.moments.sq_norm,
        classical_turning_point(gram, spectrum),
        spectrum.ends.values,
    )


def inspect(
    D: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    labels: Any = None,
    random_state: Any = 0,
    max_memory: Limit = None,
    on_step: OnStep | None = None,
) -> Inspection:
    """Find out what D is like before any embedding: Euclidean, metric, how many coordinates.

    Of more than 2000 objects the hundred largest eigenvalues are computed; what rests on the others
    is a bound or an estimate then, and `Inspection.complete` is False.

    Parameters
    ----------
    D : as for `neuc_mds`, or Prepared
    squared, symmetrize, labels, max_memory
        As for `neuc_mds`.
    random_state : int, RandomState or None
        Which objects are held out, and which triples drawn for the triangle inequality when there
        are too many.
    on_step : callable, optional
        Called with a few words before each longer piece of work.

    Returns
    -------
    Inspection

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import inspect
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> found = inspect(D)
    >>> found.euclidean, found.triangles.violated
    (False, 1)
    """
    prepared = prepare(
        D, squared=squared, symmetrize=symmetrize, labels=labels, max_memory=max_memory
    )
    _refuse_weights(prepared, "inspect")
    gram, tell = prepared.gram, on_step or _silent
    tell(_spectrum_ahead(gram, INSPECTED_PAIRS, on_step))
    spectrum = _outer_spectrum(gram)
    scan = None
    if gram.n >= LEAST_OBJECTS:
        tell("predicting objects held out, to suggest k")
        scan = _held_out_scan(gram, "auto", random_state)
    tell("examining pairs and triples")
    found = describe(gram, spectrum, scan, random_state=random_state)
    return replace(found, labels=prepared.labels)


def _takes_all(n: int, n_wanted: int) -> bool:
    """Tell whether all eigenvalues are computed: the fastest way, or cheap and exact in all."""
    return n <= FULL_UP_TO or 8 * n_wanted >= n


def _outer_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs, or of many objects the hundred of largest magnitude."""
    if _takes_all(gram.n, INSPECTED_PAIRS):
        return full_spectrum(gram)

    def rule(ends: Ends) -> Selection:
        by_size = np.argsort(-np.abs(ends.values), kind="stable")[:INSPECTED_PAIRS]
        # The lowest one decides whether D is Euclidean.
        kept = np.unique(np.r_[by_size, ends.size - 1] if ends.values[-1] < 0 else by_size)
        kept = kept[np.abs(ends.values[kept]) > ends.null_level]
        return Selection(kept, ends.values[kept])

    return solve(gram, rule, INSPECTED_PAIRS, tol=INSPECTED_TOL, random_state=0)


def _spectrum_ahead(gram: Gram, n_wanted: int, on_step: OnStep | None) -> str:
    """Say what is computed, and of many objects about how long it will take."""
    text = f"computing the spectrum of {gram.n:,} objects"
    if on_step is None or gram.n <= TIMED_FROM:
        return text
    _ = gram.moments  # a pass of its own, which is needed anyway
    full = _takes_all(gram.n, n_wanted)
    width = 400 if full else 16
    block = np.random.default_rng(0).normal(size=(width if full else gram.n, width))
    start = time.perf_counter()
    if full:
        np.linalg.eigh(block + block.T)
        share = (gram.n / width) ** 3
    else:
        gram.matmat(asarray_like(block, gram.diagonal()))
        share = (PRODUCTS_PER_PAIR * n_wanted + 200) / width
    seconds = (time.perf_counter() - start) * share
    return f"{text}, {_about(seconds)}"


def _about(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} minutes"


def evaluate(
    embedding: Embedding,
    D: Any,
    *,
    squared: bool | None = None,
    symmetrize: bool = False,
    missing: Literal["error", "ignore"] = "error",
    max_memory: Limit = None,
) -> Quality:
    """Measure an embedding against D by every measure of `neucmds.metrics.Quality`.

    Parameters
    ----------
    embedding : Embedding
    D : as for `neuc_mds`, or Prepared
        Objects in the order of the embedding.
    squared : bool, optional
        Whether D holds squared dissimilarities; by default as in the fit.
    symmetrize, max_memory
        As for `neuc_mds`.
    missing : {"error", "ignore"}, default="error"
        "ignore": pairs that are NaN in D are left out of every measure.

    Returns
    -------
    Quality

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import evaluate, neuc_mds
    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> D = np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(-1))
    >>> quality = evaluate(neuc_mds(D, 3), D)
    >>> round(quality.r2, 6), quality.neighbors_kept
    (1.0, 1.0)
    """
    prepared = prepare(
        D,
        1,
        squared=embedding.squared if squared is None else squared,
        symmetrize=symmetrize,
        missing=missing,
        max_memory=max_memory,
    )
    if prepared.n != embedding.n:
        raise InputError(
            f"D has {prepared.n} objects, but the embedding has {embedding.n}; pass the D that was "
            "embedded."
        )
    return measure(prepared.gram, embedding.coordinates, embedding.signs, weights=prepared.weights)


def embed_pairs(
    pairs: Pairs,
    n_components: NComponents,
    squared: bool,
    settings: RefineSettings,
    start: Place | None = None,
    random_state: Any = None,
) -> Embedding:
    """Embed objects of which some pairs are known: no n × n array, O(m·k) for m pairs.

    Parameters
    ----------
    pairs : Pairs
    n_components, squared, random_state
        As for `neuc_mds`.
    settings : RefineSettings
    start : Place, optional
        Where to start; by default landmarks are embedded by shortest paths over the known pairs,
        and all objects placed among them.
    """
    components = Components.parse(n_components, pairs.n)
    check_pairs(pairs, components.total)
    if start is None:
        rng = check_random_state(random_state)
        wanted = min(pairs.n, max(100, 5 * components.total))
        landmarks = np.sort(rng.permutation(pairs.n)[:wanted])
        rows = shortest_path_rows(as_graph(pairs.graph()), landmarks)
        start = _placed_among(landmarks, rows.T, components, rng)
    found = refine_pairs(
        pairs,
        to_numpy(start.coordinates),
        start.signs,
        settings.loss,
        max_iter=settings.max_iter or 200,
        tol=2e-3 if settings.tol is None else settings.tol,
        callback=settings.callback,
    )
    return build_embedding(
        from_pairs(found, pairs),
        method="refined",
        requested=components.total,
        squared=squared,
        labels=pairs.labels,
    )


def embed_graph(
    graph: Any,
    n_components: NComponents,
    settings: RefineSettings,
    n_pairs: int | None = None,
    random_state: Any = None,
) -> Embedding:
    """Embed the nodes of a graph from shortest paths between about `n_pairs` pairs a node.

    Parameters
    ----------
    graph : sparse array of shape (n, n)
        Lengths of edges; undirected and connected.
    n_components, random_state
        As for `neuc_mds`.
    settings : RefineSettings
    n_pairs : int, optional
        Pairs a node takes part in; 16 for each coordinate by default.
    """
    edges = as_graph(graph)
    components = Components.parse(n_components, int(edges.shape[0]))
    sizes = Sizes.of(n_pairs or max(100, 16 * components.total), int(edges.shape[0]))
    sample = graph_pairs(
        edges,
        n_landmarks=sizes.n_landmarks,
        n_near=sizes.n_near,
        n_ring=sizes.n_ring,
        random_state=random_state,
    )
    rng = check_random_state(random_state)
    start = _placed_among(sample.landmarks, sample.to_landmarks, components, rng)
    wanted = components.signature or components.total
    return embed_pairs(sample.pairs, wanted, False, settings, start, random_state)


def _placed_among(
    landmarks: npt.NDArray[np.intp],
    to_landmarks: npt.NDArray[np.float64],
    components: Components,
    rng: np.random.RandomState,
) -> Place:
    """Embed landmarks by the squared loss and place all objects among them: a start."""
    among = to_landmarks[landmarks] ** 2
    among = (among + among.T) / 2
    wanted = components.signature or components.total
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FewerComponentsWarning)
        embedding, _ = embed_landmarks(among, wanted, rng=rng, squared=True, random_state=rng)
    assert embedding.placement is not None
    x = to_numpy(embedding.placement.place(to_landmarks**2))
    return Place(x, to_numpy(embedding.signs).astype(np.float64))


def _refuse_for_pairs(method: str, weights: Any, missing: str) -> None:
    if method != "refined":
        raise InputError(
            f"a list of pairs needs {option('method', 'refined')}, not {method!r}: closed forms "
            "need every pair; pass D.toarray() if what is not stored is zero."
        )
    if weights is not None:
        raise InputError("a list of pairs carries its weights itself, in a fourth column.")


def embed_landmarks(
    sq_dissimilarity: Array,
    n_components: NComponents,
    method: str = DEFAULT_METHOD,
    placement: str = "auto",
    *,
    rng: np.random.RandomState,
    **settings: Any,
) -> tuple[Embedding, Recipe | None]:
    """Embed landmarks, with the rule that places others among them.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    n_components, method
        As for `neuc_mds`.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses the ridge, the offsets and, for "neuc", the signature by cross-validation;
        "least_squares" has neither ridge nor offsets; "linear" is plain triangulation.
    rng : RandomState
        Draws the folds.
    **settings
        Handed to `neuc_mds`.

    Returns
    -------
    embedding : Embedding
        Of the landmarks; its `placement` is the rule.
    recipe : Recipe or None
        How the rule was made; None for "linear".
    """

    def fit(part: Array, wanted: int | tuple[int, int], method: str) -> Embedding:
        return neuc_mds(DenseGram(np.ascontiguousarray(part)), wanted, method, **settings)

    components = Components.parse(n_components, sq_dissimilarity.shape[0])
    if components.goal is not None:
        # The landmarks are few, and chosen for all: what they need is what all need.
        found = neuc_mds(DenseGram(sq_dissimilarity), n_components, method, **settings)
        components = Components(found.requested)
    wanted = components.signature or components.total
    if placement == "linear":
        embedding = fit(sq_dissimilarity, wanted, method)
        return replace(embedding, placement=linear_rule(sq_dissimilarity, embedding)), None
    recipe = Recipe(0.0, False, wanted)
    if placement == "auto" and settings.get("loss", "squared") == "squared":
        recipe = cross_validated(sq_dissimilarity, wanted, method, rng, fit)
    embedding = fit(sq_dissimilarity, recipe.n_components, method)
    if settings.get("loss", "squared") != "squared":
        return embedding, recipe  # which places by the loss it was fitted with
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe


def solve_for(
    gram: Gram,
    components: Components | Sequence[Components],
    methods: str | Sequence[str],
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
) -> Spectrum:
    """Compute the eigenpairs that a method selects from, or each of several, for one or several k.

    Parameters are those of `neuc_mds`.
    """
    sizes = [components] if isinstance(components, Components) else list(components)
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    _check_methods(names)
    check_tolerance(tol)
    if names == ("refined",):
        # It sets out from eigenvectors and leaves them: starts from residuals of 1e-3 end where
        # exact ones do.
        tol = max(tol, 1e-3)
    wanted = [METHODS.get(name, union) for name in names]
    if names == ("refined",) and gram.n > MAX_DENSE:
        wanted = [neuc_plus]

    def rule(ends: Ends) -> Selection:
        chosen = [select(ends, size) for select in wanted for size in sizes]
        if len(chosen) == 1:
            return chosen[0]
        kept = np.unique(np.concatenate([selection.kept for selection in chosen]))
        return Selection(kept, ends.values[kept])

    return solve(
        gram,
        rule,
        max(size.total for size in sizes),
        solver=solver,
        tol=tol,
        random_state=random_state,
        spare=any(name not in METHODS for name in names),
    )


def whole_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs: they serve every method and every k."""
    return full_spectrum(gram)


def embed_spectrum(
    gram: Gram,
    spectrum: Spectrum,
    components: Components,
    method: str,
    *,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
    settings: RefineSettings | None = None,
) -> Embedding:
    """Embed from a spectrum that is already there: one solve serves every method and every k.

    Parameters are those of `neuc_mds`; `settings` are for "refined".
    """
    facts: dict[str, Any] = {
        "method": method,
        "requested": components.total,
        "squared": squared,
        "labels": labels,
    }
    asked_for = components.signature is not None
    if method == "refined" and (asked_for or neuc_plus(spectrum.ends, components).k):
        refined = best_refined(gram, spectrum, components, settings or RefineSettings())
        solution = from_refinement(gram, spectrum, refined, components.total)
        return build_embedding(solution, **facts)
    if method in ("exact", "refined"):
        selection = exact_selection(spectrum, gram.diagonal(), components)
    else:
        selection = METHODS[method](spectrum.ends, components)
    solution = from_selection(gram, spectrum, selection, components.total)
    return build_embedding(solution, **facts)


def _free_coordinates(
    prepared: Prepared,
    components: Components,
    method: str,
    solve: Callable[[Gram, Components, str], Spectrum],
    settings: RefineSettings,
    start: Place | None,
    random_state: Any,
) -> Solution:
    """Refine where there is no closed form to begin with: weights, gaps, other losses, a start."""
    _check_methods((method,))
    if method != "refined":
        raise InputError(
            f"weights and missing entries need {option('method', 'refined')}, not {method!r}: the "
            "closed forms count every pair alike."
        )
    if settings.loss != "squared":
        return _least_loss(prepared, components, solve, settings, start, random_state)
    limits: dict[str, Any] = {
        "max_iter": settings.most_iterations,
        "tol": settings.least_gain,
        "callback": settings.callback,
    }
    if prepared.weights is None:
        assert start is not None
        refined = refine(prepared.gram, start.coordinates, start.signs, **limits)
        return from_refinement(prepared.gram, None, refined, components.total)
    d = _dense(prepared, "weights").sq_dissimilarity
    if start is not None:
        x = asarray_like(start.coordinates, d, dtype=prepared.gram.xp.float64)
        signs = asarray_like(start.signs, x)
        return from_weighted(refine_weighted(d, prepared.weights, x, signs, **limits))
    found = complete_and_refine(
        d,
        prepared.weights,
        components,
        solve=lambda gram, wanted: solve(gram, wanted, "neuc+"),
        climb=bool(settings.climb),
        random_state=random_state,
        **limits,
    )
    return from_weighted(found)


def _least_loss(
    prepared: Prepared,
    components: Components,
    solve: Callable[[Gram, Components, str], Spectrum],
    settings: RefineSettings,
    start: Place | None,
    random_state: Any,
) -> Solution:
    gram = _dense(prepared, f"loss={settings.loss!r}")
    found = refine_for_loss(
        gram.sq_dissimilarity,
        components,
        settings.loss,
        solve=solve,
        start=start,
        weights=prepared.weights,
        n_init=settings.n_init,
        climb=settings.climb,
        max_iter=500 if settings.max_iter is None else settings.max_iter,
        tol=settings.tol,
        random_state=random_state,
        callback=settings.callback,
    )
    return from_loss(gram, found, prepared.weights)


def _dense(prepared: Prepared, what: str) -> DenseGram:
    if isinstance(prepared.gram, DenseGram):
        return prepared.gram
    raise InputError(
        f"{what} needs all of D in memory, and D of {prepared.n} objects is read or computed in "
        f"blocks; use {option('loss', 'squared')}, or LandmarkNeucMDS, which takes any loss."
    )


def _solve_roughly(
    gram: Gram, components: Components, method: str, *, solver: str, tol: float
) -> Spectrum:
    """Compute eigenpairs to start from: the descent that follows mends far more than 1e-3."""
    return solve_for(gram, components, method, solver=solver, tol=max(tol, 1e-3), random_state=0)


def _signature_of(start: Place, n_components: NComponents) -> tuple[int, int]:
    """Return the signature of a warm start, which is not to contradict what is asked for."""
    signature = start.signature
    # 2 is the default, and says nothing.
    if n_components not in (None, 2, signature, sum(signature)):
        raise InputError(
            f"{option('init')} has {signature[0]} positive and {signature[1]} negative "
            f"coordinates, not {option('n_components', n_components)}; leave the latter out."
        )
    return signature


def _refuse_without_refinement(method: str, settings: RefineSettings, start: Place | None) -> None:
    """Refuse what only "refined" can obey."""
    if method == "refined":
        if settings.loss == "squared" and settings.n_init not in (None, 1):
            raise InputError(
                f"{option('n_init', settings.n_init)} is for the losses with several valleys; "
                f"{option('loss', 'squared')} starts once, from eigenvectors."
            )
        return
    if settings.loss != "squared":
        raise InputError(
            f"{option('loss', settings.loss)} needs {option('method', 'refined')}, not "
            f"{method!r}: closed forms minimise the squared loss, or a bound of it."
        )
    if start is not None:
        raise InputError(f"{option('init')} needs {option('method', 'refined')}, not {method!r}.")


def _check_arguments(
    D: Any, n_components: NComponents, method: str, solver: str, tol: float, random_state: Any
) -> None:
    """Refuse what is wrong before D is touched: with ``copy=False`` a second try would be late."""
    _check_methods((method,))
    check_solver(solver)
    check_tolerance(tol)
    _check_seed(random_state)
    # Only a matrix can be overwritten; dask's sizes may be NaN, and are refused elsewhere.
    shape: Any = getattr(D, "shape", ())
    if is_array(D) and not is_dask(D) and len(shape) == 2:
        Components.parse(n_components, max(2, int(shape[0])))


def _check_seed(random_state: Any) -> None:
    if isinstance(random_state, np.random.Generator):
        return
    try:
        check_random_state(random_state)
    except ValueError as problem:
        raise InputError(
            f"{option('random_state', random_state)} cannot seed a generator; pass a whole number, "
            "a RandomState, a Generator or None."
        ) from problem


def _check_methods(names: Sequence[str]) -> None:
    for name in names:
        if name not in ALL_METHODS:
            raise InputError(
                f"{option('method', name)} is unknown; choose one of {', '.join(ALL_METHODS)}."
            )


def _refuse_weights(prepared: Prepared, what: str, instead: str = "use neuc_mds") -> None:
    if prepared.weights is not None:
        raise InputError(f"{what} needs every pair of D, without weights; {instead}.")


def _silent(_: str) -> None:
    """Tell nobody."""


def warn_of_surprises(embedding: Embedding) -> None:
    """Issue a warning for each surprise that the fields of the result hold."""
    # Two frames up: the caller of `neuc_mds`.
    if not embedding.converged:
        warnings.warn(_unconverged(embedding), ConvergenceWarning, stacklevel=3)
    if embedding.k == embedding.requested:
        return
    returned = f"{embedding.k} of {embedding.requested} coordinates are returned: "
    if embedding.hidden_below:
        warnings.warn(
            returned + f"beside the largest one, eigenvalues below {embedding.hidden_below:.2g} "
            "cannot be told from rounding; look for huge entries in D, and correct them or treat "
            "them as missing.",
            PrecisionWarning,
            stacklevel=3,
        )
        return
    if embedding.method in ("classical", "lower"):
        warnings.warn(
            f"{returned}{option('method', embedding.method)} keeps positive eigenvalues only, and "
            "no more of them can be used; 'neuc+' and 'exact' keep negative ones too.",
            NonEuclideanWarning,
            stacklevel=3,
        )
    else:
        why = (
            "another one of the signs asked for does not lower the STRESS."
            if embedding.method == "refined"
            else "the other eigenvalues are zero, of the sign not asked for, or left without "
            "weight by the shift of 'neuc+'."
        )
        warnings.warn(returned + why, FewerComponentsWarning, stacklevel=3)


def _unconverged(embedding: Embedding) -> str:
    if embedding.history:
        return (
            "refinement was still gaining when it was stopped (relative gradient "
            f"{embedding.relative_gradient:.2g}); raise {option('max_iter')}."
        )
    worst = float(max(embedding.residuals))
    return (
        f"the {embedding.solver} solver did not reach its tolerance (largest residual "
        f"{worst:.2g}); raise {option('tol')}, or use {option('solver', 'full')}."
    )
