"""The ties of all parts, which the second pass looks up: names of files until they are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attomaton.base.artifacts import digest_record
from attomaton.base.tables import column, read_parquet
from attomaton.graphs.components import NODE_SCHEMA, Components
from attomaton.graphs.parts import join, of_nodes, shift


@dataclass(frozen=True)
class Ties:
    """Components with more than one token, a file for each part of the queries; they can be sent elsewhere.

    Attributes
    ----------
    paths : tuple of Path
        Parquet files of nodes, components numbered from 0 in each.
    digests : tuple of str
        The SHA-256 of each file.
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> Ties((), (), 5).load()
    Components(0 components of 0 queries)
    """

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    n_tokens: int

    @property
    def fingerprint(self) -> str:
        """Of all files together."""
        return digest_record([self.n_tokens, list(self.digests)])

    def __iter__(self) -> Iterator[pa.Table]:
        """The nodes of each part, components numbered one after the other; one part is read at a time."""
        number = 0
        for path in self.paths:
            table = read_parquet(path.read_bytes())
            yield shift(table, number, "component")
            number += int(column(table, "component").max(initial=-1)) + 1

    def load(self) -> Components:
        """All of them in memory, without edges and order."""
        return of_nodes(join(NODE_SCHEMA, list(self)), self.n_tokens)
