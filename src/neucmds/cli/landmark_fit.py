"""Landmarks: a few objects are embedded, and all others placed among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from neucmds import api
from neucmds._input.components import Components, NComponents
from neucmds.cli.inputs import Square
from neucmds.cli.results import Result
from neucmds.errors import InputError, option
from neucmds.estimators import LandmarkNeucMDS
from neucmds.metrics import pair_errors

# All pairs of more objects than this would take longer to measure than the landmarks to embed.
MEASURED_OBJECTS = 5000


def embed_by_landmarks(
    file: str,
    source: Square,
    n_landmarks: int,
    n_components: NComponents,
    *,
    squared: bool,
    symmetrize: bool,
    seed: int,
    **settings: Any,
) -> Result:
    """Embed some objects of a square file, place all, and measure all pairs or a sample."""
    values, labels, n = source.values, source.labels, source.n
    if not 2 <= n_landmarks <= n:
        raise InputError(f"--landmarks {n_landmarks} must be between 2 and n = {n}.")
    if isinstance(n_components, (float, str)):
        raise InputError(
            f"{option('n_components', n_components)} does not go with --landmarks; pass a number."
        )
    wanted = Components.parse(n_components, n_landmarks)
    estimator = LandmarkNeucMDS(
        wanted.signature or wanted.total,
        n_landmarks,
        squared=squared,
        symmetrize=symmetrize,
        random_state=seed,
        **settings,
    )
    coordinates = estimator.fit_transform(values)
    ids = estimator.landmarks_
    names = None if labels is None else tuple(labels[i] for i in ids)
    landmarks = replace(estimator.result_, labels=names)
    placed = replace(landmarks, coordinates=coordinates, labels=labels)
    measured, part = placed, values
    if n > MEASURED_OBJECTS:
        some = np.sort(np.random.default_rng(seed).choice(n, MEASURED_OBJECTS, replace=False))
        part = values[np.ix_(some, some)]
        drawn = None if labels is None else tuple(labels[i] for i in some)
        measured = replace(placed, coordinates=coordinates[some], labels=drawn)
    prepared = api.prepare(part, 1, squared=squared, symmetrize=symmetrize)
    return Result(
        file,
        placed,
        prepared,
        api.evaluate(measured, prepared),
        pair_errors(prepared.gram, measured.coordinates, measured.signs),
        landmarks=landmarks,
        sample=None if measured is placed else measured,
    )
