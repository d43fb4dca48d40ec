"""One query of a run as its page shows it: components in layers, the order between them, and the scores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.report.page.packing import FIELDS, Packer, expand, sum_up


@dataclass(frozen=True, eq=False)
class PageGraph:
    """The graph of one query, read back from what the page holds.

    Attributes
    ----------
    query, samples : int
        The query, and how many realisable samples it has.
    tokens : int64 array, shape (n_nodes,)
        The nodes, rising; rows below are places among them.
    members : tuple of tuples of int
        The rows of each component.
    hard, soft : float64 arrays, shape (n_nodes,)
        The scores.
    heights : int64 array, shape (n_components,)
        Longest chain below each component.
    above, below, support : int64 arrays, shape (n_pairs,)
        The order between components.
    implied : bool array, shape (n_pairs,)
        Which pairs a longer path replaces.
    """

    query: int
    samples: int
    tokens: Int64
    members: tuple[tuple[int, ...], ...]
    hard: Float64
    soft: Float64
    heights: Int64
    above: Int64
    below: Int64
    support: Int64
    implied: Bool

    @cached_property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """The components of each layer, highest first; larger ones and those with more support come first."""
        weight = np.zeros(len(self.members), np.int64)
        np.add.at(weight, self.above, self.support)
        np.add.at(weight, self.below, self.support)
        sizes = np.array([len(rows) for rows in self.members])
        order = np.lexsort((-weight, -sizes, -self.heights))
        borders = np.flatnonzero(np.diff(self.heights[order])) + 1
        return tuple(tuple(part.tolist()) for part in np.split(order, borders))


def read_graph(packer: Packer, place: int) -> PageGraph:
    """The query at this place of ``packer.queries``, out of its packed form."""
    packed = dict(zip(FIELDS, packer.pack(place), strict=True))
    tokens = sum_up(packed["tokens"])
    soft = np.zeros(len(tokens))
    soft[sum_up(packed["soft_rows"])] = packed["soft_values"]
    above = sum_up(packed["above"])
    implied = np.zeros(len(above), bool)
    implied[sum_up(packed["implied"])] = True
    return PageGraph(
        query=packed["query"],
        samples=packed["samples"],
        tokens=tokens,
        members=_members([sum_up(rows).tolist() for rows in packed["ties"]], len(tokens)),
        hard=np.array(packed["hard_values"])[expand(packed["hard_places"])],
        soft=soft,
        heights=expand(packed["heights"]),
        above=above,
        below=sum_up(packed["below"]),
        support=expand(packed["support"]),
        implied=implied,
    )


def _members(ties: list[list[int]], n_nodes: int) -> tuple[tuple[int, ...], ...]:
    """Ties and every other node alone, by their smallest row, as components are numbered."""
    tied = {row for rows in ties for row in rows}
    alone = [(row,) for row in range(n_nodes) if row not in tied]
    return tuple(sorted([*map(tuple, ties), *alone]))
