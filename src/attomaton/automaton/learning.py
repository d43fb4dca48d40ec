"""The whole path in one call: from a corpus to the automaton."""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from attomaton.automaton import compare
from attomaton.automaton.automaton import Automaton, fill_run
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.staged import Finished, learn_by_part
from attomaton.automaton.writing.automaton import WritingAutomaton, fill_writing
from attomaton.automaton.writing.learn import (
    check_corpus,
    check_engine as check_writing_engine,
    learn_writing,
)
from attomaton.automaton.writing.maps import Writes, check_asked, find_writing
from attomaton.base.artifacts import RUN, Building, build_folder, digest_arrays
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.errors import NothingRealisable, UnsupportedOption
from attomaton.base.options import given_path
from attomaton.base.progress import as_stages
from attomaton.base.remote import as_place
from attomaton.base.tables import Integers
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.readers.batches import Reading, asked_reading
from attomaton.corpora.readers.given import path_of
from attomaton.corpora.readers.sources import is_run
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import check_engine, make_engine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from attomaton.engines.source import check_reading, read_source, refuse_input_in
from attomaton.graphs.origin import check_training, describe_origin
from attomaton.solvers.solved import compile_beside, solve_edges

Source = str | PathLike[str] | Samples | Documents | TokenizedCorpus | Sequence[Any] | Any
"""What :func:`learn` reads: a path, glob or URL, samples, token ids, documents; a frame or dataset too."""


class LearnOptions(TypedDict, total=False):
    """The options of :func:`learn` beside ``writes``."""

    window: int
    tokenizer: str
    column: str | None
    documents: str | None
    reading: Reading | None
    engine: str
    embeddings: object
    min_support: int
    queries: Sequence[int] | Sequence[str] | int | None
    sample_queries: float
    max_window: int | None
    memory: str | int | None
    threads: int | None
    master: str | None
    out: str | PathLike[str] | None
    overwrite: bool
    progress: bool | Callable[[str], object]


@overload
def learn(
    source: Source, *, writes: Literal["identity"] | None = None, **options: Unpack[LearnOptions]
) -> Automaton: ...
@overload
def learn(
    source: Source,
    *,
    writes: Literal["successor", "identity+successor"] | Integers | Sequence[int] | Mapping[Any, Any],
    **options: Unpack[LearnOptions],
) -> WritingAutomaton: ...
def learn(
    source: Source,
    *,
    window: int = 32,
    tokenizer: str = "word",
    column: str | None = None,
    documents: str | None = None,
    reading: Reading | None = None,
    engine: str = "auto",
    embeddings: object = None,
    writes: Writes | None = None,
    min_support: int = 1,
    queries: Sequence[int] | Sequence[str] | int | None = None,
    sample_queries: float = 1.0,
    max_window: int | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
    master: str | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | Callable[[str], object] = False,
) -> Automaton | WritingAutomaton:
    """Compute what gradient descent makes of a self-attention layer trained on ``source``.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        A UTF-8 text file (one document), files of any kind that :func:`~attomaton.read_corpus` reads, a
        folder that :func:`~attomaton.tokenize_corpus` wrote or of Parquet shards with a column ``tokens``
        (one document a row), samples, one document as token ids, or a sequence of documents: texts, lists of
        tokens, lists of ids, records.
    window : int
        Longest context, in tokens. It is not used for samples, which have their contexts already.
    tokenizer : str
        ``"word"`` (white space, line end = ``<eos>``), ``"word-lower"`` (the same in small letters),
        ``"word-punct"`` (and punctuation by itself), ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. It is used for text only.
    column : str, optional
        The field or column that holds the documents; where it is not given, ``text`` in JSON, and found by
        its name and type in a table.
    documents : str, optional
        Whether a file of plain text is one document (``"file"``, the default) or has one on each line
        (``"line"``).
    reading : Reading, optional
        All that :class:`~attomaton.corpora.readers.Reading` says of how files are read: these two, their
        format, what is done with bad documents.
    engine : str
        ``"memory"``: everything in memory. ``"duckdb"``: over shards on disk, by parts of the queries, with
        bounded memory, resumable in ``out``. ``"spark"``: the same on local processors or a cluster.
        ``"auto"``: duckdb for a folder of shards that should not fit in memory, otherwise memory. The answer
        is the same to the last bit.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that dependent rows cannot tell apart are merged.
    writes : str, integers of shape (n_tokens,) or (n_ways, n_tokens), or mapping, optional
        What the head writes where it reads a token. None or ``"identity"``: the token itself.
        ``"successor"``: the token that most often follows it in this corpus. ``"identity+successor"``: either
        of both. Otherwise what each token writes, or a mapping of tokens to tokens, in which those that are
        missing write themselves. Where several tokens of a context write its label, which of them is read is
        a local optimum. Only in memory.
    min_support : int
        Edges that fewer samples show are left out.
    queries : sequence of int or str, or int, optional
        Only these queries; an int k keeps the k queries with the most realisable samples.
    sample_queries : float
        Only this share of the queries is kept, chosen by a hash of their ids; what is kept is exact.
    max_window : int, optional
        Contexts longer than this, also those of samples, lose their oldest tokens.
    memory : str or int, optional
        Memory that the duckdb engine or a local Spark may use, such as "2GB"; the default is 60 % of the
        machine's. One query is not divided: a very frequent one may need more.
    threads : int, optional
        How many the duckdb engine or a local Spark uses, and how many both solvers use; all processors if not
        given. With embeddings, numpy's linear algebra takes as many as its own settings say.
    master : str, optional
        Where Spark runs, such as ``"spark://host:7077"``; by default in the session that runs already, or on
        local processors.
    out : path, optional
        Where the run folder is written: a new or empty folder, that of an earlier run, or that of a training
        on the same samples, which stays. Unfinished work stands beside it until the run is whole. A URL such
        as ``s3://bucket/run`` is an object store: the run is made among this machine's temporary files, and
        sent when it is whole.
    overwrite : bool
        Whether an earlier run in ``out``, with its training, is replaced. Files that attomaton did not write
        are not touched.
    progress : bool or callable
        With True, the name of each stage is printed on stderr as it begins. A callable is called with the
        name instead; if it has a method ``advance``, that is called with how much of the stage is done and
        how much there is.

    Returns
    -------
    Automaton
        With ``.coverage``, ``.samples`` (for :meth:`Automaton.at`, if learned in memory) and, for text,
        ``.vocabulary``. What was learned part by part into ``out`` is open there and not in memory. With
        ``writes`` other than the identity, a
        :class:`~attomaton.automaton.writing.automaton.WritingAutomaton`, which answers contexts too, in the
        tokens that are written.

    Warns
    -----
    NothingRealisable
        If no label is in its context: the theory then says nothing about the corpus. The automaton has no
        edges, and answers every context by its back-off.

    Examples
    --------
    >>> auto = learn([0, 1, 0, 2, 0, 1, 0, 1], window=3)
    >>> auto.predict_proba([1, 0]).tolist()
    [0.0, 1.0, 0.0]
    >>> learn([0, 1, 0, 2, 0, 1, 0, 1], window=3, writes="successor").predict([1, 2])
    {0: 1.0}
    """
    asked_writes = check_asked(writes)
    if asked_writes is not None:
        check_writing_engine(engine)
    selection = Selection(window, max_window, min_support, sample_queries=sample_queries)
    on_disk = check_engine(engine, source, memory=memory, threads=threads, master=master)
    asked = asked_reading(reading, column=column, documents=documents)
    check_reading(tokenizer, queries)
    if out is not None and isinstance(as_place(out), Path):
        refuse_input_in(given_path(out, "out"), source)
    begin = as_stages(progress)
    with _workplace(out, overwrite, resumable=on_disk) as (work, building):
        begin("reading")
        corpus = read_source(
            source,
            window=selection.window,
            tokenizer=tokenizer,
            tokens=work / "tokens" if on_disk else None,
            reading=asked,
        )
        compile_beside(len(corpus.tokens) if isinstance(corpus.tokens, Samples) else 0)
        selection = replace(selection, **corpus.pick(queries))
        if asked_writes is not None:
            tokens = check_corpus(corpus.tokens)
            written = learn_writing(
                tokens,
                find_writing(asked_writes, tokens, corpus.vocabulary),
                selection,
                vocabulary=corpus.vocabulary,
                window=None if isinstance(source, Samples) else selection.reach,
                embeddings=embeddings,
                threads=threads,
                progress=begin,
            )
            made = {
                "documents": asked.documents,
                "writes": written.writing.name,
                "embeddings": _digest(embeddings),
            }
            about = {"input": corpus.about, "config": {**selection.to_dict(), **made}}
            return _finish_writing(written, about, building)
        passes = make_engine(
            engine,
            corpus.tokens,
            selection,
            work=work / "passes",
            memory=memory,
            threads=threads,
            master=master,
            progress=begin,
        )
        begin("extracting edges")
        edges = passes.edges()
        made = {"documents": asked.documents, "engine": engine, "embeddings": _digest(embeddings)}
        named = {name: one for name in ("column", "format") if (one := getattr(asked, name)) is not None}
        about = {"input": corpus.about, "config": {**selection.to_dict(), **made, **named}}
        if embeddings is None and not isinstance(passes, MemoryEngine):
            finished = learn_by_part(passes, edges, begin)
            automaton = _put_together(finished, corpus.vocabulary, about, building, work)
        else:
            solved = solve_edges(
                edges.load(), passes.choices, embeddings=embeddings, progress=begin, threads=threads
            )
            samples = corpus.samples(passes.kept, selection)
            longest = None if isinstance(source, Samples) else selection.reach
            parts = (solved.components, solved.hard, solved.soft, corpus.vocabulary, samples)
            automaton = Automaton(*parts, longest)
            if building is not None:
                begin("writing the run")
                origin = {} if samples is None else {"samples": describe_origin(samples)}
                fill_run(building, automaton, {**about, **origin})
    if automaton is None:
        automaton = Automaton.load(as_place(str(out)))
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=2)
    return automaton


def _finish_writing(
    automaton: WritingAutomaton, about: dict[str, Any], building: Building | None
) -> WritingAutomaton:
    """Write the run of a head that writes, if one is being built, and warn if it can write no label."""
    if building is not None:
        fill_writing(building, automaton, about)
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=3)
    return automaton


def _put_together(
    finished: Finished,
    vocabulary: Vocabulary | None,
    about: dict[str, Any],
    building: Building | None,
    work: Path,
) -> Automaton | None:
    """The run folder of finished parts, if one is being built; otherwise the automaton, read whole."""
    if building is not None:
        finished.fill(building, vocabulary, about)
        return None
    with build_folder(work / "run", RUN, OWNED, overwrite=False) as temporary:
        finished.fill(temporary, vocabulary, about)
    return Automaton.load(work / "run", whole=True)


def diff(a: Source, b: Source, **options: Any) -> compare.Difference:
    """Compare what two corpora say about every pair of tokens that either of them compares.

    Parameters
    ----------
    a, b : Automaton, run folder, or what :func:`learn` takes
        A corpus is learned from first; beside an automaton or a run, with its window and its tokenizer. If
        both have a vocabulary, tokens are matched by their text; if neither has, by their ids.
    **options
        For corpora, those of :func:`learn`.

    Returns
    -------
    Difference
        Pairs that only a path relates in both corpora are left out: an edge of either corpus names them.

    Examples
    --------
    >>> difference = diff(["a b a", "b a b"], ["a b b", "b b a b"])
    >>> difference
    Difference(1 of 2 pairs)
    """
    if "writes" in options or any(isinstance(one, WritingAutomaton) for one in (a, b)):
        raise UnsupportedOption(
            "diff compares what two heads read; learn both with writes, and give the reads of each"
        )
    known = [one if isinstance(one, Automaton) else _load_run(one) for one in (a, b)]
    learned = [
        _learn_beside(source, other, options) if one is None else one
        for source, one, other in zip((a, b), known, reversed(known), strict=True)
    ]
    return compare.diff(*learned)


def _load_run(source: Source) -> Automaton | None:
    """The automaton, if the source is the folder of a run."""
    folder = path_of(source) if isinstance(source, str | PathLike) else None
    return Automaton.load(folder) if folder is not None and is_run(folder) else None


def _learn_beside(source: Source, other: Automaton | None, options: dict[str, Any]) -> Automaton:
    """Learn from a corpus as the other was learned, in all that is not said."""
    asked = {name: value for name, value in options.items() if value is not None}
    if other is None:
        return learn(source, writes=None, **asked)
    if other.window is not None:
        asked.setdefault("window", other.window)
    if other.vocabulary is None or "tokenizer" in asked or isinstance(source, Samples | Documents):
        return learn(source, writes=None, **asked)
    given = {name: asked.pop(name, None) for name in ("column", "documents", "reading")}
    return learn(read_corpus(source, tokenizer=other.vocabulary, **given), writes=None, **asked)


@contextmanager
def _workplace(
    out: str | PathLike[str] | None, overwrite: bool, *, resumable: bool
) -> Generator[tuple[Path, Building | None]]:
    """Where an engine may work: in the folder that is being built, where a later run takes it up, if any."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
            yield Path(name), None
        return
    with build_at(out, RUN, OWNED, overwrite=overwrite, resumable=resumable) as building:
        work = building.folder / "work"
        yield work, building
        shutil.rmtree(work, ignore_errors=True)
        if not overwrite:
            check_training(building.folder, building.target)


def _digest(embeddings: object) -> str | None:
    return None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
