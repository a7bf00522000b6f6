"""How much memory there is, and how much may be used: bytes as people write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from neucmds.errors import InputError, option

__all__ = ["available_memory", "format_bytes", "parse_bytes"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# What the kernel calls available includes caches that others may be counting on.
_SHARE = 0.8


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
                f"{option('max_memory', amount)} is not understood; write '2GB' or bytes."
            )
        units = _BINARY_UNITS if match[3] else _UNITS
        amount = float(match[1]) * units[match[2].upper()]
    if isinstance(amount, bool) or not amount >= 1:
        raise InputError(f"{option('max_memory', amount)} must be a positive number of bytes.")
    return int(amount)


def format_bytes(amount: float) -> str:
    """Write an amount of memory with three digits: 7.2 GB."""
    for unit, size in reversed(_UNITS.items()):
        if amount >= size and unit:
            return f"{amount / size:.3g} {unit.replace('K', 'k')}B"
    return f"{amount:.0f} bytes"


def available_memory() -> int | None:
    """Return the bytes that can be taken without swapping, or None where that is not known."""
    found = [amount for amount in (_kernel_says(), _container_says()) if amount is not None]
    return int(_SHARE * min(found)) if found else None


def _kernel_says() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        # Free pages leave the caches out, so where only the total is told, half of it is taken.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _container_says() -> int | None:
    """Return what a control group leaves of its limit; idle caches can be dropped."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cached = re.search(
            r"^inactive_file (\d+)$", (group / "memory.stat").read_text(encoding="ascii"), re.M
        )
    except (OSError, ValueError):
        return None
    return max(0, limit - used + (int(cached[1]) if cached else 0))
