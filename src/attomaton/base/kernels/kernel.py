"""When a function is compiled: as soon as running it in Python has cost as much as compiled code would.

Each kernel counts the work that it was asked for so far, in entries of arrays. Python runs the function as
it is written as long as that work is less than what compiled code costs: little if an earlier program left
it on disk, much if it must be compiled. So a small problem is answered at once, a large problem is compiled
before it begins, and no program waits much longer than twice the best choice. Where the work is more than
it looked, Python gives up and the kernel begins again, compiled.

Both ways give the same numbers, bit for bit: kernels use ``math`` and plain loops where numpy and numba
would round differently. Only products of matrices (the flow of embedded tokens) and kernels with a form of
their own for numpy may differ in the last digits.
"""

import math
import os
import threading
from collections.abc import Callable
from functools import cached_property, update_wrapper
from time import thread_time
from typing import Any, ClassVar, cast

import numpy as np

Work = Callable[..., float]

LOAD_WORK = 100_000
"""Entries that Python looks at while compiled code is read from disk: one or two tenths of a second."""

WORK_FOR_BYTE = 200
"""Entries that Python looks at in about the time in which one byte of Python's own code is compiled."""

SECONDS_FOR_BYTE = 1e-3
"""How long compiling one byte takes, for what users are told."""

PATIENCE = 0.4
"""Share of that time for which Python itself works on a kernel before it gives up."""


SOON = 0.3
"""Seconds of computing after which Python looks whether a kernel that it runs is on disk, compiled."""


class TooLong(Exception):
    """Python has run a kernel for so long that compiling it would have been quicker."""


class _Running(threading.local):
    """What this thread runs in Python: inside a kernel, Python also runs all that the kernel calls."""

    plain = False
    until = math.inf  # when to ask ``ask`` whether to go on
    ask: Callable[[], float] = staticmethod(lambda: math.inf)

    def go_on(self) -> None:
        """Ask, when it is time, whether Python goes on; ``TooLong`` ends it."""
        if thread_time() > self.until:
            self.until = thread_time() + self.ask()


_running = _Running()


class Inner:
    """A function that compiled code and plain kernels call, and nobody else."""

    _options: ClassVar[dict[str, bool]] = {"no_cpython_wrapper": True}

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function
        update_wrapper(self, function)

    def __call__(self, *given: Any) -> Any:
        """Run the function in Python."""
        _running.go_on()
        return self.plain(*given)

    @cached_property
    def code(self) -> Any:
        """numba's dispatcher of this function, made when it is first asked for."""
        from attomaton.base.kernels.code import dispatcher_of

        return dispatcher_of(self.plain, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for where compiled code names it."""
        from attomaton.base.kernels.code import type_of_dispatcher

        return type_of_dispatcher(self.code)


class Kernel(Inner):
    """A function that Python calls: in Python as long as the work is small, compiled from then on."""

    _options: ClassVar[dict[str, bool]] = {}

    def __init__(
        self, function: Callable[..., Any], work: Work | None, instead: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(function)
        self._instead = instead or function
        self._work = work or count_entries
        self._asked = 0.0
        self._is_loaded = False
        self._is_on_disk: bool | None = None

    def __call__(self, *given: Any) -> Any:
        """Run the function, in the way that pays."""
        if _running.plain:
            return super().__call__(*given)
        if not self._is_loaded and self._stays_plain(given):
            before = None if self._work is announced else copy_arrays(given)
            try:
                return self._run_plain(given)
            except TooLong:  # the work is more than it looked: begin again
                restore_arrays(given, before)
        if not self._is_loaded:
            self._prepare()
        return self.code(*given)

    def _run_plain(self, given: tuple[Any, ...]) -> Any:
        """Run the function in Python, and all that it calls; ``TooLong`` if that does not pay."""

        def ask() -> float:
            if is_switched("off"):
                return math.inf
            if thread_time() > end or self._finds_code():
                raise TooLong
            return end - thread_time()

        begin = thread_time()
        end = begin + PATIENCE * SECONDS_FOR_BYTE * self.n_bytes
        _running.plain, _running.until, _running.ask = True, begin + SOON, ask
        try:
            with np.errstate(all="ignore"):  # compiled code does not warn either
                return self._instead(*given)
        finally:
            _running.plain, _running.until = False, math.inf

    @cached_property
    def n_bytes(self) -> int:
        """How much there is to compile: the bytes of Python's code of this function and of all it calls."""
        found: set[Inner] = set()
        waiting: list[Inner] = [self]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                named = (one.plain.__globals__.get(name) for name in one.plain.__code__.co_names)
                waiting += [other for other in named if isinstance(other, Inner)]
        return sum(len(one.plain.__code__.co_code) for one in found)

    def _prepare(self) -> None:
        """Wait for programs that compile ahead, and say what a user waits for if this one must compile."""
        from attomaton.base.kernels.ahead import announce_compiling, wait_for_helpers
        from attomaton.base.kernels.code import is_kept

        if not is_kept(self.code):
            wait_for_helpers()
            if not is_kept(self.code):
                announce_compiling(SECONDS_FOR_BYTE * self.n_bytes)
        self._is_loaded = True

    def is_kept(self) -> bool | None:
        """Whether there is compiled code of this function on disk; None where none can be, or is wanted."""
        if is_switched("off"):
            return None
        from attomaton.base.kernels.code import is_kept

        return is_kept(self.code)

    def expect(self, work: float) -> None:
        """Count work that the next calls will share between them."""
        self._asked += work

    def _stays_plain(self, given: tuple[Any, ...]) -> bool:
        if is_switched("off"):
            return True
        if is_switched("on"):
            return False
        self.expect(self._work(*given))
        if self._asked <= LOAD_WORK:
            return True
        return self._asked <= WORK_FOR_BYTE * self.n_bytes and not self._finds_code()

    def _finds_code(self) -> bool:
        """Whether an earlier program left compiled code; it is looked for once."""
        if self._is_on_disk is None:
            self._is_on_disk = bool(self.is_kept())
        return self._is_on_disk


def announced(*_: Any) -> float:
    """The ``work`` of a kernel whose caller says with ``expect_work`` what all calls together will do.

    Such calls share arrays between threads, so the kernel must give the same if it is begun again.
    """
    return 0.0


def copy_arrays(given: Any) -> Any:
    """Arrays and tuples of them, copied; None for everything else."""
    if isinstance(given, tuple):
        return tuple(map(copy_arrays, cast("tuple[Any, ...]", given)))
    return cast("np.ndarray[Any, Any]", given).copy() if isinstance(given, np.ndarray) else None


def restore_arrays(given: Any, before: Any) -> None:
    """Put back into arrays what :func:`copy_arrays` copied."""
    if isinstance(before, tuple):
        for one, old in zip(given, cast("tuple[Any, ...]", before), strict=True):
            restore_arrays(one, old)
    elif isinstance(before, np.ndarray) and given.flags.writeable:
        given[...] = before


def is_switched(way: str) -> bool:
    """Whether the environment says that compiling is always "on" or "off" (``ATTOMATON_COMPILE``).

    ``NUMBA_DISABLE_JIT=1`` switches it off, too.
    """
    told = os.environ.get("ATTOMATON_COMPILE", "")
    if way == "off" and os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    return told == way


def count_entries(*given: Any) -> float:
    """The entries of all arrays among the arguments and in tuples of them."""
    total = 0.0
    for value in given:
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, tuple):
            total += count_entries(*value)
    return total
