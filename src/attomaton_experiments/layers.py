"""More heads and layers, skip connections, layer norm and an MLP, with the first paper's one-layer claims.

Layers before the last attend from every position, with identity values as in the authors' code; a skip
connection adds their input and halves the sum. The last layer attends from the last token. It reads a
mixture of the context's tokens, so there is an attention mass on every token, to which both claims apply.
Heads have equal shares in that mass. Layer norm, with a trained gain and bias for every position and
dimension, changes what the next layer reads, and an MLP what the head reads; neither changes the mass. Then
the prediction is the softmax of a tied head.

Settings: ``data``, ``model`` and ``step`` as for training; ``temperature`` of the softmax. With a folder for
``work`` the result of each model is stored there.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from attomaton.claims.limits import dense, solve_trial
from attomaton.corpora import Samples
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.mechanics import draw_corpora
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

RECORDS = 40
"""Records of a run."""


SETTLED = 0.95
"""A trial still moves if its measure has fallen below this share of its value at half of the steps."""


@dataclass(frozen=True)
class LayerVariant:
    """Attention layers and heads, what is between layers, a softmax of a tied head, and the MLP's width."""

    name: str
    n_layers: int = 1
    n_heads: int = 1
    skip: bool = False
    norm: bool = False
    softmax: bool = False
    mlp: int = 0

    def shapes(self, dim: int, window: int) -> list[tuple[int, int]]:
        """The parameters: W of each head, layer by layer; gain and bias of each norm; the MLP's matrices."""
        attention = [(dim, dim)] * (self.n_layers * self.n_heads)
        norms = [(window, dim)] * (2 * (self.n_layers - 1) * self.norm)
        return attention + norms + [(self.mlp, dim), (dim, self.mlp)] * (self.mlp > 0)


VARIANTS = (
    LayerVariant("one layer"),
    LayerVariant("one layer, two heads", n_heads=2),
    LayerVariant("one layer, four heads", n_heads=4),
    LayerVariant("two layers", 2),
    LayerVariant("two layers, two heads each", 2, 2),
    LayerVariant("two layers, skip connection", 2, skip=True),
    LayerVariant("three layers, skip connections", 3, skip=True),
    LayerVariant("one layer, cross-entropy", softmax=True),
    LayerVariant("two layers, skip connection, cross-entropy", 2, skip=True, softmax=True),
    LayerVariant(
        "two layers, skip connection, cross-entropy, layer norm", 2, skip=True, norm=True, softmax=True
    ),
    LayerVariant("one layer and an MLP of 4, cross-entropy", softmax=True, mlp=4),
    LayerVariant("one layer and an MLP of 16, cross-entropy", softmax=True, mlp=16),
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
    batch, finished = gather_trials(settings), FinishedResults(settings["work"])
    about = {name: settings[name] for name in ("seed", "trials", "data", "model", "step", "temperature")}
    curves: dict[str, tuple[Float64, Float64]] = {}
    for number, variant in enumerate(VARIANTS):
        progress(f"{settings['name']}: {variant.name}", number, len(VARIANTS))
        numbers = finished.take(
            variant.name, about | asdict(variant), partial(_train, settings, variant, batch)
        )
        curves[variant.name] = np.array(numbers["missed"]), np.array(numbers["apart"])
    steps = _records(settings)
    return render_figure(
        settings,
        _caption(settings),
        (_table(curves, batch),),
        _numbers(curves, steps),
        partial(_draw, curves, steps),
        verdicts=(),
        notes=(
            f"A trial retrieves if at most {MISSED} of the attention is below the best component. It "
            f"composes if no odds in it differ from those of W_fin by more than {UNINFORMATIVE} (total "
            "variation). "
            f"Otherwise it still moves if its measure has fallen by more than {100 * (1 - SETTLED):.0f} % "
            "since half of the steps.",
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


def _train(settings: Settings, variant: LayerVariant, batch: LayerBatch) -> dict[str, Any]:
    """Mass below the best component, and the largest distance from the odds of W_fin, by record and trial."""
    generator = torch.Generator().manual_seed(settings["seed"])
    n_trials, _, window, dim = batch.keys.shape
    parameters: list[Tensor] = []
    for rows, columns in variant.shapes(dim, window):
        uniform = 2 * torch.rand(n_trials, rows, columns, generator=generator, dtype=torch.float64) - 1
        parameters.append(columns**-0.5 * uniform)
    for norm in range(variant.norm * 2 * (variant.n_layers - 1)):  # gains are 1, biases 0
        parameters[variant.n_layers * variant.n_heads + norm].fill_(1 - norm % 2)
    for parameter in parameters:
        parameter.requires_grad_()
    n_steps, size = settings["step"]["steps"], settings["step"]["size"]
    records = set(_records(settings).tolist())
    missed: list[list[float]] = []
    apart: list[list[float]] = []
    for step in range(n_steps + 1):
        masses, loss = predict_masses(settings, variant, batch, parameters)
        if step in records:
            attention = masses.detach().numpy()
            missed.append((attention * ~batch.inside).sum(axis=2).mean(axis=1).tolist())
            within = attention * batch.inside
            share = within / np.maximum(within.sum(axis=2, keepdims=True), np.finfo(float).tiny)
            apart.append((0.5 * np.abs(share - batch.odds).sum(axis=2).max(axis=1)).tolist())
        slopes = torch.autograd.grad(loss.sum(), parameters)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                length = (slope**2).sum((1, 2), keepdim=True).sqrt() + torch.finfo(slope.dtype).eps
                parameter -= size * slope / length
    return {"missed": missed, "apart": apart}


def predict_masses(
    settings: Settings, variant: LayerVariant, batch: LayerBatch, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The mass on every position of the context, and the loss of every trial."""
    n_attention, window = variant.n_layers * variant.n_heads, batch.keys.shape[2]
    reach = torch.eye(window, dtype=torch.float64).expand(*batch.keys.shape[:2], window, window)
    read = batch.keys
    for layer in range(variant.n_layers - 1):
        pattern = _attend(parameters[layer * variant.n_heads :][: variant.n_heads], read, read)
        halved = variant.skip / 2
        reach, read = ((1 - halved) * (pattern @ flow) + halved * flow for flow in (reach, read))
        if variant.norm:
            gain, bias = (values[:, None] for values in parameters[n_attention + 2 * layer :][:2])
            read = torch.nn.functional.layer_norm(read, read.shape[2:]) * gain + bias
    pattern = _attend(parameters[n_attention - variant.n_heads : n_attention], read, batch.keys[:, :, -1:])
    masses = (pattern @ reach)[:, :, 0]
    if not variant.softmax:
        return masses, -torch.log((masses * batch.hit).sum(-1)).mean(-1)
    output = (pattern @ read)[:, :, 0]
    if variant.mlp:
        hidden = torch.relu(torch.einsum("bhd,bnd->bnh", parameters[-2], output))
        output = output + torch.einsum("bdh,bnh->bnd", parameters[-1], hidden)
    logits = torch.einsum("bnd,bdk->bnk", output, batch.head) / settings["temperature"]
    loss = torch.logsumexp(logits, -1) - torch.gather(logits, 2, batch.labels[:, :, None])[..., 0]
    return masses, loss.mean(-1)


def _attend(heads: Sequence[Tensor], read: Tensor, queries: Tensor) -> Tensor:
    """The mean of the heads' attention patterns, from each of the queries to each position."""
    scores = (torch.einsum("bnsd,bde,bnte->bnts", read, weights, queries) for weights in heads)
    return torch.stack([torch.softmax(score, dim=-1) for score in scores]).mean(0)


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
            *_judge(missed, MISSED),
            f"{np.median(missed[-1]):.2g}",
            *_judge(apart[:, tied], UNINFORMATIVE),
            f"{np.median(apart[-1][tied]):.2g}",
        ]
        for name, (missed, apart) in curves.items()
    ]
    claims = [("retrieve", "mass elsewhere"), ("compose", "distance")]
    headers = [
        header
        for verb, measure in claims
        for header in (f"trials that {verb}", "do not", "still move", f"median {measure}")
    ]
    title = (
        f"Hard retrieval ({len(tied)} trials) and soft composition ({int(tied.sum())} with ties) at the end"
    )
    return Grid(title, ["model", *headers], rows)


def _judge(values: Float64, bound: float) -> list[str]:
    """The number of trials within the bound at the end, settled beyond it, and still moving."""
    inside = values[-1] <= bound
    settled = ~inside & (values[-1] > SETTLED * values[len(values) // 2])
    return [str(int(flags.sum())) for flags in (inside, settled, ~inside & ~settled)]


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
    """Medians over the trials, by step; with cross-entropy dashed, in the colour of the model without."""
    dashed = {variant.name for variant in VARIANTS if variant.softmax}
    solid = [name for name in curves if name not in dashed]
    colours = {name: colour for colour, name in enumerate(solid)}
    free = (colour for colour, name in enumerate(solid) if f"{name}, cross-entropy" not in dashed)
    for name in curves:
        if name in dashed:
            same = name.removesuffix(", cross-entropy")
            colours[name] = colours[same] if same in solid else next(free)
    panels: list[LinePanel] = []
    for number, title in enumerate(("attention below the best component", "distance from the odds of W_fin")):
        lines = [
            Line(
                name,
                steps[1:].tolist(),
                np.median(curves[name][number], axis=1)[1:].tolist(),
                colours[name],
                int(name in dashed),
            )
            for name in curves
        ]
        panels.append(LinePanel(title, lines, log=number == 0, log_axis=False))
    return draw_line_panels(panels, path, caption=caption)
