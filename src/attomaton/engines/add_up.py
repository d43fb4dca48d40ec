"""Sums over a whole corpus by the engine of a user's choice; see :mod:`attomaton.engines.sums`."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from attomaton.base.options import given_path
from attomaton.base.progress import Progress, silent
from attomaton.corpora.pieces import Piece
from attomaton.corpora.readers.batches import as_reading
from attomaton.corpora.readers.given import ReadingOptions
from attomaton.corpora.shards import Shards
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import Engine, make_engine
from attomaton.engines.selection import Selection
from attomaton.engines.source import read_documents
from attomaton.engines.sums import AddUp, sum_pieces


@dataclass(frozen=True)
class Adder:
    """Which engine adds up: as in :func:`~attomaton.learn`."""

    engine: Engine
    progress: Progress = silent

    @contextmanager
    def reading(
        self, corpus: Any, options: ReadingOptions, work: str | PathLike[str] | None
    ) -> Generator[tuple[Piece | Shards, Vocabulary | None, dict[str, Any], AddUp]]:
        """Whole documents, their vocabulary, what a manifest says of them, and what adds up over them."""
        reading = as_reading(options.get("reading"))
        with workplace(work) as folder:
            self.progress("reading", 0, 0)
            shards = folder / "tokens" if self.engine.on_disk else None
            tokenizer = options.get("tokenizer") or "word"
            read = read_documents(corpus, tokenizer=tokenizer, tokens=shards, reading=reading)
            yield *read, self._over(read[0], folder)

    def _over(self, corpus: Piece | Shards, work: Path) -> AddUp:
        """What adds up over this corpus: whole documents in memory, or shards."""
        if isinstance(corpus, Piece):
            return lambda count: sum_pieces([corpus], count)
        return make_engine(self.engine, corpus, Selection(), work=work, progress=self.progress).sums


@contextmanager
def workplace(work: str | PathLike[str] | None) -> Generator[Path]:
    """Where an engine may work: the folder given, or one among the temporary files that goes at the end."""
    if work is not None:
        yield given_path(work, "work")
        return
    with tempfile.TemporaryDirectory(prefix="attomaton-") as folder:
        yield Path(folder)
