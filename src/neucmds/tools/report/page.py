"""Fill the template of the page, and write the data of its script.

The data are one JSON document, with long columns as base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology.metadata import column_values
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.explore.quality import NEIGHBORS
from neucmds.problem.components import MOST_CHOSEN
from neucmds.tools.plots.colours import (
    GROUP_COLOURS,
    GROUP_MARKERS,
    as_colours,
)
from neucmds.tools.plots.coordinates import axis_label, default_axes
from neucmds.tools.plots.figures import METHOD_STYLES, NEGATIVE, POSITIVE
from neucmds.tools.plots.shepard import SampledPairs
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
    findings: Findings,
    title: str,
    made: Sequence[tuple[str, str]],
    metadata: Any,
    color_by: str | None,
) -> str:
    """Write the page; `made` is a list of names and values for its last section."""
    page: str = _template().render(
        findings=findings,
        title=title,
        made=made,
        color_by=color_by,
        methods=_methods(findings),
        axis_table=words.axis_table(findings.embedding),
        data=words.clean(_payload(findings, metadata, color_by)),
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
    from plotly.offline import get_plotlyjs

    loader = PackageLoader("neucmds.tools.report", ".")
    environment = Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    # Texts shared with the terminal have a hyphen for a minus.
    environment.filters["minus"] = lambda text: re.sub(
        r"(?<!\w)-(?=\d)", "−", str(text)
    )
    for name in ("count", "percent", "significant"):
        environment.filters[name] = getattr(words, name)
    environment.globals |= {
        "words": words,
        "zip": zip,
        "source": lambda name: loader.get_source(environment, name)[0],
        "plotly": get_plotlyjs().replace("</script", "<\\/script"),
    }
    return environment.get_template("page.html.j2")


def _methods(findings: Findings) -> Data:
    """Return the columns of the comparison, with the embedding of the page first."""
    if findings.comparison is None:
        return {}
    rows = findings.comparison.methods
    embeddings = [findings.embedding, *(row.embedding for row in rows)]
    qualities = [findings.quality, *(row.quality for row in rows)]
    return {
        "names": ["this page", *(row.method for row in rows)],
        "signs": [words.signature(each.signature) for each in embeddings],
        "columns": words.measured_columns(qualities),
    }


def _payload(findings: Findings, metadata: Any, color_by: str | None) -> Data:
    """Return the data of every plot; `metadata` is in the order of the objects."""
    embedding = findings.embedding
    document: Data = {
        "n": embedding.n,
        "mostAxes": MOST_CHOSEN,
        "names": embedding.labels,
        "squared": embedding.squared,
        "colours": {"positive": POSITIVE, "negative": NEGATIVE},
        "groupColours": GROUP_COLOURS,
        "groupMarkers": GROUP_MARKERS,
        "methodStyles": METHOD_STYLES,
        "axes": _axes(embedding),
        "columns": _columns(findings, metadata, color_by),
        "spectrum": _spectrum(findings),
        "curves": _curves(findings),
        "nearest": None,
        "stability": _stability(findings),
        "scan": None,
        "pairs": None,
        "tenths": [],
        "worst": None,
    }
    if findings.nearest is not None:
        document["nearest"] = {
            name: _packed(values) for name, values in findings.nearest.items()
        }
    if findings.diagnosis is not None and findings.diagnosis.scan is not None:
        scan = findings.diagnosis.scan
        document["scan"] = asdict(scan) | {"best": scan.best, "k": scan.k}
    if findings.pairs is not None and findings.errors is not None:
        pairs = findings.pairs
        document["pairs"] = {
            name: _packed(getattr(pairs, name))
            for name in ("left", "right", "given", "fitted")
        }
        document["tenths"] = _tenths(pairs)
        ids = findings.errors.worst(NEIGHBORS)
        document["worst"] = {
            "ids": ids,
            "errors": 100 * findings.errors.of_object[ids],
            "shares": findings.errors.stress_share[ids],
            "r2": findings.errors.r2_of_object[ids],
        }
    return document


def _tenths(pairs: SampledPairs) -> list[Data]:
    """Split the pairs with D > 0 into tenths by D, and measure the errors of each."""
    positive = np.flatnonzero(pairs.given > 0)
    order = positive[np.argsort(pairs.given[positive], kind="stable")]
    tenths = []
    for ids in np.array_split(order, 10):
        if not ids.size:
            continue
        given = pairs.given[ids]
        error = pairs.fitted[ids] / given - 1
        p5, median, p95 = np.quantile(error, [0.05, 0.5, 0.95])
        tenths.append(
            {
                "low": given[0],
                "middle": np.median(given),
                "high": given[-1],
                "count": ids.size,
                "error": median,
                "typical": np.median(np.abs(error)),
                "least": p5,
                "most": p95,
            }
        )
    return tenths


def _spectrum(findings: Findings) -> Data | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept."""
    embedding = findings.embedding
    lam = to_numpy(embedding.info.eigenvalues)
    if findings.curves is not None:
        lam = findings.curves.eigenvalues
    lam = by_magnitude(lam)
    if not lam.size:
        return None
    is_kept = mark_kept(lam, embedding)
    return {
        "values": lam,
        "rank": ranks(lam),
        "kept": is_kept.astype(int),
        "words": kept_words(embedding),
        "complete": findings.diagnosis is not None
        and findings.diagnosis.complete,
        "trace": embedding.info.trace,
    }


def _axes(embedding: Embedding) -> Data:
    shown = min(embedding.k, MOST_CHOSEN)
    coordinates = to_numpy(embedding.coordinates)[:, :shown]
    pair = default_axes(embedding)[-1]
    return {
        "shown": shown,
        "signs": to_numpy(embedding.signs)[:shown].astype(int),
        "labels": [axis_label(embedding, a) for a in range(1, shown + 1)],
        "names": embedding.axis_names[:shown],
        "first": [min(axis, shown) - 1 for axis in pair],
        "values": [_packed(column) for column in coordinates.T],
    }


def _columns(
    findings: Findings, metadata: Any, color_by: str | None
) -> list[Data]:
    """Return what can colour the points: the columns of the metadata, and the mean error."""
    columns: list[Data] = []
    titles = []
    if metadata is not None:
        # The column that colours comes first; the others stay in order.
        titles = sorted(metadata.columns, key=lambda title: title != color_by)
    for title in titles:
        colours = as_colours(
            column_values(metadata, title), findings.embedding.n
        )
        column = {"title": title, "variable": True}
        if colours.numbers is not None:
            column["numbers"] = _packed(colours.numbers)
        else:
            column["groups"] = _packed(colours.codes)
            column["order"] = colours.groups
        columns.append(column)
    if findings.errors is not None:
        error = _packed(100 * findings.errors.of_object)
        columns.append(
            {"title": "mean error of the object in %", "numbers": error}
        )
    return columns


def _curves(findings: Findings) -> Data | None:
    """Return measures of every method against k, and of the embedding of the page."""
    if findings.curves is None or findings.quality is None:
        return None
    document: Data = {
        "ks": [comparison.requested for comparison in findings.comparisons],
        "here": findings.quality.as_dict()
        | {"k": findings.embedding.k, "method": findings.embedding.method},
    }
    for measure in DRAWN_MEASURES:
        document[measure] = {}
        for row in findings.comparisons[0].methods:
            document[measure][row.method] = [
                getattr(comparison[row.method].quality, measure)
                for comparison in findings.comparisons
            ]
    return document


def _stability(findings: Findings) -> Data | None:
    """Return means and covariances of the replicates of each object on the first axes."""
    replicates = findings.stability
    if replicates is None:
        return None
    shown = min(findings.embedding.k, NEIGHBORS)
    return {
        "axes": shown,
        "means": _packed(replicates.clouds.mean(axis=0)[:, :shown]),
        "covariances": _packed(replicates.covariances[:, :shown, :shown]),
    }


def _packed(values: Any) -> dict[str, str]:
    """Encode whole numbers or floats in four bytes each, as base64."""
    kind = {"i": "i4", "f": "f4"}[np.asarray(values).dtype.kind]
    data = np.asarray(values).astype(kind).tobytes()
    return {"kind": kind, "data": base64.b64encode(data).decode()}
