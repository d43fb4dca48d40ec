"""Edges obeyed on a shuffled corpus: the baseline for a graph where order carries no information.

The tokens of each document are shuffled, so labels depend on nothing but token frequencies. The
graph of such a corpus still has edges, and the score by frequency obeys most of them. So a share of
edges obeyed is informative only if it is well above that of frequency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base import Tabular
from attomaton.base.errors import InvalidSamples
from attomaton.base.options import make_rng
from attomaton.base.tables import Int32, table_of
from attomaton.corpora import Samples
from attomaton.graphs import extract_edges
from attomaton_experiments.head_study.edges import ObeyedEdges, ProjectsTokens, measure_edges


@dataclass(frozen=True, eq=False)
class ShuffledEdges(Tabular):
    """Edges obeyed on a corpus, and on the same corpus with the tokens of each document shuffled.

    Attributes
    ----------
    own, shuffled : ObeyedEdges
        For both graphs: the heads, random heads, frequency and bigrams.

    Examples
    --------
    >>> from attomaton.heads import Head
    >>> half = ObeyedEdges((Head(0, 0),), np.array([0.5]), np.array([0.5]), 0.7, 0.9, 10)
    >>> ShuffledEdges(half, half).table().column_names[5:]
    ['shuffled_obeyed', 'shuffled_random', 'shuffled_frequency', 'shuffled_bigram']
    """

    of_text: ObeyedEdges
    shuffled: ObeyedEdges

    def _table(self) -> pa.Table:
        columns_of_text, columns_of_shuffled = self.of_text.table(), self.shuffled.table()
        columns: dict[str, Any] = {name: columns_of_text[name] for name in columns_of_text.column_names}
        columns |= {
            f"shuffled_{name}": columns_of_shuffled[name]
            for name in columns_of_shuffled.column_names
            if name != "head"
        }
        return table_of(columns)


def shuffle_documents(documents: Sequence[Any], *, seed: int = 0) -> list[Int32]:
    """Every document with its tokens shuffled; the first token, which often marks the start, stays.

    Examples
    --------
    >>> [ids.tolist() for ids in shuffle_documents([[9, 1, 2, 3], [9, 4]])]
    [[9, 3, 1, 2], [9, 4]]
    """
    rng = make_rng(seed)
    read = [np.asarray(ids, np.int32).ravel() for ids in documents]
    return [np.concatenate([ids[:1], rng.permutation(ids[1:])]) for ids in read]


def compare_shuffled(
    model: ProjectsTokens,
    documents: Sequence[Any],
    *,
    window: int = 32,
    against: ProjectsTokens | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> ShuffledEdges:
    """Edges obeyed on documents and on the same documents shuffled.

    Parameters
    ----------
    model : HeadModel with ``project_tokens``
        The model whose heads are measured.
    documents : sequence of integer sequences
        Token ids of the model's own tokenizer.
    window : int
        The longest context.
    against : HeadModel, optional
        The same model with random heads; NaN in the results if not given.
    seed : int
        Seed of the shuffle.
    threads : int, optional
        None means all processors.

    Examples
    --------
    >>> from attomaton.heads.trained import watch_layer
    >>> documents = [[0, 1, 0, 1, 2, 1, 0, 1, 2, 2, 1, 0], [1, 2, 1, 1, 0, 1, 0, 0, 1, 2]]
    >>> found = compare_shuffled(watch_layer(np.eye(3), np.eye(3)), documents, window=3)
    >>> found.of_text.obeyed.shape, found.shuffled.obeyed.shape
    ((1,), (1,))
    """
    measured = list[ObeyedEdges]()
    for texts in (documents, shuffle_documents(documents, seed=seed)):
        samples = _cut(texts, window, model.shape.n_tokens)
        measured.append(
            measure_edges(model, extract_edges(samples), samples, against=against, threads=threads)
        )
    return ShuffledEdges(*measured)


def _cut(documents: Sequence[Any], window: int, n_tokens: int) -> Samples:
    read = [np.asarray(ids, np.int64).ravel() for ids in documents if len(ids) > 1]
    if not read:
        raise InvalidSamples("no document has two tokens, so there are no samples; give longer documents")
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in read])])
    return Samples.from_windows(np.concatenate(read), window=window, documents=offsets, n_tokens=n_tokens)
