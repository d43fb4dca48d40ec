"""The Luce problem of whole contexts, what training itself minimises, and the same with queries pooled.

Inside components the optimum is finite. Over whole contexts it is not: something must hold the scores back,
an anchor with some stiffness or a training that stops.
"""

import numpy as np
import pyarrow as pa

from attomaton.base.tables import make_table, ragged_column
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.grouping import distinct_keys, pack_pairs, unpack_pairs
from attomaton.solvers.soft.likelihood import LuceProblem

PAIR_SCHEMA = pa.schema([("query", pa.int32()), ("token", pa.int32())])


def context_problem(choices: ChoiceTable) -> tuple[pa.Table, LuceProblem]:
    """The choices with a score for each (query, token) of some choice set; a group for each query."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    member = pack_pairs(np.repeat(choices["query"], np.diff(offsets)), tokens)
    keys = distinct_keys(member)
    query, token = unpack_pairs(keys)
    problem = LuceProblem(
        alternative=np.searchsorted(keys, member),
        offsets=offsets,
        log_multiplicity=np.log(ragged_column(choices.rows, "multiplicities")[1]),
        winner=np.searchsorted(keys, pack_pairs(choices["query"], choices["winner"])),
        count=choices["count"].astype(np.float64),
        component=np.unique(query, return_inverse=True)[1],
    )
    columns = {"query": query.astype(np.int32), "token": token}
    return make_table(PAIR_SCHEMA, columns), problem


def pooled_problem(choices: ChoiceTable, n_tokens: int) -> LuceProblem:
    """The same choices with one score for each token, whatever the query; all tokens are one group."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    return LuceProblem(
        alternative=tokens.astype(np.int64),
        offsets=offsets,
        log_multiplicity=np.log(ragged_column(choices.rows, "multiplicities")[1]),
        winner=choices["winner"].astype(np.int64),
        count=choices["count"].astype(np.float64),
        component=np.zeros(n_tokens, np.int64),
    )
