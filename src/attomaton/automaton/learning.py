"""From a corpus to the automaton in one call."""

import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attomaton.automaton import compare
from attomaton.automaton.automaton import Automaton, fill_run
from attomaton.automaton.ov_maps.automaton import WritingAutomaton, fill_writing
from attomaton.automaton.ov_maps.maps import Writes, Writing, check_named, find_writing
from attomaton.automaton.ov_maps.settle import WritingProblem, count_writers, find_writers, settle
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.staged import Finished, learn_by_part
from attomaton.base.artifacts import RUN, Building, build_folder, digest_arrays
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.errors import NothingRealisable, UnsupportedOption
from attomaton.base.machine import share_out
from attomaton.base.options import given_path, show
from attomaton.base.progress import Progress, Stages, as_stages, silent
from attomaton.base.remote import as_place
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.readers.corpus import path_of
from attomaton.corpora.readers.sources import is_run
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import Engine, as_engine, make_engine
from attomaton.engines.memory import MemoryEngine, trim
from attomaton.engines.selection import Selection
from attomaton.engines.source import Corpus, check_tokenizer, read_source, refuse_input_in
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.origin import check_training, describe_origin
from attomaton.graphs.writing import Reach
from attomaton.solvers.solved import solve_edges

Learned = TypeVar("Learned", Automaton, WritingAutomaton)
Source = str | PathLike[str] | Samples | Documents | TokenizedCorpus | Sequence[Any] | Any
"""Sources for :func:`learn`: a path, glob or URL, samples, token ids, documents, a frame or dataset."""

LEARNING = (("pivots", "orders", "choices"), ("planting", "sets", "luce"))
"""Exercises of :mod:`attomaton.cli.warming` that compile what is needed here, in chains of equal length."""

LARGE_CORPUS = 50_000
"""From this many samples on, they are described in threads."""


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
        Longest context, in tokens: 32 unless this or ``keep`` sets it. Samples have their own.
    tokenizer : str
        ``"word"`` (white space, line end = ``<eos>``), ``"word-lower"`` (the same in lower case),
        ``"word-punct"`` (with punctuation split off), ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. It applies only to text.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that dependent rows cannot separate are merged.
    keep : Selection, optional
        The part of the corpus to keep: some queries, edges with enough samples, the last tokens of long
        contexts. Results for that part are exact.
    reading : Reading, optional
        How to read files: their format, the column of the documents, the unit of a document in plain text,
        the treatment of bad ones.
    engine : str or Engine
        ``"memory"``; ``"duckdb"``: over shards on disk, with bounded memory, resumable in ``out``;
        ``"spark"``: the same on local processors or a cluster; ``"auto"``: duckdb for shards too large for
        memory, otherwise memory. The results are equal to the last bit.
    out : path, optional
        The run folder to write: new or empty, that of an earlier run, or that of a training on the same
        samples, which stays. It may be in an object store, such as ``s3://bucket/run``.
    overwrite : bool
        Whether to replace an earlier run in ``out``, with its training.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable is called with that name; its method
        ``advance``, if any, with the finished and the total amount of work in the stage.

    Returns
    -------
    Automaton
        With ``.coverage``, ``.samples`` (for :meth:`Automaton.at`, if learned in memory) and, for text,
        ``.vocabulary``. A run learned part by part into ``out`` is read from there on demand.

    Warns
    -----
    NothingRealisable
        If no label is in its context: every prediction is then the back-off.

    Examples
    --------
    >>> auto = learn([0, 1, 0, 2, 0, 1, 0, 1], window=3)
    >>> auto.predict_proba([1, 0]).tolist()
    [0.0, 1.0, 0.0]
    """
    how = as_engine(engine, source)
    begin = as_stages(progress)
    options = (source, window, tokenizer, keep, reading, out, overwrite)
    with _prepare(*options, on_disk=how.on_disk, begin=begin) as prepared:
        corpus, selection, work = prepared.corpus, prepared.selection, prepared.work
        passes = make_engine(how, corpus.tokens, selection, work=work / "passes", progress=begin)
        begin("extracting edges")
        edges = passes.edges()
        about = prepared.describe(embeddings, engine=how.name)
        if embeddings is None and not isinstance(passes, MemoryEngine):
            finished = learn_by_part(passes, edges, begin)
            automaton = _put_together(finished, corpus.vocabulary, about, prepared.building, work)
        else:
            solved = solve_edges(
                edges.load(), passes.choices, embeddings=embeddings, progress=begin, threads=how.threads
            )
            samples = corpus.samples(passes.kept, selection)
            parts = (solved.components, solved.hard, solved.soft, corpus.vocabulary, samples)
            automaton = Automaton(*parts, prepared.window)
            if prepared.building is not None:
                begin("writing the run")
                fill_run(prepared.building, automaton, _describe(automaton, about, how.threads))
    return _warn(Automaton.load(as_place(str(out))) if automaton is None else automaton)


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
    """Learn a head that writes tokens other than those it reads; everything is in memory.

    Where several tokens of a context write its label, the choice among them is a local optimum.

    Parameters
    ----------
    source : path, glob, URL, Samples, Documents, sequence of token ids or documents, frame, or dataset
        As in :func:`learn`, except shards.
    writes : str, integers of shape (n_tokens,) or (n_ways, n_tokens), or mapping
        The token that the head writes where it reads a token. ``"successor"``: the token that most often
        follows it in this corpus. ``"identity+successor"``: that, or the token itself. ``"identity"``: the
        token itself. Otherwise an array of the tokens that each token writes, or a mapping of tokens to
        tokens; tokens missing from a mapping write themselves.
    window, tokenizer, embeddings, keep, reading
        As in :func:`learn`.
    threads : int, optional
        Number of threads for the solvers; by default all processors.
    out, overwrite, progress
        As in :func:`learn`.

    Returns
    -------
    WritingAutomaton
        It predicts the written tokens. :func:`~attomaton.automaton.load_attention` opens its run.

    Warns
    -----
    NothingRealisable
        If no label can be written.

    Examples
    --------
    >>> learn_writing([0, 1, 0, 2, 0, 1, 0, 1], "successor", window=3).predict([1, 2])
    {0: 1.0}
    """
    checked, begin = check_named(writes), as_stages(progress)
    options = (source, window, tokenizer, keep, reading, out, overwrite)
    with _prepare(*options, on_disk=False, begin=begin) as prepared:
        corpus = prepared.corpus
        if not isinstance(corpus.tokens, Samples):
            raise UnsupportedOption(
                "writes= needs a corpus in memory, and this corpus is a folder of token shards; give the "
                "text, documents, token ids or samples"
            )
        automaton = solve_writing(
            corpus.tokens,
            find_writing(checked, corpus.tokens, corpus.vocabulary),
            prepared.selection,
            vocabulary=corpus.vocabulary,
            window=prepared.window,
            embeddings=embeddings,
            threads=threads,
            progress=begin,
        )
        if prepared.building is not None:
            about = prepared.describe(embeddings, writes=automaton.writing.name)
            fill_writing(prepared.building, automaton, about)
    return _warn(automaton)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A corpus, the part of it to keep, and the folder of its run."""

    corpus: Corpus
    selection: Selection
    reading: Reading
    window: int | None
    work: Path
    building: Building | None

    def describe(self, embeddings: object, **more: str) -> dict[str, Any]:
        """The settings of learning, for the manifest of a run."""
        digest = None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
        settings = {"documents": self.reading.documents, **more, "embeddings": digest}
        named = {name: getattr(self.reading, name) for name in ("column", "format")}
        settings |= {name: value for name, value in named.items() if value is not None}
        return {"input": self.corpus.about, "config": {**self.selection.to_dict(), **settings}}


@contextmanager
def _prepare(
    source: Source,
    window: int | None,
    tokenizer: str,
    keep: Any,
    reading: Reading | None,
    out: str | PathLike[str] | None,
    overwrite: bool,
    *,
    on_disk: bool,
    begin: Stages,
) -> Generator[_Prepared]:
    """Check the arguments and read the corpus, inside the run folder being built, if any.

    An engine may work there, and a later run resumes its unfinished work.
    """
    if keep is not None and not isinstance(keep, Selection):
        raise UnsupportedOption(f"keep is {type(keep).__name__}; give attomaton.Selection(…)")
    selection, how = Selection() if keep is None else keep, as_reading(reading)
    if window is not None:
        if selection.window not in (window, None):
            raise UnsupportedOption(
                f"window is {show(window)} and keep has a window of {selection.window}; give one of them"
            )
        selection = replace(selection, window=window)
    check_tokenizer(tokenizer)
    if out is not None and isinstance(as_place(out), Path):
        refuse_input_in(given_path(out, "out"), source)
    with ExitStack() as stack:
        building = None
        if out is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attomaton-")))
        else:
            folder = build_at(out, RUN, OWNED, overwrite=overwrite, resumable=on_disk)
            building = stack.enter_context(folder)
            work = building.folder / "work"
        begin("reading")
        tokens = work / "tokens" if on_disk else None
        corpus = read_source(
            source, window=selection.longest, tokenizer=tokenizer, tokens=tokens, reading=how
        )
        selection = selection.with_ids(corpus.vocabulary)
        longest = None if isinstance(source, Samples) else selection.reach
        yield _Prepared(corpus, selection, how, longest, work, building)
        if building is not None:
            shutil.rmtree(work, ignore_errors=True)
            if not overwrite:
                check_training(building.folder, building.target)


def _describe(automaton: Automaton, about: dict[str, Any], threads: int | None) -> dict[str, Any]:
    """The manifest with the digest of the samples; the coverage is measured in the meantime."""
    samples = automaton.samples
    if samples is None:
        return about
    tasks: list[Callable[[], Any]] = [lambda: describe_origin(samples), lambda: automaton.coverage]
    small = len(samples) < LARGE_CORPUS
    return {**about, "samples": share_out(lambda task: task(), tasks, 1 if small else threads)[0]}


def _warn(automaton: Learned) -> Learned:
    """The automaton itself; warns if the theory does not apply to the corpus."""
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
    """The run folder of finished parts, if one is being built; otherwise the automaton, read completely."""
    if building is not None:
        finished.fill(building, vocabulary, about)
        return None
    with build_folder(work / "run", RUN, OWNED, overwrite=False) as temporary:
        finished.fill(temporary, vocabulary, about)
    return Automaton.load(work / "run", whole=True)


def diff(a: Source, b: Source, **options: Any) -> compare.Difference:
    """Compare the relations in two corpora of every pair of tokens that either compares.

    Parameters
    ----------
    a, b : Automaton, run folder, or any source of :func:`learn`
        A corpus is learned from first, with the window and tokenizer of the other side if that is an
        automaton or a run. Tokens are matched by their text if both have a vocabulary, by their ids if
        neither has.
    **options
        For corpora, those of :func:`learn`.

    Returns
    -------
    Difference
        The compared pairs have an edge in either corpus; pairs related only by paths are left out.

    Examples
    --------
    >>> difference = diff(["a b a", "b a b"], ["a b b", "b b a b"])
    >>> difference
    Difference(1 of 2 pairs)
    """
    if "out" in options or "overwrite" in options:
        raise UnsupportedOption("diff does not write a run; learn each corpus into a folder, then diff these")
    if isinstance(a, WritingAutomaton) or isinstance(b, WritingAutomaton):
        raise UnsupportedOption("diff compares the tokens that heads read; with writes=, give the .reads")
    runs = [source if isinstance(source, Automaton) else _load_run(source) for source in (a, b)]
    automata = [
        _learn_beside(source, other, options) if run is None else run
        for source, run, other in zip((a, b), runs, reversed(runs), strict=True)
    ]
    return compare.diff(*automata)


def _load_run(source: Source) -> Automaton | None:
    """The automaton, if the source is the folder of a run."""
    folder = path_of(source) if isinstance(source, str | PathLike) else None
    return Automaton.load(folder) if folder is not None and is_run(folder) else None


def _learn_beside(source: Source, other: Automaton | None, options: dict[str, Any]) -> Automaton:
    """Learn from a corpus with the settings of the other, except where the options set them."""
    options = {name: value for name, value in options.items() if value is not None}
    if other is None:
        return learn(source, **options)
    keep = options.get("keep")
    if other.window is not None and (keep is None or keep.window is None):
        options.setdefault("window", other.window)
    if (
        other.vocabulary is not None
        and "tokenizer" not in options
        and not isinstance(source, Samples | Documents)
    ):
        source = read_corpus(source, tokenizer=other.vocabulary, reading=options.pop("reading", None))
    return learn(source, **options)


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
    """Learn the tokens read by a head that writes other tokens.

    Where one key of a context writes the label, learning treats that key as the label. Where several do, one
    of them is chosen (:func:`~attomaton.automaton.ov_maps.settle.settle`).
    """
    progress("finding the tokens that write each label", 0, 0)
    whole = trim(samples, selection)
    keys = writing.read(whole)
    n_writers = count_writers(keys, writing)
    reached = np.bincount(keys.queries[n_writers > 0], minlength=writing.n_tokens)
    kept = selection.largest(selection.kept(writing.n_tokens), reached)[whole.queries]
    whole, keys, n_writers = whole.take(kept), keys.take(kept), n_writers[kept]
    alone = find_writers(keys.take(n_writers == 1), writing)
    problem = WritingProblem(
        alone.label(alone.bags.token[alone.mine]),
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
    inside, written = find_realisable(whole), n_writers > 0
    shares = (float(mask.sum()) / max(len(whole), 1) for mask in (inside, written, inside | written))
    reach = Reach(len(whole), *shares)
    return WritingAutomaton(reads, writing, reach, settling, vocabulary, window)
