"""Learn, from a corpus, the automaton of a head that writes other tokens than it reads."""

from collections.abc import Callable
from os import PathLike

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.building import build_run, check_run_target, describe_run
from attomaton.automaton.learning import Source, warn_if_nothing_realisable
from attomaton.automaton.ov_maps.automaton import WritingAutomaton, fill_writing
from attomaton.automaton.ov_maps.maps import Writes, Writing, check_named, find_writing
from attomaton.automaton.ov_maps.settle import WritingProblem, settle_choice
from attomaton.automaton.ov_maps.writers import count_writers, find_writers
from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import Progress, as_stages, silent
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.memory import trim
from attomaton.engines.selection import Selection, select
from attomaton.engines.source import check_tokenizer, read_source
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.writing import Reach


def learn_writing(
    source: Source,
    writes: Writes,
    *,
    window: int | None = None,
    tokenizer: str = "word",
    embeddings: object = None,
    keep: Selection | None = None,
    reading: Reading | None = None,
    threads: int | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | Callable[[str], object] = False,
) -> WritingAutomaton:
    """Learn, in memory, the automaton of a head that writes other tokens than it reads.

    If several tokens of a context write the label, the choice among them is a local optimum. If no token of
    any context writes the label, ``NothingRealisable`` warns. :func:`~attomaton.automaton.load_attention`
    opens the run.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        A source of :func:`learn`, except shards.
    writes : str, integers of shape (n_tokens,) or (n_ways, n_tokens), or mapping
        The token that the head writes where it reads a token. ``"identity"`` is the token itself;
        ``"successor"`` is the token that most often follows it in this corpus; ``"identity+successor"`` is
        either of these. An array has the token that each token writes. A mapping maps tokens to tokens; a
        token missing from it is mapped to itself.
    window, tokenizer, embeddings, keep, reading
        Options of :func:`learn`.
    threads : int, optional
        The number of threads of the solvers; by default, one for each processor.
    out, overwrite, progress
        Options of :func:`learn`.

    Examples
    --------
    >>> learn_writing([0, 1, 0, 2, 0, 1, 0, 1], "successor", window=3).predict([1, 2])
    {0: 1.0}
    """
    checked, stages = check_named(writes), as_stages(progress)
    selection, options = select(keep, window), as_reading(reading)
    check_tokenizer(tokenizer)
    if out is not None:
        check_run_target(out, source, overwrite=overwrite)
    stages("reading")
    corpus = read_source(source, selection, tokenizer=tokenizer, reading=options)
    if not isinstance(corpus.tokens, Samples):
        raise UnsupportedOption(
            "learn_writing needs a corpus in memory, and this corpus is a folder of token shards; give "
            "text, documents, token ids or samples"
        )
    automaton = solve_writing(
        corpus.tokens,
        find_writing(checked, corpus.tokens, corpus.vocabulary),
        corpus.selection,
        vocabulary=corpus.vocabulary,
        window=corpus.window,
        embeddings=embeddings,
        threads=threads,
        progress=stages,
    )
    if out is not None:
        about = describe_run(corpus, reading=options, embeddings=embeddings, writes=automaton.writing.name)
        with build_run(out, overwrite=overwrite) as building:
            fill_writing(building, automaton, about)
    return warn_if_nothing_realisable(automaton)


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
    progress("finding the tokens that write each label", 0, 0)
    trimmed = trim(samples, selection)
    keys = writing.read(trimmed)
    n_writers = count_writers(keys, writing)
    # keep the queries with the most samples whose label can be written
    n_written_by_query = np.bincount(trimmed.queries[n_writers > 0], minlength=writing.n_tokens)
    selected = selection.largest(selection.selected(writing.n_tokens), n_written_by_query)[trimmed.queries]
    trimmed, keys, n_writers = trimmed.take(selected), keys.take(selected), n_writers[selected]
    # one writer: it is the label; several: one of them is chosen; none: the sample is only counted
    one_writer = find_writers(keys.take(n_writers == 1), writing)
    problem = WritingProblem(
        alone=one_writer.label(one_writer.bags.token[one_writer.writes]),
        several=find_writers(keys.take(n_writers > 1), writing),
        lost=trimmed.queries[n_writers == 0],
        min_support=selection.min_support,
        embeddings=embeddings,
        threads=threads,
    )
    chosen, settling = settle_choice(problem, lambda stage: progress(stage, 0, 0))
    solved = problem.solve(chosen, progress)
    names = writing.name_keys(vocabulary)
    reads = Automaton(solved.components, solved.hard, solved.soft, vocabulary=names, window=window)
    reach = Reach.from_masks(find_realisable(trimmed), n_writers > 0)
    return WritingAutomaton(reads, writing, reach, settling, vocabulary, window)
