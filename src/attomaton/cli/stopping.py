"""Handle Ctrl-C and SIGTERM: a stopped command cleans up and prints how to resume it."""

# `main` runs every command in `heeding_termination` and `ending_when_stopped`; a command that can resume does
# its work in `resumable`.

import os
import shlex
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, from ``kill``, ``docker stop`` or a cancelled job; handled like Ctrl-C."""


@contextmanager
def heeding_termination() -> Generator[None]:
    """Raise :class:`Terminated` on the first SIGTERM in the block; the second one ends the program."""
    report = sys.unraisablehook

    def terminate(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Terminated

    def send_again(ignored: Any) -> None:  # if Python dropped the exception, as it does in callbacks
        if not isinstance(ignored.exc_value, Terminated):
            report(ignored)
            return
        signal.signal(signal.SIGTERM, terminate)
        # from another thread after 10 ms, when the callback has ended
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGTERM)).start()

    before = signal.signal(signal.SIGTERM, terminate)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        signal.signal(signal.SIGTERM, before)


@contextmanager
def resumable(can: bool, *options: str) -> Generator[None]:
    """If the block is stopped, add to the error the command that resumes it, which has these options too."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if can:
            added = [option for option in options if option not in sys.argv]
            command = shlex.join(["attomaton", *sys.argv[1:], *added])
            stop.args = (*stop.args, f"To resume, run: {command}")
        raise


@contextmanager
def ending_when_stopped() -> Generator[None]:
    """If the block is stopped, print that, and exit with 128 plus the signal number, as shells do."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from attomaton.cli.messages import print_error

        print_error(" ".join(["Stopped.", *stop.args]))
        sys.exit(128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))
