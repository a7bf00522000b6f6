"""Measure the free memory, and parse and print numbers of bytes."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from neucmds.errors import InputError, option

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# Share of the available memory that is used: it includes caches of other processes.
_SHARE = 0.8
_ALWAYS_THERE = 2**26


def parse_bytes(amount: int | float | str) -> int:
    """Read an amount of memory: bytes, or text such as "2GB", "500 MB" or "1.5GiB"."""
    if isinstance(amount, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKmMgGtT]?)(i?)[bB]?\s*", amount)
        if match is None or (match[3] and not match[2]):
            raise InputError(
                f"{option('max_memory', amount)} is not understood; write 2GB or a number of bytes."
            )
        units = _BINARY_UNITS if match[3] else _UNITS
        amount = float(match[1]) * units[match[2].upper()]
    number = isinstance(amount, (int, float, np.integer, np.floating))
    if not number or isinstance(amount, bool) or not 1 <= amount < math.inf:
        raise InputError(
            f"{option('max_memory', amount)} is no positive number of bytes; write for example 2GB."
        )
    return int(amount)


def format_bytes(amount: float) -> str:
    """Write an amount of memory with three digits: 7.2 GB."""
    for unit, size in reversed(_UNITS.items()):
        if amount >= size and unit:
            return f"{amount / size:.3g} {unit.replace('K', 'k')}B"
    return f"{amount:.0f} bytes"


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if unknown.

    The least of the available memory, of the rest of the limits of the control groups (containers,
    batch systems), and of the limit on addresses (``ulimit -v``). On other systems than Linux from
    psutil, if it is installed.
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii")
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        import resource
    except (OSError, ImportError):
        return _elsewhere()
    found = _left_in_groups()
    found += [1024 * int(kb) for kb in re.findall(r"^MemAvailable: *(\d+) kB$", lines, re.M)]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        found.append(max(0, limit - pages * resource.getpagesize()))
    return int(_SHARE * min(found)) if found else None


def require_memory(needed: int, what: str, advice: str) -> None:
    """Raise if there is not enough memory for some work; `advice` says what to do."""
    # Up to 64 MB a lookup would take longer than the work.
    free = None if needed <= _ALWAYS_THERE else available_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs {format_bytes(needed)}, but {format_bytes(free)} are free; {advice}."
        )


def _left_in_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """Return the rest of the limits of this process's control group and of those above it."""
    path = own.read_text(encoding="utf-8").partition("0::")[2].strip() if own.exists() else ""
    # Inside a container the path is the host's, and only the tree's root is there.
    group, left = root / path.lstrip("/"), []
    for folder in (group, *(above for above in group.parents if above.is_relative_to(root))):
        with suppress(OSError, ValueError):
            most, taken, stat = (
                (folder / name).read_text(encoding="ascii")
                for name in ("memory.max", "memory.current", "memory.stat")
            )
            # Idle caches can be dropped.
            cached = map(int, re.findall(r"^inactive_file (\d+)$", stat, re.M))
            left.append(max(0, int(most) - int(taken) + sum(cached)))
    return left


def _elsewhere() -> int | None:
    with suppress(ImportError):
        import psutil

        return int(_SHARE * psutil.virtual_memory().available)
    return None
