"""One context, and what attention makes of it, as a picture for notebooks and as text for terminals."""

from collections.abc import Callable
from dataclasses import dataclass

from attomaton.automaton.explanation import Explanation
from attomaton.automaton.telling import BAR, POSITIONS, STEPS, THEOREM, Drawing
from attomaton.base.display import Html

__all__ = ["BAR", "POSITIONS", "STEPS", "THEOREM", "ContextView"]


@dataclass(frozen=True, repr=False)
class ContextView:
    """What attention makes of one context, to be looked at: a notebook draws it, a terminal prints it.

    Attributes
    ----------
    explanation : Explanation
        What is shown.
    name : callable
        The text of each token id.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 3], [1, 0, 3]], [0, 1]))
    >>> ContextView(auto.explain([0, 1, 3]), "abcd".__getitem__)
    query d: determined (one component precedes every other component of the context: the theorem decides)
    [a] [b] d
      a  0.500000  ##########
      b  0.500000  ##########
    beats d: direct, support 2: a → d ×1, b → d ×1
    """

    explanation: Explanation
    name: Callable[[int], str]

    def __repr__(self) -> str:
        return Drawing(self.explanation, self.name).text()

    def _repr_html_(self) -> Html:
        return Drawing(self.explanation, self.name).html()
