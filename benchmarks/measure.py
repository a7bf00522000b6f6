"""What every benchmark needs: the machine in words, the families of matrices, peak memory."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from neucmds.datasets import euclidean_ball, hop_distances, random_simplex

RECORDS = Path(__file__).parent / "records"
SEED = 0


def random_hops(n: int) -> np.ndarray:
    """Squared hop counts in the 8-nearest-neighbour graph of random points of a cube."""
    return hop_distances(check_random_state(SEED).uniform(size=(n, 3)), 8) ** 2


def bray_curtis_gamma(n: int) -> np.ndarray:
    """Squared Bray-Curtis dissimilarities of random abundances, few of them large.

    50 species, Gamma(0.3, 1) each, times a Gamma(2, 1) sampling effort per object: the uneven
    effort makes D far from Euclidean.
    """
    rng = check_random_state(SEED)
    table = rng.gamma(0.3, size=(n, 50)) * rng.gamma(2.0, size=(n, 1))
    return cdist(table, table, "braycurtis") ** 2


FAMILIES: dict[str, Callable[[int], np.ndarray]] = {
    "Euclidean-ball": lambda n: euclidean_ball(n, random_state=SEED),
    "Random-simplex": lambda n: random_simplex(n, random_state=SEED),
    "8-NN hops": random_hops,
    "Bray-Curtis gamma": bray_curtis_gamma,
}


@contextlib.contextmanager
def needed(*packages: str) -> Iterator[None]:
    """Name the packages to install, in one line, if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        advice = f"pip install {' '.join(packages)}"
        raise SystemExit(f"{error}: {advice}") from None


def machine() -> dict[str, Any]:
    """Name the processor and say how much of it there is; nothing that names its owner."""
    found: dict[str, Any] = {
        "processor": platform.processor() or platform.machine()
    }
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                found["processor"] = line.split(":", 1)[1].strip()
                break
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found["memory_gb"] = round(pages / 1e9, 1)
    except (OSError, ValueError):
        pass
    found["cores"] = os.cpu_count()
    # More than the cores means that others were computing too, and times are upper bounds.
    found["load_before"] = round(os.getloadavg()[0], 1)
    found["system"] = platform.system()
    return found


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    # Run from a checkout, the package may not be installed, or an older one is.
    import neucmds

    found.pop("neucmds", None)
    return {"neucmds": neucmds.__version__, **found}


def resident() -> int:
    """Bytes that this process holds in memory now."""
    return (
        _status("VmRSS")
        or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )


def forget_peak() -> None:
    """Start the peak anew from what is resident now, where the kernel allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Most bytes that this process has held since `forget_peak`."""
    return (
        _status("VmHWM")
        or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )


@contextlib.contextmanager
def peak_with_children(every: float = 1.0) -> Iterator[list[int]]:
    """Watch the bytes of this process and its children, shared pages once; the most of them."""
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(every):
            most[0] = max(
                most[0], sum(map(_own_bytes, [os.getpid(), *_children()]))
            )

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _children() -> list[int]:
    me, found = str(os.getpid()), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == me:
                found.append(int(path.parent.name))
    return found


def _own_bytes(process: int) -> int:
    """Proportional set size: a page that n processes share counts 1/n for each."""
    with contextlib.suppress(OSError):
        for line in (
            Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        ):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON, one row a line."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def fill_page(path: Path, tables: dict[str, str]) -> None:
    """Write text between ``<!-- name -->`` and ``<!-- end -->`` of a page, for each name."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        mark = f"<!-- {name} -->"
        before, rest = text.split(mark, 1)
        text = f"{before}{mark}\n{table}\n{rest[rest.index('<!-- end -->') :]}"
    path.write_text(text, encoding="utf-8")


def _status(name: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def keep_row(
    path: Path, row: dict[str, Any], packages: tuple[str, ...]
) -> None:
    """Write a row to a record as soon as it is there, in the place of the old one."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["method"], row["setting"]

    rows = []
    if path.exists():
        rows = json.loads(path.read_text())["rows"]
    rows = [old for old in rows if key(old) != key(row)]
    made = {"machine": machine(), "versions": versions(*packages)}
    write_record(path, made | {"rows": [*rows, row]})
