"""The soft problem of ties, directly from counted choices: eight bytes for each member of a choice set.

The most frequent word of a large corpus has a hundred million members. The definition is
:func:`attomaton.solvers.soft.solve.solve_luce`, which keeps several copies of the general form of the
problem in memory.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import MismatchedParts
from attomaton.base.kernels import compiled
from attomaton.base.native import count_components, find_nodes
from attomaton.base.ragged import centre, group_borders, offsets_of
from attomaton.base.tables import Float64, Int32, Int64, ragged_column
from attomaton.corpora.samples import MAX_TOKENS, TOKEN_BITS
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.grouping import pack_pairs
from attomaton.solvers.soft.certify import SoftCertificate, certify_slopes
from attomaton.solvers.soft.curvature import measure_groups
from attomaton.solvers.soft.likelihood import NOT_ONE_CORPUS
from attomaton.solvers.soft.newton import Array, Choices, Groups, Newton, minimise_groups


@dataclass(frozen=True, eq=False)
class TieScores:
    """The soft solution of tokens that tie.

    Attributes
    ----------
    scores : float64 array, shape (n_nodes,)
        A score for each node, with mean zero in each component.
    certificate : SoftCertificate
        Bound on their distance from the optimum.
    loss : float
        The summed loss −Σ ln p over all counted choices.

    Examples
    --------
    >>> from attomaton.solvers.soft.certify import SoftCertificate
    >>> TieScores(np.zeros(2), SoftCertificate(0.0, 0.0, 1e-8, 1.0, 0.0), loss=1.4).certificate.certified
    True
    """

    scores: Float64
    certificate: SoftCertificate
    loss: float


def solve_groups(groups: Groups, *, atol: float = 1e-8, threads: int | None = None) -> TieScores:
    """Fit the Luce model to choices that :func:`group_choices` sorted."""
    group = np.repeat(np.arange(len(groups)), np.diff(groups.borders))
    inside = centre(group, minimise_groups(Newton(threads=threads), groups))
    scores = np.empty_like(inside)
    scores[groups.place] = inside
    if not np.isfinite(inside).all():  # the solver gave up: nothing can be proven
        return TieScores(scores, SoftCertificate(np.inf, np.inf, atol, None, None), np.inf)
    slopes = measure_groups(groups, centre(group, inside), threads=threads)  # as for the definition
    certificate = certify_slopes(slopes, groups.rounding(), atol=atol)
    return TieScores(scores, certificate, float(np.add.reduce(slopes.loss)))


def group_choices(choices: ChoiceTable, ties: Components) -> Groups:
    """The choices inside ties, sorted by component and winner, with members numbered by component."""
    component, n_tokens = ties.component_of_node, ties.edges.n_tokens
    nodes = np.argsort(component, kind="stable")
    number = np.empty(len(nodes), np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    borders = group_borders(component, len(ties))
    keys = pack_pairs(ties.query_of_node, ties.token_of_node)
    offsets, tokens = ragged_column(choices.rows, "tokens")
    ends = max(n_tokens, int(max(tokens.max(initial=0), choices["winner"].max(initial=0))) + 1)
    rows = find_nodes(keys, choices["query"], choices["winner"], ends)
    if (rows < 0).any():
        raise MismatchedParts(NOT_ONE_CORPUS)
    winner = number[rows]
    order = np.argsort(winner, kind="stable")
    winner, sorted_offsets = winner[order], offsets_of(np.diff(offsets)[order])
    lists = offsets, tokens, ragged_column(choices.rows, "multiplicities")[1], choices["query"]
    limits = borders[component[nodes]], borders[component[nodes] + 1]
    alternative, multiplicity, inside = _sort_members(order, lists, (keys, number), (winner, *limits), ends)
    starts = sorted_offsets[group_borders(winner, len(nodes))]
    if not (inside and count_components(starts, alternative) == len(ties)):
        raise MismatchedParts(NOT_ONE_CORPUS)
    counts = choices["count"][order].astype(np.float64)
    sorted_choices = Choices(alternative, sorted_offsets, multiplicity, winner, counts)
    return Groups(sorted_choices, nodes, borders, group_borders(component[nodes][winner], len(ties)))


@compiled
def _sort_members(
    order: Int64,
    lists: tuple[Int64, Int32, Int32, Int32],
    nodes: tuple[Int64, Int32],
    within: tuple[Int32, Int64, Int64],
    size: int,
) -> tuple[Array, Array, bool]:
    """Members and multiplicities of choice sets in a new order, and whether every set stays in its component.

    ``lists`` are the offsets, tokens, multiplicities and queries of the choices, ``nodes`` the keys of all
    nodes with their numbers, and ``within`` the numbers of the winners, in the new order, with the first and
    one past the last number of each node's component. Queries stay sorted in the new order.
    """
    offsets, tokens, times, queries = lists
    keys, number = nodes
    winner, lowest, behind = within
    number_of = np.full(size, np.int32(-1), np.int32)
    alternative, multiplicity = np.empty(len(tokens), np.int32), np.empty(len(tokens), np.int32)
    first = end = position = 0
    query, inside = np.int64(-1), True
    for rank in range(len(order)):
        choice, own = order[rank], winner[rank]
        if queries[choice] != query:
            query = np.int64(queries[choice])
            for row in range(first, end):
                number_of[keys[row] & (MAX_TOKENS - 1)] = -1
            first = end
            while first < len(keys) and (keys[first] >> TOKEN_BITS) < query:
                first += 1
            end = first
            while end < len(keys) and (keys[end] >> TOKEN_BITS) == query:
                number_of[keys[end] & (MAX_TOKENS - 1)] = number[end]
                end += 1
        for entry in range(offsets[choice], offsets[choice + 1]):
            member = number_of[tokens[entry]]
            if member < lowest[own] or member >= behind[own]:
                inside = False
            alternative[position], multiplicity[position] = member, times[entry]
            position += 1
    return alternative, multiplicity, inside
