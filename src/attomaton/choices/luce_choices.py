"""Choices as the Luce model counts them: equal choices added up, with the multiplicity of each option."""

from typing import NamedTuple

import numpy as np

from attomaton.base.ragged import group_borders, rows_of
from attomaton.base.tables import Bool, Int64, ragged_column
from attomaton.graphs.choices import count_choices, make_choices
from attomaton.graphs.grouping import count_keys, pack_pairs, sum_by_key, unpack_pairs


class NumberedChoices(NamedTuple):
    """Choices sorted by winner, and the options of each, with multiplicity; options include the winner."""

    winner: Int64  # (n_choices,)
    times: Int64  # (n_choices,), how often
    choice: Int64  # (n_options,), ascending
    item: Int64  # (n_options,)
    multiplicity: Int64  # (n_options,)

    @classmethod
    def from_sets(cls, winner: Int64, lengths: Int64, members: Int64, counts: Int64) -> "NumberedChoices":
        """Choices from sets, whose members are concatenated; an item may occur several times in a set."""
        choice = np.repeat(np.arange(len(winner)), lengths)
        keys, multiplicity = count_keys(pack_pairs(choice, members))
        choice, item = unpack_pairs(keys)
        # A table of choices of a corpus adds up equal choices; the number of the query does not matter.
        query = np.zeros(len(winner), np.int32)
        options = group_borders(choice, len(winner)), item, multiplicity.astype(np.int32)
        table = count_choices([make_choices(query, winner.astype(np.int32), *options, counts)])
        offsets, item = ragged_column(table.rows, "tokens")
        _, multiplicity = ragged_column(table.rows, "multiplicities")
        columns = table["winner"], table["count"], rows_of(offsets), item, multiplicity
        return cls(*(column.astype(np.int64) for column in columns))

    @classmethod
    def from_pairs(cls, winner: Int64, loser: Int64, times: Int64) -> "NumberedChoices":
        """Choices between two items; ``times`` is how often the winner was chosen over the loser."""
        keys, times = sum_by_key(pack_pairs(winner, loser), times)
        winner, int32_loser = unpack_pairs(keys)
        loser = int32_loser.astype(np.int64)
        options = np.column_stack([np.minimum(winner, loser), np.maximum(winner, loser)]).ravel()
        return cls(winner, times, np.repeat(np.arange(len(winner)), 2), options, np.ones_like(options))

    def select(self, options: Bool, choices: Bool) -> "NumberedChoices":
        """Some options of some choices, by masks (n_options,) and (n_choices,), numbered anew."""
        options = options & choices[self.choice]
        choice = (np.cumsum(choices) - 1)[self.choice[options]]
        return NumberedChoices(
            self.winner[choices], self.times[choices], choice, self.item[options], self.multiplicity[options]
        )
