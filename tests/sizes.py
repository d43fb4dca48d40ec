"""Which cases of a long test run in the gate."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], gate: Collection[Any]) -> list[Any]:
    """Cases of which those in ``gate`` run in the gate, and all with ``.ci/run --full``."""
    return [
        value
        if value in gate
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for value in values
    ]
