"""Scorers of new objects, for ``scoring=`` of `GridSearchCV` and `cross_val_score`.

`score`, an R² of squared dissimilarities, always prefers the squared loss. These tell how well new
objects find their neighbours, and how far their distances are off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import Floats, to_numpy

NEIGHBORS = 10


def recall_at_10(estimator: Any, X: Any, y: Any = None) -> float:
    """Share of the 10 nearest by d̂ that are no farther by d than the 10th nearest.

    Parameters
    ----------
    estimator : NeucMDS, LandmarkNeucMDS or NeucIsomap
        Fitted; the neighbours are fitted objects, of `LandmarkNeucMDS` landmarks.
    X : array
        New objects, as for `transform`.
    y : ignored

    Returns
    -------
    float
        Mean over the new objects; 1 is best.
    """
    distance, fitted = _distances(estimator, X)
    count = min(NEIGHBORS, distance.shape[1])
    nearest = np.argpartition(fitted, count - 1, axis=1)[:, :count]
    radius = np.partition(distance, count - 1, axis=1)[:, count - 1 : count]
    # Ties are equal to nine digits.
    reached = np.take_along_axis(distance, nearest, axis=1)
    return float(np.mean(reached <= radius * (1 + 1e-9)))


def neg_relative_error(estimator: Any, X: Any, y: Any = None) -> float:
    """Minus the mean of |d̂/d − 1| over pairs of a new and a fitted object with d > 0.

    Parameters
    ----------
    estimator, X, y
        As for `recall_at_10`.

    Returns
    -------
    float
        0 is best; NaN if no d is positive.
    """
    distance, fitted = _distances(estimator, X)
    positive = (distance > 0) & np.isfinite(distance)
    if not positive.any():
        return float("nan")
    errors = np.abs(fitted[positive] / distance[positive] - 1)
    return -float(errors.mean())


def _distances(estimator: Any, X: Any) -> tuple[Floats, Floats]:
    """Return d and d̂ between new and fitted objects, infinite where d is not known."""
    check_is_fitted(estimator)
    model = estimator._model
    sq = estimator._sq_dissimilarities(X)
    placed = estimator._placed_array(X)
    fitted = to_numpy(model.form.d(placed, model._targets.coordinates))
    known = np.isfinite(sq)
    distance = np.sqrt(np.where(known, np.maximum(sq, 0), np.inf))
    return distance, np.where(known, fitted, np.inf)
