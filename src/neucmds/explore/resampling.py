"""`bootstrap` and `stress_test`: fits of resampled and permuted D."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import squareform

from neucmds.backend.arrays import Floats, Indices, to_floats, to_numpy
from neucmds.dense_fit import fit
from neucmds.ecology import PermutationTest
from neucmds.ecology.permutation import check_permutations, p_value
from neucmds.embedding import Embedding, procrustes
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.explore.quality import options_of
from neucmds.fit import embed
from neucmds.options import Callback, Options
from neucmds.prepared import dense_gram, prepare, refuse_weights
from neucmds.problem.components import N_COMPONENTS
from neucmds.problem.dense import Dense
from neucmds.problem.names import Labels, order_of
from neucmds.problem.validation import check_count
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import RELATIVE
from neucmds.spectrum.operators.dense import DenseGram

# Options of `neuc_mds` that fits of replicates can have: their D is in memory, every pair known.
FIT_OPTIONS: tuple[str, ...] = (
    "method",
    "loss",
    "ties",
    "floor",
    "curvature",
    "tol",
    "max_iter",
    "n_init",
)


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Coordinates of replicates, each aligned with the embedding of D.

    Parameters
    ----------
    embedding : Embedding
        The embedding of D.
    clouds : ndarray of shape (replicates, n, k)
        Coordinates of the replicates, aligned by isometries of O(p, q).
    """

    embedding: Embedding
    clouds: Floats

    @property
    def covariances(self) -> Floats:
        """Covariance of the coordinates of each object over the replicates; shape (n, k, k)."""
        deviations = self.clouds - self.clouds.mean(axis=0)
        sums: Floats = np.einsum("bia,bic->iac", deviations, deviations)
        return sums / max(1, len(deviations) - 1)

    @property
    def spread(self) -> Floats:
        """Root mean square displacement of each object in the plot; shape (n,)."""
        moves = self.clouds - to_numpy(self.embedding.coordinates)
        sq_lengths = np.sum(moves**2, axis=2)
        return np.asarray(np.sqrt(sq_lengths.mean(axis=0)))


def bootstrap(
    D: Any,
    n_components: Any = N_COMPONENTS,
    n_boot: int = 100,
    *,
    resample: Literal["bootstrap", "jackknife"] | Iterable[Any] = "bootstrap",
    squared: bool = False,
    symmetrize: bool = False,
    embedding: Embedding | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    **options: Any,
) -> Bootstrap:
    """Embed resampled D, and align the results with the embedding of D.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
        It must fit in memory, with every pair known.
    n_components, squared, symmetrize, random_state
        As for `neuc_mds`; replicates have the signature, the curvature κ and the floor of the
        embedding of D.
    n_boot : int, default=100
        Number of bootstrap replicates.
    resample : {"bootstrap", "jackknife"} or iterable of D, default="bootstrap"
        "bootstrap" draws n objects with replacement, and places the others by
        `Embedding.transform`. "jackknife" leaves out each object in turn and places it; R's
        ``smacof::jackmds`` does not place it. Or your own replicates of D, for example of resampled
        species or raters, as ``smacof::bootmds``.
    embedding : Embedding, optional
        An embedding of D to use: `n_components`, method, loss, floor and curvature are then its
        own, and of the options only ``tol`` and ``max_iter`` may be given. Objects are matched by
        name, where both have names.
    callback : callable, optional
        Called before each replicate with its number, their total if known, and a few words.
    **options
        method, loss, ties, floor, curvature, tol, max_iter and n_init of `neuc_mds`. "refined"
        starts each replicate from the embedding of D.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import bootstrap
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> D = np.abs(x[:, None] - x).sum(axis=2)
    >>> replicates = bootstrap(D, 3, n_boot=10)
    >>> replicates.clouds.shape, bool(replicates.spread.max() < D.max())
    ((10, 20, 3), True)
    """
    _check_options(options, embedding)
    problem, sq_d = _dense(D, "bootstrap", squared, symmetrize)
    fit_options, reference, sq_d = _reference(
        problem, sq_d, embedding, n_components, random_state, options
    )
    names = reference.labels or problem.labels
    # For each, the objects to embed, and D (n, n), whose other rows place the other objects.
    replicates: Iterator[tuple[Indices, Floats]]
    total = None
    if not isinstance(resample, str):
        replicates = _user_replicates(
            reference.n, names, resample, squared, symmetrize
        )
    elif problem.n < reference.k + 3:
        raise InputError(
            f"{problem.n} objects are too few to leave some out of {reference.k} coordinates."
        )
    elif resample == "bootstrap":
        check_count(n_boot=n_boot)
        reference.form.refuse_copies(f"pass {option('resample', 'jackknife')}")
        total = n_boot
        replicates = _bootstrap_replicates(
            sq_d, n_boot, reference.k, fit_options.random_state
        )
    elif resample == "jackknife":
        total = problem.n
        objects = np.arange(total)
        replicates = ((np.delete(objects, i), sq_d) for i in objects)
    else:
        raise InputError(
            f"{option('resample', resample)} must be 'bootstrap' or 'jackknife'."
        )
    clouds = []
    for step, (ids, replicate) in enumerate(replicates):
        if callback is not None:
            callback(step, total, "replicates")
        clouds.append(_cloud(reference, fit_options, ids, replicate))
    return Bootstrap(reference, np.stack(clouds))


def _bootstrap_replicates(
    sq_d: Floats, n_boot: int, k: int, seed: Any
) -> Iterator[tuple[Indices, Floats]]:
    """Yield objects drawn with replacement, enough different ones for k coordinates, and D."""
    n = len(sq_d)
    rng = np.random.default_rng(seed)
    for _ in range(n_boot):
        ids = rng.integers(n, size=n)
        while np.unique(ids).size < k + 2:
            ids = rng.integers(n, size=n)
        yield ids, sq_d


def _user_replicates(
    n: int,
    names: Labels,
    replicates: Iterable[Any],
    squared: bool,
    symmetrize: bool,
) -> Iterator[tuple[Indices, Floats]]:
    """Yield the numbers of all n objects, and a user's D with objects in the order of `names`."""
    for replicate in replicates:
        problem, sq_d = _dense(replicate, "bootstrap", squared, symmetrize)
        if problem.n != n:
            raise InputError(
                f"a replicate has {problem.n} objects, but D has {n}."
            )
        ordered = _in_order(sq_d, problem.labels, names, "rows of a replicate")
        yield np.arange(n), ordered


def _in_order(
    sq_d: Floats, names: Labels, wanted: Labels, what: str
) -> Floats:
    """Return D in the order of the names wanted; as it is if either has no names."""
    if names is None or wanted is None:
        return sq_d
    order = order_of(names, wanted, what)
    return sq_d[np.ix_(order, order)]


def _cloud(
    reference: Embedding, options: Options, ids: Indices, sq_d: Floats
) -> Floats:
    """Return coordinates (n, k): embed the objects `ids`, place the others, and align them all.

    They are aligned with the reference, the embedding of D.
    """
    x = to_floats(reference.coordinates)
    # The start hands on the form of the reference. A curvature among the options, in units of the
    # mean distance, would be another one in every replicate.
    start = None
    if reference.method == "refined":
        start = Configuration(x[ids], reference.form.in_numpy())
    options = replace(
        options,
        n_components=reference.signature,
        init=start,
        n_init=None,
        floor=options_of(reference).floor,
        curvature=0.0,
    )
    others = np.setdiff1d(np.arange(reference.n), ids)
    replicate = _fit_squares(sq_d[np.ix_(ids, ids)], options)
    coordinates = np.empty((reference.n, replicate.k))
    coordinates[ids] = to_numpy(replicate.coordinates)
    if others.size:
        placed = replicate.transform(sq_d[np.ix_(others, ids)])
        coordinates[others] = to_numpy(placed)
    replicate = replace(replicate, coordinates=coordinates)
    alignment = procrustes(reference.unnamed, replicate, scaling=False)
    k = sum(reference.signature)
    aligned = np.empty_like(x)
    # `procrustes` centers its result.
    aligned[:, :k] = alignment.coordinates[:, :k] + x[:, :k].mean(axis=0)
    # Columns of sign 0 are lengths: isometries leave them as they are.
    aligned[:, k:] = coordinates[:, k:]
    return aligned


def stress_test(
    D: Any,
    n_components: Any = N_COMPONENTS,
    permutations: int = 99,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    embedding: Embedding | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    **options: Any,
) -> PermutationTest:
    """Compare the stress of D with that of permuted entries of D, as ``smacof::permtest``.

    Parameters
    ----------
    D, n_components, squared, symmetrize, embedding, random_state, callback, **options
        As for `bootstrap`; each permuted D has as many coordinates as the embedding of D, of
        either sign.
    permutations : int, default=99

    Returns
    -------
    PermutationTest
        The statistic is that of the fitted loss: `Embedding.stress1` for "distance" and "ordinal",
        `Embedding.normalized_stress` for "squared", and `Embedding.loss_value` for others; low
        values are extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.explore import stress_test
    >>> x = np.random.default_rng(0).normal(size=(15, 2))
    >>> stress_test(np.abs(x[:, None] - x).sum(axis=2), 2, 19, method="neuc+").p
    0.05
    """
    check_permutations(permutations)
    _check_options(options, embedding)
    problem, sq_d = _dense(D, "stress_test", squared, symmetrize)
    fit_options, reference, sq_d = _reference(
        problem, sq_d, embedding, n_components, random_state, options
    )
    # The embedding of a D of zeros has none.
    fit_options = replace(fit_options, n_components=max(1, reference.k))
    rng = np.random.default_rng(fit_options.random_state)
    pairs = squareform(sq_d, checks=False)
    permuted = []
    for step in range(permutations):
        if callback is not None:
            callback(step, permutations, "permutations")
        shuffled = squareform(rng.permutation(pairs))
        permuted.append(_fitted_stress(_fit_squares(shuffled, fit_options)))
    statistic = _fitted_stress(reference)
    # `p_value` counts large values as extreme.
    p = p_value(np.negative([statistic, *permuted]))
    return PermutationTest(statistic, p, np.array(permuted))


def _fitted_stress(embedding: Embedding) -> float:
    """Return the stress of the loss that was fitted, without a unit."""
    if embedding.loss == "squared":
        return embedding.normalized_stress
    if embedding.loss in RELATIVE:
        return embedding.loss_value
    return embedding.stress1


def _check_options(
    options: dict[str, Any], embedding: Embedding | None
) -> None:
    """Refuse options that fits of replicates cannot have."""
    allowed = FIT_OPTIONS
    reason = "D must be symmetric and in memory, with every pair known"
    if embedding is not None:
        allowed = ("tol", "max_iter")
        reason = f"{option('embedding')} brings its own"
    for name in options:
        if not hasattr(Options, name):
            raise InputError(
                f"{option(name)} is unknown; choose from {', '.join(allowed)}."
            )
        if name not in allowed:
            raise InputError(
                f"{option(name)} cannot be given here: {reason}; leave it out."
            )


def _reference(
    problem: Dense,
    sq_d: Floats,
    embedding: Embedding | None,
    k: Any,
    seed: Any,
    options: dict[str, Any],
) -> tuple[Options, Embedding, Floats]:
    """Return options for replicates, the embedding of D, and D in the order of its objects.

    Without an embedding, D is embedded.
    """
    if embedding is None:
        fit_options = Options(k, random_state=seed, **options)
        return fit_options, embed(problem, fit_options), sq_d
    if problem.n != embedding.n:
        raise InputError(
            f"D has {problem.n} objects, but the embedding has {embedding.n}; pass the D that was "
            "embedded."
        )
    fit_options = options_of(embedding, random_state=seed, **options)
    sq_d = _in_order(sq_d, problem.labels, embedding.labels, "rows of D")
    return fit_options, embedding, sq_d


def _fit_squares(sq_d: Floats, options: Options) -> Embedding:
    """Fit squared dissimilarities, without warnings: those about D were issued already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeucmdsWarning)
        return fit(Dense(DenseGram(sq_d), squared=True), options)


def _dense(
    D: Any, what: str, squared: bool, symmetrize: bool
) -> tuple[Dense, Floats]:
    """Return the problem of D, and its squared entries."""
    try:
        problem = prepare(D, squared=squared, symmetrize=symmetrize)
    except InputError as error:
        if "missing (NaN)" not in str(error):
            raise
        # The advice to ignore them would not work here.
        raise InputError(
            f"D holds missing (NaN) entries, and {what} needs every pair; fill them in, or leave "
            "out objects."
        ) from error
    refuse_weights(problem, what, "fill gaps in, or leave it out")
    values = dense_gram(problem, what).sq_dissimilarity
    return problem, to_floats(values)
