"""``attomaton explain``: which tokens are retrieved from a context, and why."""

from pathlib import Path
from typing import Annotated

from attomaton.cli.attentions import print_unknown, read_words
from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value
from attomaton.cli.values import run_argument, words_argument


def explain(
    run: Annotated[Path, run_argument("Folder written by `attomaton learn --out`: a path or URL.")],
    context: Annotated[str, words_argument("Text before the token to predict.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show which tokens of CONTEXT attention retrieves, with what probability, and why."""
    from attomaton.automaton.ov_maps.load import load_attention

    automaton = load_attention(run)
    explanation = automaton.explain(read_words(automaton, context))
    if as_json:
        print_json(explanation.to_dict(explanation.name))
    elif quiet:
        print_unknown(explanation.unknown)
        probabilities = getattr(explanation, "written", explanation.probabilities)
        name = getattr(explanation, "token_name", explanation.name)
        print_line(name(max(probabilities, key=probabilities.__getitem__)))
    else:
        print_value(explanation)
