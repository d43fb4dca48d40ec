"""Faults for Spark: attempts at tasks that fail in several ways, and workers killed in every stage.

Use::

    with failing_tasks(log, rate=0.25, seed=1, gate=gate), workers_killed(session, cluster, gate) as killed:
        engine.edges()

The first makes every pass of the engine fail so often, the second kills a worker once in each stage; tasks
wait at the gate, a folder, until that has happened. ``read_attempts(log)`` tells what was tried and how it
ended.
"""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attomaton.engines import spark

KINDS = ("at once", "halfway", "at the end", "dies")
"""Before any work; after the first batch; with all work done and all files written; the process is gone."""

MANY = "20"
"""Attempts that a task has: of four in a row that fail one time in four, one task in 250 would lose all."""


@dataclass(frozen=True)
class Failing:
    """A function for executors that fails in so many of all attempts.

    Attributes
    ----------
    function : callable
        From record batches to record batches.
    rate : float
        Share of the attempts that fail: 0, 1, 1/2, 1/3 …
    seed : int
        Which ones do follows from it: of every ``1 / rate`` attempts that Spark numbers one after the other,
        one, in each of :data:`KINDS` in turn.
    log : Path
        A file that every attempt adds a line to.
    gate : Path, optional
        A folder; no attempt goes on before a file named for its stage is there.
    """

    function: Callable[[Iterable[Any]], Iterable[Any]]
    rate: float
    seed: int
    log: Path
    gate: Path | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        here = (context.stageId(), context.partitionId(), context.taskAttemptId())
        kind = self._kind(here[2])
        self._tell(here, kind)
        while self.gate is not None and not (self.gate / str(here[0])).exists():
            time.sleep(0.05)
        self._fail(kind, "at once")
        for number, batch in enumerate(self.function(batches)):
            yield batch
            if number == 0:
                self._fail(kind, "halfway")
        if kind == "dies":
            os._exit(1)
        if kind != "well":
            raise RuntimeError(f"this attempt fails on purpose, {kind}")

    def _kind(self, attempt: int) -> str:
        if not self.rate:
            return "well"
        size = round(1 / self.rate)
        block, place = divmod(attempt, size)
        chosen = random.Random(repr((self.seed, block))).randrange(size)  # noqa: S311
        return KINDS[block % len(KINDS)] if place == chosen else "well"

    def _fail(self, kind: str, when: str) -> None:
        if kind == when:
            raise RuntimeError(f"this attempt fails on purpose, {kind}")

    def _tell(self, here: tuple[int, ...], kind: str) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{here[0]}\t{here[1]}\t{here[2]}\t{kind}\t{self._task}\n")

    @property
    def _task(self) -> str:
        """What is done: the class of the function, or of the stage that it runs."""
        return type(getattr(self.function, "stage", self.function)).__name__


@dataclass(frozen=True)
class Attempt:
    """One attempt at a task: where, and how it was to end."""

    stage: int
    part: int
    kind: str
    task: str


def read_attempts(log: Path) -> list[Attempt]:
    """What was tried."""
    rows = [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines()]
    return [Attempt(int(stage), int(part), kind, task) for stage, part, _, kind, task in rows]


@contextmanager
def failing_tasks(
    log: Path, *, rate: float, seed: int, gate: Path | None = None, only: str = ""
) -> Iterator[None]:
    """Every pass of a Spark engine fails so often, as long as the block runs, or that of this name only."""
    from pyspark import cloudpickle

    whole = spark.map_batches

    def map_batches(frame: Any, function: Any, schema: str) -> Any:
        chosen = only in ("", type(function).__name__)
        return whole(frame, Failing(function, rate if chosen else 0.0, seed, log, gate), schema)

    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # executors need not find the tests
    try:
        with patch.object(spark, "map_batches", map_batches):
            yield
    finally:
        cloudpickle.unregister_pickle_by_value(here)


@contextmanager
def workers_killed(session: Any, cluster: Any, gate: Path) -> Iterator[list[int]]:
    """In each stage one worker of the cluster is killed −9 while tasks run, and another started.

    Yields the list of the stages in which that happened. For each a file is put into the folder ``gate``.
    """
    gate.mkdir()
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        tracker = session.sparkContext.statusTracker()
        while not over.is_set():
            for stage in tracker.getActiveStageIds():
                told = tracker.getStageInfo(stage)
                if stage not in killed and told is not None and told.numActiveTasks:
                    killed.append(stage)
                    cluster.kill_worker()
                    (gate / str(stage)).touch()
                    cluster.add_worker()
            over.wait(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()
