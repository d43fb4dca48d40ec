"""One context, and what attention makes of it, as a picture for notebooks and as text for terminals."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from attomaton.automaton.explanation import Beaten, Explanation, Rule
from attomaton.display import (
    SHOWN,
    Bar,
    Chip,
    Html,
    Made,
    isolate,
    render_card,
    render_chips,
    render_note,
    render_status,
    render_table,
    shorten,
)

POSITIONS = 48
"""Positions of a context that are shown: the last ones."""

STEPS = 5
"""Steps of a path that are shown."""

BAR = 20
"""Signs of a full bar in a terminal."""

THEOREM = (Rule.DETERMINED, Rule.UNSEEN_IGNORED)
"""Rules that are the theory's answer; by the others we answer where it says nothing."""


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
        told = self.explanation
        before, positions = self._positions()
        words = [f"[{self._named(token)}]" if weight else self._named(token) for token, weight in positions]
        lines = [
            f"query {self._named(told.query)}: {told.rule.words} ({told.rule.value})",
            " ".join([before, *words] if before else words),
        ]
        chances = self._chances()
        width = max(len(self._named(token)) for token, _ in chances)
        lines += [
            f"  {self._named(token):{width}}  {chance:.6f}  {'#' * round(BAR * chance)}".rstrip()
            for token, chance in chances[:SHOWN]
        ]
        lines += [f"  and {len(chances) - SHOWN:,} more"] * (len(chances) > SHOWN)
        lines += [
            f"beats {tokens}: {path}, support {support:,}: {edges}"
            for tokens, path, support, edges in self._beaten(self._named)
        ]
        lines += [f"and {len(told.beaten) - SHOWN:,} more"] * (len(told.beaten) > SHOWN)
        return "\n".join([*lines, *self._asides()])

    def _repr_html_(self) -> Html:
        told = self.explanation
        before, positions = self._positions()
        last = len(positions) - 1
        most = max(weight for _, weight in positions) or 1.0
        chips = [
            Chip(self.name(token), weight / most, f"{weight:.1%}" if weight else "", framed=place == last)
            for place, (token, weight) in enumerate(positions)
        ]
        times = Counter(told.context)
        mixed = [
            (self._named(token), Bar(chance, f"{chance:.6f}"), f"{times[token]:,} ×")
            for token, chance in self._chances()
        ]
        parts = [
            render_status(told.rule.words, told.rule.value, good=None if told.rule not in THEOREM else True),
            render_chips(chips, before=before),
            render_table(["token", "chance to be next", "in the context"], mixed, title="Attention mixes"),
        ]
        if told.beaten:
            headers = ["tokens", "path", "support", "edges behind it"]
            rows = [
                (Made(Html(tokens)), path, support, Made(Html(edges)))
                for tokens, path, support, edges in self._beaten(lambda token: isolate(self.name(token)))
            ]
            parts.append(render_table(headers, rows, title="It beat", n_rows=len(told.beaten)))
        return render_card(f"Query: {self._named(told.query)}", *parts, *map(render_note, self._asides()))

    def _named(self, token: int) -> str:
        return shorten(self.name(token))

    def _names(self, tokens: tuple[int, ...]) -> str:
        return _join(tokens, self._named)

    def _positions(self) -> tuple[str, list[tuple[int, float]]]:
        """What is left out at the start, in words, and the token and attention of each position shown."""
        told = self.explanation
        times = Counter(told.context)
        weights = [told.probabilities.get(token, 0.0) / times[token] for token in told.context]
        hidden = len(weights) - POSITIONS
        before = (
            f"({hidden:,} earlier positions: {sum(weights[:hidden]):.1%} of attention)" if hidden > 0 else ""
        )
        return before, list(zip(told.context, weights, strict=True))[-POSITIONS:]

    def _chances(self) -> list[tuple[int, float]]:
        """The tokens that attention mixes, with their chances, largest first."""
        return sorted(self.explanation.probabilities.items(), key=lambda item: -item[1])

    def _beaten(self, name: Callable[[int], str]) -> list[tuple[str, str, int, str]]:
        """Tokens, path, support and edges of what was beaten first, tokens shown by ``name``."""
        return [
            (_join(one.tokens, name), one.path, one.support, _describe_path(one, name))
            for one in self.explanation.beaten[:SHOWN]
        ]

    def _asides(self) -> list[str]:
        """What else there is to say."""
        told = self.explanation
        lines: list[str] = []
        if len(told.retrieved) > 1:
            lines.append(
                f"They are {len(told.retrieved)} components of equal hard score; no path orders them."
            )
        if told.incomparable:
            groups = "; ".join(map(self._names, told.incomparable[:SHOWN]))
            rest = "; …" * (len(told.incomparable) > SHOWN)
            lines.append(f"No path decides against these, only their lower hard score: {groups}{rest}")
        if told.unseen and told.probabilities.keys().isdisjoint(told.unseen):
            lines.append(f"Ignored, without evidence under this query: {self._names(told.unseen)}")
        return lines


def _join(tokens: tuple[int, ...], name: Callable[[int], str]) -> str:
    rest = f" and {len(tokens) - SHOWN:,} more" if len(tokens) > SHOWN else ""
    return " ".join(map(name, tokens[:SHOWN])) + rest


def _describe_path(beaten: Beaten, name: Callable[[int], str]) -> str:
    rest = len(beaten.steps) - STEPS
    first = replace(beaten, steps=beaten.steps[:STEPS]).describe_edges(name)
    return first + (f"; and {rest:,} more steps" if rest > 0 else "")
