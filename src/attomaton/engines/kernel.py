"""The kernel of both corpus passes: a chunk of documents in, counted rows out.

Every engine runs these functions and sums their results; engines contain no other part of the theory.
"""

import numpy as np
import pyarrow as pa

from attomaton.base.native import find_tied
from attomaton.base.tables import Bool, Int64, make_table
from attomaton.corpora.documents import Chunk
from attomaton.engines.selection import Selection
from attomaton.graphs.choices import ChoiceTable, extract_choices, members_inside
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, unpack_edges
from attomaton.graphs.windows import Links, link_repeats

MAX_KEYS = 1 << 24  # edges packed at once before they are counted: 128 MB


def choices_of_chunk(
    chunk: Chunk,
    components: Components | None,
    *,
    selection: Selection,
    selected: Bool,
    threads: int | None = None,
) -> ChoiceTable:
    """The counted choices of a chunk; only samples that can yield a choice are expanded."""
    samples = chunk.samples(selection.reach)
    before = link_repeats(chunk, selection.reach, selected).before
    # The label of a sample is the token at its stop. It is in the context if it occurs from the start on.
    samples = samples.take((before[samples.stops] >= samples.starts) & selected[samples.queries])
    if components is not None:
        members = members_inside(components, samples.n_tokens)
        samples = samples.take(find_tied(members, samples.queries, samples.labels))
    return extract_choices(samples, components, threads=threads)


def edge_rows(keys: Int64, support: Int64) -> pa.Table:
    # the rows of an edge table, from packed edges and the support of each
    query, winner, loser = unpack_edges(keys)
    return make_table(EDGE_SCHEMA, {"query": query, "winner": winner, "loser": loser, "support": support})


def query_rows(links: Links) -> pa.Table:
    # the numbers of samples of each query that has any, from arrays by token
    queries = np.flatnonzero(links.realisable + links.unrealisable)
    counts = {"realisable": links.realisable[queries], "unrealisable": links.unrealisable[queries]}
    return make_table(QUERY_SCHEMA, {"query": queries.astype(np.int32), **counts})
