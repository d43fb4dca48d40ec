"""The one way to compile: numba, kept on disk where there is a place for it, and checked when it is read."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numba
import numba.core.config

from attomaton.compiled.cache import CheckedCache

Function = TypeVar("Function", bound=Callable[..., Any])

njit: Any = numba.njit
_config: Any = numba.core.config
CACHE = ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")
"""The settings of numba that say where compiled code is kept."""


def compiled(function: Function) -> Function:
    """The function compiled at its first call, and kept on disk for the next program where that is possible.

    It runs without Python's lock, so threads may call it side by side.
    """
    return _compile(function)


def compiled_within(function: Function) -> Function:
    """The same for a function that only compiled code calls.

    Python cannot call it: the code that would unpack Python's objects is left out, which for functions of a
    dozen arrays is much of what there is to compile.
    """
    return _compile(function, no_cpython_wrapper=True)


def _compile(function: Function, **options: bool) -> Function:
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C does not call any of it
    compiled: Any = njit(function, **options)
    with suppress(RuntimeError, AttributeError), _own_cache():  # no place to write, or another numba
        compiled._cache = CheckedCache(function)
    return compiled


@contextmanager
def _own_cache() -> Generator[None]:
    """Only the environment may say where the cache is: what is in it will run.

    By itself numba also asks a file ``.numba_config.yaml`` in the working directory.
    """
    asked = {name: getattr(_config, name) for name in CACHE if hasattr(_config, name)}
    try:
        for name in asked:
            setattr(_config, name, os.environ.get(f"NUMBA_{name}", ""))
        yield
    finally:
        for name, value in asked.items():
            setattr(_config, name, value)


@compiled_within
def copy_into(target: Any, begin: int, values: Any) -> None:
    """``target[begin : begin + len(values)] = values``, without the words for shapes that do not fit.

    Those words alone take seconds to compile.
    """
    for place in range(len(values)):
        target[begin + place] = values[place]
