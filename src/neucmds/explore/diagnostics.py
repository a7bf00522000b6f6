"""Properties of D before any embedding: eigenvalues, triangles, noise, suggested k."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import eps, to_numpy
from neucmds.place.dimension import DimensionScan, among
from neucmds.spectrum.geometry import stress_from_errors
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.outliers import Outliers, outlying_entries
from neucmds.spectrum.spectrum import Ends, Spectrum
from neucmds.theory import suggest_k

__all__ = [
    "Diagnosis",
    "Triangles",
    "TurningPoint",
    "classical_turning_point",
    "describe",
    "triangle_violations",
]

Floats = npt.NDArray[np.floating[Any]]

# All triples up to 400 objects; a million drawn ones give the share to ±0.1 %.
EXACT_OBJECTS = 400
SAMPLED_TRIPLES = 1_000_000


@dataclass(frozen=True)
class Triangles:
    """How often d(i, j) ≤ d(i, k) + d(k, j) fails, on the unsquared scale.

    Parameters
    ----------
    violated : int
        Triples with one side longer than the other two together, beyond rounding.
    examined : int
        Triples that were examined: all, or a random sample.
    exact : bool
        Whether all were examined.
    worst_ratio : float
        Largest ratio of a side to the sum of the other two; infinite if those are zero.
    """

    violated: int
    examined: int
    exact: bool
    worst_ratio: float

    @property
    def share(self) -> float:
        """Share of the triples that are violated."""
        return self.violated / self.examined if self.examined else 0.0


@dataclass(frozen=True)
class Diagnosis:
    """Properties of a dissimilarity before any embedding.

    Parameters
    ----------
    n : int
        Number of objects.
    smallest, largest : float
        Extreme off-diagonal entries, squared scale.
    negative_entries, zero_pairs : int
        Pairs i < j with D negative, and with D zero.
    duplicate_objects : int
        Objects at zero dissimilarity from an earlier one.
    complete : bool
        Whether all eigenvalues of B are known; if not, the counts of eigenvalues are of those that
        are, the largest ones, and `negative_share` is an estimate.
    positive_eigenvalues, negative_eigenvalues, zero_eigenvalues : int
        Of B, the constant vector's zero not counted.
    largest_eigenvalue, smallest_eigenvalue : float
    negative_share : float
        NEF: Σ|negative λ| / Σ|λ|; 0 for Euclidean D. Where not all λ are known, the others are
        taken as a semicircle of their exact mean and variance.
    negative_share_bounds : tuple of two floats
        Its lower and upper bound, by the exact sums of all λ and λ².
    triangles : Triangles or None
        None if D has negative entries, which have no unsquared scale.
    noise_band : tuple of two floats
        Range of the remaining eigenvalues if they are noise.
    certain, beyond_noise : tuple of two ints
        Eigenvalues above and below noise as large as the whole of B, and above and below the band.
    outliers : Outliers
        Entries of D that are huge beside all others, and the typical size.
    scan : DimensionScan or None
        Error on pairs of held-out objects against k; None for fewer than 6 objects.
    labels : tuple of str or None
        Names of the objects.
    """

    n: int
    smallest: float
    largest: float
    negative_entries: int
    zero_pairs: int
    duplicate_objects: int
    complete: bool
    positive_eigenvalues: int
    negative_eigenvalues: int
    zero_eigenvalues: int
    largest_eigenvalue: float
    smallest_eigenvalue: float
    negative_share: float
    negative_share_bounds: tuple[float, float]
    triangles: Triangles | None
    noise_band: tuple[float, float]
    certain: tuple[int, int]
    beyond_noise: tuple[int, int]
    outliers: Outliers
    scan: DimensionScan | None
    labels: tuple[str, ...] | None = None

    @property
    def euclidean(self) -> bool:
        """Whether some Euclidean space holds these objects exactly: no eigenvalue is negative."""
        return self.negative_eigenvalues == 0

    @property
    def suggested_k(self) -> int:
        """The fewest coordinates within one standard error of the least held-out error.

        Of fewer than 6 objects, the number of eigenvalues that are no noise for certain.
        """
        if self.scan is not None:
            return self.scan.k
        return max(1, min(sum(self.certain), self.n - 1))

    @property
    def held_out_r2(self) -> float:
        """R² of that many coordinates on pairs of held-out objects; NaN if none were held out."""
        return math.nan if self.scan is None else 1 - self.scan.error

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, derived properties included."""
        found = asdict(self)
        del found["labels"]
        for name in ("euclidean", "suggested_k", "held_out_r2"):
            found[name] = getattr(self, name)
        if self.triangles is not None:
            found["triangles"]["share"] = self.triangles.share
        return found


@dataclass(frozen=True)
class TurningPoint:
    """Where more coordinates begin to make classical MDS worse.

    Parameters
    ----------
    k : int
        Number of coordinates with the least STRESS.
    stress : float
        The STRESS there.
    last_k : int
        Number of positive eigenvalues: the most coordinates classical MDS can have.
    last_stress : float
        The STRESS with all of them.
    complete : bool
        Whether all positive eigenvalues are known; if not, there are more than `last_k`, and `k` is
        the best of those up to `last_k`.
    """

    k: int
    stress: float
    last_k: int
    last_stress: float
    complete: bool = True

    @property
    def paradox(self) -> bool:
        """Whether there is such a point: STRESS rises again before the coordinates run out."""
        return self.k < self.last_k and self.last_stress > self.stress * (1 + 1e-9)

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "paradox": self.paradox,
            "best_k": self.k,
            "best_stress": self.stress,
            "last_k": self.last_k,
            "last_stress": self.last_stress,
            "complete": self.complete,
        }


def describe(
    gram: Gram, spectrum: Spectrum, scan: DimensionScan | None = None, *, random_state: Any = 0
) -> Diagnosis:
    """Describe the D behind an operator by its entries and the spectrum of its B.

    `neucmds.diagnose` does the same for a D of any kind.

    Parameters
    ----------
    gram : Gram
    spectrum : Spectrum
        All of it, or the largest eigenvalues from both ends.
    scan : DimensionScan, optional
        Error on pairs of held-out objects against k.
    random_state : int, RandomState or None
        Which triples are drawn when there are too many to examine all.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.spectrum.spectrum import full_spectrum
    >>> from neucmds.explore.diagnostics import describe
    >>> from neucmds.spectrum.operators.dense import DenseGram
    >>> gram = DenseGram(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 16.0], [1.0, 16.0, 0.0]]))
    >>> describe(gram, full_spectrum(gram)).euclidean
    False
    """
    lam, level = spectrum.values, spectrum.null_level
    share, bounds = _negative_share(spectrum, gram.n - 1 - lam.size)
    entries = _entries(gram)
    split = suggest_k(lam, n=gram.n, trace=spectrum.trace, frobenius_sq=spectrum.frobenius_sq)
    positive, negative = int((lam > level).sum()), int((lam < -level).sum())
    return Diagnosis(
        n=gram.n,
        **entries,
        complete=spectrum.complete,
        positive_eigenvalues=positive,
        negative_eigenvalues=negative,
        zero_eigenvalues=int(lam.size) - positive - negative,
        largest_eigenvalue=float(lam[0]) if lam.size else 0.0,
        smallest_eigenvalue=float(lam[-1]) if lam.size else 0.0,
        negative_share=share,
        negative_share_bounds=bounds,
        triangles=None
        if entries["negative_entries"]
        else triangle_violations(gram, random_state=random_state),
        noise_band=(split.band.lower, split.band.upper),
        certain=split.certain,
        beyond_noise=split.signature,
        outliers=outlying_entries(gram),
        scan=scan,
    )


def _negative_share(ends: Ends, unknown: int) -> tuple[float, tuple[float, float]]:
    """Σ|negative λ| / Σ|λ|, and its bounds where some λ are known by their sums alone.

    The negative part of m unknown λ with sum s and sum of squares q is at least −s, and at most
    (√(mq) − s)/2. With the trace T the share of a negative part N is N/(T + 2N), growing with N.
    """
    lam = ends.values
    known = float(-lam[lam < -ends.null_level].sum())
    if not unknown:
        total = float(np.abs(lam).sum())
        share = known / total if total else 0.0
        return share, (share, share)
    left = ends.trace - float(lam.sum())
    left_sq = ends.dropped_sq(np.arange(lam.size))
    least = known + max(0.0, -left)
    most = max(least, known + (math.sqrt(unknown * left_sq) - left) / 2)
    centre = left / unknown
    radius = 2 * math.sqrt(max(0.0, left_sq / unknown - centre**2))
    likely = known + unknown * _negative_part_of_semicircle(centre, radius)

    def share_of(negative: float) -> float:
        total = ends.trace + 2 * negative
        return negative / total if total > 0 else 0.0

    bounds = share_of(least), share_of(most)
    return float(np.clip(share_of(likely), *bounds)), bounds


def _negative_part_of_semicircle(centre: float, radius: float) -> float:
    """Mean of max(−x, 0) of a semicircle law, by its quantiles at Chebyshev points."""
    angles = np.pi * (np.arange(1000) + 0.5) / 1000
    x = centre + radius * np.cos(angles)
    # In the angle the law has the density (2/π) sin².
    return float(np.mean(2 * np.sin(angles) ** 2 * np.maximum(-x, 0.0)))


def classical_turning_point(gram: Gram, spectrum: Spectrum) -> TurningPoint:
    """Find the k of least STRESS for classical MDS among all k, in O(n²) from the spectrum.

    Every step adds λ u∘u to the diagonal of G, and C1, C2, C3 follow from that (docs/maths.md).

    Parameters
    ----------
    gram : Gram
    spectrum : Spectrum
        With all positive eigenvalues, or the largest of them.

    Returns
    -------
    TurningPoint

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.spectrum.spectrum import full_spectrum
    >>> from neucmds.explore.diagnostics import classical_turning_point
    >>> from neucmds.spectrum.operators.dense import DenseGram
    >>> gram = DenseGram(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 16.0], [1.0, 16.0, 0.0]]))
    >>> classical_turning_point(gram, full_spectrum(gram)).last_k
    1
    """
    lam, complete = spectrum.values, spectrum.complete
    positive = int((lam[: spectrum.n_top] > spectrum.null_level).sum())
    if positive == 0:
        return TurningPoint(0, gram.moments.sq_norm, 0, gram.moments.sq_norm, complete)
    vectors = to_numpy(spectrum.vectors)
    e: npt.NDArray[np.float64] = to_numpy(gram.diagonal()).astype(np.float64)
    values = []
    for k in range(positive):
        e = e - lam[k] * vectors[:, k] ** 2
        dropped_sq = spectrum.dropped_sq(np.arange(k + 1))
        values.append(sum(stress_from_errors(dropped_sq, e)))
    best = int(np.argmin(values))
    return TurningPoint(best + 1, values[best], positive, values[-1], complete)


def _entries(gram: Gram) -> dict[str, Any]:
    """Count the entries above the diagonal, block by block."""
    n = gram.n

    def counted(rows: slice, part: Any) -> tuple[float, float, int, int, npt.NDArray[np.bool_]]:
        block = to_numpy(part)
        above = np.arange(n)[None, :] > np.arange(n)[rows, None]
        inside = block[above]
        zero = above & (block == 0)
        low = float(np.min(inside, initial=math.inf))
        high = float(np.max(inside, initial=-math.inf))
        return low, high, int((inside < 0).sum()), int(zero.sum()), zero.any(axis=0)

    lows, highs, negative, zeros, twins = zip(*gram.on_each(counted), strict=True)
    return {
        "smallest": min(lows),
        "largest": max(highs),
        "negative_entries": sum(negative),
        "zero_pairs": sum(zeros),
        "duplicate_objects": int(np.logical_or.reduce(twins).sum()),
    }


def triangle_violations(
    gram: Gram, *, samples: int = SAMPLED_TRIPLES, random_state: Any = 0
) -> Triangles:
    """Count triples in which one side is longer than the other two: all, or a random sample.

    At most one side of a triple can be too long, so violated sides are violated triples. Of more
    than 400 objects triples are drawn; where D is not in memory, all triples among 400 objects.

    Parameters
    ----------
    gram : Gram
        Of a D without negative entries.
    samples : int
        Triples to draw when there are more than 400 objects.
    random_state : int, RandomState or None

    Returns
    -------
    Triangles

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.explore.diagnostics import triangle_violations
    >>> from neucmds.spectrum.operators.dense import DenseGram
    >>> gram = DenseGram(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 16.0], [1.0, 16.0, 0.0]]))
    >>> triangle_violations(gram).worst_ratio
    2.0
    """
    rng = check_random_state(random_state)
    if gram.n <= EXACT_OBJECTS or not isinstance(gram, DenseGram):
        drawn = rng.permutation(gram.n)[:EXACT_OBJECTS] if gram.n > EXACT_OBJECTS else None
        ids = np.arange(gram.n) if drawn is None else np.sort(drawn)
        return _all_triples(np.sqrt(among(gram, ids)), _slack(gram), exact=drawn is None)
    i, j, k = _distinct_triples(gram.n, samples, rng)
    sides = [np.sqrt(gram.entries(a, b)) for a, b in ((i, j), (j, k), (i, k))]
    longest = np.maximum(np.maximum(*sides[:2]), sides[2])
    others = sides[0] + sides[1] + sides[2] - longest
    violated = int((longest > others + _slack(gram) * float(longest.max())).sum())
    return Triangles(violated, int(i.size), False, _worst(longest, others))


def _all_triples(dissimilarity: npt.NDArray[np.float64], slack: float, *, exact: bool) -> Triangles:
    d, n = dissimilarity, dissimilarity.shape[0]
    upper = np.triu_indices(n, 1)
    direct, rounding = d[upper], slack * float(d.max())
    violated, worst = 0, 0.0
    for via in range(n):
        detour = d[upper[0], via] + d[upper[1], via]
        elsewhere = (upper[0] != via) & (upper[1] != via)
        violated += int(((direct > detour + rounding) & elsewhere).sum())
        worst = max(worst, _worst(direct[elsewhere], detour[elsewhere]))
    return Triangles(violated, math.comb(n, 3), exact, worst)


def _slack(gram: Gram) -> float:
    """Share of the largest side that rounding may add: √ε of float64, or 4 ε of float32."""
    return max(1.5e-8, 4 * eps(gram.dtype, gram.xp))


def _worst(side: Floats, others: Floats) -> float:
    proper = others > 0
    if np.any(side[~proper] > 0):
        return math.inf
    return float(np.max(side[proper] / others[proper], initial=0.0))


def _distinct_triples(
    n: int, samples: int, rng: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], ...]:
    """Draw triples of three different objects, uniformly."""
    i = rng.randint(0, n, size=samples)
    j = rng.randint(0, n - 1, size=samples)
    j = j + (j >= i)
    k = rng.randint(0, n - 2, size=samples)
    low, high = np.minimum(i, j), np.maximum(i, j)
    k = k + (k >= low)
    k = k + (k >= high)
    return i, j, k
