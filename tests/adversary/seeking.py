"""Next-token seeking: text in which nothing can be sought, a head that seeks, the excess by its definition.

That a head seeks is a test at a level of 5 %: audits of text in which nothing can be sought err sometimes,
and are counted as above 1. The excess itself must be that of plain loops, always.
"""

import math

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.heads.audit.documents import split_documents
from attomaton.heads.audit.explanations import Position
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.recording import record
from tests.adversary.finding import Finding, Rng, unjudged
from tests.heads.audit.built import KINDS, Seeker, build_heads, draw_chains, draw_text

ALLOWED = 2.0
"""Above 1 is an error of the test, which may happen; above this is a wrong number."""
DIGITS = 2e-6
"""Attention is kept in floats of seven digits."""


def attack(rng: Rng) -> Finding:
    text = ("uniform", "steep", "shuffled", "sought")[rng.integers(4)]
    kind = KINDS[rng.integers(len(KINDS))]
    n_tokens, window = int(rng.integers(3, 30)), int(rng.integers(3, 13))
    n, length = int(rng.integers(24, 60)), int(rng.integers(window + 8, 41))
    if text == "sought":
        kind, n_tokens, window, n, length = "random", int(rng.integers(5, 15)), 12, 60, 40
    model = build_heads(kind, rng, n_tokens=n_tokens)
    documents = draw(rng, text, n, length, n_tokens)
    how = AuditSettings(window=window, per_document=int(rng.integers(6, 13)), seed=int(rng.integers(1000)))
    watched = Seeker(model, window, ((0, 0, float(rng.uniform(0.1, 0.4))),)) if text == "sought" else model
    random = [rotate_beside(model, seed=seed) for seed in (1, 2)] if text == "sought" else 2
    try:
        seeking = audit_heads(watched, documents, rungs=(Position(),), random=random, settings=how).seeking
    except InvalidSamples as error:  # few tokens: documents that are alike, or no label in reach
        return unjudged(str(error), text)
    head = int(rng.integers(model.n_heads))
    wanted = excess_by_loops(watched, documents, how, head)
    wrong = abs(seeking.excess.value[head] - wanted) / DIGITS
    missed = not seeking.holds[0] if text == "sought" else seeking.holds.any()
    case = {"kind": kind, "n_tokens": n_tokens, "n": n, "length": length, "how": str(how), "head": head}
    case |= {"z": seeking.z.round(2).tolist(), "excess": float(seeking.excess.value[head]), "loops": wanted}
    if not wrong <= 1:
        return Finding(np.inf, ALLOWED, "the excess is not that of its definition", n, case, kind=text)
    return Finding(1.5 if missed else wrong, ALLOWED, "seekers", n, case, kind=text)


def draw(rng: Rng, text: str, n: int, length: int, n_tokens: int) -> list[np.ndarray]:
    """Documents of one kind."""
    if text == "shuffled":
        return [rng.permutation(ids) for ids in draw_chains(rng, n, length=length, n_tokens=n_tokens)]
    steepness = rng.uniform(0.3, 1.5) if text == "steep" else 0.0
    return draw_text(rng, n, length=length, n_tokens=n_tokens, steepness=steepness)


def excess_by_loops(model, documents, how: AuditSettings, head: int) -> float:
    """The excess of one head, place by place, from patterns of whole documents."""
    drawn = record(
        model, documents, window=how.window, per_document=how.per_document, longest=how.longest, seed=how.seed
    ).rows
    fit_on, _ = split_documents(len(documents), share=how.fitted, seed=how.seed)
    fitted, scored, counts = [], [], dict.fromkeys(range(model.shape.n_tokens), 0.5)
    patterns = [model.watch(np.array([ids[:-1]])).patterns[0][0, head].numpy() for ids in documents]
    for number, place in zip(drawn.documents.tolist(), drawn.positions.tolist(), strict=True):
        ids = [int(one) for one in documents[number]]
        seen = patterns[number][place].tolist()
        mass = [seen[place - lag] for lag in range(how.window)]
        inside = math.fsum(mass)
        mass = [one / inside if inside > 1e-12 else 1 / how.window for one in mass]
        row = ([ids[place - lag] for lag in range(how.window)], mass, ids[place + 1])
        (fitted if number in fit_on else scored).append(row)
    for number in fit_on:
        for token in documents[number]:
            counts[int(token)] += 1
    habit = habit_of(fitted, how.window)
    above = below = 0.0
    for tokens, mass, label in scored:
        others = sorted(set(tokens) - {tokens[0]}, key=lambda one: (counts[one], one))
        if label not in others:
            continue
        at = others.index(label)
        mate = at + 1 if at % 2 == 0 else at - 1
        if mate == len(others):
            continue
        usual = habit(tokens)
        beyond = dict.fromkeys(tokens, 0.0)
        for token, given, expected in zip(tokens, mass, usual, strict=True):
            beyond[token] += given - expected
        weight = counts[others[mate]] / (counts[others[mate]] + counts[label])
        above += weight * (beyond[label] - beyond[others[mate]])
        below += weight
    return above / below


def habit_of(rows, window: int):
    """What a head gives by habit: its profile by lag, times what tokens, and pairs with the query, got."""
    strength = 5.0 / window
    profile = [math.fsum(mass[lag] for _, mass, _ in rows) / len(rows) for lag in range(window)]
    given, usual, paired, usually = {}, {}, {}, {}
    for tokens, mass, _ in rows:
        for token, one, base in zip(tokens, mass, profile, strict=True):
            pair = tokens[0], token
            given[token], usual[token] = given.get(token, 0.0) + one, usual.get(token, 0.0) + base
            paired[pair], usually[pair] = paired.get(pair, 0.0) + one, usually.get(pair, 0.0) + base

    def habit(tokens):
        expected = []
        for token, base in zip(tokens, profile, strict=True):
            pair = tokens[0], token
            factor = (given.get(token, 0.0) + strength) / (usual.get(token, 0.0) + strength)
            factor = (paired.get(pair, 0.0) + strength * factor) / (usually.get(pair, 0.0) + strength)
            expected.append(base * factor)
        return [one / math.fsum(expected) for one in expected]

    return habit
