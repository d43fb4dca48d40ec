"""The forward passes of the Y/Z model.

On sequences, with as many layers as asked for: X ← Y ᵀ LN(attention(X) X (+ X)), ReLU between layers, as the
authors train it. And on counts, for one layer without positions, where sequences of equal counts are equal:
the same numbers, faster.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def logits_of_counts(
    decoder: Tensor, scores: Tensor, counts: Tensor, queries: Tensor, *, normalize: bool = True
) -> Tensor:
    """Logits of the next token from counts of the tokens before the query.

    Parameters
    ----------
    decoder : tensor, shape (n_trials, n_used, n_tokens)
        Y.
    scores : tensor, shape (n_trials, n_queries, n_used)
        Z.
    counts : tensor, shape (n_trials, n_samples, n_used)
        How often each token stands before the query.
    queries : integer tensor, shape (n_trials, n_samples)
        Row of Z that each sample asks.
    normalize : bool
        Whether attention's output is divided by its norm, LN(v) = v/‖v‖.

    Returns
    -------
    tensor, shape (n_trials, n_samples, n_tokens)

    Examples
    --------
    >>> decoder, scores = torch.eye(3).double()[None], torch.tensor([[[1.0, 3.0, 1.0]]]).double().log()
    >>> counts = torch.tensor([[[2.0, 1.0, 0.0]]])  # token 0 twice, token 1 once, before the one query
    >>> logits = logits_of_counts(decoder, scores, counts, torch.tensor([[0]]), normalize=False)
    >>> logits.round(decimals=4).tolist()  # 2 · 1 and 1 · 3, over their sum
    [[[0.4, 0.6, 0.0]]]
    """
    trial = torch.arange(len(scores))[:, None]
    mixed = counts * torch.exp(scores - scores.amax(dim=2, keepdim=True).detach())[trial, queries]
    total = (
        torch.sqrt((mixed * mixed).sum(dim=2, keepdim=True)) if normalize else mixed.sum(dim=2, keepdim=True)
    )
    return torch.bmm(mixed / total, decoder)


def logits_of_sequences(
    decoders: Sequence[Tensor],
    scores: Sequence[Tensor],
    tokens: Tensor,
    *,
    residual: bool = False,
    normalize: bool = True,
) -> Tensor:
    """Logits at the last position of each sequence, one layer after the other.

    A position attends to the ones before it, not to itself; the first one, which has none, attends to itself.

    Parameters
    ----------
    decoders, scores : sequences of tensors, each of shape (n_trials, n_tokens, n_tokens)
        Y and Z of every layer.
    tokens : integer tensor, shape (n_trials, n_samples, length)
        The last one is the query.
    residual : bool
        Whether the input of a layer is added to what it attends to.
    normalize : bool
        Whether that is then divided by its norm.

    Returns
    -------
    tensor, shape (n_trials, n_samples, n_tokens)

    Examples
    --------
    >>> decoder, scores = torch.eye(3).double()[None], torch.zeros(1, 3, 3).double()
    >>> scores[0, 2, 1] = 1.0986123  # ln 3: the query 2 asks for token 1
    >>> tokens = torch.tensor([[[0, 1, 0, 2]]])
    >>> logits_of_sequences([decoder], [scores], tokens, normalize=False).round(decimals=4).tolist()
    [[[0.4, 0.6, 0.0]]]
    """
    hidden = torch.eye(scores[0].shape[-1], dtype=scores[0].dtype)[tokens]
    length = tokens.shape[-1]
    barred = torch.ones(length, length, dtype=torch.bool).triu()
    barred[0, 0] = False
    for depth, (decoder, score) in enumerate(zip(decoders, scores, strict=True)):
        if depth:
            hidden = torch.relu(hidden)
        asked = hidden @ score[:, None] @ torch.transpose(hidden, 2, 3)
        mixed = torch.softmax(torch.where(barred, -torch.inf, asked), dim=3) @ hidden
        if residual:
            mixed = mixed + hidden
        if normalize:
            mixed = mixed / torch.sqrt((mixed * mixed).sum(dim=3, keepdim=True))
        hidden = mixed @ decoder[:, None]
    return hidden[:, :, -1]
