"""Causal value: mean patterns and mean outputs put in place in another forward pass, and Shapley values."""

from itertools import permutations

import numpy as np
import torch
from scipy.stats import t as student

from attomaton.heads.audit.causal import replace_heads, share_out
from attomaton.heads.audit.replacing import LabelledContexts
from attomaton.heads.model import Head
from tests.adversary.finding import Finding, worst_of
from tests.adversary.transformers import build, describe, draw_plain, kind_of

ALLOWED = 1e-10
"""Of losses, relative to one nat and to the loss."""


def attack(rng) -> Finding:
    """``replace_heads`` on sets of heads, and ``share_out`` on a few of them."""
    plain = draw_plain(rng)
    n_tokens, length = len(plain.embedding), int(rng.integers(2, 9))
    rows, others = (rng.integers(0, n_tokens, (int(rng.integers(8, 13)), length + 1)) for _ in range(2))
    scored = rng.random(length) < 0.7
    scored[int(rng.integers(length))] = True
    by, elsewhere = str(rng.choice(["lag", "position"])), bool(rng.random() < 0.3)
    contexts = LabelledContexts.of(rows, length=length, n_tokens=n_tokens, scored=scored)
    means_from = LabelledContexts.of(others, length=length, n_tokens=n_tokens) if elsewhere else None
    sets = [[head for head in plain.heads if rng.random() < 0.5] or plain.heads[:1] for _ in range(2)]
    model = build(plain)
    named = [[Head(*head) for head in some] for some in sets]
    causal = replace_heads(model, contexts, sets=named, by=by, means_from=means_from)
    runs = Runs(plain, rows, scored, means_of(plain, others if elsewhere else rows, by))
    whole, right = runs.losses((), "pattern")
    allowed = ALLOWED * (1.0 + float(np.abs(whole).max()))
    checks = [
        ("loss", abs(causal.loss - whole.mean()), allowed),
        ("accuracy", abs(causal.accuracy - right), 1e-12),
    ]
    for at, some in enumerate(sets):
        for kind, rise, drop in (
            ("pattern", causal.pattern, causal.pattern_drop),
            ("ablation", causal.ablation, causal.ablation_drop),
        ):
            losses, hits = runs.losses(some, kind)
            rises = losses - whole
            wide = allowed + ALLOWED * float(np.abs(losses).max())
            half = student.ppf(0.975, len(rises) - 1) * rises.std(ddof=1) / len(rises) ** 0.5
            checks += [
                (f"rise, {kind}", abs(rise.value[at] - rises.mean()), wide),
                (f"interval, {kind}", abs(rise.high[at] - rises.mean() - half), 10 * wide),
                (f"drop, {kind}", abs(drop[at] - (right - hits)), 1e-12),
            ]
    if rng.random() < 0.3:
        checks += shapley(plain, model, contexts, Runs(plain, rows, scored, means_of(plain, rows, by)), by)
    checks = [one for one in checks if runs.clear or not one[0].startswith(("accuracy", "drop"))]
    case = {**describe(plain), "rows": rows.tolist(), "scored": scored.tolist(), "sets": sets, "by": by}
    return worst_of(checks, rows.size, case, kind=f"by {by}, {kind_of(plain)}")


def means_of(plain, rows, by):
    """The mean pattern and the mean output of each head."""
    _, patterns, outputs = plain.run(torch.from_numpy(rows[:, :-1]))
    mean = {head: one.mean(0) for head, one in patterns.items()}
    given = {head: one.mean(0) for head, one in outputs.items()}
    if by == "position":
        return mean, given
    return {head: profile(one) for head, one in mean.items()}, {
        head: one.mean(0) for head, one in given.items()
    }


def profile(mean):
    """The first token's mean mass, and what is left by a profile over lags, row by row."""
    length = len(mean)
    first = sum(float(mean[row, 0]) for row in range(1, length)) / (length - 1)
    of_lag = [
        np.mean([float(mean[row, row - lag]) for row in range(lag + 1, length)]) for lag in range(length - 1)
    ]
    made = torch.zeros(length, length, dtype=torch.float64)
    made[0, 0] = 1.0
    for row in range(1, length):
        total = sum(of_lag[:row])
        made[row, 0] = first if total > 0 else 1.0
        for place in range(1, row + 1):
            made[row, place] = of_lag[row - place] / total * (1.0 - first) if total > 0 else 0.0
    return made


class Runs:
    """Losses of contexts with heads changed, by the other forward pass."""

    def __init__(self, plain, rows, scored, means):
        self.plain, self.rows, self.scored, self.means = plain, torch.from_numpy(rows), scored, means
        self.clear = True

    def losses(self, heads, kind):
        """The mean loss of each context, and the accuracy; ``clear`` says whether no two tokens tied."""
        patterns, outputs = self.means
        changed = (
            {"patterns": {head: patterns[head] for head in heads}}
            if kind == "pattern"
            else {"outputs": {head: outputs[head] for head in heads}}
        )
        logits = self.plain.run(self.rows[:, :-1], **changed)[0][:, self.scored]
        labels = self.rows[:, 1:][:, self.scored]
        losses = torch.logsumexp(logits, -1) - torch.gather(logits, 2, labels[..., None])[..., 0]
        best = logits.topk(2, -1).values
        self.clear &= bool((best[..., 0] - best[..., 1] > 1e-9 * (1 + best[..., 0].abs())).all())
        return losses.mean(1).numpy(), float((logits.argmax(-1) == labels).double().mean())


def shapley(plain, model, contexts, runs, by):
    """The mean over all orders of what each of up to four heads adds."""
    some = plain.heads[:4]
    found = share_out(model, contexts, [Head(*head) for head in some], by=by)
    checks = []
    for kind, shares in (("pattern", found.pattern), ("ablation", found.ablation)):
        known, added, orders = {}, dict.fromkeys(some, 0.0), list(permutations(some))
        for order in orders:
            for at, head in enumerate(order):
                before, after = frozenset(order[:at]), frozenset(order[: at + 1])
                for one in (before, after):
                    if one not in known:
                        known[one] = float(runs.losses(sorted(one), kind)[0].mean())
                added[head] += (known[after] - known[before]) / len(orders)
        largest = max(map(abs, known.values()))
        apart = max(abs(share - added[head]) for share, head in zip(shares, some, strict=True))
        checks.append((f"Shapley, {kind}", apart, 10 * ALLOWED * (1.0 + largest)))
    return checks
