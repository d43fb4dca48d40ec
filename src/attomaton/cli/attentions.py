"""The attention that a command uses: the limit, training stopped at a step, or shrunken scores."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.base.errors import MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.base.options import show
from attomaton.cli.messages import print_error
from attomaton.cli.sources import CorpusOptions
from attomaton.cli.values import read_number, real, words

if TYPE_CHECKING:
    from attomaton.automaton.attention import Attention
    from attomaton.corpora.prompts import Context

StepOption = Annotated[
    float | None,
    real("Use attention after this number of training steps; requires --learned-from.", sign=">= 0", least=0),
]
Strength = Annotated[
    float | None,
    real(
        "Shrink the scores of each query towards those of all queries with this strength; requires "
        "--learned-from.",
        sign="> 0",
        above=0,
    ),
]
LearnedOption = Annotated[str | None, words("The corpus that RUN was learned from, for --step or --shrink.")]


def pick_attention(
    run: Any,
    corpus_options: CorpusOptions,
    corpus: str | None,
    *,
    step: float | None = None,
    strength: float | None = None,
) -> "Attention":
    from attomaton.automaton.automaton import Automaton
    from attomaton.automaton.ov_maps.load import load_attention
    from attomaton.graphs.origin import gives_edges

    # The attention of a run: in the limit, or after a number of steps, or shrunken with a strength. The last
    # two need the corpus of the run, which is checked to have the edges of the run.
    automaton = load_attention(run)
    if step is None and strength is None:
        if corpus is not None:
            raise UnsupportedOption("--learned-from works only with --step or --shrink; add one of them")
        return automaton
    if not isinstance(automaton, Automaton):
        raise UnsupportedOption("--step and --shrink do not work for a run of --writes; leave them out")
    if step is not None and strength is not None:
        raise UnsupportedOption("--step and --shrink cannot be combined; give only one of them")
    if corpus is None:
        raise UnsupportedOption(
            "--step and --shrink need the corpus of the run, which is not in the run folder; add "
            "--learned-from CORPUS"
        )
    samples = automaton.read(corpus, **corpus_options)
    edges = automaton.components.edges
    if samples.n_tokens > automaton.n_tokens or not gives_edges(samples, edges.rows):
        raise MismatchedParts(
            f"{corpus} does not have the {len(edges):,} edges of the run; give the corpus that the run was "
            "learned from, and a run that was learned without --queries, --sample-queries and --min-support"
        )
    if step is not None:
        return automaton.at(step, samples=samples)
    from attomaton.automaton.shrinkage import shrink

    shrunken = shrink(samples, strength=strength, vocabulary=automaton.vocabulary)
    return replace(shrunken, window=automaton.window)


def read_words(attention: "Attention", text: str) -> "Context":
    """The context in a text: the text itself, or its token ids if the run has no vocabulary."""
    if attention.vocabulary is not None:
        return text
    numbers = [read_number(word) for word in text.split()]
    wrong = [number for number in numbers if not isinstance(number, int)]
    if wrong:
        raise TokenOutOfRange(
            f"{show(wrong[0])} is not a token id, and this run has no vocabulary; give ids separated by "
            "spaces, such as '0 2 1'"
        )
    return numbers


def print_unknown(unknown: Sequence[str]) -> None:
    from attomaton.automaton.scoring import describe_unknown

    for line in describe_unknown(unknown):
        print_error(line)
