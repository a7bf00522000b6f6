"""Numbers and sentences that the page and the commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neucmds.embedding import Embedding
from neucmds.explore.diagnostics import Diagnosis, Triangles
from neucmds.explore.exploration import StressCurves
from neucmds.tools.plots import printable

COUNTED = "objects are counted from 0"
OUTLIERS_SHOWN = 3
# Sums that an eigenvalue is a share of.
CONVENTIONS = {
    "trace": "trace, the sum of all eigenvalues",
    "positive": "sum of the positive ones (as vegan's capscale)",
}


def significant(value: float | None, digits: int = 4) -> str:
    """Write a number with a few significant digits, and NaN as a dash."""
    if value is None or math.isnan(value):
        return "–"
    # 1.7e9 for 1.7e+09: a table of nine columns has to fit into 80.
    return re.sub(r"e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", f"{value:.{digits}g}")


def percent(share: float) -> str:
    """Write a share in percent, with three significant digits."""
    if math.isnan(share):
        return "–"
    if share == 0:
        return "0 %"
    return f"{100 * share:,.0f} %" if abs(share) >= 10 else f"{100 * share:.3g} %"


def curvature_words(embedding: Embedding) -> str:
    """Say what the curvature of an embedding means."""
    if not embedding.curvature:
        return "0: flat"
    kind = "hyperbolic, as trees and networks" if embedding.curvature < 0 else "spherical"
    return f"{embedding.curvature:.3g} / (mean d)²: {kind}".replace("-", "−")


def count(number: float) -> str:
    """Write a whole number in groups of three digits."""
    return f"{int(number):,}"


def clean(value: Any) -> Any:
    """Turn arrays into lists, and NaN and infinities into None, which JSON has."""
    if isinstance(value, dict):
        return {str(key): clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return clean(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def signature(pair: Sequence[int]) -> str:
    """Write numbers of positive and negative coordinates."""
    return f"{pair[0]}+ {pair[1]}−"


def object_name(labels: Sequence[str] | None, i: int) -> str:
    """Name an object by its label, or by its number as in coordinates.csv."""
    return f"object {i}" if labels is None else printable(labels[i])


def marked(
    values: Sequence[float], write: Callable[[float], str], *, most: bool = False
) -> tuple[list[str], set[int]]:
    """Write a column of numbers, and mark the best; those that read the same share the mark."""
    texts = ["–" if math.isnan(value) else write(value) for value in values]
    known = [value for value in values if not math.isnan(value)]
    best = write((max if most else min)(known)) if known else None
    return texts, {i for i, text in enumerate(texts) if text == best}


def outlying(found: Diagnosis, squared: bool, labels: Sequence[str] | None) -> str:
    """Name the first outlying entries of D; empty if there are none."""
    outliers, shown = found.outliers, found.outliers.entries[:OUTLIERS_SHOWN]
    if not shown:
        return ""
    pairs = "; ".join(
        f"{significant(unsquared(value, squared))} between {object_name(labels, i)} and "
        f"{object_name(labels, j)}"
        for i, j, value in shown
    )
    more = len(outliers.entries) - len(shown)
    typical = significant(unsquared(outliers.typical, squared))
    rest = f" and {more} more" if more > 0 else ""
    rest += f" ({COUNTED})" if labels is None else ""
    return f"Outlying entries, where {typical} is typical: {pairs}{rest}"


def diagnosis_facts(found: Diagnosis, squared: bool) -> list[tuple[str, str]]:
    """Return names and values of the rows that `diagnose` prints."""
    low, high = (unsquared(value, squared) for value in (found.smallest, found.largest))
    scale = "squared dissimilarities" if squared else "dissimilarities"
    return [
        (scale, f"{significant(low)} to {significant(high)}"),
        ("negative, zero", f"{count(found.negative_entries)} and {count(found.zero_pairs)} pairs"),
        ("duplicate objects", count(found.duplicate_objects)),
        ("Euclidean?", _euclidean(found)),
        ("eigenvalues of B", _eigenvalues(found)),
        ("negative share (NEF)", _negative_share(found)),
        ("triangle inequality", _triangles(found.triangles)),
        ("k for a plot", "2, with the distance loss"),
        ("suggested k", _suggestion(found)),
        ("beyond noise", _beyond(found)),
    ]


def unsquared(value: float, squared: bool) -> float:
    """Put an entry of D on the scale of the input."""
    return value if squared else math.sqrt(max(0.0, value))


def _triangles(triangles: Triangles | None) -> str:
    if triangles is None:
        return "not defined for negative entries"
    which = "all" if triangles.exact else "a random sample of"
    text = f"violated by {percent(triangles.share)} of {which} {count(triangles.examined)} triples"
    if not triangles.violated:
        return text
    if math.isinf(triangles.worst_ratio):
        return f"{text}; at worst the other two sides are zero"
    ratio = triangles.worst_ratio
    worst = f"{significant(ratio, 3)} times" if ratio >= 2 else f"{percent(ratio - 1)} more than"
    return f"{text}; at worst a side is {worst} the sum of the other two"


def _beyond(found: Diagnosis) -> str:
    sure, wide = found.certain, found.beyond_noise
    text = f"{sure[0]} positive and {sure[1]} negative eigenvalues for certain"
    text += "" if sure == wide else f", at most {wide[0]} and {wide[1]}"
    low, high = map(significant, found.noise_band)
    return f"{text}, outside {low} to {high}: a lower bound for k"


def _euclidean(found: Diagnosis) -> str:
    if not found.euclidean:
        return "no"
    return "yes" if found.complete else "yes, as far as is known: no negative eigenvalue found"


def _eigenvalues(found: Diagnosis) -> str:
    positive, negative = count(found.positive_eigenvalues), count(found.negative_eigenvalues)
    ends = f"{significant(found.largest_eigenvalue)} to {significant(found.smallest_eigenvalue)}"
    if found.complete:
        zero = count(found.zero_eigenvalues)
        of_all = f"of {count(found.n - 1)}"
        return f"{positive} positive, {negative} negative, {zero} zero {of_all}; from {ends}"
    return (
        f"at least {positive} positive and {negative} negative of {count(found.n - 1)}; the "
        f"largest are from {ends}"
    )


def _negative_share(found: Diagnosis) -> str:
    share = percent(found.negative_share)
    if found.complete:
        return f"{share} of Σ|λ|"
    low, high = (percent(bound) for bound in found.negative_share_bounds)
    return f"about {share} of Σ|λ|: at least {low}, at most {high}"


def _suggestion(found: Diagnosis) -> str:
    if found.scan is None:
        return "none: too few objects to hold some out"
    if found.held_out_r2 <= 0:
        return "none: no k predicts held-out objects better than their mean"
    sampled = found.scan.n_objects < found.n
    of_some = f", in a sample of {count(found.scan.n_objects)} objects" if sampled else ""
    r2 = significant(found.held_out_r2, 3)
    k = f"{found.suggested_k} or more" if found.scan.open_ended else str(found.suggested_k)
    return f"{k}, for prediction: R² {r2} on pairs of held-out objects{of_some}"


def paradox(curves: StressCurves) -> str:
    """Describe where more coordinates make classical MDS worse."""
    norm, turning = curves.sq_norm or 1.0, curves.turning_point
    last, all_known = f"{turning.last_k:,}", turning.complete
    if turning.paradox:
        among = "" if all_known else f" among the first {last} of its coordinates"
        end = percent(turning.last_stress / norm)
        end = f"{end} with all its {last} coordinates" if all_known else f"at least {end}"
        return (
            f"Dimensionality paradox: classical MDS is best at k = {turning.k} "
            f"({percent(turning.stress / norm)} of ‖D‖²){among} and gets worse from there, to "
            f"{end}."
        )
    if not all_known:
        return f"Classical MDS gets better at least up to k = {last}; raise --k-max to see beyond."
    if turning.last_k == 0:
        return "Classical MDS has no coordinates here: no eigenvalue of B is positive."
    return (
        f"Classical MDS gets better up to k = {last}, all of its coordinates: no dimensionality "
        "paradox here."
    )
