"""A result in the words of its reader: how good it is, what is fitted worst, what to try next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neucmds import api
from neucmds._backend.arrays import to_numpy
from neucmds._operator import DenseGram
from neucmds.api import Prepared
from neucmds.cli.results import Result
from neucmds.metrics import PairErrors, Quality, pair_errors
from neucmds.report.words import COUNTED, count, percent, significant

# Another k and another loss are tried, not guessed, on so many objects that they take a second.
MOST_TRIED, MOST_COORDINATES = 300, 40
# A change that improves nothing by a hundredth is no advice.
LEAST_GAIN = 0.01
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
    listed = "), ".join([f"{first} on average over its pairs", *others]) + ")"
    return listed if labels is not None else f"{listed}; {COUNTED}"


def _below_zero(quality: Quality, pairs: int) -> list[tuple[str, str]]:
    negative = quality.negative_dissimilarities
    if not negative:
        return []
    text = f"{count(negative)} of {count(pairs)} pairs: closer than the coordinates can say"
    return [("D̂ below zero", text)]


def advice(result: Result, tell: Callable[[str], None], seed: int) -> list[str]:
    """Try twice as many coordinates, and another method or loss, and say what each would change.

    Parameters
    ----------
    result : Result
    tell : callable
        Called with a few words before each fit.
    seed : int

    Returns
    -------
    list of str
        A heading and a line for each; empty for a fit that leaves nothing to gain, for weights and
        for too many coordinates to try.
    """
    embedding = result.embedding
    weighted = result.prepared.weights is not None
    if weighted or not 0 < embedding.k <= MOST_COORDINATES or not result.errors.pairs_off:
        return []
    ground, now = _ground(result, tell, seed)
    plans: list[tuple[str, int, str, str]] = []
    more = min(2 * embedding.k, ground.n - 1)
    if more > embedding.k:
        plans.append((f"-k {more}", more, embedding.method, embedding.loss))
    if embedding.method != "refined":
        plans.append(("--method refined", embedding.k, "refined", "squared"))
    elif embedding.loss != "squared":
        plans.append(("--loss squared", embedding.k, "refined", "squared"))
    elif math.isfinite(result.quality.raw_stress):  # else D has negative entries
        plans.append(("--loss relative", embedding.k, "refined", "relative"))
    where = "" if ground is result.prepared else f", on {ground.n} objects drawn at random"
    lines = []
    for flags, k, method, loss in plans:
        tell(f"trying {flags}")
        found = _tried(ground, k, method, loss, seed)
        if found.better_than(now):
            lines.append(f"  {flags:16} {found.after(now)}")
    return [f"Try next{where}:", *lines] if lines else []


@dataclass(frozen=True)
class _Outcome:
    """R², the share of the pairs that are off by over 10 %, and of the nearest that are kept."""

    r2: float
    off: float
    kept: float

    def better_than(self, other: _Outcome) -> bool:
        """Tell whether any of the three is better by more than a hundredth."""
        gains = (self.r2 - other.r2, other.off - self.off, self.kept - other.kept)
        return max(gains) > LEAST_GAIN

    def after(self, other: _Outcome) -> str:
        """Say all three, each after what it is now."""
        return (
            f"R² {significant(other.r2, 3)} → {significant(self.r2, 3)}; "
            f"off by over 10 %: {percent(other.off)} → {percent(self.off)}; "
            f"nearest kept: {percent(other.kept)} → {percent(self.kept)}"
        )


def _ground(result: Result, tell: Callable[[str], None], seed: int) -> tuple[Prepared, _Outcome]:
    """Return what is tried on, all of D or a few hundred objects, and the result as it is there."""
    prepared, embedding, errors = result.prepared, result.embedding, result.errors
    if prepared.n <= MOST_TRIED and result.landmarks is None:
        return prepared, _Outcome(
            result.quality.r2, errors.pairs_off / errors.pairs, result.quality.neighbors_kept
        )
    some = np.random.default_rng(seed).choice(
        prepared.n, min(prepared.n, MOST_TRIED), replace=False
    )
    some = np.sort(some)
    rows = [to_numpy(prepared.gram.rows(slice(i, i + 1)))[0, some] for i in some.tolist()]
    gram = DenseGram(np.array(rows, dtype=np.float64))
    part = Prepared(gram, squared=prepared.squared)
    tell(f"trying what to change on {part.n} objects")
    return part, _tried(part, embedding.k, embedding.method, embedding.loss, seed)


def _tried(prepared: Prepared, k: int, method: str, loss: str, seed: int) -> _Outcome:
    # One start is enough to say which way it goes.
    options = api.Options(k, method, loss, random_state=seed, n_init=1)
    found = api.fit(prepared, options).embedding
    errors = pair_errors(prepared.gram, found.coordinates, found.signs)
    quality = api.evaluate(found, prepared)
    return _Outcome(quality.r2, errors.pairs_off / max(1, errors.pairs), quality.neighbors_kept)
