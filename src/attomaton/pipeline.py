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

from attomaton.artifacts import Building, build_folder, digest_arrays, fill_run
from attomaton.automaton.automaton import Automaton, describe_run
from attomaton.corpora.samples import Samples
from attomaton.engines.choose import check_engine, make_engine
from attomaton.engines.selection import Selection
from attomaton.engines.source import check_reading, read_source, refuse_input_in
from attomaton.errors import NothingRealisable
from attomaton.options import given_path
from attomaton.progress import as_stages
from attomaton.solved import compile_beside, solve_edges

Source = str | PathLike[str] | Samples | Sequence[Any]
"""What :func:`learn` reads: a path, glob or URL, samples, token ids, or documents; a dataset too."""


def learn(
    source: Source,
    *,
    window: int = 32,
    tokenizer: str = "word",
    documents: str = "file",
    engine: str = "auto",
    embeddings: object = None,
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
) -> Automaton:
    """Compute what gradient descent makes of a self-attention layer trained on ``source``.

    Parameters
    ----------
    source : path, glob, URL, Samples, sequence of token ids or documents, or dataset
        A UTF-8 text file (one document), files of any kind that :func:`~attomaton.read_corpus` reads, a
        folder that :func:`~attomaton.tokenize_corpus` wrote or of Parquet shards with a column ``tokens``
        (one document a row), samples, one document as token ids, or a sequence of documents.
    window : int
        Longest context, in tokens. It is not used for samples, which have their contexts already.
    tokenizer : str
        ``"word"`` (white space, line end = ``<eos>``), ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. It is used for text only.
    documents : str
        Whether a ``.txt`` is one document (``"file"``) or has one on each line (``"line"``).
    engine : str
        ``"memory"``: both passes in memory. ``"duckdb"``: over shards on disk with bounded memory, resumable
        in ``out``. ``"spark"``: over shards, on local processors or a cluster. ``"auto"``: duckdb for a
        folder of shards, otherwise memory. The answer is the same.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that dependent rows cannot tell apart are merged.
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
        machine's.
    threads : int, optional
        How many the duckdb engine or a local Spark uses, and how many both solvers use; all processors if not
        given. With embeddings, numpy's linear algebra takes as many as its own settings say.
    master : str, optional
        Where Spark runs, such as ``"spark://host:7077"``; by default in the session that runs already, or on
        local processors.
    out : path, optional
        Where the run folder is written: a new or empty folder, or that of an earlier run. Unfinished work
        stands beside it until the run is whole.
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
        With ``.coverage``, ``.samples`` (for :meth:`Automaton.at`) and, for text, ``.vocabulary``.

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
    selection = Selection(window, max_window, min_support, sample_queries=sample_queries)
    on_disk = check_engine(engine, source, memory=memory, threads=threads, master=master)
    check_reading(tokenizer, documents, queries)
    if out is not None:
        refuse_input_in(given_path(out, "out"), source)
    begin = as_stages(progress)
    with _workplace(out, overwrite, resumable=on_disk) as (work, building):
        begin("reading")
        corpus = read_source(
            source,
            window=selection.window,
            tokenizer=tokenizer,
            tokens=work / "tokens" if on_disk else None,
            documents=documents,
        )
        compile_beside(len(corpus.tokens) if isinstance(corpus.tokens, Samples) else 0)
        selection = replace(selection, **corpus.pick(queries))
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
        edges = passes.edges().load()
        solved = solve_edges(edges, passes.choices, embeddings=embeddings, progress=begin, threads=threads)
        samples = corpus.samples(passes.kept, selection)
        automaton = Automaton(solved.components, solved.hard, solved.soft, corpus.vocabulary, samples)
        if building is not None:
            begin("writing the run")
            made = {"documents": documents, "engine": engine, "embeddings": _digest(embeddings)}
            config = {**selection.to_dict(), **made}
            fill_run(building, describe_run(automaton, {"input": corpus.about, "config": config}))
    if automaton.coverage.note:
        warnings.warn(automaton.coverage.note, NothingRealisable, stacklevel=2)
    return automaton


@contextmanager
def _workplace(
    out: str | PathLike[str] | None, overwrite: bool, *, resumable: bool
) -> Generator[tuple[Path, Building | None]]:
    """Where an engine may work: in the folder that is being built, where a later run takes it up, if any."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
            yield Path(name), None
        return
    with build_folder(out, "run", overwrite=overwrite, resumable=resumable) as building:
        work = building.folder / "work"
        yield work, building
        shutil.rmtree(work, ignore_errors=True)


def _digest(embeddings: object) -> str | None:
    return None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
