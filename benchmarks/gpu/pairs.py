"""Losses of pairs on one GPU: an iteration on listed pairs, and a fit of all pairs.

    python benchmarks/gpu/pairs.py --record benchmarks/records/gpu_pairs.json

*listed*: 100,000 objects with 160 pairs each, half of them near, k = 16, relative loss: the mean of
ten iterations, a renewal of the blocks among them, against one sparse product of all pairs in both
orders with n × k. *all*: `loss="relative"` of a D in device memory, fit included. The ends are
compared with those of the CPU on smaller problems.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from neucmds import neuc_mds
from neucmds.form import Form
from neucmds.problem.pairs import Pairs, make_pairs
from neucmds.refine.descent import Configuration, descend
from neucmds.refine.listed_pairs import refine_pairs

K = 16
SIGNS = np.array([1.0] * 11 + [-1.0] * 5)


def listed(n: int, each: int, seed: int = 0) -> tuple[Pairs, Any]:
    """Draw points, and pairs of them, half with a neighbour in the list; and a start nearby."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, K))
    i = np.repeat(np.arange(n), each // 2)
    step = np.where(
        rng.random(i.size) < 0.5,
        rng.integers(1, 200, i.size),
        rng.integers(1, n, i.size),
    )
    j = (i + step) % n
    key = np.unique(np.minimum(i, j) * n + np.maximum(i, j))
    i, j = key // n, key % n
    sq = np.abs((x[i] - x[j]) ** 2 @ SIGNS) + 0.1
    noise = np.exp(0.05 * rng.standard_normal(sq.size))
    return make_pairs(
        n, i, j, np.sqrt(sq) * noise
    ), x + 0.05 * rng.standard_normal(x.shape)


def timed(work: Any) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure_listed(n: int = 100_000, each: int = 320) -> dict[str, Any]:
    """Time an iteration and a product."""
    pairs, start = listed(n, each)
    seen = []

    def tick(*_: Any) -> None:
        torch.cuda.synchronize()
        seen.append(time.perf_counter())

    on_device = torch.as_tensor(start, device="cuda")
    end = refine_pairs(
        pairs,
        Configuration(on_device, Form(SIGNS)),
        partial(descend, max_iter=40, tol=0.0, callback=tick),
    )
    iteration = min(
        (seen[at + 10] - seen[at]) / 10 for at in range(len(seen) - 10)
    )
    ends = np.r_[pairs.i, pairs.j], np.r_[pairs.j, pairs.i]
    both = sparse.csr_array((np.ones(2 * pairs.size), ends), shape=(n, n))
    parts = (
        torch.as_tensor(np.asarray(part, dtype=np.int64))
        for part in (both.indptr, both.indices)
    )
    matrix = torch.sparse_csr_tensor(
        *parts, torch.as_tensor(both.data), size=(n, n)
    ).cuda()
    product = {}
    for dtype in (torch.float64, torch.float32):
        m, block = matrix.to(dtype), on_device.to(dtype)
        m @ block
        product[str(dtype)[6:]] = min(
            timed(lambda m=m, block=block: m @ block) for _ in range(5)
        )
    return {
        "what": "listed pairs",
        "n": n,
        "pairs": pairs.size,
        "k": K,
        "iteration_ms": 1e3 * iteration,
        "product_ms": {name: 1e3 * one for name, one in product.items()},
        "iteration_over_float64_product": iteration / product["float64"],
        "history": [end.history[0], end.history[-1]],
    }


def measure_agreement() -> dict[str, Any]:
    """Compare the ends on the device with those on the CPU."""
    pairs, start = listed(5000, 100)
    found: dict[str, Any] = {"what": "loss on the device over that on the CPU"}
    for loss in ("relative", "distance", "squared"):
        cpu = refine_pairs(
            pairs, Configuration(start, Form(SIGNS)), loss=loss
        ).value
        on_device = Configuration(
            torch.as_tensor(start, device="cuda"), Form(SIGNS)
        )
        found[loss] = refine_pairs(pairs, on_device, loss=loss).value / cpu
        try:
            import cupy

            with_cupy = Configuration(cupy.asarray(start), Form(SIGNS))
            found[f"{loss}, CuPy"] = (
                refine_pairs(pairs, with_cupy, loss=loss).value / cpu
            )
        except ImportError:
            pass
    return found


def measure_all(n: int, k: int = 20) -> dict[str, Any]:
    """Time a fit of all pairs by the relative loss."""
    from dense import ball

    D = ball(n, torch.float32).sqrt_() + 1
    D.fill_diagonal_(0)
    D = (D + D.T) / 2
    neuc_mds(D[:3000, :3000].contiguous(), k, loss="relative", max_iter=3)
    seen = []
    result: list[Any] = []

    def work() -> None:
        result.append(
            neuc_mds(
                D,
                k,
                loss="relative",
                max_iter=50,
                callback=lambda *_: seen.append(time.perf_counter()),
            )
        )

    seconds = timed(work)
    steps = np.diff(seen)
    return {
        "what": "all pairs, relative",
        "n": n,
        "k": k,
        "seconds": seconds,
        "iterations": len(seen),
        "iteration_ms": 1e3 * float(np.median(steps)),
        "loss": result[-1].loss_value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": [],
    }
    for job in (
        measure_agreement,
        measure_listed,
        lambda: measure_all(20_000),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = job()
        record["rows"].append(row)
        print(json.dumps(row), flush=True)
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
