"""Learn an automaton from a corpus in one call, with a step for each arrow in docs/architecture.md."""

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
# Sources of `learn`: a path, glob or URL, samples, token ids, documents, a frame or a dataset.
Source = str | PathLike[str] | Samples | Documents | TokenizedCorpus | Sequence[Any] | Any


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
        Anything that :func:`~attomaton.read_corpus` reads, a folder of Parquet shards with a column
        ``tokens``, or samples. A sequence of ids is one document. A sequence of texts, of lists of tokens, of
        lists of ids, or of records has one document in each element.
    window : int, optional
        The longest context, in tokens; by default that of ``keep``, or 32. Samples already have their
        contexts.
    tokenizer : str
        How to split text. ``"word"`` splits at white space, and a line end is the token ``<eos>``.
        ``"word-lower"`` does so in lower case, and ``"word-punct"`` also splits punctuation off. Others are
        ``"character"``, ``"byte"``, or the path of a ``tokenizer.json`` or ``.tiktoken`` file.
    embeddings : float array, shape (n_tokens, dim), optional
        The embedding of each token. None means orthonormal embeddings. Components that linearly dependent
        embeddings cannot separate are merged.
    keep : Selection, optional
        Which queries to keep, how many samples an edge needs, and how many last tokens of a context to keep.
        The results for what is kept are exact.
    reading : Reading, optional
        How to read files: their format, the column of the documents, whether each line of a text file is a
        document, and whether to skip bad documents.
    engine : str or Engine
        ``"memory"``; ``"duckdb"``, which works on disk with bounded memory and can resume in ``out``;
        ``"spark"``, which works on disk on local processors or a cluster; or ``"auto"``, which chooses duckdb
        if the corpus is too large for memory. All engines give equal results, to the last bit.
    out : path, optional
        The run folder to write, which may be in an object store, such as ``s3://bucket/run``. It must be new
        or empty, or contain only a training on the same samples, which stays.
    overwrite : bool
        Whether to replace an earlier run in ``out``, including its training.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable is called with the name of each stage, and
        its method ``advance``, if it has one, with the amount of work done and the total.

    Returns
    -------
    Automaton
        The automaton, with ``.coverage`` and, for text, ``.vocabulary``. If it was learned in memory, it also
        has ``.samples``, which :meth:`Automaton.at` needs. If it was learned on disk into ``out``, it is read
        from there on demand.

    Warns
    -----
    NothingRealisable
        If no sample has its label in its context, so that no prediction has evidence.

    Examples
    --------
    >>> learn([0, 1, 0, 2, 0, 1, 0, 1], window=3).predict_proba([1, 0]).tolist()
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
    """Return the automaton itself; warn if the theory does not apply to its corpus."""
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=3)
    return automaton
