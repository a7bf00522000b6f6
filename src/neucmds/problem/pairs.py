"""Dissimilarities of listed pairs: stored entries were observed, the others were not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from neucmds.backend.arrays import EPS, Array, Floats, Numbers
from neucmds.errors import InputError, NeucmdsWarning, OverfitWarning, option
from neucmds.problem.containers import as_real
from neucmds.problem.names import Labels, are_row_numbers, examples, text_of
from neucmds.problem.validation import refuse_range, tolerance

# Listed pairs look like edges between neighbours if they are few and close triangles: at most the
# square of this share of all pairs is listed, and of the paths i–j–k more than this share has the
# pair (i, k) as well (among neighbours in up to ten dimensions .3 and more).
LOCAL = 0.2

# Whether two objects are connected by a path one way, or only by paths there and back.
Connection = Literal["weak", "strong"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A problem in which some pairs of n objects are known.

    Each pair occurs once, with i < j, sorted by i, then j. A positive `weight` says how much it
    counts; None: all alike.
    """

    n: int
    i: Numbers
    j: Numbers
    sq_dissimilarity: Floats
    weight: Floats | None = None
    labels: Labels = None
    # As of `Dense`.
    squared: bool = False
    missing: str = "error"
    # Whether the pairs were drawn to stand for all; a weight is the inverse of the share drawn.
    sampled: bool = False
    # Whether D_ji may differ from the listed D_ij.
    one_way: bool = False
    # Of directed pairs: the first so many of the n objects are departures, the others arrivals.
    n_departures: int | None = None

    @property
    def n_ordered(self) -> int:
        """Number of ordered pairs of different objects that could be listed."""
        if self.n_departures is None:
            return self.n * (self.n - 1)
        n_arrivals = self.n - self.n_departures
        # As many of both are the same objects.
        if n_arrivals == self.n_departures:
            return n_arrivals * (n_arrivals - 1)
        return self.n_departures * n_arrivals

    @property
    def size(self) -> int:
        """Number of listed pairs."""
        return int(self.i.size)

    @property
    def weights(self) -> Floats:
        """How much each pair counts, ones in place of None."""
        if self.weight is None:
            return np.ones(self.size)
        return self.weight

    @property
    def keys(self) -> Array:
        """The numbers of the pairs by `pair_keys`, ascending."""
        return pair_keys(self.n, self.i, self.j)

    @property
    def degrees(self) -> Numbers:
        """Number of pairs that each object is in."""
        return np.bincount(self.i, minlength=self.n) + np.bincount(
            self.j, minlength=self.n
        )

    def graph(self) -> Any:
        """Return pairs as edges of length d = √D in a symmetric CSR array; √D is 0 for D < 0."""
        d = np.sqrt(np.maximum(self.sq_dissimilarity, 0))
        both = (np.r_[self.i, self.j], np.r_[self.j, self.i])
        return sparse.csr_array((np.r_[d, d], both), (self.n, self.n))


def pair_keys(n: int, i: Any, j: Any) -> Array:
    """Return the number low·n + high of every pair of n objects, in either order."""
    return np.minimum(i, j).astype(np.int64) * n + np.maximum(i, j)


def key_groups(key: Numbers) -> tuple[Numbers, Numbers]:
    """Return the order that sorts keys, and where among the sorted each different one begins."""
    order = np.argsort(key, kind="stable")
    return order, np.flatnonzero(np.diff(key[order], prepend=-1))


def as_pairs(
    data: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    missing: str = "error",
) -> Pairs:
    """Check the observed dissimilarities in a square sparse array, stored in one order or both.

    Parameters are those of `neuc_mds`.
    """
    if isinstance(data, Pairs):
        return data
    if len(data.shape) != 2 or data.shape[0] != data.shape[1]:
        size = " × ".join(map(str, data.shape))
        raise InputError(
            f"D is not square: {size}; pass n × n, or {option('directed', True)} if rows and "
            "columns are two sets of objects."
        )
    i, j, values = _observed(data, missing)
    n = data.shape[0]
    pairs = make_pairs(n, i, j, values, squared=squared, symmetrize=symmetrize)
    _warn_of_edges(pairs)
    return replace(pairs, missing=missing)


def as_directed_pairs(
    data: Any, *, squared: bool = False, missing: str = "error"
) -> Pairs:
    """Check the observed dissimilarities from rows to columns in a sparse array.

    Parameters are those of `as_pairs`. Rows and columns of a square array are the same objects.
    """
    m, n = data.shape
    i, j, values = _observed(data, missing)
    if m == n:
        _refuse_values(i, j, values, squared)
        is_pair = i != j
        i = i[is_pair]
        j = j[is_pair]
        values = values[is_pair]
    arrivals = m + j.astype(np.int64)
    pairs = make_pairs(m + n, i, arrivals, values, squared=squared)
    return replace(pairs, n_departures=m, missing=missing)


def _observed(data: Any, missing: str) -> tuple[Numbers, Numbers, Floats]:
    """Return rows, columns and values that a sparse array stores; NaN, if allowed, is left out."""
    stored = data.tocoo()
    if stored.dtype.kind not in "fiub":
        raise InputError(f"D holds {stored.dtype} entries; pass real numbers.")
    i, j = stored.coords
    values = stored.data.astype(np.float64)
    if missing == "error":
        return i, j, values
    is_known = ~np.isnan(values)
    return i[is_known], j[is_known], values[is_known]


def make_pairs(
    n: int,
    i: Any,
    j: Any,
    values: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
) -> Pairs:
    """Check dissimilarities `values` of pairs (i, j) of n objects, and list each pair once.

    A pair may be given in either order, also several times: it gets the mean of its values, which
    must agree unless they are to be symmetrized.
    """
    i = np.asarray(i)
    j = np.asarray(j)
    # On the scale of the input, until they are squared.
    dissimilarity: Floats = np.asarray(values, dtype=np.float64)
    _refuse_values(i, j, dissimilarity, squared)
    rounding = tolerance(float(np.max(np.abs(dissimilarity))), EPS)
    is_pair = i != j
    key = pair_keys(n, i, j)[is_pair]
    order, first = key_groups(key)
    key = key[order]
    dissimilarity = dissimilarity[is_pair][order]
    if first.size < key.size:
        highest = np.maximum.reduceat(dissimilarity, first)
        gaps = highest - np.minimum.reduceat(dissimilarity, first)
        if gaps.max() > rounding and not symmetrize:
            raise InputError(
                f"{int(np.sum(gaps > rounding))} pairs have entries that differ, the most by "
                f"{gaps.max():.4g} at {divmod(int(key[first][gaps.argmax()]), n)}; pass "
                f"{option('symmetrize', True)} to average, or {option('directed', True)} to keep "
                "both directions."
            )
        n_entries = np.diff(first, append=key.size)
        dissimilarity = np.add.reduceat(dissimilarity, first) / n_entries
        key = key[first]
    if not squared:
        dissimilarity = dissimilarity**2
    low = (key // n).astype(np.int32)
    high = (key % n).astype(np.int32)
    return Pairs(n, low, high, dissimilarity, squared=squared)


def check_pairs(pairs: Pairs, k: int) -> None:
    """Refuse pairs that cannot determine k coordinates of every object, and warn when few do."""
    degrees = pairs.degrees
    alone = np.flatnonzero(degrees == 0)
    if alone.size:
        raise InputError(
            f"{alone.size} of {pairs.n} objects are in no pair: {_named(alone, pairs.labels)}; "
            "drop them, or add pairs."
        )
    # A sample is connected: it pairs every object with every landmark.
    if not pairs.sampled:
        refuse_parts(pairs.graph(), pairs.labels)
    mean_degree = 2 * pairs.size / pairs.n
    # The unknowns: n·k coordinates, of which a shift and a rotation take k(k + 1)/2.
    if pairs.size < pairs.n * k - k * (k + 1) // 2:
        raise InputError(
            f"{pairs.size} pairs cannot determine {k} coordinates of {pairs.n} objects: "
            f"{mean_degree:.3g} per object on average, and more than {2 * k} are needed; lower "
            f"{option('n_components')}, add pairs, or pass {option('metric', 'shortest_path')} if "
            "they are edges of a graph."
        )
    few = np.flatnonzero(degrees < k)
    if few.size or mean_degree < min(4 * k, pairs.n - 1):
        sparse_objects = ""
        if few.size:
            names = _named(few, pairs.labels)
            sparse_objects = (
                f", {few.size} objects are in fewer than k ({names})"
            )
        warnings.warn(
            f"{mean_degree:.3g} pairs per object on average determine k = {k} coordinates "
            f"poorly{sparse_objects}; about 10k are good: add pairs, or lower k.",
            OverfitWarning,
            stacklevel=2,
        )


# Advice on a directed graph without cycles.
NO_WAY_BACK = (
    "keep edges that lead back, or embed them without their direction"
)


def refuse_parts(
    graph: Any,
    labels: Labels,
    what: str = "pair",
    connection: Connection = "weak",
) -> None:
    """Refuse a sparse array of pairs or edges, as `what` says, that is not connected."""
    count, part_of = csgraph.connected_components(graph, connection=connection)
    if count == 1:
        return
    sizes = np.bincount(part_of)
    others = np.flatnonzero(part_of != np.argmax(sizes))
    both_ways = " both ways" if connection == "strong" else ""
    advice = f"keep one part, or add {what}s"
    if what == "edge":
        advice = f"keep one part by {option('part', 'largest')}, or add edges"
    if connection == "strong" and sizes.max() == 1:
        advice = NO_WAY_BACK
    raise InputError(
        f"the {what}s form {count} parts that no {what} connects{both_ways}, of "
        f"{examples(np.sort(sizes)[::-1].tolist())} objects; outside the largest: "
        f"{_named(others, labels)}; {advice}."
    )


def edges_of(frame: Any, weight: str | None) -> tuple[Any, Labels]:
    """Return the edges in a table as a sparse array, and the names of the nodes.

    The first two columns hold nodes. The column `weight` holds lengths; without it the column
    "length"; without both the third, if there is no fourth. Otherwise, and if `weight` is None,
    every edge has length 1.
    """
    titles = list(frame.columns)
    if len(titles) < 2 or len(frame) == 0 or list(frame.index) == titles:
        raise InputError(
            f"the table is {len(frame)} × {len(titles)}; a list of edges has two columns of nodes "
            "and one of lengths, and a line for each edge."
        )
    if weight not in (None, "weight", *titles[2:]):
        raise InputError(
            f"the table has no column {weight!r} after two of nodes; 'weight' in "
            f"{option('metric_params')} must be one of {examples(titles[2:])}, or "
            "None for edges of length 1."
        )
    lengths = np.ones(len(frame))
    names = [name for name in (weight, "length") if name in titles[2:]]
    if len(titles) == 3:
        names.append(titles[2])
    if weight is not None and names:
        lengths = _lengths(frame, names[0])
    elif weight is not None:
        warnings.warn(
            f"{len(frame)} edges count as 1: the table has no column {weight!r} or 'length'.",
            NeucmdsWarning,
            stacklevel=3,
        )
    nodes = frame.iloc[:, :2]
    unnamed = nodes.isna().any(axis=1).to_numpy()
    if unnamed.any():
        raise InputError(
            f"{int(unnamed.sum())} of {len(frame)} edges lack a node, the first in row "
            f"{int(np.argmax(unnamed))}; drop or repair them."
        )
    return _edges(
        nodes.iloc[:, 0].to_numpy(), nodes.iloc[:, 1].to_numpy(), lengths
    )


def _lengths(frame: Any, title: str | None) -> Any:
    """Return the lengths in a column of a table of edges, or refuse one that is no number."""
    what = f"lengths in column {title!r}"
    try:
        return as_real(frame[title], what)
    except InputError:
        ends = frame.iloc[:, :2].to_numpy()
        for (left, right), length in zip(ends, frame[title], strict=True):
            cell = np.array([length], dtype=object)
            as_real(cell, f"{what}, first of the edge {left} to {right},")
        raise


def _edges(left: Any, right: Any, length: Any) -> tuple[Any, Labels]:
    """Return a sparse array of lengths, and the names of the nodes; None: they are row numbers.

    `left` and `right` are the nodes of each edge, whole numbers or names of any type.
    """
    both = np.stack([left, right])
    if both.dtype.kind == "f" and np.array_equal(both, both.astype(np.int64)):
        both = both.astype(np.int64)
    if both.dtype.kind == "O":
        distinct = set(both.ravel().tolist())
        texts = list(map(text_of, both.ravel()))
        both = np.reshape(texts, both.shape)
        n_names = len(set(both.ravel().tolist()))
        if n_names < len(distinct):
            raise InputError(
                f"{len(distinct)} nodes have {n_names} names: some differ in type alone, as 1 and "
                "'1' do; convert both columns to one type."
            )
    nodes, numbers = np.unique(both, return_inverse=True)
    i, j = numbers.reshape(both.shape).astype(np.int64)
    graph = sparse.coo_array((length, (i, j)), shape=(nodes.size, nodes.size))
    names = tuple(map(str, nodes.tolist()))
    if are_row_numbers(names):
        return graph, None
    return graph, names


def _warn_of_edges(pairs: Pairs) -> None:
    """Warn of pairs that look like edges between neighbours, as `LOCAL` says."""
    degrees = pairs.degrees
    if degrees.mean() > LOCAL**2 * pairs.n:
        return
    adjacency = (pairs.graph() > 0).astype(np.int64)
    closed_paths = (adjacency @ adjacency).multiply(adjacency).sum()
    paths_of_two = float(degrees @ (degrees - 1))
    if closed_paths > LOCAL * paths_of_two:
        warnings.warn(
            f"{pairs.size} pairs of {pairs.n} objects look like edges between neighbours, and the "
            f"far pairs are missing; pass {option('metric', 'shortest_path')} if the array is a "
            "graph.",
            OverfitWarning,
            stacklevel=4,
        )


def _refuse_values(
    i: Numbers, j: Numbers, values: Floats, squared: bool
) -> None:
    """Refuse values that are no dissimilarities, or not zero from an object to itself."""
    if values.size == 0:
        raise InputError("there are no pairs.")
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(
            f"{int(bad.sum())} of {values.size} values are not finite, the first "
            f"{values[first]} at ({i[first]}, {j[first]}); leave out pairs that were not observed."
        )
    lowest = int(np.argmin(values))
    if values[lowest] < 0 and not squared:
        raise InputError(
            f"negative dissimilarities: the lowest is {values[lowest]:.4g} at "
            f"({i[lowest]}, {j[lowest]}); pass {option('squared', True)} if they are squared "
            "already."
        )
    largest = float(np.abs(values).max())
    refuse_range(largest, squared)
    on_diagonal = np.where(i == j, np.abs(values), 0.0)
    worst = int(np.argmax(on_diagonal))
    if on_diagonal[worst] > tolerance(largest, EPS):
        raise InputError(
            f"the dissimilarity of an object and itself is {values[worst]:.4g} at "
            f"({i[worst]}, {j[worst]}); set it to 0, or convert similarities."
        )


def _named(ids: Numbers, labels: Labels) -> str:
    """Return examples of objects for a message, by name if they have names."""
    if labels is None:
        return examples(ids.tolist())
    return examples([labels[i] for i in ids.tolist()])
