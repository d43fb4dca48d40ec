"""Calls of every kernel with their answers, recorded with numba before the kernels were written in C++.

Three have none: ``descend_embedded``, ``expand_embedded`` and ``fill_hessians`` are parts of numba kernels
that called BLAS. Their calls were recorded in C++, and tests tie them to definitions.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("recorded.npz")


@dataclass(frozen=True)
class Call:
    """Arguments of a kernel, what it returned, and the arguments as it left them."""

    arguments: tuple[Any, ...]
    result: Any
    after: tuple[Any, ...]


def read_calls() -> dict[str, list[Call]]:
    """The recorded calls of each kernel; its name is that in :mod:`attomaton.base.native`."""
    with np.load(FILE) as file:
        listed = json.loads(file["calls"].tobytes())
        arrays = {int(name): array for name, array in file.items() if name != "calls"}

    def restored(tree: Any) -> Any:
        if isinstance(tree, dict):
            return arrays[tree["array"]]
        return tuple(map(restored, tree)) if isinstance(tree, list) else tree

    return {
        kernel: [Call(*(restored(call[key]) for key in ("arguments", "result", "after"))) for call in calls]
        for kernel, calls in listed.items()
    }


def copied(value: Any) -> Any:
    """The value with arrays of its own."""
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value
