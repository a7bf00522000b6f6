"""Fill the template of the page, and write the data of its script.

The data are one JSON document, with long columns as base64.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology.metadata import column_values
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore.comparison import COMPARED
from neucmds.tools import plots
from neucmds.tools.report import words
from neucmds.tools.report.findings import Findings

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


# Field of `Quality`, header, format, whether more is better.
MEASURES: tuple[tuple[str, str, Callable[[float], str], bool], ...] = (
    ("stress", "STRESS", words.significant, False),
    ("normalized_stress", "share\nof ‖D‖²", words.percent, False),
    ("r2", "R²", words.significant, True),
    ("relative_error_mean", "mean\nerror", words.percent, False),
    ("relative_error_median", "median\nerror", words.percent, False),
    ("neighbors_kept", "recall\n@10", words.percent, True),
    ("distortion", "distortion", words.significant, False),
    ("stress1", "stress-1", words.significant, False),
    ("negative_dissimilarities", "pairs with\nD̂ < 0", words.count, False),
)


def render(
    found: Findings,
    *,
    title: str,
    made: Sequence[tuple[str, str]],
    metadata: Any = None,
    color_by: str | None = None,
) -> str:
    """Write the page; `made` is a list of names and values for its last section."""
    tenths = _tenths(found)
    data = _payload(found, metadata, color_by, tenths)
    page: str = _template().render(
        found=found,
        emb=found.embedding,
        diagnosis=found.diagnosis,
        measured=found.quality or found.embedding,
        title=plots.printable(title),
        made=[(name, plots.printable(text)) for name, text in made],
        first_colour=0 if color_by is not None and data["columns"] else -1,
        pairs_below_zero=0 if found.pairs is None else int((found.pairs.fitted < 0).sum()),
        tenths=tenths,
        compared=len(COMPARED),
        methods=_methods(found),
        axis_columns=_axis_columns(found.embedding),
        data=data,
        css=_asset("page.css"),
        scripts=[plotly_script(), _asset("page.js")],
    )
    return page.lstrip()


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise _not_installed("jinja2") from error
    environment = Environment(
        loader=PackageLoader("neucmds.tools.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    # The commands write what a terminal can show.
    environment.filters["minus"] = lambda text: re.sub(r"(?<!\w)-(?=\d)", "−", str(text))
    for name in ("count", "percent", "significant"):
        environment.filters[name] = getattr(words, name)
    environment.globals |= {"words": words, "zip": zip}
    return environment.get_template("page.html.j2")


def _asset(name: str) -> str:
    return resources.files("neucmds.tools.report").joinpath(name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the source of plotly.js, which the Python package carries."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _not_installed("plotly") from error
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _not_installed(package: str) -> InputError:
    return InputError(
        f'the report needs {package}, which is not installed: pip install "neucmds[report]".'
    )


def _tenths(found: Findings) -> list[dict[str, float]]:
    """Split the pairs with D > 0 into tenths by D, and measure the errors of each."""
    if found.pairs is None:
        return []
    usable = found.pairs.given > 0
    given, fitted = found.pairs.given[usable], found.pairs.fitted[usable]
    parts = []
    for ids in np.array_split(np.argsort(given, kind="stable"), 10):
        if not ids.size:
            continue
        error = fitted[ids] / given[ids] - 1
        parts.append(
            {
                "low": given[ids[0]],
                "high": given[ids[-1]],
                "middle": np.median(given[ids]),
                "count": ids.size,
                "fitted": np.median(fitted[ids]),
                "error": np.median(error),
                "typical": np.median(np.abs(error)),
                "least": np.quantile(error, 0.05),
                "most": np.quantile(error, 0.95),
                "negative": np.mean(fitted[ids] < 0),
            }
        )
    return parts


def _axis_columns(embedding: Embedding) -> dict[str, Any]:
    """Return measures of each coordinate by the header of their column."""
    columns = {"weight": to_numpy(embedding.weights), "R² lost without it": embedding.explained}
    shares = embedding.shares.items()
    columns |= {f"share of the {words.CONVENTIONS[name]}": share for name, share in shares}
    whose = f" (of {embedding._landmarks_alone})" if embedding._landmarks_alone else ""
    return {f"{title}{whose}": values for title, values in columns.items()}


def _methods(found: Findings) -> dict[str, Any]:
    """Return the columns of the comparison, with the embedding of the page first."""
    if found.comparison is None or found.quality is None:
        return {}
    emb, rows = found.embedding, found.comparison.methods
    own = f"this page: {emb.method}, {emb.loss} loss{plots.bend(emb)}"
    entries = [(own, emb.signature, found.quality)]
    entries += [(row.method, row.embedding.signature, row.quality) for row in rows]
    columns = []
    for field, title, write, more in MEASURES:
        values = [float(getattr(quality, field)) for *_, quality in entries]
        texts, best = words.marked(values, write, most=more)
        columns.append({"title": title, "texts": texts, "best": best})
    names, signs = [name for name, *_ in entries], [words.signature(pair) for _, pair, _ in entries]
    return {"names": names, "signs": signs, "columns": columns}


def _payload(
    found: Findings, metadata: Any, color_by: str | None, tenths: list[dict[str, float]]
) -> dict[str, Any]:
    """Return the data of every plot; `metadata` is in the order of the objects."""
    embedding = found.embedding
    document = {
        "n": embedding.n,
        "mostSvg": MOST_SVG,
        "mostAxes": MOST_AXES,
        "names": embedding.labels and [plots.printable(name) for name in embedding.labels],
        "squared": embedding.squared,
        "colours": {"positive": plots.POSITIVE, "negative": plots.NEGATIVE},
        "groupColours": plots.GROUP_COLOURS,
        "groupSymbols": [SYMBOLS[marker] for marker in plots.GROUP_MARKERS],
        "methodStyles": {name: [c, SYMBOLS[m]] for name, (c, m) in plots.METHOD_STYLES.items()},
        "axes": _axes(embedding),
        "columns": _columns(found, metadata, color_by),
        "scan": _scan(found),
        "spectrum": _spectrum(found),
        "curves": _curves(found),
        "pairs": _pairs(found, tenths),
        "nearest": _nearest(found),
        "worst": _worst(found),
        "stability": _stability(found),
    }
    cleaned: dict[str, Any] = words.clean(document)
    return cleaned


def _spectrum(found: Findings) -> dict[str, Any] | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept."""
    embedding = found.embedding
    kept = np.asarray(to_numpy(embedding.info.eigenvalues), dtype=np.float64).ravel()
    lam = kept if found.curves is None else found.curves.eigenvalues
    lam = lam[np.abs(lam) > 1e-12 * np.abs(lam).max(initial=0.0)]
    if not lam.size:
        return None
    lam = lam[np.argsort(-np.abs(lam), kind="stable")]
    rank = np.where(lam > 0, np.cumsum(lam > 0), np.cumsum(lam < 0))
    is_kept = np.ones(lam.size, dtype=bool) if found.curves is None else plots.mark_kept(lam, kept)
    shown = rank <= MOST_EIGENVALUES
    complete = found.diagnosis is not None and found.diagnosis.complete
    return {
        "values": _digits(lam[shown]),
        "rank": rank[shown].tolist(),
        "kept": is_kept[shown].astype(int).tolist(),
        "keptSigns": [int((is_kept & (lam * sign > 0))[shown].sum()) for sign in (1, -1)],
        "words": plots.kept_words(embedding),
        "complete": complete,
        "trace": embedding.info.trace,
    }


def _axes(embedding: Embedding) -> dict[str, Any]:
    shown = min(embedding.k, MOST_AXES)
    coordinates = to_numpy(embedding.coordinates)[:, :shown]
    first = plots.default_axes(embedding)[-1]
    return {
        "shown": shown,
        "signs": [int(s) for s in to_numpy(embedding.signs)[:shown]],
        "labels": [plots.axis_label(embedding, a) for a in range(1, shown + 1)],
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
        colours = plots.as_colours(column_values(metadata, title), n)
        if colours is None:
            continue
        entry: dict[str, Any] = {"title": plots.printable(title), "variable": True}
        if colours.numbers is not None:
            entry["numbers"] = _packed(colours.numbers, "<f4")
        else:
            code = {name: g for g, name in enumerate(colours.order)}
            codes = [255 if group is None else code[group] for group in colours.groups]
            entry["groups"] = _packed(np.array(codes), "u1")
            entry["order"] = [plots.printable(name) for name in colours.order]
        columns.append(entry)
    if found.errors is not None:
        error = _packed(100 * found.errors.of_object, "<f4")
        columns.append({"title": "mean error of the object in %", "numbers": error})
    return columns


def _scan(found: Findings) -> dict[str, Any] | None:
    scan = None if found.diagnosis is None else found.diagnosis.scan
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


def _pairs(found: Findings, tenths: list[dict[str, float]]) -> dict[str, Any] | None:
    pairs = found.pairs
    if pairs is None or not pairs.given.size:
        return None
    band = None
    if pairs.given.size >= 500:
        percents = [[100 * part[name] for part in tenths] for name in ("least", "error", "most")]
        band = {"x": [part["middle"] for part in tenths], "y": percents}
    kind = "<u2" if found.embedding.n < 2**16 else "<u4"
    return {
        "left": _packed(pairs.left, kind),
        "right": _packed(pairs.right, kind),
        "given": _packed(pairs.given, "<f4"),
        "fitted": _packed(pairs.fitted, "<f4"),
        "band": band,
    }


def _nearest(found: Findings) -> dict[str, Any] | None:
    near = found.nearest
    if near is None:
        return None
    on_scale = np.asarray if found.embedding.squared else plots.signed_root
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
