"""Show the progress of a command on stderr."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Self

from rich.console import Console

from attomaton.base.printing import clean
from attomaton.base.progress import Stages
from attomaton.cli.messages import encodable, print_error

# Seconds after which the line of a stage is repeated; 30 are promised, as other code may keep the GIL.
INTERVAL = 20.0


@contextmanager
def stages(quiet: bool) -> Generator[Stages]:
    """Announce the stages of a command on stderr."""
    # A terminal shows the current stage and, if its amount of work is known, a bar. Elsewhere each stage is a
    # line, which is repeated every INTERVAL seconds.
    console = Console(stderr=True)
    if quiet:
        yield Stages()
    elif console.is_interactive and sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
            task = progress.add_task("starting", total=None)

            def begin(stage: str) -> None:
                progress.reset(task, description=encodable(clean(f"{stage} …"), console.encoding), total=None)

            yield Stages(begin, lambda done, total: progress.update(task, completed=done, total=total))
    else:
        with _Lines() as lines:
            yield Stages(lines.begin, lines.advance)


class _Lines:
    # A line on stderr for each stage, which a thread repeats with the share that is done and the seconds.

    def __init__(self) -> None:
        self._stage, self._share = "starting", ""
        self._began = monotonic()
        self._begins = threading.Event()  # a stage begins, or the command ends: do not repeat the line
        self._ended = False
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._begins.set()
        self._thread.join()

    def begin(self, stage: str) -> None:
        self._stage, self._share = stage, ""
        self._began = monotonic()
        print_error(f"{stage} …")
        self._begins.set()

    def advance(self, done: int, total: int) -> None:
        self._share = f"{100 * done / total:.0f}%, "

    def _repeat(self) -> None:
        while not self._ended:
            if self._begins.wait(INTERVAL):
                self._begins.clear()
            else:
                print_error(f"{self._stage} … {self._share}{monotonic() - self._began:.0f} s")
