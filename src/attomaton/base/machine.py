"""Count the processors and the memory that this process may use, and divide work among threads."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import LARGEST_WHOLE, show, whole_number

Share = TypeVar("Share")
Answer = TypeVar("Answer")

CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

# Bytes of memory to assume where the system does not report them (Windows).
ASSUMED = 4_000_000_000


def count_processors() -> int:
    """The number of processors that this process may use, or of all if the system does not say (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def divide_work(
    work: Callable[[Share], Answer], shares: Sequence[Share], threads: int | None = None
) -> list[Answer]:
    """The results of ``work`` on each share, in order; by default, with one thread per processor."""
    if len(shares) <= 1 or threads == 1:
        return list(map(work, shares))
    from concurrent.futures import ThreadPoolExecutor  # loaded only for several threads

    with ThreadPoolExecutor(threads or count_processors()) as pool:
        return list(pool.map(work, shares))


def release_memory() -> None:
    """Return to the system the memory that Arrow and the C library no longer use."""
    import ctypes  # neither module is needed to import attomaton

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(AttributeError):  # musl has none
            ctypes.CDLL(None).malloc_trim(0)


def total_memory() -> int | None:  # of the machine, in bytes; None if the system does not say
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def available_memory() -> int:
    """The smaller of the machine's memory and the limit of its cgroup, in bytes."""
    limits = (total_memory() or ASSUMED, read_cgroup_limit())
    return min(limit for limit in limits if limit is not None)


def read_cgroup_limit() -> int | None:
    """The memory limit of the container in which this process runs, in bytes.

    The lower one, if there are two.
    """
    limits: list[int] = []
    for name in CGROUP_FILES:
        with suppress(OSError):
            text = Path(name).read_text(encoding="ascii").strip()
            limits += [int(text)] if text.isdecimal() else []  # "max": no limit
    return min(limits, default=None)


SHARE = 0.6  # of the available memory, used by default
LEAST_MEMORY = 256_000_000  # bytes: the engine and one chunk of the corpus must fit
_UNITS = {"": 1, "B": 1}  # in upper case → bytes: K, KB and KIB, and so on
for power, letter in enumerate("KMGT", 1):
    _UNITS.update({letter: 1000**power, f"{letter}B": 1000**power, f"{letter}IB": 1024**power})


def parse_memory(memory: str | int | None) -> int:
    """The bytes in "2GB", "2g", "512MiB" or a number; by default 60 % of the available memory."""
    if memory is None:
        return max(int(SHARE * available_memory()), LEAST_MEMORY)
    size = _read_size(memory) if isinstance(memory, str) else whole_number(memory, "memory")
    if not LEAST_MEMORY <= size <= LARGEST_WHOLE:
        limits = f"at least {LEAST_MEMORY // 10**6}MB and at most {LARGEST_WHOLE // 10**12:,}TB"
        raise UnsupportedOption(f"memory is {show(memory)}; give {limits}")
    return int(size)


def _read_size(memory: str) -> float:  # a number with a unit, in bytes
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", memory)
    if match is None or match[2].upper() not in _UNITS:
        raise UnsupportedOption(f"memory is {show(memory)}; give a size such as 2GB or 512MiB")
    return float(match[1]) * _UNITS[match[2].upper()]
