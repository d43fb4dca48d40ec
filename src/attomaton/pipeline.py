"""The whole path in one call: from a corpus to the automaton."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.artifacts import digest_arrays, digest_file, prepare_folder
from attomaton.corpora.readers import read_text
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import UnsupportedOption
from attomaton.graphs.choices import extract_choices
from attomaton.graphs.components import find_components
from attomaton.graphs.edges import extract_edges
from attomaton.hard.solve import solve_graph_svm
from attomaton.limit.automaton import Automaton
from attomaton.soft.solve import solve_luce

Source = str | PathLike[str] | Samples | Sequence[int]
"""What :func:`learn` reads: a path, samples, or token ids."""


def learn(
    source: Source,
    *,
    window: int = 32,
    tokenizer: str = "word",
    engine: str = "auto",
    embeddings: object = None,
    min_support: int = 1,
    queries: Sequence[int] | Sequence[str] | None = None,
    out: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
) -> Automaton:
    """Compute what gradient descent makes of a self-attention layer trained on ``source``.

    Parameters
    ----------
    source : path, Samples, or sequence of token ids
        A UTF-8 text file (one document), samples, or one document as token ids.
    window : int
        Longest context; not used for samples, which have their contexts already.
    tokenizer : str
        ``"word"``: white space, line end = ``<eos>``. For text only.
    engine : str
        ``"auto"`` or ``"memory"``: everything in memory.
    embeddings : float array, shape (n_tokens, dim), optional
        None means orthonormal. Components that dependent rows cannot tell apart are merged.
    min_support : int
        Leave out edges that fewer samples show.
    queries : sequence of int or str, optional
        Only these queries.
    out : path, optional
        Write the run folder there; an earlier run in it is replaced.
    progress : bool or callable
        True: name each stage on stderr as it begins. A callable is called with the name instead.

    Returns
    -------
    Automaton
        With ``.coverage``, ``.samples`` (for :meth:`Automaton.at`) and, for text, ``.vocabulary``.

    Examples
    --------
    >>> auto = learn([0, 1, 0, 2, 0, 1, 0, 1], window=3)
    >>> auto.predict_proba([1, 0]).tolist()
    [0.0, 1.0, 0.0]
    """
    if engine not in ("auto", "memory"):
        raise UnsupportedOption(f"there is no engine {engine!r}; choose auto or memory")
    if out is not None:
        prepare_folder(Path(out))
    begin = _announcer(progress)
    begin("reading")
    corpus = _read(source, window, tokenizer)
    begin("extracting edges")
    asked = corpus.query_ids(queries)
    edges = extract_edges(corpus.samples).filter(min_support=min_support, queries=asked)
    begin("finding components")
    components = find_components(edges)
    begin("solving the hard side")
    hard = solve_graph_svm(components, embeddings=embeddings)
    components = hard.components  # merged where dependent embeddings cannot tell them apart
    begin("extracting choices")
    choices = extract_choices(corpus.samples, components)
    begin("solving the soft side")
    soft = solve_luce(choices, components, embeddings=embeddings)
    automaton = Automaton(components, hard, soft, corpus.vocabulary, corpus.of_queries(asked))
    if out is not None:
        begin("writing the run")
        automaton.save(
            Path(out),
            about={
                "input": corpus.about,
                "config": {
                    "min_support": min_support,
                    "queries": asked,
                    "engine": engine,
                    "embeddings": _digest(embeddings),
                },
            },
        )
    return automaton


def _digest(embeddings: object) -> str | None:
    return None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))


def _announcer(progress: bool | Callable[[str], object]) -> Callable[[str], object]:
    if callable(progress):
        return progress
    return (lambda stage: sys.stderr.write(f"{stage}\n")) if progress else str


@dataclass(frozen=True)
class _Corpus:
    samples: Samples
    vocabulary: Vocabulary | None
    about: dict[str, Any]

    def query_ids(self, queries: Sequence[int] | Sequence[str] | None) -> list[int] | None:
        if queries is None:
            return None
        if isinstance(queries, str):
            raise UnsupportedOption(f"queries is the text {queries!r}; give a list of tokens or token ids")
        return [self._query_id(query) for query in queries]

    def of_queries(self, queries: list[int] | None) -> Samples:
        """The samples with one of these queries; all of them if None."""
        if queries is None:
            return self.samples
        return self.samples.take(np.isin(self.samples.queries, queries))

    def _query_id(self, query: int | str) -> int:
        if not isinstance(query, str):
            return index(query)
        if self.vocabulary is None:
            raise UnsupportedOption(
                "queries are given as text but the source has no vocabulary; give token ids"
            )
        return int(self.vocabulary.lookup([query])[0])


def _read(source: Source, window: int, tokenizer: str) -> _Corpus:
    if isinstance(source, Samples):
        digest = digest_arrays(source.values, source.starts, source.stops, source.labels)
        return _Corpus(source, None, {"kind": "samples", "sha256": digest})
    if isinstance(source, str | PathLike):
        path = Path(source)
        documents = read_text(path, tokenizer=tokenizer)
        about = {"kind": "text", "name": path.name, "sha256": digest_file(path), "tokenizer": tokenizer}
        return _Corpus(documents.windows(window), documents.vocabulary, {**about, "window": window})
    samples = Samples.from_windows(source, window=window)
    return _Corpus(samples, None, {"kind": "ids", "sha256": digest_arrays(samples.values), "window": window})
