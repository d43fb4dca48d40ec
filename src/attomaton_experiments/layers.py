"""Two layers, skip connections and an MLP in the first paper's setting, with its one-layer claims.

Layers before the last attend from every position, with identity values as in the authors' code; a skip
connection adds their input and halves the sum. The last layer attends from the last token. It reads a
mixture of the context's tokens, so there is an attention mass on every token, to which both claims apply. An
MLP behind the last layer leaves that mass as it is, but the prediction is the softmax of a tied head.

Settings: ``data``, ``model`` and ``step`` as for training; ``hidden`` and ``temperature`` where there is a
softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from attomaton.automaton import Automaton
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.claims.approach import MISSED, UNINFORMATIVE
from attomaton.claims.measures import dense, solve_trial
from attomaton.corpora import Samples
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.mechanics import draw_corpora
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

RECORDS = 40
"""Records of a run."""


@dataclass(frozen=True)
class LayerVariant:
    """Attention layers, skip connections around all but the last, softmax of a tied head, and an MLP."""

    name: str
    n_layers: int = 1
    skip: bool = False
    softmax: bool = False
    mlp: bool = False


VARIANTS = (
    LayerVariant("one layer"),
    LayerVariant("two layers", 2),
    LayerVariant("two layers, skip connection", 2, skip=True),
    LayerVariant("three layers, skip connections", 3, skip=True),
    LayerVariant("one layer, cross-entropy", softmax=True),
    LayerVariant("one layer and an MLP, cross-entropy", softmax=True, mlp=True),
)


@dataclass(frozen=True, eq=False)
class LayerBatch:
    """All trials as tensors, with where each context's label component is and the Luce odds within it."""

    keys: Tensor  # (n_trials, n_samples, window, dim)
    head: Tensor  # (n_trials, dim, n_tokens): C with C Eᵀ = I
    labels: Tensor  # (n_trials, n_samples)
    hit: Tensor  # (n_trials, n_samples, window): the label's position
    inside: Bool  # the positions of the label's component
    odds: Float64  # the odds of W_fin there, 0 elsewhere

    @property
    def tied(self) -> Bool:
        """Trials with a context in which several tokens tie."""
        return (self.inside.sum(axis=2) > 1).any(axis=1)


def run_layers(settings: Settings, progress: Progress) -> Page:
    """Train every variant on the same draws, and measure retrieval and composition."""
    batch = gather_trials(settings)
    curves: dict[str, tuple[Float64, Float64]] = {}
    for number, variant in enumerate(VARIANTS):
        progress(f"{settings['name']}: {variant.name}", number, len(VARIANTS))
        curves[variant.name] = _train(settings, variant, batch)
    steps = _records(settings)
    return render_figure(
        settings,
        _caption(settings),
        (_table(curves, batch),),
        _numbers(curves, steps),
        partial(_draw, curves, steps),
        verdicts=(),
        notes=(
            f"A trial retrieves if at most {MISSED} of the attention is below the best component, and it "
            f"composes if no odds in it differ from those of W_fin by more than {UNINFORMATIVE} (total "
            "variation).",
        ),
    )


def _records(settings: Settings) -> Int64:
    spaced = [settings["step"]["steps"] * record // RECORDS for record in range(RECORDS + 1)]
    return np.unique(np.array(spaced, np.int64))


def gather_trials(settings: Settings) -> LayerBatch:
    """Draw samples and unit embeddings, and solve the automaton of every trial."""
    corpora = draw_corpora(settings, settings["data"]["draw"])
    rngs = [np.random.default_rng([settings["seed"], trial, 2]) for trial in range(len(corpora))]
    tables = np.stack(
        [rng.normal(size=(settings["data"]["n_tokens"], settings["model"]["dim"])) for rng in rngs]
    )
    tables /= np.linalg.norm(tables, axis=2, keepdims=True)
    arrays_of = [_arrays_of(samples, table) for samples, table in zip(corpora, tables, strict=True)]
    tokens, labels, inside, odds = (np.stack(arrays) for arrays in zip(*arrays_of, strict=True))
    keys = np.take_along_axis(tables[:, None], tokens[..., None], axis=2)
    hit = tokens == labels[:, :, None]
    algebra: Any = np.linalg
    heads: Float64 = algebra.pinv(tables)
    return LayerBatch(
        torch.tensor(keys), torch.tensor(heads), torch.tensor(labels), torch.tensor(hit), inside, odds
    )


def _arrays_of(samples: Samples, table: Float64) -> tuple[Float64, ...]:
    """Tokens and label of each context, the positions of its best component, and the odds of W_fin there."""
    automaton: Automaton = solve_trial(samples, table)
    scores = table @ dense(automaton.soft.weights) @ table.T
    tokens = np.array([context for context, _ in samples])
    labels = np.array([label for _, label in samples])
    query = np.repeat(tokens[:, -1:], tokens.shape[1], axis=1)
    component = automaton.components.components_of(query.ravel(), tokens.ravel()).reshape(tokens.shape)
    best = automaton.components.components_of(tokens[:, -1], labels)
    inside = component == best[:, None]
    odds = np.where(inside, np.exp(scores[tokens, query]), 0.0)
    return tokens, labels, inside, odds / odds.sum(axis=1, keepdims=True)


def _train(settings: Settings, variant: LayerVariant, batch: LayerBatch) -> tuple[Float64, Float64]:
    """Mass below the best component, and the largest distance from the odds of W_fin, by record and trial."""
    generator = torch.Generator().manual_seed(settings["seed"])
    n_trials, dim = batch.keys.shape[0], batch.keys.shape[-1]

    def draw(*shape: int) -> Tensor:
        bound = shape[-1] ** -0.5
        values = torch.rand(n_trials, *shape, generator=generator, dtype=torch.float64)
        return (bound * (2 * values - 1)).requires_grad_()

    parameters = [draw(dim, dim) for _ in range(variant.n_layers)]
    if variant.mlp:
        parameters += [draw(settings["hidden"], dim), draw(dim, settings["hidden"])]
    n_steps, size = settings["step"]["steps"], settings["step"]["size"]
    records = set(_records(settings).tolist())
    missed: list[Float64] = []
    apart: list[Float64] = []
    for step in range(n_steps + 1):
        masses, loss = predict_masses(settings, variant, batch, parameters)
        if step in records:
            attention = masses.detach().numpy()
            missed.append((attention * ~batch.inside).sum(axis=2).mean(axis=1))
            within = attention * batch.inside
            share = within / np.maximum(within.sum(axis=2, keepdims=True), np.finfo(float).tiny)
            apart.append(0.5 * np.abs(share - batch.odds).sum(axis=2).max(axis=1))
        slopes = torch.autograd.grad(loss.sum(), parameters)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                length = (slope**2).sum((1, 2), keepdim=True).sqrt() + torch.finfo(slope.dtype).eps
                parameter -= size * slope / length
    return np.stack(missed), np.stack(apart)


def predict_masses(
    settings: Settings, variant: LayerVariant, batch: LayerBatch, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The mass on every position of the context, and the loss of every trial."""
    window = batch.keys.shape[2]
    reach = torch.eye(window, dtype=torch.float64).expand(*batch.keys.shape[:2], window, window)
    read = batch.keys
    for weights in parameters[: variant.n_layers - 1]:
        pattern = torch.softmax(torch.einsum("bntd,bde,bnse->bnst", read, weights, read), dim=-1)
        reach = (pattern @ reach + reach) / 2 if variant.skip else pattern @ reach
        read = reach @ batch.keys
    scores = torch.einsum("bntd,bde,bne->bnt", read, parameters[variant.n_layers - 1], batch.keys[:, :, -1])
    masses = torch.einsum("bnt,bnts->bns", torch.softmax(scores, dim=-1), reach)
    if not variant.softmax:
        return masses, -torch.log((masses * batch.hit).sum(-1)).mean(-1)
    output = torch.einsum("bns,bnsd->bnd", masses, batch.keys)
    if variant.mlp:
        hidden = torch.relu(torch.einsum("bhd,bnd->bnh", parameters[-2], output))
        output = output + torch.einsum("bdh,bnh->bnd", parameters[-1], hidden)
    logits = torch.einsum("bnd,bdk->bnk", output, batch.head) / settings["temperature"]
    loss = torch.logsumexp(logits, -1) - torch.gather(logits, 2, batch.labels[:, :, None])[..., 0]
    return masses, loss.mean(-1)


def _caption(settings: Settings) -> str:
    data, step = settings["data"], settings["step"]
    return (
        f"{settings['title']}: K = {data['n_tokens']}, d = {settings['model']['dim']}, n = "
        f"{data['n_samples']}, T = {data['window']}, {settings['trials']} trials, the same draws in every "
        f"row, normalised descent, η = {step['size']:g}, {step['steps']:,} steps"
    )


def _table(curves: dict[str, tuple[Float64, Float64]], batch: LayerBatch) -> Grid:
    tied = batch.tied
    rows = [
        [
            name,
            f"{int((missed[-1] <= MISSED).sum())} of {len(tied)}",
            f"{np.median(missed[-1]):.2g}",
            f"{int((apart[-1] <= UNINFORMATIVE)[tied].sum())} of {int(tied.sum())}",
            f"{np.median(apart[-1][tied]):.2g}",
        ]
        for name, (missed, apart) in curves.items()
    ]
    headers = [
        "model",
        "trials that retrieve",
        "median mass elsewhere",
        "trials that compose",
        "median distance",
    ]
    return Grid("Hard retrieval and soft composition at the end", headers, rows)


def _numbers(curves: dict[str, tuple[Float64, Float64]], steps: Int64) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "model": name,
                "step": step,
                "trial": trial,
                "missed": missed[row, trial],
                "apart": apart[row, trial],
            }
            for name, (missed, apart) in curves.items()
            for row, step in enumerate(steps.tolist())
            for trial in range(missed.shape[1])
        ]
    )


def _draw(
    curves: dict[str, tuple[Float64, Float64]], steps: Int64, path: Path, *, caption: str
) -> list[Path]:
    """Medians over the trials, by step."""
    panels: list[LinePanel] = []
    for number, title in enumerate(("attention below the best component", "distance from the odds of W_fin")):
        lines = [
            Line(
                name,
                steps[1:].tolist(),
                np.median(both[number], axis=1)[1:].tolist(),
                colour % 3,
                colour // 3,
            )
            for colour, (name, both) in enumerate(curves.items())
        ]
        panels.append(LinePanel(title, lines, log=number == 0, log_axis=False))
    return draw_line_panels(panels, path, caption=caption)
