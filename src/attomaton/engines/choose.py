"""Choose the engine that runs the passes over a corpus."""

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

from attomaton.base.errors import UnsupportedOption
from attomaton.base.machine import parse_memory
from attomaton.base.options import MOST_THREADS, Checked, checked, choice, given_path, whole_number
from attomaton.base.progress import Progress, silent
from attomaton.corpora.documents import Chunk
from attomaton.corpora.readers.batches import as_reading
from attomaton.corpora.readers.corpus import ReadingOptions
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import Shards
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.merging import import_duckdb
from attomaton.engines.selection import Selection
from attomaton.engines.source import read_whole_documents
from attomaton.engines.sparksession import check_master, import_spark
from attomaton.engines.sums import AddUp, sum_chunks

if TYPE_CHECKING:
    from attomaton.engines.duckdb import DuckDBEngine
    from attomaton.engines.spark import SparkEngine

ENGINES = ("auto", "memory", "duckdb", "spark")
BYTES_PER_TOKEN = 700  # bytes that the in-memory engine needs per token of text, at window 32
BYTES_PER_TEXT_BYTE = 60  # bytes that the in-memory engine needs per byte of a text file

# An engine with a corpus: it has `edges()`, `choices(components)` and the `selected` queries.
Passes = Union[MemoryEngine, "DuckDBEngine", "SparkEngine"]


def _check_engine(engine: object, _: str) -> str:
    return choice(engine, "engine", options=ENGINES)


def _check_memory(memory: str | int, _: str) -> str | int:
    parse_memory(memory)
    return memory


@dataclass(frozen=True)
class Engine(Checked):
    """Where the passes over a corpus run, and with which resources.

    Attributes
    ----------
    name : str
        ``"memory"`` computes everything in memory. ``"duckdb"`` reads shards on disk, in partitions of the
        queries, with bounded memory. ``"spark"`` does so on local processors or a cluster. ``"auto"`` means
        duckdb for a folder of shards that is unlikely to fit in memory, and otherwise memory.
    memory : str or int, optional
        The memory in which the duckdb engine sorts and merges, or which a local Spark session uses, such as
        "2GB"; the default is 60 % of the machine's memory. The process needs more memory than this, for
        documents that are tokenised, tokens that threads work on, and the largest query.
    threads : int, optional
        Threads for the engine and both solvers; by default one per processor. With embeddings, numpy's linear
        algebra uses its own setting.
    master : str, optional
        The Spark master, such as ``"spark://host:7077"``; the default is the active session, or local
        processors.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn([[0, 1, 0, 2, 0, 1]], window=3, engine=Engine("duckdb", memory="1GB", threads=1))
    Automaton(2 queries, 5 components, 3 tokens)
    """

    name: str = field(default="auto", metadata=checked(_check_engine))
    memory: str | int | None = field(default=None, metadata=checked(_check_memory))
    threads: int | None = field(default=None, metadata=checked(whole_number, least=1, most=MOST_THREADS))
    master: str | None = field(default=None, metadata=checked(check_master))

    @property
    def on_disk(self) -> bool:
        """Whether the engine reads only shards on disk."""
        return self.name in ("duckdb", "spark")

    def in_memory(self, corpus: Samples | Shards) -> bool:
        """Return whether the engine reads this corpus into memory; for ``"auto"`` it depends on the size."""
        if isinstance(corpus, Samples) or self.name != "auto":
            return not self.on_disk
        return BYTES_PER_TOKEN * sum(corpus.sizes) <= parse_memory(self.memory)

    def reads_text_in_memory(self, size: Callable[[], int]) -> bool:
        """Return whether the engine reads text of ``size`` bytes into memory."""
        # Only "auto" calls `size`, which looks at files.
        if self.name != "auto" or BYTES_PER_TEXT_BYTE * size() <= parse_memory(self.memory):
            return not self.on_disk
        import_duckdb("a corpus too large for memory")  # an error before any work if it is not installed
        return False


def as_engine(engine: object, corpus: object = None) -> Engine:
    """Check that the engine of a user can read this corpus and is installed, and return it."""
    chosen = engine if isinstance(engine, Engine) else Engine(cast("str", engine))
    if chosen.on_disk and isinstance(corpus, Samples):
        raise UnsupportedOption(f"the engine {chosen.name} reads text and shards, not Samples; use memory")
    if chosen.name == "spark":
        import_spark()
    if chosen.name == "duckdb":
        import_duckdb("the engine duckdb")
    return chosen


def make_engine(
    engine: str | Engine,
    corpus: Samples | Shards,
    selection: Selection,
    *,
    work: Path,
    progress: Progress = silent,
) -> Passes:
    """Make the engine that runs the passes; an engine on disk creates its folder in ``work``."""
    settings = as_engine(engine, corpus)
    if isinstance(corpus, Samples) or settings.in_memory(corpus):
        return MemoryEngine(corpus, selection, settings.threads)
    return make_disk_engine(settings, corpus, selection, work, progress)


def make_disk_engine(
    settings: Engine, corpus: Shards, selection: Selection, work: Path, progress: Progress
) -> "DuckDBEngine | SparkEngine":
    # imported here, so that a run in memory does not load them
    if settings.name == "spark":
        from attomaton.engines.spark import SparkEngine

        return SparkEngine(
            corpus, work / "engine", selection, settings.master, settings.memory, settings.threads, progress
        )
    from attomaton.engines.duckdb import DuckDBEngine

    import_duckdb("a corpus too large for memory")
    return DuckDBEngine(corpus, work / "engine", selection, settings.memory, settings.threads, progress)


@contextmanager
def open_corpus(
    corpus: Any,
    options: ReadingOptions,
    engine: Engine,
    *,
    work: str | PathLike[str] | None,
    progress: Progress,
) -> Generator[tuple[Chunk | Shards, Vocabulary | None, dict[str, Any], AddUp]]:
    """Yield whole documents, vocabulary, manifest entry, and the function that sums over documents."""
    reading, tokenizer = as_reading(options.get("reading")), options.get("tokenizer") or "word"
    with ExitStack() as stack:
        if work is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attomaton-")))
        else:
            folder = given_path(work, "work")
        progress("reading", 0, 0)
        shards = folder / "tokens" if engine.on_disk else None
        documents, vocabulary, about = read_whole_documents(
            corpus, tokenizer=tokenizer, tokens=shards, reading=reading
        )
        if isinstance(documents, Chunk):
            add_up: AddUp = partial(sum_chunks, [documents])
        else:
            add_up = make_engine(engine, documents, Selection(), work=folder, progress=progress).sums
        yield documents, vocabulary, about, add_up
