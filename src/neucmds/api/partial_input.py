"""Embeddings from some pairs: listed, of features, of a graph's paths, or to landmarks."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    namespace,
    on_cpu,
    to_numpy,
)
from neucmds._backend.memory import format_bytes, parse_bytes, require_memory
from neucmds._input.components import Components, NComponents
from neucmds._input.pairs import Pairs, check_pairs
from neucmds._methods.refined.completion import FEW_LISTED, from_all_pairs
from neucmds._methods.refined.loss_starts import Place
from neucmds._methods.refined.sparse_pairs import refine_pairs
from neucmds._methods.refined.starts import RefineSettings
from neucmds._methods.solution import from_pairs
from neucmds._operator import DenseGram
from neucmds._operator.choose import Limit
from neucmds._operator.graph import as_graph, graph_pairs, shortest_path_rows
from neucmds._operator.sampled_pairs import Sizes, feature_pairs
from neucmds._placement.triangulation import (
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds.api.arguments import (
    DEFAULT_METHOD,
    check_arguments,
    refuse_without_refinement,
    signature_of,
    warn_of_surprises,
)
from neucmds.api.fitting import fit, solve_roughly
from neucmds.api.prepared import prepare
from neucmds.embedding import Embedding
from neucmds.embedding.building import build_embedding
from neucmds.errors import ConvergenceWarning, FewerComponentsWarning, InputError, option

# Of 100,000 rows the few nearest of each count nothing beside all others, by whichever loss. With
# weights that are the inverse of the share drawn to the power 1, ½, ¼ and 0, .59, .78, .84 and .87
# of the ten nearest were kept (64 features, cityblock, k = 20, 320 pairs a row, 100 iterations).
RELATIVE_POWER = 0.5


def _counted(n_components: NComponents, n: int) -> Components:
    """Parse a number of coordinates; a goal for it needs every pair."""
    components = Components.parse(n_components, n)
    if components.goal is not None:
        raise InputError(
            f"{option('n_components', components.goal)} needs every pair of D, and only some are "
            "known here; pass a number of coordinates."
        )
    return components


def require_memory_for_pairs(
    size: int,
    n: int,
    n_components: NComponents,
    max_memory: Limit = None,
    advice: str = "pass fewer pairs",
) -> None:
    """Refuse pairs whose descent takes more memory than is free, or than is allowed.

    Parameters
    ----------
    size : int
        Number of pairs.
    n : int
        Number of objects.
    n_components, max_memory
        As for `neuc_mds`.
    advice : str
        What to do besides asking for fewer coordinates.
    """
    k = _counted(n_components, n).total
    # Peaks of 200 to 230 bytes a pair were measured for 0.5 to 7 million of them, listed or sampled
    # with k = 4 and 20; with k = 60 each object's block of k × k added 9 to 13 bytes an entry.
    needed = 230 * size + 12 * n * k * k + 16 * n * _start_size(n, k)
    what = f"{size} pairs of {n} objects with {k} coordinates"
    advice = f"ask for fewer coordinates, or {advice}"
    if max_memory is not None and needed > (limit := parse_bytes(max_memory)):
        raise InputError(
            f"{what} need {format_bytes(needed)}, and {format_bytes(limit)} may be used; {advice}, "
            f"or raise {option('max_memory')}."
        )
    require_memory(needed, what, advice)


def _start_size(n: int, k: int) -> int:
    """Landmarks that a start is made of."""
    return min(n, max(100, 5 * k))


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
        and all objects placed among them. By the squared loss few objects start where the same
        pairs as weights of a whole D end.
    """
    components = _counted(n_components, pairs.n)
    check_pairs(pairs, components.total)
    if start is None and settings.loss == "squared" and pairs.n <= FEW_LISTED:
        solve = partial(solve_roughly, method="neuc+", solver="auto", tol=1e-7)
        end = from_all_pairs(pairs, components, solve)
        start = Place(end.x, end.signs)
    if start is None:
        rng = check_random_state(random_state)
        wanted = _start_size(pairs.n, components.total)
        landmarks = np.sort(rng.permutation(pairs.n)[:wanted])
        rows = shortest_path_rows(as_graph(pairs.graph()), landmarks)
        start = _placed_among(landmarks, _known_or_bridged(pairs, landmarks, rows), components, rng)
    found = refine_pairs(
        pairs,
        to_numpy(start.coordinates) if on_cpu(start.coordinates) else start.coordinates,
        start.signs,
        settings.loss,
        # Streets of 6,750 nodes (k = 16): mean error 1.96 % after 200, 1.92 % after 300.
        max_iter=settings.max_iter or (200 if settings.loss == "squared" else 500),
        tol=2e-3 if settings.tol is None else settings.tol,
        callback=settings.callback,
        checkpoint=settings.checkpoint,
    )
    return build_embedding(
        from_pairs(found, pairs),
        method="refined",
        requested=components.total,
        squared=squared,
        labels=pairs.labels,
    )


def embed_features(
    features: Array,
    n_components: NComponents,
    metric: Any,
    settings: RefineSettings,
    n_pairs: int | None = None,
    metric_params: dict[str, Any] | None = None,
    random_state: Any = None,
    max_memory: Limit = None,
) -> Embedding:
    """Embed rows of features from about `n_pairs` pairs a row: no n × n array.

    Parameters
    ----------
    features : array of shape (n, d)
        On a GPU neighbours are found and the loss is lowered there. Rows of a dask array are
        compared on its workers; what comes back are the pairs, and the loss is lowered here.
    n_components, random_state, max_memory
        As for `neuc_mds`.
    metric, metric_params
        As for `neucmds._operator.sampled_pairs.feature_pairs`.
    settings : RefineSettings
    n_pairs : int, optional
        Pairs a row takes part in; 16 for each coordinate by default.
    """
    n = int(features.shape[0])
    components = _counted(n_components, n)
    n_pairs = max(100, 16 * components.total) if n_pairs is None else n_pairs
    _sizes(n_pairs, n, components)  # refuses what cannot be obeyed before memory is asked for
    if on_cpu(features):
        size, advice = n * min(n_pairs, n - 1) // 2, f"lower {option('n_pairs', n_pairs)}"
        require_memory_for_pairs(size, n, n_components, max_memory, advice)
    sample = feature_pairs(
        features,
        metric,
        n_pairs=n_pairs,
        metric_params=metric_params,
        random_state=random_state,
        weight_power=RELATIVE_POWER if settings.loss == "relative" else 1.0,
    )
    rng = check_random_state(random_state)
    sq_to_landmarks = sample.to_landmarks**2
    start = _placed_among(sample.landmarks, sq_to_landmarks, components, rng, near=features)
    wanted = components.signature or components.total
    return embed_pairs(sample.pairs, wanted, False, settings, start, random_state)


def _sizes(n_pairs: int, n: int, components: Components) -> Sizes:
    """Split a number of pairs; refuse too few to start from landmarks with so many coordinates."""
    sizes = Sizes.of(n_pairs, n)
    if sizes.n_landmarks <= components.total:
        raise InputError(
            f"{option('n_pairs', n_pairs)} are too few for {components.total} coordinates; pass "
            f"{16 * components.total}, or at least {4 * (components.total + 1)}."
        )
    return sizes


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
    components = _counted(n_components, int(edges.shape[0]))
    n_pairs = max(100, 16 * components.total) if n_pairs is None else n_pairs
    sizes = _sizes(n_pairs, int(edges.shape[0]), components)
    sample = graph_pairs(
        edges,
        n_landmarks=sizes.n_landmarks,
        n_near=sizes.n_near,
        n_ring=sizes.n_ring,
        random_state=random_state,
    )
    rng = check_random_state(random_state)
    start = _placed_among(sample.landmarks, sample.to_landmarks**2, components, rng)
    wanted = components.signature or components.total
    return embed_pairs(sample.pairs, wanted, False, settings, start, random_state)


def _known_or_bridged(
    pairs: Pairs, landmarks: npt.NDArray[np.intp], paths: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return squared dissimilarities to landmarks: as observed, and by shortest paths elsewhere.

    Paths alone would make a metric of what is none, and lose the negative coordinates with it.
    """
    sq_to_landmarks = paths.T**2
    column = np.full(pairs.n, -1)
    column[landmarks] = np.arange(landmarks.size)
    for one, other in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
        known = column[other] >= 0
        sq_to_landmarks[one[known], column[other[known]]] = pairs.sq_dissimilarity[known]
    return sq_to_landmarks


def _placed_among(
    landmarks: npt.NDArray[np.intp],
    sq_to_landmarks: npt.NDArray[np.float64],
    components: Components,
    rng: np.random.RandomState,
    near: Array | None = None,
) -> Place:
    """Embed landmarks by the squared loss and place all objects among them: a start.

    They are placed on the device of `near`, if that is not the CPU.
    """
    among = sq_to_landmarks[landmarks]
    among = (among + among.T) / 2
    wanted = components.signature or components.total
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FewerComponentsWarning)
        embedding, _ = embed_landmarks(among, wanted, rng=rng, squared=True, random_state=rng)
    assert embedding.placement is not None
    if near is not None and not on_cpu(near):
        sq_to_landmarks = asarray_like(sq_to_landmarks, near, namespace(near).float64)
    x = embedding.placement.place(sq_to_landmarks)
    return Place(x, to_numpy(embedding.signs).astype(np.float64))


def embed_landmarks(
    sq_dissimilarity: Array,
    n_components: NComponents,
    method: str = DEFAULT_METHOD,
    placement: str = "auto",
    *,
    rng: np.random.RandomState,
    weights: Array | None = None,
    start: Place | None = None,
    squared: bool = False,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    settings: RefineSettings | None = None,
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
    weights : ndarray of shape (L, L), optional
        How much each pair counts. Nothing is cross-validated then: the offsets and the noise of a
        recipe are means over pairs that count alike.
    start : Place, optional
        Where "refined" starts; its signature is kept.
    squared, solver, tol, random_state
        As for `neuc_mds`; `squared` is that of what is placed later.
    settings : RefineSettings, optional
        For "refined"; its callback does not hear of the folds.

    Returns
    -------
    embedding : Embedding
        Of the landmarks; its `placement` is the rule.
    recipe : Recipe or None
        How the rule was made; None for "linear".
    """
    settings = settings or RefineSettings()
    check_arguments(sq_dissimilarity, n_components, method, solver, tol, random_state)
    refuse_without_refinement(method, settings, start)
    if start is not None:
        n_components = signature_of(start, n_components)
    if placement == "linear" and weights is not None:
        raise InputError(
            f"weights need {option('placement', 'auto')}: plain triangulation counts every "
            "landmark alike."
        )

    def embed(part: Array, wanted: NComponents, method: str, *, whole: bool = False) -> Embedding:
        known = weights if whole else None
        D = part if known is not None else DenseGram(np.ascontiguousarray(part))
        prepared = replace(prepare(D, wanted, squared=True, weights=known), squared=squared)
        found = fit(
            prepared,
            wanted,
            method,
            solver=solver,
            tol=tol,
            random_state=random_state,
            settings=settings if whole else replace(settings, callback=None),
            start=start if whole else None,
        )
        warn_of_surprises(found.embedding)
        return found.embedding

    components = Components.parse(n_components, sq_dissimilarity.shape[0])
    if components.goal is not None:
        # The landmarks are few, and chosen for all: what they need is what all need.
        components = Components(embed(sq_dissimilarity, n_components, method).requested)
    wanted = components.signature or components.total
    if placement == "linear":
        embedding = embed(sq_dissimilarity, wanted, method, whole=True)
        return replace(embedding, placement=linear_rule(sq_dissimilarity, embedding)), None
    recipe = Recipe(0.0, False, wanted)
    has_own_rule = weights is not None or settings.loss != "squared"
    if placement == "auto" and not has_own_rule:
        recipe = cross_validated(sq_dissimilarity, wanted, method, rng, embed)
    embedding = embed(sq_dissimilarity, recipe.n_components, method, whole=True)
    if has_own_rule:
        return embedding, recipe
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe
