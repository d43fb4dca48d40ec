"""Run jobs in one or several processes; none outlives the run or imports from the working directory."""

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
    """Work on the content of a reader that leaves its result on disk."""

    @property
    def reader(self) -> Any: ...
    def run(self) -> None: ...


class JobStopped(AttomatonError):
    """Another job failed, so this one need not finish."""


_starting = threading.Lock()  # only one thread at a time changes the environment
_stop: Any = None  # in a worker: the event that ends the run


def check_stop() -> None:
    """Stop a job if another one failed; called between batches."""
    if _stop is not None and _stop.is_set():
        raise JobStopped("stopped, because another input failed")


class Workers:
    """Processes that start when first needed and end with the ``with`` block.

    Jobs whose reader is not portable run in this process, and so does everything with a single worker.
    """

    def __init__(self, workers: int, progress: Advance = silent) -> None:
        self._workers, self._progress = workers, progress
        self._pool: Any = None
        self._stop: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._stop.set()
            self._pool.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs; the first error is raised, and leaving the block stops the others."""
        portable = [job for job in jobs if job.reader.portable] if min(self._workers, len(jobs)) > 1 else []
        local = [job for job in jobs if not job.reader.portable] if portable else jobs
        for done, job in enumerate(local, 1):
            job.run()
            self._progress(done, len(jobs))
        if portable:
            self._run_in_pool(portable, lambda done: self._progress(len(local) + done, len(jobs)))

    def _run_in_pool(self, jobs: Sequence[Job], advance: Callable[[int], object]) -> None:
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
                "a worker process died, perhaps because memory ran out, or because a script starts workers "
                "outside `if __name__ == '__main__':`; use fewer workers, or correct the script, and run it "
                "again: it resumes where it stopped"
            ) from error


@contextmanager
def safe_path() -> Generator[None]:
    """Keep Python processes started inside the block from importing from the working directory.

    multiprocessing passes ``sys.path`` on, but without this a new process would first look in the working
    directory for the modules that receive it.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise UnsupportedOption(
            "Python runs with -E, so its worker processes would read modules from the working directory; "
            "run it with -I, or also with -P, or use one worker"
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


def _begin_worker(stop: Any) -> None:
    """In a new worker: leave Ctrl-C to the parent, end with the parent, and use one thread."""
    global _stop
    _stop = stop
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
