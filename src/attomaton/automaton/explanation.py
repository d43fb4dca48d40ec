"""The reasons for the automaton's prediction, for one context."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.frames import Tabular
from attomaton.base.printing import (
    PRINTED_ROWS,
    Bar,
    Bars,
    Block,
    Chip,
    Chips,
    Grid,
    Printed,
    Signal,
    shorten,
)
from attomaton.base.tables import table_of
from attomaton.graphs.paths import Edge, QueryGraph, QueryOrder

STEP_EDGES = 3
"""Maximum number of edges named per step."""


class Rule(Enum):
    """The rule that decided; the value is a sentence.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1], n_tokens=4))
    >>> [auto.explain(context).rule.name for context in ([0, 1, 2], [0, 3, 2], [0, 1])]
    ['DETERMINED', 'UNSEEN_IGNORED', 'NO_EVIDENCE']
    """

    DETERMINED = "one component precedes every other component of the context: the theorem decides"
    INCOMPARABLE = "no component precedes all others: hard scores decide, soft scores break ties; no theorem"
    UNSEEN_IGNORED = (
        "tokens without evidence under this query get no mass; among the others the theorem decides"
    )
    NO_EVIDENCE = (
        "no sample teaches anything about this query: every position has equal weight, by convention"
    )
    SCORED = "every token of the context has a finite score under this query: the softmax of these scores"
    UNSEEN_BACKGROUND = (
        "tokens without evidence under this query keep their background score, by convention; no theorem"
    )
    BACKGROUND = "no sample teaches anything about this query: background scores decide, by convention"

    @property
    def words(self) -> str:
        """The name of the rule as words."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Beaten:
    """A component of the context that the retrieved one precedes.

    Attributes
    ----------
    tokens : tuple of int
        Its tokens that are in the context.
    steps : tuple of tuples of Edge
        The path from the retrieved component down to this one, as the data edges behind each step: first
        those between tokens of the context, then the others, each best supported first.
    """

    tokens: tuple[int, ...]
    steps: tuple[tuple[Edge, ...], ...]

    @property
    def support(self) -> int:
        """The weakest link of the path: the fewest supporting (sample, loser) pairs among its steps."""
        return min(sum(edge.support for edge in step) for step in self.steps)

    @property
    def path(self) -> str:
        """The length of the path in words."""
        return "direct" if len(self.steps) == 1 else f"{len(self.steps)} steps"

    def describe_edges(self, name: Callable[[int], str]) -> str:
        """The best supported data edges of each step, with tokens shown by ``name``."""
        return "; then ".join(_name_step(step, name) for step in self.steps)


def _name_step(step: tuple[Edge, ...], name: Callable[[int], str]) -> str:
    shown = ", ".join(
        f"{name(edge.winner)} → {name(edge.loser)} ×{edge.support}" for edge in step[:STEP_EDGES]
    )
    return shown + (f" and {len(step) - STEP_EDGES} more" if len(step) > STEP_EDGES else "")


POSITIONS = 48
"""Number of last positions of a context that a view shows."""

PATH_STEPS = 5
"""Maximum number of steps of a path that a view shows."""

THEOREM = (Rule.DETERMINED, Rule.UNSEEN_IGNORED)
"""Rules that follow from the theory; the others are conventions where it is silent."""


@dataclass(frozen=True)
class Explanation(Tabular):
    """The tokens retrieved from one context, and the reasons.

    Attributes
    ----------
    context : tuple of int
        The context; its last token is the query.
    rule : Rule
        The rule that decided.
    retrieved : tuple of tuples of int
        The tokens of each retrieved component that are in the context: one component, or several with the
        same hard score.
    probabilities : mapping of int to float
        Token → probability that it comes next, for the retrieved tokens.
    beaten : tuple of Beaten
        The components that the retrieved one precedes, with the evidence.
    incomparable : tuple of tuples of int
        The tokens of components that are neither retrieved nor beaten: no path orders them and the retrieved
        ones.
    unseen : tuple of int
        Tokens of the context that occur in no realisable sample with this query: not in its graph.
    unknown : tuple of str
        Words of the context that are not in the vocabulary; they are among ``unseen``, with ids that follow
        those of the vocabulary.
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
    >>> explanation.to_dict(explanation.name)["rule"]
    'unseen_ignored'
    >>> print(str(explanation).partition("It beat")[2][1:])
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
        name = self.name
        rows = [
            (name(token), Bar(probability, f"{probability:.6f}")) for token, probability in _falling(self)
        ]
        blocks: list[Block] = [
            f"Query: {name(self.query)}",
            Signal(f"Rule: {self.rule.words} ({self.rule.value})", _by_theorem(self)),
            Grid("Retrieved", ["token", "probability"], rows),
            *_equals(self),
        ]
        if self.beaten:
            beaten = [
                (" ".join(map(name, below.tokens)), below.path, below.support, below.describe_edges(name))
                for below in self.beaten
            ]
            blocks.append(Grid("It beat", ["tokens", "path", "support", "edges behind it"], beaten))
        groups = "; ".join(" ".join(map(name, tokens)) for tokens in self.incomparable)
        return [*blocks, *_left(self, groups, " ".join(map(name, self.unseen)), " ".join(self.unknown))]

    @property
    def written_lines(self) -> list[str]:
        """Lines about the written tokens, for a head that writes other tokens than it reads."""
        return []

    def _table(self) -> pa.Table:
        """Columns text, times, probability and became, one row per distinct token of the context.

        ``became`` is retrieved, beaten, incomparable, unseen or, with finite scores, scored.
        """
        times = Counter(self.context)
        kinds = [
            ("retrieved", self.retrieved),
            ("beaten", [below.tokens for below in self.beaten]),
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

    def to_dict(self, name: Callable[[int], Any] = int) -> dict[str, Any]:
        """Everything as JSON values, each token as ``name(id)``; ``name=explanation.name`` gives texts."""

        def names(tokens: tuple[int, ...]) -> list[Any]:
            return [name(token) for token in tokens]

        return {
            "context": names(self.context),
            "query": name(self.query),
            "rule": self.rule.name.lower(),
            "meaning": self.rule.value,
            "retrieved": [names(tokens) for tokens in self.retrieved],
            "probabilities": [
                [name(token), probability] for token, probability in self.probabilities.items()
            ],
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


@dataclass(frozen=True, repr=False)
class ContextView(Printed):
    """A view of attention on one context: its tokens in a row, their probabilities as bars.

    Attributes
    ----------
    explanation : Explanation
        The explanation to show; long lists are truncated.
    """

    explanation: Explanation

    def __repr__(self) -> str:
        return str(self)

    def _blocks(self) -> list[Block]:
        explanation, name = self.explanation, self._name
        probabilities = _falling(explanation)
        mixed = [
            (name(token), Bar(probability, f"{probability:.6f}"))
            for token, probability in probabilities[:PRINTED_ROWS]
        ]
        beaten = [
            f"beats {self._names(below.tokens)}: {below.path}, support {below.support:,}: {self._path(below)}"
            for below in explanation.beaten[:PRINTED_ROWS]
        ]
        groups = "; ".join(map(self._names, explanation.incomparable[:PRINTED_ROWS])) + "; …" * (
            len(explanation.incomparable) > PRINTED_ROWS
        )
        unknown = _join_names(list(map(shorten, explanation.unknown)), len(explanation.unknown))
        rule = f"query {name(explanation.query)}: {explanation.rule.words} ({explanation.rule.value})"
        return [
            Signal(rule, _by_theorem(explanation)),
            self._chips(),
            Bars(mixed, max(len(name(token)) for token, _ in probabilities)),
            *([f"  and {len(probabilities) - PRINTED_ROWS:,} more"] * (len(probabilities) > PRINTED_ROWS)),
            *explanation.written_lines[:PRINTED_ROWS],
            *beaten,
            *(
                [f"and {len(explanation.beaten) - PRINTED_ROWS:,} more"]
                * (len(explanation.beaten) > PRINTED_ROWS)
            ),
            *_equals(explanation),
            *_left(explanation, groups, self._names(explanation.unseen), unknown),
        ]

    def _chips(self) -> Chips:
        """The last positions of the context, and a note on the positions left out before them."""
        explanation = self.explanation
        times = Counter(explanation.context)
        weights = [explanation.probabilities.get(token, 0.0) / times[token] for token in explanation.context]
        hidden = max(len(weights) - POSITIONS, 0)
        before = f"({hidden:,} earlier positions: {sum(weights[:hidden]):.1%} of attention)" if hidden else ""
        most = max(weights[hidden:]) or 1.0
        shown = zip(explanation.context[hidden:], weights[hidden:], strict=True)
        return Chips(
            [
                Chip(explanation.name(token), weight / most, f"{weight:.1%}" if weight else "")
                for token, weight in shown
            ],
            before,
        )

    def _name(self, token: int) -> str:
        return shorten(self.explanation.name(token))

    def _names(self, tokens: tuple[int, ...]) -> str:
        """The texts of the first tokens."""
        return _join_names(list(map(self._name, tokens[:PRINTED_ROWS])), len(tokens))

    def _path(self, beaten: Beaten) -> str:
        n_more = len(beaten.steps) - PATH_STEPS
        first = replace(beaten, steps=beaten.steps[:PATH_STEPS]).describe_edges(self._name)
        return first + (f"; and {n_more:,} more steps" if n_more > 0 else "")


def _by_theorem(explanation: Explanation) -> bool | None:
    """True if the theorem decides; None if a convention does."""
    return True if explanation.rule in THEOREM else None


def _falling(explanation: Explanation) -> list[tuple[int, float]]:
    """The tokens with positive probability, largest first."""
    return sorted(explanation.probabilities.items(), key=lambda item: -item[1])


def _equals(explanation: Explanation) -> list[str]:
    number = len(explanation.retrieved)
    equal = f"They are {number} components of equal hard score; no path orders them."
    return [equal] if number > 1 else []


def _left(explanation: Explanation, groups: str, unseen: str, unknown: str) -> list[str]:
    """Notes on tokens that were neither retrieved nor beaten, as text."""
    ignored = bool(explanation.unseen) and explanation.probabilities.keys().isdisjoint(explanation.unseen)
    lines = {
        f"No path decides against these, only their lower hard score: {groups}": bool(
            explanation.incomparable
        ),
        f"Ignored, without evidence under this query: {unseen}": ignored,
        f"Not in the vocabulary: {unknown}": bool(explanation.unknown),
    }
    return [line for line, applies in lines.items() if applies]


def _join_names(words: Sequence[str], number: int) -> str:
    """The first ``SHOWN`` words, and the number of the rest."""
    return " ".join(words[:PRINTED_ROWS]) + (
        f" and {number - PRINTED_ROWS:,} more" if number > PRINTED_ROWS else ""
    )


def explain_prediction(
    prediction: BatchPrediction,
    name: Callable[[int], str],
    unknown: tuple[str, ...],
    graph_of: Callable[[int], QueryGraph],
) -> Explanation:
    """The explanation of one context, a batch of one; ``name`` gives the text of tokens."""
    tokens, is_node = prediction.bags.token, prediction.is_node
    component = prediction.component[is_node]
    retrieved: list[int] = sorted(set(component[prediction.probabilities[is_node] > 0].tolist()))
    tokens_of = {
        number: tuple(tokens[is_node][component == number].tolist())
        for number in sorted(set(component.tolist()))
    }
    beaten: list[Beaten] = []
    incomparable = [number for number in tokens_of if number not in retrieved]
    if retrieved:
        order = QueryOrder(graph_of(int(prediction.bags.samples.queries[0])))
        searches = [order.search(top) for top in retrieved]
        below = [
            number for number in incomparable if all(reached[order.local(number)] for reached, _ in searches)
        ]
        evidence = order.evidence(searches[0][1], retrieved[0], below)
        context = set(tokens.tolist())
        beaten = [
            Beaten(tokens_of[number], tuple(_context_first(step, context) for step in steps))
            for number, steps in zip(below, evidence, strict=True)
        ]
        incomparable = [number for number in incomparable if number not in below]
    return Explanation(
        context=tuple(prediction.bags.samples.values.tolist()),
        rule=_rule(prediction, len(retrieved), bool(incomparable)),
        retrieved=tuple(tokens_of[number] for number in retrieved),
        probabilities=prediction.distribution(),
        beaten=tuple(beaten),
        incomparable=tuple(tokens_of[number] for number in incomparable),
        unseen=tuple(tokens[~is_node].tolist()),
        unknown=unknown,
        name=name,
    )


def _context_first(step: tuple[Edge, ...], context: set[int]) -> tuple[Edge, ...]:
    """The edges in the same order, but those with more of their two tokens in the context first."""
    return tuple(sorted(step, key=lambda edge: (edge.winner not in context) + (edge.loser not in context)))


def _rule(prediction: BatchPrediction, n_retrieved: int, has_incomparable: bool) -> Rule:
    if not n_retrieved:
        return Rule.NO_EVIDENCE
    if has_incomparable or n_retrieved > 1:
        return Rule.INCOMPARABLE
    return Rule.DETERMINED if prediction.is_node.all() else Rule.UNSEEN_IGNORED
