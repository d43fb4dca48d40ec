"""Models from plain arrays: layers of residual attention without norms."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from attomaton.base.errors import MismatchedParts
from attomaton.base.options import real_number
from attomaton.base.tables import Int64
from attomaton.heads.parts import AttentionMaps, Layer, Linear
from attomaton.heads.transformer import Transformer


def from_arrays(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    output: ArrayLike,
    decoder: ArrayLike | None = None,
    *,
    scale: float | None = None,
    name: str = "arrays",
) -> Transformer:
    """Build a model of attention layers, h ← h + Σ_heads softmax(scale · h Q Kᵀ hᵀ) h V O, in float64.

    Parameters
    ----------
    embedding : array, shape (n_tokens, dim)
        A row for each token.
    query, key, value : arrays, shape (n_layers, n_heads, dim, width)
        Q, K and V.
    output : array, shape (n_layers, n_heads, width, dim)
        O.
    decoder : array, shape (dim, n_tokens), optional
        Maps to the logits. None means the transposed embedding.
    scale : float, optional
        None means 1/√width.
    name : str
        Name of the model in results.

    Returns
    -------
    Transformer
        For norms, feed-forward layers and positions, build a
        :class:`~attomaton.heads.transformer.Transformer` from its parts.

    Examples
    --------
    >>> query = key = value = np.ones((1, 1, 3, 2))
    >>> from_arrays(np.eye(3), query, key, value, np.ones((1, 1, 2, 3))).shape
    ModelShape(n_layers=1, n_heads=1, n_tokens=3, longest=None)
    """
    table, queries = _finite_array(embedding, "embedding", 2), _finite_array(query, "query", 4)
    n_layers, n_heads, dim, width = queries.shape
    expected = {
        "embedding": (table, (len(table), dim)),
        "key": (key, queries.shape),
        "value": (value, queries.shape),
        "output": (output, (n_layers, n_heads, width, dim)),
        "decoder": (table.T if decoder is None else decoder, (dim, len(table))),
    }
    arrays: dict[str, Any] = {}
    for argument, (array, shape) in expected.items():
        arrays[argument] = _finite_array(array, argument, len(shape))
        if arrays[argument].shape != shape:
            raise MismatchedParts(
                f"query has shape {queries.shape}, so {argument} must have shape {shape}, but has shape "
                f"{arrays[argument].shape}; give arrays of matching shapes"
            )
    factor = width**-0.5 if scale is None else real_number(scale, "scale")
    layers = tuple(
        Layer(
            AttentionMaps(
                query=_join_heads(queries[layer]),
                key=_join_heads(arrays["key"][layer]),
                value=_join_heads(arrays["value"][layer]),
                output=Linear(torch.as_tensor(arrays["output"][layer].reshape(n_heads * width, dim))),
                scale=factor,
            )
        )
        for layer in range(n_layers)
    )
    decode = Linear(torch.as_tensor(arrays["decoder"]))
    return Transformer(name, n_heads, n_heads, torch.as_tensor(table), layers, decode, dtype=torch.float64)


def example_audit() -> tuple[Transformer, list[Int64]]:
    """A model with one layer and two heads, and 24 random documents of 30 tokens, for examples."""
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    model = from_arrays(rng.normal(size=(6, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))
    return model, [rng.integers(0, 6, 30) for _ in range(24)]


# One map of shape (dim, n_heads · width) from maps of shape (n_heads, dim, width).
def _join_heads(maps: Any) -> Linear:
    return Linear(torch.as_tensor(np.concatenate(list(maps), axis=1)))


def _finite_array(array: ArrayLike, name: str, ndim: int) -> Any:
    # the array in float64, copied, if its numbers are finite and it has this number of axes
    try:
        numbers = np.array(array, np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise MismatchedParts(f"{name} is not an array of numbers ({error}); give numbers") from error
    if numbers.ndim != ndim or not numbers.size or not np.isfinite(numbers).all():
        raise MismatchedParts(
            f"{name} has shape {numbers.shape}; give finite numbers with {ndim} axes, none of them empty"
        )
    return numbers
