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

def link_tokens(ids: NDArray[numpy.int32], documents: NDArray[numpy.int64], head: int, window: int, wanted: NDArray[numpy.bool_]) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int64]]:
    """
    The previous and next position of each token in its document, and by query the samples with and without label.
    """

def pack_windows(ids: NDArray[numpy.int32], documents: NDArray[numpy.int64], head: int, first: int, window: int, wanted: NDArray[numpy.bool_], before: NDArray[numpy.int32], after: NDArray[numpy.int32], keys: NDArray[numpy.int64]) -> tuple[int, int]:
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

def solve_groups(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], chosen: NDArray[numpy.int64], pull: tuple[NDArray[numpy.float64], float], answer: tuple[NDArray[numpy.float64], NDArray[numpy.bool_]], limits: tuple[float, int]) -> None:
    """
    Move the scores of the groups `chosen` from the anchor to their minimum.

    `borders` are those of each group's alternatives and of its choices, `pull` is the anchor and its stiffness, `answer` the scores and for each group whether it ended far from the tolerance; `limits` are the tolerance on gradient entries and the most steps.
    """

def bound_slopes(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], chosen: NDArray[numpy.int64], at: tuple[NDArray[numpy.float64], float], slopes: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]) -> None:
    """
    Bounds on the gradient and curvature of the groups `chosen` at these scores, with this ridge, into `slopes`.
    """

def fill_hessians(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], chosen: NDArray[numpy.int64], scores: NDArray[numpy.float64], hessians: NDArray[numpy.float64]) -> None:
    """
    Add the Hessians of the groups `chosen`, which have the same size, at these scores to `hessians`.
    """

def sort_members(order: NDArray[numpy.int64], choices: tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int32]], nodes: tuple[NDArray[numpy.int64], NDArray[numpy.int32]], within: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int64]], n_tokens: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], bool]:
    """
    Members and multiplicities of choice sets in a new order, and whether every set stays in its component.

    `choices` are the offsets, tokens, multiplicities and queries of the choices, `nodes` the keys of all nodes with their numbers, and `within` the numbers of the winners, in the new order, with the first and one past the last number of each node's component. Tokens are less than `n_tokens`, and queries stay sorted.
    """

def solve_parts(graph: tuple[NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], span: tuple[int, int], limits: tuple[float, float], answer: tuple[NDArray[numpy.float64], NDArray[numpy.float64]]) -> None:
    """
    Write positions and multipliers (answer) of the parts span[0] … span[1] - 1 of an order.
    """

def rank_edges(n_nodes: int, above: NDArray[numpy.int64], below: NDArray[numpy.int64]) -> tuple[NDArray[numpy.int32], int]:
    """
    The edges of an order by their slack on longest paths, least first, and the number of its levels less one.
    """

def project_order(graph: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64]], first: NDArray[numpy.int32], limits: tuple[float, float]) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.bool_], NDArray[numpy.int32], NDArray[numpy.int32]]:
    """
    The positions with the least Σ weight p²/2 + moment p under an order, starting from the edges first: positions, multipliers, which edges are tight, and for each node its block and its offset in it.
    """

def sum_groups(sizes: NDArray[numpy.int64], ends: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], answer: tuple[NDArray[numpy.float64], NDArray[numpy.float64]], sums: NDArray[numpy.float64]) -> float:
    """
    Write Σ|C|p², Σf and Σ(div f)²/|C| of each group into sums; by how much the smallest gap misses 1.
    """

def press_ropes(tables: tuple[NDArray[numpy.float64], NDArray[numpy.float64]], ropes: tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]], weights: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """
    Σ weight (e_one - e_other) e_queryᵀ in pairs of float64, from weights in pairs.
    """

def stretch_ropes(tables: tuple[NDArray[numpy.float64], NDArray[numpy.float64]], ropes: tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]], weights: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """
    (e_one - e_other)ᵀ W e_query of each rope in pairs of float64, from W in pairs.
    """

def assemble_equations(primal: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]], dual: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]], nodes: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], query_of: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
    """
    The lower half of the matrix of Newton's equations for the nuclear norm.
    """

def descend_queries(queries: tuple[tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]]], scores: NDArray[numpy.float64], step_size: float, n_steps: int) -> None:
    """Move the scores of each query by plain gradient descent."""

def minimise_queries(queries: tuple[tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]]], anchor: NDArray[numpy.float64], stiffness: float, scores: NDArray[numpy.float64], atol: float) -> bool:
    """
    Move the scores of each query to the minimum of L + ½ stiffness ‖s − anchor‖²; return whether all are there.
    """

def damp_queries(queries: tuple[tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]], tuple[NDArray[numpy.int64], NDArray[numpy.int64]]], scores: NDArray[numpy.float64], stiffness: float, moves: NDArray[numpy.float64]) -> None:
    """(1 + H / stiffness)⁻¹ moves at these scores, in place."""

def descend_embedded(losers: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.float64]], point: NDArray[numpy.float64], step_size: float, n_steps: int) -> None:
    """Move the point by plain gradient descent."""

def expand_embedded(losers: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.float64]], point: NDArray[numpy.float64], slope: NDArray[numpy.float64], rooted: NDArray[numpy.float64], means: NDArray[numpy.float64]) -> None:
    """
    The slope of the loss at a point, and the factors of its curvature rootedᵀ rooted − meansᵀ means.
    """

def find_steady(probabilities: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """
    The stationary law of a chain that returns to its first state from everywhere.
    """

def append_tokens(odds: NDArray[numpy.float64], counts: NDArray[numpy.float64], last: int, draws: NDArray[numpy.float64]) -> int:
    """
    Draw a token for each entry of draws (in [0, 1)), add it to counts, and return the last one.
    """

def score_pairs(queries: NDArray[numpy.float32], offered: NDArray[numpy.float32], query: NDArray[numpy.int32], token: NDArray[numpy.int32], scores: NDArray[numpy.float32]) -> None:
    """
    Add the products of queries and keys of each pair to scores, shape (n_pairs, n_heads).
    """

def count_obeyed(scores: NDArray[numpy.float32], winner: NDArray[numpy.int64], loser: NDArray[numpy.int64], support: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    """
    Twice the support of the edges that each head obeys, once of those that tie.
    """
