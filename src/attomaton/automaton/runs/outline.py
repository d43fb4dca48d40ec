"""Nodes, order and scores of some queries, without the edges behind them: what a picture or a walk needs."""

from dataclasses import dataclass
from functools import cached_property

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.graphs.components import Components
from attomaton.graphs.reduction import find_needed


@dataclass(frozen=True, eq=False)
class Outline:
    """What is known of some queries, but for their edges and choices.

    Attributes
    ----------
    components : Components
        Nodes and order; its edges may be missing.
    hard, soft : float64 arrays, shape (n_nodes,)
        The scores of its nodes.
    number : int64 array, shape (n_components,)
        The number of each component among those of all queries; it rises.

    Examples
    --------
    >>> import numpy as np, attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1]))
    >>> outline = auto.outline(np.array([2]))
    >>> outline.number.tolist(), outline.components.heights.tolist(), outline.implied.tolist()
    ([0, 1], [1, 0], [False])
    """

    components: Components
    hard: Float64
    soft: Float64
    number: Int64

    @cached_property
    def implied(self) -> Bool:
        """Which pairs of the order a longer path replaces, shape (n_pairs,)."""
        return ~find_needed(self.components)
