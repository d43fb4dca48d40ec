"""From samples and a map to the automaton of a head that writes what the map says."""

from dataclasses import replace

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.automaton.ov_maps.maps import Writing
from attomaton.automaton.ov_maps.settle import WritingProblem, settle
from attomaton.automaton.ov_maps.writers import count_writers, find_writers
from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Bool, Int64
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import Shards
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.memory import trim
from attomaton.engines.selection import Selection
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.writing import Reach


def check_corpus(tokens: Samples | Shards) -> Samples:
    """The samples of a corpus that is in memory; others are refused."""
    if isinstance(tokens, Shards):
        raise UnsupportedOption(
            "a head that writes is learned in memory, and this corpus is a folder of token shards; give the "
            "text, documents, token ids or samples"
        )
    return tokens


def solve_writing(
    samples: Samples,
    writing: Writing,
    selection: Selection,
    *,
    vocabulary: Vocabulary | None = None,
    window: int | None = None,
    embeddings: object = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> WritingAutomaton:
    """Learn what a head reads that writes something else.

    Where one key of a context writes the label, everything is as if that key were the label. Where several
    do, one of them is chosen (:func:`~attomaton.automaton.ov_maps.settle.settle`).
    """
    progress("finding what writes each label", 0, 0)
    whole = trim(samples, selection)
    keys = writing.read(whole)
    n_writers = count_writers(keys, writing)
    kept = _kept_queries(keys, n_writers, selection, writing.n_tokens)[whole.queries]
    whole, keys, n_writers = whole.take(kept), keys.take(kept), n_writers[kept]
    problem = WritingProblem(
        _label_alone(keys.take(n_writers == 1), writing),
        find_writers(keys.take(n_writers > 1), writing),
        keys.queries[n_writers == 0],
        selection.min_support,
        embeddings,
        threads,
    )
    chosen, settling = settle(problem, lambda stage: progress(stage, 0, 0))
    solved = problem.solve(chosen, progress)
    names = writing.name_keys(vocabulary)
    reads = Automaton(solved.components, solved.hard, solved.soft, names, None, window)
    return WritingAutomaton(reads, writing, _reach(whole, n_writers), settling, vocabulary, window)


def _label_alone(keys: Samples, writing: Writing) -> Samples:
    """Samples whose label one key writes, with that key as their label."""
    marked = find_writers(keys, writing)
    return replace(keys, labels=marked.bags.token[marked.mine])


def _kept_queries(keys: Samples, n_writers: Int64, selection: Selection, n_tokens: int) -> Bool:
    """Which queries are kept, shape (n_tokens,): a query counts the samples whose label can be written."""
    kept = selection.kept(n_tokens)
    reached = np.bincount(keys.queries[n_writers > 0], minlength=n_tokens)
    return selection.largest(kept, reached)


def _reach(samples: Samples, n_writers: Int64) -> Reach:
    inside, written = find_realisable(samples), n_writers > 0
    n = max(len(samples), 1)
    shares = (float(one.sum()) / n for one in (inside, written, inside | written))
    return Reach(len(samples), *shares)
