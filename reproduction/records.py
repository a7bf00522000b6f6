"""What an experiment returns: a record. Tables, figures and documents only read records."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import neucmds


@dataclass(frozen=True)
class Printed:
    """One number as it stands in print, and what it is on the scale of this library.

    Parameters
    ----------
    text : str
        The digits in print.
    unit : float
        What one printed unit is worth (errata E7, E9: rows of one table are scaled differently).
    errata : tuple of str
        Which errata say how to read it.
    corrected : float, optional
        What should have been printed, where an erratum says so; in printed units.
    """

    text: str
    unit: float = 1.0
    errata: tuple[str, ...] = ()
    corrected: float | None = None

    @property
    def value(self) -> float:
        """The number that print means, on the scale of this library."""
        return self.unit * (
            float(self.text) if self.corrected is None else self.corrected
        )

    @property
    def half_digit(self) -> float:
        """Half a unit of the last printed digit, on the scale of this library."""
        mantissa, _, exponent = self.text.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 0.5 * self.unit * 10.0 ** (int(exponent or 0) - decimals)


@dataclass(frozen=True)
class Cell:
    """One entry of a table: ours, and the published number beside it where there is one.

    Parameters
    ----------
    row, column : str
    ours : float, int, str or None
        None if it could not be computed; `note` says why.
    printed : Printed, optional
    tolerance : float, optional
        Relative difference up to which ours counts as the published number.
    low, high : float, optional
        Range of our value over many seeds, for data that the paper drew at random.
    note : str
    """

    row: str
    column: str
    ours: float | int | str | None
    printed: Printed | None = None
    tolerance: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Relative difference of ours from the published number."""
        if (
            self.printed is None
            or self.ours is None
            or isinstance(self.ours, str)
        ):
            return None
        published = self.printed.value
        if published == 0:
            return 0.0 if self.ours == 0 else None
        return self.ours / published - 1

    @property
    def agrees(self) -> bool | None:
        """Whether ours is the published number: in range, within tolerance, or the same digits."""
        if (
            self.printed is None
            or self.ours is None
            or isinstance(self.ours, str)
        ):
            return None
        return self.verdict != "differs"

    @property
    def verdict(self) -> str:
        """In two or three words, how ours and the published number compare."""
        if self.printed is None:
            return ""
        if self.ours is None or isinstance(self.ours, str):
            return "not run"
        published = self.printed.value
        gap = abs(self.ours - published)
        if gap <= 1.0001 * self.printed.half_digit:
            return "same digits"
        if self.tolerance is not None and gap <= self.tolerance * abs(
            published
        ):
            return f"within {100 * self.tolerance:g} %"
        if (
            self.low is not None
            and self.high is not None
            and self.low <= published <= self.high
        ):
            return "in range"
        return "differs"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, and what is derived from them, by name."""
        content = asdict(self)
        if self.printed is not None:
            content["published"] = self.printed.value
        return content | {
            "difference": self.difference,
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Cell:
        """Return the cell that `as_dict` wrote."""
        kept = {one.name: content[one.name] for one in fields(cls)}
        return cls(
            **kept
            | {"printed": kept["printed"] and Printed(**kept["printed"])}
        )


@dataclass(frozen=True)
class Skipped:
    """A row or panel that was not run, and what to do about it."""

    row: str
    reason: str


@dataclass(frozen=True)
class Series:
    """One line or set of bars in a panel."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One set of axes of a figure."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: str = "line"
    log_y: bool = False


@dataclass(frozen=True)
class Record:
    """The outcome of one experiment.

    Parameters
    ----------
    name : str
        ``table:…`` or ``figure:…``, as the command line calls it.
    labels : tuple of str
        LaTeX labels of the paper it regenerates; empty for what is ours alone.
    title : str
    parameters : dict
        Seed, sizes, iterations: all that is needed to run it again.
    cells, panels, skipped, notes : tuple
    seconds : float
        Time it took; work shared with an earlier experiment of the same run is not counted again.
    """

    name: str
    labels: tuple[str, ...]
    title: str
    parameters: dict[str, Any]
    cells: tuple[Cell, ...] = ()
    panels: tuple[Panel, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=lambda: versions())

    def cell(self, row: str, column: str) -> Cell:
        """Find one cell; a KeyError if there is none."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column):
                return cell
        raise KeyError((row, column))

    @property
    def score(self) -> tuple[int, int, int]:
        """How many published numbers agree, how many differ, how many could not be run."""
        verdicts = [
            cell.agrees for cell in self.cells if cell.printed is not None
        ]
        return (
            verdicts.count(True),
            verdicts.count(False),
            verdicts.count(None),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dictionaries and numbers."""
        content = asdict(self)
        content["cells"] = [cell.as_dict() for cell in self.cells]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Record:
        """Return the record that `as_dict` wrote, without its panels."""
        parts = {
            "cells": tuple(Cell.from_dict(cell) for cell in content["cells"]),
            "skipped": tuple(Skipped(**skip) for skip in content["skipped"]),
            "panels": (),
        }
        return cls(**{**content, **parts})


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {
        "neucmds": neucmds.__version__,
        "python": platform.python_version(),
    }
    for package in ("numpy", "scipy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
