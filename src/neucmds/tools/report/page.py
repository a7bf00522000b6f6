"""Fill the template of the page, and write the data of its script.

The data are one JSON document, with long columns as base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from importlib import import_module, resources
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology.metadata import column_values
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore.comparison import COMPARED
from neucmds.tools.plots.colours import (
    GROUP_COLOURS,
    GROUP_MARKERS,
    as_colours,
)
from neucmds.tools.plots.coordinates import axis_label, default_axes
from neucmds.tools.plots.figures import (
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
    curvature_note,
    printable,
)
from neucmds.tools.plots.shepard import on_scale
from neucmds.tools.plots.spectra import (
    by_magnitude,
    is_seen,
    kept_words,
    mark_kept,
    ranks,
)
from neucmds.tools.report import words
from neucmds.tools.report.findings import LISTED, Findings

Data = dict[str, Any]

# Coordinates, and columns of metadata, on the page: 50 of 2,000 objects take 0.5 MB.
MOST_COLUMNS = 50
# WebGL draws more points than this: SVG is slow.
MOST_SVG = 3000
# Numbers of objects.
INDEX = "<u4"
# Curves against k, and their fields of `Quality`.
MEASURED = {
    "stress": "normalized_stress",
    "r2": "r2",
    "neighbours": "neighbors_kept",
}

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
    title: str,
    made: Sequence[tuple[str, str]],
    metadata: Any = None,
    color_by: str | None = None,
) -> str:
    """Write the page; `made` is a list of names and values for its last section."""
    tenths = _tenths(found)
    page: str = _template().render(
        found=found,
        emb=found.embedding,
        diagnosis=found.diagnosis,
        measured=found.quality or found.embedding,
        title=printable(title),
        made=[(name, printable(text)) for name, text in made],
        # Columns of the metadata come first, and of these the one asked for.
        first_colour=-1 if color_by is None else 0,
        tenths=tenths,
        compared=len(COMPARED),
        methods=_methods(found),
        axis_columns=_axis_columns(found.embedding),
        data=_payload(found, metadata, color_by, tenths),
        css=_asset("page.css"),
        scripts=[_plotly_script(), _asset("page.js")],
    )
    return page.lstrip()


def check_packages() -> None:
    """Refuse to work without the packages of the extra."""
    for package in ("jinja2", "plotly.offline"):
        try:
            import_module(package)
        except ImportError as error:
            name = package.partition(".")[0]
            raise InputError(
                f'the report needs {name}, which is not installed: pip install "neucmds[report]".'
            ) from error


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("neucmds.tools.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
    }
    # The commands write what a terminal can show.
    environment.filters["minus"] = lambda text: re.sub(
        r"(?<!\w)-(?=\d)", "−", str(text)
    )
    for name in ("count", "percent", "significant"):
        environment.filters[name] = getattr(words, name)
    environment.globals |= {"words": words, "zip": zip}
    return environment.get_template("page.html.j2")


def _asset(name: str) -> str:
    return (
        resources.files("neucmds.tools.report")
        .joinpath(name)
        .read_text(encoding="utf-8")
    )


def _plotly_script() -> str:
    """Return the source of plotly.js, which the Python package carries."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _tenths(found: Findings) -> list[Data]:
    """Split the pairs with D > 0 into tenths by D, and measure the errors of each."""
    if found.pairs is None:
        return []
    positive = np.flatnonzero(found.pairs.given > 0)
    order = positive[np.argsort(found.pairs.given[positive], kind="stable")]
    tenths = []
    for ids in np.array_split(order, 10):
        if not ids.size:
            continue
        given = found.pairs.given[ids]
        fitted = found.pairs.fitted[ids]
        error = fitted / given - 1
        least, middle, most = np.quantile(error, [0.05, 0.5, 0.95])
        tenths.append(
            {
                "low": given[0],
                "high": given[-1],
                "middle": np.median(given),
                "count": ids.size,
                "fitted": np.median(fitted),
                "error": middle,
                "typical": np.median(np.abs(error)),
                "least": least,
                "most": most,
                "negative": np.mean(fitted < 0),
            }
        )
    return tenths


def _axis_columns(embedding: Embedding) -> Data:
    """Return measures of each coordinate by the header of their column."""
    columns = {
        "weight": to_numpy(embedding.weights),
        "R² lost without it": embedding.explained,
    }
    for name, share in embedding.shares.items():
        columns[f"share of the {words.CONVENTIONS[name]}"] = share
    if embedding.landmarks is None:
        return columns
    return {
        f"{title} (of {embedding._landmarks_alone})": columns[title]
        for title in columns
    }


def _methods(found: Findings) -> Data:
    """Return the columns of the comparison, with the embedding of the page first."""
    if found.comparison is None:
        return {}
    embedding = found.embedding
    fit = f"this page: {embedding.method}, {embedding.loss} loss{curvature_note(embedding)}"
    rows = found.comparison.methods
    qualities = [found.quality, *(row.quality for row in rows)]
    signatures = [
        embedding.signature,
        *(row.embedding.signature for row in rows),
    ]
    columns = []
    for field, title, write, more in MEASURES:
        values = [float(getattr(quality, field)) for quality in qualities]
        texts, best = words.marked(values, write, most=more)
        columns.append({"title": title, "texts": texts, "best": best})
    return {
        "names": [fit, *(row.method for row in rows)],
        "signs": [words.signature(pair) for pair in signatures],
        "columns": columns,
    }


def _payload(
    found: Findings,
    metadata: Any,
    color_by: str | None,
    tenths: list[Data],
) -> Any:
    """Return the data of every plot; `metadata` is in the order of the objects."""
    embedding = found.embedding
    document = {
        "n": embedding.n,
        "mostSvg": MOST_SVG,
        "mostAxes": MOST_COLUMNS,
        "names": embedding.labels
        and [printable(name) for name in embedding.labels],
        "squared": embedding.squared,
        "colours": {"positive": POSITIVE, "negative": NEGATIVE},
        "groupColours": GROUP_COLOURS,
        "groupMarkers": GROUP_MARKERS,
        "methodStyles": METHOD_STYLES,
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
    return words.clean(document)


def _spectrum(found: Findings) -> Data | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept."""
    kept = np.asarray(
        to_numpy(found.embedding.info.eigenvalues), dtype=np.float64
    )
    lam = by_magnitude(
        kept if found.curves is None else found.curves.eigenvalues
    )
    lam = lam[is_seen(lam)]
    if not lam.size:
        return None
    is_kept = mark_kept(lam, found.embedding)
    signs = np.sign(lam[is_kept])
    return {
        "values": lam,
        "rank": ranks(lam),
        "kept": is_kept.astype(int),
        "keptSigns": [
            np.count_nonzero(signs > 0),
            np.count_nonzero(signs < 0),
        ],
        "words": kept_words(found.embedding),
        "complete": found.diagnosis is not None and found.diagnosis.complete,
        "trace": found.embedding.info.trace,
    }


def _axes(embedding: Embedding) -> Data:
    shown = min(embedding.k, MOST_COLUMNS)
    coordinates = to_numpy(embedding.coordinates)[:, :shown]
    x, y = default_axes(embedding)[-1]
    if max(x, y) > shown:
        x = 1
        y = min(2, shown)
    return {
        "shown": shown,
        "signs": to_numpy(embedding.signs)[:shown].astype(int),
        "labels": [axis_label(embedding, a) for a in range(1, shown + 1)],
        "names": embedding.axis_names[:shown],
        "first": [x - 1, y - 1],
        "values": [_packed(column) for column in coordinates.T],
    }


def _columns(
    found: Findings, metadata: Any, color_by: str | None
) -> list[Data]:
    """Return what can colour the points: the columns of the metadata, and the mean error."""
    columns: list[Data] = []
    titles = []
    if metadata is not None:
        # The sort keeps the order of the others.
        titles = sorted(metadata.columns, key=lambda title: title != color_by)
    for title in titles[:MOST_COLUMNS]:
        colours = as_colours(column_values(metadata, title), found.embedding.n)
        column = {"title": printable(title), "variable": True}
        if colours.numbers is not None:
            column["numbers"] = _packed(colours.numbers)
        else:
            column["groups"] = _packed(
                colours.codes, "u1"
            )  # 255 where there is none
            column["order"] = [printable(name) for name in colours.groups]
        columns.append(column)
    if found.errors is not None:
        error = _packed(100 * found.errors.of_object)
        columns.append(
            {"title": "mean error of the object in %", "numbers": error}
        )
    return columns


def _scan(found: Findings) -> Data | None:
    if found.diagnosis is None or found.diagnosis.scan is None:
        return None
    scan = found.diagnosis.scan
    return {
        "ks": scan.ks,
        "errors": scan.errors,
        "standardErrors": scan.standard_errors,
        "best": scan.best,
        "k": scan.k,
    }


def _curves(found: Findings) -> Data | None:
    """Return measures of every method against k, and of the embedding of the page."""
    if found.curves is None:
        return None
    ks = [rung.requested for rung in found.ladder]
    document: Data = {
        "here": {"k": found.embedding.k, "method": found.embedding.method}
    }
    for what, field in MEASURED.items():
        document["here"][what] = getattr(found.quality, field)
        document[what] = []
        for row in found.ladder[0].methods:
            values = [
                getattr(rung[row.method].quality, field)
                for rung in found.ladder
            ]
            document[what].append(
                {"method": row.method, "ks": ks, "values": values}
            )
    curves = found.curves
    document["turning"] = None
    if curves.paradox:
        document["turning"] = [
            curves.best_k,
            curves.best_stress / curves.sq_norm,
        ]
    return document


def _pairs(found: Findings, tenths: list[Data]) -> Data | None:
    pairs = found.pairs
    if pairs is None or not pairs.given.size:
        return None
    band = None
    if pairs.given.size >= 500:
        errors = [
            [100 * part[name] for part in tenths]
            for name in ("least", "error", "most")
        ]
        band = {"x": [part["middle"] for part in tenths], "y": errors}
    return {
        "left": _packed(pairs.left, INDEX),
        "right": _packed(pairs.right, INDEX),
        "given": _packed(pairs.given),
        "fitted": _packed(pairs.fitted),
        "band": band,
    }


def _nearest(found: Findings) -> Data | None:
    if found.nearest is None:
        return None
    packed: Data = {"count": found.nearest["byGiven"].shape[1]}
    for name, values in found.nearest.items():
        if name.startswith("by"):  # −1 becomes the largest number of the kind
            packed[name] = _packed(values, INDEX)
        else:
            packed[name] = _packed(on_scale(values, found.embedding.squared))
    return packed


def _worst(found: Findings) -> Data | None:
    if found.errors is None:
        return None
    errors = found.errors.of_object
    ids = [i for i in found.errors.worst(LISTED) if errors[i] > 0]
    return {
        "ids": ids,
        "errors": 100 * errors[ids],
        "shares": found.errors.stress_share[ids],
        "r2": found.errors.r2_of_object[ids],
        "typical": np.median(errors[np.isfinite(errors)]) if ids else 0.0,
    }


def _stability(found: Findings) -> Data | None:
    """Return means and covariances of the replicates of each object on the first axes."""
    moved = found.stability
    if moved is None:
        return None
    shown = min(found.embedding.k, LISTED)
    most = np.argsort(-moved.spread, kind="stable")[:LISTED]
    return {
        "axes": shown,
        "means": _packed(moved.clouds.mean(axis=0)[:, :shown]),
        "covariances": _packed(moved.covariances[:, :shown, :shown]),
        "ids": most,
        "spread": moved.spread[most],
    }


def _packed(values: Any, kind: str = "<f4") -> dict[str, str]:
    with np.errstate(
        over="ignore"
    ):  # beyond single precision: infinite, and not drawn
        data = np.asarray(values).astype(kind).tobytes()
    return {
        "kind": kind.lstrip("<"),
        "data": base64.b64encode(data).decode("ascii"),
    }
