"""The whole path in one call: from a corpus to the automaton."""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton import compare
from attomaton.automaton.automaton import Automaton, fill_run
from attomaton.automaton.ov_maps.automaton import WritingAutomaton, fill_writing
from attomaton.automaton.ov_maps.maps import Writes, check_named, find_writing
from attomaton.automaton.ov_maps.solve import check_corpus, solve_writing
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.staged import Finished, learn_by_part
from attomaton.base.artifacts import RUN, Building, build_folder, digest_arrays
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.errors import NothingRealisable, UnsupportedOption
from attomaton.base.options import given_path, show
from attomaton.base.progress import as_stages
from attomaton.base.remote import as_place
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.readers.corpus import WINDOW, path_of
from attomaton.corpora.readers.sources import is_run
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import Engine, as_engine, make_engine
from attomaton.engines.memory import MemoryEngine
from attomaton.engines.selection import Selection
from attomaton.engines.source import Corpus, check_tokenizer, read_source, refuse_input_in
from attomaton.graphs.origin import check_training, describe_origin
from attomaton.solvers.solved import compile_beside, solve_edges

Source = str | PathLike[str] | Samples | Documents | TokenizedCorpus | Sequence[Any] | Any
"""What :func:`learn` reads: a path, glob or URL, samples, token ids, documents; a frame or dataset too."""


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
    """Compute what gradient descent makes of a self-attention layer trained on ``source``.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        A UTF-8 text file (one document), files of any kind that :func:`~attomaton.read_corpus` reads, a
        folder that :func:`~attomaton.tokenize_corpus` wrote or of Parquet shards with a column ``tokens``
        (one document a row), samples, one document as token ids, or a sequence of documents: texts, lists of
        tokens, lists of ids, records.
    window : int, optional
        Longest context, in tokens: 32 if neither this nor ``keep`` says otherwise. It is not used for
        samples, which have their contexts already.
    tokenizer : str
        ``"word"`` (white space, line end = ``<eos>``), ``"word-lower"`` (the same in small letters),
        ``"word-punct"`` (and punctuation by itself), ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. It is used for text only.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that dependent rows cannot tell apart are merged.
    keep : Selection, optional
        What is kept of the corpus: some queries, edges that enough samples show, the last tokens of long
        contexts. What is kept is exact.
    reading : Reading, optional
        How files are read: their format, the column of the documents, what is one document in plain text,
        what is done with bad ones.
    engine : str or Engine
        ``"memory"``: everything in memory. ``"duckdb"``: over shards on disk, by parts of the queries, with
        bounded memory, resumable in ``out``. ``"spark"``: the same on local processors or a cluster.
        ``"auto"``: duckdb for a folder of shards that should not fit in memory, otherwise memory. An
        :class:`~attomaton.engines.Engine` also says how much memory and how many threads it may use. The
        answer is the same to the last bit.
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
        ``.vocabulary``. What was learned part by part into ``out`` is open there and not in memory.

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
    """
    how, asked = as_engine(engine, source), as_reading(reading)
    selection = _select(keep, window)
    check_tokenizer(tokenizer)
    _refuse_input(out, source)
    begin = as_stages(progress)
    with _workplace(out, overwrite, resumable=how.on_disk) as (work, building):
        begin("reading")
        tokens = work / "tokens" if how.on_disk else None
        corpus = read_source(
            source, window=selection.window, tokenizer=tokenizer, tokens=tokens, reading=asked
        )
        compile_beside(len(corpus.tokens) if isinstance(corpus.tokens, Samples) else 0)
        selection = selection.with_ids(corpus.vocabulary)
        passes = make_engine(how, corpus.tokens, selection, work=work / "passes", progress=begin)
        begin("extracting edges")
        edges = passes.edges()
        about = _describe(corpus, selection, asked, embeddings, engine=how.name)
        if embeddings is None and not isinstance(passes, MemoryEngine):
            finished = learn_by_part(passes, edges, begin)
            automaton = _put_together(finished, corpus.vocabulary, about, building, work)
        else:
            solved = solve_edges(
                edges.load(), passes.choices, embeddings=embeddings, progress=begin, threads=how.threads
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
    """Learn a head that writes something else than the token it reads; everything is in memory.

    Where several tokens of a context write its label, which of them is read is a local optimum.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        As in :func:`learn`, but no shards.
    writes : str, integers of shape (n_tokens,) or (n_ways, n_tokens), or mapping
        What the head writes where it reads a token. ``"successor"``: the token that most often follows it in
        this corpus. ``"identity+successor"``: that, or the token itself. ``"identity"``: the token itself.
        Otherwise what each token writes, or a mapping of tokens to tokens, in which those that are missing
        write themselves.
    window, tokenizer, embeddings, keep, reading
        As in :func:`learn`.
    threads : int, optional
        How many the solvers use; all processors if not given.
    out, overwrite, progress
        As in :func:`learn`.

    Returns
    -------
    WritingAutomaton
        It answers contexts in the tokens that are written. :func:`~attomaton.automaton.load_attention`
        opens its run.

    Warns
    -----
    NothingRealisable
        If no label can be written.

    Examples
    --------
    >>> learn_writing([0, 1, 0, 2, 0, 1, 0, 1], "successor", window=3).predict([1, 2])
    {0: 1.0}
    """
    checked, asked, selection = check_named(writes), as_reading(reading), _select(keep, window)
    check_tokenizer(tokenizer)
    _refuse_input(out, source)
    begin = as_stages(progress)
    with _workplace(out, overwrite, resumable=False) as (_, building):
        begin("reading")
        corpus = read_source(source, window=selection.window, tokenizer=tokenizer, tokens=None, reading=asked)
        tokens = check_corpus(corpus.tokens)
        compile_beside(len(tokens))
        selection = selection.with_ids(corpus.vocabulary)
        automaton = solve_writing(
            tokens,
            find_writing(checked, tokens, corpus.vocabulary),
            selection,
            vocabulary=corpus.vocabulary,
            window=None if isinstance(source, Samples) else selection.reach,
            embeddings=embeddings,
            threads=threads,
            progress=begin,
        )
        if building is not None:
            about = _describe(corpus, selection, asked, embeddings, writes=automaton.writing.name)
            fill_writing(building, automaton, about)
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=2)
    return automaton


def _select(keep: Selection | None, window: int | None) -> Selection:
    """What is kept, with the window that is given by itself."""
    given: Any = keep
    if given is not None and not isinstance(given, Selection):
        raise UnsupportedOption(f"keep is {type(given).__name__}; give attomaton.Selection(…)")
    selection = Selection() if keep is None else keep
    if window is not None and selection.window not in (window, WINDOW):
        raise UnsupportedOption(
            f"window is {show(window)} and keep has a window of {selection.window}; give one of them"
        )
    return selection if window is None else replace(selection, window=window)


def _refuse_input(out: str | PathLike[str] | None, source: Source) -> None:
    """Never write a run to the folder that holds its corpus."""
    if out is not None and isinstance(as_place(out), Path):
        refuse_input_in(given_path(out, "out"), source)


def _describe(
    corpus: Corpus, selection: Selection, reading: Reading, embeddings: object, **more: str
) -> dict[str, Any]:
    """What the manifest of a run says about how it was learned."""
    named = {name: one for name in ("column", "format") if (one := getattr(reading, name)) is not None}
    digest = None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
    made = {"documents": reading.documents, **more, "embeddings": digest, **named}
    return {"input": corpus.about, "config": {**selection.to_dict(), **made}}


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
    if "out" in options or "overwrite" in options:
        raise UnsupportedOption("diff writes no run; learn both corpora into folders, and give these")
    if any(isinstance(one, WritingAutomaton) for one in (a, b)):
        raise UnsupportedOption("diff compares what two heads read; give the reads of each head that writes")
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
        return learn(source, **asked)
    keep = asked.get("keep")
    if other.window is not None and (keep is None or keep.window == WINDOW):
        asked.setdefault("window", other.window)
    if other.vocabulary is None or "tokenizer" in asked or isinstance(source, Samples | Documents):
        return learn(source, **asked)
    documents = read_corpus(source, tokenizer=other.vocabulary, reading=asked.pop("reading", None))
    return learn(documents, **asked)


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
