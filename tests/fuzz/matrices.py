"""Hostile matrices, fitted in every way: a result keeps its promises, or one line refuses D."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from neucmds import Embedding, InputError, neuc_mds
from neucmds.options import ALL_METHODS
from neucmds.spectrum.krylov import solve

Floats = np.ndarray
CLOSED = tuple(method for method in ALL_METHODS if method != "refined")


def _lengths(X: Floats, order: int = 2) -> Floats:
    return np.linalg.norm(X[:, None] - X, order, axis=2)


def _points(rng: np.random.Generator, n: int) -> Floats:
    return _lengths(rng.normal(size=(n, int(rng.integers(1, 5)))))


def _outlier(rng: np.random.Generator, n: int) -> Floats:
    D = _points(rng, n)
    i, j = rng.choice(n, 2, replace=False)
    D[i, j] = D[j, i] = 10.0 ** rng.integers(2, 13)
    return D


def _hops(rng: np.random.Generator, n: int) -> Floats:
    step = _lengths(np.arange(n)[:, None])
    return np.minimum(step, n - step)


def _clusters(rng: np.random.Generator, n: int) -> Floats:
    group = rng.integers(0, 3, n)
    return np.where(group[:, None] == group, 1e-6, 1.0) * rng.uniform(
        0.9, 1.1, (n, n)
    )


# Only the upper triangle is used.
KINDS = {
    "points": _points,
    "city_blocks": lambda rng, n: _lengths(
        rng.normal(size=(n, int(rng.integers(1, 7)))), 1
    ),
    "random": lambda rng, n: rng.uniform(size=(n, n)),
    "duplicates": lambda rng, n: _lengths(
        rng.normal(size=(max(1, n // 3), 2))[
            rng.integers(0, max(1, n // 3), n)
        ]
    ),
    "zeros": lambda rng, n: np.zeros((n, n)),
    "constant": lambda rng, n: np.full((n, n), rng.choice([1.0, 1 / 3, 7.0])),
    "outlier": _outlier,
    "wide": lambda rng, n: 10.0 ** rng.uniform(-12, 12, (n, n)),
    "hops": _hops,
    "clusters": _clusters,
    "noisy": lambda rng, n: np.abs(
        _points(rng, n) + rng.normal(scale=0.3, size=(n, n))
    ),
    "sparse": lambda rng, n: (
        rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.1)
    ),
}
# Eigenvalues apart, so that the selection does not hang on rounding.
GENERIC = ("city_blocks", "random", "noisy")
# The first two compare closed forms of a generic D up to rounding.
CHECKS = ("permutation", "solver", "file", "rows")


@dataclass(frozen=True)
class Case:
    """A matrix, the number of coordinates, and the invariance to check."""

    kind: str
    n: int
    k: int
    seed: int
    squared: bool = False
    dtype: str = "float64"
    decades: int = 0
    check: str = "file"

    @property
    def matrix(self) -> Floats:
        """D as it is handed over; a squared D has a random sign in one of three entries."""
        rng = np.random.default_rng([self.seed, self.n])
        D = np.triu(KINDS[self.kind](rng, self.n), 1)
        if self.squared:
            D = D**2 * np.where(rng.uniform(size=D.shape) < 0.3, -1.0, 1.0)
        D = (D + D.T) * 10.0 ** (
            self.decades if self.squared else self.decades / 2
        )
        with np.errstate(over="ignore"):
            return D.astype(self.dtype)


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    # Small matrices are the odd ones, and cheap.
    n = int(
        rng.integers(2, 11)
        if rng.uniform() < 0.95
        else rng.choice([13, 17, 22, 30])
    )
    check, single = CHECKS[seed % len(CHECKS)], rng.uniform() < 0.2
    kinds = (
        GENERIC
        if check in CHECKS[:2] and rng.uniform() < 0.7
        else tuple(KINDS)
    )
    far = 30 if single else 80
    return Case(
        kind=str(rng.choice(kinds)),
        n=n,
        k=int(rng.integers(1, max(2, min(n, 6)))),
        seed=seed,
        squared=bool(rng.uniform() < 0.4),
        dtype="float32" if single else "float64",
        decades=int(rng.integers(-far, far + 1)) if rng.uniform() < 0.3 else 0,
        check=check,
    )


def ways(case: Case) -> dict[str, tuple[Floats, dict[str, Any]]]:
    """Return D and the options of every method and loss, and of weights, gaps and signatures."""
    rng = np.random.default_rng([case.seed, 2])
    W = rng.uniform(size=(case.n, case.n)) * 10.0 ** rng.integers(-3, 4)
    W = np.where(rng.uniform(size=W.shape) < 0.2, 0.0, W)
    W += W.T
    p = int(rng.integers(0, case.k + 1))
    short = {"max_iter": int(rng.choice([1, 5, 15]))} if case.seed % 16 else {}
    method = str(rng.choice(ALL_METHODS))
    goal = (0.5, 0.9, 0.999, "auto")[case.seed // 5 % 4]
    start = {"n_init": 1 + (case.seed % 10 == 0), **short}
    found: dict[str, dict[str, Any]] = {
        name: {"method": name} for name in ALL_METHODS
    }
    found["distance"] = {**start, "loss": "distance"}
    found["relative"] = {**start, "loss": "relative"}
    found["signature"] = {"n_components": (p, case.k - p), "method": method}
    # Weights and gaps at every matrix would take four fifths of the time.
    some = {
        "goal": (5, {"n_components": goal, "method": method}),
        "weights": (24, {**short, "weights": W}),
        "gaps": (48, {**short, "missing": "ignore"}),
        "weighted relative": (96, {**found["relative"], "weights": W}),
    }
    found |= {
        name: options
        for name, (every, options) in some.items()
        if case.seed % every == 0
    }
    common = {
        "n_components": case.k,
        "squared": case.squared,
        "random_state": 0,
    }
    D = case.matrix
    holes = np.triu(rng.uniform(size=D.shape) < rng.choice([0.05, 0.3]), 1)
    return {
        name: (
            np.where(holes | holes.T, np.nan, D) if name == "gaps" else D,
            common | options,
        )
        for name, options in found.items()
    }


def fitted(D: Floats, solver: str = "", **options: Any) -> Embedding | None:
    """Return an embedding, or None where D or the options are refused by one line."""
    try:
        chosen = patch(
            "neucmds.spectrum.solve.solve", partial(solve, solver=solver)
        )
        with chosen if solver else nullcontext():
            return neuc_mds(D.copy(), **options)
    except InputError as error:
        if "\n" in str(error) or not str(error):
            raise ValueError(f"not one line: {str(error)!r}") from error
        return None


def wrong_with(embedding: Embedding, D: Floats, weights: Any = None) -> str:
    """Say which promise a result breaks: finite, signs of ±1, the STRESS of its coordinates."""
    numbers = (
        "coordinates",
        "signs",
        "weights",
        "stress",
        "normalized_stress",
        "loss_value",
    )
    facts = ("eigenvalues", "residuals", "stress_error", "sq_norm", "trace")
    for source, names in ((embedding, numbers), (embedding.info, facts)):
        for name in names:
            if not np.isfinite(np.asarray(getattr(source, name))).all():
                return f"{name} not finite"
    if not np.all(np.abs(np.asarray(embedding.signs)) == 1):
        return "signs are not ±1"
    # Σ w (D̂ − D)² over all pairs, in extended precision; NaN counts nothing.
    x, d = (
        np.asarray(a).astype(np.longdouble) for a in (embedding.coordinates, D)
    )
    d = d if embedding.squared else d * d
    w = np.where(np.isnan(d), 0.0, 1.0 if weights is None else weights)
    np.fill_diagonal(w, 0.0)
    d_hat = (x[:, None] - x) ** 2 @ np.asarray(embedding.signs).astype(
        np.longdouble
    )
    off = abs(np.sum(w * (d_hat - np.nan_to_num(d)) ** 2) - embedding.stress)
    if not off <= embedding.info.stress_error:
        stated = embedding.info.stress_error
        return (
            f"STRESS {embedding.stress:.6g} is off by {off:.3g} > {stated:.3g}"
        )
    return ""


def examine(case: Case) -> dict[str, Any]:
    """Try everything on a matrix; return counts, and findings as text."""
    results: dict[str, Embedding] = {}
    findings, tried = [], ways(case)
    # What has no room in float32, or spans more decades than are allowed, may be refused.
    far = case.kind in ("wide", "outlier") and (
        case.dtype == "float32" or abs(case.decades) > 15
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (D, options) in tried.items():
            problem = ""
            try:
                found = fitted(D, **options)
                if found is not None:
                    results[name] = found
                    problem = wrong_with(found, D, options.get("weights"))
                elif name in ALL_METHODS and not far:
                    problem = "refused"
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:120]}"
            findings += [f"{name}: {problem}"] if problem else []
        try:
            findings += [
                f"{case.check}: {name}" for name in changed(case, results)
            ]
        except Exception as error:
            findings.append(
                f"{case.check}: {type(error).__name__}: {str(error)[:120]}"
            )
    refused = len(tried) - len(results)
    findings = [f"seed {case.seed} {finding}" for finding in findings]
    return {
        "matrices": 1,
        "fits": len(tried),
        "refused": refused,
        "findings": findings,
    }


def changed(case: Case, results: dict[str, Embedding]) -> list[str]:
    """Name the ways whose result the check of a case changes."""
    tried, rows = {name: ways(case)[name] for name in results}, case.matrix
    if case.check == "file":
        return [
            name
            for name, one in results.items()
            if not _same_from_file(one, rows[:3])
        ]
    if case.check == "rows":
        return [
            name
            for name, one in results.items()
            if not _places_its_rows(case, name, one)
        ]
    closed = CLOSED if case.kind in GENERIC and not case.decades else ()
    return [
        name
        for name in closed
        if name in tried and not _close(case, *tried[name])
    ]


def _close(case: Case, D: Floats, options: dict[str, Any]) -> bool:
    """Compare normalised STRESS with that of D changed, beyond what both leave open."""
    bound, other = 1e-8 if case.dtype == "float64" else 1e-4, dict(options)
    changed = D
    if case.check == "permutation":
        order = np.random.default_rng(case.seed).permutation(case.n)
        changed = D[np.ix_(order, order)]
    else:
        bound = max(bound, 1e-6)
        options, other = (
            options | {"solver": "full"},
            options | {"solver": "krylov"},
        )
    a, b = fitted(D, **options), fitted(changed, **other)
    if a is None or b is None:
        return a is b
    known = sum(
        e.info.stress_error / e.info.sq_norm if e.info.sq_norm else 0.0
        for e in (a, b)
    )
    return abs(a.normalized_stress - b.normalized_stress) <= bound + known


def _same(a: Embedding, b: Embedding) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("coordinates", "signs", "stress_terms")
    )


def _placed(embedding: Embedding, rows: Floats) -> Floats | str:
    """Return where rows are placed, or why they are refused."""
    try:
        return np.asarray(embedding.transform(rows))
    except InputError as refusal:
        return str(refusal)


def _same_from_file(embedding: Embedding, rows: Floats) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.npz"
        embedding.save(path)
        loaded = Embedding.load(path)
    places = (_placed(one, np.abs(rows)) for one in (embedding, loaded))
    return _same(embedding, loaded) and np.array_equal(*places)


def _places_its_rows(case: Case, name: str, embedding: Embedding) -> bool:
    """Tell whether fitted objects get finite places, by closed forms those that they had."""
    placed = _placed(embedding, case.matrix)
    if isinstance(placed, str) or placed.shape != embedding.coordinates.shape:
        return False
    closed = (
        name in CLOSED
        and embedding.k
        and case.dtype == "float64"
        and case.kind in GENERIC
    )
    if not closed:
        return bool(np.isfinite(placed).all())
    lam = np.abs(embedding.info.eigenvalues)
    level = 1e-10 * np.abs(embedding.coordinates).max() * lam.max() / lam.min()
    return bool(np.abs(placed - embedding.coordinates).max() <= level)
