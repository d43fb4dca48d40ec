"""Ctrl-C and SIGTERM: a command that is stopped cleans up and says how to resume it."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, as ``kill``, ``docker stop`` and cancelled jobs send it; handled wherever Ctrl-C is."""


@contextmanager
def heeding_termination() -> Generator[None]:
    """In the block SIGTERM raises :class:`Terminated`, once: a second SIGTERM ends the program at once."""
    report = sys.unraisablehook

    def terminate(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Terminated

    def send_again(ignored: Any) -> None:
        """Python drops what is raised in a callback, such as one of an import: raise it somewhere else."""
        if not isinstance(ignored.exc_value, Terminated):
            report(ignored)
            return
        signal.signal(signal.SIGTERM, terminate)
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
    """If the block is stopped, say which command resumes it: the same, with these options."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if can:
            added = [option for option in options if option not in sys.argv]
            command = shlex.join(["attomaton", *sys.argv[1:], *added])
            stop.args = (*stop.args, f"To continue where it stopped: {command}")
        raise


@contextmanager
def ending_when_stopped() -> Generator[None]:
    """If the block is stopped, say so and exit with 128 and the number of the signal, as shells do."""
    try:
        yield
    except KeyboardInterrupt as stop:
        from attomaton.cli.output import print_error

        print_error(" ".join(["Stopped.", *stop.args]))
        sys.exit(128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))
