"""Why the automaton answers as it does, for one context."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from attomaton.automaton.reasons import Beaten, Rule
from attomaton.automaton.telling import draw_explanation, tell_explanation
from attomaton.base.frames import Tabular
from attomaton.base.printing import Block
from attomaton.base.tables import table_of
from attomaton.graphs.paths import Edge

__all__ = ["Beaten", "Edge", "Explanation", "Rule"]


@dataclass(frozen=True)
class Explanation(Tabular):
    """What is retrieved from one context, and why.

    Attributes
    ----------
    context : tuple of int
        The context; its last token is the query.
    rule : Rule
        Which rule answered.
    retrieved : tuple of tuples of int
        The tokens of each retrieved component that stand in the context: one component, or several with the
        same hard score.
    probabilities : mapping of int to float
        Token → chance of being the next one, for the retrieved tokens.
    beaten : tuple of Beaten
        The components that the retrieved one precedes, with the evidence.
    incomparable : tuple of tuples of int
        The tokens of components that are neither retrieved nor beaten: no path says who wins.
    unseen : tuple of int
        Tokens of the context that no realisable sample with this query shows: they are not in its graph.
    unknown : tuple of str
        Words of the context that the vocabulary does not have; they are among ``unseen``, and their ids
        follow those of the vocabulary.
    name : callable
        The text of each token id.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [0, 1, 2], [1, 2]], [0, 0, 1], n_tokens=4))
    >>> explanation = auto.explain([3, 0, 1, 2])
    >>> explanation.retrieved, explanation.probabilities, explanation.unseen
    (((0,),), {0: 1.0}, (3,))
    >>> [(beaten.tokens, beaten.support) for beaten in explanation.beaten]
    [((1,), 2), ((2,), 2)]
    >>> explanation.to_dict(explanation.name)["meaning"]
    'tokens without evidence under this query get no mass; among the others the theorem decides'
    >>> print(str(explanation).partition("decides)")[2][1:])
    Retrieved
    ┏━━━━━━━┳━━━━━━━━━━━━━┓
    ┃ token ┃ probability ┃
    ┡━━━━━━━╇━━━━━━━━━━━━━┩
    │ 0     │ 1.000000    │
    └───────┴─────────────┘
    It beat
    ┏━━━━━━━━┳━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓
    ┃ tokens ┃ path   ┃ support ┃ edges behind it ┃
    ┡━━━━━━━━╇━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩
    │ 1      │ direct │ 2       │ 0 → 1 ×2        │
    │ 2      │ direct │ 2       │ 0 → 2 ×2        │
    └────────┴────────┴─────────┴─────────────────┘
    Ignored, without evidence under this query: 3
    """

    context: tuple[int, ...]
    rule: Rule
    retrieved: tuple[tuple[int, ...], ...]
    probabilities: Mapping[int, float]
    beaten: tuple[Beaten, ...]
    incomparable: tuple[tuple[int, ...], ...]
    unseen: tuple[int, ...]
    unknown: tuple[str, ...] = ()
    name: Callable[[int], str] = field(default=str, compare=False, repr=False)

    @property
    def query(self) -> int:
        """The last context token."""
        return self.context[-1]

    def _blocks(self) -> list[Block]:
        return tell_explanation(self, self.name)

    def _table(self) -> pa.Table:
        """Columns text, times, probability and became, a row for each distinct token of the context.

        What became of it: retrieved, beaten, incomparable, unseen or, with finite scores, scored.
        """
        times = Counter(self.context)
        kinds = [
            ("retrieved", self.retrieved),
            ("beaten", [one.tokens for one in self.beaten]),
            ("incomparable", self.incomparable),
            ("unseen", [self.unseen]),
        ]
        became = {token: kind for kind, groups in kinds for tokens in groups for token in tokens}
        tokens = sorted(times, key=lambda token: (-self.probabilities.get(token, 0.0), token))
        return table_of(
            {
                "text": [self.name(token) for token in tokens],
                "times": [times[token] for token in tokens],
                "probability": [float(self.probabilities.get(token, 0.0)) for token in tokens],
                "became": [became.get(token, "scored") for token in tokens],
            }
        )

    def _repr_html_(self) -> str:
        return draw_explanation(self, self.name)

    def to_dict(self, name: Callable[[int], Any] = int) -> dict[str, Any]:
        """Everything as plain JSON values, tokens shown by ``name`` (``explanation.name`` gives texts)."""

        def names(tokens: tuple[int, ...]) -> list[Any]:
            return [name(token) for token in tokens]

        return {
            "context": names(self.context),
            "query": name(self.query),
            "rule": self.rule.name.lower(),
            "meaning": self.rule.value,
            "retrieved": [names(tokens) for tokens in self.retrieved],
            "probabilities": [[name(token), chance] for token, chance in self.probabilities.items()],
            "beaten": [
                {
                    "tokens": names(beaten.tokens),
                    "steps": [
                        [[name(edge.winner), name(edge.loser), edge.support] for edge in step]
                        for step in beaten.steps
                    ],
                }
                for beaten in self.beaten
            ],
            "incomparable": [names(tokens) for tokens in self.incomparable],
            "unseen": names(self.unseen),
            "unknown": list(self.unknown),
        }
