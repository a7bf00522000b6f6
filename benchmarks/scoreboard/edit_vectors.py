"""Edit distance as vectors of 128 numbers: the measures of NeuroSEED on 18S amplicons.

    python benchmarks/scoreboard/edit_vectors.py [--cache FOLDER]

Corso et al., "Neural distance embeddings for biological sequences" (NeurIPS 2021), measure the RMSE
of the edit distance in % of the longest sequence, and how often the closest of 1,000 references
is among the first, or the first ten, for 1,000 queries. `PUBLISHED` is what tutorial/edit_real.PNG
and tutorial/closest_real.png of github.com/gcorso/NeuroSEED print for the hyperbolic distance, the
cosine of k-mers, on Qiita (16S, up to 152 letters) and, RMSE alone, RT988 (up to 465 letters):
other data.

The sequences are those of strings.py. 1,000 are landmarks; 1,000 references and 1,000 queries are
placed by their distances to these, and only these. What differs beside the data: their encoders
read the sequence alone, and need no edit distance of it. The k-mer baseline of the paper, counts
of 4 letters at the cosine or Manhattan distance with the scale of least RMSE, is run here too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import strings

import measure
from neucmds import LandmarkNeucMDS

RECORD = measure.RECORDS / "edit_vectors.json"
K, LANDMARKS, REFERENCES = 128, 1000, 1000
# Qiita: RMSE in %, top-1 and top-10 in %; RT988: RMSE in %.
PUBLISHED = {
    "4-mer (256 numbers), cosine": (6.006, 43.8, 66.9, 1.790),
    "linear, hyperbolic": (2.50, 43.2, 71.4, 0.51),
    "MLP, hyperbolic": (1.85, 43.4, 78.2, 0.59),
    "CNN, hyperbolic": (1.56, 50.1, 85.9, 0.59),
    "Transformer, hyperbolic": (1.83, 49.5, 84.0, 0.46),
    "GAT, hyperbolic": (1.86, 48.8, 84.5, 0.45),
}
Row = dict[str, Any]


def measures(d_hat: np.ndarray, d: np.ndarray, longest: int) -> Row:
    """RMSE in % of the longest sequence; how often a closest reference comes first."""
    order = np.argsort(d_hat, axis=1, kind="stable")[:, :10]
    closest = np.take_along_axis(d, order, axis=1) == d.min(
        axis=1, keepdims=True
    )
    return {
        "rmse": float(100 / longest * np.sqrt(np.mean((d_hat - d) ** 2))),
        "top_1": float(100 * closest[:, 0].mean()),
        "top_10": float(100 * closest.any(axis=1).mean()),
    }


def counts(sequences: list[str], size: int = 4) -> np.ndarray:
    """How often each word of so many letters is in each sequence."""
    letters = sorted(set("".join(sequences)))
    places = {
        "".join(word): i
        for i, word in enumerate(itertools.product(letters, repeat=size))
    }
    found = np.zeros((len(sequences), len(places)))
    for row, one in zip(found, sequences, strict=True):
        for start in range(len(one) - size + 1):
            row[places[one[start : start + size]]] += 1
    return found


def rows(data: strings.Data) -> list[Row]:
    # The landmarks come first among the fitted; references follow them.
    chosen = slice(LANDMARKS, LANDMARKS + REFERENCES)
    known = data.table.T.astype(float)
    wanted = data.truth[:, :LANDMARKS].astype(float)
    d = data.truth[:, chosen].astype(float)
    longest = max(map(len, data.fitted + data.wanted))
    made = []
    for loss in strings.LOSSES:
        begin = time.perf_counter()
        est = LandmarkNeucMDS(
            K, loss=loss, landmarks=np.arange(LANDMARKS), random_state=0
        )
        est.fit(known)
        references, queries = (
            est.transform(known[chosen]),
            est.transform(wanted),
        )
        seconds = time.perf_counter() - begin
        sq_fit = est.landmark_result_.between(
            queries, references, squared=True
        )
        row = {
            "method": f"neucmds, {loss}",
            "numbers": K,
            "distances": LANDMARKS,
        }
        row |= {
            "signature": list(est.landmark_result_.signature),
            "seconds": seconds,
        }
        made.append(row | measures(np.sqrt(np.maximum(sq_fit, 0)), d, longest))
        print(made[-1], flush=True)
    for metric in ("cosine", "cityblock"):
        words = counts(data.fitted[chosen] + data.wanted)
        apart = cdist(words[REFERENCES:], words[:REFERENCES], metric)
        scaled = apart * (np.sum(apart * d) / np.sum(apart**2))
        row = {
            "method": f"4-mer, {metric}",
            "numbers": words.shape[1],
            "distances": 0,
        }
        made.append(row | measures(scaled, d, longest))
        print(made[-1], flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fasta", type=Path, default=strings.FASTA)
    parser.add_argument("--cache", type=Path, help="folder of edit distances")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    data = strings.load("amplicons", given.fasta, given.cache)
    names = ("qiita_rmse", "qiita_top_1", "qiita_top_10", "rt988_rmse")
    published = [
        {"method": method, **dict(zip(names, values, strict=True))}
        for method, values in PUBLISHED.items()
    ]
    facts = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "rapidfuzz"),
    }
    measure.write_record(
        given.record, facts | {"published": published, "rows": rows(data)}
    )


if __name__ == "__main__":
    main()
