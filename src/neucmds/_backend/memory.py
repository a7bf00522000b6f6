"""How much memory there is, and how much may be used: bytes as people write them."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from neucmds.errors import InputError, option

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# What the kernel calls available includes caches that others may be counting on.
_SHARE = 0.8
_ALWAYS_THERE = 2**26


def parse_bytes(amount: int | float | str) -> int:
    """Read an amount of memory: bytes, or text such as "2GB", "500 MB" or "1.5GiB".

    Examples
    --------
    >>> from neucmds._backend.memory import parse_bytes
    >>> parse_bytes("2GB"), parse_bytes("1 KiB")
    (2000000000, 1024)
    """
    if isinstance(amount, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKmMgGtT]?)(i?)[bB]?\s*", amount)
        if match is None or (match[3] and not match[2]):
            raise InputError(
                f"{option('max_memory', amount)} is not understood; write "
                f"{option('max_memory', '2GB')}, or a number of bytes."
            )
        units = _BINARY_UNITS if match[3] else _UNITS
        amount = float(match[1]) * units[match[2].upper()]
    number = isinstance(amount, (int, float, np.integer, np.floating))
    if not number or isinstance(amount, bool) or not 1 <= amount < math.inf:
        raise InputError(
            f"{option('max_memory', amount)} is not a finite, positive number of bytes; write "
            f"{option('max_memory', '2GB')}, or leave it out to use what is free."
        )
    return int(amount)


def format_bytes(amount: float) -> str:
    """Write an amount of memory with three digits: 7.2 GB."""
    for unit, size in reversed(_UNITS.items()):
        if amount >= size and unit:
            return f"{amount / size:.3g} {unit.replace('K', 'k')}B"
    return f"{amount:.0f} bytes"


def available_memory() -> int | None:
    """Return the bytes that can be taken without swapping, or None where that is not known.

    The least of what the system has available, of what the control groups of this process leave of
    their limits (containers, batch systems), and of its limit on addresses (``ulimit -v``).
    """
    found = [
        amount for amount in (_of_system(), _of_groups(), _of_addresses()) if amount is not None
    ]
    return int(_SHARE * min(found)) if found else None


def require_memory(needed: int, what: str, advice: str) -> None:
    """Refuse work for which there is not enough memory, before it starts; `advice` what to do."""
    # Up to 64 MB nothing is looked up, which would take longer than the work.
    free = None if needed <= _ALWAYS_THERE else available_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs {format_bytes(needed)}, but {format_bytes(free)} are free; {advice}."
        )


def _of_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    # On Linux psutil reads the same line; elsewhere it knows what the standard library does not.
    with suppress(ImportError):
        import psutil

        return int(psutil.virtual_memory().available)
    try:
        # Free pages leave the caches out, so where only the total is told, half of it is taken.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _of_groups(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Return the least that this process's control group and those above it leave."""
    try:
        path = own.read_text(encoding="utf-8").partition("0::")[2].strip()
    except (OSError, ValueError):
        path = ""
    # Inside a container the path is the host's, and only the tree's root is there.
    group = root / path.lstrip("/")
    above = (group, *(one for one in group.parents if one.is_relative_to(root)))
    left = [amount for folder in above if (amount := _left_in(folder)) is not None]
    return min(left, default=None)


def _left_in(group: Path) -> int | None:
    """Return what a control group leaves of its limit; idle caches can be dropped."""
    try:
        most, taken = (
            int((group / name).read_text(encoding="ascii"))
            for name in ("memory.max", "memory.current")
        )
        stat = (group / "memory.stat").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    cached = re.search(r"^inactive_file (\d+)$", stat, re.M)
    return max(0, most - taken + (int(cached[1]) if cached else 0))


def _of_addresses() -> int | None:
    """Return what a limit on the addresses of this process leaves."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        taken = pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, AttributeError, OSError, ValueError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - taken)
