"""The one way to compile: numba, where compiling pays, with its own cache on disk.

A decorated function stays an ordinary function of numbers and arrays. Each kernel counts the work of its
calls so far, in entries of arrays. Python runs the function as long as that work is less than what compiled
code costs: little if an earlier program left it on disk, much if it must be compiled. So a small problem is
answered at once, a large problem is compiled before it begins, and no program waits much longer than twice
the best choice. Where the work is more than it looked, Python gives up and the kernel begins again,
compiled.

Both ways give the same numbers, bit for bit: kernels use ``math`` and plain loops where numpy and numba
would round differently. Only products of matrices (the flow of embedded tokens) and kernels with a form of
their own for numpy may differ in the last digits.

numba compiles one function at a time and holds Python's lock, so only other programs can compile side by side
(:func:`start_helpers`). They leave their code on disk, where this program finds it.
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
"""Entries that Python looks at while compiled code is read from disk: one or two tenths of a second."""

WORK_FOR_BYTE = 200
"""Entries that Python looks at in about the time in which one byte of Python's own code is compiled."""

SECONDS_FOR_BYTE = 1e-3  # how long compiling one byte takes, for what users are told
PATIENCE = 0.4  # share of that time for which Python itself works on a kernel before it gives up
SOON = 0.3  # seconds of computing after which Python looks whether a kernel that it runs is on disk, compiled
LONG = 2.0  # seconds of compiling that a user is told of


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

    def __call__(self, *arguments: Any) -> Any:
        """Run the function in Python."""
        _running.go_on()
        return self.plain(*arguments)

    @cached_property
    def code(self) -> Any:
        """numba's dispatcher of this function, made on demand."""
        return dispatcher_of(self.plain, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for where compiled code names it."""
        import numba

        types: Any = numba.types
        return types.Dispatcher(self.code)


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

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, in the way that pays."""
        if _running.plain:
            return super().__call__(*arguments)
        if not self._is_loaded and self._stays_plain(arguments):
            before = None if self._work is announced else copy_arrays(arguments)
            try:
                return self._run_plain(arguments)
            except TooLong:  # the work is more than it looked: begin again
                restore_arrays(arguments, before)
        if not self._is_loaded:
            if not has_kept(self.code):
                wait_for_helpers()
                if not has_kept(self.code):
                    announce_compiling(SECONDS_FOR_BYTE * self.n_bytes)
            self._is_loaded = True
        return self.code(*arguments)

    def _run_plain(self, arguments: tuple[Any, ...]) -> Any:
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
                return self._instead(*arguments)
        finally:
            _running.plain, _running.until = False, math.inf

    @cached_property
    def n_bytes(self) -> int:
        """How much there is to compile: the bytes of Python's code of this function and of all it calls."""
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
        """Count work that the next calls will share between them."""
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
        """Whether an earlier program left compiled code; it is looked for once."""
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
    """The function, compiled as soon as that pays, and kept on disk for the next program where possible.

    ``work(*arguments)`` estimates how many entries of arrays a call looks at; by default, every entry of
    its arguments once. Compiled code runs without Python's lock, so threads may call it side by side.
    ``instead`` is what Python runs where it does not compile, if not the function itself: the same in
    numpy, up to rounding.
    """
    if function is None:
        return partial(Kernel, work=work, instead=instead)
    return Kernel(function, work, instead)


def compiled_within(function: Function) -> Function:
    """The same for a function that only decorated functions call.

    The code that would unpack Python's objects is left out, which for functions of a dozen arrays is much of
    what there is to compile.
    """
    kernel: Any = Inner(function)
    return kernel


def expect_work(kernel: Callable[..., Any], work: float) -> None:
    """Say how many entries the next calls of a kernel will look at, before they are shared between threads.

    Otherwise the first threads would begin a large problem in Python, since their own share of it is small.
    """
    if isinstance(kernel, Kernel):
        kernel.expect(work)


def announced(*_: Any) -> float:
    """The ``work`` of a kernel whose caller says with ``expect_work`` what all calls together will do.

    Such calls share arrays between threads, so the kernel must give the same if it is begun again.
    """
    return 0.0


def is_kept(kernel: Callable[..., Any]) -> bool | None:
    """Whether this program or an earlier one compiled the kernel and kept the code on disk.

    None where nothing is kept: there is no place to write to, or compiling is switched off.
    """
    return has_kept(kernel.code) if isinstance(kernel, Kernel) and not is_switched("off") else None


def copy_arrays(arguments: Any) -> Any:
    """Arrays and tuples of them, copied; None for everything else."""
    if isinstance(arguments, tuple):
        return tuple(map(copy_arrays, cast("tuple[Any, ...]", arguments)))
    return cast("np.ndarray[Any, Any]", arguments).copy() if isinstance(arguments, np.ndarray) else None


def restore_arrays(arguments: Any, before: Any) -> None:
    """Put back into arrays what :func:`copy_arrays` copied."""
    if isinstance(before, tuple):
        for argument, old in zip(arguments, cast("tuple[Any, ...]", before), strict=True):
            restore_arrays(argument, old)
    elif isinstance(before, np.ndarray) and arguments.flags.writeable:
        arguments[...] = before


def is_switched(way: str) -> bool:
    """Whether the environment says that compiling is always "on" or "off" (``ATTOMATON_COMPILE``).

    ``NUMBA_DISABLE_JIT=1`` switches it off, too.
    """
    if way == "off" and os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    return os.environ.get("ATTOMATON_COMPILE", "") == way


def count_entries(*arguments: Any) -> float:
    """The entries of all arrays among the arguments and in tuples of them."""
    total = 0.0
    for value in arguments:
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, tuple):
            total += count_entries(*value)
    return total


def dispatcher_of(function: Callable[..., Any], **options: bool) -> Any:
    """numba's dispatcher of a function: it compiles at the first call, or reads what an earlier program kept.

    It runs without Python's lock, so threads may call it side by side.
    """
    import numba

    njit: Any = numba.njit
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


@contextmanager
def _own_cache() -> Generator[None]:
    """Only the environment may say where the cache is: what is in it will run.

    By itself numba also asks a file ``.numba_config.yaml`` in the working directory.
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
    """Whether an earlier program kept code of this function as it is now; None if none can be kept."""
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
    """Start a program for each chain of exercises of :mod:`attomaton.cli.warming`, and go on.

    Without Python's own program nothing is started. What a helper does not finish is compiled here.
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
            except OSError:  # no more processes: this program compiles by itself
                return


def wait_for_helpers() -> bool:
    """Wait until all programs that compile ahead have ended; whether all of them did their work."""
    with _lock:
        helpers = list(_state.helpers)
        if helpers:
            _tell_once(f"compiling once for this machine, in {len(helpers)} programs side by side")
        ended = [helper.wait() for helper in helpers]
        _state.helpers.clear()
    return not any(ended)


def announce_compiling(seconds: float) -> None:
    """Tell the user, once, that compiling takes a while."""
    if seconds >= LONG:
        _tell_once(f"compiling once for this machine, about {max(5, round(seconds, -1)):.0f} s")


def _tell_once(text: str) -> None:
    if _state.told:
        return
    _state.told = True
    advice = f"{text}; `attomaton doctor --compile` does it ahead"
    if _state.tell is not None:
        _state.tell(advice)
    elif "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
        sys.stderr.write(f"attomaton: {advice}\n")


@contextmanager
def told_by(tell: Callable[[str], object]) -> Generator[None]:
    """Inside, ``tell`` is called with what users should know about compiling."""
    before, _state.tell = _state.tell, tell
    try:
        yield
    finally:
        _state.tell = before


@compiled_within
def copy_into(target: Any, begin: int, values: Any) -> None:
    """``target[begin : begin + len(values)] = values``, without the words for shapes that do not fit.

    Those words alone take seconds to compile.
    """
    for place in range(len(values)):
        target[begin + place] = values[place]


@compiled
def add_precisely(total: Any, lost: Any, place: int, value: float) -> None:
    """Add ``value`` to the sum ``total[place]`` and what rounding loses to ``lost[place]`` (Neumaier's sum).

    The error of such a sum does not grow with the number of terms.
    """
    before = total[place]
    raised = before + value
    if abs(before) >= abs(value):
        lost[place] += (before - raised) + value
    else:
        lost[place] += (value - raised) + before
    total[place] = raised
