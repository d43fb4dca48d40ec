"""Claims about margins: sound runs never fail, broken ones never hold; shares are those of plain loops."""

from dataclasses import replace

import numpy as np

import attomaton as at
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.margin_claims import MARGIN_CLAIMS
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal
from attomaton.training.models.losses import SquaredLoss
from attomaton.training.steps import Adam, Decay, GradientDescent, Muon, SignDescent, SpectralDescent
from tests.adversary.draws import describe
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.norms import SOLVED, find_least
from tests.adversary.reference.automaton import constraints_of
from tests.adversary.reference.descent import curvatures_of
from tests.adversary.reference.graphs import graphs_of

SOUND = ("plain", "normalised", "sign", "sign, one size", "adam", "spectral", "muon")
SPOILT = ("negated", "turned", "swapped")
OUTSIDE = ("cycle", "momentum", "adam, one size", "squared loss")


def draw_ordered(rng):
    """Contexts whose label comes first in an order of their query, some tokens repeated; few or one token."""
    n_tokens = int(rng.integers(2, 7))
    orders = [rng.permutation(n_tokens) for _ in range(n_tokens)]
    contexts, labels = [], []
    for _ in range(int(rng.integers(1, 8))):
        context = rng.integers(0, n_tokens, int(rng.integers(1, 6))).tolist()
        if rng.random() < 0.5:
            context[-1] = 0
        contexts.append(context)
        labels.append(min(context, key=orders[context[-1]].tolist().index))
    return contexts, labels, n_tokens


def draw_table(rng, n_tokens):
    """Orthonormal, or independent rows of unequal lengths."""
    if rng.random() < 0.6:
        return None
    table = rng.normal(size=(n_tokens, n_tokens + int(rng.integers(0, 3))))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    return table * rng.choice([1.0, 1.0, 0.3, 3.0], (n_tokens, 1))


def draw_step(rng, kind, contexts, labels, table):
    """A step of this kind, its size from small to as large as its theorem allows, or plain if none."""
    size, fall = float(10 ** rng.uniform(-2, -0.3)), Decay(float(rng.choice([0.5, 0.7])))
    if kind == "normalised":
        return GradientDescent(size, normalized=True, schedule=fall if rng.random() < 0.5 else None)
    steps = {
        "sign": lambda: SignDescent(size, schedule=fall),
        "sign, one size": lambda: SignDescent(0.1 * size),
        "adam": lambda: Adam(size, (0.9, 0.99), 0.0, fall),
        "adam, one size": lambda: Adam(size),
        "spectral": lambda: SpectralDescent(size, schedule=fall),
        "muon": lambda: Muon(size, schedule=fall),
        "momentum": lambda: GradientDescent(size, momentum=0.9),
    }
    if kind in steps:
        return steps[kind]()
    _, limit, first = curvatures_of(contexts, labels, table)
    return GradientDescent(float(2 / max(limit, first, 1e-3) * rng.uniform(0.05, 0.6)))


def measure(weights, table, edges, norm):
    """The margin of W over its norm, edge by edge."""
    if not np.isfinite(weights).all():
        return -np.inf  # weights overflowed: nothing may hold
    places = [(row, column) for row in range(len(weights)) for column in range(len(weights))]
    gaps = [
        sum((table[i, a] - table[j, a]) * weights[a, b] * table[k, b] for a, b in places) for i, j, k in edges
    ]
    size = {"max": np.abs(weights).max(), "frobenius": np.sqrt((weights**2).sum())}.get(norm)
    size = np.sqrt(np.linalg.eigvalsh(weights.T @ weights)[-1]) if size is None else size
    return min(gaps) / size if size > 0 else 0.0


def break_run(rng, kind, trace):
    """The same run, its weights wrong after half of the steps."""
    late = (trace.steps > trace.steps[-1] / 2)[:, None, None, None]
    weights = trace.weights
    if kind == "negated":
        wrong = -weights
    elif kind == "turned":
        wrong = np.linalg.qr(rng.normal(size=weights.shape[2:]))[0] @ weights
    elif kind == "swapped":
        wrong = weights[:, :, ::-1]
    else:
        return trace
    return replace(trace, weights=np.ascontiguousarray(np.where(late, wrong, weights)))


def attack(rng) -> Finding:
    """Train by some optimiser, sound or with something broken, and judge margins in every norm."""
    kind = str(rng.choice(SOUND if rng.random() < 0.6 else SPOILT + OUTSIDE))
    contexts, labels, n_tokens = draw_ordered(rng)
    if kind == "cycle":
        contexts, labels, n_tokens = [*contexts, [0, 1], [0, 1]], [*labels, 0, 1], max(n_tokens, 2)
    given = draw_table(rng, n_tokens)
    table = np.eye(n_tokens) if given is None else given
    edges, ties = constraints_of(graphs_of(contexts, labels))
    if not edges:
        return unjudged("nothing precedes", kind)
    ran = str(rng.choice(SOUND)) if kind in SPOILT else kind
    step = draw_step(rng, ran, contexts, labels, table)
    loss = {"loss": SquaredLoss()} if kind == "squared loss" else {}
    model = AttentionModel(Orthonormal() if given is None else EmbeddingTable(given), **loss)
    steps = int(10 ** rng.uniform(2.2, 3.3))
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    trace = break_run(rng, kind, at.train(samples, model, step, steps=steps))
    evidence = Evidence(trace, tuple(solve_trials(trace)))
    told = [claim.check(evidence) for claim in MARGIN_CLAIMS]
    case = describe(contexts, labels, n_tokens, embeddings=given, step=str(step), steps=steps)
    held = [one for one in told if one.status is VerdictStatus.HOLDS]
    checks = []
    for one in told:
        norm = one.claim.removeprefix("margin-")
        share = measure(trace.weights[-1, 0], table, edges, norm) if not any(ties) else -1.0
        if kind in SOUND:
            checks.append((f"{one.claim} fails", float(one.fails), 0.0))
        elif kind in OUTSIDE or share <= 0:
            checks.append((f"{one.claim} holds", float(one in held), 0.0))
        if one.value is not None:
            least = find_least(table, edges, ties, norm)
            if least is not None and np.isfinite(least):
                allowed = 10 * SOLVED[norm] * max(abs(share * least), 1.0)
                checks.append((f"share of {one.claim}", abs(one.value - share * least), allowed))
    if kind in SOUND and not any(one.value is not None for one in told):
        return unjudged("no claim was judged", kind)
    return worst_of(checks, len(contexts), case, kind=kind)
