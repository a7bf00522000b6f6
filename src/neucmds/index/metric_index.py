"""`MetricIndex`: the nearest objects by any distance, with few calls of it."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import (
    Callable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from math import isqrt
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import Floats, Indices, Numbers
from neucmds.backend.files import atomic_file, read_npz, refuse_damage
from neucmds.backend.progress import ProgressBar
from neucmds.embedding import Embedding
from neucmds.embedding.inner_product import InnerProduct
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.index.answers import (
    PAIR,
    SAMPLE,
    Answers,
    compare,
    known_nearest,
    rounding_of,
)
from neucmds.index.building import (
    learn,
    nearest_among,
    taken,
    unlinked,
    with_links,
)
from neucmds.index.checks import (
    check_objects,
    checked_ids,
    listed,
    next_id,
)
from neucmds.index.measuring import (
    COMPARED,
    NEAREST,
    HeldOut,
    judged,
    recall_of_known,
    tradeoff,
)
from neucmds.index.saved import (
    WHAT,
    arrays_of,
    arrays_of_objects,
    attributes_in,
    objects_in,
)
from neucmds.index.search import PlacedObjects, k_nearest
from neucmds.options import Options, as_seed
from neucmds.problem.calls import watched
from neucmds.problem.validation import check_count
from neucmds.refine.losses import PairLoss, floor_of

# Of n objects `fit` holds out √(10 n), and at most a tenth, to measure recall: 141 of 2,000, which
# tell recall of .99 to .005.
HELD_OUT = 10
# About so many calls per object and coordinate `fit` takes, which tells whether to start processes.
CALLS_TO_FIT = 5
# Levels of effort: at the last, the next object of a query by D̂ is 8 mean errors beyond its k-th
# nearest.
EFFORTS = 24
# The recall@10 that each word stands for.
RECALLS = {"normal": 0.99, "high": 0.997}


class MetricIndex(BaseEstimator):  # type: ignore[misc]
    """Find the nearest objects by any distance, with few calls of it.

    Objects get coordinates. A query is placed from a few distances; then its nearest by D̂ are
    asked, and it is placed again, until the next by D̂ is surely farther than those found. The
    distances that are returned are those of the function.

    Parameters
    ----------
    metric : callable
        ``metric(a, b)``, the distance of two objects: symmetric unless `directed`, and 0 for equal
        ones. It need not obey the triangle inequality.
    n_components : int, default=32
    directed : bool, default=False
        Whether the distance from a to b may differ from that from b to a. Then every object has two
        points, to depart from and to arrive at, and a query finds those that are the nearest by
        ``metric(query, object)``.
    n_jobs : int, optional
        Processes that call the function; as `joblib.parallel_config` says by default.
    calls_file : path, optional
        `fit` writes every distance to this file. A `fit` that was killed goes on from it.
    callback : callable, optional
        Called with the number of calls made, that of all in this step, and a word.
    verbose : int, default=0
        Whether progress is shown, and `summary_` printed by `fit`.
    random_state : int or RandomState, default=0

    Attributes
    ----------
    objects_ : list
    ids_ : ndarray of shape (n,)
        Their ids, 0, 1, … by default.
    coordinates_ : ndarray of shape (n, n_components)
        If `directed`, of the points to arrive at.
    signs_ : ndarray of shape (n_components,)
    n_calls_ : int
        Calls of the last `fit`.
    tradeoff_ : ndarray of shape (levels, 3)
        Calls per query, recall@10 of held-out objects and its standard error, at rising levels of
        effort.
    summary_ : str
        The measurements, in words.

    Examples
    --------
    >>> from neucmds import MetricIndex
    >>> words = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]
    >>> def letters(a, b):
    ...     return sum(x != y for x, y in zip(a, b))
    >>> index = MetricIndex(letters, n_components=4).fit(words)
    >>> ids, distances, calls = index.query(["bat"], k=3)
    >>> distances
    array([[0., 1., 1.]])
    """

    def __init__(
        self,
        metric: Callable[[Any, Any], float],
        n_components: int = 32,
        *,
        directed: bool = False,
        n_jobs: int | None = None,
        calls_file: str | PathLike[str] | None = None,
        callback: Any = None,
        verbose: int = 0,
        random_state: Any = 0,
    ) -> None:
        self.metric = metric
        self.n_components = n_components
        self.directed = directed
        self.n_jobs = n_jobs
        self.calls_file = calls_file
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    # Learning

    def fit(
        self, objects: Sequence[Any], y: Any = None, *, ids: Any = None
    ) -> MetricIndex:
        """Learn coordinates, and measure recall on objects held out.

        Parameters
        ----------
        objects : sequence
            Anything that the function takes.
        y : None
            A place that scikit-learn fills.
        ids : sequence, optional
            Ids of the objects, all different: text, or whole numbers.

        Returns
        -------
        self
        """
        if y is not None:
            raise InputError(
                f"y is {reprlib.repr(y)}, and an index has no targets; pass ids by name, as "
                f"{option('ids')}."
            )
        if not isinstance(self.directed, bool | np.bool_):
            raise InputError(
                f"{option('directed', self.directed)} must be True or False."
            )
        objects = listed(objects)
        n = len(objects)
        check_count(n_components=self.n_components)
        fewest = _fewest_objects(self.n_components)
        if n < fewest:
            raise InputError(
                f"{n} objects are too few for {self.n_components} coordinates; pass at least "
                f"{fewest}, fewer {option('n_components')}, or compare all with all."
            )
        # A fit that is interrupted leaves the index as it was.
        index = copy(self)
        index.ids_ = checked_ids(ids, np.arange(0), n)
        index._next_id = next_id(index.ids_)
        index.objects_ = objects
        rng = check_random_state(as_seed(self.random_state))
        options = Options(self.n_components, loss="relative", random_state=rng)
        index._compared_near = True
        order = rng.permutation(n)
        drawn = order[: _count_held_out(n)]
        others = np.sort(order[drawn.size :])
        some = judged(order[drawn.size :], n)
        n_pairs = n * (n - 1) // 2
        n_calls = min(n_pairs, n * CALLS_TO_FIT * self.n_components)
        with self._calling(n_calls):
            answers = Answers(
                self.metric, objects, bool(self.directed), self.calls_file
            )
            placed = learn(answers, others, options)
            index._measure(answers, drawn, others, placed, some)
        self.__dict__.update(vars(index))
        return self

    @classmethod
    def from_embedding(
        cls,
        embedding: Embedding,
        objects: Sequence[Any],
        metric: Callable[[Any, Any], float],
        *,
        ids: Any = None,
        **params: Any,
    ) -> MetricIndex:
        """Make an index of objects that have coordinates already.

        Some objects are searched for as queries, to measure recall.

        Parameters
        ----------
        embedding : Embedding
        objects : sequence
            Those of the embedding, in its order.
        metric : callable
            In the unit of the embedding, and not squared.
        ids : sequence, optional
            As for `fit`; by default the labels of the embedding, if it has any.
        **params
            As for `MetricIndex`, but for `n_components` and `directed`, which the embedding has.

        Returns
        -------
        MetricIndex
        """
        directed = embedding.arrivals is not None
        index = cls(metric, embedding.k, directed=directed, **params)
        index.objects_ = listed(objects)
        n = len(index.objects_)
        if n != embedding.n:
            raise InputError(
                f"there are {n} objects, but the embedding has {embedding.n}; pass those "
                "that were embedded, in its order."
            )
        if embedding.arrival_labels is not None:
            raise InputError(
                "the arrivals of this embedding are other objects than its departures; pass an "
                "embedding of one set."
            )
        if ids is None:
            ids = embedding.labels
        index.ids_ = checked_ids(ids, np.arange(0), n)
        index._next_id = next_id(index.ids_)
        index._compared_near = False
        order = check_random_state(as_seed(index.random_state)).permutation(n)
        every = unlinked(embedding, PairLoss("relative"), order)
        some = order[:1000]
        form = every.form
        among = form.sq(every.as_queries[some], every.coordinates[some])
        loss = every.loss.floored(floor_of(form, among), form)
        drawn = order[: _count_held_out(n)]
        others = order[drawn.size :]
        placed = unlinked(embedding.take(others), loss, np.arange(others.size))
        with index._calling(COMPARED * n):
            answers = Answers(
                metric, index.objects_, directed, index.calls_file
            )
            index._measure(answers, drawn, others, placed, order[:0])
        index._placed = replace(
            index._placed,
            coordinates=every.coordinates,
            departures=every.departures,
        )
        return index

    def _measure(
        self,
        answers: Answers,
        drawn: Indices,
        others: Indices,
        placed: PlacedObjects,
        some: Indices,
    ) -> None:
        """Search for drawn objects as queries, and join them to the others in `_placed`.

        The search by the most effort tells what lower levels miss of that which it finds; some of
        the objects are compared with all others, which tells what it misses itself. The known
        neighbours of `some` of the others are judged by a search for these.

        This sets `tradeoff_`, `n_calls_`, `summary_`, `_error`, `_n_fitted`, `_pairs` and
        `_placed`, prints the summary if it is wanted, and warns if the index does not pay.
        """
        held_out = HeldOut(answers, drawn, others, placed)
        k = held_out.k
        x, partners, distances, stops = held_out.search(EFFORTS)
        d = held_out.compared()
        limits = np.array(
            [np.partition(row, k - 1)[k - 1] for row in distances]
        )
        if np.median(limits) == 0 < limits.max():
            _warn(
                f"most objects have {k} others at distance 0, and a search that meets these may "
                "miss rare ones; pass each of equal objects once.",
                stacklevel=4,
            )
        self.tradeoff_ = tradeoff(distances, stops, limits, d, k)
        self._error = _error_of(placed, x, partners, distances)
        self._n_fitted = drawn.size + others.size
        effort = self._level("normal") + 1
        # `query_vector` places a query so.
        at_normal, *_ = held_out.search(effort)
        of_vectors = held_out.recall_of_vectors(at_normal, limits)
        of_vectors *= self.tradeoff_[-1, 1]
        self._join(held_out, x)
        lines = self._recalls_in_words(drawn.size, *of_vectors)
        if some.size:
            lines.append(self._graph_in_words(answers, some))
        seconds = self._seconds(held_out, effort)
        lines.append(_times_in_words(drawn.size, *seconds))
        self.n_calls_ = answers.n_calls
        beginning = f"{len(self.objects_)} objects, {self.n_calls_} calls; "
        self.summary_ = beginning + "\n".join(lines)
        if self.verbose:
            print(self.summary_)
        self._say_if_a_scan_is_cheaper(others.size, *seconds)
        self._say_if_recall_is_low(others.size)

    def _join(self, held_out: HeldOut, x: Floats) -> None:
        """Join objects held out, which are at x as queries, to the others."""
        drawn = held_out.drawn
        others = held_out.others
        placed = held_out.placed

        def joined(of_others: Floats, of_drawn: Floats) -> Floats:
            both = np.empty((drawn.size + others.size, x.shape[1]))
            both[others] = of_others
            both[drawn] = of_drawn
            return both

        coordinates = joined(placed.as_queries, x)
        departures = None
        if placed.departures is not None:
            departures = coordinates
            y = held_out.search_back(self._level("normal") + 1)
            coordinates = joined(placed.coordinates, y)
        placed = replace(
            placed,
            coordinates=coordinates,
            departures=departures,
            order=np.concatenate([others[placed.order], drawn]),
        )
        # As queries they were compared with others alone.
        near = drawn[nearest_among(placed, drawn)]
        i = drawn.repeat(near.shape[1])
        held_out.answers.ask(i, near.ravel())
        self._pairs = held_out.answers.pairs
        self._placed = with_links(placed, self._pairs)

    def _recalls_in_words(
        self, held_out: int, recall_of_vectors: float, reranked: float
    ) -> list[str]:
        """Return lines of `summary_`, with recall@10 of vectors alone and re-ranked."""
        lines = [f"recall of {held_out} objects that were held out:"]
        for word in RECALLS:
            calls, recall, error = self.tradeoff_[self._level(word)]
            lines.append(
                f'recall="{word}": recall@10 {recall:.3f} at {calls:.0f} calls per query '
                f"(standard error {error:.3f})."
            )
        lines.append(
            f"vectors() alone: recall@10 {recall_of_vectors:.3f}; {reranked:.3f} with the best 50 "
            "re-ranked by the metric."
        )
        return lines

    def _graph_in_words(self, answers: Answers, some: Indices) -> str:
        """Return the line of `summary_` on the recall of known neighbours, by those of some."""
        level = self._level("high")
        recall, error = recall_of_known(answers, self._placed, some, level + 1)
        recall *= self.tradeoff_[level, 1]
        return (
            f"kneighbors_graph() without calls: recall@10 {recall:.3f} (standard error "
            f"{error:.3f}, {some.size} objects)."
        )

    def _seconds(
        self, held_out: HeldOut, effort: int
    ) -> tuple[float, float, float]:
        """Return the seconds of a call, and of a query beyond calls: alone, and with others."""
        call = held_out.answers.seconds_per_call()
        calls = self.tradeoff_[effort - 1, 0]
        # One of several, because a pause of the machine may be longer than all of them.
        alone = np.median(
            [held_out.seconds_beyond_calls(1, effort) for _ in range(5)]
        )
        together = held_out.seconds_beyond_calls(held_out.drawn.size, effort)
        return call, float(calls * alone), float(calls * together)

    def _say_if_a_scan_is_cheaper(
        self, n: int, call: float, alone: float, together: float
    ) -> None:
        """Warn if it takes less time to compare a query with all n objects."""
        calls = self.tradeoff_[self._level("normal"), 0]
        scan = 1e3 * n * call
        query = 1e3 * (calls * call + together)
        single = 1e3 * (calls * call + alone)
        if query > scan:
            _warn(
                f"a linear scan is cheaper: a query takes {query:.3g} ms with {calls:.0f} calls "
                f"({single:.3g} ms alone), and {scan:.3g} ms with all {n}; scan.",
                stacklevel=5,
            )
        elif single > scan:
            _warn(
                f"a linear scan is cheaper for a query alone: it takes {single:.3g} ms with "
                f"{calls:.0f} calls ({query:.3g} ms among others), and {scan:.3g} ms with all "
                f"{n}; pass many at a time, or scan.",
                stacklevel=5,
            )

    def _say_if_recall_is_low(self, n: int) -> None:
        """Warn if recall is low, or most of the n objects are asked."""
        calls, recall, error = self.tradeoff_[self._level("normal")]
        if recall + error < 0.975 or calls > n / 2:
            _warn(
                f"recall@10 of held-out objects is {recall:.3f} (standard error {error:.3f}) at "
                f"{calls:.0f} of {n} calls: "
                f"{self.n_components} coordinates do not hold these distances, or objects are few; "
                f"pass more as {option('n_components')}, or scan.",
                stacklevel=5,
            )

    @contextmanager
    def _calling(self, n_calls: float = 0) -> Iterator[None]:
        """Make a context of about so many calls, in processes, of which the number is reported."""
        callback = self.callback
        if self.verbose:
            # A search asks in rounds, most of which take no time.
            callback = ProgressBar(self.callback, delay=1)
        with watched(callback, self.n_jobs, int(n_calls)):
            yield

    # Searching

    def query(
        self,
        objects: Sequence[Any],
        k: int = 10,
        *,
        max_calls: int | None = None,
        recall: str | float = "normal",
    ) -> tuple[Numbers, Floats, Indices]:
        """Find the k nearest objects of every query.

        Parameters
        ----------
        objects : sequence
            Queries.
        k : int, default=10
            Fewer than ten take as many calls as ten, because levels of effort hold for ten. More
            take more calls; recall is about that of ten.
        max_calls : int, optional
            The most calls per query.
        recall : {"normal", "high"} or float, default="normal"
            Recall@10 to aim at, .99, .997 or a number: the least effort that found this share of
            what the most effort finds, for objects that `fit` held out; the most for 1.0. A warning
            says if the most finds less, unless it is "normal", of which `summary_` tells.

        Returns
        -------
        ids : ndarray of shape (m, k)
            `ids_` of the nearest, nearest first.
        distances : ndarray of shape (m, k)
            By the function.
        calls : ndarray of shape (m,)
            Calls per query.
        """
        check_is_fitted(self, "_placed")
        _, partners, distances = self._search(
            listed(objects, self.objects_), k, max_calls, recall
        )
        most_calls, reached, error = self.tradeoff_[-1]
        target = RECALLS.get(str(recall), recall)
        if recall != "normal" and reached + error < target:
            _warn(
                f"{option('recall', recall)} was not reached for held-out objects: it was "
                f"{reached:.3f} at {most_calls:.0f} calls; pass more as "
                f"{option('n_components')}, or scan."
            )
        positions, nearest = k_nearest(partners, distances, k)
        calls = np.array([row.size for row in partners], dtype=np.int64)
        return self.ids_[positions], nearest, calls

    def _level(self, recall: str | float) -> int:
        """Return the first row of `tradeoff_` that reached a recall below 1, or else the last."""
        target: Any = RECALLS.get(str(recall), recall)
        is_number = isinstance(target, Real) and not isinstance(target, bool)
        if not is_number or not 0 < target <= 1:
            raise InputError(
                f"{option('recall', recall)} must be 'normal', 'high' or a number up to 1."
            )
        # The last row is what the most effort finds.
        recalls = self.tradeoff_[:, 1]
        reached = (recalls >= target * recalls[-1]) & (target < 1)
        reached[-1] = True
        return int(reached.argmax())

    def _search(
        self,
        objects: list[Any],
        k: int,
        max_calls: int | None,
        recall: str | float,
        *,
        turned: bool = False,
    ) -> tuple[Floats, list[Indices], list[Floats]]:
        """Return places of queries, and the objects that each was compared with, and distances.

        With `turned` the distances are those from the objects to the queries.
        """
        check_count(k=k)
        n = len(self.objects_)
        most = n if max_calls is None else max_calls
        check_count(max_calls=most)
        if k > min(n, most):
            raise InputError(
                f"{option('k', k)} neighbours of {n} objects with at most {most} calls: pass "
                f"at most {min(n, most)}."
            )

        placed = self._placed.turned() if turned else self._placed

        def ask(rows: Indices, ids: Indices) -> Floats:
            left = objects
            right = self.objects_
            i = rows.repeat(ids.shape[1])
            j = ids.ravel()
            if turned:
                left, right = right, left
                i, j = j, i
            return self._compare(left, right, i, j).reshape(ids.shape)

        level = self._level(recall)
        calls = min(most, self.tradeoff_[level, 0])
        # Levels of effort hold for so many nearest: with fewer, searches would end too early.
        k = max(k, min(NEAREST, n))
        with self._calling(len(objects) * calls):
            x, partners, distances, _ = placed.search(
                ask, len(objects), k, level + 1, most
            )
        return x, partners, distances

    def _compare(
        self, left: list[Any], right: list[Any], i: Indices, j: Indices
    ) -> Floats:
        """Return the distances of ``left[i]`` and ``right[j]``, 0 where rounding leaves less."""
        known = self._pairs["d"][:: 1 + self._pairs.size // SAMPLE]
        d = compare(self.metric, left, right, i, j, rounding_of(known))
        return np.maximum(d, 0)

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int = 10, mode: str = "distance"
    ) -> Any:
        """Graph of nearest objects, as scikit-learn's estimators take it precomputed.

        Parameters
        ----------
        X : sequence, optional
            New objects; by default those of the index, of which none is its own neighbour. These
            take no calls: their nearest are those among the objects they were compared with by
            `fit` or `add`, and `summary_` says with which recall. For that of `query`, by as many
            calls, pass `objects_` and one neighbour more: each is then its own first.
        n_neighbors : int, default=10
        mode : {"distance", "connectivity"}, default="distance"

        Returns
        -------
        scipy.sparse.csr_matrix of shape (m, n)
        """
        check_is_fitted(self, "_placed")
        n = len(self.objects_)
        if isinstance(X, int):
            raise InputError(
                f"X={X} is no list of objects; pass {option('n_neighbors', X)}."
            )
        check_count(n_neighbors=n_neighbors)
        if X is not None:
            _, partners, distances = self._search(
                listed(X, self.objects_), n_neighbors, None, "normal"
            )
            columns, d = k_nearest(partners, distances, n_neighbors)
        elif not self._compared_near:
            raise InputError(
                "objects of an embedding were not compared with those near them; pass "
                f"kneighbors_graph(index.objects_, {n_neighbors + 1}), where each is its own "
                "first neighbour."
            )
        else:
            directed = bool(self.directed)
            columns, d = known_nearest(self._pairs, n, n_neighbors, directed)
        if np.isinf(d).any():
            fewest = int(np.isfinite(d).sum(axis=1).min())
            raise InputError(
                f"{option('n_neighbors', n_neighbors)}: an object was compared with {fewest} "
                "others only; pass fewer, or fit again."
            )
        if mode not in ("distance", "connectivity"):
            raise InputError(
                f"{option('mode', mode)} must be 'distance' or 'connectivity'."
            )
        if mode == "connectivity":
            d = np.ones_like(d)
        starts = np.arange(0, d.size + 1, n_neighbors)
        return csr_matrix((d.ravel(), columns.ravel(), starts), (len(d), n))

    # Growing

    def add(self, objects: Sequence[Any], ids: Any = None) -> MetricIndex:
        """Add objects by the calls of a query each; no coordinates but theirs are computed.

        Parameters
        ----------
        objects : sequence
        ids : sequence, optional
            By default they count on; the id of an object that was removed is not given again.

        Returns
        -------
        self
        """
        check_is_fitted(self, "_placed")
        objects = listed(objects, self.objects_)
        new_ids = checked_ids(ids, self.ids_, len(objects), self._next_id)
        n = len(self.objects_)
        x, partners, distances = self._search(
            objects, min(NEAREST, n), None, "normal"
        )
        error = _error_of(self._placed, x, partners, distances)
        new = np.arange(n, n + len(objects))
        pairs = [_pairs_between(new, partners, distances)]
        placed = self._placed
        departures = None
        if placed.departures is not None:
            departures = np.concatenate([placed.departures, x])
            x, partners, distances = self._search(
                objects, min(NEAREST, n), None, "normal", turned=True
            )
            back = _pairs_between(new, partners, distances)
            back["i"], back["j"] = back["j"], back["i"].copy()
            pairs.append(back)
        placed = replace(
            placed,
            coordinates=np.concatenate([placed.coordinates, x]),
            departures=departures,
            order=np.concatenate([placed.order, new]),
        )
        pairs.append(self._compared_among(objects, placed))
        of_new = np.concatenate(pairs)
        linked, lengths = known_nearest(
            of_new, n + new.size, placed.linked.shape[1]
        )
        placed = replace(
            placed,
            linked=np.concatenate([placed.linked, linked[n:]]),
            lengths=np.concatenate([placed.lengths, lengths[n:]]),
        )
        # All at once, so that an interruption leaves the index as it was.
        self.__dict__.update(
            _placed=placed,
            _pairs=np.concatenate([self._pairs, of_new]),
            objects_=self.objects_ + objects,
            ids_=np.concatenate([self.ids_, new_ids]),
            _next_id=next_id(new_ids, self._next_id),
        )
        n_added = len(self.objects_) - self._n_fitted
        if n_added > self._n_fitted or error > 1.5 * self._error:
            _warn(
                f"a refit is due: {n_added} objects were added to {self._n_fitted}, and their "
                f"distances are off by {error:.1%} (held-out objects of the fit: "
                f"{self._error:.1%}); call fit(index.objects_, ids=index.ids_)."
            )
        return self

    def _compared_among(
        self, objects: list[Any], placed: PlacedObjects
    ) -> Numbers:
        """Return pairs of objects, the last of `placed`, with the nearest among them."""
        m = len(objects)
        n = len(placed.coordinates) - m
        near = nearest_among(placed, np.arange(n, n + m))
        own = np.tile(np.arange(m)[:, None], near.shape[1])
        both = np.stack([own, near]).reshape(2, -1)
        if not self.directed:
            both.sort(axis=0)
        i, j = np.unique(both, axis=1)
        with self._calling():
            d = self._compare(objects, objects, i, j)
        pairs = np.empty(i.size, PAIR)
        pairs["i"] = n + i
        pairs["j"] = n + j
        pairs["d"] = d
        return pairs

    def remove(self, ids: Any) -> MetricIndex:
        """Remove objects.

        Parameters
        ----------
        ids : sequence
            `ids_` of the objects.

        Returns
        -------
        self
        """
        check_is_fitted(self, "_placed")
        ids = listed(ids)
        known = set(self.ids_.tolist())
        for name in ids:
            is_id = isinstance(name, str | Integral) and name in known
            if isinstance(name, bool) or not is_id:
                raise InputError(
                    f"there is no object {reprlib.repr(name)} to remove."
                )
        remaining = np.nonzero(~np.isin(self.ids_, ids))[0]
        if remaining.size < self.signs_.size + 2:
            raise InputError(
                f"{remaining.size} objects would be left, too few for {self.signs_.size} "
                "coordinates."
            )
        placed, pairs = taken(self._placed, self._pairs, remaining)
        self.__dict__.update(
            _placed=placed,
            _pairs=pairs,
            _n_fitted=np.count_nonzero(remaining < self._n_fitted),
            objects_=[self.objects_[i] for i in remaining],
            ids_=self.ids_[remaining],
        )
        return self

    # For other programs

    @property
    def coordinates_(self) -> Floats:
        """Coordinates of all objects, of arrivals if distances are directed."""
        check_is_fitted(self, "_placed")
        return self._placed.coordinates

    @property
    def signs_(self) -> Floats:
        """The sign of each coordinate, ±1.0."""
        check_is_fitted(self, "_placed")
        return np.asarray(self._placed.form.signs)

    def vectors(self, *, unit: bool = False) -> Floats:
        """Vectors of all objects for FAISS, USearch, Qdrant or pgvector, by inner product.

        Parameters
        ----------
        unit : bool, default=False
            Whether all have length one, which graphs of neighbours (HNSW) need.

        Returns
        -------
        ndarray of shape (n, n_components + 1), with `unit` (n, n_components + 2)
        """
        check_is_fitted(self, "_placed")
        return np.asarray(self._inner_product(unit).vectors)

    def query_vector(self, item: Any, *, unit: bool = False) -> Floats:
        """Place a query by calls, and return its vector; the largest inner product is the nearest.

        Parameters
        ----------
        item : object
        unit : bool, default=False
            As for `vectors`.

        Returns
        -------
        ndarray of shape (n_components + 1,) or (n_components + 2,)
        """
        check_is_fitted(self, "_placed")
        k = min(NEAREST, len(self.objects_))
        x, _, _ = self._search([item], k, None, "normal")
        return np.asarray(self._inner_product(unit).queries(x)[0])

    def _inner_product(self, unit: bool) -> InnerProduct:
        """Return vectors whose inner products rank objects by D̂."""
        return InnerProduct(self.coordinates_, self.signs_, unit)

    def pgvector(self, table: str = "objects") -> Iterator[str]:
        """Statements in SQL that store the vectors in PostgreSQL with pgvector.

        A query is ``SELECT id FROM "objects" ORDER BY vector <#> %s LIMIT 50`` with
        `query_vector`: <#> is the negative inner product. The name of the table needs quotes if it
        has capitals or is a word of SQL.

        Parameters
        ----------
        table : str, default="objects"

        Yields
        ------
        str
        """
        parts = table.split(".")
        if len(parts) > 2 or not all(part.isidentifier() for part in parts):
            raise InputError(
                f"{option('table', table)} is no name of a table; pass letters, digits and "
                "underscores, with a dot after the schema if there is one."
            )
        # In quotes, because it may be a reserved word, as "order".
        table = ".".join(f'"{part}"' for part in parts)
        vectors = self.vectors().astype(np.float32)
        yield "CREATE EXTENSION IF NOT EXISTS vector;"
        yield (
            f"CREATE TABLE {table} (id text PRIMARY KEY, vector "
            f"vector({vectors.shape[1]}));"
        )
        for name, vector in zip(self.ids_.tolist(), vectors, strict=True):
            quoted = str(name).replace("'", "''")
            numbers = ",".join(f"{number:.9g}" for number in vector)
            yield f"INSERT INTO {table} VALUES ('{quoted}', '[{numbers}]');"

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to a file, without pickle.

        Objects are written if all are text, numbers, or arrays or lists of one length of numbers;
        a warning says if they are not.

        Parameters
        ----------
        path : path
        """
        check_is_fitted(self, "_placed")
        objects = arrays_of_objects(self.objects_)
        with atomic_file(path) as file:
            np.savez(file, **arrays_of(self), **objects)
        if not objects:
            _warn(
                f"{path} holds no objects, because an array of them would change them; pass "
                f"{option('objects')} to load, in the order of the index."
            )

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        metric: Callable[[Any, Any], float],
        objects: Sequence[Any] | None = None,
        **params: Any,
    ) -> MetricIndex:
        """Read an index.

        Parameters
        ----------
        path : path
        metric : callable
        objects : sequence, optional
            The objects in the order of the index, if `save` said that the file has none.
        **params
            As for `MetricIndex`.

        Returns
        -------
        MetricIndex
        """
        arrays = read_npz(path, WHAT)
        if "header" in arrays:
            raise InputError(
                f"{path} holds an embedding, not an index; read it by Embedding.load."
            )
        with refuse_damage(str(path), WHAT):
            attributes = attributes_in(arrays)
            saved_objects = objects_in(arrays)
        placed = attributes["_placed"]
        directed = placed.departures is not None
        n_components = placed.form.signs.size
        index = cls(metric, n_components, directed=directed, **params)
        index.__dict__.update(attributes)
        if objects is None:
            objects = saved_objects
        if objects is None:
            raise InputError(
                f"{path} holds no objects, because an array would have changed them; pass "
                f"{option('objects')}."
            )
        index.objects_ = check_objects(objects, len(index.ids_), path)
        return index


def _fewest_objects(n_components: int) -> int:
    """Return how many objects there must be for so many coordinates beside those held out."""
    n = max(4, n_components + 2)
    while n - _count_held_out(n) <= n_components:
        n += 1
    return n


def _count_held_out(n: int) -> int:
    """Return how many of n objects are held out: a tenth, rounded up, or fewer."""
    return min(-(-n // 10), isqrt(HELD_OUT * n))


def _times_in_words(
    held_out: int, call: float, alone: float, together: float
) -> str:
    """Return the line of `summary_` on seconds of a call, and of a query beyond calls."""
    return (
        f"time: {1e6 * call:.3g} µs per call; a query beyond its calls {1e3 * alone:.3g} ms alone, "
        f"{1e3 * together:.3g} ms among {held_out}."
    )


def _pairs_between(
    new: Indices, partners: list[Indices], distances: list[Floats]
) -> Numbers:
    """Return the pairs of new objects with those that each was compared with."""
    sizes = [row.size for row in partners]
    pairs = np.empty(sum(sizes), PAIR)
    pairs["i"] = new.repeat(sizes)
    pairs["j"] = np.concatenate(partners)
    pairs["d"] = np.concatenate(distances)
    return pairs


def _error_of(
    placed: PlacedObjects,
    x: Floats,
    partners: list[Indices],
    distances: list[Floats],
) -> float:
    """Return the mean relative error of d̂ between queries at x and their partners."""
    sizes = [row.size for row in partners]
    return placed.relative_error(
        x,
        np.arange(len(x)).repeat(sizes),
        np.concatenate(partners),
        np.concatenate(distances),
    )


def _warn(message: str, stacklevel: int = 3) -> None:
    warnings.warn(message, NeucmdsWarning, stacklevel=stacklevel)
