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

# Curves against k.
MEASURED = ("normalized_stress", "r2", "neighbors_kept")


def render(
    found: Findings,
    title: str,
    made: Sequence[tuple[str, str]],
    metadata: Any = None,
    color_by: str | None = None,
) -> str:
    """Write the page; `made` is a list of names and values for its last section."""
    page: str = _template().render(
        found=found,
        title=title,
        made=made,
        color_by=color_by,
        methods=_methods(found),
        axis_table=words.axis_table(found.embedding),
        data=words.clean(_payload(found, metadata, color_by)),
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
    # The commands write what a terminal can show.
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


def _methods(found: Findings) -> Data:
    """Return the columns of the comparison, with the embedding of the page first."""
    if found.comparison is None:
        return {}
    rows = found.comparison.methods
    embeddings = [found.embedding, *(row.embedding for row in rows)]
    qualities = [found.quality, *(row.quality for row in rows)]
    return {
        "names": ["this page", *(row.method for row in rows)],
        "signs": [words.signature(one.signature) for one in embeddings],
        "columns": words.measured_columns(qualities),
    }


def _payload(found: Findings, metadata: Any, color_by: str | None) -> Data:
    """Return the data of every plot; `metadata` is in the order of the objects."""
    embedding = found.embedding
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
        "columns": _columns(found, metadata, color_by),
        "spectrum": _spectrum(found),
        "curves": _curves(found),
        "nearest": None,
        "stability": _stability(found),
        "scan": None,
        "pairs": None,
        "tenths": [],
        "worst": None,
    }
    if found.nearest is not None:
        document["nearest"] = {
            name: _packed(values) for name, values in found.nearest.items()
        }
    if found.diagnosis is not None and found.diagnosis.scan is not None:
        scan = found.diagnosis.scan
        document["scan"] = asdict(scan) | {"best": scan.best, "k": scan.k}
    if found.pairs is not None and found.errors is not None:
        pairs = found.pairs
        document["pairs"] = {
            name: _packed(getattr(pairs, name))
            for name in ("left", "right", "given", "fitted")
        }
        document["tenths"] = _tenths(pairs)
        ids = found.errors.worst(NEIGHBORS)
        document["worst"] = {
            "ids": ids,
            "errors": 100 * found.errors.of_object[ids],
            "shares": found.errors.stress_share[ids],
            "r2": found.errors.r2_of_object[ids],
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
        least, middle, most = np.quantile(error, [0.05, 0.5, 0.95])
        tenths.append(
            {
                "low": given[0],
                "middle": np.median(given),
                "high": given[-1],
                "count": ids.size,
                "error": middle,
                "typical": np.median(np.abs(error)),
                "least": least,
                "most": most,
            }
        )
    return tenths


def _spectrum(found: Findings) -> Data | None:
    """Return eigenvalues by magnitude, their rank per sign, and which are kept."""
    embedding = found.embedding
    lam = to_numpy(embedding.info.eigenvalues)
    if found.curves is not None:
        lam = found.curves.eigenvalues
    lam = by_magnitude(lam)
    if not lam.size:
        return None
    is_kept = mark_kept(lam, embedding)
    return {
        "values": lam,
        "rank": ranks(lam),
        "kept": is_kept.astype(int),
        "words": kept_words(embedding),
        "complete": found.diagnosis is not None and found.diagnosis.complete,
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
    found: Findings, metadata: Any, color_by: str | None
) -> list[Data]:
    """Return what can colour the points: the columns of the metadata, and the mean error."""
    columns: list[Data] = []
    titles = []
    if metadata is not None:
        # The sort keeps the order of the others.
        titles = sorted(metadata.columns, key=lambda title: title != color_by)
    for title in titles:
        colours = as_colours(column_values(metadata, title), found.embedding.n)
        column = {"title": title, "variable": True}
        if colours.numbers is not None:
            column["numbers"] = _packed(colours.numbers)
        else:
            column["groups"] = _packed(colours.codes)
            column["order"] = colours.groups
        columns.append(column)
    if found.errors is not None:
        error = _packed(100 * found.errors.of_object)
        columns.append(
            {"title": "mean error of the object in %", "numbers": error}
        )
    return columns


def _curves(found: Findings) -> Data | None:
    """Return measures of every method against k, and of the embedding of the page."""
    if found.curves is None or found.quality is None:
        return None
    document: Data = {
        "ks": [rung.requested for rung in found.ladder],
        "here": found.quality.as_dict()
        | {"k": found.embedding.k, "method": found.embedding.method},
    }
    for measure in MEASURED:
        document[measure] = {}
        for row in found.ladder[0].methods:
            document[measure][row.method] = [
                getattr(rung[row.method].quality, measure)
                for rung in found.ladder
            ]
    return document


def _stability(found: Findings) -> Data | None:
    """Return means and covariances of the replicates of each object on the first axes."""
    moved = found.stability
    if moved is None:
        return None
    shown = min(found.embedding.k, NEIGHBORS)
    return {
        "axes": shown,
        "means": _packed(moved.clouds.mean(axis=0)[:, :shown]),
        "covariances": _packed(moved.covariances[:, :shown, :shown]),
    }


def _packed(values: Any) -> dict[str, str]:
    kind = {"i": "i4", "f": "f4"}[np.asarray(values).dtype.kind]
    data = np.asarray(values).astype(kind).tobytes()
    return {"kind": kind, "data": base64.b64encode(data).decode()}
