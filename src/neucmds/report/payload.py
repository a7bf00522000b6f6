"""The data of the page for its script: one JSON document, long columns as base64."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import to_numpy
from neucmds._input import column_values
from neucmds.embedding import Embedding
from neucmds.plots import (
    GROUP_COLOURS,
    GROUP_MARKERS,
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
    as_colours,
    axis_label,
    default_axes,
    kept_words,
    mark_kept,
    printable,
    signed_root,
)
from neucmds.report.findings import Findings
from neucmds.report.words import clean

Floats = npt.NDArray[np.float64]

# Coordinates and columns on the page: 2,000 objects take 0.9 MB.
MOST_AXES, MOST_COLUMNS = 50, 30
# Eigenvalues of each sign that are drawn.
MOST_EIGENVALUES = 2000
# WebGL draws more points than this: SVG is slow.
MOST_SVG = 3000
WORST = 15
# Axes on which the replicates of each object have their covariance on the page.
MOST_STABLE_AXES = 10
# Curves against k, and their fields of `Quality`.
MEASURED = {"stress": "normalized_stress", "r2": "r2", "neighbours": "neighbors_kept"}
SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down",
    "<": "triangle-left", ">": "triangle-right", "P": "cross", "X": "x", "*": "star",
}  # fmt: skip


def payload(found: Findings, metadata: Any, color_by: str | None) -> dict[str, Any]:
    """Return the data of every plot; `metadata` is in the order of the objects."""
    embedding = found.embedding
    document = {
        "n": embedding.n,
        "mostSvg": MOST_SVG,
        "mostAxes": MOST_AXES,
        "names": None if embedding.labels is None else [printable(s) for s in embedding.labels],
        "squared": embedding.squared,
        "colours": {"positive": POSITIVE, "negative": NEGATIVE},
        "groupColours": GROUP_COLOURS,
        "groupSymbols": [SYMBOLS[marker] for marker in GROUP_MARKERS],
        "methodStyles": {name: [c, SYMBOLS[m]] for name, (c, m) in METHOD_STYLES.items()},
        "axes": _axes(embedding),
        "columns": _columns(found, metadata, color_by),
        "scan": _scan(found),
        "spectrum": _spectrum(found),
        "curves": _curves(found),
        "pairs": _pairs(found),
        "nearest": _nearest(found),
        "worst": _worst(found),
        "stability": _stability(found),
    }
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def _spectrum(found: Findings) -> dict[str, Any] | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept."""
    embedding = found.embedding
    kept = np.asarray(to_numpy(embedding.eigenvalues), dtype=np.float64).ravel()
    lam = kept if found.curves is None else found.curves.eigenvalues
    lam = lam[np.abs(lam) > 1e-12 * np.abs(lam).max(initial=0.0)]
    if not lam.size:
        return None
    lam = lam[np.argsort(-np.abs(lam), kind="stable")]
    rank = np.where(lam > 0, np.cumsum(lam > 0), np.cumsum(lam < 0))
    is_kept = np.ones(lam.size, dtype=bool) if found.curves is None else mark_kept(lam, kept)
    shown = rank <= MOST_EIGENVALUES
    complete = found.inspection is not None and found.inspection.complete
    return {
        "values": _digits(lam[shown]),
        "rank": rank[shown].tolist(),
        "kept": is_kept[shown].astype(int).tolist(),
        "keptSigns": [int((is_kept & (lam * sign > 0))[shown].sum()) for sign in (1, -1)],
        "words": kept_words(embedding),
        "complete": complete,
        "trace": embedding.trace,
    }


def _axes(embedding: Embedding) -> dict[str, Any]:
    shown = min(embedding.k, MOST_AXES)
    coordinates = to_numpy(embedding.coordinates)[:, :shown]
    first = default_axes(embedding)[-1]
    return {
        "shown": shown,
        "signs": [int(s) for s in to_numpy(embedding.signs)[:shown]],
        "labels": [axis_label(embedding, a) for a in range(1, shown + 1)],
        "names": embedding.axis_names[:shown],
        "first": [a - 1 for a in (first if max(first) <= shown else (1, min(2, shown)))],
        "values": [_packed(coordinates[:, a], "<f4") for a in range(shown)],
    }


def _columns(found: Findings, metadata: Any, color_by: str | None) -> list[dict[str, Any]]:
    """Return what can colour the points: the columns of the metadata, and the mean error."""
    n, columns = found.embedding.n, []
    titles = [] if metadata is None else [str(title) for title in metadata.columns]
    # The first sort keeps the order of the others.
    titles = sorted(titles, key=lambda title: title != color_by)
    for title in titles[:MOST_COLUMNS]:
        colours = as_colours(column_values(metadata, title), n)
        if colours is None:
            continue
        entry: dict[str, Any] = {"title": printable(title), "variable": True}
        if colours.numbers is not None:
            entry["numbers"] = _packed(colours.numbers, "<f4")
        else:
            code = {name: g for g, name in enumerate(colours.order)}
            codes = [255 if group is None else code[group] for group in colours.groups]
            entry["groups"] = _packed(np.array(codes), "u1")
            entry["order"] = [printable(name) for name in colours.order]
        columns.append(entry)
    if found.errors is not None:
        error = _packed(100 * found.errors.of_object, "<f4")
        columns.append({"title": "mean error of the object in %", "numbers": error})
    return columns


def _scan(found: Findings) -> dict[str, Any] | None:
    scan = None if found.inspection is None else found.inspection.scan
    if scan is None:
        return None
    return {
        "ks": scan.ks,
        "errors": _digits(scan.errors),
        "standardErrors": _digits(scan.standard_errors),
        "best": scan.best,
        "k": scan.k,
    }


def _curves(found: Findings) -> dict[str, Any] | None:
    """Return measures against k: closed forms at every k, all methods on the ladder."""
    curves, ladder, quality = found.curves, found.ladder, found.quality
    if curves is None or quality is None:
        return None
    lines: dict[str, Any] = {what: [] for what in MEASURED}
    total = found.total_sum_of_squares or math.nan
    for method, stress in curves.stress.items():
        lines["stress"].append(_line(method, curves.ks, curves.normalized(method)))
        lines["r2"].append(_line(method, curves.ks, [1 - value / total for value in stress]))
    of_all = found.ladder_objects == found.embedding.n
    ks = [one.requested for one in ladder]
    for row in ladder[0].methods if ladder else ():
        for what, field in MEASURED.items():
            if what == "neighbours" or (of_all and row.method not in curves.stress):
                measured = [getattr(one[row.method].quality, field) for one in ladder]
                lines[what].append(_line(row.method, ks, measured))
    turning, norm = curves.turning_point, curves.sq_norm or 1.0
    here = {what: _digit(getattr(quality, field)) for what, field in MEASURED.items()}
    return {
        **lines,
        "turning": [turning.k, turning.stress / norm] if turning.paradox else None,
        "here": {"k": found.embedding.k, "method": found.embedding.method, **here},
    }


def _line(method: str, ks: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    return {"method": method, "ks": list(ks), "values": _digits(values)}


def _pairs(found: Findings) -> dict[str, Any] | None:
    pairs = found.pairs
    if pairs is None or not pairs.given.size:
        return None
    usable = pairs.given > 0
    error = 100 * (pairs.fitted[usable] / pairs.given[usable] - 1)
    band = _band(pairs.given[usable], error) if error.size >= 500 else None
    kind = "<u2" if found.embedding.n < 2**16 else "<u4"
    return {
        "left": _packed(pairs.left, kind),
        "right": _packed(pairs.right, kind),
        "given": _packed(pairs.given, "<f4"),
        "fitted": _packed(pairs.fitted, "<f4"),
        "band": band,
    }


def _band(x: Floats, y: Floats, bins: int = 25) -> dict[str, Any]:
    """Return the 5 %, 50 % and 95 % quantiles of y in bins of equal size along x."""
    edges = np.unique(np.quantile(x, np.linspace(0, 1, bins + 1)))
    which = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, max(0, edges.size - 2))
    parts = [which == b for b in np.unique(which)]
    quantiles = [np.quantile(y[part], [0.05, 0.5, 0.95]) for part in parts]
    middles = [np.median(x[part]) for part in parts]
    return {"x": _digits(middles), "y": [_digits(column) for column in np.transpose(quantiles)]}


def _nearest(found: Findings) -> dict[str, Any] | None:
    near = found.nearest
    if near is None:
        return None
    on_scale = np.asarray if found.embedding.squared else signed_root
    kind, missing = ("<u2", 2**16 - 1) if found.embedding.n < 2**16 else ("<u4", 2**32 - 1)
    packed: dict[str, Any] = {"count": near["byGiven"].shape[1]}
    for name, values in near.items():
        if name in ("byGiven", "byFitted"):
            packed[name] = _packed(np.where(values < 0, missing, values), kind)
        else:
            packed[name] = _packed(on_scale(values), "<f4")
    return packed


def _worst(found: Findings) -> dict[str, Any] | None:
    if found.errors is None:
        return None
    errors = found.errors.of_object
    ids = [i for i in found.errors.worst(WORST) if errors[i] > 0]
    typical = float(np.nanmedian(errors)) if ids else 0.0
    return {
        "ids": ids,
        "errors": _digits(100 * errors[ids]),
        "shares": _digits(found.errors.stress_share[ids]),
        "r2": _digits(found.errors.r2_of_object[ids]),
        "typical": typical,
    }


def _stability(found: Findings) -> dict[str, Any] | None:
    """Return means and covariances of the replicates of each object on the first axes."""
    moved = found.stability
    if moved is None:
        return None
    shown = min(found.embedding.k, MOST_STABLE_AXES)
    most = np.argsort(-moved.spread, kind="stable")[:WORST]
    return {
        "axes": shown,
        "means": _packed(moved.clouds.mean(axis=0)[:, :shown], "<f4"),
        "covariances": _packed(moved.covariances[:, :shown, :shown], "<f4"),
        "ids": [int(i) for i in most],
        "spread": _digits(moved.spread[most]),
    }


def _packed(values: Any, kind: str) -> dict[str, str]:
    with np.errstate(over="ignore"):  # beyond single precision: infinite, and not drawn
        data = np.ascontiguousarray(np.asarray(values).astype(kind))
    return {"kind": kind.lstrip("<"), "data": base64.b64encode(data.tobytes()).decode("ascii")}


def _digits(values: Any) -> list[float | None]:
    return [_digit(float(value)) for value in values]


def _digit(value: float) -> float | None:
    """Round to six digits."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
