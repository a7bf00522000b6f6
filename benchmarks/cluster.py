"""What moves and what is held when D lies on the workers of a dask cluster.

    PYTHONPATH=src OPENBLAS_NUM_THREADS=1 python benchmarks/cluster.py [--n 3000 6000 12000]
        [--pairs 10000 20000]

A LocalCluster of 2 processes, cityblock between 8 features, k = 20, neuc+. For each n: passes over
D, bytes that left a worker beside the cost model's figures (docs/scaling.md), the largest resident
size of a worker, growth of the client, seconds; without and with work stealing.

Then the relative loss from 320 sampled pairs a row of 64 features, k = 20, 60 iterations: seconds
until the descent begins and of an iteration, bytes a pair on the client, and the same fit in memory
beside it. Writes benchmarks/records/cluster.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
from scipy.spatial.distance import cdist

from neucmds import NeucMDS, __version__, neuc_mds
from neucmds.problem.chunks import lazy_dissimilarity
from neucmds.problem.sampled_pairs import feature_pairs
from neucmds.spectrum.operators.chunked import DaskGram

K = 20
PAIRS, WIDE, ITERATIONS = 320, 64, 60
RECORD = Path(__file__).parent / "records" / "cluster.json"


def cityblock(rows, cols):
    return cdist(rows, cols, "cityblock")


def lazy_matrix(n, chunk):
    features = np.random.default_rng(0).normal(size=(n, 8)) * np.geomspace(
        3, 0.5, 8
    )
    x = da.from_array(features, chunks=(chunk, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.PerformanceWarning)
        return da.blockwise(
            cityblock,
            "ij",
            x,
            "ik",
            x,
            "jk",
            concatenate=True,
            dtype=float,
            meta=np.empty((0, 0)),
        )


def sent_bytes(client):
    return sum(
        client.run(
            lambda dask_worker: dask_worker.transfer_outgoing_bytes_total
        ).values()
    )


def peak_rss(client):
    def own():  # ru_maxrss would count what the parent held when it forked
        with open("/proc/self/status") as file:
            return next(
                1024 * int(line.split()[1])
                for line in file
                if line.startswith("VmHWM")
            )

    return max(client.run(own).values())


def cpu_seconds(client):
    def own():
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    return sum(client.run(own).values()) + own()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Growth:
    """Largest growth of this process while the block runs."""

    def __enter__(self):
        self.start = self.peak = resident()
        self.watching = True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        """Look every 5 ms."""
        while self.watching:
            self.peak = max(self.peak, resident())
            time.sleep(0.005)

    def __exit__(self, *_):
        self.watching = False
        self.thread.join()
        self.bytes = self.peak - self.start


class Counted(DaskGram):
    """The same operator, noting how wide every product was."""

    def __init__(self, values):
        super().__init__(values)
        self.widths = []

    def product(self, block):
        """Multiply, and take note."""
        self.widths.append(int(block.shape[1]))
        return super().product(block)


def run(n, chunk, n_workers, stealing):
    with (
        dask.config.set({"distributed.scheduler.work-stealing": stealing}),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
        Growth() as growth,
    ):
        start = time.perf_counter()
        data, _ = lazy_dissimilarity(lazy_matrix(n, chunk))
        checked, sent_checking = (
            time.perf_counter() - start,
            sent_bytes(client),
        )
        gram = Counted(data)
        embedding = neuc_mds(gram, K, "neuc+")
        seconds = time.perf_counter() - start
        sent = sent_bytes(client) - sent_checking
        worker, cpu = peak_rss(client), cpu_seconds(client)
    columns, m = sum(gram.widths), n // chunk
    return {
        "n": n,
        "chunk": chunk,
        "workers": n_workers,
        "work_stealing": stealing,
        "products": len(gram.widths),
        "columns": columns,
        "matrix_bytes": 8 * n * n,
        "sent_checking": sent_checking,
        "model_checking": 8 * n * (n_workers + 2 * m),
        "sent_products": sent,
        "model_products": 8 * n * columns * (2 * min(m, n_workers) - 1),
        "worker_peak_rss": worker,
        "client_growth": growth.bytes,
        "block_n_2k": 8 * n * 2 * K,
        "seconds": seconds,
        "seconds_checking": checked,
        "cpu_seconds": cpu,
        "stress": embedding.stress,
    }


def in_memory(n):
    start = time.process_time()
    embedding = neuc_mds(
        lazy_matrix(n, n).compute(scheduler="synchronous"), K, "neuc+"
    )
    return {
        "stress_in_memory": embedding.stress,
        "cpu_seconds_in_memory": time.process_time() - start,
    }


def drawn_there(block_info=None):
    """Draw a chunk of rows on a curved sheet, by whichever worker is to hold it."""
    (first, last), _ = block_info[None]["array-location"]
    inner = np.random.default_rng(first).normal(size=(last - first, 5))
    bent = np.random.default_rng(0).normal(size=(5, WIDE))
    return np.tanh(inner @ bent)


class Clock:
    """A callback that notes when every iteration ended."""

    def __init__(self):
        self.ends = [time.perf_counter()]

    def __call__(self, iteration, value):
        """Take note."""
        self.ends.append(time.perf_counter())

    def row(self):
        """Seconds until the first iteration ended, and the median of the others."""
        took = np.diff(self.ends)
        return {
            "seconds": float(took.sum()),
            "seconds_to_begin": float(took[0]),
            "seconds_an_iteration": float(np.median(took[1:])),
            "iterations": took.size,
        }


def fit_pairs(x):
    """Fit by the relative loss; the clock and the estimator."""
    clock = Clock()
    settings = {"metric": "cityblock", "loss": "relative", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # 60 iterations may not be the end of it
        est = NeucMDS(
            K, n_pairs=PAIRS, max_iter=ITERATIONS, callback=clock, **settings
        ).fit(x)
    return clock.row(), est


def run_pairs(n, chunk, n_workers):
    """Fit sampled pairs of dask features, and beside it the same in memory."""
    heights = tuple(min(chunk, n - start) for start in range(0, n, chunk))
    x = da.map_blocks(
        drawn_there,
        chunks=(heights, (WIDE,)),
        dtype=float,
        meta=np.empty((0, 0)),
    )
    sampled = {
        "metric": "cityblock",
        "n_pairs": PAIRS,
        "loss": "relative",
        "n_landmarks": 100,
        "random_state": 0,
    }
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        fit_pairs(x[:1000])  # imports
        gc.collect()
        sent, cpu = sent_bytes(client), cpu_seconds(client)
        with Growth() as growth:
            row, est = fit_pairs(x)
        row |= {
            "sent": sent_bytes(client) - sent,
            "cpu_seconds": cpu_seconds(client) - cpu,
            "worker_peak_rss": peak_rss(client),
        }
    gathered = x.compute(scheduler="synchronous")
    alone, expected = fit_pairs(gathered)
    pairs = feature_pairs(gathered, **sampled).pairs
    return {
        "n": n,
        "features": WIDE,
        "chunk": chunk,
        "workers": n_workers,
        "pairs": pairs.size,
        "feature_bytes": 8 * n * WIDE,
        "client_growth": growth.bytes,
        "client_bytes_a_pair": growth.bytes / pairs.size,
        **row,
        "stress": est.stress_,
        "stress_in_memory": expected.stress_,
        "in_memory": alone,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--n", type=int, nargs="+", default=[3000, 6000, 12000]
    )
    parser.add_argument("--chunk", type=int, default=1000)
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[10_000, 20_000]
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    rows = []
    for n in args.n:
        found = [
            run(n, args.chunk, args.workers, stealing)
            for stealing in (False, True)
        ]
        alone = in_memory(n)
        rows.extend(row | alone for row in found)
        print("\n".join(json.dumps(row) for row in rows[-2:]), flush=True)
    pair_rows = []
    for n in args.pairs:
        # A process of its own: memory that was freed here would not count as growth.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            pair_rows.append(
                fresh.submit(run_pairs, n, args.chunk, args.workers).result()
            )
        print(json.dumps(pair_rows[-1]), flush=True)
    record = {
        "what": "neuc_mds on a dask array; bytes that left workers, resident sizes, seconds",
        "what_pairs": f"NeucMDS(loss='relative', n_pairs={PAIRS}) of dask features, and in memory",
        "k": K,
        "load_average_5min": os.getloadavg()[1],
        "cores": os.cpu_count(),
        "versions": {
            "neucmds": __version__,
            "numpy": np.__version__,
            "dask": dask.__version__,
            "distributed": distributed.__version__,
            "python": platform.python_version(),
        },
        "rows": rows,
        "pair_rows": pair_rows,
    }
    args.record.parent.mkdir(exist_ok=True)
    args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
