"""``neucmds inspect``: what to know of a matrix before embedding it."""

from __future__ import annotations

import math

from neucmds import api
from neucmds.cli.console import print_json, print_table, say, steps
from neucmds.cli.options import File, Json, Seed, Squared, Symmetrize
from neucmds.cli.tables import count, facts_table, percent, significant
from neucmds.diagnostics import Inspection, Triangles

__all__ = ["inspect"]

OUTLIERS_SHOWN = 3


def inspect(
    file: File,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Tell if D is Euclidean, and what k it needs."""
    with steps() as progress:
        progress.now(f"reading {file}")
        found = api.inspect(
            file,
            squared=squared,
            symmetrize=symmetrize,
            random_state=seed,
            on_step=progress.now,
        )
    if as_json:
        print_json({"command": "inspect", "input": file, **found.as_dict()})
        return
    print_table(facts_table(f"{file}: {found.n:,} objects", _facts(found, squared)))
    if found.outliers.entries:
        say(_outliers(found, squared))
    say(_advice(found, "FILE" if file == "-" else file))


def _facts(found: Inspection, squared: bool) -> list[tuple[str, str]]:
    low, high = (_unsquared(value, squared) for value in (found.smallest, found.largest))
    scale = "squared dissimilarities" if squared else "dissimilarities"
    return [
        (scale, f"{significant(low)} to {significant(high)}"),
        ("negative, zero", f"{count(found.negative_entries)} and {count(found.zero_pairs)} pairs"),
        ("duplicate objects", count(found.duplicate_objects)),
        ("Euclidean?", _euclidean(found)),
        ("eigenvalues of B", _eigenvalues(found)),
        ("negative share (NEF)", _negative_share(found)),
        ("triangle inequality", _triangles(found.triangles)),
        ("noise edge", f"{significant(found.noise_band[0])} to {significant(found.noise_band[1])}"),
        ("beyond noise", _beyond(found)),
        ("suggested k", _suggestion(found)),
    ]


def _unsquared(value: float, squared: bool) -> float:
    return value if squared else math.sqrt(max(0.0, value))


def _triangles(triangles: Triangles | None) -> str:
    if triangles is None:
        return "has no meaning for negative entries"
    which = "all" if triangles.exact else "a random sample of"
    text = f"violated by {percent(triangles.share)} of {which} {count(triangles.examined)} triples"
    if not triangles.violated:
        return text
    if math.isinf(triangles.worst_ratio):
        return f"{text}; at worst a side stands against two of length zero"
    ratio = triangles.worst_ratio
    worst = f"{significant(ratio, 3)} times" if ratio >= 2 else f"{percent(ratio - 1)} more than"
    return f"{text}; at worst a side is {worst} the other two together"


def _beyond(found: Inspection) -> str:
    sure, wide = found.certain, found.beyond_noise
    text = f"{sure[0]} positive and {sure[1]} negative for certain"
    return text if sure == wide else f"{text}, {wide[0]} and {wide[1]} at the most"


def _euclidean(found: Inspection) -> str:
    if not found.euclidean:
        return "no"
    return "yes" if found.complete else "yes, as far as can be told: no negative eigenvalue found"


def _eigenvalues(found: Inspection) -> str:
    positive, negative = count(found.positive_eigenvalues), count(found.negative_eigenvalues)
    ends = f"{significant(found.largest_eigenvalue)} to {significant(found.smallest_eigenvalue)}"
    if found.complete:
        zero = count(found.zero_eigenvalues)
        of_all = f"of {count(found.n - 1)}"
        return f"{positive} positive, {negative} negative, {zero} zero {of_all}; from {ends}"
    return (
        f"at least {positive} positive and {negative} negative of {count(found.n - 1)}: the "
        f"largest of them, from {ends}"
    )


def _negative_share(found: Inspection) -> str:
    share = percent(found.negative_share)
    if found.complete:
        return f"{share} of the sum of sizes"
    low, high = (percent(bound) for bound in found.negative_share_bounds)
    return f"about {share} of the sum of sizes: at least {low}, at most {high}"


def _outliers(found: Inspection, squared: bool) -> str:
    typical = significant(_unsquared(found.outliers.typical, squared))
    pairs = [
        f"{significant(_unsquared(value, squared))} between {_name(found, i)} and {_name(found, j)}"
        for i, j, value in found.outliers.entries[:OUTLIERS_SHOWN]
    ]
    more = len(found.outliers.entries) - len(pairs)
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"Outlying entries, where {typical} is typical: {'; '.join(pairs)}{rest}. One such entry "
        "hides everything else: correct it, or leave it blank and embed with --missing ignore."
    )


def _name(found: Inspection, i: int) -> str:
    return f"object {i + 1}" if found.labels is None else found.labels[i]


def _suggestion(found: Inspection) -> str:
    if found.scan is None:
        return "none: with so few objects nothing can be held out"
    if found.held_out_r2 <= 0:
        return "none: pairs of objects held out are predicted no better than by their mean"
    sampled = found.scan.n_objects < found.n
    of_some = f", of a sample of {count(found.scan.n_objects)} objects" if sampled else ""
    r2 = significant(found.held_out_r2, 3)
    k = f"{found.suggested_k} or more" if found.scan.open_ended else str(found.suggested_k)
    return f"{k} (R² {r2} on pairs of objects held out{of_some})"


def _advice(found: Inspection, file: str) -> str:
    parts: list[str] = []
    if found.euclidean:
        parts.append("Classical MDS and neucmds agree on this matrix: nothing is lost.")
    else:
        about = "" if found.complete else "about "
        parts.append(
            f"Classical MDS would drop {about}{percent(found.negative_share)} of the spectrum, its "
            "negative part; the other methods keep what matters of it."
        )
    if found.scan is not None and found.held_out_r2 > 0:
        parts.append(f"Next: neucmds embed {file} -k {found.suggested_k}")
    else:
        parts.append(f"Choose k by the STRESS you can afford. Next: neucmds curve {file}")
    return " ".join(parts)
