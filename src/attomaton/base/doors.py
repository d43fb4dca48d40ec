"""Lazy imports: the ``__init__`` of a package lists its public names, and each is loaded on demand.

The list consists of imports for type checkers. :func:`open_door` reads them from the source, and executes
each when its name is first used, so that ``import attomaton`` does not load PyTorch, DuckDB or SciPy.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from attomaton.base.errors import needing


def open_door(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from its imports under ``TYPE_CHECKING``."""
    module = sys.modules[room]
    loader: Any = module.__spec__ and module.__spec__.loader
    body = ast.parse(loader.get_source(room)).body
    # the statements under `if TYPE_CHECKING:`, of which the imports list the public names
    listed = [node for block in body if isinstance(block, ast.If) for node in block.body]
    imports = [node for node in listed if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: node.module or "" for node in imports for alias in node.names}

    def load(name: str) -> Any:
        source = module_of.get(name, room)
        is_submodule = source == room
        if is_submodule and ("." in name or find_spec(f"{room}.{name}") is None):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        with needing(name):
            value = import_module(f"{room}.{name}") if is_submodule else getattr(import_module(source), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *module_of}), list(module_of)
