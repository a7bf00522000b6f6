"""Values that colour the objects: numbers, or groups in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.errors import InputError, option
from neucmds.tools.plots.figures import Floats, Marks

# Okabe and Ito's colours without the pale yellow, and three of Tol's.
GROUP_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9",
    "#CC79A7", "#000000", "#882255", "#999933", "#332288",
)  # fmt: skip
GROUP_MARKERS = "os^Dv<>PX*"
# Groups with names of their own; smaller ones share the last.
MAX_GROUPS = 30
# So many different whole numbers at most are groups.
MAX_NUMBERED_GROUPS = 20


@dataclass(frozen=True, eq=False)
class Colours:
    """Colours of the objects: `numbers` (NaN: none), or `codes` of `groups` (−1: none)."""

    numbers: Floats | None = None
    codes: Any = None
    groups: tuple[str, ...] = ()

    @property
    def known(self) -> Marks:
        """Which objects have a value."""
        if self.numbers is not None:
            return np.isfinite(self.numbers)
        return np.asarray(self.codes >= 0)

    def look(self, group: int) -> tuple[str, str]:
        """Return the colour and the marker of a group, which differ for all groups."""
        turn = group // len(GROUP_COLOURS)
        marker = GROUP_MARKERS[(group + turn) % len(GROUP_MARKERS)]
        return GROUP_COLOURS[group % len(GROUP_COLOURS)], marker


def as_colours(color: Any, n: int) -> Colours:
    """Return numbers or groups; beyond `MAX_GROUPS`, small groups are merged."""
    if hasattr(color, "dtype"):
        color = to_numpy(color)
    texts = np.array([_text(value) for value in color], dtype=object)
    if len(texts) != n:
        raise InputError(
            f"{option('color')} has {len(texts)} entries for {n} objects."
        )
    known = texts != ""
    numbers = _numbers(texts, known)
    if numbers is not None:
        return Colours(numbers=numbers)
    names, counts = np.unique(texts[known].astype(str), return_counts=True)
    groups = sorted(names.tolist(), key=_natural)
    if len(groups) > MAX_GROUPS:
        largest = names[np.argsort(-counts, kind="stable")[: MAX_GROUPS - 1]]
        other = f"other ({len(groups) - MAX_GROUPS + 1} groups)"
        texts[known & ~np.isin(texts.astype(str), largest)] = other
        groups = [*sorted(largest.tolist(), key=_natural), other]
    number_of = {name: i for i, name in enumerate(groups)}
    codes = np.array([number_of.get(text, -1) for text in texts])
    return Colours(codes=codes, groups=tuple(groups))


def _text(value: Any) -> str:
    """Write a value, whole numbers as such (3, not 3.0), and one that is missing as nothing."""
    if isinstance(value, str):
        return value
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _numbers(texts: Any, known: Marks) -> Floats | None:
    """Return values as numbers if they are, and are fractions or too many to be groups."""
    numbers = np.full(len(texts), np.nan)
    try:
        numbers[known] = texts[known].astype(np.float64)
    except ValueError:
        return None
    different = np.unique(numbers[np.isfinite(numbers)])
    if (
        different.size <= MAX_NUMBERED_GROUPS
        and (different == np.round(different)).all()
    ):
        return None
    return numbers


def _natural(name: str) -> list[tuple[int, float, str]]:
    """Sort numbers by value, also within text: plot 9 before plot 10."""
    try:
        return [(0, float(name), "")]
    except ValueError:
        parts = re.split(r"(\d+(?:\.\d+)?)", name.casefold())
    # Texts and numbers take turns, beginning with a text.
    key = [(1, 0.0, text) for text in parts]
    for i in range(1, len(parts), 2):
        key[i] = (0, float(parts[i]), "")
    return key
