"""From components to the constraints of the Graph-SVM, and the table of how hard each of them presses."""

import numpy as np
import pyarrow as pa

from attomaton.base.borders import trusted
from attomaton.base.tables import Float64, column, make_table
from attomaton.graphs.components import Components
from attomaton.solvers.hard.problem import EmbeddedProblem, OrderProblem

MULTIPLIER_SCHEMA = pa.schema([("above", pa.int64()), ("below", pa.int64()), ("multiplier", pa.float64())])


def order_problem(components: Components) -> OrderProblem:
    """The orthonormal problem: one position per component.

    All edges of the order are kept: the block solver is as quick with them as reducing them would be.
    """
    number = np.zeros(components.edges.n_tokens, np.int64)
    number[components.queries] = np.arange(len(components.queries))
    group = number[components.query_of]
    edges = {name: column(components.order, name) for name in ("above", "below")}
    return trusted(OrderProblem, sizes=components.sizes, group=group, **edges)


def embedded_problem(components: Components, embeddings: Float64) -> EmbeddedProblem:
    """The embedded problem, from E of shape (n_tokens, dim): only tokens and queries in use take part."""
    tokens, token = np.unique(components.token_of_node, return_inverse=True)
    queries, query = np.unique(components.query_of_node, return_inverse=True)
    keys, asked = embeddings[tokens], embeddings[queries]
    return EmbeddedProblem(
        keys @ keys.T, asked @ asked.T, token, query, components.component_of_node, order_problem(components)
    )


def multiplier_table(order: pa.Table, multipliers: Float64) -> pa.Table:
    """The multipliers of the edges of the order, rounding below 0 taken off."""
    columns = {name: column(order, name) for name in ("above", "below")}
    return make_table(MULTIPLIER_SCHEMA, {**columns, "multiplier": np.maximum(multipliers, 0.0)})
