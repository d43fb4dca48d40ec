"""Kernels: loops over arrays, compiled when the package is built."""

import numpy
from numpy.typing import NDArray


def find_nodes(keys: NDArray[numpy.int64], queries: NDArray[numpy.int32], tokens: NDArray[numpy.int32], n_tokens: int) -> NDArray[numpy.int64]:
    """
    The row of each (query, token) among sorted node keys, -1 if there is none; queries are sorted.
    """

def label_components(winner: NDArray[numpy.int64], loser: NDArray[numpy.int64], n_nodes: int) -> NDArray[numpy.int64]:
    """
    The strong component of each node, numbered in order of appearance; edges are sorted by winner.
    """

def count_components(start: NDArray[numpy.int64], loser: NDArray[numpy.int32]) -> int:
    """
    The number of strong components; node i beats loser[start[i]:start[i + 1]], possibly itself.
    """

def condense(above: NDArray[numpy.int64], below: NDArray[numpy.int64], counts: NDArray[numpy.int64], support: NDArray[numpy.int64], n_components: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]]:
    """
    The distinct edges between different components: above, below, edges and support.
    """

def find_heights(start: NDArray[numpy.int64], below: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    """
    Length of the longest path down from each node, 0 at the bottom; for acyclic graphs in compressed rows.
    """

def find_irredundant(start: NDArray[numpy.int64], below: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
    """
    Which edges a transitive reduction keeps: those that no longer path replaces.
    """

def find_paths(start: NDArray[numpy.int64], below: NDArray[numpy.int64], height: NDArray[numpy.int64], top: NDArray[numpy.int64], bottom: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
    """
    Whether a path leads from each top down to its bottom; equal tops are adjacent.
    """

def precede_all(order: NDArray[numpy.int64], top: NDArray[numpy.int64], first: NDArray[numpy.int64], member: NDArray[numpy.int64], start: NDArray[numpy.int64], below: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
    """
    Whether the top node of each group reaches all members member[first[g]:first[g + 1]].
    """

def find_flow_bridges(start: NDArray[numpy.int64], target: NDArray[numpy.int64], enter: NDArray[numpy.int64], source: NDArray[numpy.int64], roots: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
    """
    Which edges are on every path from the root to their head, ordered like source; roots reach every node.
    """

def link_tokens(ids: NDArray[numpy.int32], documents: NDArray[numpy.int64], head: int, window: int, kept: NDArray[numpy.bool_]) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int64]]:
    """
    The previous and next position of each token in its document, and by query the samples with and without label.
    """

def pack_windows(ids: NDArray[numpy.int32], documents: NDArray[numpy.int64], head: int, first: int, window: int, kept: NDArray[numpy.bool_], before: NDArray[numpy.int32], after: NDArray[numpy.int32], keys: NDArray[numpy.int64]) -> tuple[int, int]:
    """
    Pack the edges of the labels from first on until keys is full; the next label, and the number of keys.
    """

def count_runs(keys: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
    """
    Move the distinct values of sorted keys to the front; how often each occurs.
    """

def find_labels(values: NDArray[numpy.int32], starts: NDArray[numpy.int64], stops: NDArray[numpy.int64], labels: NDArray[numpy.int32]) -> NDArray[numpy.bool_]:
    """
    Which samples have their label in the context values[starts[i]:stops[i]].
    """

def link_ahead(values: NDArray[numpy.int32], n_tokens: int) -> NDArray[numpy.int64]:
    """
    The next position of each token; the number of values if it does not recur.
    """

def pack_contexts(values: NDArray[numpy.int32], starts: NDArray[numpy.int64], stops: NDArray[numpy.int64], labels: NDArray[numpy.int32], after: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    """
    The packed edges of realisable samples; after has the next position of each token.
    """

def find_tied(members: tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int64]], queries: NDArray[numpy.int32], labels: NDArray[numpy.int32]) -> NDArray[numpy.bool_]:
    """Whether each label ties with another token under its query."""

def collect_sets(contexts: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32]], members: tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int64]], whole: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]]:
    """
    The samples whose label is chosen from several tokens of its component, or with whole of its context; their sets.
    """

def count_sets(order: NDArray[numpy.int64], pairs: NDArray[numpy.int64], offsets: NDArray[numpy.int64], entries: NDArray[numpy.int64], counts: NDArray[numpy.int64]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """
    The first of each group of equal choices, sorted, and the sums of their counts.
    """

def take_sets(rows: NDArray[numpy.int64], offsets: NDArray[numpy.int64], entries: NDArray[numpy.int64]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32]]:
    """Offsets, tokens and multiplicities of some sets, in this order."""
