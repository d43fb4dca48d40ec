"""Which task counts what: a part of the queries each, and several for a query that is too large for one."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from attomaton.base.tables import Float64, Int64, column
from attomaton.corpora.samples import TOKEN_BITS
from attomaton.graphs.parts import cut_queries


@dataclass(frozen=True, eq=False)
class Slots:
    """Ranges of packed edges, each of which one task counts.

    Attributes
    ----------
    keys : int64 array, shape (n_slots + 1,)
        Slot ``i`` has the packed edges (query, winner, loser) ``keys[i] … keys[i + 1] − 1``.
    parts : int64 array, shape (n_slots,)
        The part that each slot belongs to.
    """

    keys: Int64
    parts: Int64

    def __len__(self) -> int:
        return len(self.parts)

    def find(self, query: Int64, winner: Int64) -> Int64:
        """The slot that choices of these queries with these winners go to."""
        key = query.astype(np.int64) << 2 * TOKEN_BITS | winner.astype(np.int64) << TOKEN_BITS
        return np.searchsorted(self.keys, key, side="right") - 1


def cut_slots(queries: pa.Table, borders: Int64, most: int) -> Slots:
    """A slot for each part, and several for a part that is one query with more than ``most`` samples.

    Such a query is cut by winner, and by loser where one winner alone is too much. How often each wins or
    loses under the query is not known yet; it is guessed from how often the token is a query itself. A bad
    guess makes tasks uneven, and nothing else.
    """
    n_tokens = int(borders[-1])
    asked, realisable = column(queries, "query"), column(queries, "realisable")
    seen = np.zeros(n_tokens)
    seen[asked] = realisable + column(queries, "unrealisable")
    share = seen / max(1.0, float(seen.sum()))
    weight = np.zeros(n_tokens, np.int64)
    weight[asked] = realisable
    keys: list[int] = []
    parts: list[int] = []
    for part, (first, stop) in enumerate(pairwise(borders.tolist())):
        alone = stop - first == 1 and weight[first] > most
        inside = _cut_query(weight[first] * share, share, most) if alone else [0]
        keys += [(first << 2 * TOKEN_BITS) + start for start in inside]
        parts += [part] * len(inside)
    return Slots(np.array([*keys, n_tokens << 2 * TOKEN_BITS], np.int64), np.array(parts, np.int64))


def _cut_query(wins: Float64, share: Float64, most: int) -> list[int]:
    """Where the slots of one query begin, as packed (winner, loser)."""
    starts: list[int] = []
    for winner in cut_queries(np.ceil(wins).astype(np.int64), most)[:-1].tolist():
        alone = wins[winner] > most
        losers = cut_queries(np.ceil(wins[winner] * share).astype(np.int64), most)[:-1] if alone else [0]
        starts += [(winner << TOKEN_BITS) + int(loser) for loser in losers]
    return starts
