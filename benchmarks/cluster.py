"""What moves and what is held when D lies on the workers of a dask cluster.

    PYTHONPATH=src OPENBLAS_NUM_THREADS=1 python benchmarks/cluster.py [--n 3000 6000 12000]

A LocalCluster of 2 processes, cityblock between 8 features, k = 20, neuc+. For each n: passes over
D, bytes that left a worker beside the cost model's figures (docs/scaling.md), the largest resident
size of a worker, growth of the client, seconds; without and with work stealing. Writes
benchmarks/records/cluster.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import threading
import time
import warnings
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
from scipy.spatial.distance import cdist

from neucmds import __version__, neuc_mds
from neucmds._input.chunks import lazy_dissimilarity
from neucmds._operator.cluster import DaskGram

K = 20
RECORD = Path(__file__).parent / "records" / "cluster.json"


def cityblock(rows, cols):
    return cdist(rows, cols, "cityblock")


def lazy_matrix(n, chunk):
    features = np.random.default_rng(0).normal(size=(n, 8)) * np.geomspace(3, 0.5, 8)
    x = da.from_array(features, chunks=(chunk, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.PerformanceWarning)
        return da.blockwise(
            cityblock, "ij", x, "ik", x, "jk", concatenate=True, dtype=float, meta=np.empty((0, 0))
        )


def sent_bytes(client):
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def peak_rss(client):
    def own():  # ru_maxrss would count what the parent held when it forked
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))

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
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        Growth() as growth,
    ):
        start = time.perf_counter()
        data = lazy_dissimilarity(lazy_matrix(n, chunk))
        checked, sent_checking = time.perf_counter() - start, sent_bytes(client)
        gram = Counted(data.values)
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
        "model_checking": round(8 * n * n / 2 * (1 - 1 / n_workers)),
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
    embedding = neuc_mds(lazy_matrix(n, n).compute(scheduler="synchronous"), K, "neuc+", copy=False)
    return {
        "stress_in_memory": embedding.stress,
        "cpu_seconds_in_memory": time.process_time() - start,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[3000, 6000, 12000])
    parser.add_argument("--chunk", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    rows = []
    for n in args.n:
        found = [run(n, args.chunk, args.workers, stealing) for stealing in (False, True)]
        alone = in_memory(n)
        rows.extend(row | alone for row in found)
        print("\n".join(json.dumps(row) for row in rows[-2:]), flush=True)
    record = {
        "what": "neuc_mds on a dask array; bytes that left workers, resident sizes, seconds",
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
    }
    args.record.parent.mkdir(exist_ok=True)
    args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
