"""The plots of objects that ``neucmds embed`` draws, with arrows and groups of their metadata."""

from __future__ import annotations

from typing import Any

import pandas as pd

from neucmds.ecology import EnvFit, envfit
from neucmds.ecology.metadata import column_values
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.tools.cli.outputs import Outputs
from neucmds.tools.plots import caption, plot_coordinates
from neucmds.tools.plots.colours import Colours, as_colours
from neucmds.tools.plots.coordinates import (
    check_plane,
    default_axes,
    two_axes,
)
from neucmds.tools.plots.figures import inches

# Of the first two axes, and of the first positive and the first negative one.
AXES_PLOTS = ("coordinates", "coordinates_neg")
PERMUTATIONS = 999


class Drawing:
    """How objects are drawn.

    Parameters
    ----------
    axes : tuple of int, optional
        The axes to draw; `default_axes` by default.
    color_by : str, optional
        The column of metadata that colours the objects.
    arrows : bool
        Whether metadata are fitted to the axes.
    seed : int
        Of the permutations of these fits.
    style : dict
        Other options of `plot_coordinates`.
    """

    def __init__(
        self,
        *,
        axes: Any,
        color_by: str | None,
        arrows: bool,
        seed: int,
        style: dict[str, Any],
    ) -> None:
        self.axes = axes
        self.color_by = color_by
        self.arrows = arrows
        self.seed = seed
        self.style = style | {"title": color_by or ""}

    @property
    def permutations(self) -> int:
        """Permutations of the fits of metadata; 0 without these."""
        return PERMUTATIONS if self.arrows else 0

    def check_options(self, table: pd.DataFrame | None) -> None:
        """Refuse arrows without metadata, and a width that is none."""
        if self.arrows and table is None:
            raise InputError(
                "--arrows needs a table of the objects; pass --metadata FILE."
            )
        if self.style["size"] is not None:
            inches(self.style["size"])

    def check_objects(
        self, table: pd.DataFrame | None, n: int, k: int
    ) -> None:
        """Refuse axes that k coordinates do not have, and groups that n objects are not in."""
        if self.arrows:
            check_plane(k)
        if self.axes is not None:
            two_axes(self.axes, k)
        colours = Colours()
        if self.color_by is not None:
            colours = as_colours(self._color(table), n)
        has_shapes = self.style["hulls"] or self.style["spiders"]
        if has_shapes or self.style["ellipses"] != "none":
            colours.check_groups()

    def add_to(
        self,
        outputs: Outputs,
        embedding: Embedding,
        table: pd.DataFrame | None,
        kind: str,
    ) -> list[str]:
        """Add plots of this kind, or none, and tables of fitted metadata; return captions."""
        pairs = default_axes(embedding)
        if self.axes is not None:
            pairs = [two_axes(self.axes, embedding.k)]
        fits: list[Any] = [None] * len(pairs)
        if self.arrows:
            # There may be fewer coordinates than asked for.
            check_plane(embedding.k)
            fits = [
                envfit(
                    embedding,
                    table,
                    axes=pair,
                    permutations=self.permutations,
                    random_state=self.seed,
                )
                for pair in pairs
            ]
            add_envfit(outputs, embedding, fits)
        if kind == "none":
            return []
        captions = []
        # There may be one pair of axes alone.
        for name, pair, fit in zip(AXES_PLOTS, pairs, fits, strict=False):
            look = self.style | {"axes": pair, "arrows": fit}
            ax = plot_coordinates(embedding, self._color(table), **look)
            outputs.add_plot(f"{name}.{kind}", ax)
            captions.append(f"{name}: {caption(embedding, **look)}")
        return captions

    def _color(self, table: pd.DataFrame | None) -> Any:
        """Return the values that colour the objects; None without a column."""
        if self.color_by is None:
            return None
        return column_values(table, self.color_by)


def add_envfit(
    outputs: Outputs, embedding: Embedding, fits: list[EnvFit]
) -> None:
    """Add tables of variables and of centroids of classes; `fits` has one for each pair of axes."""
    shared_header = ["x", "y", "variable"]
    variable_header = [
        *shared_header,
        "kind",
        "cos_x",
        "cos_y",
        "r2",
        "p",
        "n",
    ]
    class_header = [*shared_header, "class", "centroid_x", "centroid_y"]
    variables = []
    classes = []
    for fit in fits:
        # Users count axes from 1.
        axes = [embedding.axis_names[axis - 1] for axis in fit.axes]
        for variable in fit.fits:
            # The direction of a categorical variable is empty.
            cosines = variable.direction.tolist() or [None, None]
            test = (variable.r2, variable.p, variable.n)
            shared = [*axes, variable.name]
            variables.append([*shared, variable.kind, *cosines, *test])
            for level, centroid in zip(
                variable.levels, variable.centroids, strict=True
            ):
                classes.append([*shared, level, *centroid])
    outputs.add_csv(
        "envfit.csv", pd.DataFrame(variables, columns=variable_header)
    )
    outputs.add_csv(
        "centroids.csv", pd.DataFrame(classes, columns=class_header)
    )
