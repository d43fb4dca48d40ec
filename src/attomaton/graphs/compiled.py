"""The one way to compile: numba, kept on disk where there is a place for it, and checked when it is read."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba

from attomaton.graphs.codecache import CheckedCache

Function = TypeVar("Function", bound=Callable[..., Any])

njit: Any = numba.njit


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
    with suppress(RuntimeError):  # neither the installation nor the home folder can be written
        compiled._cache = CheckedCache(function)
    return compiled


@compiled_within
def copy_into(target: Any, begin: int, values: Any) -> None:
    """``target[begin : begin + len(values)] = values``, without the words for shapes that do not fit.

    Those words alone take seconds to compile.
    """
    for place in range(len(values)):
        target[begin + place] = values[place]
