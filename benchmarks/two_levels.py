"""Two levels of landmarks: strings by edit distance, as few of them as possible.

    NEUCMDS_DATA=… python benchmarks/two_levels.py [smiles] [amplicons] [--fasta FILE]
        [--record FILE]

SMILES are the 4,900 of `benchmarks/retrieval.py`, amplicons 8,300 different sequences drawn from
BioMarKs50k.fsa.gz of Debian's vsearch-examples; k = 32, relative loss. 4,000 (8,000) strings are
fitted, the others are queries. Recall is the share of the ten nearest fitted strings kept, ties
counted, by D̂ alone and when the best 50 are ranked by edit distance. Distances are counted by the
function that computes them. Beside: as many landmarks in one level. It needs rapidfuzz.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np

import real_data
from measure import machine, versions, write_record
from neucmds import LandmarkNeucMDS
from neucmds._methods.geometry import sq_dissimilarities

K = 32
FASTA = Path("/usr/share/doc/vsearch-examples/BioMarKs50k.fsa.gz")


class Edits:
    """Edit distance between strings known by their numbers; counts itself."""

    def __init__(self, strings: list[str]) -> None:
        self.strings, self.calls = strings, 0

    def __call__(self, a: Any, b: Any) -> float:
        """Compare two rows, each a number."""
        from rapidfuzz.distance import Levenshtein

        self.calls += 1
        return float(Levenshtein.distance(self.strings[int(a[0])], self.strings[int(b[0])]))


def smiles(_: Path) -> tuple[list[str], int]:
    """Read the strings, and say how many are fitted."""
    folder = real_data.data_folders(None, "strings")[-1]
    return (folder / "nci_smiles.txt").read_text(encoding="utf-8").split(), 4000


def amplicons(fasta: Path) -> tuple[list[str], int]:
    """Draw sequences of a FASTA file, each once."""
    with gzip.open(fasta, "rt") as lines:
        parts = "".join("\n" if line[0] == ">" else line.strip() for line in lines).split()
    return sorted(set(parts)), 8000


CASES = {"smiles": (smiles, 4900), "amplicons": (amplicons, 8300)}


def recall(x: np.ndarray, placed: np.ndarray, signs: np.ndarray, truth: np.ndarray) -> Any:
    """Share of the ten nearest that are kept: by D̂, and of the best 50 by D̂."""
    raw, ranked = [], []
    for row, true in zip(sq_dissimilarities(placed, x, signs), truth, strict=True):
        order, tenth = np.argsort(row, kind="stable"), np.sort(true)[9]
        raw.append(np.mean(true[order[:10]] <= tenth))
        ranked.append(min(10, int(np.sum(true[order[:50]] <= tenth))) / 10)
    kept = {"recall10": raw, "of_best_50": ranked}
    return {name: round(float(np.mean(shares)), 4) for name, shares in kept.items()}


def study(name: str, fasta: Path) -> list[dict[str, Any]]:
    """Fit and place one set of strings, in two levels and in one."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    read, count = CASES[name]
    strings, n = read(fasta)
    strings = [strings[i] for i in np.random.default_rng(0).permutation(len(strings))[:count]]
    truth = cdist(strings[n:], strings[:n], scorer=Levenshtein.distance, workers=-1)
    fitted, queries = np.split(np.arange(count, dtype=float)[:, None], [n])
    rows = []
    for what, settings in (("two levels", {"n_near": None}), ("one level", {"n_landmarks": 288})):
        edits, start = Edits(strings), time.perf_counter()
        est = LandmarkNeucMDS(K, metric=edits, loss="relative", random_state=0, **settings)
        x = est.fit_transform(fitted)
        taken, calls = time.perf_counter() - start, edits.calls
        placed = est.transform(queries)
        row = {
            "data": name,
            "what": what,
            "fitted": n,
            "landmarks": int(est.landmarks_.size),
            "signature": list(est.landmark_result_.signature),
            "seconds": round(taken, 1),
            "distances_per_object": round(calls / n, 1),
            "distances_per_query": round((edits.calls - calls) / len(queries), 1),
            **recall(x, placed, np.asarray(est.signature_), truth),
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=list(CASES))
    parser.add_argument("--fasta", type=Path, default=FASTA)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    before = machine()
    rows = [row for name in arguments.cases for row in study(name, arguments.fasta)]
    record = {
        "machine": before,
        "versions": versions("numpy", "scipy", "rapidfuzz"),
        "k": K,
        "rows": rows,
    }
    if arguments.record is not None:
        write_record(arguments.record, record)


if __name__ == "__main__":
    main()
