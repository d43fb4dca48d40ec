"""A trial in a child process with limits of time and memory, and what became of it."""

import os
import resource
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from attomaton.base.errors import AttomatonError

SECONDS, LONGEST = 10, 60
"""Of computing, and of waiting: a busy machine makes a child wait that does nothing wrong."""

ROOM = 3 << 30
"""Bytes of address space that a trial may take beyond what its parent has."""

MOST_RESIDENT = 1_500_000
"""Kilobytes that a trial may hold in memory."""

FAILURES = ("crash", "hang", "memory", "traceback")


def in_child(trial: Callable[[], object]) -> str:
    """``fine``, ``refused: ERROR``, or one of FAILURES with what is known about it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, _try(trial).encode("utf-8", "replace")[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return (
            "hang" if number in (signal.SIGALRM, signal.SIGPROF) else f"crash: {signal.Signals(number).name}"
        )
    return told or "crash: it told nothing"


def _try(trial: Callable[[], object]) -> str:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LONGEST)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    warnings.simplefilter("ignore")
    try:
        trial()
        told = "fine"
    except AttomatonError as error:
        told = f"refused: {type(error).__name__}"
    except MemoryError as error:
        told = f"memory: {_place(error)}"
    except BaseException as error:
        told = f"traceback: {type(error).__name__} {_place(error)} {str(error)[:100]}"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_RESIDENT:
        return f"memory: more than {MOST_RESIDENT:,} kB"
    return told


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "attomaton" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "elsewhere"


def summarise(outcomes: list[tuple[str, str]]) -> dict[str, object]:
    """How often each kind of outcome came, and the failures with what led to them."""
    kinds = Counter(told.partition(":")[0] for told, _ in outcomes)
    failed = Counter(told for told, _ in outcomes if told.startswith(FAILURES))
    examples = {told: next(how for one, how in outcomes if one == told) for told in failed}
    return {
        "trials": len(outcomes),
        "kinds": dict(kinds),
        "failures": {told: [count, examples[told]] for told, count in failed.most_common()},
    }
