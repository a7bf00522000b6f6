"""Numbers and sentences that the page and the commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neucmds.backend.arrays import to_numpy
from neucmds.ecology import EnvFit, VariableFit
from neucmds.embedding import Embedding
from neucmds.explore import Diagnosis, StressCurves, Triangles
from neucmds.problem.files import require_pandas
from neucmds.problem.names import EXAMPLES
from neucmds.tools.plots.figures import printable
from neucmds.tools.plots.shepard import on_scale

COUNTED = "objects are counted from 0"
UNKNOWN = "–"


def significant(value: float | None, digits: int = 4) -> str:
    """Write a number with a few significant digits, and an unknown one as a dash."""
    if value is None or math.isnan(value):
        return UNKNOWN
    # 1.7e9 is shorter than 1.7e+09: nine columns have to fit into 80 characters.
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e-0", "e-")


def short(value: float) -> str:
    """Write a number with three significant digits."""
    return significant(value, 3)


def percent(share: float) -> str:
    """Write a share in percent, with three significant digits."""
    if math.isnan(share):
        return UNKNOWN
    # Thousands of percent are written in groups of three digits.
    if abs(share) >= 10:
        return f"{100 * share:,.0f} %"
    return f"{100 * share:.3g} %"


def count(number: float) -> str:
    """Write a whole number in groups of three digits."""
    return f"{number:,.0f}"


# Columns of the comparison of methods: header, field of `Quality`, how it is written, whether more
# is better.
MEASURES: tuple[tuple[str, str, Callable[[float], str], bool], ...] = (
    ("STRESS", "stress", significant, False),
    ("share", "normalized_stress", short, False),
    ("R²", "r2", short, True),
    ("rel.\nerror", "relative_error_mean", short, False),
    ("near", "neighbors_kept", short, True),
    ("distor-\ntion", "distortion", significant, False),
    ("neg.\nD̂", "negative_dissimilarities", count, False),
)


def signature(pair: Sequence[int]) -> str:
    """Write the numbers of positive and of negative coordinates."""
    return "{}+ {}−".format(*pair)


def object_name(labels: Sequence[str] | None, i: int) -> str:
    """Name an object by its label, or by its number as in coordinates.csv."""
    return f"object {i}" if labels is None else printable(labels[i])


def clean(value: Any) -> Any:
    """Turn arrays into lists, and NaN and infinities, which JSON lacks, into None."""
    if isinstance(value, dict):
        return {str(key): clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return clean(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def texts_and_best(
    values: Sequence[float],
    write: Callable[[float], str],
    *,
    more_is_better: bool = False,
) -> tuple[list[str], set[int]]:
    """Return numbers as texts, and the positions of those that read as the best.

    NaN is never the best: without a number, no text reads as that of infinity.
    """
    known = [value for value in values if not math.isnan(value)]
    best = min(known, default=math.inf)
    if more_is_better:
        best = max(known, default=math.inf)
    best_text = write(best)
    texts = [write(value) for value in values]
    return texts, {i for i, text in enumerate(texts) if text == best_text}


def measured_columns(qualities: Sequence[Any]) -> dict[str, Any]:
    """Return a column for each measure: header → its texts, one per quality, and the best ones."""
    columns = {}
    for header, field, write, more_is_better in MEASURES:
        values = [getattr(quality, field) for quality in qualities]
        columns[header] = texts_and_best(
            values, write, more_is_better=more_is_better
        )
    return columns


def axis_table(embedding: Embedding) -> Any:
    """Return a DataFrame of the axes: sign, weight, R² lost without each, shares of eigenvalues."""
    columns = {
        "axis": embedding.axis_names,
        "sign": to_numpy(embedding.signs).astype(int),
        "weight": to_numpy(embedding.weights),
        "r2_lost": embedding.explained,
    }
    for name, shares in embedding.shares.items():
        columns[f"share_of_{name}"] = shares
    table = require_pandas("a table of axes").DataFrame(columns)
    if embedding.curvature:
        table["curvature"] = embedding.curvature
    if embedding.landmarks is not None:
        table["of"] = embedding._landmarks_alone
    return table


def variables_shown(fit: EnvFit | None) -> list[VariableFit]:
    """Return all variables but texts that differ between all objects, as names do."""
    if fit is None:
        return []
    return [each for each in fit.fits if len(each.levels) < each.n]


def diagnosis_facts(
    diagnosis: Diagnosis, squared: bool
) -> list[tuple[str, str]]:
    """Return the names and values that ``neucmds diagnose`` prints.

    `squared` is the scale to write: D holds squared dissimilarities.
    """
    scale = "squared dissimilarities" if squared else "dissimilarities"
    low = on_scale(diagnosis.smallest, squared)
    high = on_scale(diagnosis.largest, squared)
    pairs = f"{count(diagnosis.negative_entries)} and {count(diagnosis.zero_pairs)} pairs"
    return [
        (scale, f"{significant(low)} to {significant(high)}"),
        ("negative, zero", pairs),
        ("duplicate objects", count(diagnosis.duplicate_objects)),
        ("Euclidean?", _euclidean(diagnosis)),
        ("eigenvalues of B", _eigenvalues(diagnosis)),
        ("negative share (NEF)", f"{negative_share(diagnosis)} of Σ|λ|"),
        ("triangle inequality", _triangles(diagnosis.triangles)),
        ("k for a plot", "2, with the distance loss"),
        ("suggested k", _suggested_k(diagnosis)),
        ("beyond noise", _beyond_noise(diagnosis)),
    ]


def outliers_text(diagnosis: Diagnosis, squared: bool) -> str:
    """Write a sentence, without its full stop, on the first outlying entries of D."""
    labels = diagnosis.labels
    entries = diagnosis.outliers.entries
    pairs = []
    for i, j, sq_value in entries[:EXAMPLES]:
        value = significant(on_scale(sq_value, squared))
        pairs.append(
            f"{value} between {object_name(labels, i)} and {object_name(labels, j)}"
        )
    typical = significant(on_scale(diagnosis.outliers.typical, squared))
    text = f"Outlying entries, where {typical} is typical: {'; '.join(pairs)}"
    if len(entries) > EXAMPLES:
        text += f" and {len(entries) - EXAMPLES} more"
    if labels is None:
        text += f" ({COUNTED})"
    return text


def _euclidean(diagnosis: Diagnosis) -> str:
    """Say whether D is Euclidean."""
    if not diagnosis.euclidean:
        return "no"
    if not diagnosis.complete:
        return "yes, as far as is known: no negative eigenvalue found"
    return "yes"


def _eigenvalues(diagnosis: Diagnosis) -> str:
    """Say how many eigenvalues of B have each sign, and the extreme ones."""
    positive = count(diagnosis.positive_eigenvalues)
    negative = count(diagnosis.negative_eigenvalues)
    total = count(diagnosis.n - 1)
    largest = significant(diagnosis.largest_eigenvalue)
    ends = f"from {largest} to {significant(diagnosis.smallest_eigenvalue)}"
    if diagnosis.complete:
        zero = count(diagnosis.zero_eigenvalues)
        return f"{positive} positive, {negative} negative, {zero} zero of {total}; {ends}"
    known = f"at least {positive} positive and {negative} negative of {total}"
    return f"{known}; the largest are {ends}"


def negative_share(diagnosis: Diagnosis) -> str:
    """Write the negative share of the spectrum, "about" if it is estimated."""
    share = percent(diagnosis.negative_share)
    if diagnosis.complete:
        return share
    return f"about {share}"


def _triangles(triangles: Triangles | None) -> str:
    """Say how often the triangle inequality fails, and by how much at worst."""
    if triangles is None:
        return "not defined for negative entries"
    triples = f"all {count(triangles.examined)} triples"
    if not triangles.exact:
        triples += " of a random sample of objects"
    text = f"violated by {percent(triangles.share)} of {triples}"
    if not triangles.violated:
        return text
    worst = f"{short(triangles.worst_ratio)} times the sum of the other two"
    return f"{text}; at worst a side is {worst}"


def _suggested_k(diagnosis: Diagnosis) -> str:
    """Say how many coordinates predict held-out objects, and how well."""
    scan = diagnosis.scan
    if scan is None:
        return "none: too few objects to hold some out"
    if diagnosis.held_out_r2 <= 0:
        return "none: no k predicts held-out objects better than their mean"
    text = str(diagnosis.suggested_k)
    if scan.open_ended:
        text += " or more"
    r2 = short(diagnosis.held_out_r2)
    text += f", for prediction: R² {r2} on pairs of held-out objects"
    if scan.n_objects < diagnosis.n:
        text += f", in a sample of {count(scan.n_objects)} objects"
    return text


def _beyond_noise(diagnosis: Diagnosis) -> str:
    """Say how many eigenvalues noise does not explain."""
    positive, negative = diagnosis.certain
    text = (
        f"{positive} positive and {negative} negative eigenvalues for certain"
    )
    if diagnosis.beyond_noise != diagnosis.certain:
        text += ", at most {} and {}".format(*diagnosis.beyond_noise)
    low, high = diagnosis.noise_band
    return f"{text}, outside {significant(low)} to {significant(high)}: a lower bound for k"


def paradox_text(curves: StressCurves) -> str:
    """Say whether and where more coordinates make classical MDS worse."""
    last_k = f"k = {curves.last_k:,}"
    if not curves.paradox:
        if not curves.complete:
            return f"Classical MDS gets better at least up to {last_k}; raise --k-max."
        return f"Classical MDS gets better up to {last_k}: no dimensionality paradox."
    rise = (curves.last_stress - curves.best_stress) / curves.sq_norm
    # A smaller rise cannot be seen in any plot.
    if rise < 0.001:
        return (
            f"Classical MDS gets better up to k = {curves.best_k}, and hardly worse from there to "
            f"{last_k}."
        )
    best = percent(curves.best_stress / curves.sq_norm)
    last = percent(curves.last_stress / curves.sq_norm)
    return (
        f"Dimensionality paradox: classical MDS is best at k = {curves.best_k} ({best} of ‖D‖²) "
        f"and gets worse from there, to {last} at {last_k}."
    )
