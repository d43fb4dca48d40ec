"""Kneser–Ney: laws that sum to one and equal plain dictionaries, at any vocabulary and order."""

from collections import Counter, defaultdict
from math import fsum

import numpy as np

from attomaton_experiments.mixture.kneser_ney import learn_kneser_ney
from attomaton_experiments.mixture.reading import MixtureText
from tests.adversary.finding import Finding, worst_of

VOCABULARIES = (1, 2, 3, 8, 100, 5_000, 33_278, 50_000)


def draw(rng):
    """A text over few of many tokens, with stretches that come again, and one to judge with new tokens."""
    n_tokens, order = int(rng.choice(VOCABULARIES)), int(rng.integers(1, 7))
    ends = [0, n_tokens - 1]  # the largest ids are those whose keys overflow first
    often = np.concatenate([ends, rng.integers(0, n_tokens, int(rng.integers(1, 12)))])
    length = int(rng.choice([1, 2, 5, 40, 300]))
    text = rng.choice(often, length)
    if length > 20:
        text[length // 2 :][: length // 3] = text[: length // 3]
    other = np.concatenate([text[: length // 2], rng.choice(often, 3), rng.integers(0, n_tokens, 3)])
    return n_tokens, order, int(rng.choice(often)), text, other


class Model:
    """Chen and Goodman's interpolated model, its grams in dictionaries by context."""

    def __init__(self, text, before, n_tokens, order):
        padded = [before] * order + text
        self.n_tokens, self.orders = n_tokens, []
        for size in range(1, order + 1):
            spans = [tuple(padded[end - size + 1 : end + 1]) for end in range(order, len(padded))]
            if size < order:
                longer = {(padded[end - size], *spans[end - order]) for end in range(order, len(padded))}
                spans = [gram[1:] for gram in longer]
            after = defaultdict(Counter)
            for gram in spans:
                after[gram[:-1]][gram[-1]] += 1
            self.orders.append((after, self._discounts(Counter(spans).values())))

    @staticmethod
    def _discounts(counts):
        often = Counter(counts)
        if not all(often[number] for number in (1, 2, 3, 4)):
            return {1: 0.5, 2: 1.0, 3: 1.5}
        share = often[1] / (often[1] + 2 * often[2])
        found = {n: n - (n + 1) * share * often[n + 1] / often[n] for n in (1, 2, 3)}
        return {n: discount if discount > 0 else n / 2 for n, discount in found.items()}

    def probability(self, context, token):
        probability = 1 / self.n_tokens
        for width, (after, discount) in enumerate(self.orders):
            counts = after.get(tuple(context[len(context) - width :]))
            if counts:
                total = sum(counts.values())
                own = counts[token] - discount[min(counts[token], 3)] if token in counts else 0.0
                rest = fsum(discount[min(count, 3)] for count in counts.values())
                probability = (own + rest * probability) / total
        return probability


def attack(rng) -> Finding:
    """``learn_kneser_ney`` on a text, judged on another."""
    n_tokens, order, before, text, other = draw(rng)
    fitted, judged = MixtureText(text, before, n_tokens), MixtureText(other, before, n_tokens)
    model, plain = learn_kneser_ney(fitted, order), Model(text.tolist(), before, n_tokens, order)
    padded = [before] * order + other.tolist()
    probabilities = model.read(judged)[0]
    expected = [
        plain.probability(padded[end : end + order], token) for end, token in enumerate(other.tolist())
    ]
    place = int(rng.integers(len(other)))
    law = model.law(judged, place)
    some = [0, n_tokens - 1, *rng.integers(0, n_tokens, 4).tolist(), *other[:8].tolist()]
    told = [plain.probability(padded[place : place + order], token) for token in some]
    checks = [
        ("probability, relative", float(np.max(np.abs(probabilities / expected - 1))), 1e-11),
        ("law, relative", float(np.max(np.abs(law[some] / told - 1))), 1e-11),
        ("sum of a law", abs(fsum(law.tolist()) - 1), 1e-11),
    ]
    case = {"text": text.tolist(), "judged": other.tolist(), "before": before, "n_tokens": n_tokens}
    return worst_of(checks, len(text) * order, case | {"order": order, "place": place}, kind=f"order {order}")
