"""The in-memory engine runs the kernel over samples or shards; it is the reference for the others."""

# The first pass counts edges: in a sample of query k with label y, y → x for every other token x of the
# context. A sample is realisable if its label is in the context; only these have edges. The second pass
# counts choices: the set of tokens among which a label was chosen. `reach` is the length of the
# longest context.

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attomaton.base.tables import Bool, Int64, column
from attomaton.corpora.documents import Chunk
from attomaton.corpora.samples import Samples
from attomaton.corpora.shards import Shards
from attomaton.engines.kernel import MAX_KEYS, choices_of_chunk, query_rows
from attomaton.engines.selection import Selection
from attomaton.engines.sums import DOCUMENT_CHUNK_TOKENS, Counting, Sums, sum_chunks
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.choices import ChoiceTable, count_choices, extract_choices
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EdgeTable, extract_edges, make_edges, merge_edges
from attomaton.graphs.grouping import merge_as_they_come
from attomaton.graphs.windows import link_repeats, window_edges

MEMORY_CHUNK_TOKENS = 1 << 21  # tokens of a chunk of shards


@dataclass(frozen=True, eq=False)
class MemoryEngine:
    """Run the two corpus passes in this process, with everything in memory.

    Attributes
    ----------
    corpus : Samples or Shards
        The corpus. Samples already have contexts, so the window of the selection is ignored for them.
    selection : Selection
        The queries and edges to keep.
    threads : int, optional
        Number of threads; by default one per processor.

    Examples
    --------
    >>> from attomaton.graphs.components import find_components
    >>> engine = MemoryEngine(Samples.from_windows([0, 2, 1, 1, 2, 0, 1, 2, 2], window=3))
    >>> engine.choices(find_components(engine.edges()))
    ChoiceTable(3 distinct choices, 3 in all)
    """

    corpus: Samples | Shards
    selection: Selection = Selection()  # noqa: RUF009  frozen
    threads: int | None = None

    @cached_property
    def selected(self) -> Bool:
        """Whether each token is a selected query, shape (n_tokens,)."""
        selected = self.selection.selected(self.corpus.n_tokens)
        if self.selection.top is None:
            return selected
        if isinstance(self.corpus, Shards):
            realisable = count_realisable(self.corpus, self.selection.reach, selected)
        else:
            samples = trim(self.corpus, self.selection)
            queries = samples.take(find_realisable(samples)).queries
            realisable = np.bincount(queries, minlength=samples.n_tokens)
        return self.selection.largest(selected, realisable)

    @cached_property
    def samples(self) -> Samples | None:
        """The samples of the selected queries, cut to ``max_window``; None if the corpus is ``Shards``."""
        if isinstance(self.corpus, Shards):
            return None
        trimmed = trim(self.corpus, self.selection)
        return trimmed if self.selected.all() else trimmed.take(self.selected[trimmed.queries])

    def edges(self) -> EdgeTable:
        """First pass: count every edge."""
        if self.samples is None:
            tables = merge_as_they_come(map(self._edges_of_chunk, self._chunks()), merge_edges)
            edges = merge_edges(tables) if tables else make_edges(self.corpus.n_tokens)
        else:
            edges = extract_edges(self.samples, threads=self.threads)
        return edges.filter(min_support=self.selection.min_support)

    def choices(self, components: Components | None) -> ChoiceTable:
        """Second pass: count the choices inside each label's component, or in whole contexts for None."""
        if self.samples is not None:
            return extract_choices(self.samples, components, threads=self.threads)
        counted = (
            choices_of_chunk(chunk, components, selection=self.selection, selected=self.selected)
            for chunk in self._chunks()
        )
        return count_choices(merge_as_they_come(counted, count_choices))

    def sums(self, count: Counting) -> dict[str, Sums]:
        """Sum by key what ``count`` lists for each chunk of whole documents; the corpus must be shards."""
        assert isinstance(self.corpus, Shards)  # noqa: S101  our own invariant
        return sum_chunks(self.corpus.chunks(DOCUMENT_CHUNK_TOKENS, None), count)

    def _chunks(self) -> Iterator[Chunk]:
        assert isinstance(self.corpus, Shards)  # noqa: S101  our own invariant
        return self.corpus.chunks(MEMORY_CHUNK_TOKENS, self.selection.reach)

    def _edges_of_chunk(self, chunk: Chunk) -> EdgeTable:
        # one table with the numbers of samples, and one for each batch of packed edges
        links = link_repeats(chunk, self.selection.reach, self.selected)
        counted = query_rows(links)
        queries, realisable, unrealisable = (
            column(counted, name) for name in ("query", "realisable", "unrealisable")
        )
        tables = [
            make_edges(chunk.n_tokens, queries=queries, realisable=realisable, unrealisable=unrealisable)
        ]
        for keys, support in window_edges(
            chunk, links, window=self.selection.reach, selected=self.selected, max_keys=MAX_KEYS
        ):
            tables.append(make_edges(chunk.n_tokens, keys, support.astype(np.int64)))
        return merge_edges(tables)


def trim(samples: Samples, selection: Selection) -> Samples:
    if selection.max_window is None:
        return samples
    return replace(samples, starts=np.maximum(samples.starts, samples.stops - selection.max_window))


def count_realisable(shards: Shards, window: int, selected: Bool) -> Int64:
    """The number of realisable samples of each query, shape (n_tokens,): one cheap pass over the corpus."""
    total = np.zeros(shards.n_tokens, np.int64)
    for chunk in shards.chunks(MEMORY_CHUNK_TOKENS, window):
        total += link_repeats(chunk, window, selected).realisable
    return total
