"""How far attomaton's forward pass deviates from that of the original model."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Integers
from attomaton.heads.model import HeadModel, check_contexts


@dataclass(frozen=True)
class Deviation:
    """The largest differences between two models at ``n_positions`` positions.

    ``logits`` is the largest difference of a logit, ``largest`` the largest logit of the original, for
    comparison, and ``probabilities`` the largest difference of a next token's probability.
    """

    logits: float
    largest: float
    probabilities: float
    n_positions: int

    def __str__(self) -> str:
        return (
            f"logits deviate from the original's by at most {self.logits:.2g} (the largest is "
            f"{self.largest:.3g}) at {self.n_positions:,} positions"
        )


def compare_logits(model: HeadModel, original: Any, contexts: Integers | Tensor) -> Deviation:
    """Compare the logits of ``model`` in attomaton's forward pass with those of the ``original``.

    The original is a ``transformers`` or TransformerLens model, or any function that maps token ids, shape
    (n, length), to logits or a value with ``.logits``, shape (n, length, n_tokens). It is called without
    gradients, in evaluation mode if it has modes. ``contexts`` are token ids, shape (n, length).

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.arrays import from_arrays
    >>> ones = np.ones((1, 1, 2, 2))
    >>> model = from_arrays(np.eye(3, 2), ones, ones, ones, ones)
    >>> compare_logits(model, model, np.array([[0, 1, 2]])).logits
    0.0
    """
    ids = check_contexts(contexts, model.shape)
    with torch.no_grad():
        ours = model.watch(ids).logits.double()
        theirs = _logits_of(original, ids)
    if theirs.shape != ours.shape:
        raise MismatchedParts(
            f"the logits of the original have shape {tuple(theirs.shape)}, but those of the model have shape "
            f"{tuple(ours.shape)}; give the original that the model was read from"
        )
    theirs = theirs.double().cpu()
    differences = torch.where(ours == theirs, 0.0, (ours - theirs).abs())  # equal where both are infinite
    finite = theirs[theirs.isfinite()].abs()
    return Deviation(
        logits=float(differences.max()),
        largest=float(finite.max()) if len(finite) else 0.0,
        probabilities=float((ours.softmax(-1) - theirs.softmax(-1)).abs().max()),
        n_positions=ids.numel(),
    )


# The logits of a model in evaluation mode; its mode is restored.
def _logits_of(original: Any, ids: Tensor) -> Tensor:
    if hasattr(original, "watch"):
        return original.watch(ids).logits
    training = bool(getattr(original, "training", False))
    if training:
        original.eval()
    try:
        answer = original(ids)
    finally:
        if training:
            original.train()
    logits = getattr(answer, "logits", answer)
    if not isinstance(logits, Tensor):
        raise MismatchedParts(
            f"the original returned a {type(logits).__name__}; give a model or function that returns logits"
        )
    return logits
