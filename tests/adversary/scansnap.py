"""Scan and Snap: the flow, the law, and the survey of a small corpus, from the equations themselves."""

from collections import Counter

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.law import Rates, SnapLaw
from attomaton.theories.scansnap.survey import survey_samples
from tests.adversary.draws import describe, draw_corpus
from tests.adversary.finding import Finding, unjudged, worst_of


def follow(laws, shares, ends, n_tokens, rates, times):
    """Y and Z of full size at some times, by an explicit method of high order; ``ends``: (query, label)."""
    decoder_rate, attention_rate = rates
    asked = np.array([query for query, _ in ends])
    hot = np.eye(n_tokens)[[label for _, label in ends]]

    def slope(_, state):
        decoder, scores = state.reshape(2, n_tokens, n_tokens)
        raised = laws * np.exp(scores[asked] - scores[asked].max(axis=1, keepdims=True))
        c = raised / raised.sum(axis=1, keepdims=True)
        f = c / np.linalg.norm(c, axis=1, keepdims=True)
        logits = f @ decoder
        probability = np.exp(logits - logits.max(axis=1, keepdims=True))
        missed = shares[:, None] * (hot - probability / probability.sum(axis=1, keepdims=True))
        gain = missed @ decoder.T
        moved = np.zeros_like(scores)
        np.add.at(moved, asked, f * (gain - f * (f * gain).sum(axis=1, keepdims=True)))
        return np.concatenate([decoder_rate * (f.T @ missed).ravel(), attention_rate * moved.ravel()])

    start = np.zeros(2 * n_tokens**2)
    found = solve_ivp(slope, (0.0, times[-1]), start, "DOP853", times, rtol=1e-10, atol=1e-12)
    return found.y.T.reshape(len(times), 2, n_tokens, n_tokens)


def draw_classes(rng):
    """A handful of classes over few tokens; laws may share all tokens or none."""
    n_tokens, n_classes = int(rng.integers(3, 9)), int(rng.integers(1, 6))
    pairs = [(query, label) for query in range(n_tokens) for label in range(n_tokens)]
    ends = [pairs[place] for place in rng.permutation(len(pairs))[:n_classes]]
    weights = rng.random((n_classes, n_tokens)) * (rng.random((n_classes, n_tokens)) < 0.6)
    weights[np.arange(n_classes), rng.integers(0, n_tokens, n_classes)] += 0.3
    shares = rng.random(n_classes) + 0.05
    return n_tokens, ends, weights, shares


def attack_flow(rng) -> Finding:
    """``solve_flow``: Y, Z and the loss at a few times."""
    n_tokens, ends, weights, shares = draw_classes(rng)
    rates = float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-2, 0.5))
    times = np.sort(10 ** rng.uniform(-1, 1.7, 3))
    query, label = zip(*ends, strict=True)
    classes = CorpusClasses.from_table(query, label, weights, shares=shares)
    told = solve_flow(classes, Rates(*rates), times)
    laws = weights / weights.sum(axis=1, keepdims=True)
    exact = follow(laws, shares / shares.sum(), ends, n_tokens, rates, times)
    used, labels, queries = (sorted(set(one)) for one in (np.nonzero(weights)[1].tolist(), label, query))
    decoder, scores = exact[:, 0], exact[:, 1]
    scale = 1 + np.abs(exact).max()
    others = [token for token in range(n_tokens) if token not in labels][:1]
    columns = labels + others
    apart = [
        np.abs(told.decoder[:, :, : len(columns)] - decoder[:, used][:, :, columns]).max(),
        np.abs(told.scores - scores[:, queries][:, :, used]).max(),
    ]
    losses = [_loss(laws, shares / shares.sum(), ends, state) for state in exact]
    checks = [
        ("Y", float(apart[0]) / scale, 1e-6),
        ("Z", float(apart[1]) / scale, 1e-6),
        ("loss", float(np.abs(told.loss() - losses).max()), 1e-6),
    ]
    case = {"ends": ends, "weights": weights.tolist(), "rates": rates, "times": times.tolist()}
    return worst_of(checks, n_tokens * len(ends), case)


def _loss(laws, shares, ends, state):
    decoder, scores = state
    total = 0.0
    for law, share, (query, label) in zip(laws, shares, ends, strict=True):
        c = law * np.exp(scores[query] - scores[query].max())
        logits = (c / np.linalg.norm(c)) @ decoder
        total -= share * (logits[label] - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
    return total


def attack_law(rng) -> Finding:
    """The closed form of growth and gain, the turn and the snap, against equations and definitions."""
    n_classes, n_tokens = int(rng.integers(2, 50)), int(10 ** rng.uniform(0.6, 4))
    decoder, attention = float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-2, 0.5))
    start = float(10 ** rng.uniform(-2, 2))
    law = SnapLaw(n_classes, n_tokens, Rates(decoder, attention), start=start)
    rest = n_tokens - 1

    def slope(_, state):
        w, grown = state
        gain = rest**2 / n_tokens * w / (rest + np.exp(w))
        return [
            n_tokens * decoder / n_classes / (rest + np.exp(w)),
            attention * gain * np.exp(-4 * grown) / start,
        ]

    top = brentq(lambda w: (w - 1) * np.exp(w) - rest, 1e-9, 60)
    turn = (rest * top + np.expm1(top)) / n_tokens * n_classes / decoder
    times = turn * np.array([0.1, 0.5, 1.0, 2.0, 6.0])
    found = solve_ivp(slope, (0, times[-1]), [0.0, 0.0], "Radau", times, rtol=1e-10, atol=1e-13).y
    gain = rest**2 / n_tokens * found[0] / (rest + np.exp(found[0]))
    checks = [
        ("growth, relative", float(np.abs(law.growth(times) / found[1] - 1).max()), 1e-6),
        ("gain, relative", float(np.abs(law.gain(times) / gain - 1).max()), 1e-6),
        ("turn, relative", abs(law.turn / turn - 1), 1e-9),
    ]
    around = law.snap * np.array([0.999, 1.0, 1.001])
    steep = [
        float(np.log(law.growth(t * 1.0001) / law.growth(t / 1.0001)) / np.log(1.0001**2))
        for t in (*around, turn / 2)
    ]
    at_snap = abs(steep[1] / (steep[3] / 2) - 1)
    checks += [
        ("steepness at the snap", at_snap, 1e-4),
        ("snap is the fall", float(not steep[0] > steep[2]), 0.0),
    ]
    case = {"K": n_classes, "M": n_tokens, "rates": [decoder, attention], "start": start}
    return worst_of(checks, n_classes, case)


def _unit_times(n_tokens):
    """Turn and snap of one class at η_Y = 1 for slow attention, B ∝ w²: steepness 2 t / (w dt/dw)."""
    rest = n_tokens - 1

    def clock(w):
        return (rest * w + np.expm1(w)) / n_tokens

    def steepness(w):
        return 2 * clock(w) / (w * (rest + np.exp(w)) / n_tokens)

    top = brentq(lambda w: (w - 1) * np.exp(w) - rest, 1e-9, 60)
    middle = brentq(lambda w: clock(w) - clock(top) / 2, 1e-12, top)
    half = steepness(middle) / 2
    return clock(top), clock(brentq(lambda w: steepness(w) - half, middle, 300))


def attack_survey(rng) -> Finding:
    """``survey_samples`` on a small corpus: classes, pulls, distinct tokens, times, what the flow keeps."""
    contexts, labels, n_tokens = draw_corpus(rng, most_tokens=7, most_samples=14, unrealisable=0.4)
    samples = at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)
    rates = float(10 ** rng.uniform(-0.5, 1)), float(10 ** rng.uniform(-2, 0))
    try:
        told = survey_samples(samples, Rates(*rates))
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}")
    kept = [(c[:-1], c[-1], y) for c, y in zip(contexts, labels, strict=True) if len(c) > 1]
    counted = Counter((query, label) for _, query, label in kept)
    ends = sorted(counted)
    shares = np.array([counted[end] / len(kept) for end in ends])
    laws = np.zeros((len(ends), n_tokens))
    for before, query, label in kept:
        np.add.at(laws[ends.index((query, label))], before, 1.0)
    laws /= laws.sum(axis=1, keepdims=True)
    checks = [
        ("classes", float(list(zip(told.classes.queries, told.classes.labels, strict=True)) != ends), 0.0),
        ("laws", float(np.abs(told.classes.dense - laws).max()), 1e-12),
        ("shares", float(np.abs(told.classes.shares - shares).max()), 1e-12),
    ]
    for forecast in told.forecasts:
        checks += _check_forecast(forecast, ends, shares, laws, rates[0])
    checks += _check_kept(told, kept, n_tokens, rates)
    case = describe(contexts, labels, n_tokens, rates=rates)
    return worst_of(checks, len(contexts), case)


def _check_forecast(told, ends, shares, laws, decoder_rate):
    n_tokens = laws.shape[1]
    f = laws / np.linalg.norm(laws, axis=1, keepdims=True)
    pull, own = np.zeros(n_tokens), [n for n, (query, _) in enumerate(ends) if query == told.query]
    for n in own:
        same = np.array([float(label == ends[n][1]) for _, label in ends])
        gain = ((same - 1 / n_tokens) * shares) @ f
        pull += shares[n] * f[n] * (gain - f[n] * (f[n] @ gain))
    before = np.flatnonzero(laws[own].sum(axis=0))
    held = (laws[own] > 0).sum(axis=0)
    turn, snap = (
        np.array([one / (decoder_rate * s) for s in told.class_shares]) for one in _unit_times(n_tokens)
    )
    return [
        ("share of a query", abs(told.share - shares[own].sum()), 1e-12),
        ("tokens of a query", float(told.tokens.tolist() != before.tolist()), 0.0),
        ("pull", float(np.abs(told.pulls - pull[before]).max(initial=0.0)), 1e-12),
        ("distinct", float(set(told.distinct.tolist()) != set(np.flatnonzero(held == 1).tolist())), 0.0),
        ("order of fading", float((np.diff(pull[told.distinct]) < -1e-12).any()), 0.0),
        ("turn, relative", float(np.abs(told.turns / turn - 1).max()), 1e-6),
        ("snap, relative", float(np.abs(told.snaps / snap - 1).max()), 1e-5),
    ]


def _check_kept(told, kept, n_tokens, rates):
    """The flow on the contexts themselves, at the time to which the survey followed it."""
    if not told.followed:
        return []
    bags = Counter((query, label, tuple(sorted(before))) for before, query, label in kept)
    laws = np.array([np.bincount(before, minlength=n_tokens) / len(before) for _, _, before in bags])
    shares, ends = np.array(list(bags.values())) / len(kept), [(q, y) for q, y, _ in bags]
    _, scores = follow(laws, shares, ends, n_tokens, rates, np.array([told.until]))[0]
    checks = []
    for one in told.followed:
        own = [n for n, (query, _) in enumerate(ends) if query == one.query]
        raised = laws[own] * np.exp(scores[one.query])
        after = shares[own] @ (raised / raised.sum(axis=1, keepdims=True)) / shares[own].sum()
        checks += [
            ("scores kept", float(np.abs(one.scores - scores[one.query][one.tokens]).max()), 1e-5),
            ("attention kept", float(np.abs(one.after - after[one.tokens]).max()), 1e-5),
        ]
    return checks
