"""Print results as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from neucmds.explore import ComparedMethod, PairErrors, Quality, StressCurves
from neucmds.problem.components import NComponents
from neucmds.tools.cli.results import Result
from neucmds.tools.report.words import (
    CONVENTIONS,
    COUNTED,
    count,
    curvature_words,
    marked,
    percent,
    signature,
    significant,
)

AXES_SHOWN = 4
# Below so many objects the squared loss keeps as many neighbours (docs/guide/losses.md).
RELATIVE_FROM = 200


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> Table:
    """Make a table of names and values."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def facts(result: Result) -> list[tuple[str, str]]:
    """Return names and values of the rows that `embed` prints."""
    embedding, quality, errors = result.embedding, result.quality, result.errors
    positive, negative = embedding.signature
    loss = "" if embedding.loss == "squared" else f", {embedding.loss} loss"
    known = [
        ("method", f"{embedding.method}{loss}"),
        ("coordinates", f"{embedding.k}: {positive} positive, {negative} negative{_axes(result)}"),
        *_measured(result),
        *([("curvature", curvature_words(embedding))] if embedding.curvature else []),
        ("R²", _r2(quality.r2)),
        ("off by over 10 %", _off(quality, errors)),
        ("worst objects", _worst(result)),
        ("recall@10", f"{percent(quality.neighbors_kept)} of the 10 nearest neighbours are kept"),
        (
            "S-STRESS",
            f"{significant(quality.stress)}, {percent(quality.normalized_stress)} of ‖D‖²; "
            f"distortion {significant(quality.distortion)} (1 is perfect)",
        ),
    ]
    if below := quality.negative_dissimilarities:
        pairs = count(result.measured.n * (result.measured.n - 1) // 2)
        text = f"{count(below)} of {pairs} pairs have a negative fitted square; take them as 0"
        known.append(("D̂ below zero", text))
    return known


def _axes(result: Result) -> str:
    embedding = result.embedding
    whose = f" (of {embedding._landmarks_alone})" if embedding._landmarks_alone else ""
    said: dict[str, str] = {}
    for name, shares in embedding.shares.items():  # alike where no eigenvalue is negative
        said.setdefault(_listed(shares, percent), CONVENTIONS[name])
    if said:
        parts = "; ".join(f"{text} of the {whole}" for text, whole in said.items())
        return f"; they have {parts}{whose}"
    lost = embedding.explained
    known = np.isfinite(lost).any()
    return f"; R² lost without each: {_listed(lost, _short)}{whose}" if known else ""


def _listed(values: Any, write: Callable[[float], str]) -> str:
    texts = [write(value).replace("-", "−") for value in values[:AXES_SHOWN]]
    return ", ".join(texts + ["…"] * (len(values) > AXES_SHOWN))


def _measured(result: Result) -> list[tuple[str, str]]:
    facts, landmarks = [], result.embedding.landmarks
    if landmarks is not None:
        placed = result.embedding.n - len(landmarks)
        text = f"{count(len(landmarks))} embedded, {count(placed)} others placed among them"
        facts.append(("landmarks", text))
    if result.measured is not result.embedding:
        text = f"on pairs of {count(result.measured.n)} objects drawn at random"
        facts.append(("measured", text))
    return facts


def _r2(r2: float) -> str:
    if math.isnan(r2):
        return "not defined: all dissimilarities are equal"
    if r2 < 0:
        return f"{significant(r2)}: worse than a constant for all pairs"
    return f"{significant(r2)} of the variance of the squared dissimilarities"


def _off(quality: Quality, errors: PairErrors) -> str:
    if not errors.pairs:
        return "not defined: no dissimilarity is positive"
    return (
        f"{count(errors.pairs_off)} of {count(errors.pairs)} pairs "
        f"({percent(errors.pairs_off / errors.pairs)}); mean relative error "
        f"{percent(quality.relative_error_mean)}, p95 {percent(quality.relative_error_p95)}"
    )


def _worst(result: Result) -> str:
    labels, errors = result.measured.labels, result.errors.of_object
    worst = [i for i in result.errors.worst() if errors[i] > 0]
    if not worst:
        return "none"
    names = [f"object {i}" if labels is None else labels[i] for i in worst]
    first, *others = (
        f"{name} ({percent(float(errors[i]))}" for name, i in zip(names, worst, strict=True)
    )
    listed = "), ".join([f"{first} mean relative error", *others]) + ")"
    return listed if labels is not None else f"{listed}; {COUNTED}"


def suggestion(result: Result, wanted: NComponents) -> str | None:
    """Name options to try next, if a pair is off by over 10 %.

    A larger k is not advised if the fit chose k, or for R² ≥ 0.99.
    """
    embedding, chosen = result.embedding, isinstance(wanted, (str, float))
    if not result.errors.pairs_off:
        return None
    k, more = embedding.k, min(2 * embedding.k, embedding.n - 1)
    tries = [f"-k {more}"] if more > k and not chosen and not result.quality.r2 >= 0.99 else []
    if embedding.method != "refined":
        tries.append("--method refined")
    elif k in (2, 3):  # where "relative" keeps fewer neighbours: 54.6 % on mite, "distance" 63.6 %
        if embedding.loss == "squared" and not chosen:
            tries.append(f"-k {k},0 --loss distance, for a plot")
    elif embedding.loss != "relative" and embedding.n >= RELATIVE_FROM:
        tries.append("--loss relative, if near pairs matter")
    return f"Try next: {'; '.join(tries)}." if tries else None


def _short(value: float) -> str:
    return significant(value, 3)


# Header, field, format, whether more is better.
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
    """Make a row per method; a star marks the best value of a column."""
    columns: list[Sequence[str | Text]] = [
        _starred([getattr(row.quality, field) for row in rows], write, most=more_is_better)
        for _, field, write, more_is_better in _COLUMNS
    ]
    columns.append([signature(row.embedding.signature) for row in rows])
    columns.append(_starred([row.seconds for row in rows], lambda v: f"{v:.3f}"))
    header = ["method", *(name for name, *_ in _COLUMNS), "signs", "seconds"]
    lines = zip([row.method for row in rows], *columns, strict=True)
    return _table(title, header, lines, padding=0, pad_edge=False)


def curve_table(curves: StressCurves, shown: Sequence[int]) -> Table:
    """Make a row per k, a column per method; a star marks the best value of a row."""
    normalized = {method: curves.normalized(method) for method in curves.stress}
    rows = [
        [str(k), *_starred([column[curves.ks.index(k)] for column in normalized.values()], _short)]
        for k in shown
    ]
    return _table("STRESS / ‖D‖²", ["k", *curves.stress], rows)


def _table(title: str, header: Sequence[str], rows: Any, **look: Any) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, **look)
    table.add_column(header[0], style="bold", no_wrap=True)
    for name in header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
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
