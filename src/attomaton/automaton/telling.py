"""What attention makes of one context: a picture for notebooks, a line of bars, and what commands print."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from attomaton.automaton.reasons import Beaten, ContextFacts, Rule
from attomaton.base.display import (
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
from attomaton.base.printing import Block, Grid

POSITIONS = 48
"""Positions of a context that are shown: the last ones."""

STEPS = 5
"""Steps of a path that are shown."""

BAR = 20
"""Signs of a full bar in a terminal."""

THEOREM = (Rule.DETERMINED, Rule.UNSEEN_IGNORED)
"""Rules that are the theory's answer; by the others we answer where it says nothing."""


@dataclass(frozen=True)
class Drawing:
    """One context and the names of its tokens, ready to be drawn."""

    told: ContextFacts
    name: Callable[[int], str]

    def text(self) -> str:
        """Few lines for a terminal: rule, context, chances as bars, what was beaten."""
        told = self.told
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

    def html(self) -> Html:
        """A card for a notebook."""
        told = self.told
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
        told = self.told
        times = Counter(told.context)
        weights = [told.probabilities.get(token, 0.0) / times[token] for token in told.context]
        hidden = len(weights) - POSITIONS
        before = (
            f"({hidden:,} earlier positions: {sum(weights[:hidden]):.1%} of attention)" if hidden > 0 else ""
        )
        return before, list(zip(told.context, weights, strict=True))[-POSITIONS:]

    def _chances(self) -> list[tuple[int, float]]:
        """The tokens that attention mixes, with their chances, largest first."""
        return sorted(self.told.probabilities.items(), key=lambda item: -item[1])

    def _beaten(self, name: Callable[[int], str]) -> list[tuple[str, str, int, str]]:
        """Tokens, path, support and edges of what was beaten first, tokens shown by ``name``."""
        return [
            (_join(one.tokens, name), one.path, one.support, _describe_path(one, name))
            for one in self.told.beaten[:SHOWN]
        ]

    def blocks(self) -> list[Block]:
        """What commands print: everything, in tables."""
        told, name = self.told, self.name
        rows = [(name(token), f"{chance:.6f}") for token, chance in self._chances()]
        blocks: list[Block] = [
            f"Query: {name(told.query)}",
            f"Rule: {told.rule.words} ({told.rule.value})",
            Grid("Retrieved", ["token", "probability"], rows),
        ]
        blocks += self._equals()
        if told.beaten:
            beaten = [
                (" ".join(map(name, one.tokens)), one.path, one.support, one.describe_edges(name))
                for one in told.beaten
            ]
            blocks.append(Grid("It beat", ["tokens", "path", "support", "edges behind it"], beaten))
        groups = "; ".join(" ".join(map(name, tokens)) for tokens in told.incomparable)
        return [*blocks, *self._left(groups, " ".join(map(name, told.unseen)), " ".join(told.unknown))]

    def _asides(self) -> list[str]:
        """What else there is to say, with lists cut short."""
        told = self.told
        groups = "; ".join(map(self._names, told.incomparable[:SHOWN]))
        groups += "; …" * (len(told.incomparable) > SHOWN)
        unknown = _join_words(list(map(shorten, told.unknown)))
        return [*self._equals(), *self._left(groups, self._names(told.unseen), unknown)]

    def _equals(self) -> list[str]:
        """That several components were retrieved, if so."""
        number = len(self.told.retrieved)
        equal = f"They are {number} components of equal hard score; no path orders them."
        return [equal] if number > 1 else []

    def _left(self, groups: str, unseen: str, unknown: str) -> list[str]:
        """What became of tokens that were neither retrieved nor beaten, given as text."""
        told = self.told
        ignored = bool(told.unseen) and told.probabilities.keys().isdisjoint(told.unseen)
        lines = {
            f"No path decides against these, only their lower hard score: {groups}": bool(told.incomparable),
            f"Ignored, without evidence under this query: {unseen}": ignored,
            f"Not in the vocabulary: {unknown}": bool(told.unknown),
        }
        return [line for line, applies in lines.items() if applies]


def tell_explanation(told: ContextFacts, name: Callable[[int], str]) -> list[Block]:
    """What commands print of a context."""
    return Drawing(told, name).blocks()


def draw_explanation(told: ContextFacts, name: Callable[[int], str]) -> Html:
    """A context as a card for notebooks."""
    return Drawing(told, name).html()


def _join_words(words: list[str]) -> str:
    rest = f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else ""
    return " ".join(words[:SHOWN]) + rest


def _join(tokens: tuple[int, ...], name: Callable[[int], str]) -> str:
    return _join_words([*map(name, tokens[:SHOWN]), *[""] * len(tokens[SHOWN:])])


def _describe_path(beaten: Beaten, name: Callable[[int], str]) -> str:
    rest = len(beaten.steps) - STEPS
    first = replace(beaten, steps=beaten.steps[:STEPS]).describe_edges(name)
    return first + (f"; and {rest:,} more steps" if rest > 0 else "")
