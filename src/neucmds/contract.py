"""What both estimators share of scikit-learn's contract: they hold an `Embedding` as `result_`."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from neucmds.arrays import Array
from neucmds.embedding import Embedding

__all__ = ["SignedTransformer"]


class SignedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer to coordinates with a signature, from features or dissimilarities."""

    metric: Any
    squared: bool
    result_: Embedding

    @property
    def signature_(self) -> Array:
        """The sign of each coordinate."""
        return self.result_.signs

    @property
    def eigenvalues_(self) -> Array:
        """Kept eigenvalues of B."""
        return self.result_.eigenvalues

    @property
    def weights_(self) -> Array:
        """Signed squared length of each coordinate."""
        return self.result_.weights

    @property
    def _n_features_out(self) -> int:
        return self.result_.k

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.positive_only = self._precomputed and not self.squared
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
