"""Every loss of "refined" by every measure: the record behind "Which loss?".

    NEUCMDS_DATA=… python benchmarks/losses.py            all, about half an hour
    NEUCMDS_DATA=… python benchmarks/losses.py --quick    sets of up to 50 objects at k = 2 and 3
    NEUCMDS_DATA=… python benchmarks/losses.py digits     names that contain a word
    NEUCMDS_DATA=… python benchmarks/losses.py digits_time cost    times and memory
    NEUCMDS_DATA=… python benchmarks/losses.py Helsinki --k 64
    python benchmarks/losses.py --render                  the tables from the record alone
    python benchmarks/losses.py --pages                   those of docs/guide/losses.md and README

Beside the losses stand classical MDS, SMACOF (scikit-learn's, best of eight starts, where that is
a matter of seconds) and, for latencies, the best matrix of rank k. Every run ends with what is
asked for beside what the record holds. The rows of one set and k replace those that the record has
of them, and the rest stays: it can be made in pieces, in any order.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits
from sklearn.manifold import smacof

import measure
import quality
import real_data
from neucmds import datasets, neuc_mds
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.pair_descent import minimize_loss
from neucmds._operator import DenseGram
from neucmds.metrics import measure as quality_of

RECORD = measure.RECORDS / "losses.json"
ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "guide" / "losses.md", ROOT / "README.md")
SEED = 0
# Eight starts, each much tighter than scikit-learn's default (300 iterations, 1e-6).
SMACOF = {"n_init": 8, "max_iter": 1000, "eps": 1e-8, "normalized_stress": False}
MOST_SMACOF = 500
MAX_ITER = 500  # the default
# Within this share of each other two configurations of the same minimum are told apart by chance.
TIE = 1e-4
# From so many objects on, ten nearest are few of them.
LARGE = 200
# Of all 2,296 crossings: k, and what mean error, 99th percentile and recall@10 must reach.
HELSINKI = (
    (8, 0.0285, 0.15, 0.915),
    (16, 0.017, 0.092, 0.94),
    (32, 0.009, 0.045, 0.965),
    (64, 0.005, 0.024, 0.98),
)


@dataclass(frozen=True)
class Case:
    """A matrix on the unsquared scale, and the numbers of coordinates to try."""

    name: str
    load: Callable[[], np.ndarray]
    ks: tuple[int, ...]
    group: str


def stored(quick: bool) -> Iterator[Case]:
    def load(name: str) -> np.ndarray:
        D = real_data.load_dissimilarity(name).dissimilarity
        return _hollow((D + D.T) / 2)

    sizes = {name: load(name).shape[0] for name in real_data.list_dissimilarities()}
    for name in sorted(sizes, key=lambda one: sizes[one]):
        if not quick:
            yield Case(name, lambda a=name: load(a), (2, 3, 5, 10), "shared")
        elif sizes[name] <= 50:
            yield Case(name, lambda a=name: load(a), (2, 3), "shared")


def others() -> Iterator[Case]:
    """Yield the rest of docs/quality.md, and what is judged by near pairs."""

    def root(load: Callable[[], np.ndarray]) -> np.ndarray:
        return _hollow(np.sqrt(np.maximum(load(), 0)))

    for family in (quality.genomics, quality.images, quality.synthetic):
        for name, load, k in family():
            yield Case(name, lambda a=load: root(a), (k,), family.__name__)
    yield Case("planetlab490", _latency, (5, 10), "latency")
    yield Case("digits 5-NN hops", _digits, (10, 20), "digits")
    yield Case("Helsinki streets", _streets, (8, 16, 32, 64), "streets")


def _digits() -> np.ndarray:
    return datasets.hop_distances(load_digits().data, n_neighbors=5, connect=True).astype(float)


def _latency() -> np.ndarray:
    return _hollow(np.load(_file("latency", "planetlab490.npz"))["D"].astype(float))


def _streets() -> np.ndarray:
    """Shortest ways between all crossings of central Helsinki, in metres."""
    content = np.load(_file("networks", "helsinki.npz"))
    edges, nodes = content["edges"], content["xy"].shape[0]
    graph = coo_array((content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    crossings = content["crossings"]
    ways = dijkstra(graph.tocsr(), directed=False, indices=crossings)[:, crossings]
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
    return float(np.mean(np.take_along_axis(D, chosen, 1) <= farthest * (1 + 1e-9)))


Fitted = tuple[np.ndarray, np.ndarray, dict[str, Any]]


def fit_squared(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_classical(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, "classical", random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_smacof(D: np.ndarray, k: int) -> Fitted:
    x = smacof(D, n_components=k, random_state=SEED, **SMACOF)[0]
    return x, np.ones(k), {}


def fit_loss(loss: str) -> Callable[[np.ndarray, int], Fitted]:
    def fit(D: np.ndarray, k: int) -> Fitted:
        found = neuc_mds(D, k, loss=loss, max_iter=MAX_ITER, random_state=SEED)
        facts = {
            "iterations": len(found.history) - 1,
            "converged": found.converged,
            "relative_gradient": found.relative_gradient,
            "floor": float(np.sqrt(found.placement.loss.floor)),
        }
        return found.coordinates, found.signs, facts

    return fit


METHODS: dict[str, Callable[[np.ndarray, int], Fitted]] = {
    "squared": fit_squared,
    "distance": fit_loss("distance"),
    "relative": fit_loss("relative"),
    "classical": fit_classical,
    "smacof": fit_smacof,
}


def rows_of(case: Case, D: np.ndarray, k: int) -> Iterator[dict[str, Any]]:
    gram = DenseGram(D**2)
    for name, fit in METHODS.items():
        if name == "smacof" and D.shape[0] > MOST_SMACOF:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        x, signs, facts = fit(D, k)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        negatives = int(np.sum(signs < 0))
        yield {
            **{"data": case.name, "group": case.group, "n": D.shape[0], "k": k, "method": name},
            "signature": [int(signs.size) - negatives, negatives],
            **measures(D, sq_dissimilarities(x, x, signs)),
            "distortion": quality_of(gram, x, signs).distortion,
            **{"seconds": wall, "cpu_seconds": cpu, **facts},
        }
    if case.group == "latency":
        yield {
            **{"data": case.name, "group": case.group, "n": D.shape[0], "k": k},
            **{"method": "rank k of D", **measures(D, rank_k(D, k))},
        }


def rank_k(D: np.ndarray, k: int) -> np.ndarray:
    """Return the best matrix of rank k, squared; below zero where it is."""
    values, vectors = np.linalg.eigh(D)
    kept = np.argsort(-np.abs(values))[:k]
    fit = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    return np.sign(fit) * fit**2


def cost_of_an_iteration(n: int = 8000, k: int = 20, iterations: int = 24) -> dict[str, Any]:
    """Time and memory of an iteration, against a product of D in float64 with k vectors.

    Iterations and products take turns, so that both see the same load of the machine.
    """
    D = datasets.random_hops(n, n_neighbors=8, random_state=SEED).astype(float)
    emb = neuc_mds(D, k, squared=True, random_state=SEED)
    vectors = np.random.RandomState(SEED).standard_normal((n, k))

    def clocks() -> np.ndarray:
        return np.array([time.perf_counter(), time.process_time()])

    record: dict[str, Any] = {"n": n, "k": k}
    for loss in ("relative", "distance"):
        D @ vectors
        held = measure.resident()
        measure.forget_peak()
        marks = [clocks()]

        def take_turns(step: int, value: float, marks: list[np.ndarray] = marks) -> None:
            marks.append(clocks())
            D @ vectors
            marks.append(clocks())

        minimize_loss(
            D,
            emb.coordinates,
            emb.signs,
            loss,
            max_iter=iterations,
            tol=0,
            callback=take_turns,
        )
        spent = np.diff(marks, axis=0)
        iteration, product = spent[0::2].mean(axis=0), spent[1::2].mean(axis=0)
        record[loss] = {
            "iterations": len(spent) // 2,
            **{"seconds": iteration[0], "cpu_seconds": iteration[1]},
            **{"product_seconds": product[0], "product_cpu_seconds": product[1]},
            "products_per_iteration": iteration[0] / product[0],
            "cpu_products_per_iteration": iteration[1] / product[1],
            "peak_over_D": (measure.peak() - held) / D.nbytes,
        }
    return record


Asked = tuple[str, str, str, bool]


def asked(record: dict[str, Any]) -> Iterator[Asked]:
    """Yield what is asked for, its bar, the figure of the record, and whether that is met."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    yield from _against_smacof(table)
    for k, least in ((10, 0.94), (20, 0.985)):
        if row := table.get(("digits 5-NN hops", k, "relative")):
            kept = row["recall_10"]
            yield f"digits, k = {k}: recall@10", f"≥ {least}", f"{kept:.4f}", kept >= least
    for k, *bars in HELSINKI:
        if row := table.get(("Helsinki streets", k, "relative")):
            mean, p99, kept = (row[name] for name in ("mean_error", "p99_error", "recall_10"))
            yield (
                f"Helsinki, k = {k}: mean error, p99, recall@10",
                f"≤ {bars[0]:.2%}, ≤ {bars[1]:.1%}, ≥ {bars[2]}",
                f"{mean:.2%}, {p99:.1%}, {kept:.4f}",
                mean <= bars[0] and p99 <= bars[1] and kept >= bars[2],
            )
    if "digits_time" in record:
        ratio, cpu = (record["digits_time"][name] for name in ("ratio", "cpu_ratio"))
        what = "digits, k = 20: relative, times the default fit"
        yield what, "≤ 10", f"{ratio:.1f} ({cpu:.1f} by CPU time)", ratio <= 10
    for loss in ("relative", "distance") if "cost" in record else ():
        what, cost = f"n = {record['cost']['n']}, {loss}: ", record["cost"][loss]
        products, peak = cost["products_per_iteration"], cost["peak_over_D"]
        figure = f"{products:.1f} ({cost['cpu_products_per_iteration']:.1f} by CPU time)"
        yield what + "products an iteration", "≤ 8", figure, products <= 8
        yield what + "peak memory beyond D, in D", "≤ 1.6", f"{peak:.2f}", peak <= 1.6


def _against_smacof(table: dict[tuple[str, int, str], dict[str, Any]]) -> Iterator[Asked]:
    raw, distortion = [], []
    ours = theirs = np.zeros(2)
    for (data, k, method), row in table.items():
        if method != "smacof" or row["group"] != "shared":
            continue
        distance, relative = table[data, k, "distance"], table[data, k, "relative"]
        raw.append(distance["raw_stress"] / row["raw_stress"])
        least = min(distance["distortion"], relative["distortion"])
        distortion.append(least / row["distortion"])
        ours, theirs = ours + _seconds(distance), theirs + _seconds(row)
    if not raw:
        return
    ratios, spread = np.array(raw), np.array(distortion)
    rows, near = f"{ratios.size} rows", float(np.mean(ratios <= 1.0005))
    below, tied = float(np.mean(spread < 1)), float(np.mean(spread <= 1 + TIE))
    what = f"raw stress, distance / best of 8 SMACOF, {rows}: "
    yield what + "≤ 1.0005", "in ≥ 90 %", f"{near:.1%}", near >= 0.9
    yield what + "largest", "≤ 1.01", f"{ratios.max():.4f}", bool(ratios.max() <= 1.01)
    bar = f"< {theirs[0]:.0f} ({theirs[1]:.0f} of CPU time)"
    met = bool(np.all(ours < theirs))
    yield what + "seconds", bar, f"{ours[0]:.0f} ({ours[1]:.0f} of CPU time)", met
    yield (
        f"distortion, better of relative and distance / SMACOF, {rows}: < 1",
        "in ≥ 90 %",
        f"{below:.1%} (≤ 1.0001 in {tied:.1%}, largest {spread.max():.4f})",
        below >= 0.9,
    )


def _seconds(row: dict[str, Any]) -> np.ndarray:
    return np.array([row["seconds"], row["cpu_seconds"]])


def shortfalls(record: dict[str, Any]) -> Iterator[str]:
    """Name the rows in which SMACOF has the lower distortion, or rank k the lower errors."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    for (data, k, method), row in table.items():
        if method == "smacof" and row["group"] == "shared":
            both = [table[data, k, loss]["distortion"] for loss in ("distance", "relative")]
            if min(both) >= row["distortion"]:
                yield f"{data}, k = {k}: distortion {min(both) / row['distortion']:.6f} × SMACOF's"
        if method == "rank k of D":
            best = table[data, k, "relative"]
            figures = " / ".join(
                f"{name} {row[name]:.3f} and {best[name]:.3f}"
                for name in ("median_error", "p95_error", "recall_10")
            )
            yield f"{data}, k = {k}: rank k of D and relative: {figures}"


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
    names = ["data", "n", "k", "method", "signs", *(name for name, _ in COLUMNS)]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in record["rows"]:
        signs = ", ".join(str(count) for count in row.get("signature", []))
        cells = [row["data"], row["n"], row["k"], row["method"], signs]
        cells += [format(row[name], how) if name in row else "" for name, how in COLUMNS]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join([*lines, "", *_asked_lines(record), "", *shortfalls(record)])


def _asked_lines(record: dict[str, Any]) -> Iterator[str]:
    yield from ("| asked for | bar | figure | |", "|---|---|---|---|")
    for what, bar, figure, met in asked(record):
        yield f"| {what} | {bar} | {figure} | {'met' if met else 'short'} |"


LOSSES = ("squared", "distance", "relative")
BESIDE = ("classical", "smacof")
NAMES = {"classical": "classical MDS", "smacof": "SMACOF", "rank k of D": "rank k of D"}
# What a page says of a measure, its name in the record, how it is written, and which end is good.
MEASURES = (
    ("STRESS", "stress", ".3g", min),
    ("R²", "r2", ".3f", max),
    ("raw stress", "raw_stress", ".3g", min),
    ("distortion", "distortion", ".3f", min),
    ("mean relative error", "mean_error", ".1%", min),
    ("99 % of the pairs within", "p99_error", ".0%", min),
    ("10 nearest kept", "recall_10", ".1%", max),
)


def page_tables(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the pages, by the names that their places have there."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    digits, streets = "digits 5-NN hops", "Helsinki streets"
    return {
        "best": _best_of_rows(table),
        "plots": _medians(table, 2),
        "digits": _one_set(table, digits, 20),
        "digits-short": _one_set(table, digits, 20, ("stress", "raw_stress", "p99_error")),
        "streets": _one_set(table, streets, 16),
        "latency": _one_set(table, "planetlab490", 10),
        "asked": "\n".join(_asked_lines(record)),
    }


def _best_of_rows(table: dict[tuple[str, int, str], dict[str, Any]]) -> str:
    """In what share of the rows each loss has the best value of each measure."""
    sizes = {(data, k): row["n"] for (data, k, _), row in table.items()}
    large = [case for case, n in sizes.items() if n >= LARGE]
    lines = [f"| best of the three in … of {len(sizes)} rows | " + " | ".join(_code(LOSSES)) + " |"]
    lines.append("|---|" + "---|" * len(LOSSES))

    def add(title: str, name: str, good: Callable[..., float], cases: Iterable[Any]) -> None:
        values = [[table[*case, loss][name] for loss in LOSSES] for case in cases]
        shares = [np.mean([good(row) == row[i] for row in values]) for i in range(len(LOSSES))]
        lines.append(f"| {title} | " + " | ".join(_bold(shares, max, ".0%")) + " |")

    for title, name, _, good in MEASURES:
        add(title, name, good, sizes)
    add(f"the same, {len(large)} rows with n ≥ {LARGE}", "recall_10", max, large)
    return "\n".join(lines)


def _medians(table: dict[tuple[str, int, str], dict[str, Any]], k: int) -> str:
    """Medians over the shared sets, STRESS and raw stress against the best of eight SMACOF."""
    names = [data for data, at, method in table if at == k and method == "smacof"]
    methods = (*LOSSES, *BESIDE)
    lines = [f"| median of {len(names)} sets, k = {k} | " + " | ".join(_code(methods)) + " |"]
    lines.append("|---|" + "---|" * len(methods))
    for title, name, how, good in MEASURES:
        ratio = name in ("stress", "raw_stress")
        medians = [
            np.median(
                [
                    table[data, k, method][name] / (table[data, k, "smacof"][name] if ratio else 1)
                    for data in names
                ]
            )
            for method in methods
        ]
        cells = _bold(medians, good, ".3f" if ratio else how)
        lines.append(f"| {title}{' / SMACOF' * ratio} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _one_set(
    table: dict[tuple[str, int, str], dict[str, Any]],
    data: str,
    k: int,
    only: tuple[str, ...] = tuple(name for _, name, _, _ in MEASURES),
) -> str:
    methods = [name for name in (*BESIDE, "rank k of D", *LOSSES) if (data, k, name) in table]
    if not methods:
        return "not measured yet"
    shown = [one for one in MEASURES if one[1] in (*only, "recall_10")]
    lines = ["| | " + " | ".join(title for title, *_ in shown) + " |"]
    lines.append("|---|" + "---|" * len(shown))
    columns = [
        _bold([table[data, k, name].get(key) for name in methods], good, how)
        for _, key, how, good in shown
    ]
    for title, *cells in zip(_code(methods), *columns, strict=True):
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _bold(values: Sequence[float | None], good: Callable[..., float], how: str) -> list[str]:
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

    return re.sub(r"(<!-- losses: ([\w-]+) -->)\n.*?(<!-- end -->)", table, text, flags=re.DOTALL)


def time_on_digits(repeats: int = 3, k: int = 20) -> dict[str, Any]:
    """Fit digits by the default and by the relative loss, by turns; the best time of each."""
    D, wall, cpu = _digits(), {}, {}
    for _ in range(repeats):
        for name in ("squared", "relative"):
            before, busy = time.perf_counter(), time.process_time()
            METHODS[name](D, k)
            wall.setdefault(name, []).append(time.perf_counter() - before)
            cpu.setdefault(name, []).append(time.process_time() - busy)
    return {
        **{"k": k, "seconds": wall, "cpu_seconds": cpu},
        "ratio": min(wall["relative"]) / min(wall["squared"]),
        "cpu_ratio": min(cpu["relative"]) / min(cpu["squared"]),
    }


TIMED = {"digits_time": time_on_digits, "cost": cost_of_an_iteration}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("words", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--k", nargs="+", type=int, help="only these numbers of coordinates")
    parser.add_argument("--quick", action="store_true", help="small sets only, no record")
    parser.add_argument("--render", action="store_true", help="print the record's tables")
    parser.add_argument("--pages", action="store_true", help="write the pages' tables")
    arguments = parser.parse_args()
    if arguments.pages:
        tables = page_tables(json.loads(RECORD.read_text()))
        for page in PAGES:
            page.write_text(filled(page.read_text(), tables))
    if arguments.render or arguments.pages:
        print(render(json.loads(RECORD.read_text())))
        return
    warnings.simplefilter("ignore")
    words = arguments.words
    cases = [*stored(arguments.quick), *([] if arguments.quick else others())]
    if words:
        names = set(words) - set(TIMED)
        cases = [case for case in cases if any(word in case.name for word in names)]
    target = None if arguments.quick else RECORD
    record = _record(target)
    for case in cases:
        D = case.load()
        fit_squared(D, 2)  # so that no method pays for what the first call imports
        for k in arguments.k or case.ks:
            rows = []
            for row in rows_of(case, D, k):
                rows.append(row)
                print(row["data"], k, row["method"], f"{row.get('seconds', 0):.2f} s", flush=True)
            record = _with_rows(_record(target) if target else record, rows)
            if target:
                measure.write_record(target, record)
    for name, make in TIMED.items():
        if name in words or not (arguments.quick or words):
            made = make()
            record = {**_record(target), name: made}
            measure.write_record(RECORD, record)
    print(render(record))


def _record(path: Path | None) -> dict[str, Any]:
    """Read the record anew: another run may have added rows since."""
    if path is not None and path.exists():
        return dict(json.loads(path.read_text()))
    return {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scipy", "scikit-learn"),
        "seed": SEED,
        "smacof": SMACOF,
        "rows": [],
    }


def _with_rows(record: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the rows of one set and k in the place of those that are there, sorted as the cases."""
    data, k = rows[0]["data"], rows[0]["k"]
    kept = [row for row in record["rows"] if (row["data"], row["k"]) != (data, k)]
    order = {"shared": 0, "latency": 2, "digits": 3, "streets": 4}

    def place(row: dict[str, Any]) -> tuple[int, int, str, int]:
        return order.get(row["group"], 1), row["n"], row["data"], row["k"]

    return {**record, "rows": sorted([*kept, *rows], key=place)}


if __name__ == "__main__":
    main()
