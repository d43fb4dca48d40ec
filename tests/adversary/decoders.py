"""The decoder's limit: plain descent for one-hot contexts, decimals and Newton's method for features.

What is held against the product is made from the documents as given: counts in dictionaries, gradient descent
step by step in extended precision, least norms in decimals of 120 digits, and the infimum of the loss over
all logits that the features allow.
"""

from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from math import inf

import numpy as np

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.theories.decoder.result import DecoderLimit
from attomaton.theories.decoder.supports import CorpusSizes, Supports
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.least_norm import Constraints, Unsolved, gram_of, least_norm

DIGITS = 120
NEGLIGIBLE = Decimal(10) ** -70
"""Rows 1e-9 apart leave squared distances of 1e-36 between directions; exact dependence leaves 1e-110."""

STEPS = (1, 60, 129, 1000)
FOLLOWED = 1e-5
"""How far a logit may be off, and an excess, relative to itself."""

FALLING = 1e-4
"""The same for an excess that falls exponentially, as it does where all supports are full."""


def attack_one_hot(rng) -> Finding:
    """Probabilities, loss, excess and weights at steps, against descent, and the law of large steps."""
    kind = str(rng.choice(["text", "counts", "edge", "one token"]))
    documents, width = _draw_documents(rng, kind), int(rng.integers(0, 3))
    if kind == "counts":
        limit, after = _draw_counts(rng)
        width = 1
    else:
        try:
            limit = at.learn_decoder(documents, ("unigram", "bigram", "ngram:3")[width])
        except AttomatonError as error:
            return unjudged(f"refused: {type(error).__name__}", kind)
        after = _count(documents, width)
    size = limit.supports.n_tokens
    contexts = [tuple(one) for one in limit.supports.contexts.tolist()]
    case = {"documents": documents, "width": width, "counts": {str(k): dict(c) for k, c in after.items()}}
    if sorted(after) != contexts:
        return Finding(inf, 0.0, "contexts", case=case)
    law = np.zeros((len(after), size), np.longdouble)
    for place, context in enumerate(contexts):
        for token, count in after[context].items():
            law[place, token] = count
    shares = law.sum(axis=1) / law.sum()
    law /= law.sum(axis=1, keepdims=True)
    share = float(rng.choice([0.01, 0.3, 1.0, 3.0] if kind != "edge" else [3.5, 3.9, 3.99, 3.999]))
    step_size = share / float(shares.max())
    case["step_size"] = step_size
    checks = [("entropy", abs(limit.entropy - _entropy(law, shares)), 1e-12)]
    checks += [
        ("probability", float(np.abs(limit.predict_proba(list(context)) - row).max()), 1e-14)
        for context, row in zip(contexts, law, strict=True)
        if width
    ]
    try:
        excesses = limit.excesses_at(list(STEPS), step_size)
        weighed = int(rng.choice(STEPS))
        told = limit.weights_at(weighed, step_size).T
        shown = limit.predict_proba(list(contexts[0]), step=weighed, step_size=step_size) if width else None
        late = 1e10 / (step_size * float((shares[:, None] * np.where(law > 0, law, 1)).min()))
        far = [int(min(late * by, 9e18)) for by in (1, 10.0 ** rng.integers(0, 6))]
        beyond = limit.excesses_at(sorted(far), step_size) if late < 9e18 else []
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}", kind)
    within = FOLLOWED if (law == 0).any() else FALLING
    for step, weights, above in zip(STEPS, _descend(law, shares, step_size), excesses, strict=True):
        excess = _excess(law, shares, weights)
        checks.append((f"excess at {step}", float(abs(above - excess)), within * float(excess) + 2e-16))
        if step == weighed:
            checks.append((f"weights at {step}", float(np.abs(told - weights).max()), FOLLOWED))
            if shown is not None:
                off = float(np.abs(shown - _softmax(weights)[0]).max())
                checks.append((f"probabilities at {step}", off, FOLLOWED))
    sizes = (law > 0).sum(axis=1)
    norm = float((sizes * (size - sizes)).sum()) / size
    for step, above in zip(sorted(far), beyond, strict=False):
        checks.append(
            (
                f"t · excess at {step:.1e}",
                abs(step_size * step * above - norm),
                FOLLOWED * norm + 1e-2 * (not norm),
            )
        )
    return worst_of(checks, int(law.size), case, kind=kind)


def _draw_documents(rng, kind):
    size = 1 if kind == "one token" else int(rng.integers(2, 8))
    lengths = rng.integers(1, 25, int(rng.integers(1, 4)))
    if kind == "edge":  # nearly as many of one token as of the other
        lengths, size = [int(rng.integers(12, 40))], 2
    return [rng.integers(0, size, length).tolist() for length in lengths]


def _draw_counts(rng):
    """Counts of up to 10¹² behind a few contexts, and equal ones."""
    size, n_contexts = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    after = {}
    for context in range(min(n_contexts, size)):
        inside = np.sort(rng.choice(size, int(rng.integers(1, size + 1)), replace=False))
        counts = np.ceil(10.0 ** rng.uniform(0, rng.choice([0, 3, 12]), len(inside))).astype(np.int64)
        after[(context,)] = dict(zip(inside.tolist(), counts.tolist(), strict=True))
    sizes = [len(one) for one in after.values()]
    tokens, counts = (
        np.array([part for one in after.values() for part in side(one)], np.int64)
        for side in (dict.keys, dict.values)
    )
    supports = Supports(np.array(list(after), np.int32), np.cumsum([0, *sizes]), tokens, counts, size)
    return DecoderLimit(supports, CorpusSizes(1, int(counts.sum()) + 1, int(counts.sum()))), after


def _count(documents, width):
    after = defaultdict(Counter)
    for document in documents:
        for place in range(width, len(document)):
            after[tuple(document[place - width : place])][document[place]] += 1
    return after


def _softmax(logits):
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _descend(law, shares, step_size):
    """Logits at each of the steps, one row for each context."""
    weights, now = np.zeros(law.shape, np.longdouble), 0
    for step in STEPS:
        for _ in range(step - now):
            weights = weights + step_size * shares[:, None] * (law - _softmax(weights))
        now = step
        yield weights


def _entropy(law, shares):
    return float(-(shares[:, None] * law * np.log(np.where(law > 0, law, 1))).sum())


def _excess(law, shares, logits):
    """Σ π p ln(p/q), in extended precision."""
    logs = logits - logits.max(axis=1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return (shares[:, None] * np.where(law > 0, law * (np.log(np.where(law > 0, law, 1)) - logs), 0)).sum()


KINDS = ("normal", "near", "single", "large", "small", "whole", "dependent", "multiples", "nothing")


def attack_features(rng) -> Finding:
    """What is certified about given features, against decimals, and against the infimum of the loss."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    size, n_rows, dim = (int(rng.integers(*ends)) for ends in ((2, 6), (1, 5), (1, 6)))
    rows = _draw_rows(rng, kind, n_rows, dim)
    place = np.append(np.arange(n_rows), rng.integers(0, n_rows, int(rng.integers(1, 12))))
    labels = np.append(size - 1, rng.integers(0, size, len(place) - 1))
    case = {
        "rows": rows.astype(float).tolist(),
        "place": place.tolist(),
        "labels": labels.tolist(),
        "kind": kind,
    }
    try:
        limit = at.learn_decoder([[0, *labels.tolist()]], rows[place])
    except AttomatonError as error:
        return unjudged(f"refused: {type(error).__name__}", kind)
    if not limit.certified:
        return unjudged("not certified", kind)
    rows = rows.astype(np.float64)
    distinct, number = np.unique(rows[place], axis=0, return_inverse=True)
    counts = np.zeros((len(distinct), size))
    np.add.at(counts, (number.ravel(), labels), 1)
    probabilities = np.array([limit.predict_proba(row) for row in distinct])
    with np.errstate(divide="ignore"):
        own = -float(np.log(probabilities[number.ravel(), labels]).mean())
    checks = [("loss of its own probabilities", abs(own - limit.loss), 1e-6)]
    least, wanted, ended = _minimise(distinct, counts)
    checks.append(("loss above the least", limit.loss - least, 1e-6))
    if ended:
        checks.append(("loss below the least", least - limit.loss, 1e-5))
        checks.append(("probabilities", float(np.abs(probabilities - wanted).max()), 1e-3))
    elsewhere = _draw_elsewhere(rng, distinct)
    with localcontext() as context:
        context.prec = DIGITS
        try:
            checks += _check_direction(limit, distinct, counts > 0, elsewhere)
        except Unsolved:
            return unjudged("the reference did not end", kind)
    return worst_of(checks, len(labels), case, kind=kind)


def _draw_rows(rng, kind, n_rows, dim):
    rows = rng.normal(size=(n_rows, dim))
    if kind == "near" and n_rows > 1:
        rows[1] = rows[0] + 10.0 ** -rng.uniform(4, 9) * rng.normal(size=dim)
    if kind == "single":
        rows = rows.astype(np.float32)
        if n_rows > 1:
            rows[1] = np.nextafter(rows[0], np.float32(rng.choice([-9, 9])))
    if kind in ("large", "small"):
        rows = rows * (1e6 if kind == "large" else 1e-6)
    if kind == "whole":
        rows = rng.integers(-2, 3, size=(n_rows, dim)).astype(float)
    if kind == "dependent":
        rows = rng.integers(-3, 4, size=(n_rows, 1)) * rng.normal(size=(1, dim)).astype(np.float32).astype(
            float
        )
    if kind == "multiples" and n_rows > 1:
        rows[1] = rows[0] * rng.choice([2.0, -1.0, 0.5, 4096.0])
    if kind == "nothing":
        rows[0] = 0.0
    return rows


def _draw_elsewhere(rng, rows):
    """Features of no context: anywhere, between contexts, beside one, and multiples."""
    one, other = rng.choice(len(rows), 2)
    scale = np.abs(rows).max() or 1.0
    found = [scale * rng.normal(size=rows.shape[1]), rows[one] + rows[other], -rows[one], 0.5 * rows[one]]
    return [*found, rows[one] + 1e-9 * scale * rng.normal(size=rows.shape[1])]


def _minimise(rows, counts):
    """The least loss over the logits that rows allow, the probabilities there, and whether Newton ended."""
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    basis = left[:, singular > 1e-13 * singular.max(initial=0.0)]
    if not basis.size:
        basis = np.zeros((len(rows), 1))
    shares, law = counts.sum(axis=1) / counts.sum(), counts / counts.sum(axis=1, keepdims=True)
    size, rank = counts.shape[1], basis.shape[1]
    found, ended = np.zeros((rank, size)), False

    def measure(given):
        logits = basis @ given
        logits = logits - logits.max(axis=1, keepdims=True)
        sums = np.exp(logits).sum(axis=1, keepdims=True)
        return float(shares @ (np.log(sums[:, 0]) - (law * logits).sum(axis=1))), np.exp(logits) / sums

    value, probabilities = measure(found)
    for _ in range(200):
        slope = basis.T @ (shares[:, None] * (probabilities - law))
        if np.abs(slope).max() < 1e-12:
            ended = True
            break
        bent = (
            probabilities[:, :, None] * np.eye(size) - probabilities[:, :, None] * probabilities[:, None, :]
        )
        matrix = np.einsum("j,ja,jb,jxy->axby", shares, basis, basis, bent).reshape(rank * size, -1)
        damped = matrix + 1e-3 * np.abs(slope).max() * np.eye(rank * size)
        move, length = np.linalg.solve(damped, slope.ravel()).reshape(found.shape), 1.0
        while (
            length > 1e-9 and measure(found - length * move)[0] > value - 1e-4 * length * (move * slope).sum()
        ):
            length /= 2
        if length <= 1e-9:
            break
        found = found - length * move
        value, probabilities = measure(found)
    return value, probabilities, ended


def _check_direction(limit, rows, inside, elsewhere):
    """Which tokens can be told apart, ‖W^mm‖² and who wins for other features, in decimals."""
    n_rows, size = inside.shape
    edges, ties, merged = [], [], limit.solved.merged
    for row in range(n_rows):
        first = int(np.argmax(inside[row]))
        for token in range(size):
            if token != first:
                edges.append((first, token, size + row))
                ties.append(bool(inside[row, token]))
    if not edges:
        return []
    table = np.zeros((size + n_rows + len(elsewhere), size + rows.shape[1]))
    table[:size, :size] = np.eye(size)
    table[size:, size:] = [*rows, *elsewhere]
    held = Constraints(edges, gram_of(table))

    def solve(asked, tied):
        return least_norm(held.kernel, [Decimal(one) for one in asked], tied, negligible=NEGLIGIBLE)

    all_met = solve([int(not tie) for tie in ties], ties)
    if (all_met is not None) != limit.separable:
        return [(f"called separable: {limit.separable}", inf, 0.0)]
    joined = [bool(merged[row - size, token]) for _, token, row in edges]
    for place, (was, now) in enumerate(zip(ties, joined, strict=True)):
        if now and not was and solve([int(other == place) for other in range(len(ties))], ties) is not None:
            return [(f"{edges[place]} counts as a tie but can be met", inf, 0.0)]
    found = solve([int(not tie) for tie in joined], joined)
    if found is None:
        return [("what is left contradicts itself", inf, 0.0)]
    exact = float(sum((value for number, value in found.items() if not joined[number]), Decimal(0)))
    checks = [("‖W^mm‖²", abs(limit.squared_norm - exact), 2e-6 * exact)]
    for place, given in enumerate(elsewhere):
        try:
            probabilities = limit.predict_proba(given)
        except AttomatonError:
            continue
        scores = [held.score(found, token, size + n_rows + place) for token in range(size)]
        behind = [float(max(scores) - score) for score in scores]
        winners = probabilities > 0
        scale = 1e-12 * float(np.linalg.norm(given)) * exact**0.5  # combinations count but for rounding
        lost = max((one for one, won in zip(behind, winners, strict=True) if won), default=inf)
        checks.append((f"who wins at {given.tolist()}", lost, scale if winners.sum() > 1 else 0.0))
        left_out = min((one for one, won in zip(behind, winners, strict=True) if not won), default=inf)
        checks.append((f"who loses at {given.tolist()}", float(left_out <= 0), 0.0))
    return checks
