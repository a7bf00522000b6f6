"""Fill the template of the page."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from neucmds._backend.arrays import to_numpy
from neucmds.api import COMPARED
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.plots import bend, printable
from neucmds.report.findings import Findings
from neucmds.report.payload import MOST_SVG, payload
from neucmds.report.words import (
    CONVENTIONS,
    count,
    curvature_words,
    inspection_facts,
    marked,
    object_name,
    outlying,
    paradox,
    percent,
    signature,
    significant,
)

# Field of `Quality`, header, format, whether more is better.
MEASURES: tuple[tuple[str, str, Callable[[float], str], bool], ...] = (
    ("stress", "STRESS", significant, False),
    ("normalized_stress", "share\nof ‖D‖²", percent, False),
    ("r2", "R²", significant, True),
    ("relative_error_mean", "mean\nerror", percent, False),
    ("relative_error_median", "median\nerror", percent, False),
    ("neighbors_kept", "recall\n@10", percent, True),
    ("distortion", "distortion", significant, False),
    ("stress1", "stress-1", significant, False),
    ("negative_dissimilarities", "pairs with\nD̂ < 0", count, False),
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
    data = payload(found, metadata, color_by)
    scripts = [plotly_script(), _asset("page.js")]
    page: str = _template().render(
        found=found,
        emb=found.embedding,
        inspection=found.inspection,
        measured=found.quality or found.embedding,
        title=printable(title),
        made=[(name, printable(text)) for name, text in made],
        first_colour=0 if color_by is not None and data["columns"] else -1,
        pairs_below_zero=0 if found.pairs is None else int((found.pairs.fitted < 0).sum()),
        tenths=_tenths(found),
        compared=len(COMPARED),
        methods=_methods(found),
        axis_columns=_axis_columns(found.embedding),
        data=data,
        css=_asset("page.css"),
        scripts=scripts,
        policy=_policy(scripts, _uses_webgl(found)),
    )
    return page.lstrip()


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise _not_installed("jinja2") from error
    environment = Environment(
        loader=PackageLoader("neucmds.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    # The commands write what a terminal can show.
    environment.filters["minus"] = lambda text: re.sub(r"(?<!\w)-(?=\d)", "−", str(text))
    writers = (count, percent, significant)
    environment.filters |= {write.__name__: write for write in writers}
    said = (curvature_words, inspection_facts, outlying, paradox, object_name, zip, *writers)
    environment.globals |= {function.__name__: function for function in said}
    return environment.get_template("page.html.j2")


def _asset(name: str) -> str:
    return resources.files("neucmds.report").joinpath(name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the source of plotly.js, which the Python package carries."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _not_installed("plotly") from error
    # HTML reads a carriage return as a line feed, and the policy holds the hash of what is read.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


def _not_installed(package: str) -> InputError:
    return InputError(
        f'the report needs {package}, which is not installed: pip install "neucmds[report]".'
    )


def _uses_webgl(found: Findings) -> bool:
    """Tell whether a picture has too many points for SVG."""
    pairs = 0 if found.pairs is None else found.pairs.given.size
    return max(found.embedding.n, pairs) > MOST_SVG


def _policy(scripts: Sequence[str], webgl: bool) -> str:
    """Allow these scripts and nothing else: no request can leave the page.

    Plotly styles its SVG in place, and compiles functions for WebGL (`unsafe-eval`).
    """
    compiled = "'unsafe-eval' " if webgl else ""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {compiled}{hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
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
    columns |= {f"share of the {CONVENTIONS[name]}": share for name, share in shares}
    whose = f" (of {embedding._landmarks_alone})" if embedding._landmarks_alone else ""
    return {f"{title}{whose}": values for title, values in columns.items()}


def _methods(found: Findings) -> dict[str, Any]:
    """Return the columns of the comparison, and which row is the embedding of the page."""
    if found.comparison is None or found.quality is None:
        return {}
    emb, rows = found.embedding, found.comparison.methods
    entries = [(row.method, row.embedding.signature, row.quality) for row in rows]
    own = emb.method if emb.loss == "squared" else f"{emb.method}/{emb.loss}"
    stress = found.quality.stress
    same = (
        i
        for i, (name, signs, quality) in enumerate(entries)
        if (name, signs) == (own, emb.signature)
        and math.isclose(quality.stress, stress, rel_tol=1e-6)
    )
    shown = next(same, None)
    if shown is None:
        shown, name = 0, f"this page: {emb.method}, {emb.loss} loss{bend(emb)}"
        entries.insert(0, (name, emb.signature, found.quality))
    columns = []
    for field, title, write, more in MEASURES:
        values = [float(getattr(quality, field)) for *_, quality in entries]
        texts, best = marked(values, write, most=more)
        columns.append({"title": title, "texts": texts, "best": best})
    names, signs = [name for name, *_ in entries], [signature(pair) for _, pair, _ in entries]
    return {"names": names, "signs": signs, "columns": columns, "shown": shown}
