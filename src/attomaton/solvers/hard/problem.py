"""The Graph-SVM as data, with orthonormal and with other embeddings.

W_svm = argmin ‖W‖ subject to (e_i − e_j)ᵀ W e_k = 0 for ties i ≍ j and ≥ 1 for i ⇒ j, for every query k.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_floats, check_ids, check_int64, check_lengths, trusted
from attomaton.base.errors import MismatchedParts
from attomaton.base.options import settle
from attomaton.base.ragged import sum_at
from attomaton.base.tables import Float64, Int64, column, make_table
from attomaton.graphs.components import Components, count_strong_components


@dataclass(frozen=True, eq=False)
class OrderProblem:
    """The orthonormal problem: min Σ_C |C| p_C² subject to p_A − p_B ≥ 1 for every edge A → B.

    Each component C has one position p_C; ``sizes`` are |C|, the tokens that share it. The edges lead from
    component ``above`` to component ``below``. ``group`` numbers the queries from 0: components are sorted by
    group, edges by ``above``, and no edge joins two groups, which are solved and certified separately.
    """

    sizes: Int64
    above: Int64
    below: Int64
    group: Int64

    def __post_init__(self) -> None:
        sizes, group = check_int64(self.sizes, "sizes"), check_int64(self.group, "group")
        above, below = check_int64(self.above, "above"), check_int64(self.below, "below")
        check_lengths("sizes and groups of components", sizes=sizes, group=group)
        check_lengths("both ends of edges", above=above, below=below)
        if (np.diff(above) < 0).any() or (np.diff(group) < 0).any():
            raise MismatchedParts(
                "an order problem needs edges sorted by the component above and components sorted by "
                "group; sort them first"
            )
        for name, ends in (("above", above), ("below", below)):
            check_ids(ends, len(sizes), f"the component {name} an edge")
        if len(group) and (group[0] != 0 or int(np.diff(group, prepend=0).max()) > 1):
            raise MismatchedParts("the groups of an order problem must be numbered 0, 1, 2 …; renumber them")
        if len(sizes) and int(sizes.min()) < 1:
            raise MismatchedParts("a component of an order problem has no tokens; give sizes of at least 1")
        if (group[above] != group[below]).any():
            raise MismatchedParts("an edge of an order problem joins two groups; put both ends in one group")
        if (above == below).any() or count_strong_components(above, below, len(sizes)) < len(sizes):
            raise MismatchedParts("the edges of an order problem form a cycle; remove one of its edges")
        settle(self, sizes=sizes, above=above, below=below, group=group)

    @property
    def n_groups(self) -> int:
        return int(self.group[-1]) + 1 if len(self.group) else 0

    @property
    def borders(self) -> tuple[Int64, Int64]:
        """Where each group's components and edges begin and end, shape (n_groups + 1,) each."""
        nodes = np.searchsorted(self.group, np.arange(self.n_groups + 1))
        return nodes, np.searchsorted(self.above, nodes)

    def gaps(self, positions: Float64) -> Float64:
        """The gap p_A − p_B of every edge, shape (n_edges,)."""
        return positions[self.above] - positions[self.below]

    def divergence(self, flow: Float64) -> Float64:
        """Flow out of each component minus flow into it, shape (n_components,)."""
        size = len(self.sizes)
        return sum_at(self.above, flow, size) - sum_at(self.below, flow, size)


@dataclass(frozen=True, eq=False)
class EmbeddedProblem:
    """The embedded problem: queries couple through the Gram matrix.

    The answer is W = Eᵀ A F with E the embeddings of the tokens in use, F those of the queries, and A a
    matrix of forces, zero except at the nodes (query, token). With a the forces at the nodes, the scores at
    the nodes are s = Q a, Q_(i,k),(j,l) = (e_i·e_j)(f_k·f_l), and the problem is

        min aᵀ Q a  subject to  s equal inside each component, and ≥ 1 apart along each edge of ``order``.

    ``token_gram`` is E Eᵀ and ``query_gram`` F Fᵀ. For each node, ``token`` is its row of ``token_gram``,
    ``query`` its row of ``query_gram``, and ``component`` its component.
    """

    token_gram: Float64
    query_gram: Float64
    token: Int64
    query: Int64
    component: Int64
    order: OrderProblem

    def __post_init__(self) -> None:
        n_tokens, n_queries = len(self.token_gram), len(self.query_gram)
        check_floats(self.token_gram, (n_tokens, n_tokens), "token_gram")
        check_floats(self.query_gram, (n_queries, n_queries), "query_gram")
        sizes = {"token": n_tokens, "query": n_queries, "component": len(self.order.sizes)}
        nodes = {name: check_int64(getattr(self, name), name) for name in sizes}
        check_lengths("the columns of nodes", **nodes)
        for name, size in sizes.items():
            check_ids(nodes[name], size, f"the {name} of a node")
        counted = np.bincount(nodes["component"], minlength=len(self.order.sizes))
        if not np.array_equal(counted, self.order.sizes):
            raise MismatchedParts(
                "the number of nodes of a component is not its size in the order; correct the sizes"
            )
        settle(self, **nodes)

    def combine(self, forces: Float64) -> Float64:
        """The forces as the matrix A, shape (n_tokens_used, n_queries)."""
        combined = np.zeros((len(self.token_gram), len(self.query_gram)))
        combined[self.token, self.query] = forces
        return combined

    def scores(self, forces: Float64) -> Float64:
        """The scores Q a, shape (n_nodes,), by two products with Gram matrices; Q itself is never formed."""
        return (self.token_gram @ self.combine(forces) @ self.query_gram)[self.token, self.query]

    def kernel(self) -> Float64:
        """The dense matrix Q, shape (n_nodes, n_nodes): the definition, for small problems."""
        token_products = self.token_gram[np.ix_(self.token, self.token)]
        return token_products * self.query_gram[np.ix_(self.query, self.query)]


MULTIPLIER_SCHEMA = pa.schema([("above", pa.int64()), ("below", pa.int64()), ("multiplier", pa.float64())])


def order_problem(components: Components) -> OrderProblem:
    """The orthonormal problem of some components, with all edges of their order."""
    number = np.zeros(components.edges.n_tokens, np.int64)
    number[components.queries] = np.arange(len(components.queries))
    group = number[components.query_of]
    edges = {name: column(components.order, name) for name in ("above", "below")}
    return trusted(OrderProblem, sizes=components.sizes, group=group, **edges)


def embedded_problem(components: Components, embeddings: Float64) -> EmbeddedProblem:
    """The embedded problem over the tokens and queries in use, from E of shape (n_tokens, dim)."""
    tokens, token = np.unique(components.token_of_node, return_inverse=True)
    queries, query = np.unique(components.query_of_node, return_inverse=True)
    keys, rows = embeddings[tokens], embeddings[queries]
    component, order = components.component_of_node, order_problem(components)
    return EmbeddedProblem(keys @ keys.T, rows @ rows.T, token, query, component, order)


def multiplier_table(order: pa.Table, multipliers: Float64) -> pa.Table:
    columns = {name: column(order, name) for name in ("above", "below")}
    return make_table(MULTIPLIER_SCHEMA, {**columns, "multiplier": np.maximum(multipliers, 0.0)})
