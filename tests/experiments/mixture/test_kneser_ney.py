"""Kneser–Ney against its definition, word for word."""

from collections import Counter

import numpy as np
import pytest

from attomaton_experiments.mixture.kneser_ney import FEW, learn_kneser_ney
from attomaton_experiments.mixture.reading import MixtureText
from tests.experiments.mixture.texts import draw_readings, draw_text


class SlowKneserNey:
    """Chen and Goodman's model by dictionaries."""

    def __init__(self, text, before, n_tokens, order):
        padded = [before] * (order - 1) + [int(token) for token in text]
        self.order, self.size, self.counts, self.discounts = order, n_tokens, [], []
        for n in range(1, order + 1):
            ends = range(order - 1, len(padded))
            if n == order:
                counts = Counter(tuple(padded[i - n + 1 : i + 1]) for i in ends)
            else:
                longer = {tuple(padded[i - n : i + 1]) for i in ends}
                counts = Counter(gram[1:] for gram in longer)
            self.counts.append(counts)
            self.discounts.append(self.discounts_of(Counter(counts.values())))

    @staticmethod
    def discounts_of(often):
        if not all(often[n] for n in (1, 2, 3, 4)):
            return FEW
        share = often[1] / (often[1] + 2 * often[2])
        found = {n: n - (n + 1) * share * often[n + 1] / often[n] for n in (1, 2, 3)}
        return tuple(discount if discount > 0 else FEW[n - 1] for n, discount in found.items())

    def probability(self, context, token, n=None):
        n = self.order if n is None else n
        if n == 0:
            return 1 / self.size
        context = tuple(context[len(context) - n + 1 :])
        lower = self.probability(context[1:] if n > 1 else (), token, n - 1)
        after = {gram[-1]: count for gram, count in self.counts[n - 1].items() if gram[:-1] == context}
        if not after:
            return lower
        taken = {word: self.discounts[n - 1][min(count, 3) - 1] for word, count in after.items()}
        total = sum(after.values())
        own = (after[token] - taken[token]) / total if token in after else 0.0
        return own + sum(taken.values()) / total * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_definition(order, seed):
    fitted, held = draw_readings(seed)
    model = learn_kneser_ney(fitted, order)
    slow = SlowKneserNey(fitted.text, 0, fitted.n_tokens, order)
    contexts = held.contexts(order - 1)[:40].tolist()
    expected = [
        slow.probability(context, int(token)) for context, token in zip(contexts, held.text, strict=False)
    ]
    np.testing.assert_allclose(model.read(held)[0][:40], expected, rtol=1e-12)


def test_a_short_text_takes_the_fixed_discounts_as_the_definition_does():
    fitted = MixtureText(np.array([1, 2, 1]), 0, 4)
    slow = SlowKneserNey(fitted.text, 0, 4, 2)
    law = learn_kneser_ney(fitted, 2).law(fitted, 2)
    np.testing.assert_allclose(law, [slow.probability((2,), token) for token in range(4)], rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_law_sums_to_one_and_leaves_nothing_out(order):
    fitted, held = draw_readings(3)
    model = learn_kneser_ney(fitted, order)
    for place in (0, 1, 17, 150):
        law = model.law(held, place)
        assert law.min() > 0
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert model.read(held)[0][place] == pytest.approx(law[held.text[place]], rel=1e-12)


def test_a_longer_context_helps_on_text_that_has_bigrams():
    fitted, held = MixtureText(draw_text(5, 3000), 0, 13), MixtureText(draw_text(6), 0, 13)
    losses = [-np.log(learn_kneser_ney(fitted, order).read(held)[0]).mean() for order in (1, 2)]
    assert losses[1] < losses[0] - 0.1


@pytest.mark.parametrize("order", [5, 6])
def test_a_large_vocabulary_at_a_high_order(order):
    """V⁵ of WikiText-2 is beyond 64 bits: grams were confused, and laws summed to 1.5."""
    rng, n_tokens = np.random.default_rng(order), 33_278
    often = rng.integers(0, n_tokens, 12)
    text = np.where(rng.random(400) < 0.9, rng.choice(often, 400), rng.integers(0, n_tokens, 400))
    fitted = MixtureText(text, 0, n_tokens)
    model, slow = learn_kneser_ney(fitted, order), SlowKneserNey(text, 0, n_tokens, order)
    for place in (0, 3, 50, 399):
        law = model.law(fitted, place)
        assert law.sum() == pytest.approx(1, abs=1e-11)
        context = fitted.contexts(order - 1)[place].tolist()
        for token in (*often[:4].tolist(), int(text[place]), n_tokens - 1):
            assert law[token] == pytest.approx(slow.probability(context, token), rel=1e-12)


def test_no_token_is_impossible_where_a_discount_would_be_negative():
    """D₂ was clipped at 0, so that contexts seen with counts of 2 alone gave other tokens probability 0."""
    text = "0100110001100010010001001100011000000011"
    fitted = MixtureText(np.array(list(map(int, text))), 0, 2)
    model = learn_kneser_ney(fitted, 5)
    assert min(model.law(fitted, place).min() for place in range(len(text))) > 0
