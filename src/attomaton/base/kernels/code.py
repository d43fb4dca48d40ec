"""numba's side of a kernel: the only module that imports it."""

import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numba.core.config

njit: Any = numba.njit
_config: Any = numba.core.config
CACHE = ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")
"""The settings of numba that say where compiled code is kept."""


def dispatcher_of(function: Callable[..., Any], **options: bool) -> Any:
    """numba's dispatcher of a function: it compiles at the first call, or reads what an earlier program kept.

    It runs without Python's lock, so threads may call it side by side.
    """
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C does not call any of it
    try:
        with _own_cache():
            return njit(function, cache=True, **options)
    except RuntimeError:  # numba finds no folder that it can write
        warnings.warn(
            "compiled code cannot be kept on disk, so every program compiles anew; set NUMBA_CACHE_DIR to a "
            "folder that can be written (`attomaton doctor` says where it was looked for)",
            stacklevel=1,
        )
        return njit(function, **options)


def type_of_dispatcher(compiled: Any) -> Any:
    """The type by which compiled code calls this function."""
    types: Any = numba.types
    return types.Dispatcher(compiled)


def is_kept(compiled: Any) -> bool | None:
    """Whether an earlier program kept code of this function as it is now; None if none can be kept."""
    folder = compiled.stats.cache_path
    if folder is None:
        return None
    source = Path(compiled.py_func.__code__.co_filename)
    name = f"{source.stem}.{compiled.py_func.__qualname__}".replace("<", "").replace(">", "")
    written = source.stat().st_mtime
    return any(index.stat().st_mtime >= written for index in Path(folder).glob(f"{name}-*.nbi"))


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
