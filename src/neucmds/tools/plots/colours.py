"""Values that colour the objects: numbers, or groups in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from neucmds.backend.arrays import Floats, Marks, to_numpy
from neucmds.errors import InputError, option
from neucmds.problem.files import require_pandas

# Okabe and Ito's colours without the pale yellow, and three of Tol's.
GROUP_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9",
    "#CC79A7", "#000000", "#882255", "#999933", "#332288",
)  # fmt: skip
GROUP_MARKERS = "os^Dv<>PX*"
# Of more groups, the smallest are merged into one; more different integers are a scale.
MAX_GROUPS = 30


@dataclass(frozen=True, eq=False)
class Colours:
    """Values of the objects: `numbers`, NaN if unknown, or `codes`, indices of `groups` or −1.

    Without either, all objects have the same colour.
    """

    numbers: Floats | None = None
    codes: Any = None
    groups: tuple[str, ...] = ()

    @property
    def known(self) -> Marks:
        """Which objects have a value."""
        if self.numbers is not None:
            return np.isfinite(self.numbers)
        return np.asarray(self.codes >= 0)

    def check_groups(self) -> None:
        """Refuse shapes of groups where there are none."""
        if not self.groups:
            shapes = f"{option('hulls')}, {option('spiders')} and {option('ellipses')}"
            raise InputError(
                f"{shapes} need categories; pass them as {option('color')}."
            )


def colour_and_marker(group: int) -> tuple[str, str]:
    """Return the colour and the marker of a group; no two groups share both."""
    colour = GROUP_COLOURS[group % len(GROUP_COLOURS)]
    # Where colours begin again, markers are one further.
    shift = group // len(GROUP_COLOURS)
    marker = GROUP_MARKERS[(group + shift) % len(GROUP_MARKERS)]
    return colour, marker


def as_colours(color: Any, n: int) -> Colours:
    """Return numbers or groups; beyond `MAX_GROUPS`, small groups are merged."""
    pandas = require_pandas("colours")
    if hasattr(color, "dtype"):
        color = to_numpy(color)
    values = pandas.Series(list(color)).replace("", None)
    if len(values) != n:
        raise InputError(
            f"{option('color')} has {len(values)} entries for {n} objects."
        )
    kind = values.dtype.kind
    many_integers = kind in "iu" and values.nunique() > MAX_GROUPS
    if kind == "f" or many_integers:
        return Colours(numbers=values.to_numpy(np.float64))
    names = values.astype("string")
    sizes = names.value_counts()
    if sizes.size > MAX_GROUPS:
        # The largest stay, and leave one place for all others.
        small = sizes.index[MAX_GROUPS - 1 :]
        names = names.mask(names.isin(small), f"other ({small.size} groups)")
    groups = sorted(names.dropna().unique(), key=_sort_key)
    codes = pandas.Categorical(names, groups).codes
    return Colours(codes=codes, groups=tuple(groups))


def _sort_key(name: str) -> str:
    """Return a text that sorts numbers within names by value: plot 9 before plot 10."""
    return re.sub(r"\d+", lambda number: number[0].zfill(20), name)
