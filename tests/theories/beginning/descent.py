"""Plain full-batch gradient descent of the deep attention-only model, written out in torch by autograd."""

import torch


def descend(tokens, *, n_tokens, n_layers, step_size, steps, start=0.0):
    """The weights after so many steps from Gaussian numbers of size ``start``.

    They are attention, positions, values (a layer each) and output.
    """
    tokens = torch.as_tensor(tokens)
    inputs, labels = torch.nn.functional.one_hot(tokens[:, :-1], n_tokens).double(), tokens[:, 1:]
    window = inputs.shape[1]
    place = torch.arange(window)
    lag = place[:, None] - place[None, :]
    shapes = [(n_layers, n_tokens, n_tokens), (n_layers, window), (n_layers, n_tokens, n_tokens)]
    draws = torch.Generator().manual_seed(0)
    weights = [
        start * torch.randn(shape, dtype=torch.float64, generator=draws)
        for shape in [*shapes, (n_tokens, n_tokens)]
    ]
    for _ in range(steps):
        attention, positions, values, output = (one.requires_grad_() for one in weights)
        hidden = inputs
        for layer in range(n_layers):
            scores = hidden @ attention[layer] @ hidden.mT + positions[layer][lag.clamp(min=0)]
            shares = torch.softmax(scores.masked_fill(lag < 0, -torch.inf), dim=-1)
            hidden = hidden + shares @ hidden @ values[layer]
        logits = (hidden @ output).reshape(-1, n_tokens)
        loss = torch.nn.functional.cross_entropy(logits, labels.reshape(-1))
        slopes = torch.autograd.grad(loss, weights)
        weights = [(one - step_size * slope).detach() for one, slope in zip(weights, slopes, strict=True)]
    names = ("attention", "positions", "values", "output")
    return {name: one.detach().numpy() for name, one in zip(names, weights, strict=True)}
