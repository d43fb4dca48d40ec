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

def solve_groups(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], some: NDArray[numpy.int64], pull: tuple[NDArray[numpy.float64], float], answer: tuple[NDArray[numpy.float64], NDArray[numpy.bool_]], limits: tuple[float, int]) -> None:
    """
    Move the scores of the groups `some` from the anchor to their minimum.

    `borders` are those of each group's alternatives and of its choices, `pull` is the anchor and its stiffness, `answer` the scores and for each group whether it ended far from the tolerance; `limits` are the tolerance on gradient entries and the most steps.
    """

def bound_slopes(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], some: NDArray[numpy.int64], at: tuple[NDArray[numpy.float64], float], slopes: tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]) -> None:
    """
    Bounds on the gradient and curvature of the groups `some` at these scores, with this ridge, into `slopes`.
    """

def fill_hessians(choices: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.float64]], borders: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], some: NDArray[numpy.int64], scores: NDArray[numpy.float64], hessians: NDArray[numpy.float64]) -> None:
    """
    Add the Hessians of the groups `some`, which have the same size, at these scores to `hessians`.
    """

def sort_members(order: NDArray[numpy.int64], choices: tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int32]], nodes: tuple[NDArray[numpy.int64], NDArray[numpy.int32]], within: tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int64]], n_tokens: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], bool]:
    """
    Members and multiplicities of choice sets in a new order, and whether every set stays in its component.

    `choices` are the offsets, tokens, multiplicities and queries of the choices, `nodes` the keys of all nodes with their numbers, and `within` the numbers of the winners, in the new order, with the first and one past the last number of each node's component. Tokens are less than `n_tokens`, and queries stay sorted.
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
