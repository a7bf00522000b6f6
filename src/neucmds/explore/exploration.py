"""`diagnose`, `stress_curve` and `evaluate`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.explore.comparison import REFINED_LOSSES, embed_by_loss
from neucmds.explore.diagnostics import (
    Diagnosis,
    TurningPoint,
    classical_turning_point,
    describe,
)
from neucmds.explore.metrics import Quality, measure
from neucmds.fitting import embed_spectrum, solve_for
from neucmds.goals import held_out_scan
from neucmds.options import CLOSED_FORMS, Callback, as_seed, check_methods, notify
from neucmds.place.dimension import LEAST_OBJECTS
from neucmds.prepared import prepare, refuse_weights
from neucmds.problem.components import Components, spaced_ks
from neucmds.problem.names import ordered_by_name
from neucmds.spectrum.krylov import solve
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import Selection
from neucmds.spectrum.spectrum import Ends, Spectrum, full_spectrum

__all__ = ["CURVE_TO", "StressCurves", "stress_curve", "evaluate", "diagnose"]

# Largest k of a curve unless the caller says otherwise.
CURVE_TO = 100
# Up to here `diagnose` and `stress_curve` compute all eigenvalues (2 s), of more objects the
# largest, to a tolerance for which single precision suffices: errors of λ are its square.
FULL_UP_TO = 2000
INSPECTED_PAIRS = 100
INSPECTED_TOL = 1e-5


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


def stress_curve(
    D: Any,
    ks: Iterable[int] | None = None,
    methods: Sequence[str] = CLOSED_FORMS,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    curvature: float | Literal["auto"] = 0.0,
    callback: Callback | None = None,
) -> StressCurves:
    """Compute STRESS against the number of coordinates, for several methods from one spectrum.

    Of more than 2000 objects only the eigenpairs that the largest k needs are computed.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    ks : iterable of int, optional
        Numbers of coordinates; by default a grid up to 100, or n − 1 if that is less.
    methods : sequence of str
        The closed forms by default. "refined" takes longer, "refined/distance" and
        "refined/relative", the other losses, longer still.
    squared, symmetrize
        As for `neuc_mds`.
    curvature : float or "auto", default=0
        Of "refined/distance" and "refined/relative", as for `neuc_mds`; "auto" at every k.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    StressCurves

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import stress_curve
    >>> x = np.random.default_rng(0).uniform(size=(30, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> found = stress_curve(D, ks=[2, 4, 8], methods=["classical", "neuc"])
    >>> found.turning_point.paradox  # more coordinates make classical MDS worse
    True

    Paper: fig:dim-paradox, fig:dim-para-all.
    """
    prepared = prepare(D, squared=squared, symmetrize=symmetrize, callback=callback)
    refuse_weights(prepared, "stress_curve")
    gram = prepared.gram
    grid = spaced_ks(min(CURVE_TO, prepared.n - 1)) if ks is None else tuple(ks)
    sizes = [Components.parse(k, prepared.n) for k in grid]
    if not sizes or any(size.goal is not None for size in sizes):
        raise InputError(
            f"{option('ks', grid)} must be whole numbers of coordinates, at least one."
        )
    shared = [method for method in methods if method not in REFINED_LOSSES]
    check_methods(shared)
    largest = max(size.total for size in sizes)
    notify(callback, f"computing the spectrum of {gram.n:,} objects")
    if _takes_all(gram.n, largest):
        spectrum = full_spectrum(gram)
    else:
        wanted = shared or ("classical",)
        spectrum = solve_for(gram, sizes, wanted, solver="krylov", tol=1e-6, random_state=0)
    stress: dict[str, list[float]] = {method: [] for method in methods}
    for components in sizes:
        notify(callback, f"k = {components.total}")
        for method in methods:
            if method in shared:
                embedding = embed_spectrum(prepared, spectrum, components, method)
            else:
                embedding = embed_by_loss(prepared, components, method, curvature)
            stress[method].append(embedding.stress)
    return StressCurves(
        grid,
        {method: tuple(values) for method, values in stress.items()},
        gram.moments.sq_norm,
        classical_turning_point(gram, spectrum),
        spectrum.values,
    )


def diagnose(
    D: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Diagnosis:
    """Find out what D is like before any embedding: Euclidean, metric, how many coordinates.

    Of more than 2000 objects the hundred largest eigenvalues are computed; what rests on the others
    is a bound or an estimate then, and `Diagnosis.complete` is False.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    squared, symmetrize
        As for `neuc_mds`.
    random_state : int, RandomState, Generator or None
        As for `neuc_mds`: which objects are held out, and which triples drawn for the triangle
        inequality when there are too many.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import diagnose
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> found = diagnose(D)
    >>> found.euclidean, found.triangles.violated
    (False, 1)
    """
    random_state = as_seed(random_state)
    prepared = prepare(D, squared=squared, symmetrize=symmetrize, callback=callback)
    refuse_weights(prepared, "diagnose")
    gram = prepared.gram
    notify(callback, f"computing the spectrum of {gram.n:,} objects")
    spectrum = _outer_spectrum(gram)
    scan = None
    if gram.n >= LEAST_OBJECTS:
        notify(callback, "predicting objects held out, to suggest k")
        scan = held_out_scan(gram, random_state)
    notify(callback, "examining pairs and triples")
    found = describe(gram, spectrum, scan, random_state=random_state)
    return replace(found, labels=prepared.labels)


def evaluate(
    embedding: Embedding,
    D: Any,
    *,
    squared: bool | None = None,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
) -> Quality:
    """Measure an embedding against D by every measure of `neucmds.explore.metrics.Quality`.

    Parameters
    ----------
    embedding : Embedding
    D : as for `neuc_mds`, or Dense
        Objects in the order of the embedding.
    squared : bool, optional
        Whether D holds squared dissimilarities; by default as in the fit.
    symmetrize
        As for `neuc_mds`.
    weights : array of shape (n, n), optional
        As for `neuc_mds`. Pairs of weight zero are left out of every measure. Sums over pairs are
        weighted, so that the STRESS and R² are those of a fit with these weights: `stress`,
        `normalized_stress`, `r2`, `scaled_additive_error`, `raw_stress`, `stress1` and `stress_1`.
        Relative errors, distortion and neighbours count all other pairs alike.
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
    if not isinstance(embedding, Embedding):
        raise InputError(
            f"the first argument is a {type(embedding).__name__}; call evaluate(embedding, D)."
        )
    if embedding.labels is not None:  # D itself may have no names
        weights = ordered_by_name(weights, embedding.labels, "weights", rows=True)
    prepared = prepare(
        D,
        1,
        squared=embedding.squared if squared is None else squared,
        symmetrize=symmetrize,
        weights=weights,
        missing=missing,
    )
    if prepared.n != embedding.n:
        raise InputError(
            f"D has {prepared.n} objects, but the embedding has {embedding.n}; pass the D that was "
            "embedded."
        )
    if None not in (prepared.labels, embedding.labels) and prepared.labels != embedding.labels:
        raise InputError(
            "the objects of D have other names than those of the embedding, or another order; pass "
            "D in the order of its labels."
        )
    return measure(**prepared.beside(embedding))


def _outer_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs, or of many objects the hundred of largest magnitude."""
    if _takes_all(gram.n, INSPECTED_PAIRS):
        return full_spectrum(gram)

    def rule(ends: Ends) -> Selection:
        by_size = np.argsort(-np.abs(ends.values), kind="stable")[:INSPECTED_PAIRS]
        # The lowest one decides whether D is Euclidean.
        kept = np.unique(np.r_[by_size, ends.values.size - 1] if ends.values[-1] < 0 else by_size)
        kept = kept[np.abs(ends.values[kept]) > ends.null_level]
        return Selection(kept, ends.values[kept])

    return solve(gram, rule, INSPECTED_PAIRS, tol=INSPECTED_TOL, random_state=0)


def _takes_all(n: int, n_wanted: int) -> bool:
    """Tell whether all eigenvalues are computed: the fastest way, or cheap and exact in all."""
    return n <= FULL_UP_TO or 8 * n_wanted >= n
