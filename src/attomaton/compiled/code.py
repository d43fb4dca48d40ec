"""numba's side of a kernel: the only module that imports it."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import numba
import numba.core.config

from attomaton.compiled.cache import CheckedCache

njit: Any = numba.njit
_config: Any = numba.core.config
CACHE = ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")
"""The settings of numba that say where compiled code is kept."""


def dispatcher_of(function: Callable[..., Any], **options: bool) -> Any:
    """numba's dispatcher of a function: it compiles at the first call, or reads what an earlier program kept.

    It runs without Python's lock, so threads may call it side by side.
    """
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C does not call any of it
    compiled: Any = njit(function, **options)
    with suppress(RuntimeError, AttributeError), _own_cache():  # no place to write, or another numba
        compiled._cache = CheckedCache(function)
    return compiled


def type_of_dispatcher(compiled: Any) -> Any:
    """The type by which compiled code calls this function."""
    types: Any = numba.types
    return types.Dispatcher(compiled)


def is_on_disk(compiled: Any, given: tuple[Any, ...]) -> bool:
    """Whether an earlier program kept code for arguments of these types."""
    cache = getattr(compiled, "_cache", None)
    if not isinstance(cache, CheckedCache):
        return False
    types = tuple(compiled.typeof_pyval(value) for value in given)
    return cache.holds(types, compiled.targetctx)


def is_kept(compiled: Any) -> bool | None:
    """Whether an earlier program kept code of this function, for whatever types; None if none can be kept."""
    cache = getattr(compiled, "_cache", None)
    return cache.holds_any() if isinstance(cache, CheckedCache) and cache.keeps else None


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
