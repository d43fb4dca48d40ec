"""Suggest a context to try with ``attomaton explain``: from the corpus, as text that can be typed."""

from collections.abc import Iterator

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.base.errors import AttomatonError
from attomaton.corpora.prompts import Names, read_context
from attomaton.corpora.tokenizers.encoders import EOS

N_TRIED = 200  # contexts tried, spread over the corpus
LONGEST_SUGGESTION = 8  # tokens: more take long to type
SHORTEST = 3  # tokens: fewer show little
# All reasons to show a context: it is answered, the theorem decides it, several tokens are retrieved.
MOST_REASONS = 3

MOST_CHARACTERS = 50  # so that the command fits on a terminal line


def suggest_context(automaton: Automaton) -> str | None:
    """Choose a context that shows much, as text (ids without a vocabulary); None if none can be typed."""
    best = -2  # below every number of reasons
    suggested = None
    for ids in _candidates(automaton):
        n_reasons = _count_reasons(automaton, ids)
        if n_reasons > best and (text := _write_context(automaton, ids)) is not None:
            best, suggested = n_reasons, text
        if best == MOST_REASONS:
            break
    return suggested


def _count_reasons(automaton: Automaton, ids: list[int]) -> int:
    # the number of reasons to show a context, minus 1 if it crosses the end of a line
    explanation = automaton.explain(ids)
    n_reasons = 0 if explanation.rule is Rule.NO_EVIDENCE else 1
    if explanation.rule is Rule.DETERMINED and len(set(ids)) > 1:
        n_reasons += 1 + (len(explanation.probabilities) > 1)
    return n_reasons - (EOS in map(automaton.name, ids))


def _candidates(automaton: Automaton) -> Iterator[list[int]]:
    # the last tokens of training contexts; without samples, contexts made of ties and of strong edges
    samples = automaton.samples
    if samples is not None and len(samples):
        long_enough = np.flatnonzero(samples.lengths >= min(SHORTEST, int(samples.lengths.max())))
        for row in long_enough[np.linspace(0, len(long_enough) - 1, N_TRIED).astype(np.int64)].tolist():
            yield samples.values[samples.starts[row] : samples.stops[row]][-LONGEST_SUGGESTION:].tolist()
        return
    for component in automaton.coverage.largest:
        yield [*component.tokens[:2], component.query]
    by_partition = (partition.components.edges for partition in automaton.partitions())
    edges = next((edges for edges in by_partition if len(edges)), None)  # the first partition is enough
    if edges is not None:
        for row in np.argsort(-edges["support"], kind="stable")[:N_TRIED].tolist():
            yield [int(edges[name][row]) for name in ("loser", "winner", "query")]


def _write_context(automaton: Automaton, ids: list[int]) -> str | None:
    # the context as a short text that is read back as these ids; otherwise None
    text = Names(automaton.vocabulary).join(ids)
    if len(text) > MOST_CHARACTERS or not text.isprintable():
        return None
    if automaton.vocabulary is None:
        return text
    try:
        reread, names = read_context(text, automaton.n_tokens, automaton.vocabulary)
    except AttomatonError:
        return None
    return text if reread.tolist() == ids and not names.unknown else None
