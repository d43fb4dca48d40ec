"""Jobs run in this process or in several; none outlives the run."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attomaton.errors import AttomatonError

Progress = Callable[[int, int], object]


class Job(Protocol):
    """Some work that leaves its result on disk."""

    @property
    def reader(self) -> Any:
        """What it reads."""
        ...

    def run(self) -> None:
        """Do it."""
        ...


class Stopped(AttomatonError):
    """Another job failed, so this one need not finish."""


_stop: Any = None
"""In a worker: the event that says that the run is over."""


def check_stop() -> None:
    """Leave a job whose run is over; called between batches."""
    if _stop is not None and _stop.is_set():
        raise Stopped("stopped, because another input failed")


def run_jobs(jobs: Sequence[Job], workers: int, progress: Progress | None = None) -> None:
    """Run the jobs; the first error stops them all and is raised.

    Readers of objects in memory run in this process; the others in ``workers`` new ones, if more than one.
    """
    advance: Progress = progress or (lambda done, total: (done, total))
    here = [job for job in jobs if workers == 1 or len(jobs) == 1 or not job.reader.portable]
    away = [job for job in jobs if not any(job is one for one in here)] if here else list(jobs)
    for done, job in enumerate(here, 1):
        job.run()
        advance(done, len(jobs))
    if away:
        _run_away(away, workers, lambda done: advance(len(here) + done, len(jobs)))


def _run_away(jobs: Sequence[Job], workers: int, advance: Callable[[int], object]) -> None:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    context = get_context("spawn")  # threads of Arrow and of the tokenizers do not survive a fork
    stop = context.Event()
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _begin_worker, (stop,))
    try:
        for done, future in enumerate(as_completed([pool.submit(_run, job) for job in jobs]), 1):
            future.result()
            advance(done)
    except BrokenProcessPool as error:
        raise AttomatonError(
            "a worker process died, perhaps for want of memory; run it again, with fewer workers: it goes on "
            "where it stopped"
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


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
