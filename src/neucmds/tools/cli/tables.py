"""Print results as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from neucmds.embedding import Embedding
from neucmds.explore import ComparedMethod, Quality, StressCurves
from neucmds.problem.components import NComponents
from neucmds.problem.names import EXAMPLES
from neucmds.tools.cli.console import visible
from neucmds.tools.cli.results import Result
from neucmds.tools.plots.figures import with_minus
from neucmds.tools.report.words import (
    COUNTED,
    count,
    measured_columns,
    object_name,
    percent,
    short,
    signature,
    significant,
    texts_and_best,
)


def facts_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Make a table of names and values, without a header."""
    table = Table(
        title=visible(title),
        title_justify="left",
        box=box.SIMPLE,
        show_header=False,
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, visible(value))
    return table


def facts(result: Result) -> list[tuple[str, str]]:
    """Return the names and values that ``neucmds embed`` prints."""
    embedding = result.embedding
    quality = result.quality
    positive, negative = embedding.signature
    method = embedding.method
    if embedding.loss != "squared":
        method += f", {embedding.loss} loss"
    rows = [
        ("method", method),
        (
            "coordinates",
            f"{embedding.k}: {positive} positive, {negative} negative{_trace_shares(result)}",
        ),
    ]
    if embedding.landmarks is not None:
        n_landmarks = len(embedding.landmarks)
        others = count(embedding.n - n_landmarks)
        landmarks = (
            f"{count(n_landmarks)} embedded, {others} others placed among them"
        )
        rows.append(("landmarks", landmarks))
    if result.measured is not embedding:
        sample = (
            f"on pairs of {count(result.measured.n)} objects drawn at random"
        )
        rows.append(("measured", sample))
    if embedding.form_words:
        rows.append(("space", with_minus(embedding.form_words)))
    if math.isfinite(embedding.stress1):
        rows.append(("stress-1", _stress1(result)))
    variables = "fitted with given dissimilarities"
    if embedding.loss == "ordinal":
        variables = "distances with disparities"
    shepard_r2 = significant(quality.shepard_r2)
    rows.append(
        ("Shepard R²", f"{shepard_r2}, the squared correlation of {variables}")
    )
    recall = f"{percent(quality.neighbors_kept)} of the 10 nearest neighbours are kept"
    # The distances of an ordinal fit have no unit in which they could be off.
    if embedding.loss == "ordinal":
        return [*rows, ("recall@10", recall)]
    stress = f"{significant(quality.stress)}, {percent(quality.normalized_stress)} of ‖D‖²"
    rows += [
        ("off by over 10 %", _relative_errors(result)),
        ("worst objects", _worst_objects(result)),
        ("recall@10", recall),
        (
            "S-STRESS",
            f"{stress}; R² of the squares {significant(quality.r2)}; distortion "
            f"{significant(quality.distortion)} (1 is perfect)",
        ),
    ]
    if result.held_out_quality is not None:
        held_out = (
            f"recall@10 {percent(result.held_out_quality.neighbors_kept)}, "
            f"{_mean_and_p95(result.held_out_quality)}"
        )
        rows.append(("held-out objects", held_out))
    if quality.negative_dissimilarities:
        below_zero = count(quality.negative_dissimilarities)
        pairs = count(_n_pairs(result.measured))
        advice = "have a negative fitted square; take them as 0"
        rows.append(
            ("D̂ below zero", f"{below_zero} of {pairs} pairs {advice}")
        )
    return rows


def _mean_and_p95(quality: Quality) -> str:
    """Say how large the relative errors of pairs are."""
    mean = percent(quality.relative_error_mean)
    p95 = percent(quality.relative_error_p95)
    return f"mean relative error {mean}, p95 {p95}"


def _stress1(result: Result) -> str:
    """Say what stress-1 is and, for an ordinal fit, how many starts found it."""
    embedding = result.embedding
    text = significant(embedding.stress1)
    if embedding.loss != "ordinal":
        return text
    info = embedding.info
    return (
        f"{text}; non-metric R² {significant(1 - embedding.stress1**2)}; found by "
        f"{info.times_found} of {info.n_starts} starts"
    )


def _trace_shares(result: Result) -> str:
    """Say which shares of the trace the first axes have; no text where they are not defined."""
    embedding = result.embedding
    if embedding.loss == "ordinal" or "trace" not in embedding.shares:
        return ""
    shares = embedding.shares["trace"]
    texts = [with_minus(percent(share)) for share in shares[:EXAMPLES]]
    if len(shares) > EXAMPLES:
        texts.append("…")
    text = f"; shares of the trace: {', '.join(texts)}"
    if embedding.landmarks is not None:
        text += f" (of {embedding._landmarks_alone})"
    return text


def _n_pairs(embedding: Embedding) -> int:
    """Return the number of pairs of objects: unordered, ordered, or between two sets."""
    if embedding.arrivals is None:
        return math.comb(embedding.n, 2)
    if embedding.arrival_labels is None:
        return embedding.n * (embedding.n - 1)
    return embedding.n * len(embedding.arrivals)


def _relative_errors(result: Result) -> str:
    """Say how many pairs are off by over 10 %, and how large relative errors are."""
    errors = result.errors
    if not errors.pairs:
        return "not defined: no dissimilarity is positive"
    what = "pairs"
    if errors.pairs < _n_pairs(result.measured):
        what = "pairs with d > 0"
    share = percent(errors.pairs_off / errors.pairs)
    return (
        f"{count(errors.pairs_off)} of {count(errors.pairs)} {what} ({share}); "
        f"{_mean_and_p95(result.quality)}"
    )


def _worst_objects(result: Result) -> str:
    """Name the objects with the largest mean relative errors."""
    labels = result.names
    texts = []
    noun = " mean relative error"
    for i in result.errors.worst():
        error = percent(float(result.errors.of_object[i]))
        texts.append(f"{object_name(labels, i)} ({error}{noun})")
        # Said of the first percentage alone.
        noun = ""
    if not texts:
        return "none"
    text = ", ".join(texts)
    if labels is None:
        text += f"; {COUNTED}"
    return text


def suggestion(result: Result, n_components: NComponents) -> str:
    """Name options to try next; no text if no pair is off by over 10 %.

    A larger k is not advised if the fit chose k, or for R² ≥ 0.99.
    """
    embedding = result.embedding
    if embedding.loss == "ordinal":
        return ""
    k = embedding.k
    larger_k = min(2 * k, embedding.n - 1)
    # "auto", or a share of R².
    is_k_chosen = isinstance(n_components, (str, float))
    tries = []
    # Where all dissimilarities are equal, R² is NaN, and compares as false.
    if larger_k > k and not is_k_chosen and not result.quality.r2 >= 0.99:
        tries.append(f"-k {larger_k}")
    if embedding.method != "refined":
        tries.append("--method refined")
    elif k == 2 and embedding.loss == "squared" and not is_k_chosen:
        tries.append("-k 2,0 --loss distance, for a plot")
    if not tries or not result.errors.pairs_off:
        return ""
    return f"Try next: {'; '.join(tries)}."


def comparison_table(title: str, rows: Sequence[ComparedMethod]) -> Table:
    """Make a row per method; a star marks the best value of a column."""
    columns: dict[str, Sequence[Any]] = {
        "method": [row.method for row in rows]
    }
    measured = measured_columns([row.quality for row in rows])
    for header, (texts, best) in measured.items():
        columns[header] = _with_stars(texts, best)
    columns["signs"] = [signature(row.embedding.signature) for row in rows]
    columns["seconds"] = [f"{row.seconds:.3f}" for row in rows]
    rows_of_texts = zip(*columns.values(), strict=True)
    # Nine columns fit into 80 characters without padding.
    return _table(
        title, list(columns), rows_of_texts, padding=0, pad_edge=False
    )


def curve_table(curves: StressCurves) -> Table:
    """Make a row per k, a column per method; a star marks the best value of a row."""
    stress_of_methods = [curves.normalized(method) for method in curves.stress]
    rows = []
    for k, *stress in zip(curves.ks, *stress_of_methods, strict=True):
        texts, best = texts_and_best(stress, short)
        rows.append([str(k), *_with_stars(texts, best)])
    return _table("STRESS / ‖D‖²", ["k", *curves.stress], rows)


def _table(
    title: str, header: Sequence[str], rows: Iterable[Any], **look: Any
) -> Table:
    """Make a table whose columns but the first are numbers; `look` are options of Rich's Table."""
    table = Table(
        title=visible(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        **look,
    )
    table.add_column(header[0], style="bold", no_wrap=True)
    for name in header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _with_stars(texts: list[str], best: set[int]) -> list[Text]:
    """Return cells of texts, those at the positions `best` with a star behind."""
    # A blank behind all others keeps the digits below each other.
    cells = [Text(f"{text} ") for text in texts]
    for i in best:
        cells[i] = Text(f"{texts[i]}*", style="green")
    return cells
