"""A result in the words of its reader: how good it is, what is fitted worst, what to try next."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neucmds import api
from neucmds._backend.arrays import to_numpy
from neucmds._methods.refined.starts import RefineSettings
from neucmds.cli.results import Result
from neucmds.cli.tables import count, percent, significant
from neucmds.metrics import PairErrors, Quality, pair_errors

__all__ = ["advice", "facts"]

# Another k and another loss are tried, not guessed, where both together take about a second.
MOST_TRIED, MOST_COORDINATES = 300, 30
AXES_SHOWN = 4


def facts(result: Result) -> list[tuple[str, str]]:
    """Return what is known of a result, most important first."""
    embedding, quality, errors = result.embedding, result.quality, result.errors
    positive, negative = embedding.signature
    loss = "" if embedding.loss == "squared" else f", {embedding.loss} loss"
    pairs = result.measured.n * (result.measured.n - 1) // 2
    return [
        ("method", f"{embedding.method}{loss}"),
        ("coordinates", f"{embedding.k}: {positive} positive, {negative} negative{_axes(result)}"),
        *_measured(result),
        ("R²", _r2(quality.r2)),
        ("off by over 10 %", _off(quality, errors)),
        ("fitted worst", _worst(result)),
        ("neighbours", f"{percent(quality.neighbors_kept)} of the 10 nearest are kept"),
        (
            "STRESS",
            f"{significant(quality.stress)}, {percent(quality.normalized_stress)} of ‖D‖²; "
            f"distortion {significant(quality.distortion)} (1 is perfect)",
        ),
        *_below_zero(quality, pairs),
    ]


def _axes(result: Result) -> str:
    embedding = result.embedding
    with np.errstate(divide="ignore", invalid="ignore"):  # objects that are all the same
        shares = to_numpy(embedding.explained)[:AXES_SHOWN]
    if not shares.size or not np.isfinite(shares).all():
        return ""
    shown = ", ".join(f"{100 * share:.3g} %".replace("-", "−") for share in shares)
    more = ", …" if embedding.k > AXES_SHOWN else ""
    return f"; they explain {shown}{more} of the squared dissimilarity"


def _measured(result: Result) -> list[tuple[str, str]]:
    if result.landmarks is None:
        return []
    placed = result.embedding.n - result.landmarks.n
    text = f"{count(result.landmarks.n)} landmarks embedded, {count(placed)} others placed"
    of = "all pairs" if result.sample is None else f"{count(result.sample.n)} objects at random"
    return [("landmarks", f"{text}; what follows is measured on {of}")]


def _r2(r2: float) -> str:
    if math.isnan(r2):
        return "not defined: all dissimilarities are equal"
    if r2 < 0:
        return f"{significant(r2)}: worse than one number for all pairs"
    return f"{significant(r2)}: the share of the variance of the squared dissimilarities explained"


def _off(quality: Quality, errors: PairErrors) -> str:
    if not errors.pairs:
        return "not defined: no dissimilarity is positive"
    return (
        f"{count(errors.pairs_off)} of {count(errors.pairs)} pairs "
        f"({percent(errors.pairs_off / errors.pairs)}); {percent(quality.relative_error_mean)} "
        f"on average, 95 % of the pairs by less than {percent(quality.relative_error_p95)}"
    )


def _worst(result: Result) -> str:
    labels, errors = result.measured.labels, result.errors.of_object
    worst = [i for i in result.errors.worst() if errors[i] > 0]
    if not worst:
        return "none"
    names = [f"object {i}" if labels is None else labels[i] for i in worst]
    first, *others = (
        f"{name} ({percent(float(errors[i]))}" for name, i in zip(names, worst, strict=True)
    )
    return "), ".join([f"{first} on average over its pairs", *others]) + ")"


def _below_zero(quality: Quality, pairs: int) -> list[tuple[str, str]]:
    negative = quality.negative_dissimilarities
    if not negative:
        return []
    text = f"{count(negative)} of {count(pairs)} pairs: closer than the coordinates can say"
    return [("D̂ below zero", text)]


def advice(result: Result, tell: Callable[[str], None], seed: int) -> list[str]:
    """Try twice as many coordinates, and another loss, and say what each would change.

    Parameters
    ----------
    result : Result
    tell : callable
        Called with a few words before each fit.
    seed : int

    Returns
    -------
    list of str
        Empty for large D, and for a fit that leaves nothing to gain.
    """
    embedding, now = result.embedding, result
    k, n = embedding.k, embedding.n
    small = n <= MOST_TRIED and result.landmarks is None and result.prepared.weights is None
    if not small or not k or now.errors.pairs_off == 0:
        return []
    tried = []
    more = min(2 * k, n - 1, MOST_COORDINATES)
    if more > k:
        tried.append((f"-k {more}", more, embedding.method, embedding.loss))
    if embedding.loss == "squared" and _has_roots(result):
        tried.append(("--loss relative", k, "refined", "relative"))
    elif embedding.loss != "squared":
        tried.append(("--loss squared", k, "refined", "squared"))
    lines = []
    for flags, wanted, method, loss in tried:
        tell(f"trying {flags}")
        lines.append(f"  {flags:16} {_change(result, wanted, method, loss, seed)}")
    return lines


def _has_roots(result: Result) -> bool:
    return math.isfinite(result.quality.raw_stress)


def _change(result: Result, k: int, method: str, loss: str, seed: int) -> str:
    # One start is enough to say which way it goes.
    one = loss != "squared"
    settings = RefineSettings(loss=loss, n_init=1 if one else None, climb=False if one else None)
    found = api.fit(result.prepared, k, method, random_state=seed, settings=settings).embedding
    quality = api.evaluate(found, result.prepared)
    errors = pair_errors(result.prepared.gram, found.coordinates, found.signs)
    old = result.errors
    return (
        f"R² {significant(quality.r2, 3)} instead of {significant(result.quality.r2, 3)}, "
        f"{percent(errors.pairs_off / errors.pairs)} of the pairs off by over 10 % instead of "
        f"{percent(old.pairs_off / old.pairs)}"
    )
