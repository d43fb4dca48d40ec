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

from attomaton.automaton.automaton import Automaton, fill_run
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.staged import Finished, learn_by_part
from attomaton.base.artifacts import RUN, Building, build_folder, digest_arrays
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.errors import NothingRealisable, UnsupportedOption
from attomaton.base.machine import share_out
from attomaton.base.options import given_path, show
from attomaton.base.progress import Stages, as_stages
from attomaton.base.remote import as_place
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import TokenizedCorpus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import Engine, as_engine, make_engine
from attomaton.engines.parts import EdgeParts
from attomaton.engines.selection import Selection
from attomaton.engines.source import Corpus, check_tokenizer, read_source, refuse_input_in
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.origin import check_training, describe_origin
from attomaton.solvers.solved import solve_edges

Learned = TypeVar("Learned", Automaton, WritingAutomaton)
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
    with prepare(*options, on_disk=how.on_disk, begin=begin) as prepared:
        corpus, selection, work = prepared.corpus, prepared.selection, prepared.work
        passes = make_engine(how, corpus.tokens, selection, work=work / "passes", progress=begin)
        begin("extracting edges")
        edges = passes.edges()
        about = prepared.describe(embeddings, engine=how.name)
        if embeddings is None and isinstance(edges, EdgeParts):
            finished = learn_by_part(passes, edges, begin)
            automaton = _put_together(finished, corpus.vocabulary, about, prepared.building, work)
        else:
            solved = solve_edges(
                edges if isinstance(edges, EdgeTable) else edges.load(),
                passes.choices,
                embeddings=embeddings,
                progress=begin,
                threads=how.threads,
            )
            samples = corpus.samples(passes.kept, selection)
            parts = (solved.components, solved.hard, solved.soft, corpus.vocabulary, samples)
            automaton = Automaton(*parts, prepared.window)
            if prepared.building is not None:
                begin("writing the run")
                fill_run(prepared.building, automaton, _describe(automaton, about, how.threads))
    return warn(Automaton.load(as_place(str(out))) if automaton is None else automaton)


@dataclass(frozen=True, eq=False)
class Prepared:
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
def prepare(
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
) -> Generator[Prepared]:
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
        yield Prepared(corpus, selection, how, longest, work, building)
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
    return {**about, "samples": share_out(lambda task: task(), tasks, threads)[0]}


def warn(automaton: Learned) -> Learned:
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
