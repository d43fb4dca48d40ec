"""The components of items, their order, and their scores, as choices determine them."""

# Components have two numbers: in the graph, where the component of the query is the last, and the position in
# `components`, which begins with the largest group of components that comparisons connect.

from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from attomaton.base.native import find_irredundant
from attomaton.base.printing import name_item
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Bool, Int64, column, keep_rows
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.strong import connect_strongly, connected_nodes
from attomaton.solvers.hard.solve import solve_graph_svm
from attomaton.solvers.soft.solve import SoftSolution

if TYPE_CHECKING:
    from attomaton.choices.conditional import LogitScores
    from attomaton.choices.logit.fit import LogitFit
    from attomaton.choices.uncertainty import LuceScores

    ItemScores = LuceScores | LogitScores
else:
    ItemScores = Any  # both are loaded when needed

# Scale → points per unit of log odds, and the mean score of a component. On the scale of Elo, 400 points are
# odds of 10 to 1.
SCALES = {"log-odds": (1.0, 0.0), "elo": (400.0 / log(10.0), 1000.0)}


class Comparison(NamedTuple):
    """One comparison of two items, and its outcome."""

    winner: Any
    loser: Any

    def __str__(self) -> str:
        winner = name_item(self.winner)
        return f"a comparison of {winner} with {name_item(self.loser)} in which {winner} wins"


@dataclass(frozen=True, eq=False, repr=False)
class OrderedItems:
    """Items with the order and scores that choices determine: a base of :class:`~attomaton.ChoiceFit`.

    ``items``, ``graph``, ``model`` and ``scale`` are those of the fit.
    """

    items: tuple[Any, ...]
    graph: Components
    model: ItemScores
    scale: str = "log-odds"

    @property
    def soft(self) -> SoftSolution | None:
        """The solution of the Luce model, with its certificate; None if :attr:`logit` has the fit."""
        return self.model.soft

    @property
    def logit(self) -> "LogitFit | None":
        """The conditional logit, where ties are outcomes or choices have features; None otherwise."""
        return self.model.logit

    @cached_property
    def components(self) -> tuple[tuple[Any, ...], ...]:
        """The items of each component, best first; a component comes after those that precede it.

        If the scores are not certified, the order inside a component is only a guess.
        """
        offsets = self.graph.members[0]
        values = self.model.values
        # the last node of the graph is the query, which has no score
        values = np.append(values, np.zeros(len(self.graph.component_of_node) - len(values)))
        best_first = np.lexsort((-values, self.graph.component_of_node))
        return tuple(
            tuple(self.items[row] for row in best_first[offsets[number] : offsets[number + 1]].tolist())
            for number in self._graph_numbers.tolist()
        )

    @cached_property
    def order(self) -> tuple[tuple[int, int], ...]:
        """Pairs of positions in ``components``; the first component precedes the second.

        Pairs that follow from other pairs are left out.
        """
        above, below = self._all_pairs
        needed = find_irredundant(group_borders(above, len(self.components)), below)
        return tuple(zip(above[needed].tolist(), below[needed].tolist(), strict=True))

    @property
    def connected(self) -> bool:
        """Whether all items are in one component."""
        return len(self.components) == 1

    def expect(self) -> Self:
        """Return the fit if its scores are certified; otherwise raise ``UncertifiedSolution``."""
        self.model.expect()
        return self

    @property
    def certified(self) -> bool:
        """Whether the scores are proved to be the best fit."""
        return self.model.certified

    @cached_property
    def scores(self) -> dict[Any, float]:
        """The score of each item, comparable only inside a component; raises an error if not certified.

        The mean score of a component is 0 (1000 on the scale "elo"), and with a prior, this is the mean of
        all items. An item that is alone in its component has NaN.
        """
        self.model.expect()
        unit, origin = SCALES[self.scale]
        scores = np.where(self._alone, np.nan, origin + unit * self.model.values)
        return dict(zip(self.items, scores.tolist(), strict=True))

    @cached_property
    def missing(self) -> tuple[Comparison, ...]:
        """The fewest comparisons that would join all components into one."""
        above, below = np.array(self.order, np.int64).reshape(-1, 2).T
        added = connect_strongly(len(self.components), above, below)
        # the best item of one component wins against the worst of the other
        return tuple(Comparison(self.components[a][0], self.components[b][-1]) for a, b in added)

    @cached_property
    def direction(self) -> dict[Any, float]:
        """The limit of s(λ) / ln(1/λ) as λ → 0, where s(λ) are the scores under a ridge λ on all gaps.

        It minimises Σ s² with s_i = s_j inside a component and s_i − s_j ≥ 1 if the component of i precedes
        the component of j (the Graph-SVM).
        """
        if self.logit is not None:
            return dict(zip(self.items, self.logit.direction.vector[: len(self.items)].tolist(), strict=True))
        edges = self.graph.edges
        between_items = keep_rows(edges.rows, edges["loser"] < len(self.items))
        scores = solve_graph_svm(find_components(replace(edges, rows=between_items))).expect().scores
        items = column(scores, "token")[:-1].tolist()  # the last is the query, which is not an item
        score_of = dict(zip(items, column(scores, "score")[:-1].tolist(), strict=True))
        return {item: score_of.get(number, 0.0) for number, item in enumerate(self.items)}

    @property
    def _unit(self) -> float:
        return SCALES[self.scale][0]

    # Which items are alone in their component, and therefore have no score.
    @cached_property
    def _alone(self) -> Bool:
        scored = self.model.components
        return scored.sizes[scored.component_of_node[: len(self.items)]] == 1

    # The group of each component except the query's, numbered by size, the largest first.
    @cached_property
    def _group_of(self) -> Int64:
        # A group is a set of components that chains of comparisons connect.
        n_components = len(self.graph.heights[:-1])
        above, below = column(self.graph.order, "above"), column(self.graph.order, "below")
        between_items = below < n_components
        label = connected_nodes(above[between_items], below[between_items], n_components, strongly=False)
        by_size = np.argsort(-np.bincount(label, self.graph.sizes[:-1]), kind="stable")
        return np.argsort(by_size)[label]  # the inverse permutation: the rank of each group by size

    # The components except the query's, by their numbers in the graph: group by group, highest first.
    @cached_property
    def _graph_numbers(self) -> Int64:
        return np.lexsort((-self.graph.heights[:-1], self._group_of))

    # Sorted pairs of positions in ``components`` that a choice connects, without the query.
    @cached_property
    def _all_pairs(self) -> tuple[Int64, Int64]:
        n_components = len(self._graph_numbers)
        above, below = (self._position_of[column(self.graph.order, end)] for end in ("above", "below"))
        between_items = below < n_components
        keys = np.sort(above[between_items] * n_components + below[between_items])
        return keys // max(n_components, 1), keys % max(n_components, 1)

    # The position of each component of the graph in ``components``, shape (n_components + 1,).
    @cached_property
    def _position_of(self) -> Int64:
        positions = np.full(len(self.graph), len(self.graph))  # of the query: beyond all positions
        positions[self._graph_numbers] = np.arange(len(self._graph_numbers))
        return positions
