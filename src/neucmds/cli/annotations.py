"""What is known of the objects beside D: colours of the points, arrows of variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neucmds._input import column_values, match_rows, read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.ordination import EnvFit, VectorFit, envfit

ENVFIT_HEADER = ("x", "y", "variable", "kind", "cos_x", "cos_y", "r2", "p", "n")


@dataclass(frozen=True)
class Drawing:
    """How a user wants the objects drawn.

    Parameters
    ----------
    metadata : Path, optional
        A table of what is known of them.
    color_by : str, optional
        A column of the table.
    categories : tuple of str
        Columns that are categories although they hold numbers.
    axes : (int, int), optional
    arrows, ellipses : bool
    """

    metadata: Path | None = None
    color_by: str | None = None
    categories: tuple[str, ...] = ()
    axes: tuple[int, int] | None = None
    arrows: bool = False
    ellipses: bool = False

    def check(self) -> None:
        """Refuse options that need others, before anything is read."""
        needs_table = {
            "--color-by": self.color_by is not None,
            "--arrows": self.arrows,
            "--categories": bool(self.categories),
        }
        asked = [flag for flag, given in needs_table.items() if given]
        if asked and self.metadata is None:
            raise InputError(f"{asked[0]} needs a table of the objects; pass --metadata FILE.")
        if self.ellipses and self.color_by is None:
            raise InputError("--ellipses need groups; pass --color-by COLUMN.")


@dataclass(frozen=True)
class Annotations:
    """A colour for each object, what it means, and the variables to fit.

    Parameters
    ----------
    color : sequence, optional
    title : str
    variables : DataFrame, optional
    """

    color: Sequence[object] | None = None
    title: str = ""
    variables: Any = None

    def fits(
        self, embedding: Embedding, pairs: Sequence[tuple[int, int]], seed: int
    ) -> list[EnvFit | None]:
        """Fit the variables to each pair of axes, or to the only axis there is."""
        if self.variables is None:
            return [None] * len(pairs)
        return [
            envfit(
                embedding,
                self.variables,
                axes=pair if embedding.k > 1 else None,
                random_state=seed,
            )
            for pair in pairs
        ]


def read_annotations(drawing: Drawing, n: int, names: Sequence[str] | None) -> Annotations:
    """Read what colours the points, and what is fitted to the axes, in the order of the objects."""
    if drawing.metadata is None:
        return Annotations()
    table = read_metadata(drawing.metadata, categories=drawing.categories)
    table, source = match_rows(table, names, n), drawing.metadata.name
    columns = {title: column_values(table, title) for title in table.columns}
    if drawing.color_by is None and not drawing.arrows:
        raise InputError(
            f"--metadata needs --color-by or --arrows; {source} has the columns "
            f"{', '.join(map(repr, columns))}."
        )
    if drawing.arrows and not any(isinstance(c, np.ndarray) for c in columns.values()):
        raise InputError(f"{source} has no column of numbers for --arrows.")
    color = None if drawing.color_by is None else list(column_values(table, drawing.color_by))
    return Annotations(color, drawing.color_by or "", table if drawing.arrows else None)


def envfit_rows(embedding: Embedding, fits: Sequence[EnvFit | None]) -> Iterator[list[Any]]:
    """Rows of envfit.csv: a variable on a pair of axes each, its direction, r², p and n."""
    names = embedding.axis_names
    for fit in fits:
        if fit is None:
            continue
        axes = [*(names[a - 1] for a in fit.axes), ""][:2]
        for one in fit.fits:
            kind, cosines = "factor", ["", ""]
            if isinstance(one, VectorFit):
                kind, cosines = "vector", [*map(repr, one.direction.tolist()), ""][:2]
            p = "" if np.isnan(one.p) else repr(one.p)
            yield [*axes, one.name, kind, *cosines, repr(one.r2), p, one.n]
