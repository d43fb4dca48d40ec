"""Choice models (Bradley–Terry, Plackett–Luce, conditional logit) on data that need not be connected.

A choice is a context that ends in a query nobody chooses, so the theory of attention applies: items that beat
one another in both directions tie and have finite scores; between components there is an order, not a number.
"""

from collections.abc import Collection, Sequence
from typing import Any, Unpack

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number
from attomaton.base.ragged import offsets_of
from attomaton.choices.given import Columns, read_given
from attomaton.choices.numbering import NumberedChoices
from attomaton.choices.order import Comparison, join_components
from attomaton.choices.rankings import unroll_rankings
from attomaton.choices.result import ChoiceFit
from attomaton.choices.sequences import ChoiceData
from attomaton.graphs.choices import ChoiceTable, count_choices, make_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable, make_edges, pack_edges
from attomaton.graphs.grouping import count_keys, sum_by_key
from attomaton.solvers.soft.solve import solve_luce

__all__ = ["ChoiceFit", "Comparison", "fit_choices", "unroll_rankings"]


def fit_choices(
    winners: Any = None,
    choice_sets: Sequence[Collection[Any]] | Any = None,
    *,
    losers: Any = None,
    rankings: Any = None,
    tied: Any = None,
    counts: Sequence[int] | Any = None,
    ridge: float = 0.0,
    prior: float | None = None,
    **columns: Unpack[Columns],
) -> ChoiceFit:
    """Fit p(y | X) = m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j} where the choices determine it.

    Finite scores exist exactly inside the strongly connected components of "beats"; between components an
    order is returned and never a number. A sequence may be a list, a numpy array, a pandas or Polars Series,
    or an Arrow array. A frame may be a pandas or Polars frame, an Arrow table, a dict of columns, a list of
    records, or the path of a ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl`` file.

    Parameters
    ----------
    winners : sequence of items, or frame
        The chosen items: integers, strings or anything hashable; or a list of pairs (winner, loser).
    choice_sets : sequence of collections of items, optional
        The sets they were chosen from, including the winner. An item that occurs m times in a set is an
        option m times (an offset ln m). A sequence of single items is taken as ``losers``.
    losers : sequence of items, optional
        The loser of each row: Bradley–Terry. An entry that is a list contains all losers of that row.
    rankings : sequence of sequences of items, optional
        Rankings, each best first, instead of winners: Plackett–Luce, the first chosen from all, the second
        from the rest, and so on. Tied items form a list.
    tied : sequence of bool, optional
        Which rows of winners and losers are ties: each of the two has half a win. Scores then give the
        expected score of a pair, in which a tie is ½, and not the odds of a win; standard errors account for
        the ties.
    counts : sequence of int, optional
        How often each choice was made. None means once.
    ridge : float
        Adds ½ ridge Σ s² to the summed loss within components. 0: no regulariser.
    prior : float, optional
        Joins all components by a prior: every score is normal about 0 with this standard deviation.
        Differences between components then come from the prior alone, and the result says so.
    **columns
        Names of columns of a frame: ``winner`` with ``loser`` or ``choice_set`` (a column of lists);
        ``first``, ``second`` and ``outcome`` (the name of the winner, or of its column, or 1, 0 and 0.5 or
        ``tie``); ``ranking`` (a column of lists, or a list of columns, one per place, which hold items); or
        ``ranks`` (a list of columns, one per item, which hold its place: 1 is best, equal numbers are ties,
        empty cells were not ranked). ``count`` works with any of these, and ``tied`` may also name a column.
        Columns called ``count`` are used without being named, and so are ``tied``, ``tie`` or ``draw`` next
        to winners and losers.

    Returns
    -------
    ChoiceFit
        Print it for a table.

    Examples
    --------
    >>> fit = fit_choices(["tea", "coffee", "tea", "tea"], [["tea", "coffee"]] * 3 + [["tea", "water"]])
    >>> fit.components, fit.order
    ((('tea', 'coffee'), ('water',)), ((0, 1),))
    >>> round(fit.probability("tea", ["tea", "coffee", "water"]), 6)
    0.666667
    >>> print(*fit.missing)
    a comparison of 'water' with 'coffee' in which 'water' wins
    >>> games = {"winner": ["a", "b", "a"], "loser": ["b", "a", "c"], "count": [3, 1, 2]}
    >>> fit_choices(games, winner="winner", loser="loser", count="count").probability("a", "b")
    0.75
    >>> fit_choices(rankings=[["a", "b", "c"], ["b", ["a", "c"]]]).components
    (('b', 'a', 'c'),)
    """
    ridge = real_number(ridge, "ridge", least=0)
    if prior is not None:  # odds of two items are e to about that
        prior = real_number(prior, "prior, the standard deviation of a score,", least=1e-3, most=1e3)
    if ridge and prior is not None:
        raise UnsupportedOption("ridge acts within components, prior also between them; give only one")
    parsed = read_given(ChoiceData(winners, choice_sets, losers, rankings, tied, counts), columns)
    graph = find_components(_edges_of(parsed.choices, len(parsed.items)))
    scored = graph if prior is None else join_components(graph)
    pull = (ridge if prior is None else prior**-2) * parsed.parts
    soft = solve_luce(_choices_inside(parsed.choices, scored), scored, ridge=pull)
    return ChoiceFit(parsed.items, graph, soft, prior, parsed.parts, parsed.rankings)


def _edges_of(data: NumberedChoices, n_items: int) -> EdgeTable:
    """Every winner beats all other items of its set, and the query, so that every item is a node."""
    winner, query = data.winner[data.choice], np.full(len(data.winner), n_items)
    loses = data.item != winner
    keys = np.concatenate(
        [
            pack_edges(np.full(int(loses.sum()), n_items), winner[loses], data.item[loses]),
            pack_edges(query, data.winner, query),
        ]
    )
    once = bool((data.made == 1).all())  # then only occurrences need to be added up
    counts = np.concatenate([data.made[data.choice[loses]], data.made])
    keys, support = count_keys(keys) if once else sum_by_key(keys, counts)
    total = np.array([data.made.sum()])
    return make_edges(n_items + 1, keys, support, np.array([n_items]), total, np.zeros_like(total))


def _choices_inside(data: NumberedChoices, graph: Components) -> ChoiceTable:
    """The choice sets restricted to the winner's component; a set of one item carries no information."""
    component = graph.component_of_node
    inside = component[data.item] == component[data.winner[data.choice]]
    lengths = np.bincount(data.choice[inside], minlength=len(data.winner))
    several = lengths > 1
    entries = inside & several[data.choice]
    choices = make_choices(
        np.full(int(several.sum()), len(component) - 1, np.int32),
        data.winner[several].astype(np.int32),
        offsets_of(lengths[several]),
        data.item[entries].astype(np.int32),
        data.multiplicity[entries].astype(np.int32),
        data.made[several],
    )
    repeated = int(graph.edges["support"].sum()) > 2 * len(graph.edges)
    return count_choices([choices]) if repeated else choices  # else hardly two choices are equal
