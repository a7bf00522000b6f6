"""Records as tables for reading: a few digits, units in the header, the best value marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from neucmds.api import ComparedMethod, StressCurves
from neucmds.report.words import count, marked, signature, significant


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> Table:
    """Two columns: what, and how much."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def _short(value: float) -> str:
    return significant(value, 3)


# Header, field, how it is written, whether more is better.
_COLUMNS: tuple[tuple[str, str, Callable[[float], str], bool], ...] = (
    ("STRESS", "stress", significant, False),
    ("share", "normalized_stress", _short, False),
    ("R²", "r2", _short, True),
    ("rel.\nerror", "relative_error_mean", _short, False),
    ("near", "neighbors_kept", _short, True),
    ("distor-\ntion", "distortion", significant, False),
    ("neg.\nD̂", "negative_dissimilarities", count, False),
)


def comparison_table(title: str, rows: Sequence[ComparedMethod]) -> Table:
    """One row for each method; the best value of every column has a star."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("method", style="bold", no_wrap=True)
    for name, *_ in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("signs", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    columns = [
        _starred([getattr(row.quality, field) for row in rows], write, most=more_is_better)
        for _, field, write, more_is_better in _COLUMNS
    ]
    seconds = _starred([row.seconds for row in rows], lambda v: f"{v:.3f}")
    for i, row in enumerate(rows):
        cells = [column[i] for column in columns]
        pair = signature(row.embedding.signature)
        table.add_row(row.method, *cells, pair, seconds[i])
    return table


def _starred(
    values: Sequence[float], write: Callable[[float], str], *, most: bool = False
) -> list[Text]:
    texts, best = marked(values, write, most=most)
    # A blank keeps the digits below each other.
    return [
        Text(f"{text}*", style="green") if i in best else Text(f"{text} ")
        for i, text in enumerate(texts)
    ]


def curve_table(curves: StressCurves, shown: Sequence[int]) -> Table:
    """STRESS / ‖D‖²: a row for each k, a column for each method, the best of a row with a star."""
    table = Table(title="STRESS / ‖D‖²", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("k", justify="right", style="bold")
    for method in curves.stress:
        table.add_column(method, justify="right")
    normalized: dict[str, Any] = {m: curves.normalized(m) for m in curves.stress}
    for k in shown:
        at = curves.ks.index(k)
        values = [normalized[m][at] for m in curves.stress]
        table.add_row(str(k), *_starred(values, lambda v: significant(v, 3)))
    return table
