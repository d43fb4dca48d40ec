"""The rules by which attention answers, and what a retrieved component beat."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from attomaton.graphs.paths import Edge

SHOWN = 3
"""Edges of a step that are named."""


class Rule(Enum):
    """Which rule answered; the value says it in a sentence.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1], n_tokens=4))
    >>> [auto.explain(context).rule.name for context in ([0, 1, 2], [0, 3, 2], [0, 1])]
    ['DETERMINED', 'UNSEEN_IGNORED', 'BACK_OFF']
    >>> auto.explain([0, 1]).rule.value
    'no sample teaches anything about this query: each position weighs the same, by our choice'
    """

    DETERMINED = "one component precedes every other component of the context: the theorem decides"
    INCOMPARABLE = "no component precedes all others: hard scores decide, soft ones if they tie; no theorem"
    UNSEEN_IGNORED = (
        "tokens without evidence under this query get no mass; among the others the theorem decides"
    )
    BACK_OFF = "no sample teaches anything about this query: each position weighs the same, by our choice"
    SCORED = "every token of the context has a finite score under this query: the softmax of these scores"
    UNSEEN_BACKGROUND = (
        "tokens without evidence under this query keep their background score, by our choice; no theorem"
    )
    BACKGROUND = "no sample teaches anything about this query: background scores answer, by our choice"

    @property
    def words(self) -> str:
        """Its name as words."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Beaten:
    """A component of the context that the retrieved one precedes.

    Attributes
    ----------
    tokens : tuple of int
        Its tokens that stand in the context.
    steps : tuple of tuples of Edge
        The path from the retrieved component down to this one, as the data edges behind each step.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 3], [1, 2, 3], [1, 2, 3]], [0, 1, 1]))
    >>> [beaten] = [one for one in auto.explain([0, 2, 3]).beaten if one.tokens == (2,)]
    >>> beaten.steps, beaten.support  # never compared, but 0 beats 1 and 1 beats 2
    (((Edge(winner=0, loser=1, support=1),), (Edge(winner=1, loser=2, support=2),)), 1)
    >>> beaten.describe_edges(str)
    '0 → 1 ×1; then 1 → 2 ×2'
    """

    tokens: tuple[int, ...]
    steps: tuple[tuple[Edge, ...], ...]

    @property
    def support(self) -> int:
        """The path's weakest link: the least number of supporting (sample, loser) pairs among its steps."""
        return min(sum(edge.support for edge in step) for step in self.steps)

    @property
    def path(self) -> str:
        """How long the path is, in words."""
        return "direct" if len(self.steps) == 1 else f"{len(self.steps)} steps"

    def describe_edges(self, name: Callable[[int], str]) -> str:
        """The best supported data edges of each step, tokens shown by ``name``."""
        return "; then ".join(_describe_step(step, name) for step in self.steps)


def _describe_step(step: tuple[Edge, ...], name: Callable[[int], str]) -> str:
    shown = ", ".join(f"{name(edge.winner)} → {name(edge.loser)} ×{edge.support}" for edge in step[:SHOWN])
    return shown + (f" and {len(step) - SHOWN} more" if len(step) > SHOWN else "")
