"""Jobs run in this process or in several; none outlives the run, or finds code in the working directory."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self

from attomaton.base.errors import AttomatonError, UnsupportedOption
from attomaton.base.progress import Advance, silent

SAFE_PATH = "PYTHONSAFEPATH"  # where this is set, Python does not look for modules in the working directory


class Job(Protocol):
    """Some work on what a reader reads, which leaves its result on disk."""

    @property
    def reader(self) -> Any: ...  # noqa: D102
    def run(self) -> None: ...  # noqa: D102


class JobStopped(AttomatonError):
    """Another job failed, so this one need not finish."""


_starting = threading.Lock()  # held where the environment is changed, so that threads give it back as it was
_stop: Any = None  # in a worker: the event that says that the run is over


def check_stop() -> None:
    """Leave a job whose run is over; called between batches."""
    if _stop is not None and _stop.is_set():
        raise JobStopped("stopped, because another input failed")


class Workers:
    """Processes that are begun when they are first needed, and end with the ``with`` block.

    Jobs whose reader is not portable run in this process, and so does everything if one worker is asked for.
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
        away = [job for job in jobs if job.reader.portable] if min(self._workers, len(jobs)) > 1 else []
        here = [job for job in jobs if not job.reader.portable] if away else jobs
        for done, job in enumerate(here, 1):
            job.run()
            self._progress(done, len(jobs))
        if away:
            self._run_away(away, lambda done: self._progress(len(here) + done, len(jobs)))

    def _run_away(self, jobs: Sequence[Job], advance: Callable[[int], object]) -> None:
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool
        from multiprocessing import get_context

        with safe_path():  # a pool begins its processes as it is given jobs
            if self._pool is None:
                context = get_context("spawn")  # threads of Arrow and of tokenizers do not survive a fork
                self._stop = context.Event()
                workers = min(self._workers, len(jobs))
                self._pool = ProcessPoolExecutor(workers, context, _begin_worker, (self._stop,))
            futures = [self._pool.submit(_run, job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                advance(done)
        except BrokenProcessPool as error:
            raise AttomatonError(
                "a worker process died, perhaps for want of memory, or because a script asks for workers "
                "outside `if __name__ == '__main__':`; mend that, or ask for fewer workers, and run it "
                "again: it goes on where it stopped"
            ) from error


@contextmanager
def safe_path() -> Generator[None]:
    """Python processes begun inside the block do not look for modules in the working directory.

    They still get all that this process looks in: multiprocessing hands ``sys.path`` on. Without this they
    would look in the working directory before that, for the modules that read what is handed on.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise UnsupportedOption(
            "Python runs with -E, so its worker processes would read modules from the working directory; "
            "run it with -I, or with -P too, or ask for one worker"
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


def _run(job: Job) -> None:
    job.run()


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
