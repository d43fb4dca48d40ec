"""The training loop: many trials in one tensor program."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attomaton.corpora.samples import Samples
from attomaton.errors import UnsupportedOption
from attomaton.models.attention import AttentionModel, Trials, lay_out
from attomaton.tables import Float64
from attomaton.training.steps import Parameters, Step
from attomaton.training.trace import Trace


def train(
    samples: Samples | Sequence[Samples],
    model: AttentionModel,
    step: Step,
    *,
    steps: int,
    trials: int | None = None,
    seed: int = 0,
    every: int | None = None,
    device: str = "cpu",
) -> Trace:
    """Train one layer of attention on every trial's samples, all trials side by side.

    Parameters
    ----------
    samples : Samples or sequence of Samples
        One corpus for all trials, or one for each.
    model : AttentionModel
        Embeddings, head, loss; trial i draws its embeddings and W(0) from the generator (seed, i), so it is
        the same alone and among others.
    step : Step
        ``GradientDescent(step_size, normalized=…, momentum=…)`` or ``Adam(step_size)``.
    steps : int
        How many to take.
    trials : int, optional
        How many, for one corpus. None: one, or one for each of the samples given.
    seed : int
        Of all that is drawn.
    every : int, optional
        Record after every so many steps. None: 200 records.
    device : str
        Where PyTorch computes, in doubles.

    Examples
    --------
    >>> from attomaton.models.embeddings import Orthonormal
    >>> from attomaton.training.steps import GradientDescent
    >>> corpus = Samples.from_lists([[0, 1]], [0])
    >>> trace = train(corpus, AttentionModel(Orthonormal()), GradientDescent(1.0), steps=1000)
    >>> weights = trace.at(1000)[0]
    >>> float((weights[0, 1] - weights[1, 1]).round(2))  # ln(2 η t)
    7.6
    """
    corpora = _per_trial(samples, trials)
    tables, starts = _draw(model, corpora, seed)
    batch = lay_out(model, corpora, tables, device=device)
    parameters = tuple(torch.as_tensor(np.stack(part), device=device) for part in zip(*starts, strict=True))
    every = max(steps // 200, 1) if every is None else every
    records = _run(batch, step, parameters, steps=steps, every=every)
    return Trace(
        np.array([number for number, _, _ in records], np.int64),
        np.stack([weights for _, weights, _ in records]),
        np.stack([losses for _, _, losses in records]),
        np.stack(tables),
        tuple(corpora),
        model,
        step,
    )


def _per_trial(samples: Samples | Sequence[Samples], trials: int | None) -> list[Samples]:
    if isinstance(samples, Samples):
        return [samples] * (1 if trials is None else trials)
    if trials is not None and trials != len(samples):
        raise UnsupportedOption(
            f"{len(samples)} corpora for {trials} trials; give one for each, or one for all"
        )
    return list(samples)


def _draw(
    model: AttentionModel, corpora: Sequence[Samples], seed: int
) -> tuple[list[Float64], list[tuple[Float64, ...]]]:
    """Embeddings and W(0) of every trial, each from a generator of its own."""
    tables: list[Float64] = []
    starts: list[tuple[Float64, ...]] = []
    for number, corpus in enumerate(corpora):
        rng = np.random.default_rng([seed, number])
        tables.append(model.embeddings.draw(corpus.n_tokens, rng))
        starts.append(model.draw_start(tables[-1].shape[1], rng))
    return tables, starts


def _run(
    batch: Trials, step: Step, parameters: Parameters, *, steps: int, every: int
) -> list[tuple[int, Float64, Float64]]:
    """Step number, weights and losses of every record."""
    state = step.begin(parameters)
    records: list[tuple[int, Float64, Float64]] = []
    with torch.no_grad():
        for number in range(steps):
            weights = combine(parameters)
            gradient, losses = batch.gradient(weights)
            if number % every == 0:
                records.append((number, weights.cpu().numpy(), losses.cpu().numpy()))
            parameters, state = step.move(parameters, split(parameters, gradient), state, number)
        weights = combine(parameters)
        records.append((steps, weights.cpu().numpy(), batch.loss(weights).cpu().numpy()))
    return records


def combine(parameters: Parameters) -> Tensor:
    """W, shape (b, d, d): itself, or K Qᵀ."""
    return parameters[0] if len(parameters) == 1 else parameters[0] @ parameters[1].transpose(1, 2)


def split(parameters: Parameters, gradient: Tensor) -> Parameters:
    """The gradient by the parameters, from that by W."""
    if len(parameters) == 1:
        return (gradient,)
    keys, queries = parameters
    return gradient @ queries, gradient.transpose(1, 2) @ keys
