"""An operator whose products are kept in a file, so that a fit in many passes can go on.

All that lies between two passes over D is computed again, from the same numbers to the same bits:
no solver has to know that it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, namespace
from neucmds._backend.checkpoints import StepCheckpoint
from neucmds._operator.gram import Gram, Indices, Moments, Result
from neucmds._operator.single_precision import Multiply, Rounded
from neucmds.errors import InputError, option


def keeping_products(
    gram: Gram, checkpoint: str | PathLike[str] | None, settings: Mapping[str, object]
) -> AbstractContextManager[Gram]:
    """Give an operator whose products are kept in a file until the end of the context.

    Parameters
    ----------
    gram : Gram
        Not of a D in memory.
    checkpoint : path or None
        None gives `gram` itself.
    settings : mapping of str to object
        All but D that decides which products are made.
    """
    return nullcontext(gram) if checkpoint is None else _kept(gram, checkpoint, settings)


@contextmanager
def _kept(
    gram: Gram, checkpoint: str | PathLike[str], settings: Mapping[str, object]
) -> Iterator[Gram]:
    if gram.xp is not namespace(np.empty(0)):
        raise InputError(f"{option('checkpoint')} is for arrays in main memory.")
    with StepCheckpoint(checkpoint, {"D": gram.identity(), **settings}) as kept:
        yield KeptGram(gram, kept)
        kept.remove()


class KeptGram(Gram):
    """The same B; products and moments that are in the file take no pass over D.

    Parameters
    ----------
    gram : Gram
    kept : StepCheckpoint
    """

    def __init__(self, gram: Gram, kept: StepCheckpoint) -> None:
        self.gram, self.kept = gram, kept
        self.n, self.xp, self.dtype = gram.n, gram.xp, gram.dtype
        self.costly_pass = gram.costly_pass

    @property
    def device(self) -> Any:
        """The device that products are computed on."""
        return self.gram.device

    def matmat(self, block: Array) -> Array:
        """B @ block."""
        return self.kept.step("product", block, self.gram.matmat)

    def rounded(self) -> Rounded | None:
        """Return B in single precision where that pays; a copy of it is made anew."""
        rounded = self.gram.rounded()
        return None if rounded is None else KeptRounded(rounded, self.kept)

    @cached_property
    def moments(self) -> Moments:
        """Row means and norm of a D that was found to be valid."""

        def look(_: Array) -> Array:
            found = self.gram.moments
            return np.append(found.row_means, found.sq_norm)

        numbers = self.kept.step("moments", np.empty(0), look, (self.n + 1,))
        self.gram.moments = Moments(numbers[:-1], float(numbers[-1]))
        return self.gram.moments

    def rows(self, rows: slice) -> Array:
        """Return these rows of D."""
        return self.gram.rows(rows)

    def pick(self, indices: Indices) -> Array | None:
        """Return some rows of D; None where that costs more than as many rows."""
        return self.gram.pick(indices)

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Pass over D once."""
        return self.gram.walk()

    def row_slices(self) -> list[slice]:
        """Cut the objects into the row blocks that a pass over D walks through."""
        return self.gram.row_slices()

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Pass over D once and do a piece of work on every row slice and its rows."""
        return self.gram.on_each(work)


@dataclass(frozen=True)
class KeptRounded:
    """The same products in single precision, kept in a file."""

    rounded: Rounded
    kept: StepCheckpoint

    @property
    def precision(self) -> float:
        """Relative error of a product."""
        return self.rounded.precision

    @contextmanager
    def products(self) -> Iterator[Multiply]:
        """Give the function for B @ block, to single precision but as float64."""
        with self.rounded.products() as multiply:
            yield lambda block: self.kept.step("rounded product", block, multiply)
