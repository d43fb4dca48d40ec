"""Plain gradient descent of our own, compiled, and the curvature of the loss.

W = Eᵀ A E_Q is followed through A, a number for each token and query, and the scores S = G A G_QQ, G = E Eᵀ:
one step takes η/n of the slopes g from A, and G g G_QQ times that from S.
"""

from collections import Counter

import numpy as np
from numba import njit

from tests.adversary.reference.automaton import soft_scores
from tests.adversary.reference.graphs import graphs_of


class Layer:
    """Realisable contexts as bags with numbered queries; the first entry of each bag is its label."""

    def __init__(self, contexts, labels, table):
        kept = [(c, y) for c, y in zip(contexts, labels, strict=True) if y in c]
        self.queries = sorted({context[-1] for context, _ in kept})
        bags = [(self.queries.index(context[-1]), _label_first(context, label)) for context, label in kept]
        self.query = np.array([query for query, _ in bags], np.int64)
        self.token = np.array([token for _, bag in bags for token, _ in bag], np.int64)
        self.times = np.array([times for _, bag in bags for _, times in bag], float)
        self.first = np.cumsum([0] + [len(bag) for _, bag in bags]).astype(np.int64)
        self.table = np.asarray(table, float)
        self.gram = self.table @ self.table.T
        self.plain = bool((self.gram == np.eye(len(self.table))).all())

    def descend(self, step_size, steps, start=None):
        """W after each of the rising numbers of steps from ``start``, shape (len(steps), dim, dim)."""
        dim = self.table.shape[1]
        start = np.zeros((dim, dim)) if start is None else start
        asked = self.table[self.queries]
        kernel = np.ascontiguousarray(self.gram[np.ix_(self.queries, self.queries)])
        held = _descend(
            (self.query, self.token, self.times, self.first),
            (np.ascontiguousarray(self.gram), kernel, self.plain),
            (step_size, np.asarray(steps, np.int64)),
            np.ascontiguousarray(self.table @ start @ asked.T),
        )
        return np.stack([start + self.table.T @ one @ asked for one in held])

    def probabilities(self, scores):
        """Attention of each entry for scores of shape (n_tokens, n_queries)."""
        found = np.empty(len(self.token))
        for number, query in enumerate(self.query):
            own = slice(self.first[number], self.first[number + 1])
            value = scores[self.token[own], query]
            odds = self.times[own] * np.exp(value - value.max())
            found[own] = odds / odds.sum()
        return found

    def sharpness(self, probabilities):
        """The largest eigenvalue of the Hessian where contexts have these probabilities (zeros allowed)."""
        size, n_queries = len(self.table), len(self.queries)
        inner = np.zeros((n_queries, size, size))
        for number, query in enumerate(self.query):
            own = slice(self.first[number], self.first[number + 1])
            tokens, p = self.token[own], probabilities[own]
            inner[query][np.ix_(tokens, tokens)] += (np.diag(p) - np.outer(p, p)) / len(self.query)
        whole = np.zeros((n_queries * size, n_queries * size))
        for query in range(n_queries):
            own = slice(query * size, (query + 1) * size)
            whole[own, own] = inner[query]
        kernel = np.kron(self.gram[np.ix_(self.queries, self.queries)], self.gram)
        values, vectors = np.linalg.eigh(whole)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        kept = values > 1e-15
        root = root[:, kept]
        return float(np.linalg.eigvalsh(root.T @ kernel @ root)[-1]) if kept.any() else 0.0

    def limit_probabilities(self, graphs, soft):
        """Attention in the limit: the label's component alone, with its Luce odds {(query, token): score}."""
        found = np.empty(len(self.token))
        for number, at in enumerate(self.query):
            own = slice(self.first[number], self.first[number + 1])
            query, tokens = self.queries[at], self.token[own]
            graph, label = graphs[query], int(tokens[0])
            scores = np.array([soft[query, t] if graph.tie(label, t) else -np.inf for t in tokens.tolist()])
            odds = self.times[own] * np.exp(scores - scores.max())
            found[own] = odds / odds.sum()
        return found


def curvatures_of(contexts, labels, table):
    """The layer, and the largest curvature of its loss in the limit and at W = 0."""
    layer, graphs = Layer(contexts, labels, table), graphs_of(contexts, labels)
    soft = {
        (query, token): score
        for query, graph in graphs.items()
        for token, score in soft_scores(graph, contexts, labels).items()
    }
    nowhere = np.zeros((len(layer.table), len(layer.queries)))
    limit, first = layer.limit_probabilities(graphs, soft), layer.probabilities(nowhere)
    return layer, layer.sharpness(limit), layer.sharpness(first)


def _label_first(context, label):
    """Tokens with their multiplicities, the label before all others."""
    held = Counter(context)
    return [(label, held.pop(label)), *held.items()]


@njit(cache=True)
def _descend(bags, kernels, pace, scores):
    (gram, asked, plain), (step_size, steps), n = kernels, pace, len(bags[0])
    held = np.zeros(scores.shape)
    kept = np.zeros((len(steps), len(gram), len(asked)))
    slopes, odds = np.zeros(scores.shape), np.zeros(len(gram))
    done = 0
    for mark in range(len(steps)):
        while done < steps[mark]:
            slopes[:] = 0.0
            for sample in range(n):
                _add_slopes(bags, sample, scores, odds, slopes)
            slopes *= step_size / n
            held -= slopes
            if plain:
                scores -= slopes
            else:
                scores -= gram @ slopes @ asked
            done += 1
        kept[mark] = held
    return kept


@njit(cache=True)
def _add_slopes(bags, sample, scores, odds, slopes):
    """Σ (p − [label]) of one context; 1 − p is the sum of the losers, never a difference."""
    query, token, times, first = bags
    start, stop, at = first[sample], first[sample + 1], query[sample]
    highest = -np.inf
    for entry in range(start, stop):
        highest = max(highest, scores[token[entry], at])
    losers = 0.0
    for entry in range(start, stop):
        odds[entry - start] = times[entry] * np.exp(scores[token[entry], at] - highest)
        if entry > start:
            losers += odds[entry - start]
    total = losers + odds[0]
    slopes[token[start], at] -= losers / total
    for entry in range(start + 1, stop):
        slopes[token[entry], at] += odds[entry - start] / total
