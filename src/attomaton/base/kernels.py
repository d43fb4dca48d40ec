"""Compilation with numba, only where it pays, with a cache on disk.

A decorated function stays an ordinary function of numbers and arrays. Each kernel counts the work of its
calls so far, in array entries. Python runs the function as long as that work is less than the cost of
getting compiled code: little if an earlier program left it on disk, much if it must be compiled. So a small
problem is solved at once, a large one is compiled before it begins, and no program takes much more than
twice the time of the best choice. If the work turns out larger than estimated, Python stops and the kernel
starts over, compiled.

Both ways give the same numbers, bit for bit: kernels use ``math`` and plain loops where numpy and numba
would round differently. Only matrix products (the flow of embedded tokens) and kernels with a separate
numpy version may differ in the last digits.

numba compiles one function at a time and holds the GIL, so only other processes can compile in parallel
(:func:`start_helpers`). They leave their code on disk, where this process finds it.
"""

import math
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from time import thread_time
from typing import Any, ClassVar, TypeVar, cast, overload

import numpy as np

Work = Callable[..., float]
Function = TypeVar("Function", bound=Callable[..., Any])

LOAD_WORK = 100_000
"""Entries that Python processes in the time it takes to read compiled code from disk: 0.1 to 0.2 s."""

WORK_FOR_BYTE = 200
"""Entries that Python processes in about the time it takes to compile one byte of bytecode."""

SECONDS_FOR_BYTE = 1e-3  # estimated time to compile one byte, for messages to users
PATIENCE = 0.4  # fraction of that time for which Python runs a kernel before it gives up
SOON = 0.3  # seconds after which Python checks whether the kernel it runs is on disk, compiled
LONG = 2.0  # seconds of compiling from which users are informed


class TooLong(Exception):
    """Python has run a kernel for longer than compiling it would have taken."""


class _Running(threading.local):
    """What this thread runs in Python: inside a plain kernel, everything it calls runs in Python too."""

    plain = False
    until = math.inf  # when to call ``ask`` to decide whether to continue
    ask: Callable[[], float] = staticmethod(lambda: math.inf)

    def go_on(self) -> None:
        """Check, when it is time, whether Python continues; raise ``TooLong`` if not."""
        if thread_time() > self.until:
            self.until = thread_time() + self.ask()


_running = _Running()


class Inner:
    """A function that only compiled code and plain kernels call."""

    _options: ClassVar[dict[str, bool]] = {"no_cpython_wrapper": True}

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the function in Python."""
        _running.go_on()
        return self.plain(*arguments)

    @cached_property
    def code(self) -> Any:
        """numba's dispatcher for this function, made on demand."""
        return dispatcher_of(self.plain, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """The numba type of this object in compiled code."""
        import numba

        types: Any = numba.types
        return types.Dispatcher(self.code)


class Kernel(Inner):
    """A function that Python calls: interpreted while the work is small, compiled from then on."""

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

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, interpreted or compiled, whichever pays."""
        if _running.plain:
            return super().__call__(*arguments)
        if not self._is_loaded and self._stays_plain(arguments):
            before = None if self._work is announced else copy_arrays(arguments)
            try:
                return self._run_plain(arguments)
            except TooLong:  # more work than estimated: start over
                restore_arrays(arguments, before)
        if not self._is_loaded:
            if not has_kept(self.code):
                wait_for_helpers()
                if not has_kept(self.code):
                    announce_compiling(SECONDS_FOR_BYTE * self.n_bytes)
            self._is_loaded = True
        return self.code(*arguments)

    def _run_plain(self, arguments: tuple[Any, ...]) -> Any:
        """Run the function and everything it calls in Python; raise ``TooLong`` if that does not pay."""

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
                return self._instead(*arguments)
        finally:
            _running.plain, _running.until = False, math.inf

    @cached_property
    def n_bytes(self) -> int:
        """How much there is to compile: the bytes of bytecode of this function and of everything it calls."""
        functions: set[Inner] = set()
        waiting: list[Inner] = [self]
        while waiting:
            function = waiting.pop()
            if function not in functions:
                functions.add(function)
                named = (function.plain.__globals__.get(name) for name in function.plain.__code__.co_names)
                waiting += [other for other in named if isinstance(other, Inner)]
        return sum(len(function.plain.__code__.co_code) for function in functions)

    def expect(self, work: float) -> None:
        """Count work that the next calls will share."""
        self._asked += work

    def _stays_plain(self, arguments: tuple[Any, ...]) -> bool:
        if is_switched("off"):
            return True
        if is_switched("on"):
            return False
        self.expect(self._work(*arguments))
        if self._asked <= LOAD_WORK:
            return True
        return self._asked <= WORK_FOR_BYTE * self.n_bytes and not self._finds_code()

    def _finds_code(self) -> bool:
        """Whether an earlier program left compiled code; checked once."""
        if self._is_on_disk is None:
            self._is_on_disk = bool(is_kept(self))
        return self._is_on_disk


@overload
def compiled(function: Function) -> Function: ...
@overload
def compiled(*, work: Work, instead: Callable[..., Any] | None = None) -> Callable[[Function], Function]: ...
def compiled(
    function: Any = None, *, work: Work | None = None, instead: Callable[..., Any] | None = None
) -> Any:
    """The function, compiled as soon as that pays, and cached on disk for the next program if possible.

    ``work(*arguments)`` estimates how many array entries a call processes; by default, every entry of
    its arguments once. Compiled code releases the GIL, so threads may call it in parallel.
    ``instead`` is what Python runs where it does not compile, if not the function itself: the same
    computation in numpy, up to rounding.
    """
    if function is None:
        return partial(Kernel, work=work, instead=instead)
    return Kernel(function, work, instead)


def compiled_within(function: Function) -> Function:
    """The same for a function that only decorated functions call.

    The code that unpacks Python objects is left out; for a function of a dozen arrays it is a large part of
    the code to compile.
    """
    kernel: Any = Inner(function)
    return kernel


def expect_work(kernel: Callable[..., Any], work: float) -> None:
    """Announce how many entries the next calls of a kernel will process, before threads share them.

    Otherwise the first threads would start a large problem in Python, since their own share of it is small.
    """
    if isinstance(kernel, Kernel):
        kernel.expect(work)


def announced(*_: Any) -> float:
    """The ``work`` of a kernel whose caller announces the work of all calls with ``expect_work``.

    Such calls share arrays between threads, so the kernel must give the same result if it is restarted.
    """
    return 0.0


def is_kept(kernel: Callable[..., Any]) -> bool | None:
    """Whether this program or an earlier one compiled the kernel and cached the code on disk.

    None where nothing is cached: no folder is writable, or compiling is switched off.
    """
    return has_kept(kernel.code) if isinstance(kernel, Kernel) and not is_switched("off") else None


def copy_arrays(arguments: Any) -> Any:
    """Arrays and tuples of them, copied; None for everything else."""
    if isinstance(arguments, tuple):
        return tuple(map(copy_arrays, cast("tuple[Any, ...]", arguments)))
    return cast("np.ndarray[Any, Any]", arguments).copy() if isinstance(arguments, np.ndarray) else None


def restore_arrays(arguments: Any, before: Any) -> None:
    """Restore the contents of arrays from the copies of :func:`copy_arrays`."""
    if isinstance(before, tuple):
        for argument, old in zip(arguments, cast("tuple[Any, ...]", before), strict=True):
            restore_arrays(argument, old)
    elif isinstance(before, np.ndarray) and arguments.flags.writeable:
        arguments[...] = before


def is_switched(way: str) -> bool:
    """Whether the environment switches compiling ``way``: "on" or "off" (``ATTOMATON_COMPILE``).

    ``NUMBA_DISABLE_JIT=1`` also switches it off.
    """
    if way == "off" and os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    return os.environ.get("ATTOMATON_COMPILE", "") == way


def count_entries(*arguments: Any) -> float:
    """The number of entries in all arrays among the arguments, including those in tuples."""
    total = 0.0
    for value in arguments:
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, tuple):
            total += count_entries(*value)
    return total


def dispatcher_of(function: Callable[..., Any], **options: bool) -> Any:
    """numba's dispatcher for a function: it compiles at the first call, or reads an earlier program's code.

    It releases the GIL, so threads may call it in parallel.
    """
    import numba

    njit: Any = numba.njit
    options |= {"nogil": True, "no_cfunc_wrapper": True}  # C calls none of it
    try:
        with _own_cache():
            return njit(function, cache=True, **options)
    except RuntimeError:  # numba finds no folder that it can write
        warnings.warn(
            "compiled code cannot be cached on disk, so every program compiles again; set NUMBA_CACHE_DIR to "
            "a writable folder (`attomaton doctor` lists the folders that were tried)",
            stacklevel=1,
        )
        return njit(function, **options)


@contextmanager
def _own_cache() -> Generator[None]:
    """Let only the environment set the cache folder: the code in it will run.

    By default numba also reads a file ``.numba_config.yaml`` in the working directory.
    """
    import numba.core.config

    config: Any = numba.core.config
    names = [name for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES") if hasattr(config, name)]
    before = {name: getattr(config, name) for name in names}
    try:
        for name in names:
            setattr(config, name, os.environ.get(f"NUMBA_{name}", ""))
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def has_kept(dispatcher: Any) -> bool | None:
    """Whether an earlier program cached this version of the function; None if nothing can be cached."""
    folder = dispatcher.stats.cache_path
    if folder is None:
        return None
    source = Path(dispatcher.py_func.__code__.co_filename)
    name = f"{source.stem}.{dispatcher.py_func.__qualname__}".replace("<", "").replace(">", "")
    written = source.stat().st_mtime
    return any(index.stat().st_mtime >= written for index in Path(folder).glob(f"{name}-*.nbi"))


@dataclass
class _CompileState:
    helpers: "list[subprocess.Popen[Any]]" = field(default_factory=list["subprocess.Popen[Any]"])
    tell: Callable[[str], object] | None = None
    told: bool = False


_state, _lock = _CompileState(), threading.Lock()


def start_helpers(chains: Sequence[Sequence[str]]) -> None:
    """Start a process for each chain of exercises of :mod:`attomaton.cli.warming`, without waiting.

    Nothing is started if the Python executable is unknown. This process compiles what helpers do not finish.
    """
    with _lock:
        if _state.helpers or not sys.executable:
            return
        environment = os.environ | {"ATTOMATON_COMPILE": "on", "OMP_NUM_THREADS": "1"}
        for chain in chains:
            command = [sys.executable, "-P", "-m", "attomaton.cli.warming", *chain]
            streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            try:
                _state.helpers.append(subprocess.Popen(command, env=environment, **streams))  # noqa: S603  our names
            except OSError:  # no more processes: this one compiles by itself
                return


def wait_for_helpers() -> bool:
    """Wait for all helper processes; return whether all of them succeeded."""
    with _lock:
        helpers = list(_state.helpers)
        if helpers:
            _tell_once(f"compiling once for this machine, in {len(helpers)} processes")
        ended = [helper.wait() for helper in helpers]
        _state.helpers.clear()
    return not any(ended)


def announce_compiling(seconds: float) -> None:
    """Inform the user, once, that compiling takes a while."""
    if seconds >= LONG:
        _tell_once(f"compiling once for this machine, about {max(5, round(seconds, -1)):.0f} s")


def _tell_once(text: str) -> None:
    if _state.told:
        return
    _state.told = True
    advice = f"{text}; `attomaton doctor --compile` does it in advance"
    if _state.tell is not None:
        _state.tell(advice)
    elif "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
        sys.stderr.write(f"attomaton: {advice}\n")


@contextmanager
def told_by(tell: Callable[[str], object]) -> Generator[None]:
    """Within this context, pass messages to users about compiling to ``tell``."""
    before, _state.tell = _state.tell, tell
    try:
        yield
    finally:
        _state.tell = before


@compiled_within
def copy_into(target: Any, begin: int, values: Any) -> None:
    """``target[begin : begin + len(values)] = values``, without the error message for mismatched shapes.

    That message alone takes seconds to compile.
    """
    for place in range(len(values)):
        target[begin + place] = values[place]


@compiled
def add_precisely(total: Any, lost: Any, place: int, value: float) -> None:
    """Add ``value`` to ``total[place]`` and its rounding error to ``lost[place]`` (Neumaier summation).

    The error of such a sum does not grow with the number of terms.
    """
    before = total[place]
    raised = before + value
    if abs(before) >= abs(value):
        lost[place] += (before - raised) + value
    else:
        lost[place] += (value - raised) + before
    total[place] = raised
