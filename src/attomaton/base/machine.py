"""What the machine gives to this process: processors and memory, asked in one way on every system."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Share = TypeVar("Share")
Answer = TypeVar("Answer")

CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

ASSUMED = 4_000_000_000
"""Bytes of memory that a machine is taken to have where the system does not say (Windows)."""


def count_processors() -> int:
    """How many processors this process may run on.

    Where the system does not say (macOS, Windows), these are all that the machine has.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_out(
    work: Callable[[Share], Answer], shares: Sequence[Share], threads: int | None = None
) -> list[Answer]:
    """Do ``work`` on every share, on a number of threads or on all processors; answers keep the order.

    This pays where compiled code does the work, which holds no lock. A single share, and a single thread,
    are left to the thread that asks.

    Examples
    --------
    >>> share_out(abs, [1, -2, 3], threads=2)
    [1, 2, 3]
    """
    if len(shares) <= 1 or threads == 1:
        return list(map(work, shares))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads or count_processors()) as pool:
        return list(pool.map(work, shares))


def total_memory() -> int | None:
    """The bytes of memory that the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def available_memory() -> int:
    """The smaller of the machine's memory and the limit of its cgroup, in bytes."""
    machine, limit = total_memory() or ASSUMED, read_cgroup_limit()
    return machine if limit is None else min(machine, limit)


def read_cgroup_limit() -> int | None:
    """The smallest limit that a cgroup sets, in bytes; None without one."""
    limits = [limit for name in CGROUP_FILES if (limit := _read_limit(Path(name))) is not None]
    return min(limits, default=None)


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max": no limit
