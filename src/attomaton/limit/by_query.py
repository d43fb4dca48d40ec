"""Components and both solvers on the tables of some queries: functions for an engine's ``map_queries``.

Without embeddings no query knows of another, so a part of the queries is solved exactly as the whole is. Each
function takes and returns Arrow tables and can be sent to another process.
"""

from dataclasses import dataclass

import pyarrow as pa

from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable
from attomaton.hard.solve import solve_graph_svm
from attomaton.soft.solve import solve_luce


@dataclass(frozen=True)
class HardByQuery:
    """Edges and samples by query → the hard scores: columns query, token, score.

    Attributes
    ----------
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.engines.memory import MemoryEngine
    >>> engine = MemoryEngine(Samples.from_windows([0, 1, 0, 2, 0, 1, 0], window=3))
    >>> edges = engine.edges()
    >>> engine.map_queries(HardByQuery(3), edges, edges.queries, n_parts=2).num_rows
    6
    """

    n_tokens: int

    def __call__(self, edges: pa.Table, queries: pa.Table) -> pa.Table:
        """Solve; raises ``UncertifiedSolution`` if the bounds do not meet."""
        return solve_graph_svm(_components(edges, queries, self.n_tokens)).expect().scores


@dataclass(frozen=True)
class SoftByQuery:
    """Edges, samples by query and choices inside components → the soft scores.

    Attributes
    ----------
    n_tokens : int
        Size of the vocabulary.

    Examples
    --------
    >>> from attomaton.corpora.samples import Samples
    >>> from attomaton.engines.memory import MemoryEngine
    >>> engine = MemoryEngine(Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1]))
    >>> edges = engine.edges()
    >>> choices = engine.choices(find_components(edges.load())).table
    >>> soft = engine.map_queries(SoftByQuery(3), edges, edges.queries, choices)
    >>> soft.column("score").to_numpy().round(4).tolist()  # ± ½ ln 3, and 0 for the query
    [0.5493, -0.5493, 0.0]
    """

    n_tokens: int

    def __call__(self, edges: pa.Table, queries: pa.Table, choices: pa.Table) -> pa.Table:
        """Solve; raises ``UncertifiedSolution`` if the gradient is too large."""
        return solve_luce(ChoiceTable(choices), _components(edges, queries, self.n_tokens)).expect().scores


def _components(edges: pa.Table, queries: pa.Table, n_tokens: int) -> Components:
    return find_components(EdgeTable(edges, queries, n_tokens))
