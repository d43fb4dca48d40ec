"""Explain why an automaton retrieves certain tokens: the rule, the tokens they beat, and the evidence."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.frames import Tabular
from attomaton.base.printing import Bar, Block, Grid, Signal
from attomaton.base.tables import table_of
from attomaton.graphs.paths import Edge, QueryGraph, QueryOrder

STEP_EDGES = 3  # maximum number of edges named per step

# The edges of each step of a path between components, from the retrieved component down.
Steps = tuple[tuple[Edge, ...], ...]


class Rule(Enum):
    """The rule that decided which tokens are retrieved; the value states the rule in words.

    Examples
    --------
    >>> Rule.INCOMPARABLE.words
    'incomparable'
    """

    DETERMINED = "one component precedes every other component of the context: the theorem decides"
    INCOMPARABLE = (
        "no component precedes all others: hard scores decide, and soft scores in a tie (no theorem)"
    )
    UNSEEN_IGNORED = (
        "tokens without evidence under this query get probability 0; the theorem decides among the others"
    )
    NO_EVIDENCE = "there is no evidence under this query, so every position has equal weight by convention"
    SCORED = "every token of the context has a finite score under this query: the softmax of these scores"
    UNSEEN_BACKGROUND = (
        "tokens without evidence under this query keep their background score, by convention (no theorem)"
    )
    BACKGROUND = "there is no evidence under this query, so background scores decide by convention"

    @property
    def words(self) -> str:
        """The name of the rule in lower case, with spaces: ``"no evidence"``."""
        return self.name.lower().replace("_", " ")


# Rules that follow from the theory; the others are conventions where it is silent.
THEOREM = (Rule.DETERMINED, Rule.UNSEEN_IGNORED)


@dataclass(frozen=True)
class Beaten:
    """A component of the context that the retrieved component precedes.

    ``tokens`` are its tokens in the context. ``steps`` is the path from the retrieved component down to this
    one. A step is a list of data edges: first those between tokens of the context, then those with the most
    support.
    """

    tokens: tuple[int, ...]
    steps: Steps

    @property
    def support(self) -> int:
        """The smallest support of a step of the path: its number of (sample, loser) pairs."""
        return min(sum(edge.support for edge in step) for step in self.steps)

    @property
    def path(self) -> str:
        """The length of the path as text."""
        return "direct" if len(self.steps) == 1 else f"{len(self.steps)} steps"

    def describe_edges(self, name: Callable[[int], str]) -> str:
        """The data edges of each step with the most support, as text; ``name`` gives the text of a token."""
        return "; then ".join(_describe_step(step, name) for step in self.steps)

    def to_dict(self, name: Callable[[int], Any]) -> dict[str, Any]:
        """The component as JSON values; an edge is (winner, loser, support)."""
        steps = [
            [[name(edge.winner), name(edge.loser), edge.support] for edge in step] for step in self.steps
        ]
        return {"tokens": [name(token) for token in self.tokens], "steps": steps}


def _describe_step(step: tuple[Edge, ...], name: Callable[[int], str]) -> str:
    edges = [f"{name(edge.winner)} → {name(edge.loser)} ×{edge.support}" for edge in step[:STEP_EDGES]]
    return ", ".join(edges) + (f" and {len(step) - STEP_EDGES} more" if len(step) > STEP_EDGES else "")


@dataclass(frozen=True)
class Explanation(Tabular):
    """The tokens that were retrieved from one context, and the reasons.

    ``context`` are the token ids of the context, the query last, and ``rule`` is the rule that decided.
    ``retrieved`` lists the retrieved components, each as its tokens in the context; several are retrieved
    only if their hard scores are equal. ``probabilities`` maps each retrieved token to the probability that
    it comes next. ``beaten`` are the components that every retrieved component precedes, with the evidence.
    ``incomparable`` lists the components that were not retrieved although no path orders them below every
    retrieved one. ``unseen`` are the tokens without evidence under the query: they are not in its graph.
    ``unknown`` are the words outside the vocabulary; their ids, which follow those of the vocabulary, are
    also in ``unseen``. ``name`` returns the text of a token id.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 2]], [0, 1], n_tokens=4))
    >>> auto.explain([3, 0, 1, 2]).probabilities, auto.explain([3, 0, 1, 2]).unseen
    ({0: 1.0}, (3,))
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

    @property
    def by_theorem(self) -> bool | None:
        """True if the theorem decides, None if a convention decides."""
        return True if self.rule in THEOREM else None

    @property
    def ranked(self) -> list[tuple[int, float]]:
        """The tokens with positive probability, most probable first."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])

    @property
    def written_lines(self) -> list[str]:
        """Sentences about the written tokens, if the head writes other tokens than it reads."""
        return []

    def _blocks(self) -> list[Block]:
        def names(tokens: tuple[int, ...]) -> str:
            return " ".join(map(self.name, tokens))

        retrieved = [(self.name(token), Bar(share, f"{share:.6f}")) for token, share in self.ranked]
        blocks: list[Block] = [
            f"Query: {self.name(self.query)}",
            Signal(f"Rule: {self.rule.words} ({self.rule.value})", self.by_theorem),
            Grid("Retrieved", ["token", "probability"], retrieved),
            *describe_ties(self),
        ]
        if self.beaten:
            beaten = [
                (names(below.tokens), below.path, below.support, below.describe_edges(self.name))
                for below in self.beaten
            ]
            blocks.append(Grid("It beat", ["tokens", "path", "support", "edges behind it"], beaten))
        incomparable = "; ".join(map(names, self.incomparable))
        return [*blocks, *describe_remaining(self, incomparable, names(self.unseen), " ".join(self.unknown))]

    def _table(self) -> pa.Table:
        times = Counter(self.context)
        outcomes = [
            ("retrieved", self.retrieved),
            ("beaten", [below.tokens for below in self.beaten]),
            ("incomparable", self.incomparable),
            ("unseen", [self.unseen]),
        ]
        outcome_of = {token: outcome for outcome, groups in outcomes for tokens in groups for token in tokens}
        # most probable first, then by id
        tokens = sorted(times, key=lambda token: (-self.probabilities.get(token, 0.0), token))
        return table_of(
            {
                "text": [self.name(token) for token in tokens],
                "times": [times[token] for token in tokens],
                "probability": [float(self.probabilities.get(token, 0.0)) for token in tokens],
                "became": [outcome_of.get(token, "scored") for token in tokens],
            }
        )

    def to_dict(self, name: Callable[[int], Any] = int) -> dict[str, Any]:
        """The explanation as JSON values; a token is ``name(id)``, such as ``explanation.name(id)``."""

        def names(tokens: tuple[int, ...]) -> list[Any]:
            return [name(token) for token in tokens]

        return {
            "context": names(self.context),
            "query": name(self.query),
            "rule": self.rule.name.lower(),
            "meaning": self.rule.value,
            "retrieved": [names(tokens) for tokens in self.retrieved],
            "probabilities": [[name(token), share] for token, share in self.probabilities.items()],
            "beaten": [beaten.to_dict(name) for beaten in self.beaten],
            "incomparable": [names(tokens) for tokens in self.incomparable],
            "unseen": names(self.unseen),
            "unknown": list(self.unknown),
        }


def describe_ties(explanation: Explanation) -> list[str]:
    """One sentence if the retrieved tokens are in several components; otherwise none."""
    n_retrieved = len(explanation.retrieved)
    sentence = (
        f"Tokens of {n_retrieved} components with equal hard scores are retrieved; no path orders them."
    )
    return [sentence] if n_retrieved > 1 else []


def describe_remaining(explanation: Explanation, incomparable: str, unseen: str, unknown: str) -> list[str]:
    """A sentence on each kind of tokens that are neither retrieved nor beaten, if there are any."""
    # The tokens are given as text: the incomparable ones, those without evidence, and the unknown words.
    sentences: list[str] = []
    if explanation.incomparable:
        sentences.append(
            f"Not retrieved because of a lower hard score, although no path orders them: {incomparable}"
        )
    if explanation.unseen and explanation.probabilities.keys().isdisjoint(explanation.unseen):
        sentences.append(f"Ignored because there is no evidence about them under this query: {unseen}")
    if explanation.unknown:
        sentences.append(f"Not in the vocabulary: {unknown}")
    return sentences


def explain_prediction(
    prediction: BatchPrediction,
    name: Callable[[int], str],
    unknown: tuple[str, ...],
    graph_of: Callable[[int], QueryGraph],
) -> Explanation:
    """Explain the prediction for one context; ``graph_of`` returns the graph of a query."""
    # `name` returns the text of a token id, and `unknown` are the words outside the vocabulary.
    tokens = prediction.bags.token
    is_node = prediction.is_node
    component = prediction.component[is_node]
    tokens_of = {
        number: tuple(tokens[is_node][component == number].tolist())
        for number in sorted(set(component.tolist()))
    }
    retrieved: list[int] = sorted(set(component[prediction.probabilities[is_node] > 0].tolist()))
    others = [number for number in tokens_of if number not in retrieved]
    steps_to: dict[int, Steps] = {}  # by beaten component
    if retrieved:
        graph = graph_of(int(prediction.bags.samples.queries[0]))
        steps_to = _find_beaten(graph, retrieved, others, set(tokens.tolist()))
    incomparable = [number for number in others if number not in steps_to]
    return Explanation(
        context=tuple(prediction.bags.samples.values.tolist()),
        rule=_find_rule(prediction, len(retrieved), bool(incomparable)),
        retrieved=tuple(tokens_of[number] for number in retrieved),
        probabilities=prediction.distribution(),
        beaten=tuple(Beaten(tokens_of[number], steps) for number, steps in steps_to.items()),
        incomparable=tuple(tokens_of[number] for number in incomparable),
        unseen=tuple(tokens[~is_node].tolist()),
        unknown=unknown,
        name=name,
    )


# Those of ``others`` that every retrieved component precedes, each with the steps of a path to it.
def _find_beaten(
    graph: QueryGraph, retrieved: list[int], others: list[int], context: set[int]
) -> dict[int, Steps]:
    order = QueryOrder(graph)
    # for each retrieved component: the components that it precedes, and those before them on a path
    reached, before = zip(*(order.search(top) for top in retrieved), strict=True)
    beaten = [number for number in others if all(is_reached[order.local(number)] for is_reached in reached)]
    # the path shown starts at the first retrieved component
    evidence = order.evidence(before[0], retrieved[0], beaten)
    return {
        number: tuple(_context_first(step, context) for step in steps)
        for number, steps in zip(beaten, evidence, strict=True)
    }


# The edges of a step, first those with both tokens in the context, then one, then none.
def _context_first(step: tuple[Edge, ...], context: set[int]) -> tuple[Edge, ...]:
    return tuple(sorted(step, key=lambda edge: (edge.winner not in context) + (edge.loser not in context)))


# The rule that decided, from the number of retrieved components.
def _find_rule(prediction: BatchPrediction, n_retrieved: int, has_incomparable: bool) -> Rule:
    if not n_retrieved:
        return Rule.NO_EVIDENCE
    if has_incomparable or n_retrieved > 1:
        return Rule.INCOMPARABLE
    return Rule.DETERMINED if prediction.is_node.all() else Rule.UNSEEN_IGNORED
