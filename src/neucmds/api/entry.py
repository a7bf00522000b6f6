"""`neuc_mds`: the whole way in one call."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from neucmds._input.components import NComponents
from neucmds._input.dissimilarity import check_missing
from neucmds._input.pairs import Pairs, as_pairs
from neucmds._input.validation import check_flags
from neucmds._methods.refined.descent import Callback
from neucmds._methods.refined.loss_starts import as_start
from neucmds._methods.refined.starts import RefineSettings
from neucmds._operator.blocked import Progress
from neucmds._operator.choose import Limit
from neucmds._operator.kept import keeping_products
from neucmds.api.arguments import (
    DEFAULT_METHOD,
    check_arguments,
    refuse_checkpoint_in_memory,
    refuse_for_pairs,
    refuse_without_refinement,
    signature_of,
    warn_of_surprises,
)
from neucmds.api.fitting import fit
from neucmds.api.partial_input import embed_pairs, require_memory_for_pairs
from neucmds.api.prepared import Prepared, prepare
from neucmds.embedding import Embedding


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
    checkpoint: str | PathLike[str] | None = None,
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
        "ignore": NaN in D means that the pair was not observed, and does not count; `transform` of
        the result takes NaN too. "refined" only. What a sparse D does not store is missing anyway.
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
        Starts of the losses other than "squared", of which the best is returned; for up to 10
        coordinates 32 for up to 100 objects and 12 for up to 600, else 1.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature.
    callback : callable, optional
        Called by "refined" with the iteration and the loss after every step.
    checkpoint : path, optional
        For a D of listed pairs, or one that is not held in memory: a file that the state of
        "refined" is written to every few seconds, or what every pass over D has found. After an
        interruption the same call goes on from it, with the same result to the last bit (on the
        same machine with as many threads); it is removed at the end. Another D and other parameters
        are refused.
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
    settings = RefineSettings(max_iter, stress_tol, climb, callback, loss, n_init, checkpoint)
    check_arguments(D, n_components, method, solver, tol, random_state)
    check_flags(squared=squared, symmetrize=symmetrize, copy=copy)
    start = as_start(init)
    if start is not None:
        n_components = signature_of(start, n_components)
    refuse_without_refinement(method, settings, start)
    if isinstance(D, Pairs) or hasattr(D, "tocoo"):
        refuse_for_pairs(method, weights, solver, settings)
        check_missing(missing)
        pairs = as_pairs(
            D,
            squared=squared,
            symmetrize=symmetrize,
            labels=labels,
            allow_missing=missing == "ignore",
        )
        require_memory_for_pairs(pairs.size, pairs.n, n_components, max_memory)
        embedding = embed_pairs(pairs, n_components, bool(squared), settings, start, random_state)
        embedding = replace(embedding, missing=missing)
        warn_of_surprises(embedding)
        return embedding
    if checkpoint is not None:
        held = D.gram if isinstance(D, Prepared) else D
        refuse_checkpoint_in_memory(held, squared, max_memory)
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
        checked=checkpoint is None,
        progress=progress,
    )
    deciding = {
        **{"n_components": n_components, "method": method, "solver": solver, "tol": tol},
        **{"random_state": random_state, "max_memory": max_memory, "init": start},
        **{"max_iter": max_iter, "stress_tol": stress_tol, "climb": climb},
    }
    with keeping_products(prepared.gram, checkpoint, deciding) as gram:
        embedding = fit(
            replace(prepared, gram=gram),
            n_components,
            method,
            solver=solver,
            tol=tol,
            random_state=random_state,
            settings=settings,
            start=start,
        ).embedding
    warn_of_surprises(embedding)
    return embedding
