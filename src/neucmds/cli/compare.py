"""``neucmds compare``: every method on the same matrix, in one table."""

from __future__ import annotations

import time

from neucmds._input import as_dissimilarity
from neucmds._input.components import Components
from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum
from neucmds.api import ALL_METHODS
from neucmds.cli.console import print_json, print_table, say, steps
from neucmds.cli.options import File, Json, Number, Squared, Symmetrize, parse_components
from neucmds.cli.tables import comparison_table
from neucmds.comparison import compare_methods
from neucmds.errors import InputError

__all__ = ["LEGEND", "compare"]

LEGEND = (
    "* best of its column. STRESS: Σ(D̂ − D)², normalised by ΣD². Distortion: 1 is perfect. "
    "Additive error: min ‖D − αD̂‖. Undefined pairs: D or D̂ not positive. "
    "Negative D̂: pairs whose squared dissimilarity comes out below zero. Seconds: on top of the "
    "spectrum, which all methods share"
)


def compare(
    file: File,
    components: Number = None,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    as_json: Json = False,
) -> None:
    """Put every method side by side."""
    with steps() as progress:
        progress.now(f"reading {file}")
        data = as_dissimilarity(file, squared=squared, symmetrize=symmetrize)
        wanted = Components.parse(parse_components(components, data.n), data.n)
        if wanted.signature is not None:
            raise InputError(
                "compare takes a number for -k: classical has no negative coordinates."
            )
        gram = DenseGram(data.values)
        progress.now(f"computing the spectrum of {data.n:,} objects")
        start = time.perf_counter()
        spectrum = full_spectrum(gram)
        spectrum_seconds = time.perf_counter() - start
        progress.begin("comparing", len(ALL_METHODS))
        rows = compare_methods(
            gram, spectrum, wanted, squared=squared, on_step=lambda m: progress.advance(m)
        )
    if as_json:
        print_json(
            {
                "command": "compare",
                "input": file,
                "n": data.n,
                "requested": wanted.total,
                "spectrum_seconds": spectrum_seconds,
                "methods": [row.as_dict() for row in rows],
            }
        )
        return
    print_table(comparison_table(f"{file}: {data.n:,} objects, k = {wanted.total}", rows))
    say(f"{LEGEND} ({spectrum_seconds:.2f} s).")
