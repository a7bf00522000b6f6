"""Scorers of new objects, for ``scoring=`` of `GridSearchCV` and `cross_val_score`.

The `score` of an estimator, an R² of squared dissimilarities, always prefers the squared loss.
These scorers tell how well new objects find their neighbours, and how far their distances are off.
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
    d_of_nearest = np.take_along_axis(distance, nearest, axis=1)
    # Ties agree to nine digits.
    return float(np.mean(d_of_nearest <= radius * (1 + 1e-9)))


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
    is_counted = (distance > 0) & np.isfinite(distance)
    if not is_counted.any():
        return float("nan")
    errors = np.abs(fitted[is_counted] / distance[is_counted] - 1)
    return -float(errors.mean())


def _distances(estimator: Any, X: Any) -> tuple[Floats, Floats]:
    """Return d and d̂ (m, n) of new and fitted objects, both infinite where d is not known."""
    check_is_fitted(estimator)
    model = estimator._model
    sq_d = estimator._sq_dissimilarities(X)
    coordinates = estimator._placed_array(X)
    fitted = to_numpy(model.form.d(coordinates, model._targets.coordinates))
    is_known = np.isfinite(sq_d)
    distance = np.sqrt(np.where(is_known, np.maximum(sq_d, 0), np.inf))
    return distance, np.where(is_known, fitted, np.inf)
