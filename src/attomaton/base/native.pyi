"""Kernels: loops over arrays, compiled when the package is built."""

from typing import Annotated

import numpy
from numpy.typing import NDArray


def find_nodes(keys: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], queries: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_tokens: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    The row of each (query, token) among sorted node keys, -1 if there is none; queries are sorted.
    """

def label_components(winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], loser: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_nodes: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    The strong component of each node, numbered in order of appearance; edges are sorted by winner.
    """

def count_components(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], loser: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
    """
    The number of strong components; node i beats loser[start[i]:start[i + 1]], possibly itself.
    """

def condense(above: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], below: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], support: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_components: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    The distinct edges between different components: above, below, edges and support.
    """
