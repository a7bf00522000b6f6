"""D̂ as an inner product, for vector indexes."""

from __future__ import annotations

import math

from neucmds.backend.arrays import Array, asarray_like, namespace
from neucmds.form import Form, rounding_level


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
    >>> sq = index.sq_dissimilarities(scores, emb.coordinates)
    >>> np.allclose(sq, emb.dissimilarities(squared=True))
    True
    """

    def __init__(
        self, coordinates: Array, signs: Array, unit: bool = False
    ) -> None:
        self.coordinates = coordinates
        self.signs = signs
        self.unit = unit
        # Σ s x² of each row x.
        self._norms = Form(signs).norms
        # With N = Σ s x², vectors are (x, scale · (N − shift)) and queries (2 s∘q, −1/scale): their
        # product is 2 Σ s q x − N + shift, which ranks objects as without shift and scale. If N
        # dwarfs the coordinates, graph indexes find few neighbours; scaled to a spread of a third
        # of an object's usual length it gave the highest recall.
        self._shift = 0.0
        self._scale = 1.0
        self._longest = 1.0
        if unit:
            xp = namespace(coordinates)
            norms = self._norms(coordinates)
            self._shift = float(xp.mean(norms))
            spread = float(xp.std(norms))
            if spread:
                length = float(xp.mean(_lengths(coordinates) ** 2)) ** 0.5
                self._scale = length / (3 * spread)
            lengths = _lengths(self._plain_vectors(coordinates))
            self._longest = float(xp.max(lengths)) or 1.0

    @property
    def vectors(self) -> Array:
        """Database vectors (x, Σ s x²), shape (n, k + 1); with `unit` (n, k + 2)."""
        return self.vectors_of(self.coordinates)

    def vectors_of(self, coordinates: Array) -> Array:
        """Database vectors of objects at these coordinates, fitted or new.

        With `unit`, a new object farther out than all fitted ones has a longer vector; its inner
        products are still correct.
        """
        vectors = self._plain_vectors(
            asarray_like(coordinates, self.coordinates)
        )
        if not self.unit:
            return vectors
        xp = namespace(vectors)
        # The last number makes all vectors as long as the longest.
        sq_last = xp.clip(self._longest**2 - _lengths(vectors) ** 2, min=0.0)
        return _with_last(vectors, xp.sqrt(sq_last)) / self._longest

    def queries(self, coordinates: Array) -> Array:
        """Query vectors (2 s∘q, −1) of objects at these coordinates, with the columns of `vectors`.

        With `unit` each has length one.
        """
        queries = self._plain_queries(coordinates)
        if not self.unit:
            return queries
        # The last number of a vector does not count in products.
        zeros = namespace(queries).zeros_like(queries[:, 0])
        return _with_last(queries, zeros) / _lengths(queries)[:, None]

    def sq_dissimilarities(self, scores: Array, coordinates: Array) -> Array:
        """D̂ from inner products, one row of scores for each row of query coordinates.

        D̂ = Σ s q² + shift − ⟨query, vector⟩, where both are not divided by a length.
        """
        q = asarray_like(coordinates, self.coordinates)
        products = asarray_like(scores, q)
        if self.unit:
            lengths = _lengths(self._plain_queries(q))
            products = products * (self._longest * lengths)[:, None]
        return self._norms(q)[:, None] + self._shift - products

    def single_precision_error(self, form: Form) -> float:
        """Return the mean relative error of distances from scores in float32.

        It is measured among up to 500 of the objects, where D̂ is not zero up to rounding.
        """
        x = self.coordinates[:: math.ceil(self.coordinates.shape[0] / 500), :]
        xp = namespace(x)
        queries = xp.astype(self.queries(x), xp.float32)
        vectors = xp.astype(self.vectors_of(x), xp.float32)
        scores = queries @ vectors.T
        sq = form.sq(x, x)
        apart = sq > rounding_level(x, x)
        d = form.to_distance(sq[apart])
        sq_single = self.sq_dissimilarities(scores, x)
        errors = xp.abs(form.to_distance(sq_single[apart]) - d) / d
        return float(xp.sum(errors) / max(1, errors.shape[0]))

    def _plain_vectors(self, x: Array) -> Array:
        """Return (x, scale · (N − shift)), of any length."""
        return _with_last(x, self._scale * (self._norms(x) - self._shift))

    def _plain_queries(self, coordinates: Array) -> Array:
        """Return (2 s∘q, −1/scale), of any length."""
        q = asarray_like(coordinates, self.coordinates)
        last = namespace(q).full_like(self._norms(q), -1 / self._scale)
        return _with_last(2 * q * self.signs, last)


def _lengths(vectors: Array) -> Array:
    xp = namespace(vectors)
    return xp.sqrt(xp.sum(vectors * vectors, axis=1))


def _with_last(columns: Array, last: Array) -> Array:
    """Append a column."""
    return namespace(columns).concat([columns, last[:, None]], axis=1)
