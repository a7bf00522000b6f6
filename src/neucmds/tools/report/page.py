"""Fill the template of the page.

The data that its script draws are one JSON document, with long columns as base64; their keys are
named as JavaScript names variables.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology.metadata import column_values
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore import Bootstrap
from neucmds.explore.quality import NEIGHBORS
from neucmds.place.rules import OrdinalPlacement
from neucmds.problem.components import MOST_CHOSEN
from neucmds.tools.plots import methods_text
from neucmds.tools.plots.colours import (
    GROUP_COLOURS,
    GROUP_MARKERS,
    as_colours,
)
from neucmds.tools.plots.coordinates import axis_label
from neucmds.tools.plots.figures import (
    METHOD_STYLES,
    NEGATIVE,
    POSITIVE,
    with_minus,
)
from neucmds.tools.plots.shepard import MAX_PAIRS, SampledPairs, on_scale
from neucmds.tools.plots.spectra import (
    by_magnitude,
    kept_words,
    mark_kept,
    ranks,
)
from neucmds.tools.report import words
from neucmds.tools.report.findings import Findings

Data = dict[str, Any]

# Fields of `Quality` that are drawn against k.
DRAWN_MEASURES = ("normalized_stress", "r2", "neighbors_kept")


def render(
    template: Any,
    findings: Findings,
    title: str,
    origin: Sequence[tuple[str, str]],
    metadata: Any,
    color_by: str | None,
) -> str:
    """Return the page; `origin` has the names and values that say how it was made."""
    page: str = template.render(
        findings=findings,
        title=title,
        origin=origin,
        max_pairs=MAX_PAIRS,
        color_by=color_by,
        methods=_methods(findings),
        axis_table=words.axis_table(findings.embedding),
        methods_text=methods_text(findings.embedding),
        data=words.clean(_payload(findings, metadata, color_by)),
    )
    return page.lstrip()


def load_template() -> Any:
    """Return the template of the page."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise InputError(
            f'the report needs {package}, which is not installed: pip install "neucmds[report]".'
        ) from error
    loader = PackageLoader("neucmds.tools.report", ".")
    environment = Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["minus"] = with_minus
    for name in ("count", "percent", "significant"):
        environment.filters[name] = getattr(words, name)
    environment.globals |= {
        "words": words,
        "zip": zip,
        # The text of a file beside the template.
        "source": lambda name: loader.get_source(environment, name)[0],
        # This tag would end the page's own script.
        "plotly": get_plotlyjs().replace("</script", "<\\/script"),
    }
    return environment.get_template("page.html.j2")


def _methods(findings: Findings) -> Data:
    """Return the columns of the comparison, with the embedding of the page first."""
    if findings.comparison is None:
        return {}
    embedding = findings.embedding
    names = [_fit_name(embedding)]
    embeddings = [embedding]
    qualities = [_quality_with_unit(findings)]
    for row in findings.comparison.methods:
        # The comparison fits flat spaces.
        is_same_fit = (
            row.method == names[0]
            and row.embedding.signature == embedding.signature
            and not embedding.form_words
        )
        if not is_same_fit:
            names.append(row.method)
            embeddings.append(row.embedding)
            qualities.append(row.quality)
    return {
        "names": names,
        "signs": [words.signature(each.signature) for each in embeddings],
        "columns": words.measured_columns(qualities),
    }


def _quality_with_unit(findings: Findings) -> Any:
    """Return the quality of the fit; for an ordinal one, what needs a unit of d̂ is NaN."""
    if findings.embedding.loss != "ordinal":
        return findings.quality
    fields = (
        "stress",
        "normalized_stress",
        "r2",
        "relative_error_mean",
        "distortion",
    )
    quality: Any = findings.quality
    return replace(quality, **dict.fromkeys(fields, math.nan))


def _fit_name(embedding: Embedding) -> str:
    """Return the name of the method and loss, as in `compare`."""
    if embedding.loss == "squared":
        return embedding.method
    return f"{embedding.method}/{embedding.loss}"


def _payload(findings: Findings, metadata: Any, color_by: str | None) -> Data:
    """Return the data that the script of the page draws; parts that are unknown are left out."""
    embedding = findings.embedding
    data: Data = {
        "n": embedding.n,
        "mostAxes": MOST_CHOSEN,
        "names": None,
        "squared": embedding.squared,
        "colours": {"positive": POSITIVE, "negative": NEGATIVE},
        "groupColours": GROUP_COLOURS,
        "groupMarkers": GROUP_MARKERS,
        "methodStyles": METHOD_STYLES,
        "axes": _axes(embedding),
        "columns": _columns(findings, metadata, color_by),
        "spectrum": _spectrum(findings),
        "curves": _curves(findings),
        # Replaced where pairs are known.
        "tenths": [],
    }
    if embedding.labels is not None:
        data["names"] = embedding.labels + (embedding.arrival_labels or ())
    if findings.nearest is not None:
        data["nearest"] = {
            key: _as_base64(ids) for key, ids in findings.nearest.items()
        }
    if findings.diagnosis is not None and findings.diagnosis.scan is not None:
        scan = findings.diagnosis.scan
        data["scan"] = asdict(scan) | {"best": scan.best, "k": scan.k}
    if findings.pairs is not None:
        data |= _pairs(embedding, findings.pairs, findings.errors)
    if findings.stability is not None:
        data["stability"] = _stability(findings.stability)
    rule = embedding.placement
    if isinstance(rule, OrdinalPlacement):
        data["steps"] = {
            "given": on_scale(rule.dissimilarity**2, embedding.squared),
            "fitted": on_scale(rule.disparity**2, embedding.squared),
        }
    return data


def _pairs(embedding: Embedding, pairs: SampledPairs, errors: Any) -> Data:
    """Return pairs, their errors by length, and the objects with the largest errors."""
    right = pairs.right
    # Objects of the columns are numbered after those of the rows.
    if embedding.arrival_labels is not None:
        right = right + embedding.n
    worst = errors.worst(NEIGHBORS)
    return {
        "pairs": {
            "left": _as_base64(pairs.left),
            "right": _as_base64(right),
            "given": _as_base64(pairs.given),
            "fitted": _as_base64(pairs.fitted),
        },
        "tenths": _tenths(pairs),
        "worst": {
            "ids": worst,
            "errors": 100 * errors.of_object[worst],
            "shares": errors.stress_share[worst],
            "r2": errors.r2_of_object[worst],
        },
    }


def _tenths(pairs: SampledPairs) -> list[Data]:
    """Split the pairs with D > 0 into tenths by D, and return the errors d̂/d − 1 of each.

    They are those of squares if D holds squared dissimilarities.
    """
    positive = np.flatnonzero(pairs.given > 0)
    order = positive[np.argsort(pairs.given[positive], kind="stable")]
    tenths = []
    for ids in np.array_split(order, 10):
        if not ids.size:
            continue
        given = pairs.given[ids]
        errors = pairs.fitted[ids] / given - 1
        tenths.append(
            {
                "low": given[0],
                "middle": np.median(given),
                "high": given[-1],
                "count": ids.size,
                "error": np.median(errors),
                "typical": np.median(np.abs(errors)),
                "least": np.quantile(errors, 0.05),
                "most": np.quantile(errors, 0.95),
            }
        )
    return tenths


def _spectrum(findings: Findings) -> Data | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept.

    Without a diagnosis the eigenvalues that the fit computed are all that is known.
    """
    embedding = findings.embedding
    eigenvalues = to_numpy(embedding.info.eigenvalues)
    if findings.curves is not None:
        eigenvalues = findings.curves.eigenvalues
    lam = by_magnitude(eigenvalues)
    if not lam.size:
        return None
    diagnosis = findings.diagnosis
    return {
        "values": lam,
        "rank": ranks(lam),
        "kept": mark_kept(lam, embedding).astype(int),
        "words": kept_words(embedding),
        "complete": diagnosis is not None and diagnosis.complete,
        "trace": embedding.info.trace,
    }


def _axes(embedding: Embedding) -> Data:
    """Return signs, labels and columns of the first axes, and the columns of arrivals."""
    n_axes = min(embedding.k, MOST_CHOSEN)
    labels = [axis_label(embedding, axis + 1) for axis in range(n_axes)]
    arrivals = None
    if embedding.arrivals is not None:
        arrivals = _columns_as_base64(embedding.arrivals, n_axes)
    return {
        "shown": n_axes,
        "signs": to_numpy(embedding.signs)[:n_axes].astype(int),
        "labels": labels,
        "names": embedding.axis_names[:n_axes],
        "values": _columns_as_base64(embedding.coordinates, n_axes),
        "arrivals": arrivals,
        "twoSets": embedding.arrival_labels is not None,
    }


def _columns_as_base64(coordinates: Any, n_axes: int) -> list[Data]:
    """Encode the first columns."""
    return [
        _as_base64(column) for column in to_numpy(coordinates)[:, :n_axes].T
    ]


def _columns(
    findings: Findings, metadata: Any, color_by: str | None
) -> list[Data]:
    """Return what can colour the points: the columns of the metadata, and the mean errors.

    `color_by`, which colours the points when the page opens, comes first.
    """
    n = findings.embedding.n
    titles: list[str] = []
    if metadata is not None:
        titles = list(metadata.columns)
    if color_by is not None:
        titles.remove(color_by)
        titles.insert(0, color_by)
    columns: list[Data] = []
    for title in titles:
        colours = as_colours(column_values(metadata, title), n)
        column: Data = {"title": title, "variable": True}
        if colours.numbers is not None:
            column["numbers"] = _as_base64(colours.numbers)
        else:
            column["groups"] = _as_base64(colours.codes)
            column["order"] = colours.groups
        columns.append(column)
    if findings.errors is not None and findings.embedding.loss != "ordinal":
        # Those of arrivals, if they are other objects, come after the first n.
        errors = _as_base64(100 * findings.errors.of_object[:n])
        columns.append(
            {"title": "mean error of the object in %", "numbers": errors}
        )
    return columns


def _curves(findings: Findings) -> Data | None:
    """Return measures of every method against k, and those of the embedding of the page."""
    if findings.curves is None or findings.quality is None:
        return None
    comparisons = findings.comparisons
    methods = [row.method for row in comparisons[0].methods]
    quality = _quality_with_unit(findings).as_dict()
    quality["k"] = findings.embedding.k
    quality["method"] = findings.embedding.method
    curves: Data = {
        "ks": [comparison.requested for comparison in comparisons],
        "here": quality,
    }
    for measure in DRAWN_MEASURES:
        curves[measure] = {
            method: [
                getattr(comparison[method].quality, measure)
                for comparison in comparisons
            ]
            for method in methods
        }
    return curves


def _stability(replicates: Bootstrap) -> Data:
    """Return the mean and the covariance of the replicates of each object on the first axes."""
    # A covariance has k² numbers per object.
    n_axes = min(replicates.embedding.k, 10)
    means = replicates.clouds.mean(axis=0)[:, :n_axes]
    covariances = replicates.covariances[:, :n_axes, :n_axes]
    return {
        "axes": n_axes,
        "means": _as_base64(means),
        "covariances": _as_base64(covariances),
    }


def _as_base64(values: Any) -> dict[str, str]:
    """Encode whole numbers or floats in four bytes each, as base64."""
    array = np.asarray(values)
    kind = "f4"
    if array.dtype.kind == "i":
        kind = "i4"
    data = array.astype(kind).tobytes()
    return {"kind": kind, "data": base64.b64encode(data).decode()}
