"""Every loss and method by every measure: the record of docs/quality.md and "Which loss?".

    NEUCMDS_DATA=… python benchmarks/losses.py            all, about half an hour
    NEUCMDS_DATA=… python benchmarks/losses.py --quick    sets of up to 50 objects at k = 2 and 3
    NEUCMDS_DATA=… python benchmarks/losses.py digits     names that contain a word
    NEUCMDS_DATA=… python benchmarks/losses.py Helsinki --k 64
    NEUCMDS_DATA=… python benchmarks/losses.py relative   one loss of all sets
    NEUCMDS_DATA=… python benchmarks/losses.py --beside FOLDER --jobs 12
                                  the relative loss of today, with heights chosen, and of a checkout
                                  of 0.3.0 in a folder, twelve processes at a time; prints a verdict
    python benchmarks/losses.py --verdict                 the same verdict from the record alone
    python benchmarks/losses.py --render                  the tables from the record alone
    python benchmarks/losses.py --pages                   those of docs/guide/losses.md

Beside the losses stand classical MDS, SMACOF (scikit-learn's, best of eight starts, one above 500
objects) and, for latencies, the best matrix of rank k; with the k that docs/quality.md has of a
set, also the closed forms, both corrections, and the relative loss with its curvature. A row
replaces that which the record has of its set, k and method, and the rest stays: it can be made in
pieces, in any order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits
from sklearn.manifold import smacof

import measure
import real_data
from neucmds import datasets, ecology, neuc_mds
from neucmds.explore.quality import measure as quality_of
from neucmds.form import Form
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram

RECORD = measure.RECORDS / "losses.json"
ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "guide" / "losses.md",)
SEED = 0
CURVED = "relative, κ chosen"
RAISED = "relative, heights chosen"
EARLIER = "relative, 0.3.0"
# Eight starts, each much tighter than scikit-learn's default (300 iterations, 1e-6).
SMACOF = {
    "n_init": 8,
    "max_iter": 1000,
    "eps": 1e-8,
    "normalized_stress": False,
}
MOST_SMACOF = 500
SHORT_SMACOF = {**SMACOF, "n_init": 1, "max_iter": 300}
MAX_ITER = 500  # the default
# From so many objects on, ten nearest are few of them.
LARGE = 200


@dataclass(frozen=True)
class Case:
    """A matrix on the unsquared scale, and the numbers of coordinates to try."""

    name: str
    load: Callable[[], np.ndarray]
    ks: tuple[int, ...]
    group: str

    def on_page(self, n: int) -> int | None:
        """Return the k with which n objects have a row in docs/quality.md."""
        if self.group in ("latency", "digits", "streets"):
            return None
        return max((k for k in self.ks if k <= n // 10), default=min(self.ks))


def stored(quick: bool) -> Iterator[Case]:
    def load(name: str) -> np.ndarray:
        D = real_data.load_dissimilarity(name).dissimilarity
        return _hollow((D + D.T) / 2)

    sizes = {
        name: load(name).shape[0] for name in real_data.list_dissimilarities()
    }
    for name in sorted(sizes, key=lambda one: sizes[one]):
        if not quick:
            yield Case(name, lambda a=name: load(a), (2, 3, 5, 10), "shared")
        elif sizes[name] <= 50:
            yield Case(name, lambda a=name: load(a), (2, 3), "shared")


def others() -> Iterator[Case]:
    """Yield the paper's kinds of data, and sets that are judged by near pairs."""

    def root(load: Callable[[], np.ndarray]) -> np.ndarray:
        return _hollow(np.sqrt(np.maximum(load(), 0)))

    for family in (genomics, images, synthetic):
        for name, load, k in family():
            yield Case(name, lambda a=load: root(a), (k,), family.__name__)
    yield Case("planetlab490", _latency, (5, 10), "latency")
    yield Case("digits 5-NN hops", _digits, (10, 20), "digits")
    yield Case("Helsinki streets", _streets, (8, 16, 32, 64), "streets")


def synthetic() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    yield (
        "random-simplex",
        lambda: datasets.random_simplex(1000, random_state=SEED),
        100,
    )
    yield (
        "euclidean-ball",
        lambda: datasets.euclidean_ball(1000, random_state=SEED),
        100,
    )
    yield (
        "euclidean-ball k=20",
        lambda: datasets.euclidean_ball(1000, random_state=SEED),
        20,
    )


def images() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    def hops(name: str, neighbors: int) -> np.ndarray:
        pixels = real_data.load_images(name, n=1000).images
        return real_data.wrapped_hops(pixels, neighbors).astype(float) ** 2

    for name in ("mnist", "fashion_mnist", "cifar10"):
        for neighbors in (2, 10):
            yield (
                f"{name} {neighbors}-NN",
                lambda a=name, b=neighbors: hops(a, b),
                100,
            )


def genomics() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    def affinities(name: str) -> np.ndarray:
        return (
            real_data.entropic_affinities(
                real_data.load_genomics(name).values, 30
            )
            ** 2
        )

    for name in (
        "breast_colon_chowdary",
        "leukemia_chiaretti",
        "lung_gordon",
        "sarcoma_nakayama",
        "tox_171",
    ):
        yield name, lambda a=name: affinities(a), 20


def _digits() -> np.ndarray:
    return datasets.hop_distances(
        load_digits().data, n_neighbors=5, connect=True
    ).astype(float)


def _latency() -> np.ndarray:
    return _hollow(
        np.load(_file("latency", "planetlab490.npz"))["D"].astype(float)
    )


def _streets() -> np.ndarray:
    """Shortest ways between all crossings of central Helsinki, in metres."""
    content = np.load(_file("networks", "helsinki.npz"))
    edges, nodes = content["edges"], content["xy"].shape[0]
    graph = coo_array(
        (content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes)
    )
    crossings = content["crossings"]
    ways = dijkstra(graph.tocsr(), directed=False, indices=crossings)[
        :, crossings
    ]
    return _hollow((ways + ways.T) / 2)


def _file(folder: str, name: str) -> Path:
    for home in real_data.data_folders(None, folder):
        if (Path(home) / name).exists():
            return Path(home) / name
    raise SystemExit(f"{folder}/{name} is not in $NEUCMDS_DATA")


def _hollow(D: np.ndarray) -> np.ndarray:
    D = D.astype(float)
    np.fill_diagonal(D, 0)
    return D


def measures(D: np.ndarray, fitted: np.ndarray) -> dict[str, float | int]:
    """Compare D and D̂ (the latter squared, maybe negative) on both scales."""
    upper = np.triu_indices(D.shape[0], 1)
    d, sq_fit = D[upper], fitted[upper]
    fit = np.sqrt(np.maximum(sq_fit, 0))
    error = np.abs(fit[d > 0] / d[d > 0] - 1)
    squared = np.sum((sq_fit - d**2) ** 2)
    return {
        "stress": float(2 * squared),
        "r2": float(1 - squared / np.sum((d**2 - np.mean(d**2)) ** 2)),
        "raw_stress": float(np.sum((fit - d) ** 2)),
        "mean_error": float(error.mean()),
        "median_error": float(np.median(error)),
        "p95_error": float(np.quantile(error, 0.95)),
        "p99_error": float(np.quantile(error, 0.99)),
        "recall_10": nearest_kept(D, fitted, min(10, D.shape[0] - 1)),
        "negative_pairs": int(np.sum(sq_fit < 0)),
    }


def nearest_kept(D: np.ndarray, fitted: np.ndarray, m: int) -> float:
    """Share of the m nearest by D̂ that are among the m nearest by D, ties counted."""
    D, fitted = D.copy(), fitted.copy()
    np.fill_diagonal(D, np.inf)
    np.fill_diagonal(fitted, np.inf)
    farthest = np.partition(D, m - 1, axis=1)[:, m - 1 : m]
    chosen = np.argpartition(fitted, m - 1, axis=1)[:, :m]
    return float(
        np.mean(np.take_along_axis(D, chosen, 1) <= farthest * (1 + 1e-9))
    )


Fitted = tuple[np.ndarray, np.ndarray, dict[str, Any]]


def fit_squared(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_classical(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, "classical", random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_smacof(D: np.ndarray, k: int) -> Fitted:
    settings = SMACOF if len(D) <= MOST_SMACOF else SHORT_SMACOF
    x = smacof(D, n_components=k, random_state=SEED, **settings)[0]
    return x, np.ones(k), {"starts": settings["n_init"]}


def fit_closed(method: str, D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, method, random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_corrected(
    correct: Callable[..., Any], D: np.ndarray, k: int
) -> Fitted:
    emb = neuc_mds(
        correct(D**2, squared=True).sq_dissimilarity,
        k,
        "classical",
        squared=True,
    )
    return emb.coordinates, emb.signs, {}


def fit_loss(loss: str) -> Callable[[np.ndarray, int], Fitted]:
    def fit(D: np.ndarray, k: int) -> Fitted:
        found = neuc_mds(D, k, loss=loss, max_iter=MAX_ITER, random_state=SEED)
        facts = {
            "iterations": len(found.info.history) - 1,
            "converged": found.info.converged,
            "relative_gradient": found.info.relative_gradient,
            "floor": float(np.sqrt(found.placement.loss.sq_floor)),
        }
        return found.coordinates, found.signs, facts

    return fit


def fit_curved(D: np.ndarray, k: int) -> Fitted:
    found = neuc_mds(
        D, k, loss="relative", curvature="auto", random_state=SEED
    )
    facts = {"curvature": found.curvature, "kappa": found.kappa}
    return found.coordinates, found.signs, facts


def fit_raised(D: np.ndarray, k: int) -> Fitted:
    found = neuc_mds(D, k, loss="relative", heights="auto", random_state=SEED)
    return (
        found.coordinates,
        found.signs,
        {"heights": found.heights is not None},
    )


METHODS: dict[str, Callable[[np.ndarray, int], Fitted]] = {
    "squared": fit_squared,
    "distance": fit_loss("distance"),
    "relative": fit_loss("relative"),
    RAISED: fit_raised,
    "classical": fit_classical,
    "smacof": fit_smacof,
}
# What docs/quality.md has beside them, with one k of each set.
ON_PAGE: dict[str, Callable[[np.ndarray, int], Fitted]] = {
    **{
        name: partial(fit_closed, name)
        for name in ("lower", "neuc", "neuc+", "exact")
    },
    "lingoes": partial(fit_corrected, ecology.lingoes),
    "cailliez": partial(fit_corrected, ecology.cailliez),
    CURVED: fit_curved,
}


def rows_of(
    case: Case, D: np.ndarray, k: int, methods: set[str]
) -> Iterator[dict[str, Any]]:
    gram, shown = DenseGram(D**2), case.on_page(D.shape[0]) == k
    for name, fit in (METHODS | ON_PAGE).items():
        beside = name in ON_PAGE or (
            name == "smacof" and D.shape[0] > MOST_SMACOF
        )
        if name not in methods or (beside and not shown):
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        x, signs, facts = fit(D, k)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        form = Form(signs, facts.get("kappa", 0.0))
        yield {
            **{
                "data": case.name,
                "group": case.group,
                "n": D.shape[0],
                "k": k,
                "method": name,
            },
            "signature": list(form.signature),
            **measures(D, form.to_sq_distance(form.sq(x, x))),
            "distortion": quality_of(Dense(gram), x, form).distortion,
            **{"seconds": wall, "cpu_seconds": cpu, **facts},
        }
    if case.group == "latency" and methods >= {*METHODS}:
        yield {
            **{
                "data": case.name,
                "group": case.group,
                "n": D.shape[0],
                "k": k,
            },
            **{"method": "rank k of D", **measures(D, rank_k(D, k))},
        }


# Prints the rows of one set, k and method, by whichever checkout it runs in.
CHILD = """
import json, sys, warnings
warnings.simplefilter("ignore")
import losses
name, k, method = json.loads(sys.argv[1])
cases = [*losses.stored(False), *losses.others()]
case = next(case for case in cases if case.name == name)
D = case.load()
losses.fit_squared(D, 2)
for row in losses.rows_of(case, D, k, {method}):
    print(json.dumps(row))
"""


def row_of_process(
    checkout: Path, case: Case, k: int, method: str
) -> list[dict[str, Any]]:
    """Return the rows that a checkout makes in a process of its own, with one thread."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(checkout)]),
        "OPENBLAS_NUM_THREADS": "1",
        "LOKY_MAX_CPU_COUNT": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([case.name, k, method])],
        cwd=checkout / "benchmarks",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def beside(earlier: Path, cases: list[Case], jobs: int) -> None:
    """Write the rows of the relative loss by this checkout and by an earlier one."""
    rows = _record(RECORD)["rows"]
    known = {
        (row["data"], row["k"]): row["seconds"]
        for row in rows
        if row["method"] == "relative"
    }
    curved = {
        (row["data"], row["k"]) for row in rows if row["method"] == CURVED
    }
    # The longest first.
    sizes = sorted(
        ((case, k) for case in cases for k in case.ks),
        key=lambda one: -known.get((one[0].name, one[1]), 0.0),
    )
    here = Path(__file__).resolve().parents[1]
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for case, k in sizes:
            methods = [RAISED, "relative"]
            if (case.name, k) in curved:
                methods.append(CURVED)
            for method in methods:
                call = pool.submit(row_of_process, here, case, k, method)
                waiting[call] = method
            call = pool.submit(
                row_of_process, earlier.resolve(), case, k, "relative"
            )
            waiting[call] = EARLIER
        for call in as_completed(waiting):
            rows = [{**row, "method": waiting[call]} for row in call.result()]
            for row in rows:
                print(
                    row["data"],
                    row["k"],
                    row["method"],
                    f"{row['mean_error']:.2%}",
                    f"{row['cpu_seconds']:.1f} s",
                    flush=True,
                )
            measure.write_record(RECORD, _with_rows(_record(RECORD), rows))


def verdict(record: dict[str, Any]) -> Iterator[str]:
    """Say how the relative loss stands beside that of 0.3.0, and heights beside none."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    cases = [case[:2] for case in table if case[2] == EARLIER]

    def column(method: str, name: str) -> np.ndarray:
        return np.array([table[*case, method][name] for case in cases])

    old, new, raised = (
        column(method, "mean_error")
        for method in (EARLIER, "relative", RAISED)
    )
    kept = [
        column(method, "recall_10").mean() for method in (EARLIER, "relative")
    ]
    seconds = [
        column(method, "cpu_seconds") for method in (EARLIER, "relative")
    ]
    yield f"{len(cases)} rows, 0.3.0 and today"
    yield f"mean recall@10: {kept[0]:.4f}, {kept[1]:.4f}"
    yield f"median change of the mean error: {np.median(new / old - 1):+.2%}"
    yield (
        f"CPU seconds: {seconds[0].sum():.0f}, {seconds[1].sum():.0f}, ratio "
        f"{seconds[1].sum() / seconds[0].sum():.2f}, median ratio "
        f"{np.median(seconds[1] / seconds[0]):.2f}"
    )
    worst = np.argsort(-(raised / new))[:8]
    yield "heights chosen, change of the mean error, the worst rows:"
    for i in worst:
        yield f"  {cases[i][0]}, k = {cases[i][1]}: {raised[i] / new[i] - 1:+.2%}"


def rank_k(D: np.ndarray, k: int) -> np.ndarray:
    """Return the best matrix of rank k, squared; below zero where it is."""
    values, vectors = np.linalg.eigh(D)
    kept = np.argsort(-np.abs(values))[:k]
    fit = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    return np.sign(fit) * fit**2


def results(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what stands beside SMACOF, and what more coordinates bring."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    yield from _against_smacof(table)
    for k in (10, 20):
        if row := table.get(("digits 5-NN hops", k, "relative")):
            yield (
                f'digits, `"relative"`, k = {k}: recall@10',
                f"{row['recall_10']:.4f}",
            )
    for k in (8, 16, 32, 64):
        if row := table.get(("Helsinki streets", k, "relative")):
            mean, p99, kept = (
                row[name] for name in ("mean_error", "p99_error", "recall_10")
            )
            what = (
                f'Helsinki, `"relative"`, k = {k}: mean error, p99, recall@10'
            )
            yield what, f"{mean:.2%}, {p99:.1%}, {kept:.4f}"


def _against_smacof(
    table: dict[tuple[str, int, str], dict[str, Any]],
) -> Iterator[tuple[str, str]]:
    raw, distortion = [], []
    ours = theirs = 0.0
    for (data, k, method), row in table.items():
        if method != "smacof" or row["group"] != "shared":
            continue
        distance, relative = (
            table[data, k, "distance"],
            table[data, k, "relative"],
        )
        raw.append(distance["raw_stress"] / row["raw_stress"])
        least = min(distance["distortion"], relative["distortion"])
        distortion.append(least / row["distortion"])
        ours, theirs = (
            ours + distance["cpu_seconds"],
            theirs + row["cpu_seconds"],
        )
    if not raw:
        return
    over = f"over {len(raw)} cases"
    yield (
        f'largest ratio {over} of the raw stress of `"distance"` to the best of 8 SMACOF starts',
        (f"{max(raw):.4f}"),
    )
    yield (
        f'CPU seconds {over}: `"distance"`, 8 SMACOF starts',
        f"{ours:.0f}, {theirs:.0f}",
    )
    lower = sum(ratio < 1 for ratio in distortion) / len(raw)
    better = 'the better of `"distance"` and `"relative"` has less distortion than SMACOF'
    yield f"share of {len(raw)} cases in which {better}", f"{lower:.1%}"
    yield (
        f"largest ratio {over} of that distortion to SMACOF's",
        f"{max(distortion):.4f}",
    )


COLUMNS = (
    ("stress", ".4g"),
    ("r2", ".4f"),
    ("raw_stress", ".4g"),
    ("distortion", ".4f"),
    ("mean_error", ".2%"),
    ("median_error", ".2%"),
    ("p95_error", ".2%"),
    ("p99_error", ".2%"),
    ("recall_10", ".3f"),
    ("seconds", ".2f"),
)


def render(record: dict[str, Any]) -> str:
    names = [
        "data",
        "n",
        "k",
        "method",
        "signs",
        *(name for name, _ in COLUMNS),
    ]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in record["rows"]:
        signs = ", ".join(str(count) for count in row.get("signature", []))
        cells = [row["data"], row["n"], row["k"], row["method"], signs]
        cells += [
            format(row[name], how) if name in row else ""
            for name, how in COLUMNS
        ]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join([*lines, "", *_result_lines(record)])


def _result_lines(record: dict[str, Any]) -> Iterator[str]:
    yield from ("| | figure |", "|---|---|")
    for what, figure in results(record):
        yield f"| {what} | {figure} |"


LOSSES = ("squared", "distance", "relative")
BESIDE = ("classical", "smacof")
NAMES = {
    "classical": "classical MDS",
    "smacof": "SMACOF",
    "rank k of D": "rank k of d",
}
# What a page says of a measure, its name in the record, how it is written, and which end is good.
MEASURES = (
    ("STRESS", "stress", ".3g", min),
    ("R²", "r2", ".3f", max),
    ("raw stress", "raw_stress", ".3g", min),
    ("distortion", "distortion", ".3f", min),
    ("mean relative error", "mean_error", ".1%", min),
    ("p99 relative error", "p99_error", ".0%", min),
    ("recall@10", "recall_10", ".1%", max),
)


def page_tables(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the pages, by the names that their places have there."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    digits, streets = "digits 5-NN hops", "Helsinki streets"
    return {
        "best": _best_of_rows(table),
        "plots": _medians(table, 2),
        "digits": _one_set(table, digits, 20),
        "streets": _one_set(table, streets, 16),
        "latency": _one_set(table, "planetlab490", 10),
        "results": "\n".join(_result_lines(record)),
    }


def _best_of_rows(table: dict[tuple[str, int, str], dict[str, Any]]) -> str:
    """In what share of the rows each loss has the best value of each measure."""
    sizes = {(data, k): row["n"] for (data, k, _), row in table.items()}
    large = [case for case, n in sizes.items() if n >= LARGE]
    head = f"| share of {len(sizes)} cases in which the loss is best |"
    lines = [f"{head} " + " | ".join(_code(LOSSES)) + " |"]
    lines.append("|---|" + "---|" * len(LOSSES))

    def add(
        title: str, name: str, good: Callable[..., float], cases: Iterable[Any]
    ) -> None:
        values = [
            [table[*case, loss][name] for loss in LOSSES] for case in cases
        ]
        shares = [
            np.mean([good(row) == row[i] for row in values])
            for i in range(len(LOSSES))
        ]
        lines.append(
            f"| {title} | " + " | ".join(_bold(shares, max, ".0%")) + " |"
        )

    for title, name, _, good in MEASURES:
        add(title, name, good, sizes)
    add(
        f"the same, {len(large)} cases with n ≥ {LARGE}",
        "recall_10",
        max,
        large,
    )
    return "\n".join(lines)


def _medians(table: dict[tuple[str, int, str], dict[str, Any]], k: int) -> str:
    """Medians over the shared sets, STRESS and raw stress against the best of eight SMACOF."""
    names = [
        data for data, at, method in table if at == k and method == "smacof"
    ]
    methods = (*LOSSES, *BESIDE)
    lines = [
        f"| median of {len(names)} sets, k = {k} | "
        + " | ".join(_code(methods))
        + " |"
    ]
    lines.append("|---|" + "---|" * len(methods))
    for title, name, how, good in MEASURES:
        ratio = name in ("stress", "raw_stress")
        medians = [
            np.median(
                [
                    table[data, k, method][name]
                    / (table[data, k, "smacof"][name] if ratio else 1)
                    for data in names
                ]
            )
            for method in methods
        ]
        cells = _bold(medians, good, ".3f" if ratio else how)
        lines.append(
            f"| {title}{' / SMACOF' * ratio} | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines)


def _one_set(
    table: dict[tuple[str, int, str], dict[str, Any]],
    data: str,
    k: int,
) -> str:
    methods = [
        name
        for name in (*BESIDE, "rank k of D", *LOSSES)
        if (data, k, name) in table
    ]
    if not methods:
        return "not measured yet"
    lines = ["| | " + " | ".join(title for title, *_ in MEASURES) + " |"]
    lines.append("|---|" + "---|" * len(MEASURES))
    columns = [
        _bold([table[data, k, name].get(key) for name in methods], good, how)
        for _, key, how, good in MEASURES
    ]
    for title, *cells in zip(_code(methods), *columns, strict=True):
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _bold(
    values: Sequence[float | None], good: Callable[..., float], how: str
) -> list[str]:
    """Write numbers, the best of them bold; nothing where there is none."""
    best = format(good(value for value in values if value is not None), how)
    cells = ["" if value is None else format(value, how) for value in values]
    return [f"**{cell}**" if cell == best else cell for cell in cells]


def _code(methods: Iterable[str]) -> list[str]:
    return [NAMES.get(name, f'`"{name}"`') for name in methods]


def filled(text: str, tables: dict[str, str]) -> str:
    """Put tables where a page has a place for them: between two comments that name them."""

    def table(place: re.Match[str]) -> str:
        return f"{place[1]}\n{tables[place[2]]}\n{place[3]}"

    return re.sub(
        r"(<!-- losses: ([\w-]+) -->)\n.*?(<!-- end -->)",
        table,
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "words",
        nargs="*",
        help="only these methods, and sets whose name contains one",
    )
    parser.add_argument(
        "--k", nargs="+", type=int, help="only these numbers of coordinates"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sets only, no record"
    )
    parser.add_argument(
        "--render", action="store_true", help="print the record's tables"
    )
    parser.add_argument(
        "--pages", action="store_true", help="write the pages' tables"
    )
    parser.add_argument(
        "--beside", type=Path, help="a folder with a checkout of 0.3.0"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--verdict", action="store_true", help="today beside 0.3.0"
    )
    arguments = parser.parse_args()
    if arguments.pages:
        tables = page_tables(json.loads(RECORD.read_text()))
        for page in PAGES:
            page.write_text(filled(page.read_text(), tables))
    if arguments.render or arguments.pages:
        print(render(json.loads(RECORD.read_text())))
        return
    warnings.simplefilter("ignore")
    known = {*METHODS, *ON_PAGE}
    methods = known & {*arguments.words} or known
    words = [word for word in arguments.words if word not in known]
    cases = [*stored(arguments.quick), *([] if arguments.quick else others())]
    if words:
        cases = [
            case for case in cases if any(word in case.name for word in words)
        ]
    if arguments.beside is not None:
        beside(arguments.beside, cases, arguments.jobs)
    if arguments.beside is not None or arguments.verdict:
        print(*verdict(json.loads(RECORD.read_text())), sep="\n")
        return
    target = None if arguments.quick else RECORD
    record = _record(target)
    for case in cases:
        D = case.load()
        fit_squared(
            D, 2
        )  # so that no method pays for what the first call imports
        for k in arguments.k or case.ks:
            rows = []
            for row in rows_of(case, D, k, methods):
                rows.append(row)
                print(
                    row["data"],
                    k,
                    row["method"],
                    f"{row.get('seconds', 0):.2f} s",
                    flush=True,
                )
            record = _with_rows(_record(target) if target else record, rows)
            if target:
                measure.write_record(target, record)
    print(render(record))


def _record(path: Path | None) -> dict[str, Any]:
    """Read the record anew: another run may have added rows since."""
    known = path is not None and path.exists()
    return {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scipy", "scikit-learn"),
        "seed": SEED,
        "smacof": SMACOF,
        "rows": json.loads(path.read_text())["rows"] if known else [],
    }


def _with_rows(
    record: dict[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Put rows in the place of those that are there, sorted as the cases and methods."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["k"], row["method"]

    new = {key(row) for row in rows}
    kept = [row for row in record["rows"] if key(row) not in new]
    methods = [*METHODS, *ON_PAGE, EARLIER, "rank k of D"]
    order = {"shared": 0, "latency": 2, "digits": 3, "streets": 4}

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        group, method = (
            order.get(row["group"], 1),
            methods.index(row["method"]),
        )
        return group, row["n"], row["data"], row["k"], method

    return {**record, "rows": sorted([*kept, *rows], key=place)}


if __name__ == "__main__":
    main()
