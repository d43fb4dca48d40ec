"""The one way to compile: numba, cached on disk where a place for the cache can be found."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

njit: Any = numba.njit


def compiled(function: Function) -> Function:
    """The function compiled at its first call, and kept on disk for the next program where that is possible.

    It runs without Python's lock, so threads may call it side by side.
    """
    try:
        return njit(function, cache=True, nogil=True)
    except RuntimeError:  # neither the installation nor the home folder can be written
        return njit(function, nogil=True)
