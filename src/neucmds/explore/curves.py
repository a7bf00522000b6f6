"""STRESS against the number of coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_floats, to_numpy
from neucmds.dense_fit import embed_spectrum
from neucmds.errors import InputError, option
from neucmds.explore.quality import FULL_UP_TO
from neucmds.options import CLOSED_FORMS, Callback, check_parameters, notify
from neucmds.prepared import prepare, refuse_weights
from neucmds.problem.components import (
    MOST_CHOSEN,
    checked_size,
    spaced_ks,
)
from neucmds.problem.validation import as_list, is_count
from neucmds.spectrum.geometry import stress_from_errors
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.solve import solve_for
from neucmds.spectrum.spectrum import Spectrum, full_spectrum


@dataclass(frozen=True, eq=False)
class StressCurves:
    """STRESS of every method at every k of a grid, and where classical MDS begins to get worse.

    Parameters
    ----------
    ks : tuple of int
    stress : dict of tuples of floats
        Method → STRESS at each k.
    sq_norm : float
        ‖D‖²_F, which normalises STRESS.
    classical : tuple of floats
        STRESS of classical MDS with 1, 2, … coordinates, up to all known positive eigenvalues.
    complete : bool
        Whether all eigenvalues are known.
    eigenvalues : ndarray
        Eigenvalues of B without the zero of the constant vector, largest first: all n − 1 for up
        to 2000 objects, otherwise those from both ends that the largest k needs.
    """

    ks: tuple[int, ...]
    stress: dict[str, tuple[float, ...]]
    sq_norm: float
    classical: tuple[float, ...]
    complete: bool
    eigenvalues: npt.NDArray[np.float64]

    @property
    def _from_zero(self) -> tuple[float, ...]:
        """STRESS of classical MDS with 0, 1, … coordinates; without any it is ‖D‖²_F."""
        return (self.sq_norm, *self.classical)

    @property
    def best_stress(self) -> float:
        """The least STRESS of classical MDS, k = 0 included."""
        return min(self._from_zero)

    @property
    def best_k(self) -> int:
        """Number of coordinates with the least STRESS of classical MDS, which may be 0."""
        return self._from_zero.index(self.best_stress)

    @property
    def last_stress(self) -> float:
        """STRESS of classical MDS with the coordinates of all known positive eigenvalues."""
        return self._from_zero[-1]

    @property
    def last_k(self) -> int:
        """Number of known positive eigenvalues; if `complete`, no more coordinates are possible."""
        return len(self.classical)

    @property
    def paradox(self) -> bool:
        """Whether classical MDS with `last_k` coordinates is worse than with fewer."""
        rounding = 1e-9 * self.best_stress
        return (
            self.best_k < self.last_k
            and self.last_stress > self.best_stress + rounding
        )

    def normalized(self, method: str) -> tuple[float, ...]:
        """STRESS as a share of ‖D‖²_F."""
        unit = self.sq_norm or 1.0
        return tuple(value / unit for value in self.stress[method])

    def as_dict(self) -> dict[str, Any]:
        """Return all by name but the eigenvalues and `classical`, of which six facts are given."""
        facts_of_classical = (
            "paradox",
            "best_k",
            "best_stress",
            "last_k",
            "last_stress",
            "complete",
        )
        return {
            "k": self.ks,
            "stress": self.stress,
            "normalized_stress": {
                method: self.normalized(method) for method in self.stress
            },
            "sq_norm": self.sq_norm,
            "classical": {
                name: getattr(self, name) for name in facts_of_classical
            },
        }


def stress_curve(
    D: Any,
    ks: Iterable[int] | None = None,
    methods: Sequence[str] = CLOSED_FORMS,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    callback: Callback | None = None,
) -> StressCurves:
    """Compute STRESS against the number of coordinates, for several methods from one spectrum.

    For more than 2000 objects only the eigenpairs that the largest k needs are computed.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
    ks : iterable of int, optional
        Numbers of coordinates; by default a grid up to 100, or n − 1 if that is less.
    methods : sequence of str
        The closed forms by default. "refined" takes longer.
    squared, symmetrize
        As for `neuc_mds`.
    callback : callable, optional
        Called before each longer piece of work, with 0, None and a few words.

    Returns
    -------
    StressCurves

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import stress_curve
    >>> x = np.random.default_rng(0).uniform(size=(30, 3))
    >>> D = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    >>> curves = stress_curve(D, ks=[2, 4, 8], methods=["classical", "neuc"])
    >>> curves.paradox  # more coordinates make classical MDS worse
    True

    Paper: fig:dim-paradox, fig:dim-para-all.
    """
    problem = prepare(
        D, squared=squared, symmetrize=symmetrize, callback=callback
    )
    refuse_weights(problem, "stress_curve")
    if ks is None:
        ks = spaced_ks(min(MOST_CHOSEN, problem.n - 1))
    grid = as_list("ks", ks)
    methods = as_list("methods", methods)
    sizes = [checked_size(k, problem.n) for k in grid]
    # `checked_size` also takes pairs (p, q), shares of R² and "auto".
    if not sizes or not all(map(is_count, grid)):
        raise InputError(
            f"{option('ks', grid)} must be whole numbers of coordinates, at least one."
        )
    for method in methods:
        check_parameters({"method": method})
    notify(callback, f"computing the spectrum of {problem.n:,} objects")
    if problem.n <= FULL_UP_TO:
        spectrum = full_spectrum(problem.gram)
    else:
        spectrum = solve_for(problem.gram, sizes, methods, random_state=0)
    # A method that is named twice has one curve.
    stress: dict[str, tuple[float, ...]] = dict.fromkeys(methods, ())
    for size in sizes:
        notify(callback, f"k = {size}")
        for method in stress:
            embedding = embed_spectrum(problem, spectrum, size, method)
            stress[method] += (embedding.stress,)
    return StressCurves(
        tuple(map(int, grid)),
        stress,
        problem.gram.sq_norm,
        _classical_stress(problem.gram, spectrum),
        spectrum.complete,
        spectrum.values,
    )


def _classical_stress(gram: Gram, spectrum: Spectrum) -> tuple[float, ...]:
    """Return the STRESS of classical MDS for every k from 1 on, in O(n²) from the spectrum.

    Each eigenpair (λ, u) takes λ u∘u from the diagonal of B − B̂. That diagonal and Σλ² of the
    eigenvalues dropped give the terms C1, C2, C3 of the STRESS (docs/maths.md).
    """
    top = spectrum.values[: spectrum.n_top]
    n_positive = int((top > spectrum.null_level).sum())
    vectors = to_numpy(spectrum.vectors)
    diagonal_error = to_floats(gram.diagonal())
    stress = []
    for last in range(n_positive):
        diagonal_error = diagonal_error - top[last] * vectors[:, last] ** 2
        dropped_sq = spectrum.dropped_sq(np.arange(last + 1))
        stress.append(sum(stress_from_errors(dropped_sq, diagonal_error)))
    return tuple(stress)
