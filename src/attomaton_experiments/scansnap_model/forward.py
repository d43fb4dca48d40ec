"""The forward passes of the Y/Z model.

On counts of the tokens before the query: without positions, sequences with equal counts are equal. And on the
sequences themselves, Yᵀ LN(attention(X) X) at the last position: the definition, with the same result.
"""

import torch
from torch import Tensor


def logits_of_counts(
    decoder: Tensor, scores: Tensor, counts: Tensor, queries: Tensor, *, normalize: bool = True
) -> Tensor:
    """Logits of the next token from counts of the tokens before the query.

    Parameters
    ----------
    decoder : tensor, shape (n_trials, n_keys, n_tokens)
        Y.
    scores : tensor, shape (n_trials, n_queries, n_keys)
        Z.
    counts : tensor, shape (n_trials, n_samples, n_keys)
        How often each token occurs before the query.
    queries : integer tensor, shape (n_trials, n_samples)
        The row of Z for each sample.
    normalize : bool
        Whether the output of attention is divided by its norm, LN(v) = v/‖v‖.

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


def logits_of_sequences(decoder: Tensor, scores: Tensor, tokens: Tensor, *, normalize: bool = True) -> Tensor:
    """Logits at the last position of each sequence: the definition of the layer.

    The query attends to the positions before it, not to itself.

    Parameters
    ----------
    decoder, scores : tensors, each of shape (n_trials, n_tokens, n_tokens)
        Y and Z.
    tokens : integer tensor, shape (n_trials, n_samples, length)
        The last one is the query.
    normalize : bool
        Whether the output of attention is divided by its norm.

    Returns
    -------
    tensor, shape (n_trials, n_samples, n_tokens)

    Examples
    --------
    >>> decoder, scores = torch.eye(3).double()[None], torch.zeros(1, 3, 3).double()
    >>> scores[0, 2, 1] = 1.0986123  # ln 3: the query 2 prefers token 1
    >>> tokens = torch.tensor([[[0, 1, 0, 2]]])
    >>> logits_of_sequences(decoder, scores, tokens, normalize=False).round(decimals=4).tolist()
    [[[0.4, 0.6, 0.0]]]
    """
    hidden = torch.eye(scores.shape[-1], dtype=scores.dtype)[tokens]
    keys, queries = hidden[:, :, :-1], hidden[:, :, -1:]
    mixed = torch.softmax(queries @ scores[:, None] @ torch.transpose(keys, 2, 3), dim=3) @ keys
    if normalize:
        mixed = mixed / torch.sqrt((mixed * mixed).sum(dim=3, keepdim=True))
    return (mixed @ decoder[:, None])[:, :, 0]
