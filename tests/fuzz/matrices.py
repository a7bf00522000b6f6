"""Hostile matrices in every way: a finite result whose STRESS is what it says, or one `InputError`.

`examine(seed)` is one trial: a matrix, every method and loss on it, and one of the invariances.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neucmds import Embedding, InputError, neuc_mds
from neucmds.api import ALL_METHODS

Floats = np.ndarray
CLOSED = tuple(method for method in ALL_METHODS if method != "refined")
# Normalised STRESS in single precision against double, of closed forms: 60 times float32's ε.
SINGLE_BOUND = 1e-5
# Longest that a matrix of at most 30 objects may take by one method.
MOST_SECONDS = 20.0


def _points(rng: np.random.Generator, n: int) -> Floats:
    X = rng.normal(size=(n, int(rng.integers(1, 5))))
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def _city_blocks(rng: np.random.Generator, n: int) -> Floats:
    X = rng.normal(size=(n, int(rng.integers(1, 7))))
    return np.abs(X[:, None] - X).sum(axis=2)


def _random(rng: np.random.Generator, n: int) -> Floats:
    return rng.uniform(size=(n, n))


def _duplicates(rng: np.random.Generator, n: int) -> Floats:
    X = rng.normal(size=(max(1, n // 3), 2))[rng.integers(0, max(1, n // 3), n)]
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def _zeros(rng: np.random.Generator, n: int) -> Floats:
    return np.zeros((n, n))


def _constant(rng: np.random.Generator, n: int) -> Floats:
    return np.full((n, n), float(rng.choice([1.0, 1 / 3, 7.0])))


def _line(rng: np.random.Generator, n: int) -> Floats:
    x = np.sort(rng.integers(0, 50, n)).astype(float)
    return np.abs(x[:, None] - x)


def _outlier(rng: np.random.Generator, n: int) -> Floats:
    D = _points(rng, n)
    i, j = rng.choice(n, 2, replace=False)
    D[i, j] = D[j, i] = 10.0 ** rng.integers(2, 13)
    return D


def _wide(rng: np.random.Generator, n: int) -> Floats:
    return 10.0 ** rng.uniform(-12, 12, (n, n))


def _hops(rng: np.random.Generator, n: int) -> Floats:
    step = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.minimum(step, n - step).astype(float)


def _clusters(rng: np.random.Generator, n: int) -> Floats:
    group = rng.integers(0, 3, n)
    return np.where(group[:, None] == group, 1e-6, 1.0) * rng.uniform(0.9, 1.1, (n, n))


def _whole_numbers(rng: np.random.Generator, n: int) -> Floats:
    return rng.integers(0, 4, (n, n)).astype(float)


def _noisy(rng: np.random.Generator, n: int) -> Floats:
    return np.abs(_points(rng, n) + rng.normal(scale=0.3, size=(n, n)))


def _sparse(rng: np.random.Generator, n: int) -> Floats:
    return rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.1)


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    maker.__name__.strip("_"): maker
    for maker in (
        _points, _city_blocks, _random, _duplicates, _zeros, _constant, _line, _outlier, _wide,
        _hops, _clusters, _whole_numbers, _noisy, _sparse,
    )
}  # fmt: skip
# Eigenvalues apart, so that what is selected does not hang on rounding.
GENERIC = ("city_blocks", "random", "noisy")
DAMAGES = ("asymmetric", "infinite", "missing", "diagonal", "negative")
CHECKS = (
    "permutation", "power of two", "power of ten", "repetition", "file", "single", "rows", "solver",
    "threads",
)  # fmt: skip
NEEDS_GENERIC = ("permutation", "power of ten", "single", "solver")


@dataclass(frozen=True)
class Case:
    """A matrix and how it is handed over; two equal cases hold the same numbers.

    Parameters
    ----------
    kind : one of `KINDS`
    n, k, seed : int
    squared : bool
        D is squared, and given a random sign in one of three entries.
    dtype : {"float64", "float32"}
    decades : int
        The squared scale is multiplied by ten to this power.
    damage : one of `DAMAGES` or None
    check : one of `CHECKS`
    """

    kind: str
    n: int
    k: int
    seed: int
    squared: bool = False
    dtype: str = "float64"
    decades: int = 0
    damage: str | None = None
    check: str = "repetition"

    @property
    def matrix(self) -> Floats:
        """D on the scale that is handed over."""
        rng = np.random.default_rng([self.seed, self.n])
        D = KINDS[self.kind](rng, self.n)
        D = np.triu(D, 1) + np.triu(D, 1).T
        if self.squared:
            sign = np.triu(np.where(rng.uniform(size=D.shape) < 0.3, -1.0, 1.0), 1)
            D = D**2 * (sign + sign.T)
            D *= 10.0**self.decades
        else:
            D *= 10.0 ** (self.decades / 2)
        with np.errstate(over="ignore"):
            D = D.astype(self.dtype)
        return self._damaged(D, rng)

    def _damaged(self, D: Floats, rng: np.random.Generator) -> Floats:
        i, j = rng.choice(self.n, 2, replace=False)
        if self.damage == "asymmetric":
            D[i, j] = 1 + 2 * D[i, j]
        elif self.damage in ("infinite", "missing"):
            D[i, j] = D[j, i] = np.inf if self.damage == "infinite" else np.nan
        elif self.damage == "diagonal":
            D[i, i] = 0.5 + np.abs(D).max()
        elif self.damage == "negative":
            D[i, j] = D[j, i] = -1 - np.abs(D).max()
        return D


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    # Small ones more often: they are the odd ones, and cheap.
    n = int(
        rng.choice(
            [2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 17, 22, 30], p=[0.105] * 9 + [0.02] * 2 + [0.01, 0.005]
        )
    )
    single = rng.uniform() < 0.2
    decades, check = 0, CHECKS[seed % len(CHECKS)]
    kinds = GENERIC if check in NEEDS_GENERIC and rng.uniform() < 0.7 else tuple(KINDS)
    if rng.uniform() < 0.3:
        decades = int(rng.integers(-30, 31) if single else rng.integers(-80, 81))
    return Case(
        kind=str(rng.choice(kinds)),
        n=n,
        k=int(rng.integers(1, max(2, min(n, 6)))),
        seed=seed,
        squared=bool(rng.uniform() < 0.4),
        dtype="float32" if single else "float64",
        decades=decades,
        damage=str(rng.choice(DAMAGES)) if rng.uniform() < 0.1 else None,
        check=check,
    )


def ways(case: Case) -> dict[str, dict[str, Any]]:
    """Return the options of every method and loss, and of weights, gaps and signatures."""
    rng = np.random.default_rng([case.seed, 2])
    W = rng.uniform(size=(case.n, case.n)) * 10.0 ** rng.integers(-3, 4)
    W = np.where(rng.uniform(size=W.shape) < 0.2, 0.0, W)
    p = int(rng.integers(0, case.k + 1))
    common: dict[str, Any] = {"n_components": case.k, "squared": case.squared, "random_state": 0}
    short = {"max_iter": int(rng.choice([1, 5, 15]))} if case.seed % 16 else {}
    found: dict[str, dict[str, Any]] = {m: {**common, "method": m} for m in ALL_METHODS}
    for loss in ("distance", "relative"):
        found[loss] = {**common, **short, "loss": loss, "n_init": 1 + (case.seed % 10 == 0)}
    # Weights and gaps at every matrix would take four fifths of the time.
    if case.seed % 24 == 0:
        found["weights"] = {**common, **short, "weights": W + W.T}
    if case.seed % 48 == 0:
        found["gaps"] = {**common, **short, "missing": "ignore"}
    method = str(rng.choice(ALL_METHODS))
    found["signature"] = {**common, "n_components": (p, case.k - p), "method": method}
    if case.seed % 5 == 0:
        goal = (0.5, 0.9, 0.999, "auto")[case.seed // 5 % 4]
        found["goal"] = {**common, "n_components": goal, "method": method}
    if case.seed % 96 == 0:
        found["weighted relative"] = {**found["relative"], "weights": W + W.T}
    return found


def handed(case: Case, name: str) -> Floats:
    """Return D as it is handed over in a way: the one with gaps has some."""
    D = case.matrix
    if name == "gaps":
        rng = np.random.default_rng([case.seed, 3])
        lost = np.triu(rng.uniform(size=D.shape) < rng.choice([0.05, 0.3]), 1)
        D[lost | lost.T] = np.nan
    return D


def sq_form(embedding: Embedding) -> Floats:
    """D̂ from every pair, in extended precision."""
    x = np.asarray(embedding.coordinates).astype(np.longdouble)
    gap = x[:, None] - x
    return (gap * gap) @ np.asarray(embedding.signs).astype(np.longdouble)


def brute_force(embedding: Embedding, D: Floats, weights: Floats | None) -> float:
    """Σ w (D̂ − D)² over all ordered pairs, in extended precision; NaN counts nothing."""
    d = D.astype(np.longdouble)
    d = d if embedding.squared else d * d
    w = np.where(np.isnan(d), 0.0, 1.0 if weights is None else weights)
    np.fill_diagonal(w, 0.0)
    return np.sum(w * (sq_form(embedding) - np.nan_to_num(d)) ** 2)


def wrong_with(embedding: Embedding, D: Floats, weights: Floats | None) -> list[str]:
    """Name what a result breaks of what it promises."""
    arrays = ("coordinates", "signs", "weights", "eigenvalues", "residuals")
    found = [
        f"{name} not finite"
        for name in arrays
        if not np.isfinite(np.asarray(getattr(embedding, name))).all()
    ]
    numbers = ("stress", "normalized_stress", "stress_error", "sq_norm", "trace", "loss_value")
    found += [f"{name} not finite" for name in numbers if not np.isfinite(getattr(embedding, name))]
    if not np.all(np.abs(np.asarray(embedding.signs)) == 1):
        found.append("signs are not ±1")
    if found:
        return found
    brute = brute_force(embedding, D, weights)
    if not abs(brute - embedding.stress) <= embedding.stress_error:
        off = float(abs(brute - embedding.stress))
        found.append(
            f"STRESS {embedding.stress:.6g} is off by {off:.3g}, more than "
            f"{embedding.stress_error:.3g} (‖D‖² {embedding.sq_norm:.3g})"
        )
    return found


def fitted(D: Floats, options: dict[str, Any]) -> Embedding | None:
    """Return an embedding, or None where D or the options are refused by one line."""
    try:
        return neuc_mds(D, **options)
    except InputError as error:
        if "\n" in str(error) or not str(error):
            raise ValueError(f"not one line: {str(error)!r}") from error
        return None


def examine(seed: int) -> dict[str, Any]:
    """Try everything on the matrix of a seed; return counts, and findings as text."""
    return examine_case(draw(seed))


def examine_case(case: Case) -> dict[str, Any]:
    """Try everything on a matrix; return counts, and findings as text."""
    counts: dict[str, Any] = {
        "matrices": 1, "fits": 0, "refused": 0, "by_way": {}, "by_check": {case.check: 1},
        "findings": [], "longest_s": 0.0,
    }  # fmt: skip
    results: dict[str, Embedding] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, options in ways(case).items():
            begun = time.perf_counter()
            try:
                D = handed(case, name)
                found = fitted(D.copy(), options)
                problems = [] if found is None else wrong_with(found, D, options.get("weights"))
                if found is None and ordinary(case, name):
                    problems = [f"refused: {_refusal(D, options)}"]
            except Exception as error:
                found, problems = None, [f"{type(error).__name__}: {str(error)[:120]}"]
            taken = time.perf_counter() - begun
            counts["longest_s"] = max(counts["longest_s"], round(taken, 2))
            if taken > MOST_SECONDS:
                problems.append(f"took {taken:.1f} s")
            counts["fits"] += 1
            counts["refused"] += found is None
            counts["by_way"][name] = counts["by_way"].get(name, 0) + 1
            counts["findings"] += [f"seed {case.seed} {name}: {text}" for text in problems]
            if found is not None:
                results[name] = found
        try:
            failures = invariance(case, results)
        except Exception as error:
            failures = [f"{type(error).__name__}: {str(error)[:120]}"]
    counts["findings"] += [f"seed {case.seed} {case.check}: {text}" for text in failures]
    return counts


def _refusal(D: Floats, options: dict[str, Any]) -> str:
    try:
        neuc_mds(D, **options)
    except InputError as error:
        return str(error)
    return "only once"


def ordinary(case: Case, name: str) -> bool:
    """Tell whether there is no reason to refuse a matrix."""
    if case.damage is not None or abs(case.decades) > (15 if case.kind == "wide" else 80):
        return False
    if case.dtype == "float32" and case.kind in ("wide", "outlier"):
        return False
    return name in ALL_METHODS


def invariance(case: Case, results: dict[str, Embedding]) -> list[str]:
    """Check one invariance of a case; return what does not hold."""
    if case.damage is not None or not results:
        return []
    return list(_CHECKS[case.check](case, results))


def _same(a: Embedding, b: Embedding, factor: float = 1.0) -> bool:
    return np.array_equal(np.asarray(a.coordinates) * factor, b.coordinates) and np.array_equal(
        a.signs, b.signs
    )


def _close(name: str, a: Embedding | None, b: Embedding | None, bound: float = 1e-8) -> list[str]:
    """Compare normalised STRESS, beyond what both say they do not know."""
    if a is None or b is None:
        return [f"{name} is refused on one side"] if a is not b else []
    known = sum(e.stress_error / e.sq_norm if e.sq_norm else 0.0 for e in (a, b))
    gap = abs(a.normalized_stress - b.normalized_stress)
    if gap > bound + known:
        return [f"{name}: {a.normalized_stress:.9g} and {b.normalized_stress:.9g}"]
    return []


def _permutation(case: Case, results: dict[str, Embedding]) -> list[str]:
    if case.kind not in GENERIC:
        return []
    order, found = np.random.default_rng(case.seed).permutation(case.n), []
    for name in CLOSED:
        if name in results:
            shuffled = fitted(case.matrix[np.ix_(order, order)], ways(case)[name])
            found += _close(
                name, results[name], shuffled, 1e-4 if case.dtype != "float64" else 1e-8
            )
    return found


def promised(case: Case, factor: float) -> bool:
    """Tell whether D times a factor is within the range that is taken."""
    size = float(np.abs(case.matrix.astype(np.float64)).max()) * factor
    least, most = 1e-90, 1e90
    return least < size < most if case.squared else least**0.5 < size < most**0.5


def _power_of_two(case: Case, results: dict[str, Embedding]) -> list[str]:
    found = []
    exponent = 60 if case.dtype == "float32" else 240
    exponent = -exponent if case.seed % 2 else exponent
    if case.decades or case.dtype == "float32" or case.kind in ("wide", "outlier"):
        return []
    factor = 2.0**exponent if case.squared else 2.0 ** (exponent // 2)
    if not promised(case, factor):
        return []
    for name in results:
        if name == "goal":
            continue
        far = fitted(handed(case, name) * factor, ways(case)[name])
        if far is None or not _same(results[name], far, 2.0 ** (exponent // 2)):
            found.append(f"{name} is another one at 2^{exponent}")
    return found


def _power_of_ten(case: Case, results: dict[str, Embedding]) -> list[str]:
    if case.decades or case.kind not in GENERIC:
        return []
    decades = (30 if case.dtype == "float32" else 80) * (-1 if case.seed % 2 else 1)
    factor = 10.0 ** (decades if case.squared else decades / 2)
    bound, found = 1e-4 if case.dtype == "float32" else 1e-8, []
    if not promised(case, factor):
        return []
    for name in CLOSED:
        if name in results:
            D = (case.matrix.astype(np.float64) * factor).astype(case.dtype)
            found += _close(
                f"{name} at 1e{decades}", results[name], fitted(D, ways(case)[name]), bound
            )
    return found


def _repetition(case: Case, results: dict[str, Embedding]) -> list[str]:
    return [
        f"{name} differs when repeated"
        for name, found in list(results.items())[case.seed % 3 :: 3]
        if not _same(found, neuc_mds(handed(case, name), **ways(case)[name]))
    ]


def _file(case: Case, results: dict[str, Embedding]) -> list[str]:
    found = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        path = Path(folder) / "one.npz"
        for name, embedding in results.items():
            embedding.save(path)
            loaded = Embedding.load(path)
            if not _same(embedding, loaded) or loaded.stress_terms != embedding.stress_terms:
                found.append(f"{name} changes in a file")
            rows = np.abs(case.matrix[:3])
            if not np.array_equal(_placed(embedding, rows), _placed(loaded, rows)):
                found.append(f"{name} places otherwise from a file")
    return found


def _placed(embedding: Embedding, rows: Floats) -> Floats | str:
    """Where rows are placed, or why they are refused."""
    try:
        return np.asarray(embedding.transform(rows))
    except InputError as refusal:
        return str(refusal)


def _single(case: Case, results: dict[str, Embedding]) -> list[str]:
    if case.kind not in GENERIC or case.decades:
        return []
    rounded, found = case.matrix.astype(np.float32), []
    for name in CLOSED:
        if name in results:
            a = fitted(rounded, ways(case)[name])
            b = fitted(rounded.astype(np.float64), ways(case)[name])
            found += _close(f"{name} in float32", a, b, SINGLE_BOUND)
    return found


def _rows(case: Case, results: dict[str, Embedding]) -> list[str]:
    """Place the fitted objects: finite, and for the paper's methods where they were."""
    found, D = [], case.matrix
    for name, embedding in results.items():
        try:
            placed = np.asarray(embedding.transform(D))
        except InputError as error:
            found.append(f"{name} refuses its own rows: {error}")
            continue
        if placed.shape != embedding.coordinates.shape or not np.isfinite(placed).all():
            found.append(f"{name} places its own rows at {placed}")
        closed = name in CLOSED and embedding.k and case.dtype == "float64"
        if closed and case.kind in GENERIC:
            lam = np.abs(embedding.eigenvalues)
            level = 1e-10 * np.abs(embedding.coordinates).max() * lam.max() / lam.min()
            if not np.abs(placed - embedding.coordinates).max() <= level:
                found.append(f"{name} moves its own rows")
    return found


def _solver(case: Case, results: dict[str, Embedding]) -> list[str]:
    if case.kind not in GENERIC or case.dtype != "float64":
        return []
    found = []
    for name in CLOSED:
        if name in results:
            full, krylov = (
                fitted(case.matrix, {**ways(case)[name], "solver": solver})
                for solver in ("full", "krylov")
            )
            found += _close(f"{name} by krylov", full, krylov, 1e-6)
    return found


def _threads(case: Case, results: dict[str, Embedding]) -> list[str]:
    """Fit all at once in four threads: the same as one after the other."""
    from concurrent.futures import ThreadPoolExecutor

    names = [name for name in results if name in ALL_METHODS]
    with ThreadPoolExecutor(4) as team:
        again = team.map(lambda name: fitted(handed(case, name), ways(case)[name]), names)
        pairs = zip(names, again, strict=True)
        return [
            f"{name} differs among threads"
            for name, other in pairs
            if other is None or not _same(results[name], other)
        ]


_CHECKS: dict[str, Callable[[Case, dict[str, Embedding]], list[str]]] = dict(
    zip(
        CHECKS,
        (
            _permutation, _power_of_two, _power_of_ten, _repetition, _file, _single, _rows, _solver,
            _threads,
        ),
        strict=True,
    )
)  # fmt: skip
