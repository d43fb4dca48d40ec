"""From a corpus to the automaton in one call: one step per arrow of the picture in docs/architecture.md."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from attomaton.automaton.automaton import Automaton, write_automaton
from attomaton.automaton.building import build_run, check_run_target, describe_run
from attomaton.base.borders import trusted
from attomaton.base.errors import NothingRealisable
from attomaton.base.progress import as_stages
from attomaton.base.remote import as_path
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.engines.choose import Engine, as_engine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection, select
from attomaton.engines.source import check_tokenizer, read_source, size_of_text
from attomaton.graphs.partitions import keep_ties
from attomaton.solvers.solved import find_partitions, solve_hard, solve_soft

if TYPE_CHECKING:
    from attomaton.automaton.ov_maps.automaton import WritingAutomaton

AnyAutomaton = TypeVar("AnyAutomaton", Automaton, "WritingAutomaton")
Source = str | PathLike[str] | Samples | Documents | TokenizedCorpus | Sequence[Any] | Any
"""Sources for :func:`learn`: a path, glob or URL, samples, token ids, documents, a frame or dataset."""


def learn(
    source: Source,
    *,
    window: int | None = None,
    tokenizer: str = "word",
    embeddings: object = None,
    keep: Selection | None = None,
    reading: Reading | None = None,
    engine: str | Engine = "auto",
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | Callable[[str], object] = False,
) -> Automaton:
    """Compute the limit of a self-attention layer under gradient descent on ``source``.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        Anything that :func:`~attomaton.read_corpus` reads, a folder written by
        :func:`~attomaton.tokenize_corpus` or of Parquet shards with a column ``tokens``, samples, one
        document as token ids, or a sequence of documents: texts, lists of tokens, lists of ids, records.
    window : int, optional
        Longest context, in tokens: 32 unless this or ``keep`` sets it. Samples already have their contexts.
    tokenizer : str
        ``"word"`` (white space, line end = ``<eos>``), ``"word-lower"`` (the same in lower case),
        ``"word-punct"`` (with punctuation split off), ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. It applies only to text.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that linearly dependent rows cannot separate are merged.
    keep : Selection, optional
        What to keep of the corpus: some queries, edges with enough samples, the last tokens of long contexts.
        Results for what is kept are exact.
    reading : Reading, optional
        How to read files: their format, the column of the documents, whether a text file or each of its lines
        is a document, and whether bad documents are skipped.
    engine : str or Engine
        ``"memory"``; ``"duckdb"``: on disk, with bounded memory, resumable in ``out``; ``"spark"``: on disk,
        with local processors or a cluster; ``"auto"``: duckdb for a corpus too large for memory, otherwise
        memory. The results are equal to the last bit.
    out : path, optional
        The run folder to write: new, empty, or with a training on the same samples, which is kept. It may be
        in an object store, such as ``s3://bucket/run``.
    overwrite : bool
        Whether to replace an earlier run in ``out``, including its training.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable is called with that name. If it has a method
        ``advance``, the method is called with the finished and the total amount of work in the stage.

    Returns
    -------
    Automaton
        With ``.coverage``, ``.samples`` (for :meth:`Automaton.at`, if learned in memory) and, for text,
        ``.vocabulary``. A run learned on disk into ``out`` is read from there on demand.

    Warns
    -----
    NothingRealisable
        If no label is in its context: then no prediction has evidence.

    Examples
    --------
    >>> auto = learn([0, 1, 0, 2, 0, 1, 0, 1], window=3)
    >>> auto.predict_proba([1, 0]).tolist()
    [0.0, 1.0, 0.0]
    """
    settings, stages = as_engine(engine, source), as_stages(progress)
    selection, options = select(keep, window), as_reading(reading)
    check_tokenizer(tokenizer)
    if out is not None:
        check_run_target(out, source, overwrite=overwrite)
    describe = partial(describe_run, reading=options, embeddings=embeddings, engine=settings.name)
    stages("reading")
    read = partial(read_source, source, selection, tokenizer=tokenizer, reading=options)
    corpus = read() if settings.reads_text_in_memory(partial(size_of_text, source, options)) else None
    if corpus is None or not settings.in_memory(corpus.tokens):
        from attomaton.automaton.on_disk import learn_on_disk

        build = (
            partial(build_run, out, overwrite=overwrite, resumable=settings.on_disk) if out else nullcontext
        )
        automaton = learn_on_disk(settings, corpus or read, build, describe, embeddings, stages)
        return warn_if_nothing_realisable(automaton or Automaton.load(as_path(str(out))))
    passes = MemoryEngine(corpus.tokens, corpus.selection, settings.threads)
    stages("extracting edges")
    edges = passes.edges()
    stages("finding components")
    partitions = find_partitions(edges, embeddings, settings.threads)
    stages("solving the hard side")
    hard = solve_hard(partitions, edges, embeddings, settings.threads)
    stages("extracting choices")
    choices = passes.choices(keep_ties(hard.components))
    stages("solving the soft side")
    soft = solve_soft(partitions, choices, hard.components, embeddings, settings.threads)
    automaton = trusted(
        Automaton,
        components=hard.components,
        hard=hard,
        soft=soft,
        vocabulary=corpus.vocabulary,
        samples=passes.samples,
        window=corpus.window,
    )
    if out is not None:
        stages("writing the run")
        with build_run(out, overwrite=overwrite) as building:
            write_automaton(building, automaton, describe(corpus, automaton, threads=settings.threads))
    return warn_if_nothing_realisable(automaton)


def warn_if_nothing_realisable(automaton: AnyAutomaton) -> AnyAutomaton:
    """The automaton itself; warns if the theory does not apply to the corpus."""
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=3)
    return automaton
