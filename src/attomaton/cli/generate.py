"""``attomaton generate``: continue a prompt with the tokens that attention draws."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli import attentions
from attomaton.cli.messages import print_error
from attomaton.cli.output import AsJson, Quiet, print_json, print_text
from attomaton.cli.sources import CorpusOptions, reads_beside_run
from attomaton.cli.values import run_argument, whole, words_argument

if TYPE_CHECKING:
    from attomaton.automaton.generation import Generation


@reads_beside_run
def generate(
    run: Annotated[Path, run_argument("Folder written by `attomaton learn --out`: a path or URL.")],
    prompt: Annotated[str, words_argument("Text to continue.")],
    corpus_options: CorpusOptions,
    n: Annotated[int, whole("Number of tokens to generate.", names=("--n", "-n"))] = 20,
    seed: Annotated[int, whole("Random seed.")] = 0,
    greedy: Annotated[
        bool,
        typer.Option("--greedy", help="Choose the most probable token each time instead of drawing one."),
    ] = False,
    window: Annotated[
        int | None, whole("Number of last tokens that attention sees; default: all.", least=1)
    ] = None,
    step: attentions.StepOption = None,
    shrink: attentions.Strength = None,
    learned_from: attentions.LearnedOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Continue PROMPT by N tokens, each drawn from the attention over the text so far.

    Attention retrieves only tokens of its context, so every generated token is in PROMPT.
    """
    attention = attentions.pick_attention(run, corpus_options, learned_from, step=step, strength=shrink)
    context = attentions.read_words(attention, prompt)
    written = attention.generate(context, n, seed=seed, greedy=greedy, window=window)
    if as_json:
        print_json(_generation_record(written))
        return
    print_text(written.text if quiet else str(written))
    attentions.print_unknown(written.unknown)
    if written.no_evidence and not quiet:
        print_error(
            f"{written.no_evidence:,} of {len(written.tokens):,} tokens were drawn without evidence, because "
            "the corpus teaches nothing about the token before them."
        )


def _generation_record(written: "Generation") -> dict[str, Any]:
    return {
        "prompt": [written.name(token) for token in written.prompt],
        "tokens": list(written.words),
        "text": written.text,
        "no_evidence": written.no_evidence,
        "unknown": list(written.unknown),
    }
