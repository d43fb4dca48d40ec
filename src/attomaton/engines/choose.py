"""Which engine runs the passes: what an engine is, and the choice by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Union

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import check_threads, show
from attomaton.base.progress import Progress, silent
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import Shards
from attomaton.engines.limits import parse_memory
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from attomaton.engines.sparksession import check_master, check_spark

if TYPE_CHECKING:
    from attomaton.engines.duckdb import DuckDBEngine
    from attomaton.engines.spark import SparkEngine

ENGINES = ("auto", "memory", "duckdb", "spark")

Engine = Union[MemoryEngine, "DuckDBEngine", "SparkEngine"]
"""What has ``edges()``, ``choices(components)``, ``map_queries(function, …)`` and the queries ``kept``."""


def needs_shards(name: str) -> bool:
    """Whether the engine of this name reads shards on disk only."""
    if name not in ENGINES:
        raise UnsupportedOption(f"there is no engine {show(name)}; choose auto, memory, duckdb or spark")
    return name in ("duckdb", "spark")


def check_engine(
    name: str, corpus: object, *, memory: str | int | None, threads: int | None, master: str | None
) -> bool:
    """Say at once what an engine cannot do with this corpus and these options; whether it needs shards."""
    on_disk = needs_shards(name)
    parse_memory(memory)
    check_threads(threads)
    check_master(master)
    if on_disk and isinstance(corpus, Samples):
        raise UnsupportedOption(
            f"the engine {name} reads text and shards, not ready-made samples; choose memory"
        )
    if name == "spark":
        check_spark()
    return on_disk


BYTES_PER_TOKEN = 700
"""Memory that the whole path takes in memory for a token of text, at window 32."""


def _fits(corpus: Shards, memory: str | int | None) -> bool:
    """Whether the whole path should fit in memory, judged by the size of the corpus."""
    return BYTES_PER_TOKEN * sum(corpus.sizes) <= parse_memory(memory)


def make_engine(
    name: str,
    corpus: Samples | Shards,
    selection: Selection,
    *,
    work: Path,
    memory: str | int | None = None,
    threads: int | None = None,
    master: str | None = None,
    progress: Progress = silent,
) -> Engine:
    """The engine of this name; ``"auto"`` is memory for what should fit there, DuckDB for larger shards.

    Parameters
    ----------
    name : str
        auto, memory, duckdb or spark.
    corpus : Samples or Shards
        What to read.
    selection : Selection
        What to keep.
    work : Path
        Where an engine that works on disk may make a folder of its own; see
        :class:`~attomaton.engines.duckdb.DuckDBEngine`.
    memory : str or int, optional
        About how much memory the duckdb engine or a local Spark may use.
    threads : int, optional
        How many the engine uses; all processors if not given.
    master : str, optional
        Where Spark runs; see :class:`~attomaton.engines.spark.SparkEngine`.
    progress : callable
        Called now and then with a stage, how much of it is done, and how much there is.

    Examples
    --------
    >>> import tempfile
    >>> samples = Samples.from_windows([0, 1, 0, 2, 0, 1, 0], window=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = make_engine("auto", samples, Selection(window=3), work=Path(folder))
    >>> type(engine).__name__, engine.edges().load()
    ('MemoryEngine', EdgeTable(4 edges, 3 queries, 3 samples))
    """
    check_engine(name, corpus, memory=memory, threads=threads, master=master)
    if isinstance(corpus, Samples) or name == "memory" or (name == "auto" and _fits(corpus, memory)):
        return MemoryEngine(corpus, selection, threads)
    if name == "spark":
        from attomaton.engines.spark import SparkEngine

        return SparkEngine(corpus, work / "engine", selection, master, memory, threads, progress)
    from attomaton.engines.duckdb import DuckDBEngine

    return DuckDBEngine(corpus, work / "engine", selection, memory, threads, progress)
