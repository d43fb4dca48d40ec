"""Sound runs, on which no claim may fail, and runs with a broken assumption, on which none of it may hold.

``python -m tests.claims.campaign --runs 500 --seed 1`` prints one table and one JSON line; its exit code is 1
if a verdict is wrong. ``--claim components`` judges this claim alone.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

import attomaton as at
from attomaton.base.errors import StepBeyondEdge
from attomaton.claims.evidence import Evidence
from attomaton.claims.limits import solve_trials
from attomaton.claims.mechanics import MECHANICS_CLAIMS
from attomaton.training.configuration import describe
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal, RandomUnit
from attomaton.training.models.heads import Tied, TokenId, Untied
from attomaton.training.models.losses import CorrelationLoss, LogLoss, SquaredLoss
from attomaton.training.steps import Adam, GradientDescent

LIMITS = {"norm grows", "direction", "finite part", "hard retrieval", "soft composition"}
EXACT = {"third term", "fast-forward"}
GLOBAL = LIMITS | EXACT | {"components"}
RUN = GLOBAL | {"local direction"}
CONVEX = {"convex", "strictly convex inside"}
COSTLY = CONVEX | {"regularisation path"}

EVERY = 5
"""Claims about data that take long are judged in one of so many runs; always where they were broken."""


@dataclass
class Case:
    """A run, and the claims whose assumptions were broken on purpose."""

    kind: str
    trace: object
    broken: frozenset = frozenset()


def draw_samples(rng, *, most=8, least=3, cyclic=None):
    """Contexts of two to six tokens, perhaps with repetitions, labels among them."""
    while True:
        n_tokens, n_samples = int(rng.integers(least, most + 1)), int(rng.integers(3, 13))
        repeats = rng.random() < 0.5
        contexts = []
        for _ in range(n_samples):
            length = int(rng.integers(2, min(7, n_tokens + 1)))
            contexts.append(rng.choice(n_tokens, length, replace=repeats).tolist())
        samples = at.Samples.from_lists(
            contexts, [int(rng.choice(one)) for one in contexts], n_tokens=n_tokens
        )
        ties, strict = compare(samples)
        if strict and (cyclic is None or bool(ties) == cyclic):
            return samples


def compare(samples):
    """Ties (query, token, token) and priorities, by closure of what beats what."""
    ties, strict = [], []
    beats = {}
    for context, label in samples:
        reach = beats.setdefault(context[-1], np.zeros((samples.n_tokens,) * 2, bool))
        for token in set(context) - {label}:
            reach[label, token] = True
    for query, reach in beats.items():
        for middle in range(samples.n_tokens):
            reach |= reach[:, [middle]] & reach[[middle], :]
        both = reach & reach.T
        ties += [(query, int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(both, 1)), strict=True)]
        strict += [(query, int(i), int(j)) for i, j in zip(*np.nonzero(reach & ~reach.T), strict=True)]
    return ties, strict


def draw_embeddings(rng, n_tokens):
    """Orthonormal, or random unit vectors that are independent."""
    if rng.random() < 0.4:
        return Orthonormal()
    return RandomUnit(n_tokens + int(rng.integers(0, 4)))


def find_curvature(samples, table):
    """λ_max of the loss on contexts reduced to the label's component, at its minimum: Newton in W."""
    ties, _ = compare(samples)
    tied = {(k, i, j) for k, i, j in ties} | {(k, j, i) for k, i, j in ties}
    groups = []
    for context, label in samples:
        inside = [x for x in context if x == label or (context[-1], label, x) in tied]
        rows = np.array([np.outer(table[x], table[context[-1]]).ravel() for x in inside])
        groups.append((rows, np.array([x == label for x in inside])))
    weights = np.zeros(table.shape[1] ** 2)

    def bend(weights):
        slope, hessian, loss = np.zeros_like(weights), np.zeros((len(weights),) * 2), 0.0
        for rows, hit in groups:
            p = np.exp(rows @ weights - (rows @ weights).max())
            p, own = p / p.sum(), p[hit] / p[hit].sum()
            loss -= np.log(p[hit].sum()) / len(groups)
            mean = p @ rows
            slope += (mean - own @ rows[hit]) / len(groups)
            hessian += (rows.T * p @ rows - np.outer(mean, mean)) / len(groups)
        return loss, slope, hessian

    for _ in range(200):
        loss, slope, hessian = bend(weights)
        move = -np.linalg.lstsq(hessian + 1e-13 * np.eye(len(weights)), slope, rcond=1e-11)[0]
        length = 1.0
        while bend(weights + length * move)[0] > loss and length > 1e-9:
            length /= 2
        weights = weights + length * move
        if np.abs(slope).max() < 1e-12:
            break
    return float(np.linalg.eigvalsh(bend(weights)[2])[-1])


def edge_of(rng, samples, embeddings, seed):
    """2/λ_max for the embeddings that train will draw; 4 if nothing ties."""
    table = embeddings.draw(samples.n_tokens, np.random.default_rng([seed, 0]))
    steepest = find_curvature(samples, table)
    return 2.0 / steepest if steepest > 1e-9 else 4.0


def run(samples, model, step, *, steps, seed):
    return at.train(samples, model, step, steps=steps, seed=seed)


def draw_sound(rng, *, fewest=2_000, most=20_000):
    """Plain below the edge, or normalised: log-loss, mass head, enough steps to be long or short."""
    samples, seed = draw_samples(rng), int(rng.integers(2**31))
    embeddings, start = draw_embeddings(rng, samples.n_tokens), float(rng.integers(2))
    head = TokenId() if rng.random() < 0.7 else Tied()
    if rng.random() < 0.6:
        share = 10 ** rng.uniform(-2, np.log10(0.95))
        step, kind = GradientDescent(share * edge_of(rng, samples, embeddings, seed)), "plain"
    else:
        step, kind = GradientDescent(10 ** rng.uniform(-2.3, -1.3), normalized=True), "normalised"
    steps = int(10 ** rng.uniform(np.log10(fewest), np.log10(most)))
    model = AttentionModel(embeddings, head, start=start)
    return Case(kind, run(samples, model, step, steps=steps, seed=seed))


def beyond_edge(rng, seed):
    samples = draw_samples(rng, cyclic=True)
    embeddings = draw_embeddings(rng, samples.n_tokens)
    if rng.random() < 0.2:
        embeddings = EmbeddingTable(rng.uniform(0.5, 2.0, (samples.n_tokens, 1)) * np.eye(samples.n_tokens))
    step = GradientDescent(10 ** rng.uniform(0.005, 0.6) * edge_of(rng, samples, embeddings, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepBeyondEdge)
        trace = run(samples, AttentionModel(embeddings), step, steps=int(rng.integers(500, 4000)), seed=seed)
    return trace, RUN


def plain_or_normal(rng):
    return GradientDescent(0.5) if rng.random() < 0.5 else GradientDescent(0.02, normalized=True)


def trained(rng, seed, step=None, *, steps=(1_000, 4_000), cyclic=None, least=3, **options):
    samples = draw_samples(rng, cyclic=cyclic, least=least)
    model = AttentionModel(draw_embeddings(rng, samples.n_tokens), **options)
    step = plain_or_normal(rng) if step is None else step
    return run(samples, model, step, steps=int(rng.integers(*steps)), seed=seed)


def other_loss(rng, seed):
    loss = SquaredLoss() if rng.random() < 0.5 else CorrelationLoss()
    return trained(rng, seed, loss=loss), GLOBAL | CONVEX


def untied_head(rng, seed):
    loss = SquaredLoss() if rng.random() < 0.7 else LogLoss()
    trace = trained(rng, seed, head=Untied(1.0), loss=loss)
    return trace, GLOBAL | CONVEX | {"regularisation path"}


def momentum(rng, seed):
    step = replace(plain_or_normal(rng), momentum=float(rng.uniform(0.1, 0.95)))
    return trained(rng, seed, step), RUN


def adam(rng, seed):
    return trained(rng, seed, Adam(float(10 ** rng.uniform(-3, -1)))), RUN


def falling(step):
    return 1.0 / (1.0 + 0.01 * step)


def schedule(rng, seed):
    return trained(rng, seed, replace(plain_or_normal(rng), schedule=falling)), RUN


def factored(rng, seed):
    return trained(rng, seed, rank=int(rng.integers(1, 4)), start=1.0), RUN


def huge_start(rng, seed):
    start = float(10 ** rng.uniform(1.5, 2.5))
    return trained(rng, seed, start=start, least=4), {"direction", "local direction"}


def too_few_steps(rng, seed):
    return trained(rng, seed, steps=(1, 100), start=float(rng.integers(2))), RUN


def tiny_steps(rng, seed):
    step = GradientDescent(10 ** rng.uniform(-6, -4), normalized=rng.random() < 0.5)
    return trained(rng, seed, step), {"hard retrieval", "third term", "finite part", "soft composition"}


def long_steps(rng, seed):
    """Normalised steps so long that their swings hide the finite part."""
    step = GradientDescent(float(rng.uniform(0.21, 3.0)), normalized=True)
    return trained(rng, seed, step, cyclic=True), {"finite part", "soft composition"} | EXACT


def dependent(rng, seed):
    samples = draw_samples(rng, least=4)
    dim = int(rng.integers(2, samples.n_tokens))
    tied = rng.random() < 0.6
    model = AttentionModel(RandomUnit(dim), Tied() if tied else TokenId())
    trace = run(samples, model, GradientDescent(0.02, normalized=True), steps=2_000, seed=seed)
    return trace, {"feasible"} | (GLOBAL | CONVEX if tied else EXACT)


def turned(rng, seed):
    """All weights turned by one rotation."""
    trace = trained(rng, seed, least=5)
    rotation = np.linalg.qr(rng.normal(size=trace.weights.shape[2:]))[0]
    return replace(trace, weights=rotation @ trace.weights), RUN - {"norm grows"}


def shifted(rng, seed, swing=None):
    """The weights moved by a tie's direction: all alike, or to and fro."""
    trace = trained(rng, seed, cyclic=True)
    ties, _ = compare(trace.samples[0])
    query, one, other = ties[int(rng.integers(len(ties)))]
    table = trace.embeddings[0]
    along = np.outer(table[one] - table[other], table[query])
    signs = np.ones(len(trace.steps)) if swing is None else swing(np.arange(len(trace.steps)))
    moved = trace.weights + (2.0 * signs[:, None, None] * along / np.linalg.norm(along))[:, None]
    return replace(trace, weights=moved), {"finite part", "soft composition"} | EXACT


def swinging(rng, seed):
    return shifted(rng, seed, lambda number: np.where(number % 2, -1.0, 1.0))


def moved_gap(trace, gap, rise):
    """The weights after half of the steps, moved so that a gap (query, token, token) rises by so much."""
    query, upper, lower = gap
    table, steps = trace.embeddings[0], trace.steps
    along = np.outer(table[upper] - table[lower], table[query])
    share = np.einsum("ij,rbij->rb", along, trace.weights)[:, 0]
    late = steps > steps[-1] / 2
    size = np.zeros(len(steps))
    size[late] = rise(share[late], share[np.abs(steps - steps[-1] / 2).argmin()], steps[late])
    size /= np.sum(along**2)
    return replace(trace, weights=trace.weights + (size[:, None, None] * along)[:, None])


def merged(rng, seed):
    """One priority that a sample shows grows no more after half of the steps."""
    trace = trained(rng, seed)
    samples = trace.samples[0]
    shown = {(context[-1], label, x) for context, label in samples for x in set(context) - {label}}
    strict = sorted(shown & set(compare(samples)[1]))
    gap = strict[int(rng.integers(len(strict)))]
    return moved_gap(trace, gap, lambda share, half, _steps: half - share), {"components"}


def split(rng, seed):
    """One tie comes apart after half of the steps."""
    trace = trained(rng, seed, cyclic=True)
    ties = compare(trace.samples[0])[0]
    gap = ties[int(rng.integers(len(ties)))]
    apart = moved_gap(trace, gap, lambda _share, _half, steps: 4.0 * np.log(2.0 * steps / steps[-1]))
    return apart, {"components", "finite part", "soft composition"} | EXACT


def wrong_step(rng, seed):
    """Another step size was recorded, or another optimiser."""
    size = float(10 ** rng.uniform(-1.5, -0.3))
    step, told = GradientDescent(size), size * (4.0 if rng.random() < 0.5 else 0.25)
    if rng.random() < 0.3:
        step, told = Adam(0.01), size
    trace = trained(rng, seed, step)
    return replace(trace, about={**trace.about, "step": describe(GradientDescent(told))}), EXACT


BROKEN = (
    beyond_edge,
    other_loss,
    untied_head,
    momentum,
    adam,
    schedule,
    factored,
    huge_start,
    too_few_steps,
    tiny_steps,
    long_steps,
    dependent,
    turned,
    shifted,
    swinging,
    merged,
    split,
    wrong_step,
)


BREAKING = {"components": (merged, split, turned, other_loss, momentum, beyond_edge)}
"""The kinds that break a claim when it is judged alone."""


def draw_broken(rng, number, kinds=BROKEN):
    """The kinds in turn."""
    make = kinds[number % len(kinds)]
    trace, broken = make(rng, int(rng.integers(2**31)))
    return Case(make.__name__, trace, frozenset(broken))


def judge(case, *, every_claim, only=None):
    """Verdicts on a run; claims about its data alone take longest, and are left out unless told."""
    evidence = Evidence(case.trace, tuple(solve_trials(case.trace)))
    left_out = set() if every_claim else COSTLY - case.broken
    return [
        claim.check(evidence)
        for claim in MECHANICS_CLAIMS
        if claim.name not in left_out and only in (None, claim.name)
    ]


def play(name, n_runs, seed, *, only=None, kinds=BROKEN, **sizes):
    """Verdicts counted by claim and status, and those that are wrong."""
    counts, wrong, played = Counter(), [], Counter()
    for number in range(n_runs):
        rng = np.random.default_rng([seed, number, name == "sound"])
        case = draw_sound(rng, **sizes) if name == "sound" else draw_broken(rng, number, kinds)
        played[case.kind] += 1
        for verdict in judge(case, every_claim=number % EVERY == 0, only=only):
            among = "broken" if verdict.claim in case.broken else "sound"
            status = verdict.status.value
            counts[verdict.claim, among, status] += 1
            if status == ("fails" if name == "sound" else "holds") and among == name:
                told = f"{verdict.claim}: {verdict.shown_value} against {verdict.shown_bound}"
                wrong.append(f"{name} run {number} ({case.kind}), {told}, {verdict.reason}")
    return counts, wrong, played


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=("sound", "broken"))
    parser.add_argument("--claim", choices=[claim.name for claim in MECHANICS_CLAIMS])
    options = parser.parse_args(arguments)
    record, all_wrong = {"runs": options.runs, "seed": options.seed}, []
    print(f"{'runs':<8}{'claim':<25}{'holds':>8}{'fails':>8}{'not applicable':>16}")
    for name in ("sound", "broken") if options.only is None else (options.only,):
        begun = time.perf_counter()
        kinds = BREAKING.get(options.claim, BROKEN)
        counts, wrong, played = play(name, options.runs, options.seed, only=options.claim, kinds=kinds)
        all_wrong += wrong
        rows = {}
        for claim in dict.fromkeys(claim for claim, *_ in counts):
            row = [counts[claim, name, status] for status in ("holds", "fails", "not_applicable")]
            if sum(row):
                rows[claim] = row
                print(f"{name:<8}{claim:<25}{row[0]:>8}{row[1]:>8}{row[2]:>16}")
        seconds = round(time.perf_counter() - begun, 1)
        record[name] = {"wrong": len(wrong), "claims": rows, "kinds": dict(played), "seconds": seconds}
    for line in all_wrong:
        print(line, file=sys.stderr)
    print(json.dumps(record))
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
