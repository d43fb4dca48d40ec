"""Measures of training runs, and claims of the theory checked on them.

The room and the function have one name: ``attomaton.verify(automata, trace)`` is
:func:`attomaton.verify.claims.verify`, which needs PyTorch and is loaded when called.
"""

import sys
from types import ModuleType
from typing import Any

from attomaton.errors import needing_torch


class _CallableRoom(ModuleType):
    """The package itself, callable."""

    def __call__(self, automata: Any, trace: Any) -> Any:
        with needing_torch("verify"):
            from attomaton.verify.claims import verify

        return verify(automata, trace)


sys.modules[__name__].__class__ = _CallableRoom
