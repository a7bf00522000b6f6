"""D̂ as an inner product, for vector indexes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from neucmds.backend.arrays import Array, asarray_like, namespace


@dataclass(frozen=True)
class InnerProduct:
    """D̂ as an inner product.

    ``D̂(q, x) = Σ s q² − ⟨(2 s∘q, −1), (x, Σ s x²)⟩``, so the largest inner product is the nearest
    object, whatever the signs are.

    Parameters
    ----------
    coordinates : array of shape (n, k)
    signs : array of shape (k,)
    unit : bool, default=False
        Whether all vectors have length one, with one more number each: the largest inner product
        is then the largest cosine and the least Euclidean distance as well.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> emb = neuc_mds([[0, 1, 4], [1, 0, 3], [4, 3, 0]], 1)
    >>> index = emb.to_inner_product()
    >>> scores = index.queries(emb.coordinates) @ index.vectors.T
    >>> d_hat = index.sq_dissimilarities(scores, emb.coordinates)
    >>> np.allclose(d_hat, emb.dissimilarities(squared=True))
    True
    """

    coordinates: Array
    signs: Array
    unit: bool = False

    @property
    def vectors(self) -> Array:
        """Database vectors (x, Σ s x²), shape (n, k + 1); with `unit` (n, k + 2)."""
        return self.vectors_of(self.coordinates)

    def vectors_of(self, coordinates: Array) -> Array:
        """Database vectors of objects at these coordinates, fitted or new.

        With `unit`, a new object farther out than all fitted ones has a longer vector; its inner
        products are still correct.
        """
        x = asarray_like(coordinates, self.coordinates)
        shift, scale, longest = self._frame
        vectors = self._with_last(x, scale * (self._norms(x) - shift))
        if not self.unit:
            return vectors
        xp = namespace(x)
        left = xp.clip(longest**2 - xp.sum(vectors * vectors, axis=1), min=0.0)
        return self._with_last(vectors, xp.sqrt(left)) / longest

    def queries(self, coordinates: Array) -> Array:
        """Query vectors (2 s∘q, −1) of objects at these coordinates, as long as `vectors`."""
        query = self._plain_queries(coordinates)
        if not self.unit:
            return query
        xp = namespace(query)
        zero = xp.zeros_like(query[:, 0])
        return self._with_last(query, zero) / self._lengths(query)[:, None]

    def sq_dissimilarities(self, scores: Array, coordinates: Array) -> Array:
        """D̂ from inner products, one row of scores for each row of query coordinates."""
        q = asarray_like(coordinates, self.coordinates)
        shift, _, longest = self._frame
        inner = asarray_like(scores, q)
        if self.unit:
            inner = inner * (longest * self._lengths(self._plain_queries(q)))[:, None]
        return self._norms(q)[:, None] + shift - inner

    @cached_property
    def _frame(self) -> tuple[float, float, float]:
        """Shift and scale of Σ s x², and the length of the longest vector.

        Neither changes a rank. Unscaled sums dwarf the coordinates, and graph indexes then find few
        neighbours; a third of the size of the coordinates gave the highest recall.
        """
        if not self.unit:
            return 0.0, 1.0, 1.0
        xp, norms = namespace(self.coordinates), self._norms(self.coordinates)
        shift = float(xp.mean(norms))
        size = math.sqrt(float(xp.mean(xp.sum(self.coordinates**2, axis=1))))
        spread = math.sqrt(float(xp.mean((norms - shift) ** 2)))
        scale = size / (3 * spread) if spread > 0 else 1.0
        last = scale * (norms - shift)
        longest = math.sqrt(float(xp.max(xp.sum(self.coordinates**2, axis=1) + last * last)))
        return shift, scale, longest or 1.0

    def _plain_queries(self, coordinates: Array) -> Array:
        q = asarray_like(coordinates, self.coordinates)
        last = asarray_like(-namespace(q).ones((q.shape[0],), dtype=q.dtype), q)
        return self._with_last(2 * q * self.signs[None, :], last / self._frame[1])

    def _norms(self, points: Array) -> Array:
        return (points * points) @ self.signs

    @staticmethod
    def _lengths(points: Array) -> Array:
        xp = namespace(points)
        return xp.sqrt(xp.sum(points * points, axis=1))

    @staticmethod
    def _with_last(columns: Array, last: Array) -> Array:
        return namespace(columns).concat([columns, last[:, None]], axis=1)
