"""Parsed choices (:class:`ParsedChoices`): the items, and numbered choices in one of three forms."""

# Pairs have an outcome, choice sets a winner, and alternatives of a situation a count each. All three forms
# have these methods:
#
# - preferences: winners and losers, so who was chosen over whom; None for best and worst. If a choice set
#   contains its winner, the winner is also listed as a loser to itself.
# - tally: how often each item was chosen if each choice was made ``counts`` times.
# - restrict: the choices that come from some rows of the data; ``rows`` is a mask of the rows.
#
# Items are numbered from 0, in the order of ParsedChoices.items.

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.borders import trusted
from attomaton.base.errors import InvalidSamples
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Bool, Float64, Int64, make_table
from attomaton.choices.luce_choices import NumberedChoices
from attomaton.choices.numbering import BadRows, counts_of
from attomaton.choices.outcomes import SECOND, TIE
from attomaton.choices.rankings import table_pairs, table_rankings
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.grouping import count_keys, distinct_keys, pack_pairs

NO_ROWS = "there are no choices; give at least one choice"


class ItemTally(NamedTuple):
    """Numbers of wins and losses of each item (a tie is half of each), of choices, and of ties."""

    wins: Float64
    losses: Float64
    n_choices: float
    n_ties: float


class OptionTally(NamedTuple):
    """How often each item was chosen, and the options of each choice."""

    wins: NDArray[Any]  # (n_items,)
    options: Int64  # (n_options,), the items of one choice after the other
    lengths: Int64  # (n_choices,), the number of options of each choice


class ChoiceSubset(NamedTuple):
    """Some of the choices of a form, with items numbered from 0 among those that occur in them."""

    use: Bool  # (n_choices,), which of the choices they are
    items: Int64  # (n_items,), the old number of each item, ascending
    choices: "PairChoices | SetChoices | Alternatives"


class PairChoices(NamedTuple):
    """Pairs of items and how each ended."""

    first: Int64  # (n_rows,)
    second: Int64  # (n_rows,)
    outcome: Int64  # (n_rows,): FIRST, SECOND or TIE
    row: Int64 | None = None  # (n_rows,), the row of the data that each comes from; None if all are there

    def number_pairs(self) -> Int64:
        """The number of the pair of items in each row, shape (n_rows,), whichever item is first."""
        keys = pack_pairs(np.minimum(self.first, self.second), np.maximum(self.first, self.second))
        return np.unique(keys, return_inverse=True)[1].ravel()

    def preferences(self) -> tuple[Int64, Int64]:
        """The winner and the loser of each pair; a tie occurs twice, the second time at the end."""
        swap, tied = self.outcome == SECOND, self.outcome == TIE
        winner, loser = np.where(swap, self.second, self.first), np.where(swap, self.first, self.second)
        return np.concatenate([winner, loser[tied]]), np.concatenate([loser, winner[tied]])

    def tally(self, counts: Float64, n_items: int) -> OptionTally:
        won = np.array([1.0, 0.0, 0.5])[self.outcome] * counts  # by the first item: FIRST, SECOND, TIE
        wins = np.bincount(self.first, won, n_items) + np.bincount(self.second, counts - won, n_items)
        options = np.stack([self.first, self.second], axis=1).ravel()
        return OptionTally(wins, options, np.full(len(self.first), 2))

    def restrict(self, rows: Bool) -> ChoiceSubset:
        row = np.arange(len(self.first)) if self.row is None else self.row
        use = rows[row]  # which of the pairs
        items, (first, second) = _renumber(self.first[use], self.second[use])
        return ChoiceSubset(use, items, PairChoices(first, second, self.outcome[use], row[use]))


class SetChoices(NamedTuple):
    """Choices from sets of items, which may contain an item several times."""

    winner: Int64  # (n_choices,)
    lengths: Int64  # (n_choices,)
    members: Int64  # (n_entries,), one set after the other
    row: Int64  # (n_choices,), the row of the data, or the ranking, that each comes from

    def preferences(self) -> tuple[Int64, Int64]:
        return np.repeat(self.winner, self.lengths), self.members

    def tally(self, counts: Float64, n_items: int) -> OptionTally:
        return OptionTally(np.bincount(self.winner, counts, n_items), self.members, self.lengths)

    def restrict(self, rows: Bool) -> ChoiceSubset:
        use = rows[self.row]  # which of the sets
        members = self.members[np.repeat(use, self.lengths)]
        items, (winner, members) = _renumber(self.winner[use], members)
        return ChoiceSubset(use, items, SetChoices(winner, self.lengths[use], members, self.row[use]))


class Alternatives(NamedTuple):
    """The alternatives of situations, concatenated; they are pairs of items for best and worst choices."""

    lengths: Int64  # (n_situations,), the number of alternatives
    row: Int64  # (n_situations,), the first row of the data that each comes from
    chosen: Float64  # (n_alternatives,), how often
    entry: Int64  # (n_alternatives,), the row of the data that each comes from
    members: Int64  # (n_alternatives,), the item, or the best item of the pair
    against: Int64 | None = None  # (n_alternatives,), the worst item of the pair

    def preferences(self) -> tuple[Int64, Int64] | None:
        if self.against is not None:
            return None
        # Each chosen alternative is compared with all alternatives of its situation, and so with itself.
        chosen = np.flatnonzero(self.chosen > 0)
        situation = np.repeat(np.arange(len(self.lengths)), self.lengths)[chosen]
        lengths = self.lengths[situation]
        compared = ranges_of(offsets_of(self.lengths)[situation], lengths)
        return np.repeat(self.members[chosen], lengths), self.members[compared]

    def tally(self, counts: Float64, n_items: int) -> OptionTally:  # noqa: ARG002  ``chosen`` has the counts
        return OptionTally(np.bincount(self.members, self.chosen, n_items), self.members, self.lengths)

    def restrict(self, rows: Bool) -> ChoiceSubset:
        use = rows[self.row]
        is_used = np.repeat(use, self.lengths)  # by alternative
        item_columns = [self.members] if self.against is None else [self.members, self.against]
        items, renumbered = _renumber(*(column[is_used] for column in item_columns))
        by_alternative = self.chosen[is_used], self.entry[is_used], *renumbered
        return ChoiceSubset(use, items, Alternatives(self.lengths[use], self.row[use], *by_alternative))


# The item numbers that occur in any column, ascending, and each column as indices into them.
def _renumber(*columns: Int64) -> tuple[Int64, list[Int64]]:
    items, index = np.unique(np.concatenate(columns), return_inverse=True)
    return items, np.split(index.ravel(), np.cumsum([len(column) for column in columns])[:-1])


class Ranked(NamedTuple):
    """Rankings with ties; a *tier* of a ranking is the items with one rank."""

    tiers: list[list[list[Any]]]  # ranking → tiers, best first → items
    times: NDArray[Any]  # (n_rankings,), how often
    row: Int64  # (n_rankings,), the row of the data that each comes from

    def restrict(self, rows: Bool) -> "Ranked":
        use = rows[self.row]
        tiers = [ranking for ranking, used in zip(self.tiers, use.tolist(), strict=True) if used]
        return Ranked(tiers, self.times[use], self.row[use])


class TabulatedChoices(NamedTuple):
    """Choices as the Luce model takes them."""

    choices: NumberedChoices
    denominator: int  # counts are in units of 1 / denominator: 2 with half wins
    rankings: pa.Table | None  # the original rankings if any items tie


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
        preferences = self.choices.preferences()
        if preferences is None:
            return None
        n_items = len(self.items)
        winner, loser = preferences
        keys, support = count_keys((winner * n_items + loser)[winner != loser])
        return make_item_edges(keys // n_items, keys % n_items, support, n_items)

    def tally(self) -> ItemTally:
        """What each item won, and other choices that included it; an item twice in a set counts once."""
        n_items = len(self.items)
        counts = self.counts / self.denominator
        wins, options, lengths = self.choices.tally(counts, n_items)
        n_ties = 0.0
        if isinstance(self.choices, PairChoices):
            n_ties = float(counts[self.choices.outcome == TIE].sum())
        if self.ranked is not None:
            n_tied_tiers = [sum(len(tier) > 1 for tier in tiers) for tiers in self.ranked.tiers]
            n_ties = float(np.array(n_tied_tiers) @ self.ranked.times)
        # One key for each item of each choice: choice * n_items + item. An item that did not win, lost.
        keys = distinct_keys(np.repeat(np.arange(len(counts)), lengths) * n_items + options)
        losses = np.bincount(keys % n_items, counts[keys // n_items], n_items) - wins
        return ItemTally(wins.astype(np.float64), losses.astype(np.float64), float(counts.sum()), n_ties)

    def restrict(self, rows: Bool) -> "ParsedChoices":
        """The choices of these rows of the data, and the items in them."""
        use, items, choices = self.choices.restrict(rows)
        ranked = None if self.ranked is None else self.ranked.restrict(rows)
        names = tuple(self.items[number] for number in items.tolist())
        return self._replace(items=names, choices=choices, counts=self.counts[use], ranked=ranked)

    def tabulate(self) -> TabulatedChoices:
        """The pairs or choice sets as the Luce model takes them."""
        sets, ranked = self.choices, self.ranked
        if not isinstance(sets, SetChoices):
            assert isinstance(sets, PairChoices)  # noqa: S101  the Luce model takes no alternatives
            return self._tabulate_pairs(sets)
        # with the rankings with ties from which the sets were made
        rankings = None if ranked is None else table_rankings(ranked.tiers, self.items, ranked.times)
        choices = NumberedChoices.from_sets(sets.winner, sets.lengths, sets.members, self.counts)
        return TabulatedChoices(choices, self.denominator, rankings)

    def _tabulate_pairs(self, pairs: PairChoices) -> TabulatedChoices:
        winner, loser = pairs.preferences()  # ties again at the end, the other way round
        counts = self.counts
        tied = pairs.outcome == TIE
        if not tied.any():
            return TabulatedChoices(NumberedChoices.from_pairs(winner, loser, counts), 1, None)
        # With the denominator 2, a win counts 2, and a tie 1 each way.
        doubled = np.concatenate([np.where(tied, 1, 2) * counts, counts[tied]])
        counts_of(doubled, len(doubled))  # only to refuse a total that is too large
        n_pairs = len(counts)
        rankings = table_pairs(winner[:n_pairs], loser[:n_pairs], tied, counts)
        return TabulatedChoices(NumberedChoices.from_pairs(winner, loser, doubled), 2, rankings)


def pair_rows(items: tuple[Any, ...], pairs: PairChoices, counts: Any) -> ParsedChoices:
    """The parsed choices of pairs, after a check that no item is compared with itself."""
    if not len(pairs.first):
        raise InvalidSamples(NO_ROWS)
    same = pairs.first == pairs.second
    if same.any():
        item = items[pairs.first[np.argmax(same)]]
        raise BadRows("", same, f" compares {item!r} with itself; drop such rows")
    return ParsedChoices(items, pairs, counts_of(counts, len(pairs.first)))


def make_item_edges(winner: Int64, loser: Int64, support: Int64, n_items: int) -> EdgeTable:
    """Edges between items, with the query, which every item beats, so that every item is a node."""
    query = n_items  # the number after those of the items
    winner = np.concatenate([winner, np.arange(n_items)])
    loser = np.concatenate([loser, np.full(n_items, query)])
    support = np.concatenate([support, np.ones(n_items, np.int64)])
    order = np.argsort(pack_pairs(winner, loser))  # tables of edges are sorted by query, winner and loser
    ends = {"query": np.full(len(order), query), "winner": winner[order], "loser": loser[order]}
    edges = {name: numbers.astype(np.int32) for name, numbers in ends.items()}
    samples = {"query": np.array([query], np.int32), "realisable": np.array([support.sum()])}
    return trusted(
        EdgeTable,
        rows=make_table(EDGE_SCHEMA, {**edges, "support": support[order]}),
        queries=make_table(QUERY_SCHEMA, {**samples, "unrealisable": np.zeros(1, np.int64)}),
        n_tokens=n_items + 1,
    )
