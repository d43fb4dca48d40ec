"""Show an explanation as a line of coloured tokens with bars below, for ``auto.show(context)``."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attomaton.automaton.explanation import Beaten, Explanation, describe_remaining, describe_ties
from attomaton.base.printing import PRINTED_ROWS, Bar, Bars, Block, Chip, Chips, Printed, Signal, shorten

POSITIONS = 48  # last positions of a context that are shown
PATH_STEPS = 5  # steps of a path that are shown


@dataclass(frozen=True, repr=False)
class ContextView(Printed):
    """The attention on one context: its tokens in a row, and their probabilities as bars."""

    explanation: Explanation

    def __repr__(self) -> str:
        return str(self)

    def _blocks(self) -> list[Block]:
        explanation, name = self.explanation, self._name
        ranked = explanation.ranked
        bars = [(name(token), Bar(share, f"{share:.6f}")) for token, share in ranked[:PRINTED_ROWS]]
        beaten = [
            f"beats {self._names(below.tokens)}: {below.path}, support {below.support:,}: {self._path(below)}"
            for below in explanation.beaten
        ]
        incomparable = list(map(self._names, explanation.incomparable))
        groups = "; ".join(incomparable[:PRINTED_ROWS]) + "; …" * (len(incomparable) > PRINTED_ROWS)
        unknown = _join_names(list(map(shorten, explanation.unknown)))
        rule = f"query {name(explanation.query)}: {explanation.rule.words} ({explanation.rule.value})"
        return [
            Signal(rule, explanation.by_theorem),
            self._chips(),
            Bars(bars, max(len(name(token)) for token, _ in ranked)),
            *_count_hidden(ranked, indent="  "),
            *explanation.written_lines[:PRINTED_ROWS],
            *beaten[:PRINTED_ROWS],
            *_count_hidden(beaten),
            *describe_ties(explanation),
            *describe_remaining(explanation, groups, self._names(explanation.unseen), unknown),
        ]

    def _chips(self) -> Chips:
        explanation = self.explanation
        times = Counter(explanation.context)
        weights = [explanation.probabilities.get(token, 0.0) / times[token] for token in explanation.context]
        n_hidden = max(len(weights) - POSITIONS, 0)
        hidden_share = f"({n_hidden:,} earlier positions: {sum(weights[:n_hidden]):.1%} of attention)"
        largest = max(weights[n_hidden:]) or 1.0
        chips = [
            Chip(explanation.name(token), weight / largest, f"{weight:.1%}" if weight else "")
            for token, weight in zip(explanation.context[n_hidden:], weights[n_hidden:], strict=True)
        ]
        return Chips(chips, hidden_share if n_hidden else "")

    def _name(self, token: int) -> str:
        return shorten(self.explanation.name(token))

    def _names(self, tokens: tuple[int, ...]) -> str:
        return _join_names([self._name(token) for token in tokens])

    def _path(self, beaten: Beaten) -> str:
        n_more = len(beaten.steps) - PATH_STEPS
        shown = replace(beaten, steps=beaten.steps[:PATH_STEPS]).describe_edges(self._name)
        return shown + (f"; and {n_more:,} more steps" if n_more > 0 else "")


def _count_hidden(rows: Sequence[object], indent: str = "") -> list[str]:
    n_hidden = len(rows) - PRINTED_ROWS
    return [f"{indent}and {n_hidden:,} more"] if n_hidden > 0 else []


def _join_names(names: Sequence[str]) -> str:
    return " ".join([*names[:PRINTED_ROWS], *_count_hidden(names)])
