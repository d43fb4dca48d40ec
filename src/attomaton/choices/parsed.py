"""Parsed choices: the items, and numbered choices in one of three forms.

Pairs have an outcome, choice sets a winner, and alternatives of a situation a count each. Every form has
``preferences`` (who was chosen over whom), ``tally`` (how often each item was chosen if each choice was made
``counts`` times, the options of all choices concatenated, and how many options each choice has), and
``restrict`` (which choices come from these rows of the data, the items in them, and the choices among these).
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.errors import InvalidSamples
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.luce_choices import NumberedChoices
from attomaton.choices.numbering import BadRows, counts_of
from attomaton.choices.outcomes import SECOND, TIE
from attomaton.choices.rankings import table_pairs, table_rankings
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys, distinct_keys, pack_pairs

NO_ROWS = "there are no choices; give at least one choice"


class ItemTally(NamedTuple):
    """Numbers of wins and losses of each item (a tie is half of each), of choices, and of ties."""

    wins: Float64
    losses: Float64
    n_choices: float
    n_ties: float


class PairChoices(NamedTuple):
    """Pairs of items and how each ended."""

    first: Int64  # (n_rows,)
    second: Int64  # (n_rows,)
    outcome: Int64  # (n_rows,): FIRST, SECOND or TIE
    row: Int64 | None = None  # (n_rows,), the row of the data that each comes from; None if all are there

    def number_pairs(self) -> Int64:
        """The number of the pair in each row, whichever item is the first."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return np.unique(pack_pairs(low, high), return_inverse=True)[1].ravel()

    def preferences(self) -> tuple[Int64, Int64]:
        """The winner and the loser of each pair; a tie occurs twice, the second time at the end."""
        swap, tied = self.outcome == SECOND, self.outcome == TIE
        winner, loser = np.where(swap, self.second, self.first), np.where(swap, self.first, self.second)
        return np.concatenate([winner, loser[tied]]), np.concatenate([loser, winner[tied]])

    def tally(self, counts: Float64, n_items: int) -> tuple[Any, Int64, Int64]:
        won = np.array([1.0, 0.0, 0.5])[self.outcome] * counts
        wins = np.bincount(self.first, won, n_items) + np.bincount(self.second, counts - won, n_items)
        options = np.stack([self.first, self.second], axis=1).ravel()
        return wins, options, np.full(len(self.first), 2)

    def restrict(self, rows: Bool) -> "tuple[Bool, Int64, PairChoices]":
        row = np.arange(len(self.first)) if self.row is None else self.row
        use = rows[row]
        items, (first, second) = _renumber(self.first[use], self.second[use])
        return use, items, PairChoices(first, second, self.outcome[use], row[use])


class SetChoices(NamedTuple):
    """Choices from sets of items, which may contain an item several times."""

    winner: Int64  # (n_choices,)
    lengths: Int64  # (n_choices,)
    members: Int64  # (n_entries,), one set after the other
    row: Int64  # (n_choices,), the row of the data, or the ranking, that each comes from

    def preferences(self) -> tuple[Int64, Int64]:
        return np.repeat(self.winner, self.lengths), self.members

    def tally(self, counts: Float64, n_items: int) -> tuple[Any, Int64, Int64]:
        return np.bincount(self.winner, counts, n_items), self.members, self.lengths

    def restrict(self, rows: Bool) -> "tuple[Bool, Int64, SetChoices]":
        use = rows[self.row]
        members = self.members[np.repeat(use, self.lengths)]
        items, (winner, members) = _renumber(self.winner[use], members)
        return use, items, SetChoices(winner, self.lengths[use], members, self.row[use])


class Alternatives(NamedTuple):
    """The alternatives of situations, concatenated; they are pairs of items for best and worst choices."""

    lengths: Int64  # (n_situations,)
    row: Int64  # (n_situations,), the first row of the data that each comes from
    chosen: Float64  # (n_alternatives,)
    entry: Int64  # (n_alternatives,), the row of the data that each comes from
    members: Int64  # (n_alternatives,), the item, or the best item of the pair
    against: Int64 | None = None  # (n_alternatives,), the worst item of the pair

    def preferences(self) -> tuple[Int64, Int64] | None:
        if self.against is not None:
            return None
        chosen = np.flatnonzero(self.chosen > 0)
        situation = np.repeat(np.arange(len(self.lengths)), self.lengths)[chosen]
        lengths = self.lengths[situation]
        losers = ranges_of(offsets_of(self.lengths)[situation], lengths)
        return np.repeat(self.members[chosen], lengths), self.members[losers]

    def tally(self, counts: Float64, n_items: int) -> tuple[Any, Int64, Int64]:  # noqa: ARG002
        return np.bincount(self.members, self.chosen, n_items), self.members, self.lengths

    def restrict(self, rows: Bool) -> "tuple[Bool, Int64, Alternatives]":
        use = rows[self.row]
        inside = np.repeat(use, self.lengths)
        columns = [self.members] if self.against is None else [self.members, self.against]
        items, numbered = _renumber(*(column[inside] for column in columns))
        columns = self.lengths[use], self.row[use], self.chosen[inside], self.entry[inside], *numbered
        return use, items, Alternatives(*columns)


def _renumber(*columns: Int64) -> tuple[Int64, list[Int64]]:
    """The sorted distinct numbers, and the position of each entry among them."""
    used, number = np.unique(np.concatenate(columns), return_inverse=True)
    return used, np.split(number.ravel(), np.cumsum([len(column) for column in columns])[:-1])


class Ranked(NamedTuple):
    """Rankings with ties: their tiers, counts, and rows in the data."""

    tiers: list[list[list[Any]]]
    times: NDArray[Any]
    row: Int64

    def restrict(self, rows: Bool) -> "Ranked":
        use = rows[self.row]
        tiers = [ranking for ranking, used in zip(self.tiers, use.tolist(), strict=True) if used]
        return Ranked(tiers, self.times[use], self.row[use])


class ParsedChoices(NamedTuple):
    """Items and numbered choices; ``ranked`` contains the rankings if they have ties."""

    items: tuple[Any, ...]
    choices: PairChoices | SetChoices | Alternatives
    counts: NDArray[Any]  # of each pair, set or situation, times the denominator
    denominator: int = 1
    ranked: Ranked | None = None
    reading: str = ""  # how outcomes were read

    def edges(self) -> EdgeTable | None:
        """The graph of wins; tied items beat each other. None for best and worst choices."""
        preferences, n_items = self.choices.preferences(), len(self.items)
        if preferences is None:
            return None
        winner, loser = preferences
        keys, support = count_keys((winner * n_items + loser)[winner != loser])
        return make_item_edges(keys // n_items, keys % n_items, support, n_items)

    def tally(self) -> ItemTally:
        """Count wins and losses; an item that occurs twice in a set counts once."""
        n_items, counts, n_ties = len(self.items), self.counts / self.denominator, 0.0
        wins, options, lengths = self.choices.tally(counts, n_items)
        if isinstance(self.choices, PairChoices):
            n_ties = float(counts[self.choices.outcome == TIE].sum())
        if self.ranked is not None:
            n_tied_tiers = [sum(len(tier) > 1 for tier in tiers) for tiers in self.ranked.tiers]
            n_ties = float(np.array(n_tied_tiers) @ self.ranked.times)
        keys = distinct_keys(np.repeat(np.arange(len(counts)), lengths) * n_items + options)
        losses = np.bincount(keys % n_items, counts[keys // n_items], n_items) - wins
        return ItemTally(wins.astype(np.float64), losses.astype(np.float64), float(counts.sum()), n_ties)

    def restrict(self, rows: Bool) -> "ParsedChoices":
        """The choices of these rows of the data, and the items in them."""
        use, items, choices = self.choices.restrict(rows)
        ranked = None if self.ranked is None else self.ranked.restrict(rows)
        names = tuple(self.items[number] for number in items.tolist())
        return self._replace(items=names, choices=choices, counts=self.counts[use], ranked=ranked)

    def tabulate(self) -> tuple[NumberedChoices, int, pa.Table | None]:
        """The choices for the Luce model, the denominator of their counts, and the rankings if any tie."""
        choices, counts = self.choices, self.counts
        if isinstance(choices, SetChoices):
            ranked = self.ranked
            rankings = None if ranked is None else table_rankings(ranked.tiers, self.items, ranked.times)
            numbered = NumberedChoices.from_sets(choices.winner, choices.lengths, choices.members, counts)
            return numbered, self.denominator, rankings
        assert isinstance(choices, PairChoices)  # noqa: S101  alternatives have no such form
        (winner, loser), tied, n_pairs = choices.preferences(), choices.outcome == TIE, len(counts)
        if not tied.any():
            return NumberedChoices.from_pairs(winner, loser, counts), 1, None
        doubled = np.concatenate([np.where(tied, 1, 2) * counts, counts[tied]])
        counts_of(doubled, len(doubled))
        rankings = table_pairs(winner[:n_pairs], loser[:n_pairs], tied, counts)
        return NumberedChoices.from_pairs(winner, loser, doubled), 2, rankings


def pair_rows(items: tuple[Any, ...], pairs: PairChoices, counts: Any) -> ParsedChoices:
    """Parsed pairs; rejects pairs of equal items."""
    if not len(pairs.first):
        raise InvalidSamples(NO_ROWS)
    same = pairs.first == pairs.second
    if same.any():
        item = items[pairs.first[np.argmax(same)]]
        raise BadRows("", same, f" compares {item!r} with itself; drop such rows")
    return ParsedChoices(items, pairs, counts_of(counts, len(pairs.first)))


def make_item_edges(winner: Int64, loser: Int64, support: Int64, n_items: int) -> EdgeTable:
    """The edges between items, and an edge from each item to the query, so that every item is a node."""
    query, items = np.full(len(winner), n_items), np.arange(n_items)
    under = np.full(n_items, n_items)
    keys = np.concatenate([pack_edges(query, winner, loser), pack_edges(under, items, under)])
    order = np.argsort(keys)
    support = np.concatenate([support, np.ones(n_items, np.int64)])
    total = np.array([int(support.sum())])
    return make_edges(
        n_items + 1, keys[order], support[order], np.array([n_items]), total, np.zeros_like(total)
    )
