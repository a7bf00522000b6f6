"""Edit distance as vectors of 128 numbers: the measures of NeuroSEED and of CNN-ED.

    python benchmarks/scoreboard/edit_vectors.py --words FILE [--only SET …] [--method METHOD …]

Measures of NeuroSEED (Corso et al., "Neural distance embeddings for biological sequences", NeurIPS
2021; github.com/gcorso/NeuroSEED). RMSE is that of d̂ over pairs of two sequences, in % of the
longest sequence, as in edit_distance/task/dataset.py. Top-1 and top-10, as in
closest_string/test.py: of the queries of which one reference alone is the closest
(dataset_generator_genomic.py leaves out the others), the share whose closest one has at most 1 or
10 references at its d̂ or below, itself counted. `PUBLISHED` is what tutorial/edit_real.PNG and
tutorial/closest_real.png print, on Qiita (16S, up to 152 letters) and, RMSE alone, RT988 (up to 465
letters): other data; of the distances there, the hyperbolic has the least RMSE on Qiita, and the
cosine of the Transformer the most top-1. `CLOSEST` is what tutorial/closest_synthetic.png prints,
`PAIRS` what edit_synthetic.PNG does.

Amplicons: the 18S sequences of strings.py. 1,000 are landmarks; 1,000 references and 1,000 queries
are placed by their distances to these, and only these.

Synthetic: the closest-string task, with the parameters of
closest_string/task/dataset_generator_synthetic.py: of 10,000 references of 1,024 letters, 200 are
random and every other is a copy of an earlier one with 50 to 599 mutations, as is each of 1,000
queries. 1,000 random references are landmarks. `--only synthetic --references 1000` adds the easier
task in which all references are landmarks.

Pairs: the approximation of edit distances, with the parameters of
edit_distance/task/dataset_generator_synthetic.py: batches of 50 sequences of 1,024 letters, a
random one and copies of earlier ones with 1 + Geometric(13/1024) mutations; RMSE of the pairs
within a batch. 20 batches are landmarks, standing for 1,400 of training, and 40 of the 400 for
tests are placed by these: no landmark is akin to them.

The draws of both are ours, by the same rules; the k-mers of the paper are run on them. 4-mers come
close to its figures, 6-mers find 2.4 % more.

Words: the 122,823 words of data/word in github.com/xinyandai/string-embed (Dai et al.,
"Convolutional embedding for edit distance", SIGIR 2020). As its README calls for, 1,000 are
queries, 1,000 are for learning (our landmarks), and all others are searched. The measure is that of
utils.py there: the share of the nearest 1, 10 or 100 words among so many of least d̂. Many words
are equally near; the nearest are the first of these in the order of the draw, and "edit distance"
ranks by d itself with ties in a random order. The paper has no figures for this set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import strings

import measure
from neucmds import Embedding, LandmarkNeucMDS

with measure.needed("rapidfuzz"):
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist as compare

RECORD = measure.RECORDS / "edit_vectors.json"
K, LANDMARKS, REFERENCES = 128, 1000, 1000
# Qiita: RMSE in %, top-1 and top-10 in %; RT988: RMSE in %.
PUBLISHED = {
    "4-mer (256 numbers), cosine": (6.006, 43.8, 66.9, 1.790),
    "5-mer (1024 numbers), cosine": (5.027, 45.9, 69.6, 1.409),
    "Transformer, cosine": (2.61, 51.3, 84.5, 0.49),
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
# Pairs: RMSE in % of the cosine distance.
PAIRS = {
    "4-mer (256 numbers), cosine": 3.74,
    "linear, cosine": 4.77,
    "CNN, cosine": 4.18,
    "Transformer, cosine": 4.51,
    "GAT, cosine": 4.45,
}
# The word lengths and metrics of k-mers by set; words of 4 letters have 456,976 counts.
KMERS = {
    "amplicons": ((4, "cosine"), (4, "cityblock")),
    "synthetic": ((4, "cosine"), (6, "cosine")),
    "pairs": ((4, "cosine"),),
    "words": ((2, "cosine"),),
}
SETS = tuple(KMERS)
METHODS = ("k-mers", *strings.LOSSES)
LETTERS, INITIALS, FEWEST, MOST = 1024, 200, 50, 600
QUERIES = 1000
BATCH, MEAN_SHARE, TRAINED, TESTED = 50, 13 / 1024, 20, 40
# Of words: so many of the nearest, sought among so many of least d̂.
SOUGHT = ((1, 1), (1, 16), (10, 16), (10, 128), (100, 128), (100, 1024))
# Queries that are ranked at once.
PART = 100
Row = dict[str, Any]


def mutated(
    sequence: np.ndarray, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Return a mutated copy: a letter drawn anew counts 1, one taken out and one put in 2."""
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


def text_of(sequence: np.ndarray) -> str:
    return "".join("ACGT"[i] for i in sequence)


def synthetic(references: int) -> strings.Data:
    """Draw the strings of the closest-string task, and compare them."""
    rng = np.random.default_rng(0)
    drawn = list(rng.integers(0, 4, (INITIALS, LETTERS), dtype=np.uint8))
    while len(drawn) < references + QUERIES:
        source = drawn[rng.integers(min(len(drawn), references))]
        drawn.append(mutated(source, rng, int(rng.integers(FEWEST, MOST))))
    texts = [text_of(one) for one in drawn]
    order = rng.permutation(references)
    fitted = [texts[i] for i in order]
    return compared("synthetic", fitted, texts[references:])


def batch(rng: np.random.Generator) -> list[str]:
    """Draw a batch of related strings."""
    drawn = [rng.integers(0, 4, LETTERS, dtype=np.uint8)]
    while len(drawn) < BATCH:
        source = drawn[rng.integers(len(drawn))]
        drawn.append(mutated(source, rng, 1 + int(rng.geometric(MEAN_SHARE))))
    return [text_of(one) for one in drawn]


def words(path: Path) -> strings.Data:
    texts = sorted(set(path.read_text(encoding="utf-8").split()))
    order = np.random.default_rng(0).permutation(len(texts))
    texts = [texts[i] for i in order]
    return compared("words", texts[QUERIES:], texts[:QUERIES])


def compared(name: str, fitted: list[str], wanted: list[str]) -> strings.Data:
    """Return strings with the edit distances of queries and of landmarks to all fitted ones."""
    truth = compare_all(wanted, fitted)
    return strings.Data(
        name, fitted, wanted, truth, compare_all(fitted[:LANDMARKS], fitted)
    )


def compare_all(left: list[str], right: list[str]) -> np.ndarray:
    return compare(left, right, scorer=Levenshtein.distance, dtype=np.int16)


def measures(
    fitted: Callable[[slice], np.ndarray], d: np.ndarray, longest: int
) -> Row:
    """RMSE in % of the longest sequence; how often the one closest reference comes first."""
    sq_errors = 0.0
    ranks = []
    for start in range(0, len(d), PART):
        part = slice(start, start + PART)
        true = d[part]
        d_hat = fitted(part)
        sq_errors += squared_errors(d_hat, true)
        alone = np.sum(true == true.min(axis=1, keepdims=True), axis=1) == 1
        closest = np.argmin(true, axis=1)[:, None]
        bound = np.take_along_axis(d_hat, closest, axis=1)
        ranks.append(np.sum(d_hat <= bound, axis=1)[alone])
    rank = np.concatenate(ranks)
    return {
        "queries": len(rank),
        "rmse": percent(sq_errors, d.size, longest),
        "top_1": 100 * float(np.mean(rank <= 1)),
        "top_10": 100 * float(np.mean(rank <= 10)),
    }


def squared_errors(d_hat: np.ndarray, true: np.ndarray) -> float:
    return float(np.sum((np.maximum(d_hat, 0) - true) ** 2))


def percent(sq_errors: float, count: int, longest: int) -> float:
    return 100 / longest * float(np.sqrt(sq_errors / count))


def recalls(
    fitted: Callable[[slice], np.ndarray], d: np.ndarray, longest: int
) -> Row:
    """RMSE in % of the longest word; the shares of the nearest among those of least d̂."""
    sq_errors = 0.0
    shares = np.zeros(len(SOUGHT))
    for start in range(0, len(d), PART):
        part = slice(start, start + PART)
        d_hat = fitted(part)
        sq_errors += squared_errors(d_hat, d[part])
        for true, made in zip(d[part], d_hat, strict=True):
            nearest = np.argsort(true, kind="stable")
            ranked = np.argsort(made, kind="stable")
            shares += [
                np.isin(nearest[:k], ranked[:among]).mean()
                for k, among in SOUGHT
            ]
    return {
        "queries": len(d),
        "rmse": percent(sq_errors, d.size, longest),
        "recall": (shares / len(d)).tolist(),
    }


MEASURES = {"amplicons": measures, "synthetic": measures, "words": recalls}


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


def estimator(loss: str) -> LandmarkNeucMDS:
    return LandmarkNeucMDS(
        K, loss=loss, landmarks=np.arange(LANDMARKS), random_state=0
    )


def described(name: str, references: int, method: str, numbers: int) -> Row:
    return {
        "data": name,
        "references": references,
        "method": method,
        "numbers": numbers,
    }


def rows(
    data: strings.Data, chosen: slice, methods: list[str]
) -> Iterator[Row]:
    """Measure methods on the chosen references, given by their places among the fitted."""
    # The landmarks come first among the fitted.
    known = data.table.T
    wanted = data.truth[:, :LANDMARKS].astype(float)
    d = data.truth[:, chosen]
    longest = max(map(len, data.fitted + data.wanted))
    measured = MEASURES[data.name]
    for size, metric in KMERS[data.name] if "k-mers" in methods else ():
        queries, references = np.split(
            counts(data.wanted + data.fitted[chosen], size), [len(data.wanted)]
        )
        fitted = scaled(queries, references, metric, d)
        yield {
            **described(
                data.name,
                d.shape[1],
                f"{size}-mer, {metric}",
                queries.shape[1],
            ),
            "distances": 0,
            **measured(fitted, d, longest),
        }
    if measured is recalls and "k-mers" in methods:
        order = np.random.default_rng(1).uniform(0, 0.1, d.shape[1])
        exact = {
            **described(data.name, d.shape[1], "edit distance", 0),
            "distances": d.shape[1],
        }
        found = measured(lambda part: d[part] + order, d, longest)
        yield exact | found | {"rmse": 0.0}
    for loss in (one for one in strings.LOSSES if one in methods):
        begin = time.process_time()
        est = estimator(loss).fit(known[:LANDMARKS].astype(float))
        references = est.transform(known[chosen].astype(float))
        queries = est.transform(wanted)
        seconds = time.process_time() - begin
        emb = est.landmark_result_
        fitted = partial(apart, emb, queries, references)
        yield {
            **described(data.name, d.shape[1], f"neucmds, {loss}", K),
            "distances": LANDMARKS,
            "signature": list(emb.signature),
            "cpu_seconds": seconds,
            **measured(fitted, d, longest),
        }


def apart(
    emb: Embedding, queries: np.ndarray, references: np.ndarray, part: slice
) -> np.ndarray:
    """Return d̂ of a part of the queries and all references; below zero where D̂ is."""
    sq_fit = emb.between(queries[part], references, squared=True)
    return np.sign(sq_fit) * np.sqrt(np.abs(sq_fit))


def scaled(
    queries: np.ndarray, references: np.ndarray, metric: str, d: np.ndarray
) -> Callable[[slice], np.ndarray]:
    """Return distances of counts, with the scale of least RMSE."""
    measured = partial(cdist, metric=metric)
    if metric == "cosine":
        measured = cosine
        queries, references = unit(queries), unit(references)
    sums = np.zeros(2)
    for start in range(0, len(d), PART):
        part = slice(start, start + PART)
        made = measured(queries[part], references)
        sums += np.sum(made * d[part]), np.sum(made**2)
    scale = sums[0] / sums[1]
    return lambda part: scale * measured(queries[part], references)


def unit(x: np.ndarray) -> np.ndarray:
    """Return rows of length one, and rows of zeros as they are."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.maximum(lengths, 1e-9)


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the cosine distance of rows of length one."""
    return 1 - x @ y.T


def pairs(methods: list[str]) -> Iterator[Row]:
    """Measure the approximation of edit distances within batches that no landmark is akin to."""
    rng = np.random.default_rng(0)
    trained = [one for _ in range(TRAINED) for one in batch(rng)]
    tested = [batch(rng) for _ in range(TESTED)]
    every = [one for texts in tested for one in texts]
    within = np.array([compare_all(texts, texts) for texts in tested])
    count = within.size - TESTED * BATCH
    for size, metric in KMERS["pairs"] if "k-mers" in methods else ():
        words = np.split(counts(every, size), TESTED)
        made = np.array([cdist(one, one, metric) for one in words])
        scale = np.sum(made * within) / np.sum(made**2)
        yield {
            **described(
                "pairs", BATCH, f"{size}-mer, {metric}", words[0].shape[1]
            ),
            "distances": 0,
            "rmse": percent(
                squared_errors(scale * made, within), count, LETTERS
            ),
        }
    table = compare_all(trained, trained).astype(float)
    known = compare_all(every, trained).astype(float)
    for loss in (one for one in strings.LOSSES if one in methods):
        begin = time.process_time()
        est = estimator(loss).fit(table)
        placed = est.transform(known)
        seconds = time.process_time() - begin
        emb = est.landmark_result_
        errors = [
            squared_errors(apart(emb, texts, texts, slice(None)), true)
            for texts, true in zip(
                np.split(placed, TESTED), within, strict=True
            )
        ]
        yield {
            **described("pairs", BATCH, f"neucmds, {loss}", K),
            "distances": LANDMARKS,
            "signature": list(emb.signature),
            "cpu_seconds": seconds,
            "rmse": percent(sum(errors), count, LETTERS),
        }


def load(name: str, given: argparse.Namespace) -> tuple[strings.Data, slice]:
    """Return a set, and which of its fitted strings are the references."""
    if name == "synthetic":
        return synthetic(given.references), slice(0, None)
    if name == "words":
        return words(given.words), slice(LANDMARKS, None)
    fitted, wanted = strings.drawn("amplicons", given.fasta)
    used = LANDMARKS + REFERENCES
    return compared(name, fitted[:used], wanted), slice(LANDMARKS, used)


def key(row: Row) -> tuple[Any, ...]:
    return row["data"], row["references"], row["method"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument(
        "--method", nargs="+", choices=METHODS, default=METHODS
    )
    parser.add_argument("--fasta", type=Path, default=strings.FASTA)
    parser.add_argument("--words", type=Path, help="data/word of string-embed")
    parser.add_argument("--references", type=int, default=10_000)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    if "words" in given.only and given.words is None:
        parser.error("--words FILE names data/word of string-embed")
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
    record["published_pairs"] = [
        {"method": method, "rmse": rmse} for method, rmse in PAIRS.items()
    ]
    for name in given.only:
        made = (
            pairs(given.method)
            if name == "pairs"
            else rows(*load(name, given), given.method)
        )
        for row in made:
            print(row, flush=True)
            others = [one for one in record["rows"] if key(one) != key(row)]
            record["rows"] = [*others, row]
            record["machine"] = measure.machine()
            record["versions"] = measure.versions("numpy", "rapidfuzz")
            measure.write_record(given.record, record)


if __name__ == "__main__":
    main()
