"""How much memory an engine may use."""

import re

from attomaton.base.errors import UnsupportedOption
from attomaton.base.machine import available_memory
from attomaton.base.options import LARGEST, show, whole_number

SHARE = 0.6
"""Of the machine's memory, unless told otherwise."""

SMALLEST = 256_000_000
"""Less than this is of no use: the engine itself and one piece of the corpus must fit."""

_UNITS = {"": 1, "B": 1}
for power, letter in enumerate("KMGT", 1):
    _UNITS.update({letter: 1000**power, f"{letter}B": 1000**power, f"{letter}IB": 1024**power})


def parse_memory(memory: str | int | None) -> int:
    """Bytes from "2GB", "2g", "512MiB" or a number; by default 60 % of what machine or cgroup allows."""
    if memory is None:
        return max(int(SHARE * available_memory()), SMALLEST)
    size = _read_size(memory) if isinstance(memory, str) else whole_number(memory, "memory")
    if not SMALLEST <= size <= LARGEST:
        least, most = f"{SMALLEST // 10**6}MB", f"{LARGEST // 10**12:,}TB"
        raise UnsupportedOption(f"memory is {show(memory)}; give at least {least} and at most {most}")
    return int(size)


def _read_size(memory: str) -> float:
    """The bytes that a text such as 2GB says, perhaps infinitely many."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", memory)
    if match is None or match[2].upper() not in _UNITS:
        raise UnsupportedOption(f"memory is {show(memory)}; give a size such as 2GB or 512MiB")
    return float(match[1]) * _UNITS[match[2].upper()]
