"""What may be asked for: the options of a fit, their defaults, and what goes with which input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds._input.components import Components, NComponents
from neucmds._methods.refined.loss_starts import Place, as_start
from neucmds._methods.refined.starts import RefineSettings
from neucmds._methods.selection import METHODS
from neucmds._spectrum.solve import check_solver, check_tolerance
from neucmds.errors import InputError, option

ALL_METHODS = (*METHODS, "exact", "refined")
CLOSED_FORMS = tuple(method for method in ALL_METHODS if method != "refined")
# Of all methods "refined" has the least STRESS on fitted objects (docs/quality.md) and on objects
# placed later (benchmarks/records/placement.json); of 8000 objects it takes 1.1 to 1.8 times the
# time of "neuc+" (benchmarks/records/refined_at_scale.json).
DEFAULT_METHOD = "refined"

# Called with the number of a step, the number of all or None, and the loss or a few words.
Callback = Callable[[int, int | None, float | str], Any]

# Residual of eigenpairs, relative to the largest kept |λ|.
EIGENPAIR_TOL = 1e-7
# Most iterations. Streets of 6,750 nodes (k = 16): mean error 1.96 % after 200, 1.92 % after 300.
MAX_ITER = {"squared": 200, "distance": 500, "relative": 500}
# Share of the loss that three iterations must gain. Against 1e-7, 2e-3 costs at most 0.6 % of
# STRESS on the data sets of docs/quality.md. "distance" is held against SMACOF to 0.05 %, so it
# goes further; for "relative" 2e-3 is enough on digits and streets. Few objects cost little.
TOL = {"squared": 2e-3, "distance": 1e-4, "relative": 2e-3}
FEW_OBJECTS, TOL_OF_FEW = 600, 1e-6


@dataclass(frozen=True)
class Options:
    """How an input is embedded: the parameters of `neuc_mds` that do not describe the input.

    Parameters
    ----------
    n_components, method, loss, random_state, tol, max_iter, n_init, init, callback, checkpoint
        As for `neuc_mds`.
    solver : {"auto", "full", "krylov"}
        How the eigenpairs are computed.
    """

    n_components: NComponents = None
    method: str = DEFAULT_METHOD
    loss: str = "squared"
    random_state: Any = None
    tol: float | None = None
    max_iter: int | None = None
    n_init: int | None = None
    init: Any = None
    callback: Callback | None = None
    checkpoint: str | PathLike[str] | None = None
    solver: str = "auto"

    def __post_init__(self) -> None:
        check_methods((self.method,))
        check_solver(self.solver)
        check_seed(self.random_state)
        check_tolerance(self.eigenpair_tol)
        self.settings(2)

    @property
    def eigenpair_tol(self) -> float:
        """Largest relative residual of eigenpairs; "refined" only starts from them."""
        return EIGENPAIR_TOL if self.tol is None or self.method == "refined" else self.tol

    @cached_property
    def start(self) -> Place | None:
        """Where "refined" is to start."""
        return as_start(self.init)

    @property
    def wanted(self) -> NComponents:
        """What n_components says, or the signature of `init`, which must not contradict it."""
        if self.start is None:
            return self.n_components
        signature = self.start.signature
        # 2 is the default, and says nothing.
        if self.n_components not in (None, 2, signature, sum(signature)):
            raise InputError(
                f"{option('init')} has {signature[0]} positive and {signature[1]} negative "
                f"coordinates, not {option('n_components', self.n_components)}; leave the latter "
                "out."
            )
        return signature

    def components(self, n: int) -> Components:
        """How many coordinates are wanted of n objects."""
        return Components.parse(self.wanted, n)

    def settings(self, n: int) -> RefineSettings:
        """Limits of "refined" for n objects: the defaults of every kind of input."""
        few = self.loss != "squared" and n <= FEW_OBJECTS
        most = MAX_ITER.get(self.loss) if self.max_iter is None else self.max_iter
        refined_tol = self.tol if self.method == "refined" else None
        if refined_tol is None:
            refined_tol = TOL_OF_FEW if few else TOL.get(self.loss)
        return RefineSettings(
            max_iter=most,
            tol=refined_tol,
            callback=self._on_iteration(most),
            loss=self.loss,
            n_init=self.n_init,
            checkpoint=self.checkpoint,
        )

    def tell(self, words: str) -> None:
        """Let the callback hear what is done next."""
        tell(self.callback, words)

    def _on_iteration(self, most: int | None) -> Callable[[int, float], Any] | None:
        if (callback := self.callback) is None:
            return None
        return lambda iteration, loss: callback(iteration, most, loss)


def tell(callback: Callback | None, words: str) -> None:
    """Let a callback hear what is done next."""
    if callback is not None:
        callback(0, None, words)


def on_pass(callback: Callback | None) -> Callable[[int, int, int], Any] | None:
    """Let a callback hear how far a pass over D has come."""
    if callback is None:
        return None
    return lambda number, rows, n: callback(rows, n, f"pass {number} over D")


def check_seed(random_state: Any) -> None:
    """Refuse what cannot seed a generator."""
    if isinstance(random_state, np.random.Generator):
        return
    try:
        check_random_state(random_state)
    except ValueError as problem:
        raise InputError(
            f"{option('random_state', random_state)} cannot seed a generator; pass a whole number, "
            "a RandomState, a Generator or None."
        ) from problem


def check_methods(names: Sequence[str]) -> None:
    """Refuse a method that does not exist."""
    for name in names:
        if name not in ALL_METHODS:
            raise InputError(
                f"{option('method', name)} is unknown; choose one of {', '.join(ALL_METHODS)}."
            )
