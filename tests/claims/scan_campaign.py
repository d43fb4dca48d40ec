"""Sound flows of the second theory, on which no claim may fail, and broken ones, on which none may hold.

``python -m tests.claims.scan_campaign --runs 200 --seed 1`` judges every claim on so many sound flows, and
each way to break a claim on so many broken ones. It prints one table and one JSON line; its exit code is 1 if
a verdict is wrong.
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np

from attomaton.claims.scansnap import SCANSNAP_CLAIMS, ScanEvidence, judge_rates
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.law import Rates, SnapLaw

GROWTH = {"scanning (4)", "snapping (4)", "freezing (4)", "snap (ours)"}


def draw_classes(rng, *, common=None, single=False):
    """Classes around a rare common token, or several alike for Corollary 2, with some distinct ones each."""
    n_classes, n_distinct = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    n_common = int(rng.integers(2, 5)) if single else 1
    n_tokens = int(10 ** rng.uniform(2.2, 3.4))
    weights = np.zeros((n_classes, n_tokens))
    shares = rng.uniform(0.2, 1.0, n_distinct)
    for number in range(n_classes):
        first = n_common + number * n_distinct
        weights[number, first : first + n_distinct] = rng.permutation(shares) / shares.sum()
    bound = 0.3 / n_classes if common is None else common
    weights[:, :n_common] = rng.uniform(0.2, 1.0, n_common) * bound * np.linalg.norm(weights[0])
    first = n_common + n_classes * n_distinct
    queries = np.full(n_classes, first) if single else first + np.arange(n_classes)
    return CorpusClasses.from_table(queries, first + n_classes + np.arange(n_classes), weights)


def follow(rng, classes, ratio, decoder=None):
    decoder = 10 ** rng.uniform(-0.5, 1.5) if decoder is None else decoder
    rates = Rates(decoder, decoder / ratio)
    turn = SnapLaw(len(classes), classes.n_tokens, rates).turn
    return solve_flow(classes, rates, np.geomspace(turn / 50, 100 * turn, 200), rtol=1e-9, atol=1e-13)


def draw_sound(rng, *, single=False):
    return follow(rng, draw_classes(rng, single=single), 10 ** rng.uniform(1.0, 3.0))


def regrown(flow, growth):
    """The flow with another growth, and scores that move in proportion to it."""
    share = growth / np.maximum(flow.growth.mean(axis=1), 1e-300)
    return replace(flow, growth=flow.growth * share[:, None], scores=flow.scores * share[:, None, None])


def steady(rng, flow):
    """Growth goes on as before the turn: no phase transition."""
    mean, early = flow.growth.mean(axis=1), len(flow.times) // 4
    size = mean[early] * (flow.times / flow.times[early]) ** 2
    return regrown(flow, np.where(flow.times > flow.times[early], size, mean)), {
        "snapping (4)",
        "freezing (4)",
    }


def stopped(rng, flow):
    """Growth ends at the paper's t₀: winner-takes-all is excluded, but so is ln ln t."""
    mean = flow.growth.mean(axis=1)
    law = SnapLaw(len(flow.reduced.classes), flow.reduced.classes.n_tokens, flow.rates)
    last = int(np.searchsorted(flow.times, law.snap_start))
    return regrown(flow, np.where(np.arange(len(mean)) < last, mean, mean[last])), {"snapping (4)"}


def linear(rng, flow):
    """Growth like t or t³ instead of t² in the beginning."""
    power = 0.5 if rng.random() < 0.5 else 1.5
    mean = flow.growth.mean(axis=1)
    return regrown(flow, mean**power * mean[-1] ** (1 - power)), {"scanning (4)"}


def falling(rng, flow):
    """A distinct token loses score between two records."""
    scores, reduced = flow.scores.copy(), flow.reduced
    number = int(rng.integers(len(reduced.classes)))
    token = int(rng.choice(np.flatnonzero(reduced.is_distinct[number])))
    record, query = int(rng.integers(1, len(scores))), reduced.query_index[number]
    scores[record, query, token] = scores[record - 1, query, token] - 1e-9
    return replace(flow, scores=scores), {"distinct tokens grow (2)"}


def rising(rng, flow):
    """A common token gains score between two records."""
    scores, common = flow.scores.copy(), np.flatnonzero(~flow.reduced.is_distinct.any(axis=0))
    record, token = int(rng.integers(1, len(scores))), int(rng.choice(common))
    query = int(rng.integers(scores.shape[1]))
    scores[record, query, token] = scores[record - 1, query, token] + 1e-9
    several = len(flow.reduced.queries) == 1
    claim = "several common tokens shrink (2)" if several else "the common token shrinks (2)"
    return replace(flow, scores=scores), {claim}


def disordered(rng, flow):
    """At one record two distinct tokens of a class have each other's scores."""
    scores, reduced = flow.scores.copy(), flow.reduced
    number = int(rng.integers(len(reduced.classes)))
    record, query = int(rng.integers(1, len(scores))), reduced.query_index[number]
    pair = rng.choice(np.flatnonzero(reduced.is_distinct[number]), 2, replace=False)
    scores[record, query, pair] = scores[record, query, pair[::-1]]
    return replace(flow, scores=scores), {"order in time (3)"}


def slow_decoder(rng, _):
    return follow(rng, draw_classes(rng), 10 ** rng.uniform(-1.0, 0.9)), GROWTH


def overlapping(rng, _):
    return follow(rng, draw_classes(rng, common=3.0), 10 ** rng.uniform(1.0, 3.0)), GROWTH | {"turn (ours)"}


def asymmetric(rng, flow):
    """One class is more frequent than the others: Corollary 2 does not apply."""
    classes = draw_classes(rng, single=True)
    shares = np.ones(len(classes))
    shares[0] = 2.0
    uneven = CorpusClasses.from_table(classes.queries, classes.labels, classes.dense, shares=shares)
    return follow(rng, uneven, 100.0), {"several common tokens shrink (2)"}


BROKEN = (steady, stopped, linear, falling, rising, disordered, slow_decoder, overlapping, asymmetric)


def follow_rates(rng):
    """Three flows by η_Y at one η_Z, in the order of η_Y."""
    classes, decoder = draw_classes(rng), 10 ** rng.uniform(0.5, 1.0)
    return [follow(rng, classes, ratio, 0.1 * decoder * ratio) for ratio in (10.0, 20.0, 40.0)]


def play(n_runs, seed):
    """Verdicts counted by kind of flow, claim and status, and those that are wrong."""
    counts, wrong = Counter(), []

    def count(kind, verdicts):
        for verdict in verdicts:
            counts[kind, verdict.claim, verdict.status.value] += 1
            if verdict.status.value == ("fails" if kind == "sound" else "holds"):
                wrong.append(f"{kind} flow {number}, {verdict}")

    def check(flow, names):
        return [claim.check(ScanEvidence(flow)) for claim in SCANSNAP_CLAIMS if claim.name in names]

    every, several = {claim.name for claim in SCANSNAP_CLAIMS}, {"several common tokens shrink (2)"}

    for number in range(n_runs):
        rng = np.random.default_rng([seed, number])
        flows = [draw_sound(rng, single=single) for single in (False, True)]
        count("sound", check(flows[0], every - several) + check(flows[1], several))
        for make, flow in [*((make, flows[0]) for make in BROKEN), (rising, flows[1])]:
            count(make.__name__, check(*make(rng, flow)))
        three = follow_rates(rng)
        count("sound", [judge_rates(three)])
        times = [flow.times for flow in reversed(three)]
        turned = [replace(flow, times=other) for flow, other in zip(three, times, strict=True)]
        count("later", [judge_rates(turned)])
    return counts, wrong


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    counts, wrong = play(options.runs, options.seed)
    print(f"{'flows':<14}{'claim':<36}{'holds':>8}{'fails':>8}{'not applicable':>16}")
    for kind, claim in dict.fromkeys((kind, claim) for kind, claim, _ in counts):
        row = [counts[kind, claim, status] for status in ("holds", "fails", "not_applicable")]
        print(f"{kind:<14}{claim:<36}{row[0]:>8}{row[1]:>8}{row[2]:>16}")
    for line in wrong:
        print(line, file=sys.stderr)
    seconds = round(time.perf_counter() - begun, 1)
    print(json.dumps({"runs": options.runs, "seed": options.seed, "wrong": len(wrong), "seconds": seconds}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
