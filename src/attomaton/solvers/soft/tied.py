"""Solve the soft problem of ties from counted choices, with eight bytes per member of a choice set.

:func:`group_choices` sorts the choices by component, :func:`solve_groups` fits and certifies the scores.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.errors import MismatchedParts
from attomaton.base.native import count_components, find_nodes, sort_members
from attomaton.base.ragged import centre, group_borders, offsets_of
from attomaton.base.tables import Float64, ragged_column
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.grouping import pack_pairs
from attomaton.solvers.soft.certify import SoftCertificate, certify_slopes
from attomaton.solvers.soft.curvature import measure_groups
from attomaton.solvers.soft.likelihood import NOT_ONE_CORPUS
from attomaton.solvers.soft.newton import Choices, Groups, Newton, minimise_groups


@dataclass(frozen=True, eq=False)
class TieScores:
    """The soft solution of tokens that tie."""

    scores: Float64  # (n_nodes,), with mean zero in each component
    certificate: SoftCertificate
    loss: float  # −Σ ln p over all counted choices


def solve_groups(
    groups: Groups, *, ridge: float = 0.0, atol: float = 1e-8, threads: int | None = None
) -> TieScores:
    """Fit the Luce model to choices that :func:`group_choices` sorted; the loss has ½ ridge Σ s² added."""
    group = np.repeat(np.arange(len(groups)), np.diff(groups.borders))
    inside = centre(group, minimise_groups(Newton(threads=threads), groups, stiffness=ridge))
    scores = np.empty_like(inside)
    scores[groups.alternatives] = inside
    return prove_groups(groups, scores, ridge=ridge, atol=atol, threads=threads)


# Scores (n_nodes,) that may come from elsewhere, with mean zero in each component and their certificate.
def prove_groups(
    groups: Groups, scores: Float64, *, ridge: float = 0.0, atol: float = 1e-8, threads: int | None = None
) -> TieScores:
    if not np.isfinite(scores).all():  # the solver gave up: nothing can be proven
        return TieScores(scores, SoftCertificate(np.inf, np.inf, atol, None, None), np.inf)
    group = np.repeat(np.arange(len(groups)), np.diff(groups.borders))
    inside = centre(group, scores[groups.alternatives])  # as for the definition
    slopes = measure_groups(groups, inside, ridge=ridge, threads=threads)
    certificate = certify_slopes(slopes, groups.rounding(), atol=atol)
    return TieScores(scores, certificate, float(np.add.reduce(slopes.loss)))


def group_choices(choices: ChoiceTable, ties: Components) -> Groups:
    """The choices inside ties, sorted by component and winner, with members numbered by component."""
    component = ties.component_of_node
    # Alternatives are the nodes, numbered by component: `nodes` lists them, `number` is the inverse.
    nodes = np.argsort(component, kind="stable")
    number = np.empty(len(nodes), np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    borders = group_borders(component, len(ties))
    keys = pack_pairs(ties.query_of_node, ties.token_of_node)
    offsets, tokens = ragged_column(choices.rows, "tokens")
    # Kernels index an array by token, so it must be longer than any token of the choices.
    largest = int(max(tokens.max(initial=0), choices["winner"].max(initial=0)))
    n_ids = max(ties.edges.n_tokens, largest + 1)
    rows = find_nodes(keys, choices["query"], choices["winner"], n_ids)
    if (rows < 0).any():  # a winner that is no node
        raise MismatchedParts(NOT_ONE_CORPUS)
    winner = number[rows]
    order = np.argsort(winner, kind="stable")
    winner, sorted_offsets = winner[order], offsets_of(np.diff(offsets)[order])
    lists = offsets, tokens, ragged_column(choices.rows, "multiplicities")[1], choices["query"]
    # Members outside the component of the winner (from `limits`) are an error: ``inside`` is false.
    limits = borders[component[nodes]], borders[component[nodes] + 1]
    alternative, multiplicity, inside = sort_members(order, lists, (keys, number), (winner, *limits), n_ids)
    # Edges winner → member must strongly connect each component; those of a winner are consecutive.
    starts = sorted_offsets[group_borders(winner, len(nodes))]
    if not (inside and count_components(starts, alternative) == len(ties)):
        raise MismatchedParts(NOT_ONE_CORPUS)
    counts = choices["count"][order].astype(np.float64)
    sorted_choices = Choices(alternative, sorted_offsets, multiplicity, winner, counts)
    return Groups(sorted_choices, nodes, borders, group_borders(component[nodes][winner], len(ties)))
