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

def solve_parts(graph: tuple[NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], some: tuple[int, int], limits: tuple[float, float], answer: tuple[NDArray[numpy.float64], NDArray[numpy.float64]]) -> None:
    """
    Write positions and multipliers (answer) of the parts some[0] … some[1] - 1 of an order.
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

def assemble_equations(primal: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]], dual: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]], nodes: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], asked: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
    """
    The lower half of the matrix of Newton's equations for the nuclear norm.
    """

def find_steady(probabilities: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """
    The stationary law of a chain that returns to its first state from everywhere.
    """

def append_tokens(odds: NDArray[numpy.float64], counts: NDArray[numpy.float64], last: int, draws: NDArray[numpy.float64]) -> int:
    """
    Draw a token for each entry of draws (in [0, 1)), add it to counts, and return the last one.
    """

def score_pairs(asked: NDArray[numpy.float32], offered: NDArray[numpy.float32], query: NDArray[numpy.int32], token: NDArray[numpy.int32], scores: NDArray[numpy.float32]) -> None:
    """
    Add the products of queries and keys of each pair to scores, shape (n_pairs, n_heads).
    """

def count_obeyed(scores: NDArray[numpy.float32], winner: NDArray[numpy.int64], loser: NDArray[numpy.int64], support: NDArray[numpy.int64]) -> NDArray[numpy.int64]:
    """
    Twice the support of the edges that each head obeys, once of those that tie.
    """
