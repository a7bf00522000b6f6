"""The page itself: sections of plain HTML, tables beside every picture, nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from neucmds.api import COMPARED
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.metrics import Quality
from neucmds.plots import axis_label, printable
from neucmds.report.findings import NEAREST, Findings
from neucmds.report.payload import (
    MOST_AXES,
    MOST_SVG,
    as_json,
    measured_lines,
    object_name,
    payload,
    worst_objects,
)
from neucmds.report.words import (
    count,
    inspection_facts,
    paradox,
    percent,
    signature,
    significant,
    unsquared,
)

TABLE_ROWS = 40
DECILES = 10

# Field of `Quality`, header, how it is written, whether more is better.
MEASURES: tuple[tuple[str, str, Callable[[float], str], bool], ...] = (
    ("stress", "STRESS", significant, False),
    ("normalized_stress", "share\nof ‖D‖²", percent, False),
    ("r2", "R²", significant, True),
    ("relative_error_mean", "mean\nerror", percent, False),
    ("relative_error_median", "median\nerror", percent, False),
    ("neighbors_kept", "neighbours\nkept", percent, True),
    ("distortion", "distortion", significant, False),
    ("stress_1", "stress-1", significant, False),
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
    """Write the page.

    Parameters
    ----------
    found : Findings
    title : str
        What the data is called.
    made : sequence of (str, str)
        How the page was made: what, and how.
    metadata : Metadata, optional
        In the order of the objects.
    color_by : str, optional
        The column that colours the points at first.
    """
    document = payload(found, metadata, color_by)
    sections = [
        ("data", "The data", _data(found)),
        ("spectrum", "Spectrum", _spectrum(found, document["spectrum"])),
        ("curves", "How many coordinates", _curves(found)),
        ("objects", "The embedding", _objects(found, document, color_by)),
        ("shepard", "Shepard plot", _shepard(found)),
        ("errors", "Error against distance", _errors(found)),
        ("worst", "Worst objects", _worst(found)),
        ("methods", "All methods", _methods(found)),
        ("made", "How it was made", _made(found, made)),
    ]
    links = "".join(f'<a href="#{id}">{escape(name)}</a>' for id, name, _ in sections)
    body = "".join(
        f'<section id="{id}" aria-labelledby="{id}-title"><h2 id="{id}-title">'
        f"{escape(name)}</h2>{content}</section>"
        for id, name, content in sections
    )
    shown = escape(printable(title))
    scripts = [plotly_script(), _asset("page.js")]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{_policy(scripts, uses_webgl(found))}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{shown} – neucmds report</title><style>{_asset('page.css')}</style></head>\n"
        '<body><a class="skip" href="#data">Skip to the report</a>'
        f'<header><div class="top"><div><h1>{shown}</h1>{_p(_headline(found.embedding))}</div>'
        '<button type="button" id="theme">Dark mode</button></div>'
        f"{_tiles(found)}{_remarks(found)}"
        "<noscript><p>The pictures need JavaScript; most of their numbers are in the tables."
        "</p></noscript>"
        f'<nav aria-label="Sections">{links}</nav></header>\n<main>{body}</main>\n'
        f'<script type="application/json" id="data-json">{as_json(document)}</script>\n'
        + "\n".join(f"<script>{script}</script>" for script in scripts)
        + "\n</body></html>\n"
    )


# --- parts of HTML; whatever comes in as text is escaped here ---------------------------------


def _p(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>" if text else ""


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _plot(name: str, label: str, caption: str = "", kind: str = "") -> str:
    shape = f"plot {kind}".strip()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><div class="{shape}" id="plot-{name}" role="img" '
        f'aria-label="{escape(label)}"></div>{below}</figure>'
    )


def _table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str,
    *,
    best: Sequence[set[int]] = (),
    shown: int | None = None,
) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    lines = []
    for i, row in enumerate(rows):
        cells = "".join(
            f"<td{_class('best' if best and i in best[j] else '')}>"
            f"{escape(_minus(text) if j else text)}</td>"
            for j, text in enumerate(row)
        )
        lines.append(f"<tr{_class('shown' if i == shown else '')}>{cells}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _minus(text: str) -> str:
    """Write a minus before numbers; the commands write what a terminal can show."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _asset(name: str) -> str:
    return resources.files("neucmds.report").joinpath(name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the source of plotly.js, which the Python package carries."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise InputError(
            'the report needs plotly, which is not installed: pip install "neucmds[report]".'
        ) from error
    # HTML reads a carriage return as a line feed, and the policy holds the hash of what is read.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


def uses_webgl(found: Findings) -> bool:
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
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src {compiled}{hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'\">"
    )


# --- the head of the page ---------------------------------------------------------------------


def _headline(embedding: Embedding) -> str:
    positive, negative = embedding.signature
    text = f"{count(embedding.n)} objects in {embedding.k} coordinates by {_method(embedding)}: "
    if not negative:
        return f"{text}all of them add to the dissimilarity of two objects, as on a map."
    return (
        f"{text}{positive} that add to the dissimilarity of two objects, {negative} that take off."
    )


def _method(embedding: Embedding) -> str:
    loss = "" if embedding.loss == "squared" else f" ({embedding.loss} loss)"
    return f"“{embedding.method}”{loss}"


def _tiles(found: Findings) -> str:
    embedding, quality = found.embedding, found.quality
    r2 = embedding.r2 if quality is None else quality.r2
    share = embedding.normalized_stress if quality is None else quality.normalized_stress
    tiles = [
        (significant(r2), "R²: share of the variance of the squared dissimilarities explained"),
        (percent(share), "STRESS: share of ‖D‖², the squared dissimilarities, that is missed"),
    ]
    if quality is not None:
        tiles += [
            (percent(quality.neighbors_kept), f"of each object’s {NEAREST} nearest are kept"),
            (percent(quality.relative_error_median), "error of a typical pair (median)"),
        ]
    if found.inspection is not None:
        what = "of the spectrum is negative: what classical MDS leaves out"
        tiles.append((percent(found.inspection.negative_share), what))
        if found.inspection.scan is not None and found.inspection.held_out_r2 > 0:
            at_least = ", or more" if found.inspection.scan.open_ended else ""
            k = str(found.inspection.suggested_k)
            tiles.append((k, f"coordinates{at_least}, are suggested by objects held out"))
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(text)}</span></div>'
        for value, text in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _remarks(found: Findings) -> str:
    embedding, remarks = found.embedding, []
    if found.lacking:
        remarks.append(f"Parts of this report are left out: {found.lacking}.")
    if not embedding.converged:
        remarks.append("The fit was stopped before it had converged.")
    if embedding.k < embedding.requested:
        remarks.append(
            f"{embedding.requested} coordinates were asked for; {embedding.k} could be used."
        )
    remarks.append(
        "This browser offers no WebGL, so fewer pairs are drawn and large pictures are slow."
    )
    *shown, hidden = remarks
    return (
        "".join(_p(text, "note") for text in shown)
        + f'<p class="note" id="webgl-note" hidden>{escape(hidden)}</p>'
    )


# --- sections ---------------------------------------------------------------------------------


def _lacking(found: Findings) -> str:
    return _p(f"Not shown: {found.lacking}.")


def _data(found: Findings) -> str:
    embedding, inspection = found.embedding, found.inspection
    if inspection is None:
        return _lacking(found)
    facts = [("objects", count(inspection.n)), *inspection_facts(inspection, embedding.squared)]
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(_minus(text))}</dd>" for name, text in facts
    )
    return (
        _p(_kind_of_data(found))
        + f'<dl class="facts">{rows}</dl>'
        + _outliers(found)
        + _suggested(found)
    )


def _kind_of_data(found: Findings) -> str:
    inspection = found.inspection
    assert inspection is not None
    if inspection.euclidean:
        return (
            "These dissimilarities are Euclidean: points in a space of enough dimensions have "
            "exactly these distances, and every coordinate is positive."
        )
    about = "" if inspection.complete else "about "
    triangles = inspection.triangles
    # Sides of single precision exceed the other two by 1e-7 where they are equal to them.
    broken = triangles is not None and triangles.worst_ratio > 1 + 1e-5
    metric = (
        " Some triples even violate the triangle inequality: the detour over a third object is "
        "shorter than the direct way."
        if broken
        else ""
    )
    return (
        "These dissimilarities are not Euclidean: no points in any space have exactly these "
        f"distances. {about}{percent(inspection.negative_share)} of the spectrum is "
        "negative. Classical MDS drops that part; here it becomes coordinates that take off."
        f"{metric}"
    ).replace(". about", ". About")


def _outliers(found: Findings) -> str:
    inspection = found.inspection
    assert inspection is not None
    entries = inspection.outliers.entries[:3]
    if not entries:
        return ""
    squared, labels = found.embedding.squared, found.embedding.labels
    pairs = "; ".join(
        f"{significant(unsquared(value, squared))} between {object_name(labels, i)} and "
        f"{object_name(labels, j)}"
        for i, j, value in entries
    )
    typical = significant(unsquared(inspection.outliers.typical, squared))
    return _p(f"Outlying entries, where {typical} is typical: {pairs}.", "note")


def _suggested(found: Findings) -> str:
    inspection = found.inspection
    assert inspection is not None
    scan = inspection.scan
    if scan is None:
        return ""
    at_least = " or more" if scan.open_ended else ""
    why = (
        f"{scan.k}{at_least} coordinates are suggested. A third of the objects was held out at a "
        "time, placed, and the dissimilarities among them predicted; the error is least at k = "
        f"{scan.best}, and {scan.k} is the smallest k that comes within one standard error of it. "
    )
    if scan.open_ended:
        why += "It is the largest k that was tried: more might predict better still. "
    else:
        why += "More coordinates than that describe noise. "
    enough = next((k for k, e in zip(scan.ks, scan.errors, strict=True) if e <= 0.05), scan.k)
    if enough < scan.k:
        why += f"{enough} are enough for an R² of 0.95 on the pairs held out."
    if inspection.held_out_r2 <= 0:
        why = (
            "No number of coordinates predicts objects held out better than the mean of all "
            "pairs does: there is no structure that carries over to new objects."
        )
    rows = [
        [str(k), significant(error), significant(deviation)]
        for k, error, deviation in zip(scan.ks, scan.errors, scan.standard_errors, strict=True)
    ]
    of_some = f" of {count(scan.n_objects)} objects" if scan.n_objects < inspection.n else ""
    return (
        "<h3>How many coordinates, and why</h3>"
        + _p(why)
        + _plot("scan", "Error on held-out pairs against the number of coordinates", kind="low")
        + _details(
            "Numbers",
            _table(
                ["k", "error", "standard error"],
                rows,
                f"Error on pairs held out{of_some}: 0 is perfect, 1 no better than the mean",
            ),
        )
    )


def _spectrum(found: Findings, drawn: dict[str, Any] | None) -> str:
    if drawn is None:
        return _p("There are no eigenvalues but zero.")
    values, kept = np.array(drawn["values"], dtype=float), np.array(drawn["kept"], dtype=bool)
    positive, negative = int((values[kept] > 0).sum()), int((values[kept] < 0).sum())
    which = "all" if drawn["complete"] else "the largest"
    text = (
        f"The matrix B, made from D, has one eigenvalue for each direction; drawn are {which} of "
        "them by size. Positive ones add to dissimilarities, negative ones take off, and a "
        "negative one that is large is no noise. "
    )
    if found.curves is None:
        text = "These are the eigenvalues that the embedding keeps, by size. "
    elif kept.any():
        text += f"The embedding starts from {positive} positive and {negative} negative ones. "
    trace = float(drawn["trace"])
    header = ["rank by size", "eigenvalue", "share of the trace", "kept"]
    rows = [
        [
            str(i + 1),
            significant(value),
            percent(value / trace) if trace > 0 else "–",
            "yes" if kept[i] else "no",
        ]
        for i, value in enumerate(values[:TABLE_ROWS])
    ]
    return (
        _p(text)
        + _plot("spectrum", "Eigenvalues by rank, positive and negative, kept ones filled")
        + _details("Numbers", _table(header, rows, f"The {len(rows)} largest eigenvalues of B"))
    )


def _curves(found: Findings) -> str:
    if found.curves is None:
        return _lacking(found)
    sampled = (
        f"Neighbours kept were measured on {count(found.ladder_objects)} objects drawn at random, "
        "fitted on their own; only there “refined” has a line. The star is this embedding, on all "
        "objects."
        if found.ladder_objects < found.embedding.n
        else "“refined” is fitted at a few k only."
    )
    plots = "".join(
        f"<div><h3>{title}</h3>{_plot(name, label)}</div>"
        for name, title, label in (
            (
                "stress",
                "STRESS (0 is perfect)",
                "STRESS against the number of coordinates, a line for each method",
            ),
            ("r2", "R² (1 is perfect)", "R² against the number of coordinates"),
            (
                "neighbours",
                "Neighbours kept (100 % is perfect)",
                "Share of the 10 nearest neighbours kept, against the number of coordinates",
            ),
        )
    )
    titles = {
        "stress": "STRESS as a share of ‖D‖²",
        "r2": "R²",
        "neighbours": "Share of the 10 nearest neighbours kept",
    }
    tables = "".join(_curve_table(found, what, title) for what, title in titles.items())
    return (
        _p(paradox(found.curves))
        + _p(
            "STRESS is the sum of squared errors over all pairs, as a share of ‖D‖²; R² the share "
            "of the variance of the pairs that is explained; neighbours kept the share of an "
            f"object’s 10 nearest by D̂ that are near by D too. {sampled}"
        )
        + '<ul class="methods-key" id="methods-key" aria-label="Colours of the methods"></ul>'
        + f'<div class="three">{plots}</div>'
        + _details("Numbers", tables)
    )


def _curve_table(found: Findings, what: str, title: str) -> str:
    lines = measured_lines(found, what)
    ks = sorted({k for line in lines for k in line["ks"]})
    write = significant if what == "r2" else percent
    known = [dict(zip(line["ks"], line["values"], strict=True)) for line in lines]

    def text(value: float | None) -> str:
        return "–" if value is None else write(value)

    rows = [[str(k), *(text(values.get(k)) for values in known)] for k in ks]
    return _table(["k", *(line["method"] for line in lines)], rows, title)


def _objects(found: Findings, document: dict[str, Any], color_by: str | None) -> str:
    embedding = found.embedding
    if not embedding.k:
        return _p("The embedding has no coordinates: all objects are the same.")
    titles = [column["title"] for column in document["columns"]]
    start = 0 if color_by is not None and titles else -1
    left_out = (
        f"The first {MOST_AXES} of {embedding.k} coordinates can be drawn."
        if embedding.k > MOST_AXES
        else ""
    )
    many = (
        f"All {count(embedding.n)} objects are drawn (by WebGL where the browser has it)."
        if embedding.n > MOST_SVG
        else ""
    )
    names = (
        "Objects have no names here and are numbered from 0, as in coordinates.csv."
        if embedding.labels is None
        else ""
    )
    rows = [
        [str(a), axis_label(embedding, a), "adds" if sign > 0 else "takes off", significant(weight)]
        for a, (sign, weight) in enumerate(
            zip(document["axes"]["signs"], _weights(embedding), strict=False), 1
        )
    ]
    return (
        _p(
            "Choose any two coordinates. Shares are of the mean squared dissimilarity; those of "
            f"negative axes are below zero. {left_out} {many} {names}".strip()
        )
        + '<form class="controls" action="#objects">'
        '<label>Across<select id="axis-x"></select></label>'
        '<label>Up<select id="axis-y"></select></label>'
        f'<label>Colour by<select id="colour" data-start="{start}"></select></label>'
        '<label>Find an object<input id="find" type="search" list="found" autocomplete="off" '
        'size="18"></label><datalist id="found"></datalist>'
        '<button type="submit">Choose it</button></form>'
        '<p id="explanation" aria-live="polite"></p>'
        f'<div class="split">{_plot("objects", "The objects on two of their axes", kind="tall")}'
        '<aside id="panel" tabindex="0" aria-live="polite" aria-label="The object chosen">'
        "<p>Click a point, or find an object by its name: here its nearest objects by the "
        "embedding (D̂) and by the data (D) will be listed.</p></aside></div>"
        + _details("Coordinates", _coordinate_pages())
        + _details(
            "Axes",
            _table(["", "axis", "effect", "weight"], rows, "The coordinates and what they do"),
        )
    )


def _weights(embedding: Embedding) -> list[float]:
    return [float(weight) for weight in embedding.weights]


def _coordinate_pages() -> str:
    return (
        '<div class="controls"><button type="button" id="rows-before">Earlier</button>'
        '<span id="rows" aria-live="polite"></span>'
        '<button type="button" id="rows-after">Later</button></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Coordinates">'
        '<table id="coordinates"><caption>Coordinates of the objects</caption></table></div>'
    )


def _shepard(found: Findings) -> str:
    pairs = found.pairs
    if pairs is None:
        return _lacking(found)
    if not pairs.given.size:
        return _p("No pair is known.")
    negative = int((pairs.fitted < 0).sum())
    below = (
        f"{count(negative)} of them come out below zero (triangles): closer than any distance can "
        "be, because their negative coordinates outweigh the positive ones. "
        if negative
        else "None of them comes out below zero. "
    )
    scale = "" if pairs.squared or not negative else "A D̂ below zero is drawn at −√|D̂|. "
    return (
        _p(
            "Each point is a pair of objects: what was given, and what the embedding makes of it. "
            "On the line they agree; above it objects come out too far apart, below it too close. "
            f"{_drawn(found)} {below}{scale}"
        )
        + _plot("shepard", "Dissimilarity of the embedding against the one given")
        + _details("Numbers", _decile_table(found))
    )


def _drawn(found: Findings) -> str:
    pairs = found.pairs
    assert pairs is not None
    if pairs.given.size < pairs.total:
        return f"Drawn are {pairs.drawn}, chosen at random."
    return f"Drawn are all {count(pairs.total)} pairs."


def _deciles(found: Findings) -> list[tuple[float, float, Any, Any]]:
    """Cut the pairs with D > 0 into tenths by D: where each begins and ends, its D and its D̂."""
    pairs = found.pairs
    assert pairs is not None
    usable = pairs.given > 0
    given, fitted = pairs.given[usable], pairs.fitted[usable]
    order = np.argsort(given, kind="stable")
    parts = np.array_split(order, min(DECILES, max(1, order.size)))
    return [(float(given[p[0]]), float(given[p[-1]]), given[p], fitted[p]) for p in parts if p.size]


def _decile_table(found: Findings) -> str:
    header = ["dissimilarity given", "pairs", "median D̂", "median\nerror", "5 % of errors\nbelow",
              "95 % of errors\nbelow", "D̂ below\nzero"]  # fmt: skip
    rows = []
    for low, high, given, fitted in _deciles(found):
        error = fitted / given - 1
        quantiles = np.quantile(error, [0.5, 0.05, 0.95])
        rows.append(
            [
                f"{significant(low)} to {significant(high)}",
                count(given.size),
                significant(float(np.median(fitted))),
                *(percent(float(q)) for q in quantiles),
                percent(float((fitted < 0).mean())),
            ]
        )
    return _table(header, rows, "The pairs in tenths, from near to far")


def _errors(found: Findings) -> str:
    pairs = found.pairs
    if pairs is None:
        return _lacking(found)
    tenths = _deciles(found) if pairs.given.size else []
    if not tenths:
        return _p("No dissimilarity is positive, so there are no relative errors.")
    near, far = (
        float(np.median(np.abs(fitted / given - 1)))
        for *_, given, fitted in (tenths[0], tenths[-1])
    )
    if near > 2 * far:
        verdict = (
            "Near pairs fail first: squared errors are ruled by far pairs. If near ones matter to "
            "you, try --loss relative."
            if found.embedding.loss == "squared"
            else "Near pairs are fitted worse than far ones."
        )
    elif far > 2 * near:
        verdict = "Far pairs are fitted worse than near ones."
    else:
        verdict = "Near and far pairs are fitted about equally well."
    return (
        _p(
            "How far the embedding is off, in percent of the dissimilarity given: 0 is perfect, "
            "100 is twice as far apart as given, −100 at the same place (and below that, D̂ below "
            "zero). Among the nearest tenth "
            f"of the pairs half are off by more than {percent(near)}, among the farthest tenth by "
            f"more than {percent(far)}. {verdict} {_drawn(found)}"
        )
        + _plot("errors", "Relative error of the embedding against the dissimilarity given")
        + '<p class="soft" id="error-note"></p>'
        + _details("Numbers", _decile_table(found))
    )


def _worst(found: Findings) -> str:
    if found.errors is None:
        return _lacking(found)
    ids, errors = worst_objects(found), found.errors.of_object
    if not ids:
        return _p("No object is fitted badly: every pair is met.")
    labels = found.embedding.labels
    typical = float(np.nanmedian(errors))
    rows = [[object_name(labels, i), percent(float(errors[i]))] for i in ids]
    off = found.errors.pairs_off / max(1, found.errors.pairs)
    return (
        _p(
            f"The objects whose pairs are off the most on average, where {percent(typical)} is "
            "typical. An object far above it is unlike all others, or was measured badly. "
            f"{percent(off)} of all pairs are off by more than {percent(found.errors.limit)}."
        )
        + _plot("worst", "Mean relative error of the worst objects")
        + _details("Numbers", _table(["object", "mean error"], rows, "The worst objects"))
    )


def _methods(found: Findings) -> str:
    if found.comparison is None:
        return _lacking(found)
    entries: list[tuple[str, tuple[int, int], Quality]] = [
        (row.method, row.embedding.signature, row.quality) for row in found.comparison.methods
    ]
    shown = _own_row(found, entries)
    if shown is None and found.quality is not None:
        name = f"this page: {found.embedding.method}, {found.embedding.loss} loss"
        entries.insert(0, (name, found.embedding.signature, found.quality))
        shown = 0
    best: list[set[int]] = [set()]
    columns = []
    for name, _, write, more in MEASURES:
        values = [float(getattr(quality, name)) for *_, quality in entries]
        texts = [write(v) if not math.isnan(v) else "–" for v in values]
        known = [v for v in values if not math.isnan(v)]
        top = write((max if more else min)(known)) if known else None
        columns.append(texts)
        best.append({i for i, text in enumerate(texts) if text == top})
    rows = [
        [name, *(column[i] for column in columns), signature(signs)]
        for i, (name, signs, _) in enumerate(entries)
    ]
    header = ["method", *(title for _, title, *_ in MEASURES), "signs"]
    reasons: dict[str, list[str]] = {}
    for name, reason in found.comparison.left_out.items():
        reasons.setdefault(reason, []).append(name)
    left_out = "".join(
        _p(f"Left out: {', '.join(names)}. {reason}", "soft") for reason, names in reasons.items()
    )
    return (
        _p(
            f"Every method at k = {found.comparison.requested} on the same dissimilarities, each "
            "measured against D itself; the best of each column is bold. “refined/distance” and "
            "“refined/relative” minimise other losses; “cailliez” and “lingoes” are classical MDS "
            "of dissimilarities made Euclidean by a constant; “smacof” is scikit-learn’s MDS."
        )
        + _table(
            header, rows, f"{len(rows)} of {len(COMPARED)} methods and losses", best=[*best, set()],
            shown=shown,
        )
        + left_out
        + _p(
            "Errors are |d̂/d − 1| with d = √D. Neighbours kept: of the 10 nearest. Distortion: 1 "
            "is perfect. Signs: positive and negative coordinates.",
            "soft",
        )
    )  # fmt: skip


def _own_row(
    found: Findings, entries: Sequence[tuple[str, tuple[int, int], Quality]]
) -> int | None:
    """Return the row of the table that is the embedding of the page."""
    embedding, quality = found.embedding, found.quality
    own = (
        embedding.method if embedding.loss == "squared" else f"{embedding.method}/{embedding.loss}"
    )
    for i, (name, signs, measured) in enumerate(entries):
        same = name == own and signs == embedding.signature
        if same and quality and math.isclose(measured.stress, quality.stress, rel_tol=1e-6):
            return i
    return None


def _made(found: Findings, made: Sequence[tuple[str, str]]) -> str:
    embedding = found.embedding
    facts = [
        *made,
        ("method", f"{embedding.method}, {embedding.loss} loss"),
        ("coordinates", f"{embedding.requested} asked for, {embedding.k} used"),
        ("scale", "squared dissimilarities" if embedding.squared else "dissimilarities"),
    ]
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(printable(text))}</code></dd>"
        for name, text in facts
    )
    return f'<dl class="facts">{rows}</dl>' + _p(
        "The same input, version and seed give the same page. It holds all it needs: it opens "
        "without a network and sends nothing.",
        "soft",
    )
