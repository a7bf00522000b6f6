"""Is it Euclidean, is it a metric, what stands out of noise: what to know of D before embedding."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import row_blocks
from neucmds._spectrum import Spectrum
from neucmds.theory import suggest_k

__all__ = ["Inspection", "Triangles", "inspect_dissimilarity", "triangle_violations"]

Floats = npt.NDArray[np.floating[Any]]

# All triples of 400 objects take half a second; a million drawn ones give the share to ±0.1 %.
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
        Triples looked at: all, or a random sample.
    exact : bool
        Whether they were all looked at.
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
class Inspection:
    """What is known of a dissimilarity before any embedding.

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
    positive_eigenvalues, negative_eigenvalues, zero_eigenvalues : int
        Of B, the constant vector's zero not counted.
    largest_eigenvalue, smallest_eigenvalue : float
    negative_share : float
        NEF: Σ|negative λ| / Σ|λ|; 0 for Euclidean D.
    triangles : Triangles or None
        None if D has negative entries, which have no unsquared scale.
    noise_band : tuple of two floats
        Where the eigenvalues that remain would lie if they were noise.
    certain, beyond_noise : tuple of two ints
        Eigenvalues above and below noise as large as the whole of B, and above and below the band.
    """

    n: int
    smallest: float
    largest: float
    negative_entries: int
    zero_pairs: int
    duplicate_objects: int
    positive_eigenvalues: int
    negative_eigenvalues: int
    zero_eigenvalues: int
    largest_eigenvalue: float
    smallest_eigenvalue: float
    negative_share: float
    triangles: Triangles | None
    noise_band: tuple[float, float]
    certain: tuple[int, int]
    beyond_noise: tuple[int, int]

    @property
    def euclidean(self) -> bool:
        """Whether some Euclidean space holds these objects exactly."""
        return self.negative_eigenvalues == 0

    @property
    def clear_edge(self) -> bool:
        """Whether signal and noise part clearly: the last count is no multiple of the first."""
        return 0 < sum(self.beyond_noise) <= 3 * max(1, sum(self.certain))

    @property
    def suggested_k(self) -> int:
        """Number of coordinates that are more than noise; the certain ones if there is no edge."""
        counts = self.beyond_noise if self.clear_edge else self.certain
        return max(1, min(sum(counts), self.n - 1))

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, what is derived included."""
        found = asdict(self) | {
            "euclidean": self.euclidean,
            "clear_edge": self.clear_edge,
            "suggested_k": self.suggested_k,
        }
        if self.triangles is not None:
            found["triangles"]["share"] = self.triangles.share
        return found


def inspect_dissimilarity(
    sq_dissimilarity: Floats, spectrum: Spectrum, *, random_state: Any = 0
) -> Inspection:
    """Look at D and the whole spectrum of its B.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (n, n)
    spectrum : Spectrum
        All of it.
    random_state : int, RandomState or None
        Which triples are drawn when there are too many to look at all.
    """
    lam, level = spectrum.ends.values, spectrum.ends.null_level
    total = float(np.abs(lam).sum())
    entries = _entries(sq_dissimilarity)
    n = int(sq_dissimilarity.shape[0])
    split = suggest_k(lam, n=n, trace=spectrum.trace, frobenius_sq=spectrum.frobenius_sq)
    positive, negative = int((lam > level).sum()), int((lam < -level).sum())
    return Inspection(
        n=n,
        **entries,
        positive_eigenvalues=positive,
        negative_eigenvalues=negative,
        zero_eigenvalues=int(lam.size) - positive - negative,
        largest_eigenvalue=float(lam[0]),
        smallest_eigenvalue=float(lam[-1]),
        negative_share=float(-lam[lam < -level].sum()) / total if total else 0.0,
        triangles=None
        if entries["negative_entries"]
        else triangle_violations(sq_dissimilarity, random_state=random_state),
        noise_band=(split.band.lower, split.band.upper),
        certain=split.certain,
        beyond_noise=split.signature,
    )


def _entries(sq_dissimilarity: Floats) -> dict[str, Any]:
    """Count what stands above the diagonal, block by block."""
    n = int(sq_dissimilarity.shape[0])
    low, high, negative, zeros = math.inf, -math.inf, 0, 0
    has_earlier_twin = np.zeros(n, dtype=bool)
    for rows in row_blocks(n, n):
        block = np.asarray(sq_dissimilarity[rows, :])
        above = np.arange(n)[None, :] > np.arange(n)[rows, None]
        inside = block[above]
        if inside.size:
            low, high = min(low, float(inside.min())), max(high, float(inside.max()))
        negative += int((inside < 0).sum())
        zero = above & (block == 0)
        zeros += int(zero.sum())
        has_earlier_twin |= zero.any(axis=0)
    return {
        "smallest": low,
        "largest": high,
        "negative_entries": negative,
        "zero_pairs": zeros,
        "duplicate_objects": int(has_earlier_twin.sum()),
    }


def triangle_violations(
    sq_dissimilarity: Floats, *, samples: int = SAMPLED_TRIPLES, random_state: Any = 0
) -> Triangles:
    """Count triples in which one side is longer than the other two: all, or a random sample.

    At most one side of a triple can be too long, so violated sides are violated triples.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (n, n)
        Without negative entries.
    samples : int
        Triples to draw when there are more than 400 objects.
    random_state : int, RandomState or None
    """
    n = int(sq_dissimilarity.shape[0])
    if n <= EXACT_OBJECTS:
        return _all_triples(np.sqrt(np.asarray(sq_dissimilarity, dtype=np.float64)))
    i, j, k = _distinct_triples(n, samples, check_random_state(random_state))
    sides = [
        np.sqrt(sq_dissimilarity[a, b].astype(np.float64)) for a, b in ((i, j), (j, k), (i, k))
    ]
    longest = np.maximum(np.maximum(*sides[:2]), sides[2])
    others = sides[0] + sides[1] + sides[2] - longest
    violated = int(_too_long(longest, others, float(longest.max())).sum())
    return Triangles(violated, int(i.size), False, _worst(longest, others))


def _all_triples(dissimilarity: npt.NDArray[np.float64]) -> Triangles:
    d, n = dissimilarity, dissimilarity.shape[0]
    upper = np.triu_indices(n, 1)
    direct, largest = d[upper], float(d.max())
    violated, worst = 0, 0.0
    for via in range(n):
        detour = d[upper[0], via] + d[upper[1], via]
        elsewhere = (upper[0] != via) & (upper[1] != via)
        violated += int((_too_long(direct, detour, largest) & elsewhere).sum())
        worst = max(worst, _worst(direct[elsewhere], detour[elsewhere]))
    return Triangles(violated, math.comb(n, 3), True, worst)


def _too_long(side: Floats, others: Floats, largest: float) -> npt.NDArray[np.bool_]:
    # √ε of the largest side: what dissimilarities that were read or rounded are exact to.
    return np.asarray(side > others + 1.5e-8 * largest)


def _worst(side: Floats, others: Floats) -> float:
    open_ends = (others == 0) & (side > 0)
    if bool(open_ends.any()):
        return math.inf
    proper = others > 0
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
