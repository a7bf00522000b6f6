"""Isomap's last step by classical MDS and by coordinates with signs, on the same geodesics.

    python benchmarks/isomap.py     prints the table, writes records/isomap.json; five minutes

A swiss roll with a hole (1,500 points, 8 neighbours) and the digits (1,797 images, 5 neighbours).
Everything is measured against the lengths of shortest paths in the graph of neighbours, which both
have in common: STRESS, the relative error of a geodesic, and how many of the ten nearest by
geodesic are kept. Objects held out (one in five) are placed by `transform` of either, and the error
is that of their geodesics to the fitted ones.
"""

from __future__ import annotations

import os
import time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.manifold import Isomap

import measure
from neucmds import NeucIsomap
from neucmds.explore.quality import measure as quality_of
from neucmds.form import Form
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram

RECORD = measure.RECORDS / "isomap.json"
CASES = {
    "swiss roll with a hole": (
        lambda: make_swiss_roll(1500, hole=True, random_state=0)[0],
        8,
    ),
    "digits": (lambda: load_digits().data, 5),
}
KS = (2, 5, 10, 20)
FITS: dict[str, Any] = {
    "Isomap": lambda k, m: Isomap(n_neighbors=m, n_components=k),
    "NeucIsomap": lambda k, m: NeucIsomap(k, m, random_state=0),
    "NeucIsomap, relative": lambda k, m: NeucIsomap(
        k, m, loss="relative", random_state=0
    ),
}


def study(name: str) -> list[dict[str, Any]]:
    load, m = CASES[name]
    X = load()
    X = X[np.random.default_rng(0).permutation(len(X))]
    fitted, new = X[: len(X) * 4 // 5], X[len(X) * 4 // 5 :]
    geodesics = Isomap(n_neighbors=m).fit(fitted).dist_matrix_
    geodesics = (geodesics + geodesics.T) / 2
    gram = DenseGram(geodesics**2)
    to_fitted = np.sqrt(
        NeucIsomap(1, m, method="classical")
        .fit(fitted)
        ._sq_dissimilarities(new)
    )
    rows = []
    for k in KS:
        for method, make in FITS.items():
            start = time.perf_counter()
            est = make(k, m).fit(fitted)
            seconds = time.perf_counter() - start
            x = est.embedding_
            signs = getattr(est, "signs_", np.ones(x.shape[1]))
            found = quality_of(Dense(gram), x, Form(signs))
            placed = est.transform(new)
            sq = (placed**2) @ signs
            d_hat = (
                sq[:, None]
                + ((x**2) @ signs)[None, :]
                - 2 * (placed * signs) @ x.T
            )
            errors = (
                np.abs(np.sqrt(np.maximum(d_hat, 0)) - to_fitted) / to_fitted
            )
            rows.append(
                {
                    "data": name,
                    "k": k,
                    "method": method,
                    "signature": [
                        int(np.sum(signs > 0)),
                        int(np.sum(signs < 0)),
                    ],
                    "normalized_stress": found.normalized_stress,
                    "geodesic_error": found.relative_error_mean,
                    "neighbors_kept": found.neighbors_kept,
                    "geodesic_error_held_out": float(errors.mean()),
                    "seconds": seconds,
                }
            )
            print(
                {
                    a: round(v, 5) if isinstance(v, float) else v
                    for a, v in rows[-1].items()
                }
            )
    return rows


def main() -> None:
    rows = [row for name in CASES for row in study(name)]
    record = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scikit-learn"),
        "rows": rows,
    }
    measure.write_record(RECORD, record)


if __name__ == "__main__":
    main()
