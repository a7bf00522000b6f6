"""Every method on the same D and the same spectrum: at one k, or along all k."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import to_numpy
from neucmds._input.components import Components
from neucmds._operator import Gram
from neucmds._spectrum import Spectrum
from neucmds.api import ALL_METHODS, embed_spectrum
from neucmds.embedding import Embedding
from neucmds.metrics import Quality, evaluate

__all__ = [
    "CLOSED_FORMS",
    "Comparison",
    "StressCurves",
    "TurningPoint",
    "classical_turning_point",
    "compare_methods",
    "spaced_ks",
    "stress_curves",
]

CLOSED_FORMS = tuple(method for method in ALL_METHODS if method != "refined")

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """One method's embedding, how good it is, and how long it took once the spectrum was there."""

    embedding: Embedding
    quality: Quality
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name."""
        return {
            "method": self.embedding.method,
            "k": self.embedding.k,
            "signature": list(self.embedding.signature),
            **self.quality.as_dict(),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class StressCurves:
    """STRESS of every method at every k of a grid.

    Parameters
    ----------
    ks : tuple of int
    stress : dict of tuples of floats
        Method → STRESS at each k.
    sq_norm : float
        ‖D‖²_F, which normalises STRESS.
    """

    ks: tuple[int, ...]
    stress: dict[str, tuple[float, ...]]
    sq_norm: float

    def normalized(self, method: str) -> tuple[float, ...]:
        """STRESS as a share of ‖D‖²_F."""
        return tuple(value / self.sq_norm if self.sq_norm else 0.0 for value in self.stress[method])


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
    """

    k: int
    stress: float
    last_k: int
    last_stress: float

    @property
    def paradox(self) -> bool:
        """Whether there is such a point: STRESS rises again before the coordinates run out."""
        return self.k < self.last_k and self.last_stress > self.stress * (1 + 1e-9)


def compare_methods(
    gram: Gram,
    spectrum: Spectrum,
    components: Components,
    methods: Sequence[str] = ALL_METHODS,
    *,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
    on_step: OnStep | None = None,
) -> list[Comparison]:
    """Embed by each method from one spectrum, and measure each result against D.

    Parameters
    ----------
    gram, spectrum : Gram, Spectrum
        Where D comes from, and all eigenpairs of its B.
    components : Components
    methods : sequence of str
    squared, labels
        As in `neuc_mds`.
    on_step : callable, optional
        Called with a method's name before its turn.
    """
    rows = []
    for method in methods:
        if on_step is not None:
            on_step(method)
        start = time.perf_counter()
        embedding = embed_spectrum(
            gram, spectrum, components, method, squared=squared, labels=labels
        )
        seconds = time.perf_counter() - start
        quality = evaluate(gram, embedding.coordinates, embedding.signs)
        rows.append(Comparison(embedding, quality, seconds))
    return rows


def stress_curves(
    gram: Gram,
    spectrum: Spectrum,
    ks: Iterable[int],
    methods: Sequence[str] = CLOSED_FORMS,
    *,
    on_step: OnStep | None = None,
) -> StressCurves:
    """STRESS against k, from one spectrum.

    Parameters
    ----------
    gram, spectrum : Gram, Spectrum
    ks : iterable of int
    methods : sequence of str
    on_step : callable, optional
        Called with ``"k = …"`` before each k.

    Paper: fig:dim-paradox, fig:dim-para-all.
    """
    grid = tuple(ks)
    stress: dict[str, list[float]] = {method: [] for method in methods}
    for k in grid:
        if on_step is not None:
            on_step(f"k = {k}")
        for method in methods:
            embedding = embed_spectrum(gram, spectrum, Components(k), method)
            stress[method].append(embedding.stress)
    return StressCurves(grid, {m: tuple(v) for m, v in stress.items()}, gram.moments.sq_norm)


def spaced_ks(k_max: int, dense_up_to: int = 20, points: int = 20) -> tuple[int, ...]:
    """Every k at first, then evenly on a log scale: a grid that shows a curve's whole shape."""
    near = range(1, min(k_max, dense_up_to) + 1)
    if k_max <= dense_up_to:
        return tuple(near)
    far = np.geomspace(dense_up_to, k_max, points + 1)[1:]
    return tuple(sorted({*near, *(int(k) for k in np.rint(far))}))


def classical_turning_point(gram: Gram, spectrum: Spectrum) -> TurningPoint:
    """Find the k of least STRESS for classical MDS among all k, in O(n²) from the spectrum.

    Every step adds λ u∘u to the diagonal of G, and C1, C2, C3 follow from that (docs/facts.md, 2).
    """
    lam = spectrum.ends.values
    positive = int((lam[: spectrum.n_top] > spectrum.ends.null_level).sum())
    if positive == 0:
        return TurningPoint(0, gram.moments.sq_norm, 0, gram.moments.sq_norm)
    vectors = to_numpy(spectrum.vectors)
    e: npt.NDArray[np.float64] = to_numpy(gram.diagonal()).astype(np.float64)
    gram_error = float(spectrum.frobenius_sq)
    values = []
    for k in range(positive):
        e = e - lam[k] * vectors[:, k] ** 2
        gram_error -= float(lam[k]) ** 2
        values.append(
            4 * max(0.0, gram_error) + 2 * gram.n * float(e @ e) + 2 * float(e.sum()) ** 2
        )
    best = int(np.argmin(values))
    return TurningPoint(best + 1, values[best], positive, values[-1])
