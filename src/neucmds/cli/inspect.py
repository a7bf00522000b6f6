"""``neucmds inspect``: what to know of a matrix before embedding it."""

from __future__ import annotations

import math
from typing import Any

from neucmds import api
from neucmds.cli.console import print_json, print_table, say, steps
from neucmds.cli.options import File, Json, Seed, Squared, Symmetrize
from neucmds.cli.tables import count, facts_table, percent, significant
from neucmds.diagnostics import Inspection, Triangles

__all__ = ["inspect"]


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
    say(_advice(found, "FILE" if file == "-" else file))


def _facts(found: Inspection, squared: bool) -> list[tuple[str, str]]:
    m = found.n - 1
    low, high = (_unsquared(value, squared) for value in (found.smallest, found.largest))
    scale = "squared dissimilarities" if squared else "dissimilarities"
    return [
        (scale, f"{significant(low)} to {significant(high)}"),
        ("negative, zero", f"{count(found.negative_entries)} and {count(found.zero_pairs)} pairs"),
        ("duplicate objects", count(found.duplicate_objects)),
        ("Euclidean?", "yes" if found.euclidean else "no"),
        (
            "eigenvalues of B",
            f"{count(found.positive_eigenvalues)} positive, {count(found.negative_eigenvalues)} "
            f"negative, {count(found.zero_eigenvalues)} zero of {count(m)}; "
            f"from {significant(found.largest_eigenvalue)} to "
            f"{significant(found.smallest_eigenvalue)}",
        ),
        ("negative share (NEF)", f"{percent(found.negative_share)} of the sum of sizes"),
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


def _suggestion(found: Inspection) -> str:
    if found.clear_edge:
        return str(found.suggested_k)
    if not sum(found.beyond_noise):
        return "none: with so few objects nothing stands out of noise"
    return f"at least {found.suggested_k}: there is no clear edge"


def _advice(found: Inspection, file: str) -> str:
    parts: list[Any] = []
    if found.euclidean:
        parts.append("Classical MDS and neucmds agree on this matrix: nothing is lost.")
    else:
        parts.append(
            f"Classical MDS would drop {percent(found.negative_share)} of the spectrum, its "
            "negative part; the other methods keep what matters of it."
        )
    if found.clear_edge:
        parts.append(f"Next: neucmds embed {file} -k {found.suggested_k}")
    else:
        parts.append(f"Choose k by the STRESS you can afford. Next: neucmds curve {file}")
    return " ".join(parts)
