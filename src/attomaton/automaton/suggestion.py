"""A context to try an automaton on: one of its own corpus, written so that it is read back as it is."""

from collections.abc import Iterator

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.base.errors import AttomatonError
from attomaton.corpora.prompts import Names, read_context
from attomaton.corpora.tokenizers.encoders import EOS

N_TRIED = 200
"""Contexts of the corpus that are tried, spread over all of it."""

LONGEST, SHORTEST = 8, 3
"""Tokens of a context: more are not typed, fewer show little."""

MOST_CHARACTERS = 50
"""So that the command fits on a line of a terminal."""


def suggest_context(automaton: Automaton) -> str | None:
    """A context as text, or as ids where there is no vocabulary; None if none can be written.

    The best contexts are those that the theorem decides and in which several tokens are retrieved. Every
    context that comes back is read again as the same tokens by the automaton's own tokenizer.
    """
    best, found = -1, None
    for ids in _candidates(automaton):
        worth = _worth(automaton, ids)
        if worth > best and (text := _write(automaton, ids)) is not None:
            best, found = worth, text
        if best >= len(WORTHS):
            break
    return found


WORTHS = ("answered", "by the theorem", "with several tokens")
"""What makes a context worth trying, each more than the one before."""


def _worth(automaton: Automaton, ids: list[int]) -> int:
    """How many of ``WORTHS`` hold; a line end says little, so a context with one counts less."""
    explanation = automaton.explain(ids)
    worth = 0 if explanation.rule is Rule.BACK_OFF else 1
    if explanation.rule is Rule.DETERMINED and len(set(ids)) > 1:
        worth += 1 + (len(explanation.probabilities) > 1)
    return worth - (EOS in map(automaton.name, ids))


def _candidates(automaton: Automaton) -> Iterator[list[int]]:
    """Contexts of the corpus, cut to their last tokens; without a corpus, tokens that compete for a query."""
    samples = automaton.samples
    if samples is not None and len(samples):
        long_enough = np.flatnonzero(samples.lengths >= min(SHORTEST, int(samples.lengths.max())))
        for place in long_enough[np.linspace(0, len(long_enough) - 1, N_TRIED).astype(np.int64)].tolist():
            yield samples.values[samples.starts[place] : samples.stops[place]][-LONGEST:].tolist()
        return
    for one in automaton.coverage.largest:
        yield [*one.tokens[:2], one.query]
    tables = (part.components.edges for part in automaton.parts())
    edges = next((table for table in tables if len(table)), None)  # of a large run, the first part will do
    if edges is not None:
        for row in np.argsort(-edges["support"], kind="stable")[:N_TRIED].tolist():
            yield [int(edges[name][row]) for name in ("loser", "winner", "query")]


def _write(automaton: Automaton, ids: list[int]) -> str | None:
    """The text of a context, if a user can type it and it is read as the same tokens."""
    text = Names(automaton.vocabulary).join(ids)
    if len(text) > MOST_CHARACTERS or not text.isprintable():
        return None
    if automaton.vocabulary is None:
        return text
    try:
        again, names = read_context(text, automaton.n_tokens, automaton.vocabulary)
    except AttomatonError:
        return None
    return text if again.tolist() == ids and not names.unknown else None
