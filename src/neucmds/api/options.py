"""The options of a fit."""

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
from neucmds._spectrum.solve import check_solver, check_tolerance
from neucmds.api.support import (
    ALL_METHODS,
    DEFAULT_METHOD,
    EIGENPAIR_TOL,
    FEW_OBJECTS,
    MAX_ITER,
    TOL,
    TOL_OF_FEW,
    refuse,
)
from neucmds.errors import InputError, option

# Called with the number of a step, the number of all or None, and the loss or a few words.
Callback = Callable[[int, int | None, float | str], Any]

# Types of `n_components` that are a goal and no number: a share of R², "auto".
GOALS = (float, str)


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
        if self.method != "refined":
            refuse("closed form", self.asked)
        elif self.loss == "squared":
            refuse("squared loss", self.asked)

    @property
    def asked(self) -> dict[str, Any]:
        """The options that not every input goes with, where they differ from their defaults."""
        asked = {
            "method": None if self.method == "refined" else self.method,
            "loss": None if self.loss == "squared" else self.loss,
            "n_components": self.n_components if isinstance(self.n_components, GOALS) else None,
            "init": self.init,
            "n_init": None if self.n_init == 1 else self.n_init,
            "checkpoint": self.checkpoint,
        }
        return {name: value for name, value in asked.items() if value is not None}

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
