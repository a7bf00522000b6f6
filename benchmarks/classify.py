"""Digits classified by their neighbours: 20 numbers an image with signs, against all of D.

    python benchmarks/classify.py     prints the accuracies, writes records/classify.json

Ten-fold cross-validation on 1,797 images of digits, cityblock distances of their pixels. 5-NN on D
itself; the pipeline `KNeighborsGraph(NeucMDS(20))` and `KNeighborsClassifier` on its graph; the
same with positive coordinates only; and 5-NN that takes the signed coordinates for Euclidean ones,
which is wrong. The pipeline should be at most half a point below 5-NN on D.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import measure
from neucmds import NeucMDS
from neucmds.estimators import KNeighborsGraph

RECORD = measure.RECORDS / "classify.json"
BAR = 0.005


def by_graph(mds: NeucMDS) -> Any:
    return make_pipeline(KNeighborsGraph(mds, 5), KNeighborsClassifier(5, metric="precomputed"))


def models() -> dict[str, Any]:
    knn = KNeighborsClassifier(5)
    return {
        "5-NN on D": KNeighborsClassifier(5, metric="manhattan"),
        "20 signed coordinates, graph": by_graph(NeucMDS(20, metric="cityblock")),
        "20 positive coordinates, graph": by_graph(NeucMDS((20, 0), metric="cityblock")),
        "20 signed coordinates taken for Euclidean": make_pipeline(
            NeucMDS(20, metric="cityblock"), knn
        ),
        "20 coordinates of classical MDS": make_pipeline(
            NeucMDS(20, method="classical", metric="cityblock"), knn
        ),
    }


def main() -> None:
    X, y = load_digits(return_X_y=True)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    rows = []
    for name, model in models().items():
        scores = cross_val_score(model, X, y, cv=folds)
        rows.append({"model": name, "accuracy": float(np.mean(scores)), "folds": scores.tolist()})
        print(f"{name:45} {rows[-1]['accuracy']:.4f}", flush=True)
    print(f"{rows[1]['accuracy'] - rows[0]['accuracy']:+.4f} against D (bar {-BAR})")
    record = {"versions": measure.versions("numpy", "scikit-learn"), "rows": rows}
    measure.write_record(RECORD, record)


if __name__ == "__main__":
    main()
