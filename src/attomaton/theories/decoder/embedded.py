"""Contexts with given features: the NTP-SVM and the finite part through the solvers of attention.

Contexts are queries, and supports are components above all other tokens. Tokens and contexts are the rows of
one table of embeddings, tokens with the unit vectors of R^V and contexts with their features in R^d beside
it, so that the block (tokens, contexts) of the solvers' W is the decoder's.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.solutions import scale_rows
from attomaton.base.tables import Bool, Float64, Int64, column, make_table
from attomaton.graphs.choices import CHOICE_SCHEMA, ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.separation import Separation, separate
from attomaton.solvers.hard.solve import HardSolution, solve_graph_svm
from attomaton.solvers.soft.solve import SoftSolution, solve_luce
from attomaton.theories.decoder.supports import Supports


@dataclass(frozen=True, eq=False)
class SolvedDecoder:
    """Direction and finite part of a decoder, with all proofs.

    Attributes
    ----------
    separation : Separation
        Which tokens each context can tell from its support, with the Farkas weights of what it cannot.
    hard : HardSolution
        W^mm inside its block (tokens, contexts), for features divided by ``scale``.
    soft : SoftSolution
        The finite part there, likewise.
    scale : float
        The typical length of a feature row, as a power of two: solvers work best at lengths of about 1.
    merged : bool array, shape (n_contexts, n_tokens)
        The supports, with the tokens that cannot be told from them.
    scores : float64 array, shape (n_contexts, n_tokens)
        The finite scores that ``soft`` gives the tokens after each context, whatever the scale.

    Examples
    --------
    >>> from attomaton.theories.decoder.supports import count_supports
    >>> solve_supports(count_supports([[0, 2, 0, 2, 1, 0]], 1), np.eye(3)).merged[0].tolist()
    [False, False, True]
    """

    separation: Separation
    hard: HardSolution
    soft: SoftSolution
    scale: float
    merged: Bool
    scores: Float64


def solve_supports(supports: Supports, features: Float64) -> SolvedDecoder:
    """Solve for direction and finite part."""
    size, width = supports.n_tokens, features.shape[1]
    unit, scale = scale_rows(features)
    embeddings = np.zeros((size + len(supports), size + width))
    embeddings[:size, :size] = np.eye(size)
    embeddings[size:, size:] = unit
    components = find_components(list_edges(supports))
    separation = separate(components, embeddings)
    hard = solve_graph_svm(components, embeddings=embeddings)
    merged = _merge(hard.components, supports)
    soft = solve_luce(list_choices(supports, merged), hard.components, embeddings=embeddings)
    scores = np.zeros((len(supports), size + len(supports)))
    nodes = hard.components
    scores[nodes.query_of_node - size, nodes.token_of_node] = column(soft.scores, "score")
    return SolvedDecoder(separation, hard, soft, scale, merged, scores[:, :size])


def list_edges(supports: Supports) -> EdgeTable:
    """Contexts as queries V + j: a circle through each support, and from one of it to every other token."""
    size, first = supports.n_tokens, supports.tokens[supports.offsets[:-1]]
    after = np.arange(len(supports.tokens)) + 1
    after[supports.offsets[1:] - 1] = supports.offsets[:-1]
    outside = ~_inside(supports)
    context, token = np.nonzero(outside)
    circle = supports.sizes[supports.row] > 1
    columns = {
        "query": np.concatenate([supports.row[circle], context]) + size,
        "winner": np.concatenate([supports.tokens[circle], first[context]]),
        "loser": np.concatenate([supports.tokens[after][circle], token]),
    }
    order = np.lexsort((columns["loser"], columns["winner"], columns["query"]))
    table = {name: one[order].astype(np.int32) for name, one in columns.items()}
    queries = {"query": np.arange(size, size + len(supports), dtype=np.int32), "realisable": supports.totals}
    return EdgeTable(
        make_table(EDGE_SCHEMA, {**table, "support": np.ones(len(order), np.int64)}),
        make_table(QUERY_SCHEMA, {**queries, "unrealisable": np.zeros(len(supports), np.int64)}),
        size + len(supports),
    )


def list_choices(supports: Supports, merged: Bool) -> ChoiceTable:
    """Every next token as chosen from the support of its context, with what cannot be told from it."""
    sizes = merged.sum(axis=1)
    kept = sizes[supports.row] > 1
    context = supports.row[kept]
    starts = offsets_of(sizes)[:-1]
    members = np.nonzero(merged)[1].astype(np.int32)[ranges_of(starts[context], sizes[context])]
    offsets = offsets_of(sizes[context])
    columns = {
        "query": (context + supports.n_tokens).astype(np.int32),
        "winner": supports.tokens[kept].astype(np.int32),
        "tokens": (offsets, members),
        "multiplicities": (offsets, np.ones(len(members), np.int32)),
        "count": supports.counts[kept],
    }
    table: pa.Table = make_table(CHOICE_SCHEMA, columns)
    return ChoiceTable(table)


def _inside(supports: Supports) -> Bool:
    inside = np.zeros((len(supports), supports.n_tokens), bool)
    inside[supports.row, supports.tokens] = True
    return inside


def _merge(components: Components, supports: Supports) -> Bool:
    """Which tokens share the component of each context's support."""
    merged = _inside(supports)
    query, token = components.query_of_node, components.token_of_node
    ours = token < supports.n_tokens
    context = query[ours].astype(np.int64) - supports.n_tokens
    component: Int64 = np.asarray(components.component_of_node)[ours]
    table = np.full(merged.shape, -1, np.int64)
    table[context, token[ours]] = component
    first = table[np.arange(len(supports)), supports.tokens[supports.offsets[:-1]]]
    return merged | ((table == first[:, None]) & (first[:, None] >= 0))
