"""From components to the constraints of the Graph-SVM."""

import numpy as np
import pyarrow as pa

from attomaton.graphs.components import Components
from attomaton.graphs.reduction import find_ties
from attomaton.hard.problem import EmbeddedProblem, OrderProblem
from attomaton.tables import Float64, column


def order_problem(components: Components) -> OrderProblem:
    """The problem for orthonormal embeddings: one position per component.

    All edges of the order are kept: the block solver is as quick with them as reducing them would be.
    """
    number = np.zeros(components.edges.n_tokens, np.int64)
    number[components.queries] = np.arange(len(components.queries))
    group = number[components.query_of]
    order = components.order
    return OrderProblem(components.sizes, column(order, "above"), column(order, "below"), group)


def embedded_problem(components: Components, reduced: pa.Table, gram: Float64) -> EmbeddedProblem:
    """The problem for given embeddings.

    First the strict edges of ``reduced``, between the first tokens of components, then a chain of ties.
    """
    offsets, rows = components.members
    first = rows[offsets[:-1]]
    left, right = find_ties(components)
    winner = np.concatenate([first[column(reduced, "above")], left])
    loser = np.concatenate([first[column(reduced, "below")], right])
    query, token = components.query_of_node, components.token_of_node
    strict = np.arange(len(winner)) < reduced.num_rows
    return EmbeddedProblem(gram, query[winner], token[winner], token[loser], strict)
