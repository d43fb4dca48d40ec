"""Gradients of every head, loss and parametrisation against automatic differentiation of plain loops."""

from decimal import Decimal, localcontext

import numpy as np
import torch

import attomaton as at
from attomaton.graphs.bags import count_tokens
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel, combine_factors, lay_out, split_gradient
from attomaton.training.models.embeddings import EmbeddingTable
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.models.losses import CorrelationLoss, LogLoss, SquaredLoss
from attomaton.training.steps import Adam, GradientDescent
from attomaton_experiments.lookup.lookup import find_pairs, lay_out_lookups
from attomaton_experiments.lookup.parametrisations import Dense, Factored, IndexedPairs, PerQuery, Shared
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of

RELATIVE = 1e-9
HEADS = {"id": TokenId(), "tied": Tied(), "untied": Untied(), "softmax": Untied(temperature=0.7)}
LOSSES = {"log": LogLoss(), "squared": SquaredLoss(), "correlation": CorrelationLoss()}


def loss_by_loops(contexts, labels, table, weights, names):
    """The mean loss, sample by sample, as a tensor to differentiate."""
    head, loss = names
    total = torch.zeros((), dtype=torch.float64)
    inverse = torch.linalg.pinv(table).T
    kept = [(context, label) for context, label in zip(contexts, labels, strict=True) if label in context]
    for context, label in kept:
        keys = table[context]
        attention = torch.softmax(keys @ weights @ keys[-1], 0)
        mixed = keys.T @ attention
        if head == "id":
            value = attention[torch.tensor([token == label for token in context])].sum()
        elif head == "tied":
            value = inverse[label] @ mixed
        elif head == "untied":
            value = table[label] @ mixed
        else:
            value = torch.softmax(table @ mixed / 0.7, 0)[label]
        total = total + {"log": -torch.log(value), "squared": (1 - value) ** 2, "correlation": -value}[loss]
    return total / len(kept)


def draw(rng):
    """Corpora for one to three trials of one shape, embeddings for each, and a head with a loss."""
    head, loss = (str(rng.choice(list(kinds))) for kinds in (HEADS, LOSSES))
    n_tokens, extra, trials = int(rng.integers(2, 7)), int(rng.integers(0, 3)), []
    for _ in range(int(rng.integers(1, 4))):
        contexts, labels, _ = draw_corpus(rng, most_tokens=2, most_samples=6, most_length=5)
        while True:
            contexts = [rng.integers(0, n_tokens, len(context)).tolist() for context in contexts]
            labels = [int(rng.choice(context)) for context in contexts]
            if rng.random() < 0.2:
                labels[0] = int(rng.integers(n_tokens))
            if any(label in context for context, label in zip(contexts, labels, strict=True)):
                break
        table = rng.normal(size=(n_tokens, n_tokens + extra))
        table /= np.linalg.norm(table, axis=1, keepdims=True)  # so that no value is lost by cancellation
        if head == "untied":
            table = np.abs(table)  # so that the logarithm is of a positive number
        trials.append((contexts, labels, table))
    return head, loss, n_tokens, trials


def _relative(told, exact):
    scale = float(exact.abs().max())
    return float((told - exact).abs().max()) / max(scale, 1e-3)


def _loss_apart(exact, told):
    return abs(float(exact.detach() - told)) / (1 + abs(float(exact.detach())))


def attack_heads(rng) -> Finding:
    """∇L, the loss and the Hessian of W, and the gradients of K and Q, several trials at once."""
    head, loss, n_tokens, trials = draw(rng)
    model = AttentionModel(EmbeddingTable(trials[0][2]), head=HEADS[head], loss=LOSSES[loss])
    corpora = [at.Samples.from_lists(c, y, n_tokens=n_tokens) for c, y, _ in trials]
    batch = lay_out(model, corpora, [table for _, _, table in trials])
    dim, rank = trials[0][2].shape[1], int(rng.integers(1, 4))
    size = float(rng.choice([0.01, 0.3, 1.0]))
    keys, queries = (torch.tensor(rng.normal(size=(len(trials), dim, rank)) * size) for _ in range(2))
    factors = (keys, queries)
    weights = combine_factors(factors)
    gradient, losses = batch.gradient(weights)
    parts = split_gradient(factors, gradient)
    hessians = batch.hessian(weights)
    checks = []
    for number, (contexts, labels, table) in enumerate(trials):
        data = contexts, labels, torch.tensor(table)
        left, right = (one[number].clone().requires_grad_() for one in factors)
        whole = weights[number].clone().requires_grad_()
        exact = loss_by_loops(*data, whole, (head, loss))
        by_factors = loss_by_loops(*data, left @ right.T, (head, loss))
        slopes = torch.autograd.grad(exact, whole)[0]
        by_left, by_right = torch.autograd.grad(by_factors, (left, right))
        bent = torch.autograd.functional.hessian(
            lambda w, data=data: loss_by_loops(*data, w.reshape(dim, dim), (head, loss)),
            whole.detach().reshape(-1),
        )
        checks += [
            ("loss", _loss_apart(exact, losses[number]), RELATIVE),
            ("gradient", _relative(gradient[number], slopes), RELATIVE),
            ("gradient of K", _relative(parts[0][number], by_left), RELATIVE),
            ("gradient of Q", _relative(parts[1][number], by_right), RELATIVE),
            ("Hessian", _relative(hessians[number], bent), 1e-7),
        ]
    contexts, labels, table = trials[0]
    case = describe(contexts, labels, n_tokens, head=head, loss=loss, rank=rank, embeddings=table)
    return worst_of(checks, len(contexts) * len(trials), case)


def attack_parametrisations(rng) -> Finding:
    """Scores and gradients of ``Dense``, ``PerQuery``, ``Shared`` and ``Factored`` at corpus layout."""
    contexts, labels, n_tokens = draw_corpus(rng, unrealisable=0.1)
    kept = [(c, y) for c, y in zip(contexts, labels, strict=True) if y in c] or [([0], 0)]
    contexts, labels = ([one[place] for one in kept] for place in (0, 1))
    bags = count_tokens(at.Samples.from_lists(contexts, labels, n_tokens=n_tokens))
    pairs = find_pairs([bags])
    rank, scale = int(rng.integers(1, 4)), float(rng.choice([0.0, 0.3, 1.0]))
    kind = (Dense(), PerQuery(), Shared(scale=scale), Factored(rank=rank))[int(rng.integers(4))]
    shapes = [part.shape for part in kind.draw_start(pairs, rng)]
    size = float(rng.choice([0.1, 1.0, 5.0]))
    parameters = tuple(torch.tensor(size * rng.normal(size=shape)) for shape in shapes)
    scores = kind.scores(parameters, IndexedPairs.of(pairs))
    slopes, loss = lay_out_lookups(bags, pairs).slopes(scores)
    told = kind.pull_back(parameters, IndexedPairs.of(pairs), slopes)
    mine = tuple(part.clone().requires_grad_() for part in parameters)
    order = sorted({(context[-1], token) for context in contexts for token in context})
    exact = _loss_of_pairs(contexts, labels, lambda query, token: _score(kind, mine, order, query, token))
    found = torch.autograd.grad(exact, mine, allow_unused=True)
    checks = [("loss", _loss_apart(exact, loss), RELATIVE)]
    for part, slope, given in zip(told, found, parameters, strict=True):
        slope = torch.zeros_like(given) if slope is None else slope
        checks.append((f"gradient of {kind}", _relative(part, slope), RELATIVE))
    case = describe(contexts, labels, n_tokens, kind=str(kind), size=size)
    return worst_of(checks, len(contexts), case)


def _score(kind, parameters, order, query, token):
    """The definition of each parametrisation."""
    if isinstance(kind, Dense):
        return parameters[0][0, token, query]
    if isinstance(kind, Factored):
        return (parameters[0][0, token] * parameters[1][0, query]).sum()
    own = parameters[0][0, 0, order.index((query, token))]
    return own + kind.scale * parameters[1][0, 0, token] if isinstance(kind, Shared) else own


def _loss_of_pairs(contexts, labels, score):
    total = torch.zeros((), dtype=torch.float64)
    for context, label in zip(contexts, labels, strict=True):
        logits = torch.stack([score(context[-1], token) for token in context])
        right = torch.tensor([token == label for token in context])
        total = total + torch.logsumexp(logits, 0) - torch.logsumexp(logits[right], 0)
    return total / len(contexts)


def attack_training(rng) -> Finding:
    """``train`` for a few steps of every kind against plain steps along automatic gradients."""
    head, loss, n_tokens, trials = draw(rng)
    contexts, labels, table = trials[0]
    rank = None if rng.random() < 0.5 else int(rng.integers(1, 4))
    model = AttentionModel(EmbeddingTable(table), head=HEADS[head], loss=LOSSES[loss], rank=rank, start=0.5)
    pace, momentum = float(10 ** rng.uniform(-2, 0)), float(rng.choice([0.0, 0.9]))
    normalized = bool(rng.random() < 0.3)
    adam = rng.random() < 0.3
    step = Adam(pace) if adam else GradientDescent(pace, momentum=momentum, normalized=normalized)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    trace = train(samples, model, step, steps=5, seed=3, watch=Watch(every=1))
    start = model.draw_start(table.shape[1], np.random.default_rng([3, 0]))
    mine = [torch.tensor(one).requires_grad_() for one in start]
    data = contexts, labels, torch.tensor(table)
    plain = torch.optim.SGD(mine, lr=pace, momentum=momentum)
    chosen = torch.optim.Adam(mine, lr=pace) if adam else plain
    checks = []
    for number in range(6):
        whole = mine[0] if rank is None else mine[0] @ mine[1].T
        told = torch.tensor(trace.weights[number, 0])
        if torch.isfinite(whole).all() and float(whole.detach().abs().max()) < 1e3:
            checks.append((f"weights after {number} steps", _relative(told, whole.detach()), 1e-7))
        chosen.zero_grad()
        loss_by_loops(*data, whole, (head, loss)).backward()
        if normalized and not adam:
            norm = torch.sqrt(sum((one.grad**2).sum() for one in mine))
            if norm < 1e-9:  # nothing to normalise: rounding decides
                break
            for one in mine:
                one.grad /= norm
        chosen.step()
    case = describe(
        contexts, labels, n_tokens, head=head, loss=loss, rank=rank, step=str(step), embeddings=table
    )
    return worst_of(checks, len(contexts), case)


def attack_saturated(rng) -> Finding:
    """The token-id head where attention is all but settled: gradients keep their digits, however small.

    That is promised of each sample; terms of several samples may cancel. Of squared loss it is not promised:
    its slope 1 − u is lost where u rounds to 1.
    """
    contexts, labels, n_tokens = draw_corpus(rng, most_samples=5)
    loss = str(rng.choice(["log", "correlation"]))
    model = AttentionModel(EmbeddingTable(np.eye(n_tokens)), head=TokenId(), loss=LOSSES[loss])
    weights = rng.normal(size=(n_tokens, n_tokens)) * float(rng.choice([5.0, 30.0, 80.0]))
    batch = lay_out(model, [at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)], [np.eye(n_tokens)])
    told = batch.gradient(torch.tensor(weights)[None])[0][0]
    with localcontext() as context:
        context.prec = 400
        exact, largest = _saturated(contexts, labels, weights, loss)
        if largest < Decimal("1e-290"):
            return unjudged("beyond doubles")
        apart = max(
            abs(Decimal(float(told[i, j])) - exact[i][j]) for i in range(n_tokens) for j in range(n_tokens)
        )
        deviation = float(apart / largest)
    case = describe(contexts, labels, n_tokens, loss=loss, weights=weights)
    return Finding(deviation, 1e-9, f"gradient, {loss}, relative", len(contexts), case)


def _saturated(contexts, labels, weights, loss):
    """∇L of the token-id head in long decimals, and the largest term that a single sample adds to it."""
    size, largest = len(weights), Decimal(0)
    total = [[Decimal(0)] * size for _ in range(size)]
    for context, label in zip(contexts, labels, strict=True):
        odds = [Decimal(float(weights[token, context[-1]])).exp() for token in context]
        whole = sum(odds)
        probability = [value / whole for value in odds]
        right = sum(value for value, token in zip(probability, context, strict=True) if token == label)
        slope = -1 / right if loss == "log" else Decimal(-1)
        for value, token in zip(probability, context, strict=True):
            term = slope * value * (int(token == label) - right) / len(contexts)
            total[token][context[-1]] += term
            largest = max(largest, abs(term))
    return total, largest
