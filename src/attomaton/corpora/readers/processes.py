"""Run jobs in one or several processes, which end with the run and import only installed modules."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

from attomaton.base.errors import AttomatonError, UnsupportedOption
from attomaton.base.progress import Advance, silent

SAFE_PATH = "PYTHONSAFEPATH"  # if set, Python does not import modules from the working directory


class Job(Protocol):
    """Work on the content of a reader, whose result is on disk."""

    @property
    def reader(self) -> Any: ...
    def run(self) -> None: ...


class JobStopped(AttomatonError):
    """Another job failed, so this job stops."""


_starting = threading.Lock()  # only one thread at a time changes the environment
_stop: Any = None  # in a worker: the event that ends the run


def check_stop() -> None:
    """Jobs call this between batches, so that a job ends soon after another one has failed."""
    if _stop is not None and _stop.is_set():
        raise JobStopped("this job was stopped because another input failed")


class Workers:
    """Processes that start when they are first needed and end with the ``with`` block.

    With a single worker, all jobs run in this process; otherwise only jobs whose reader is not portable do.
    """

    def __init__(self, workers: int, progress: Advance = silent) -> None:
        self._workers = workers
        self._progress = progress
        self._pool: Any = None
        self._stop: Any = None  # an event that all workers of the pool check

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._stop.set()
            self._pool.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs; the first error is raised, and leaving the block stops the other jobs."""
        several = min(self._workers, len(jobs)) > 1
        portable = [job for job in jobs if several and job.reader.portable]
        local = [job for job in jobs if not (several and job.reader.portable)]
        for done, job in enumerate(local, 1):
            job.run()
            self._progress(done, len(jobs))
        if portable:
            self._run_in_pool(portable, lambda done: self._progress(len(local) + done, len(jobs)))

    # Runs jobs in the pool, which starts at the first call; `advance` gets the number of finished jobs.
    def _run_in_pool(self, jobs: Sequence[Job], advance: Callable[[int], object]) -> None:
        # loaded only for several processes
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        with safe_path():  # a pool starts its processes when it gets jobs
            if self._pool is None:
                context = get_context("spawn")  # threads of Arrow and of tokenizers do not survive a fork
                self._stop = context.Event()
                workers = min(self._workers, len(jobs))
                self._pool = ProcessPoolExecutor(workers, context, _begin_worker, (self._stop,))
            futures = [self._pool.submit(job.run) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                advance(done)
        except BrokenProcessPool as error:
            raise AttomatonError(
                "a worker process died: memory ran out, or a script starts workers outside `if __name__ == "
                "'__main__':`; use fewer workers, or correct the script, and run it again: it resumes"
            ) from error


@contextmanager
def safe_path() -> Generator[None]:
    """Start Python processes in the block that do not import modules from the working directory."""
    # multiprocessing passes `sys.path` on, but a new process would first search the working directory for the
    # modules that receive it
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise UnsupportedOption(
            "Python runs with -E, so its worker processes would import modules from the working directory; "
            "add the option -P, or use one worker"
        )
    with _starting:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[SAFE_PATH]
            else:
                os.environ[SAFE_PATH] = before


# Runs first in each worker. Ctrl-C reaches all processes of a terminal; only the parent handles it.
def _begin_worker(stop: Any) -> None:
    global _stop
    _stop = stop
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


# Waits in a thread of a worker until its parent ends, and then ends the worker at once, even within a job.
def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
