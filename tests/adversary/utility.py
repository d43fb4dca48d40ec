"""Utility: measured against autograd of another forward pass, and in closed form against its definition."""

import numpy as np
import torch

from attomaton.corpora.samples import Samples
from attomaton.heads.utility.closed import count_pairs, find_closed_utility
from attomaton.heads.utility.measured import measure_utility
from tests.adversary.finding import Finding, worst_of
from tests.adversary.transformers import build, describe, draw_plain, kind_of

ALLOWED = 1e-8
"""Of the largest gain before it is centred, relative."""

ROUNDING = 1e-14
"""Of the terms that a gain is summed of: where probabilities are the text's, P − p is rounding alone."""


def attack_measured(rng) -> Finding:
    """``measure_utility`` against −∂(loss of the window)/∂a, with all heads by the baseline or one."""
    plain = draw_plain(rng)
    n_tokens, length = len(plain.embedding), int(rng.integers(2, 8))
    rows = rng.integers(0, n_tokens, (int(rng.integers(1, 6)), length + 1))
    how = {
        "baseline": str(rng.choice(["uniform", "position"])),
        "alone": bool(rng.random() < 0.4),
        "first": int(rng.integers(0, length)),
        "copies": bool(rng.random() < 0.3),
        "strength": float(rng.choice([0.0, 5.0, 1e6])),
    }
    tables = measure_utility(build(plain), rows, **how)
    gains = find_gains(plain, rows, how["baseline"], alone=how["alone"])
    checks = []
    for table, head in zip(tables, plain.heads, strict=True):
        raw, centred = gains[head]
        dense, background, counts = tabulate(rows, centred, n_tokens, how)
        allowed = ALLOWED * max(np.abs(raw).max(), 1e-300)
        checks += [
            ("utility", float(np.abs(table.dense() - dense).max()), allowed),
            ("background", float(np.abs(table.background - background).max()), allowed),
            ("counts", float(table.counts.tolist() != [counts[pair] for pair in sorted(counts)]), 0.0),
        ]
    case = {**describe(plain), "rows": rows.tolist(), **how}
    return worst_of(checks, rows.size, case, kind=kind_of(plain))


def find_gains(plain, rows, baseline, *, alone):
    """Of each head −∂loss/∂a as it is, and centred, shape (n, length, length)."""
    tokens = torch.from_numpy(rows)
    n, length = len(rows), rows.shape[1] - 1
    trained = plain.run(tokens[:, :-1])[1]
    flat = torch.tril(torch.ones(length, length, dtype=torch.float64))
    flat = flat / torch.arange(1, length + 1)[:, None]
    base = {head: flat if baseline == "uniform" else trained[head].mean(0) for head in plain.heads}
    found = {}
    for group in [[head] for head in plain.heads] if alone else [plain.heads]:
        leaves = {head: base[head].expand(n, -1, -1).clone().requires_grad_(True) for head in group}
        logits = plain.run(tokens[:, :-1], patterns=leaves)[0]
        probabilities = torch.log_softmax(logits, -1)
        gain = probabilities.gather(2, tokens[:, 1:, None]).sum()
        slopes = torch.autograd.grad(gain, list(leaves.values()))
        for head, slope in zip(leaves, slopes, strict=True):
            mean = (slope * base[head]).sum(-1, keepdim=True)
            found[head] = slope.numpy(), torch.tril(slope - mean).numpy()
    return found


def tabulate(rows, gains, n_tokens, how):
    """The table by its definition: means over pairs, shrunk to the token's mean."""
    held = {}
    for row, ids in enumerate(rows.tolist()):
        for query in range(how["first"], len(ids) - 1):
            if how["copies"] and ids[query + 1] not in ids[: query + 1]:
                continue
            for key in range(query + 1):
                held.setdefault((ids[query], ids[key]), []).append(gains[row, query, key])
    background = np.zeros(n_tokens)
    for token in range(n_tokens):
        some = [one for (_, key), every in held.items() if key == token for one in every]
        background[token] = sum(some) / len(some) if some else 0.0
    dense = np.tile(background, (n_tokens, 1))
    for (query, token), some in held.items():
        strength = how["strength"]
        dense[query, token] = (sum(some) + strength * background[token]) / (len(some) + strength)
    return dense, background, {pair: len(some) for pair, some in held.items()}


def attack_closed(rng) -> Finding:
    """``find_closed_utility`` against ⟨−∂/∂o CE(P(·|k), p(·|k)), v(x)⟩ at the mean field."""
    plain = draw_plain(rng)
    n_tokens, repeated = len(plain.embedding), int(rng.choice([1, 1, 2, 5]))
    contexts = [
        rng.integers(0, n_tokens, int(rng.integers(1, 6))).tolist() for _ in range(rng.integers(1, 12))
    ]
    labels = rng.integers(0, n_tokens, len(contexts)).tolist()
    copies = bool(rng.random() < 0.4)
    counts = count_pairs(Samples.from_lists(contexts, labels, n_tokens=n_tokens))
    tables = find_closed_utility(build(plain), counts, repeated=repeated, copies=copies)
    text = Text(contexts, labels, n_tokens)
    checks = []
    for table, (head, (values, slopes, steep)) in zip(
        tables, mean_field(plain, text, repeated).items(), strict=True
    ):
        products = slopes @ values.T
        added, of = correct(plain, text, head) if copies else (0.0, 0.0)
        raw = products + added
        score = (raw - (products @ text.shares)[:, None]) * (1.0 - 1.0 / text.length)
        seen = text.seen
        background = (score * seen).sum(0) / np.maximum(seen.sum(0), 1)
        dense = np.where(seen > 0, score, background)
        size = np.abs(raw).max() + np.abs(products).max()
        terms = np.max(steep @ np.abs(values).T + of)  # Σ_y |∂z_y/∂o|·|v|, of which P − p takes a part
        allowed = ALLOWED * size + ROUNDING * terms + 1e-300
        checks.append(("closed form", float(np.abs(table.dense() - dense).max()), allowed))
    case = {**describe(plain), "contexts": contexts, "labels": labels, "repeated": repeated, "copies": copies}
    return worst_of(checks, len(contexts), case, kind=kind_of(plain))


class Text:
    """What is counted of contexts and labels, by loops."""

    def __init__(self, contexts, labels, n_tokens):
        every = [token for context in contexts for token in context]
        self.length = len(every) / len(contexts)
        self.shares = np.array([every.count(token) / len(every) for token in range(n_tokens)])
        self.seen, self.times, self.copied, self.next = (np.zeros((n_tokens, n_tokens)) for _ in range(4))
        for context, label in zip(contexts, labels, strict=True):
            query = context[-1]
            self.next[query, label] += 1
            for token in set(context):
                self.seen[query, token] += 1
                self.times[query, token] += context.count(token)
                self.copied[query, token] += context.count(token) * (token == label)
        self.next /= np.maximum(self.next.sum(1, keepdims=True), 1)


def mean_field(plain, text, repeated):
    """Of each head what it gives for every token alone, and −∂cross-entropy/∂output for every query."""
    n_tokens, share = len(plain.embedding), 1.0 / text.length
    tokens = torch.arange(n_tokens)[:, None].expand(-1, repeated)
    flat = torch.tril(torch.ones(repeated, repeated, dtype=torch.float64))
    patterns = dict.fromkeys(plain.heads, flat / flat.sum(1, keepdim=True))
    mixed, values = {}, {}
    for layer in range(plain.n_layers):
        given = plain.run(tokens, patterns, {head: one[:, None] for head, one in mixed.items()})[2]
        for head in [one for one in plain.heads if one[0] == layer]:
            values[head] = given[head][:, -1]
            mean = sum(text.shares[token] * values[head][token] for token in range(n_tokens))
            mixed[head] = share * values[head] + (1.0 - share) * mean
    leaves = {head: one.clone().requires_grad_(True) for head, one in mixed.items()}
    logits = plain.run(tokens, patterns, {head: one[:, None] for head, one in leaves.items()})[0][:, -1]
    gain = (torch.tensor(text.next) * torch.log_softmax(logits, -1)).sum()
    slopes = torch.autograd.grad(gain, list(leaves.values()), retain_graph=True)
    summed = dict.fromkeys(leaves, 0.0)
    for token in range(n_tokens):
        parts = torch.autograd.grad(logits[:, token].sum(), list(leaves.values()), retain_graph=True)
        summed = {head: summed[head] + part.abs() for head, part in zip(leaves, parts, strict=True)}
    return {
        head: (values[head].numpy(), slope.numpy(), summed[head].numpy())
        for head, slope in zip(leaves, slopes, strict=True)
    }


def correct(plain, text, head):
    """(r − P(x|k))·(ω_x(x) − ⟨P(·|k), ω(x)⟩)/(1 − P(x|k)) for each query k and token x, and its terms."""
    layer, number = head
    group = number // (plain.n_heads // plain.n_groups)
    read = plain.map(layer, "value", plain.apply_norm(plain.embedding, 2 * layer))
    read = read[:, group * plain.width : (group + 1) * plain.width]
    written = read @ plain.maps[layer]["output"][number * plain.width : (number + 1) * plain.width]
    if plain.norm == "layer":
        written = written - written.mean(-1, keepdim=True)
    if plain.norm != "none":
        written = written * plain.gains[-1]
    written = (written @ plain.decoder).numpy()
    rate = (text.copied + text.next) / (text.times + 1)
    below = np.maximum(1.0 - text.next, 1e-9)
    share, own = (rate - text.next) / below, np.diag(written)
    terms = np.abs(share) * (np.abs(own) + text.next @ np.abs(written).T)
    return share * (own - text.next @ written.T), terms
