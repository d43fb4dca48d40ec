"""The limit of a corpus by definition: hard scores as fractions, soft scores in doubles, rules by paths."""

from collections import Counter
from fractions import Fraction

import numpy as np

from tests.adversary.reference.graphs import graphs_of
from tests.adversary.reference.least_norm import Constraints, least_norm, orthonormal_gram
from tests.adversary.reference.luce import fit_doubles

TIE = 1e-25
"""Hard scores are exact, or have so many digits, that closer ones are equal."""


def constraints_of(graphs):
    """All edges (i, j, query), and whether each is a tie."""
    edges = [(i, j, query) for query, graph in graphs.items() for i, j in graph.wins]
    return edges, [graphs[query].tie(i, j) for i, j, query in edges]


def hard_scores(graph, n_tokens):
    """The score of every node of one query for orthonormal embeddings, exactly."""
    edges, ties = constraints_of({graph.query: graph})
    held = Constraints(edges, orthonormal_gram(n_tokens))
    found = least_norm(held.kernel, [Fraction(int(not tie)) for tie in ties], ties)
    return {token: Fraction(held.score(found, token, graph.query)) for token in graph.nodes}


def soft_scores(graph, contexts, labels):
    """The Luce score of every node, with mean zero in its component."""
    scores = dict.fromkeys(graph.nodes, 0.0)
    for own in graph.components:
        if len(own) > 1:
            items = sorted(own)
            choices = [
                (items.index(label), {items.index(token): m for token, m in held.items()}, 1)
                for label, held in _inside(graph, own, contexts, labels)
            ]
            scores.update(zip(items, fit_doubles(len(items), choices).tolist(), strict=True))
    return scores


def _inside(graph, own, contexts, labels):
    for context, label in zip(contexts, labels, strict=True):
        if context[-1] == graph.query and label in context and label in own:
            held = Counter(token for token in context if token in own)
            if len(held) > 1:
                yield label, held


class Limit:
    """What the limit answers, for orthonormal embeddings or with hard scores given as {(query, token): s}.

    With embeddings, W_fin gives scores also outside of components; they decide where hard scores tie.
    """

    def __init__(self, contexts, labels, n_tokens, *, hard=None, table=None):
        self.graphs = graphs_of(contexts, labels)
        self.n_tokens = n_tokens
        self.hard, self.soft = {} if hard is None else hard, {}
        for query, graph in self.graphs.items():
            for token, score in soft_scores(graph, contexts, labels).items():
                self.soft[query, token] = score
            if hard is None:
                for token, score in hard_scores(graph, n_tokens).items():
                    self.hard[query, token] = score

        if table is not None:
            self.soft = self._leak(table)

    def _leak(self, table):
        """The scores that W_fin gives to all nodes: the least W with the Luce gaps inside components."""
        rows, gaps = [], []
        for query, graph in self.graphs.items():
            for part in graph.components:
                first, *others = sorted(part)
                for other in others:
                    rows.append(np.outer(table[first] - table[other], table[query]).ravel())
                    gaps.append(self.soft[query, first] - self.soft[query, other])
        if not rows:
            return self.soft
        weights = np.linalg.lstsq(np.array(rows), np.array(gaps))[0].reshape((table.shape[1],) * 2)
        return {(query, token): float(table[token] @ weights @ table[query]) for query, token in self.soft}

    def seen(self, context):
        graph = self.graphs.get(context[-1])
        return [] if graph is None else sorted(set(context) & set(graph.nodes))

    def rule(self, context):
        """The rule that answers, and the tokens of the component that precedes all others, if one does."""
        seen = self.seen(context)
        if not seen:
            return "NO_EVIDENCE", set()
        graph = self.graphs[context[-1]]
        top = {one for one in seen if all(one == other or other in graph.reached[one] for other in seen)}
        if not top:
            return "INCOMPARABLE", set()
        return ("DETERMINED" if len(seen) == len(set(context)) else "UNSEEN_IGNORED"), top

    def probabilities(self, context):
        """The probability of every token to be next."""
        found, seen, query = np.zeros(self.n_tokens), self.seen(context), context[-1]
        if not seen:
            for token in context:
                found[token] += 1 / len(context)
            return found
        best = max(self.hard[query, token] for token in seen)
        taken = [token for token in seen if best - self.hard[query, token] < TIE]
        highest = max(self.soft[query, token] for token in taken)
        odds = [context.count(token) * np.exp(self.soft[query, token] - highest) for token in taken]
        found[taken] = np.array(odds) / sum(odds)
        return found
