"""`compare`: several methods on one D."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import cailliez, lingoes
from neucmds.embedding import Embedding, build_embedding
from neucmds.errors import InputError, option
from neucmds.explore.metrics import Quality, measure
from neucmds.fitting import embed_spectrum, fit, solve_for
from neucmds.goals import fit_chosen
from neucmds.options import ALL_METHODS, Callback, Options, as_seed, notify
from neucmds.prepared import dense_gram, prepare
from neucmds.problem.components import Components, NComponents
from neucmds.problem.dense import Dense
from neucmds.refine.solution import smacof_solution
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.spectrum import Spectrum

__all__ = ["COMPARED", "ComparedMethod", "Comparison", "compare"]

# Other losses and other common methods.
REFINED_LOSSES = {"refined/distance": "distance", "refined/relative": "relative"}
CORRECTIONS = {"cailliez": cailliez, "lingoes": lingoes}
COMPARED = (*ALL_METHODS, *REFINED_LOSSES, *CORRECTIONS, "smacof")
# Most objects of each: about half a minute on one core.
COMPARED_UP_TO = {name: 2000 for name in COMPARED if name not in ALL_METHODS} | {"smacof": 1000}


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
    weights: Any = None,
    curvature: float | Literal["auto"] = 0.0,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Comparison:
    """Embed D by several methods from one spectrum, and measure each result against D.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    n_components : int, (int, int), float, "auto" or None
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
    random_state = as_seed(random_state)
    prepared = prepare(
        D,
        n_components,
        squared=squared,
        symmetrize=symmetrize,
        weights=weights,
        keep_copy="refined" in methods,
        callback=callback,
    )
    components = Components.parse(n_components, prepared.n)
    if components.goal is not None:
        components = _chosen_for_all(prepared, components.goal, random_state)
    unknown = [name for name in methods if name not in COMPARED]
    if unknown or not methods:
        raise InputError(
            f"{option('methods', unknown)} is unknown; choose from {', '.join(COMPARED)}."
        )
    left_out: dict[str, str] = {}
    weights = prepared.weights
    if weights is not None and np.count_nonzero(to_numpy(weights)) < prepared.n * (prepared.n - 1):
        names = [name for name in methods if not name.startswith("refined")]
        left_out = dict.fromkeys(names, "It needs every pair, and some pairs have weight zero.")
    methods = [name for name in methods if name not in left_out]
    shared = [name for name in methods if name in ALL_METHODS]
    start, spectrum = time.perf_counter(), None
    if shared:
        notify(callback, f"computing the spectrum of {prepared.n:,} objects")
        spectrum = solve_for(prepared.gram, components, shared, random_state=random_state)
    spectrum_seconds = time.perf_counter() - start
    rows = []
    for method in methods:
        notify(callback, method)
        start = time.perf_counter()
        try:
            embedding = _embedded(prepared, spectrum, components, method, curvature, random_state)
        except InputError as problem:
            if method in ALL_METHODS:
                raise
            left_out[method] = str(problem)
            continue
        seconds = time.perf_counter() - start
        quality = measure(**prepared.beside(embedding))
        rows.append(ComparedMethod(method, embedding, quality, seconds))
    return Comparison(prepared.n, components.total, tuple(rows), spectrum_seconds, left_out)


def _embedded(
    prepared: Dense,
    spectrum: Spectrum | None,
    components: Components,
    method: str,
    curvature: float | Literal["auto"],
    random_state: Any,
) -> Embedding:
    """Embed by one of `COMPARED`."""
    if prepared.n > (most := COMPARED_UP_TO.get(method, prepared.n)):
        raise InputError(f"{prepared.n:,} objects take too long; at most {most:,} are compared.")
    if method in REFINED_LOSSES or (method == "refined" and prepared.weights is not None):
        return embed_by_loss(prepared, components, method, curvature, random_state)
    if spectrum is not None and method in ALL_METHODS:
        return embed_spectrum(prepared, spectrum, components, method)
    gram, k = dense_gram(prepared, method), components.total
    if method == "smacof":
        found = smacof_solution(gram, k, random_state=random_state)
        return build_embedding(found, method, k, prepared.squared, prepared.labels)
    own = replace(prepared, gram=corrected(gram, method)[0])
    classical = solve_for(own.gram, Components(k), "classical", random_state=0)
    return replace(embed_spectrum(own, classical, Components(k), "classical"), method=method)


def corrected(gram: DenseGram, correction: str) -> tuple[DenseGram, float]:
    """Make a D Euclidean by one of `CORRECTIONS`, and return it with the constant."""
    found = CORRECTIONS[correction](gram.sq_dissimilarity, squared=True)
    return DenseGram(found.sq_dissimilarity), found.constant


def embed_by_loss(
    prepared: Dense,
    components: Components,
    method: str,
    curvature: float | Literal["auto"],
    random_state: Any = 0,
) -> Embedding:
    """Embed by "refined", or by one of `REFINED_LOSSES`."""
    loss: dict[str, Any] = {}
    if method in REFINED_LOSSES:
        loss = {"loss": REFINED_LOSSES[method], "curvature": curvature}
    wanted = components.signature or components.total
    options = Options(wanted, random_state=random_state, **loss)
    return fit(prepared, options).embedding


def _chosen_for_all(prepared: Dense, goal: float | str, random_state: Any) -> Components:
    """Choose one number of coordinates for several methods: as "neuc+" would."""
    options = Options(goal, "neuc+", random_state=random_state)
    return Components(fit_chosen(prepared, options).embedding.requested)
