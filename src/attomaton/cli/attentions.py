"""Which attention of a run answers: the limit, training stopped at a step, or shrunken scores."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.cli.sources import How
from attomaton.cli.values import real, words

if TYPE_CHECKING:
    from attomaton.automaton.attention import Attention
    from attomaton.automaton.automaton import Automaton
    from attomaton.corpora.samples import Samples

Step = Annotated[
    float | None,
    real("Take attention after this number of steps of training; needs --learned-from.", least=0),
]
Strength = Annotated[
    float | None,
    real("Take scores shrunken with this strength; needs --learned-from.", above=0),
]
Learned = Annotated[
    str | None,
    words("The corpus that RUN was learned from, for --step and --shrink: a run does not hold it."),
]


def pick_attention(
    run: Any, how: How, corpus: str | None, *, step: float | None = None, strength: float | None = None
) -> "Attention":
    """The limit, or what these options ask for; the corpus must be the one that the run was learned from."""
    from attomaton.automaton.automaton import Automaton
    from attomaton.automaton.writing.load import load_attention

    automaton = load_attention(run)
    if step is None and strength is None:
        if corpus is not None:
            raise UnsupportedOption("--learned-from is for --step and --shrink; give one of them too")
        return automaton
    if not isinstance(automaton, Automaton):
        raise UnsupportedOption(
            "the run writes other tokens than it reads, of which only the limit is known; leave out --step "
            "and --shrink"
        )
    if step is not None and strength is not None:
        raise UnsupportedOption("--step and --shrink are two ways to finite scores; give one of them")
    if corpus is None:
        raise UnsupportedOption(
            "a run folder does not hold its samples; name the corpus that it was learned from: "
            "--learned-from CORPUS"
        )
    samples = _read_again(automaton, corpus, how)
    if step is not None:
        return automaton.at(step, samples=samples)
    from attomaton.automaton.shrinkage import shrink

    shrunken = shrink(samples, strength=strength, vocabulary=automaton.vocabulary)
    return replace(shrunken, window=automaton.window)


def _read_again(automaton: "Automaton", corpus: str, how: How) -> "Samples":
    """The samples of the corpus, if they give the very edges that the run holds."""
    from attomaton.graphs.origin import gives_edges

    samples = automaton.read(corpus, tokenizer=how.tokenizer, reading=how.reading)
    known = automaton.components.edges
    if samples.n_tokens > automaton.n_tokens or not gives_edges(samples, known.rows):
        raise MismatchedParts(
            f"{corpus} gives other edges than the {len(known):,} that the run holds; give the corpus that it "
            "was learned from, read in the same way, and a run that keeps all its queries and edges"
        )
    return samples
