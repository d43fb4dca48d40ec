"""Choice models (Bradley–Terry, Plackett–Luce, conditional logit) on data that need not be connected.

A choice is a context that ends in a query nobody chooses, so the theory of attention answers: items that beat
one another in both directions tie and have finite scores; between components there is an order, not a number.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attomaton.choices.numbering import NumberedChoices, number_choices
from attomaton.display import render_card, render_note, render_status, render_table
from attomaton.errors import InvalidSamples, UncertifiedSolution, UndeterminedChoice, UnknownToken
from attomaton.graphs.choices import ChoiceTable, count_choices, make_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.connection import connect
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys, sum_by_key
from attomaton.graphs.paths import QueryOrder
from attomaton.graphs.reduction import reduce_order
from attomaton.hard.solve import solve_graph_svm
from attomaton.ragged import offsets_of
from attomaton.soft.solve import SoftSolution, solve_luce
from attomaton.solutions import Status
from attomaton.tables import Bool, Float64, Int64, column, keep_rows

Item = Hashable

SHOWN = 12
"""Most components, items of one, or comparisons that a summary prints."""


class Comparison(NamedTuple):
    """One comparison of two items, and how it ends.

    Examples
    --------
    >>> fit = fit_choices(["a", "b"], [["a", "b"], ["b", "c"]])  # a over b over c
    >>> fit.missing, str(fit.missing[0])
    ((Comparison(winner='c', loser='a'),), "a comparison of 'c' with 'a' in which 'c' wins")
    """

    winner: Any
    loser: Any

    def __str__(self) -> str:
        return f"a comparison of {self.winner!r} with {self.loser!r} in which {self.winner!r} wins"


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceFit:
    """What a set of choices says about its items.

    Attributes
    ----------
    items : tuple
        The items: integers rising, others in order of first appearance.
    graph : Components
        Who beats whom: token i is ``items[i]``, under one query that is no item and comes last.
    soft : SoftSolution
        The scores inside components, with their certificate.

    Examples
    --------
    >>> fit = fit_choices(["a", "b", "a", "a"], [["a", "b"], ["a", "b"], ["b", "a"], ["a", "c"]]).expect()
    >>> fit.components, fit.order  # a and b beat each other; c never wins
    ((('a', 'b'), ('c',)), ((0, 1),))
    >>> round(fit.probability("a", ["a", "b"]), 4), fit.probability("c", ["a", "c"])
    (0.6667, 0.0)
    >>> [str(comparison) for comparison in fit.missing]  # what would make all odds finite
    ["a comparison of 'c' with 'b' in which 'c' wins"]
    """

    items: tuple[Any, ...]
    graph: Components
    soft: SoftSolution

    def __repr__(self) -> str:
        return f"ChoiceFit({len(self.items):,} items in {len(self.components):,} components)"

    def __str__(self) -> str:
        return "\n".join([*_describe_components(self), *_describe_missing(self)])

    def _repr_html_(self) -> str:
        soft, shown = self.soft, range(min(len(self.components), SHOWN))
        rows = [[place + 1, _describe_members(self, place), _describe_below(self, place)] for place in shown]
        return render_card(
            f"{_describe_size(self)}",
            render_status(
                soft.status.name.lower(), f"scores: {soft.certificate}", good=soft.certificate.certified
            ),
            render_table(["", "items", "always before"], rows, n_rows=len(self.components), most=SHOWN),
            *map(render_note, _describe_missing(self)),
        )

    @cached_property
    def components(self) -> tuple[tuple[Any, ...], ...]:
        """The items of each component, best first; no component stands before one that precedes it.

        The components are exact. Where the scores are not certified, the order inside one is a guess.
        """
        offsets = self.graph.members[0]
        best_first = np.lexsort((-self._score, self.graph.component_of_node))
        return tuple(
            tuple(self.items[row] for row in best_first[offsets[number] : offsets[number + 1]].tolist())
            for number in self._numbers.tolist()
        )

    @cached_property
    def order(self) -> tuple[tuple[int, int], ...]:
        """Pairs (above, below) of positions in ``components``: the first precedes the second.

        In the limit an item of the first is always chosen over one of the second. What follows from two other
        pairs is left out.
        """
        place = self._places
        reduced = reduce_order(self.graph)
        above, below = place[column(reduced, "above")], place[column(reduced, "below")]
        real = below < len(self.components)  # all precede the query, which is no item
        return tuple(sorted(zip(above[real].tolist(), below[real].tolist(), strict=True)))

    @property
    def connected(self) -> bool:
        """Whether all items are in one component, so that all odds are finite."""
        return len(self.components) == 1

    def expect(self) -> "ChoiceFit":
        """Return the fit itself if its scores are certified; raise ``UncertifiedSolution`` if not."""
        self.soft.expect()
        return self

    @cached_property
    def scores(self) -> dict[Any, float]:
        """The score of each item, with mean zero in its component: comparable inside a component only.

        Scores that are not certified raise ``UncertifiedSolution``; ``soft.scores`` has them all the same, a
        row for each item and a last one for the query.
        """
        self._check_scores()
        return dict(zip(self.items, self._score[: len(self.items)].tolist(), strict=True))

    @cached_property
    def standard_errors(self) -> dict[Any, float]:
        """The standard error of each score; 0 for an item alone in its component, whose score is 0."""
        self._check_scores()
        errors = self.soft.standard_errors()[: len(self.items)]
        return dict(zip(self.items, errors.tolist(), strict=True))

    @cached_property
    def missing(self) -> tuple[Comparison, ...]:
        """The fewest comparisons that would join all components into one.

        Each names the best item of a component that should win against the weakest of another. Other items of
        the same components would do as well; no smaller number of comparisons would.
        """
        pairs = np.array(self.order, np.int64).reshape(-1, 2)
        added = connect(len(self.components), pairs[:, 0], pairs[:, 1])
        return tuple(Comparison(self.components[a][0], self.components[b][-1]) for a, b in added)

    @cached_property
    def direction(self) -> dict[Any, float]:
        """Where the scores of a ridge on all gaps go when it vanishes: s(λ) / ln(1/λ) tends to this.

        The Graph-SVM of the items: the least Σ s² with s_i = s_j inside a component and s_i − s_j ≥ 1 where
        the component of i precedes that of j. Items that were never compared score 0.

        Examples
        --------
        >>> fit = fit_choices(["a", "b", "a"], [["a", "b"], ["b", "a"], ["b", "a", "c"]])
        >>> {item: round(score, 6) for item, score in fit.direction.items()}
        {'a': 0.333333, 'b': 0.333333, 'c': -0.666667}
        """
        edges = self.graph.edges
        between_items = keep_rows(edges.table, edges["loser"] < len(self.items))
        scores = solve_graph_svm(find_components(replace(edges, table=between_items))).expect().scores
        items = column(scores, "token")[:-1].tolist()  # the last is the query, which is no item
        found = dict(zip(items, column(scores, "score").tolist(), strict=False))
        return {item: found.get(number, 0.0) for number, item in enumerate(self.items)}

    def probability(self, winner: Any, choice_set: Collection[Any]) -> float:
        """The chance that ``winner`` is chosen from ``choice_set`` (repeats count), where there is one.

        Inside one component it is m_y e^{s_y} / Σ m_j e^{s_j}. Against a component that precedes the winner's
        it is 0, and items of components that the winner's precedes count for nothing. Where neither precedes
        the other the data do not say, and ``UndeterminedChoice`` is raised; where it needs scores that are
        not certified, ``UncertifiedSolution``.
        """
        ids = self._lookup([winner, *choice_set])
        own, present = ids[0], ids[1:]
        if own not in present:
            raise InvalidSamples(f"{winner!r} is not in the choice set; give a set that holds the winner")
        component = self.graph.component_of_node
        others = {component[item]: item for item in present if component[item] != component[own]}
        if any(self._below(number)[component[own]] for number in others):
            return 0.0
        reached = self._below(component[own])
        for number, item in others.items():
            if not reached[number]:
                raise UndeterminedChoice(
                    f"no choices lead from {winner!r} to {self.items[item]!r} or back, so neither is "
                    "preferred; add comparisons that connect them (see .missing)"
                )
        rivals = np.array([item for item in present if component[item] == component[own]])
        if (rivals != own).any():
            self._check_scores()
        odds = np.exp(self._score[rivals] - self._score[own])
        return float((rivals == own).sum() / odds.sum())

    def _check_scores(self) -> None:
        if self.soft.status is not Status.CERTIFIED:
            raise UncertifiedSolution(
                f"these scores are not certified: {self.soft.certificate}; .components and .order are exact "
                "all the same, a ridge makes the scores easier to find, and .soft.scores has them as they are"
            )

    @cached_property
    def _score(self) -> Float64:
        return column(self.soft.scores, "score")

    @cached_property
    def _numbers(self) -> Int64:
        """The components' numbers in the graph, highest first, without the query's, which is the last."""
        return np.argsort(-self.graph.heights[:-1], kind="stable")

    @cached_property
    def _places(self) -> Int64:
        """Where each component of the graph stands in ``components``."""
        places = np.full(len(self.graph), len(self.graph))
        places[self._numbers] = np.arange(len(self._numbers))
        return places

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {item: number for number, item in enumerate(self.items)}

    @cached_property
    def _paths(self) -> QueryOrder:
        return QueryOrder(self.graph, len(self.items))

    def _below(self, component: int) -> Bool:
        """Which components this one reaches, itself included, shape (n_components,)."""
        return self._paths.search(component)[0]

    def _lookup(self, items: Sequence[Any]) -> list[int]:
        unknown = next((item for item in items if item not in self._number_of), None)
        if unknown is not None:
            raise UnknownToken(
                f"{unknown!r} is in none of the choices; leave it out or fit with choices of it"
            )
        return [self._number_of[item] for item in items]


def fit_choices(
    winners: Sequence[Any],
    choice_sets: Sequence[Collection[Any]],
    *,
    counts: Sequence[int] | None = None,
    ridge: float = 0.0,
) -> ChoiceFit:
    """Fit p(y | X) = m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j} as far as the choices determine it.

    Finite scores exist exactly inside the strongly connected components of "beats". Between components the
    best fit is infinite, so an order is returned and never a number.

    Parameters
    ----------
    winners : sequence of items
        What was chosen; items are integers, strings or anything hashable.
    choice_sets : sequence of collections of items
        What it was chosen from, the winner included. An item that stands m times in a set is an option m
        times (an offset ln m). Pairs give Bradley–Terry; for rankings see :func:`unroll_rankings`.
    counts : sequence of int, optional
        How often each choice was made. None means once.
    ridge : float
        Adds ½ ridge Σ s² to the summed loss inside components. 0: no regulariser.

    Returns
    -------
    ChoiceFit
        Print it for a summary.

    Examples
    --------
    >>> fit = fit_choices(["tea", "coffee", "tea", "tea"], [["tea", "coffee"]] * 3 + [["tea", "water"]])
    >>> fit.components, fit.order
    ((('tea', 'coffee'), ('water',)), ((0, 1),))
    >>> round(fit.probability("tea", ["tea", "coffee", "water"]), 6)
    0.666667
    >>> print(*fit.missing)
    a comparison of 'water' with 'coffee' in which 'water' wins
    """
    items, data = number_choices(winners, choice_sets, counts)
    graph = find_components(_edges_of(data, len(items)))
    soft = solve_luce(_choices_inside(data, graph), graph, ridge=ridge)
    return ChoiceFit(items, graph, soft)


def unroll_rankings(rankings: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[Any]]]:
    """Rankings, best first, as the choices of Plackett and Luce: each item from those not yet placed.

    Returns winners and choice sets for :func:`fit_choices`.

    Examples
    --------
    >>> unroll_rankings([["a", "b", "c"]])
    (['a', 'b'], [['a', 'b', 'c'], ['b', 'c']])
    """
    steps = [list(ranking[place:]) for ranking in rankings for place in range(len(ranking) - 1)]
    return [step[0] for step in steps], steps


def _edges_of(data: NumberedChoices, n_items: int) -> EdgeTable:
    """Every winner beats all others of its set, and the query, so that every item is a node."""
    winner, query = data.winner[data.choice], np.full(len(data.winner), n_items)
    loses = data.item != winner
    keys = np.concatenate(
        [
            pack_edges(np.full(int(loses.sum()), n_items), winner[loses], data.item[loses]),
            pack_edges(query, data.winner, query),
        ]
    )
    once = bool((data.made == 1).all())  # then there is nothing to add up but occurrences
    counts = np.concatenate([data.made[data.choice[loses]], data.made])
    keys, support = count_keys(keys) if once else sum_by_key(keys, counts)
    made = np.array([data.made.sum()])
    return make_edges(n_items + 1, keys, support, np.array([n_items]), made, np.zeros_like(made))


def _choices_inside(data: NumberedChoices, graph: Components) -> ChoiceTable:
    """The choice sets cut down to the winner's component; one that leaves a single item says nothing."""
    component = graph.component_of_node
    inside = component[data.item] == component[data.winner[data.choice]]
    lengths = np.bincount(data.choice[inside], minlength=len(data.winner))
    kept = lengths > 1
    entries = inside & kept[data.choice]
    choices = make_choices(
        np.full(int(kept.sum()), len(component) - 1, np.int32),
        data.winner[kept].astype(np.int32),
        offsets_of(lengths[kept]),
        data.item[entries].astype(np.int32),
        data.multiplicity[entries].astype(np.int32),
        data.made[kept],
    )
    repeated = int(graph.edges["support"].sum()) > 2 * len(graph.edges)
    return count_choices([choices]) if repeated else choices  # else hardly two choices are equal


def _describe_size(fit: ChoiceFit) -> str:
    made = int(column(fit.graph.edges.queries, "realisable").sum())
    number = len(fit.components)
    return f"{made:,} choices between {len(fit.items):,} items: {number:,} component{'s' * (number != 1)}"


def _describe_components(fit: ChoiceFit) -> list[str]:
    number = len(fit.components)
    lines = [_describe_size(fit)]
    lines += [_describe_component(fit, place) for place in range(min(number, SHOWN))]
    if number > SHOWN:
        lines.append(f"  and {number - SHOWN:,} more")
    return [*lines, f"scores {fit.soft.status.name.lower()}: {fit.soft.certificate}"]


def _describe_component(fit: ChoiceFit, place: int) -> str:
    below = _describe_below(fit, place)
    beats = f"; always before {below}" if below else ""
    return f"  {place + 1}. {_describe_members(fit, place)}{beats}"


def _describe_members(fit: ChoiceFit, place: int) -> str:
    """The first items of a component, with their scores."""
    members = fit.components[place]
    numbers = len(members) > 1 and fit.soft.status is Status.CERTIFIED
    first = members[:SHOWN]
    shown = [f"{item!r} {fit.scores[item]:+.3f}" if numbers else repr(item) for item in first]
    rest = f" and {len(members) - SHOWN:,} more" if len(members) > SHOWN else ""
    return ", ".join(shown) + rest


def _describe_below(fit: ChoiceFit, place: int) -> str:
    """The numbers of the components right below this one."""
    below = [str(other + 1) for above, other in fit.order if above == place]
    return ", ".join(below[:SHOWN]) + ", …" * (len(below) > SHOWN)


def _describe_missing(fit: ChoiceFit) -> list[str]:
    if len(fit.components) < 2:
        return []
    lines = ["Scores of different components cannot be compared. To connect all, the least is"]
    lines += [f"  {comparison}" for comparison in fit.missing[:SHOWN]]
    if len(fit.missing) > SHOWN:
        lines.append(f"  and {len(fit.missing) - SHOWN:,} more")
    return lines
