"""Kernels compiled ahead, by programs that run beside this one, and what users are told meanwhile.

numba compiles one function at a time and holds Python's lock, so only other programs can compile side by
side. They leave their code on disk, where this program finds it.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

LONG = 2.0
"""Seconds of compiling that a user is told of."""


@dataclass
class _CompileState:
    helpers: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])
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
            try:
                _state.helpers.append(
                    subprocess.Popen(  # noqa: S603  (this Python, and names from this package)
                        [sys.executable, "-P", "-m", "attomaton.cli.warming", *chain],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                )
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
