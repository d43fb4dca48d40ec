"""``attomaton explain``: what is retrieved from a context, and why."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table
from attomaton.cli.values import place_argument, words_argument

if TYPE_CHECKING:
    from attomaton.automaton.explanation import Explanation


def explain(
    run: Annotated[Path, place_argument("A folder written by `attomaton learn --out`.")],
    context: Annotated[str, words_argument("The text before the token to predict.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which tokens of CONTEXT attention retrieves, why, and with what probabilities."""
    from attomaton.automaton.automaton import Automaton

    automaton = Automaton.load(run)
    explanation = automaton.explain(context)
    name = automaton.name
    if as_json:
        print_json(explanation.to_dict(name))
    elif quiet:
        print_line(name(max(explanation.probabilities, key=explanation.probabilities.__getitem__)))
    else:
        _print_explanation(explanation, name)


def _print_explanation(explanation: "Explanation", name: Callable[[int], str]) -> None:
    print_line(f"Query: {name(explanation.query)}")
    print_line(f"Rule: {explanation.rule.words} ({explanation.rule.value})")
    by_chance = sorted(explanation.probabilities.items(), key=lambda item: -item[1])
    print_table("Retrieved", ["token", "probability"], [(name(token), f"{p:.6f}") for token, p in by_chance])
    if len(explanation.retrieved) > 1:
        print_line(
            f"They are {len(explanation.retrieved)} components of equal hard score; no path orders them."
        )
    if explanation.beaten:
        rows = [
            (" ".join(map(name, one.tokens)), one.path, one.support, one.describe_edges(name))
            for one in explanation.beaten
        ]
        print_table("It beat", ["tokens", "path", "support", "edges behind it"], list(rows))
    if explanation.incomparable:
        groups = "; ".join(" ".join(map(name, tokens)) for tokens in explanation.incomparable)
        print_line(f"No path decides against these, only their lower hard score: {groups}")
    if explanation.unseen and explanation.probabilities.keys().isdisjoint(explanation.unseen):
        print_line(f"Ignored, without evidence under this query: {' '.join(map(name, explanation.unseen))}")
