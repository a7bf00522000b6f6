"""Measure the free memory."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path

from neucmds.errors import InputError

# Share of the available memory that is used: it includes caches of other processes.
_SHARE = 0.8
# Bytes that are taken to be there: to look would take longer than the work on so few.
_ALWAYS_THERE = 64_000_000


def format_bytes(amount: float) -> str:
    """Write an amount of memory with three digits: 7.2 GB."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log10(max(amount, 1))) // 3, len(units) - 1)
    return f"{amount / 1000**power:.3g} {units[power]}"


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if unknown.

    On Linux the least of the available memory, of what the limits of control groups (containers,
    batch systems) leave, and of what the limit on addresses (``ulimit -v``) leaves; elsewhere what
    psutil says, if it is installed.
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii")
        pages = int(
            Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        )
        import resource
    except (OSError, ImportError):
        with suppress(ImportError):
            import psutil

            return int(_SHARE * psutil.virtual_memory().available)
        return None
    limits = _left_in_groups()
    limits += [
        1024 * int(kb)
        for kb in re.findall(r"^MemAvailable: *(\d+) kB$", lines, re.M)
    ]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        limits.append(max(0, limit - pages * resource.getpagesize()))
    if not limits:
        return None
    return int(_SHARE * min(limits))


def require_memory(needed: int, what: str, advice: str) -> None:
    """Refuse work, `what`, that needs more bytes than are free; `advice` says what else to do."""
    if needed <= _ALWAYS_THERE:
        return
    free = available_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs {format_bytes(needed)}, but {format_bytes(free)} are free; {advice}."
        )


def _left_in_groups(
    root: Path = Path("/sys/fs/cgroup"),
    membership: Path = Path("/proc/self/cgroup"),
) -> list[int]:
    """Return the bytes that this process's control group, and each group above it, leaves."""
    path = ""
    if membership.exists():
        path = (
            membership.read_text(encoding="utf-8").partition("0::")[2].strip()
        )
    # Inside a container the path is that of the host, and only the root is there.
    group = root / path.lstrip("/")
    bytes_left = []
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            continue
        # Groups without a folder or without a limit ("max") are left out.
        with suppress(OSError, ValueError):
            most, taken, stat = (
                (folder / name).read_text(encoding="ascii")
                for name in ("memory.max", "memory.current", "memory.stat")
            )
            # Idle caches can be dropped.
            cached = map(int, re.findall(r"^inactive_file (\d+)$", stat, re.M))
            bytes_left.append(max(0, int(most) - int(taken) + sum(cached)))
    return bytes_left
