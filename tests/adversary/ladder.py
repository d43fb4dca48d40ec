"""The ladder: explained shares by definition and another optimiser, and no leak from what is scored."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from attomaton.base.errors import InvalidSamples
from attomaton.heads.audit.documents import split_documents
from attomaton.heads.audit.explanations import Duplicate, KeyToken, Position
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.ladder import climb
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.rows import EARLIER, Rows
from attomaton.heads.audit.rungs import learned_rungs, plain_rungs
from attomaton.heads.model import Head
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.transformers import build, describe, draw_plain

TINY = 1e-6
"""The ridge of offsets and of scales, whose scores have a deviation of one inside rows."""

SHARE = 2e-4
"""What an explained share may be off by where the fit ends."""


@dataclass(frozen=True)
class Given:
    """A rung with scores that were drawn: those of the rows, found by their positions."""

    values: np.ndarray
    name: str

    def scores(self, rows):
        return self.values[rows.positions]


def draw_rows(rng):
    """Rows of a few heads, from uniform to one-hot ones, of documents of unequal sizes.

    In a third of the cases, some rows of some heads have no attention on the window and the first token.
    """
    n_documents, window, n_tokens = (
        int(rng.integers(16, 30)),
        int(rng.integers(2, 7)),
        int(rng.integers(2, 9)),
    )
    documents = np.repeat(np.arange(n_documents), rng.integers(1, 5, n_documents))
    n, heads = len(documents), int(rng.integers(1, 4))
    past = rng.integers(0, n_tokens, (n, window + EARLIER))
    tokens = past[:, :window]
    sharp = rng.choice([0.0, 1e-4, 0.3, 1.0, 4.0, 60.0], heads)
    profile, effects = rng.normal(size=(heads, window)), rng.normal(size=(heads, n_tokens))
    scores = profile + effects[:, tokens].transpose(1, 0, 2) + 0.5 * rng.normal(size=(n, heads, window))
    scores *= sharp[:, None]
    scores -= scores.max(2, keepdims=True)
    attention = np.exp(scores)
    attention = (attention / attention.sum(2, keepdims=True)).astype(np.float32)
    inside = rng.uniform(0.05, 1.0, (n, heads)).astype(np.float32)
    named = tuple(Head(0, number) for number in range(heads))
    apart = rng.spawn(1)[0]
    there = apart.random((n, heads)) >= apart.choice([0.0, 0.0, 0.3]) * apart.integers(2, size=heads)
    return Rows(
        named, attention, inside * there, (1 - inside) * there, inside * 0, inside * 0, past, past[:, -1],
        rng.integers(0, n_tokens, n), documents, np.arange(n), n_tokens,
    )  # fmt: skip


def draw_rungs(rng, rows):
    """Some rungs in some order: offsets, effects, same token, and scores of any size, also constant ones."""
    n, window = rows.tokens.shape
    size = float(rng.choice([1.0, 1e-6, 1e6]))
    own = rng.normal(size=(n, len(rows.heads), window)) * size
    flat = np.full((n, window), size)
    every = [
        Position(), KeyToken(float(rng.choice([1e-3, 0.1]))), Duplicate(), Given(own, "drawn for each head"),
        Given(rng.normal(size=(n, window)), "drawn"), Given(flat, "constant"),
    ]  # fmt: skip
    return [every[at] for at in rng.permutation(6)[: int(rng.integers(1, 5))]]


def attack(rng) -> Finding:
    """``climb`` against another optimiser and the definition of the share."""
    rows = draw_rows(rng)
    rungs, nested = draw_rungs(rng, rows), bool(rng.random() < 0.6)
    part = np.isin(rows.documents, rng.permutation(rows.documents.max() + 1)[:8])
    fitted, scored = rows.take(~part), rows.take(part)
    ladder = climb(fitted, scored, rungs, nested=nested)
    again = climb(fitted, fitted, rungs, nested=nested)
    checks = []
    for head in range(len(rows.heads)):
        for at in range(len(rungs)):
            used = rungs[: at + 1] if nested else [rungs[at]]
            reached = [some.take(some.inside[:, head] + some.first[:, head] > 0) for some in (fitted, scored)]
            parts = [design(some, reached[0], used, head) for some in reached]
            truth = [some.on_keys(head) for some in reached]
            penalty = penalty_of(used, fitted)
            best = solve(parts[0], truth[0], penalty)
            for what, told, features, attention, documents in (
                ("share on what is fitted", again, parts[0], truth[0], reached[0].documents),
                ("share", ladder, parts[1], truth[1], reached[1].documents),
            ):
                share, half = explain(features @ best, attention, documents)
                got = told.explained[at]
                apart = abs(got.value[head] - share)
                checks.append((f"{what}, rung {at}", apart, SHARE * (1.0 + abs(share))))
                if what == "share":
                    wide = abs(got.high[head] - got.value[head] - half)
                    checks.append((f"interval, rung {at}", wide, 20 * SHARE * (1.0 + abs(share) + half)))
    case = {"rungs": [str(one.name) for one in rungs], "nested": nested, "tokens": rows.tokens.tolist()}
    return worst_of(checks, len(rows), case, kind="nested" if nested else "alone")


def design(rows, fitted, rungs, head):
    """The columns of all coefficients, shape (n_rows, window + 1, size); scores have a deviation of one."""
    n, window = rows.tokens.shape
    columns = []
    tokens = np.concatenate([rows.tokens, np.full((n, 1), rows.n_tokens)], 1)  # the first is its own token
    for rung in rungs:
        if isinstance(rung, Position):
            columns += [np.tile(np.arange(window + 1) == place, (n, 1)) for place in range(window + 1)]
        elif isinstance(rung, KeyToken):
            columns += [tokens == token for token in range(rows.n_tokens + 1)]
        else:
            own, others = (score(rung, some, head) for some in (rows, fitted))
            spread = np.sqrt(np.mean((others - others.mean(1, keepdims=True)) ** 2))
            columns.append(own / (spread if spread > 0 else 1.0))
    return np.stack(columns, 2).astype(float)


def score(rung, rows, head):
    if isinstance(rung, Duplicate):
        same = (rows.tokens == rows.tokens[:, :1]).astype(float)
        same[:, 0] = 0.0
        return np.concatenate([same, np.median(same, 1)[:, None]], 1)
    values = rung.values[rows.positions]
    values = values[:, head] if values.ndim == 3 else values
    return np.concatenate([values, np.median(values, 1)[:, None]], 1)


def penalty_of(rungs, rows):
    parts = []
    for rung in rungs:
        if isinstance(rung, KeyToken):
            parts += [2.0 * rung.ridge] * (rows.n_tokens + 1)
        else:
            parts += [TINY] * (rows.window + 1 if isinstance(rung, Position) else 1)
    return np.array(parts)


def solve(features, attention, penalty):
    """The coefficients with the least mean cross-entropy and half the penalties, by SciPy."""
    n = len(attention)

    def probabilities(c):
        scores = features @ c
        scores = scores - scores.max(1, keepdims=True)
        raised = np.exp(scores)
        return scores - np.log(raised.sum(1, keepdims=True)), raised / raised.sum(1, keepdims=True)

    def value(c):
        return -(attention * probabilities(c)[0]).sum() / n + 0.5 * (penalty * c**2).sum()

    def slope(c):
        return np.einsum("nws,nw->s", features, probabilities(c)[1] - attention) / n + penalty * c

    def curve(c):
        p = probabilities(c)[1]
        mean = np.einsum("nw,nws->ns", p, features)
        bent = np.einsum("nw,nws,nwr->sr", p, features, features) - mean.T @ mean
        return bent / n + np.diag(penalty)

    start = np.zeros(features.shape[2])
    return minimize(value, start, jac=slope, hess=curve, method="trust-exact", options={"gtol": 1e-10}).x


def explain(scores, attention, documents):
    """1 − ΣKL(attention ‖ softmax)/ΣKL(attention ‖ uniform), and half its interval over documents."""
    logs = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    own = np.where(attention > 0, attention * np.log(np.where(attention > 0, attention, 1.0)), 0.0).sum(1)
    left = own - (attention * logs).sum(1)
    uniform = own + np.log(attention.shape[1])
    named = np.unique(documents)
    if len(named) < 8 or uniform.mean() <= 1e-12:
        return 0.0, 0.0
    without = np.array(
        [1.0 - left[documents != one].sum() / uniform[documents != one].sum() for one in named]
    )
    error = np.sqrt((len(named) - 1) / len(named) * ((without - without.mean()) ** 2).sum())
    return 1.0 - left.sum() / uniform.sum(), student.ppf(0.975, len(named) - 1) * error


def attack_leakage(rng) -> Finding:
    """Whatever the scored documents hold, in whatever order: what is fitted stays; copies are refused."""
    plain = draw_plain(rng)
    n_tokens, how = len(plain.embedding), AuditSettings(window=3, per_document=4, seed=int(rng.integers(9)))
    many = int(rng.integers(24, 34))
    documents = [rng.integers(0, n_tokens, 11) for _ in range(many)]
    fit_on, score_on = split_documents(many, seed=how.seed)

    def rungs(held):
        return (*plain_rungs(), *learned_rungs(held, n_tokens=n_tokens, window=3))

    model = build(plain)
    changed = list(documents)
    for at in score_on:
        changed[at] = rng.integers(0, n_tokens, 11)
    mixed = list(documents)
    for at, other in zip(score_on, rng.permutation(score_on), strict=True):
        mixed[at] = documents[other]
    case = {**describe(plain), "documents": [one.tolist() for one in documents], "seed": how.seed}
    try:
        audits = [audit_heads(model, held, rungs=rungs, settings=how) for held in (documents, changed, mixed)]
    except InvalidSamples as error:
        return unjudged(str(error)[:200], "refused")
    scales = [one.ladder.scales for one in audits]
    size = np.nanmax(np.abs(scales[0]), initial=1e-300)
    checks = [
        ("scales, other documents to score", float(np.nanmax(np.abs(scales[1] - scales[0]))), 1e-9 * size),
        ("scales, another order", float(np.nanmax(np.abs(scales[2] - scales[0]))), 1e-9 * size),
    ]
    copied = list(documents)
    for at, other in zip(score_on[: len(score_on) // 2 + 1], fit_on, strict=False):
        copied[at] = documents[other]
    try:
        audit_heads(model, copied, rungs=rungs, settings=how)
        checks.append(("a copy on both sides", np.inf, 0.0))
    except InvalidSamples as error:
        checks.append(("a copy is named", float("cop" not in str(error)), 0.0))
    return worst_of(checks, many, case, kind="compared")
