"""Properties of D before any embedding: eigenvalues, triangles, noise, suggested k."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import eps, to_numpy
from neucmds.explore.quality import FULL_UP_TO
from neucmds.options import Callback, as_seed, notify
from neucmds.place.dimension import (
    LEAST_OBJECTS,
    DimensionScan,
    entries_among,
    scan_dimensions,
)
from neucmds.prepared import prepare, refuse_weights
from neucmds.problem.components import MOST_CHOSEN
from neucmds.spectrum.krylov import solve
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.outliers import Outliers, outlying_entries
from neucmds.spectrum.selection import Selection
from neucmds.spectrum.spectrum import Spectrum, full_spectrum
from neucmds.theory import suggest_k

# All triples are examined among this many objects, drawn from more.
TRIPLES_AMONG = 400


@dataclass(frozen=True)
class Triangles:
    """How often d(i, j) ≤ d(i, k) + d(k, j) fails, on the unsquared scale.

    Parameters
    ----------
    violated : int
        Triples with one side longer than the other two together, beyond rounding.
    examined : int
        Triples that were examined: all, or all among 400 objects drawn at random.
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
        return self.violated / max(1, self.examined)


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
        Eigenvalues of B of each sign, without the zero of the constant vector.
    largest_eigenvalue, smallest_eigenvalue : float
    negative_share : float
        NEF: Σ|negative λ| / Σ|λ|; 0 for Euclidean D. Where not all λ are known, the others are
        taken as a semicircle of their exact mean and variance.
    triangles : Triangles or None
        None if D has negative entries, which have no unsquared scale.
    noise_band : tuple of two floats
        Range of the remaining eigenvalues if they are noise.
    certain, beyond_noise : tuple of two ints
        Numbers of positive and of negative eigenvalues: `certain` beyond the noise if all of B
        were noise, `beyond_noise` outside of the band.
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

        For fewer than 6 objects it is the number of `certain` eigenvalues.
        """
        if self.scan is not None:
            return self.scan.k
        return max(1, sum(self.certain))

    @property
    def held_out_r2(self) -> float:
        """R² of `suggested_k` coordinates on pairs of held-out objects; NaN if there are none."""
        if self.scan is None:
            return math.nan
        return 1 - self.scan.error

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name, derived properties included."""
        fields = asdict(self)
        del fields["labels"]
        for name in ("euclidean", "suggested_k", "held_out_r2"):
            fields[name] = getattr(self, name)
        if self.triangles is not None:
            fields["triangles"]["share"] = self.triangles.share
        return fields


def diagnose(
    D: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Diagnosis:
    """Find out what D is like before any embedding: Euclidean, metric, how many coordinates.

    For more than 2000 objects only the hundred eigenvalues of largest magnitude are computed; what
    rests on the others is a bound or an estimate then, and `Diagnosis.complete` is False.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    squared, symmetrize
        As for `neuc_mds`.
    random_state : int, RandomState, Generator or None
        As for `neuc_mds`: which objects are held out, and which triples drawn for the triangle
        inequality when there are too many.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import diagnose
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> diagnosis = diagnose(D)
    >>> diagnosis.euclidean, diagnosis.triangles.violated
    (False, 1)
    """
    random_state = as_seed(random_state)
    problem = prepare(
        D, squared=squared, symmetrize=symmetrize, callback=callback
    )
    refuse_weights(problem, "diagnose")
    gram = problem.gram
    notify(callback, f"computing the spectrum of {gram.n:,} objects")
    spectrum = largest_eigenpairs(gram)
    lam = spectrum.values
    positive = int((lam > spectrum.null_level).sum())
    negative = int((lam < -spectrum.null_level).sum())
    noise = suggest_k(
        lam,
        n=gram.n,
        trace=spectrum.trace,
        frobenius_sq=spectrum.frobenius_sq,
    )
    scan = None
    if gram.n >= LEAST_OBJECTS:
        notify(callback, "predicting objects held out, to suggest k")
        scan = scan_dimensions(gram, check_random_state(random_state))
    notify(callback, "examining pairs and triples")
    entries = _entries(gram)
    triangles = None
    if not entries["negative_entries"]:
        triangles = _triangles(gram, check_random_state(random_state))
    return Diagnosis(
        n=gram.n,
        **entries,
        complete=spectrum.complete,
        positive_eigenvalues=positive,
        negative_eigenvalues=negative,
        zero_eigenvalues=int(lam.size) - positive - negative,
        largest_eigenvalue=float(lam[:1].sum()),
        smallest_eigenvalue=float(lam[-1:].sum()),
        negative_share=_negative_share(spectrum, gram.n - 1 - lam.size),
        triangles=triangles,
        noise_band=noise.band,
        certain=noise.certain,
        beyond_noise=noise.signature,
        outliers=outlying_entries(gram),
        scan=scan,
        labels=problem.labels,
    )


def _triangles(gram: Gram, rng: np.random.RandomState) -> Triangles:
    """Examine all triples, or those among objects drawn at random.

    Every side of every triple is compared with the detour by the third object. At most one side of
    a triple can be too long, so each that is counts one triple.
    """
    ids = np.arange(gram.n)
    if gram.n > TRIPLES_AMONG:
        ids = np.sort(rng.permutation(gram.n)[:TRIPLES_AMONG])
    d = np.sqrt(entries_among(gram, ids))
    rows, cols = np.triu_indices(ids.size, 1)
    side = d[rows, cols]
    # 1.5e-8 is √ε of float64: d is the root of a square.
    rounding = max(1.5e-8, 4 * eps(gram.dtype, gram.xp)) * float(d.max())
    violated = 0
    worst = 0.0
    # No detour of a side leads by one of its own ends.
    np.fill_diagonal(d, np.inf)
    for d_to_third in d:
        detour = d_to_third[rows] + d_to_third[cols]
        violated += int((side > detour + rounding).sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            # A triple of zeros, 0/0, is no violation.
            worst = max(worst, np.nanmax(side / detour, initial=0.0))
    examined = math.comb(ids.size, 3)
    return Triangles(violated, examined, ids.size == gram.n, float(worst))


def largest_eigenpairs(gram: Gram) -> Spectrum:
    """Compute all eigenpairs, or the hundred of largest magnitude for many objects."""
    if gram.n <= FULL_UP_TO:
        return full_spectrum(gram)

    def largest(ends: Spectrum) -> Selection:
        """Select what the solver must compute, from approximate ends of the spectrum."""
        by_size = np.argsort(-np.abs(ends.values), kind="stable")
        kept = by_size[:MOST_CHOSEN]
        if ends.values[-1] < 0:
            # The most negative one decides whether D is Euclidean.
            kept = np.append(kept, ends.values.size - 1)
        kept = np.unique(kept)
        kept = kept[np.abs(ends.values[kept]) > ends.null_level]
        return Selection(kept, ends.values[kept])

    return solve(gram, largest, MOST_CHOSEN, random_state=0)


def _negative_share(ends: Spectrum, unknown: int) -> float:
    """Return Σ|negative λ| / Σ|λ| = N / (T + 2N), with N = Σ|negative λ| and T the trace.

    So many λ are `unknown`; their mean and variance follow from the trace and ‖B‖², and they are
    taken as distributed by the semicircle law.
    """
    lam = ends.values
    negative = float(np.abs(lam[lam < -ends.null_level]).sum())
    if unknown:
        mean = (ends.trace - float(lam.sum())) / unknown
        unknown_sq = ends.dropped_sq(np.arange(lam.size))
        variance = max(0.0, unknown_sq / unknown - mean**2)
        # λ = mean + 2σ cos φ, where φ has the density (2/π) sin²φ: the mean of max(−λ, 0) over φ.
        angles = np.pi * (np.arange(1000) + 0.5) / 1000
        values = mean + 2 * math.sqrt(variance) * np.cos(angles)
        below_zero = 2 * np.sin(angles) ** 2 * np.maximum(-values, 0.0)
        negative += unknown * float(below_zero.mean())
    total = ends.trace + 2 * negative
    return negative / (total or 1.0)


def _entries(gram: Gram) -> dict[str, Any]:
    """Return the fields of `Diagnosis` that are extremes and counts of entries of D, by name."""
    ids = np.arange(gram.n)
    low = math.inf
    high = -math.inf
    negative = 0
    zeros = 0
    has_twin = np.zeros(gram.n, dtype=bool)
    for rows, part in gram.walk():
        block = to_numpy(part)
        above_diagonal = ids > ids[rows, None]
        entries = block[above_diagonal]
        is_zero = above_diagonal & (block == 0)
        low = min(low, float(entries.min(initial=math.inf)))
        high = max(high, float(entries.max(initial=-math.inf)))
        negative += int((entries < 0).sum())
        zeros += int(is_zero.sum())
        has_twin |= is_zero.any(axis=0)
    return {
        "smallest": low,
        "largest": high,
        "negative_entries": negative,
        "zero_pairs": zeros,
        "duplicate_objects": int(has_twin.sum()),
    }
