"""Plain gradient descent of our own, and the curvature of the loss.

W is followed through the scores of the entries of bags: each step adds multiples of the entries' directions
e_token e_queryᵀ to W, and the products of these directions to the scores.
"""

from collections import Counter

import numpy as np

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

    def descend(self, step_size, steps, start=None):
        """W after each of the rising numbers of steps from ``start``, shape (len(steps), dim, dim).

        The slope at an entry is p, at a label p − 1; 1 − p is the sum of the losers, never a difference.
        """
        dim, starts = self.table.shape[1], self.first[:-1]
        start = np.zeros((dim, dim)) if start is None else start
        sample = np.repeat(np.arange(len(starts)), np.diff(self.first))
        asked = np.array(self.queries)[self.query[sample]]
        products = self.gram[np.ix_(self.token, self.token)] * self.gram[np.ix_(asked, asked)]
        scores = np.sum(self.table[self.token] @ start * self.table[asked], axis=1)
        pace, sums, found, done = step_size / len(starts), np.zeros(len(self.token)), [], 0
        pull = pace * products
        for mark in steps:
            for _ in range(int(mark) - done):
                slopes = self.times * np.exp(scores - np.maximum.reduceat(scores, starts)[sample])
                winner, slopes[starts] = slopes[starts], 0.0
                losers = np.add.reduceat(slopes, starts)
                slopes[starts] = -losers
                slopes /= (winner + losers)[sample]
                sums += slopes
                scores -= pull @ slopes
            done = int(mark)
            combined = np.zeros((len(self.table), len(self.table)))
            np.add.at(combined, (self.token, asked), sums)
            found.append(start - pace * (self.table.T @ combined @ self.table))
        return np.stack(found)

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
