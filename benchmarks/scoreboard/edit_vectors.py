"""Edit distance as vectors of 128 numbers: the measures of NeuroSEED, on three sets of strings.

    python benchmarks/scoreboard/edit_vectors.py [--cache FOLDER] [--words FILE] [--only SET]

Corso et al., "Neural distance embeddings for biological sequences" (NeurIPS 2021), measure the RMSE
of the edit distance in % of the longest sequence, and how often the closest of 1,000 references is
among the first, or the first ten, for 1,000 queries. `PUBLISHED` is what tutorial/edit_real.PNG and
tutorial/closest_real.png of github.com/gcorso/NeuroSEED print for the hyperbolic distance, the
cosine of k-mers, on Qiita (16S, up to 152 letters) and, RMSE alone, RT988 (up to 465 letters):
other data.

Amplicons: the 18S sequences of strings.py. 1,000 are landmarks; 1,000 references and 1,000 queries
are placed by their distances to these, and only these. What differs beside the data: their encoders
read the sequence alone, and need no edit distance of it. The k-mer baseline of the paper, counts of
4 letters at the cosine or Manhattan distance with the scale of least RMSE, is run here too.

Synthetic: the closest-string task of the paper, with the parameters of that repository's
closest_string/task/dataset_generator_synthetic.py: of 10,000 references of 1,024 letters, 200 are
random and every other is a copy of an earlier one with 50 to 599 mutations, as is each of 1,000
queries. The draws are ours, and `--references` may ask for fewer. 1,000 random references are
landmarks. `CLOSEST` is what tutorial/closest_synthetic.png prints.

Words: the 122,822 words of data/word in github.com/xinyandai/string-embed (Dai et al.,
"Convolutional embedding for edit distance", SIGIR 2020). As its README calls for, 1,000 are
queries, 1,000 are for learning (our landmarks), and all others are searched. The paper has no
figures for this set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist as compare
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
# Synthetic: top-1 and top-10 in % of the cosine distance.
CLOSEST = {
    "4-mer (256 numbers), cosine": (70.0, 83.3),
    "6-mer (4096 numbers), cosine": (94.0, 98.0),
    "linear, cosine": (93.4, 99.9),
    "CNN, cosine": (79.8, 91.5),
    "Transformer, cosine": (95.1, 100.0),
    "GAT, cosine": (95.2, 100.0),
}
# The word lengths and metrics of k-mers by set; words of 4 letters have 456,976 counts.
WORD = {"amplicons": 4, "synthetic": 4, "words": 2}
METRICS = {
    "amplicons": ("cosine", "cityblock"),
    "synthetic": ("cosine",),
    "words": ("cosine",),
}
SETS = tuple(METRICS)
LETTERS, INITIALS, FEWEST, MOST = 1024, 200, 50, 600
QUERIES = 1000
# Queries that are ranked at once.
PART = 100
Row = dict[str, Any]


def mutated(
    sequence: np.ndarray, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Return a copy with so many mutations: a letter replaced (1), or one moved elsewhere (2)."""
    made = sequence.tolist()
    while count > 0:
        place = int(rng.integers(len(made)))
        letter = int(rng.integers(4))
        if rng.random() < 0.5:
            made[place] = letter
            count -= 1
        else:
            made.pop(place)
            made.insert(int(rng.integers(len(made) + 1)), letter)
            count -= 2
    return np.array(made, dtype=np.uint8)


def synthetic(references: int) -> strings.Data:
    """Draw the strings of the closest-string task, and compare them."""
    rng = np.random.default_rng(0)
    drawn = list(rng.integers(0, 4, (INITIALS, LETTERS), dtype=np.uint8))
    while len(drawn) < references + QUERIES:
        source = drawn[rng.integers(min(len(drawn), references))]
        drawn.append(mutated(source, rng, int(rng.integers(FEWEST, MOST))))
    texts = ["".join("ACGT"[i] for i in one) for one in drawn]
    order = rng.permutation(references)
    fitted = [texts[i] for i in order]
    return compared("synthetic", fitted, texts[references:])


def words(path: Path) -> strings.Data:
    texts = sorted(set(path.read_text(encoding="utf-8").split()))
    order = np.random.default_rng(0).permutation(len(texts))
    texts = [texts[i] for i in order]
    return compared("words", texts[QUERIES:], texts[:QUERIES])


def compared(name: str, fitted: list[str], wanted: list[str]) -> strings.Data:
    """Return strings with the edit distances of queries and of landmarks to all fitted ones."""
    truth, table = (
        compare(rows, fitted, scorer=Levenshtein.distance, dtype=np.int16)
        for rows in (wanted, fitted[:LANDMARKS])
    )
    return strings.Data(name, fitted, wanted, truth, table)


def measures(
    fitted: Callable[[slice], np.ndarray], d: np.ndarray, longest: int
) -> Row:
    """RMSE in % of the longest sequence; how often a closest reference comes first."""
    sq_errors = 0.0
    first = 0
    among_ten = 0
    for start in range(0, len(d), PART):
        part = slice(start, start + PART)
        true = d[part]
        d_hat = fitted(part)
        sq_errors += float(np.sum((d_hat - true) ** 2))
        order = np.argsort(d_hat, axis=1, kind="stable")[:, :10]
        closest = np.take_along_axis(true, order, axis=1) == true.min(
            axis=1, keepdims=True
        )
        first += int(closest[:, 0].sum())
        among_ten += int(closest.any(axis=1).sum())
    return {
        "rmse": 100 / longest * float(np.sqrt(sq_errors / d.size)),
        "top_1": 100 * first / len(d),
        "top_10": 100 * among_ten / len(d),
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


def rows(data: strings.Data, chosen: slice) -> list[Row]:
    """Measure every method on the chosen references, given by their places among the fitted."""
    # The landmarks come first among the fitted.
    known = data.table.T
    wanted = data.truth[:, :LANDMARKS].astype(float)
    d = data.truth[:, chosen]
    longest = max(map(len, data.fitted + data.wanted))
    made = []
    for loss in strings.LOSSES:
        begin = time.process_time()
        est = LandmarkNeucMDS(
            K, loss=loss, landmarks=np.arange(LANDMARKS), random_state=0
        )
        est.fit(known[:LANDMARKS].astype(float))
        references = est.transform(known[chosen].astype(float))
        queries = est.transform(wanted)
        seconds = time.process_time() - begin
        fitted = est.landmark_result_
        row = {
            "data": data.name,
            "references": len(references),
            "method": f"neucmds, {loss}",
            "numbers": K,
            "distances": LANDMARKS,
            "signature": list(fitted.signature),
            "cpu_seconds": seconds,
        }
        made.append(
            row
            | measures(partial(apart, est, queries, references), d, longest)
        )
        print(made[-1], flush=True)
    for metric in METRICS[data.name]:
        made.append(by_words(data, chosen, metric, longest))
        print(made[-1], flush=True)
    return made


def apart(
    est: LandmarkNeucMDS,
    queries: np.ndarray,
    references: np.ndarray,
    part: slice,
) -> np.ndarray:
    """Return d̂ of a part of the queries and all references."""
    sq_fit = est.landmark_result_.between(
        queries[part], references, squared=True
    )
    return np.sqrt(np.maximum(sq_fit, 0))


def by_words(
    data: strings.Data, chosen: slice, metric: str, longest: int
) -> Row:
    """Measure counts of short words, with the scale of least RMSE."""
    size = WORD[data.name]
    queries, references = np.split(
        counts(data.wanted + data.fitted[chosen], size), [len(data.wanted)]
    )
    d = data.truth[:, chosen]
    sums = np.zeros(2)
    for start in range(0, len(d), PART):
        part = slice(start, start + PART)
        apart = cdist(queries[part], references, metric)
        sums += np.sum(apart * d[part]), np.sum(apart**2)
    row = {
        "data": data.name,
        "references": len(references),
        "method": f"{size}-mer, {metric}",
        "numbers": queries.shape[1],
        "distances": 0,
    }
    return row | measures(
        lambda part: (
            cdist(queries[part], references, metric) * (sums[0] / sums[1])
        ),
        d,
        longest,
    )


def load(name: str, given: argparse.Namespace) -> tuple[strings.Data, slice]:
    """Return a set, and which of its fitted strings are the references."""
    if name == "synthetic":
        return synthetic(given.references), slice(0, None)
    if name == "words":
        return words(given.words), slice(LANDMARKS, None)
    data = strings.load("amplicons", given.fasta, given.cache)
    return data, slice(LANDMARKS, LANDMARKS + REFERENCES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--fasta", type=Path, default=strings.FASTA)
    parser.add_argument("--words", type=Path, help="data/word of string-embed")
    parser.add_argument("--references", type=int, default=10_000)
    parser.add_argument("--cache", type=Path, help="folder of edit distances")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("qiita_rmse", "qiita_top_1", "qiita_top_10", "rt988_rmse")
    record: Row = {"rows": []}
    if given.record.exists():
        record = json.loads(given.record.read_text())
    record["published"] = [
        {"method": method, **dict(zip(names, values, strict=True))}
        for method, values in PUBLISHED.items()
    ]
    record["published_synthetic"] = [
        {"method": method, "top_1": values[0], "top_10": values[1]}
        for method, values in CLOSEST.items()
    ]
    for name in given.only:
        record["machine"] = measure.machine()
        record["versions"] = measure.versions("numpy", "rapidfuzz")
        kept = [row for row in record["rows"] if row["data"] != name]
        record["rows"] = kept + rows(*load(name, given))
        measure.write_record(given.record, record)


if __name__ == "__main__":
    main()
