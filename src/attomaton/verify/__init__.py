"""Measures of training runs, and claims of the theory checked on them.

The room and the function have one name: ``attomaton.verify(automata, trace)`` is
:func:`attomaton.verify.claims.verify`, which needs PyTorch and is loaded when called.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """The package itself, callable."""

    def __call__(self, automata: Any, trace: Any) -> Any:
        try:
            from attomaton.verify.claims import verify
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from attomaton.errors import MissingExtra

            raise MissingExtra("verify needs PyTorch: pip install 'attomaton[train]'") from error
        return verify(automata, trace)


sys.modules[__name__].__class__ = _CallableRoom
