"""The numbered lemmas of "Scan and Snap" (arXiv 2305.16380v4), each as it is stated, by plain numpy.

F has the features f_n as columns and FᵀF = I + E; E' = I − (I + E)⁻¹, as in Lemma 14 (the appendix's list of
notations has the opposite sign, with which Lemma 3 fails). ζ_n = (M e_n − 1)/(M − 1). A bound that the paper
states up to a constant is tested with the constant written here.
"""

import numpy as np
import pytest
from scipy.special import lambertw, softmax
from scipy.stats import binom

from attomaton.theories.scansnap.law import Rates, SnapLaw, solve_exponent


def draw_features(rng, n_classes=4, n_used=60, shared=3):
    """Features with few tokens in common, as columns."""
    table = np.zeros((n_used, n_classes))
    table[:shared] = rng.uniform(0.1, 0.3, (shared, n_classes))
    own = shared + np.arange(n_used - shared)
    table[own, own % n_classes] = rng.uniform(0.2, 1.0, len(own))
    return table / np.linalg.norm(table, axis=0)


def split(features):
    """E and E'."""
    gram = features.T @ features
    return gram - np.eye(len(gram)), np.eye(len(gram)) - np.linalg.inv(gram)


def centred(number, size):
    """ζ_n."""
    return (size * np.eye(size)[number] - 1) / (size - 1)


def discrete(size, rate, steps):
    """h*(s) of Equation 33, from s = 0 on."""
    found = np.zeros(steps + 1)
    for step in range(steps):
        found[step + 1] = found[step] + rate / (size - 1 + np.exp(size * found[step]))
    return found


def continuous(size, rate, steps):
    """h(s) of Equation 45."""
    return solve_exponent(rate * np.asarray(steps, float), size) / size


@pytest.mark.parametrize("seed", range(5))
def test_lemma_3_the_modified_gradient_moves_one_row_of_w(seed):
    rng = np.random.default_rng(seed)
    features = draw_features(rng)
    _, inverse = split(features)
    missed = rng.normal(size=60)
    for number in range(4):
        moved = np.outer(features[:, number] - features @ inverse[:, number], missed)
        np.testing.assert_allclose(features.T @ moved, np.outer(np.eye(4)[number], missed), atol=1e-12)


@pytest.mark.parametrize(("size", "rate"), [(10, 0.5), (300, 0.9), (300, 5.0)])
def test_lemma_5_the_logits_of_one_class_in_closed_form(size, rate):
    logits, height = np.zeros(size), discrete(size, rate, 200)
    for step in range(1, 201):
        predicted = softmax(logits)
        raised = np.exp(size * height[step - 1])
        assert predicted[0] == pytest.approx(raised / (size - 1 + raised), rel=1e-9)
        missed = np.eye(size)[0] - predicted
        np.testing.assert_allclose(missed, (size - 1) / (size - 1 + raised) * centred(0, size), atol=1e-9)
        logits += rate * missed
        np.testing.assert_allclose(logits, (size - 1) * height[step] * centred(0, size), atol=1e-8)


@pytest.mark.parametrize(("size", "rate"), [(50, 0.1), (50, 1.0), (1000, 0.2), (1000, 2.0)])
def test_lemma_7_and_figure_8_steps_are_ahead_of_the_flow_by_little(size, rate):
    steps = np.arange(20_001)
    apart = discrete(size, rate, 20_000) - continuous(size, rate, steps)
    assert (apart >= -1e-15).all()
    assert (apart <= 2 * rate / size).all()
    assert apart[-1] < 0.02 * apart.max()
    early = steps[steps <= np.log(size) / rate]
    assert (continuous(size, rate, early + 3.0) >= discrete(size, rate, 20_000)[early] - 1e-15).all()


@pytest.mark.parametrize("size", [10**3, 10**4, 10**6, 10**9, 10**12])
def test_lemma_8_where_the_exponential_meets_the_line(size):
    first, last = (-lambertw(-1 / (size - 1), branch).real for branch in (0, -1))
    omega = last / np.log(size) - 1
    assert 0.5 < omega / (np.log(np.log(size)) / np.log(size)) < 2
    smaller = 1 + np.log(first) / np.log(size)
    assert abs(smaller) < 2 / (size**0.99 * np.log(size)) + 1e-12
    inside, outside = np.linspace(1.01 * first, 0.99 * last, 99), np.array([0.9 * first, 1.01 * last])
    assert (np.exp(inside) <= (size - 1) * inside).all()
    assert (np.exp(outside) > (size - 1) * outside).all()
    law = SnapLaw(7, size, Rates(3.0, 0.1))
    assert law.snap_start == pytest.approx(2 * (1 + omega) * 7 * np.log(size) / 3.0, rel=1e-9)


@pytest.mark.parametrize("size", [200, 1000, 10**5])
def test_lemma_9_the_gain_by_stages(size):
    law = SnapLaw(5, size, Rates(0.5, 0.1))
    early = np.geomspace(1e-3, 1, 40) * law.scan_end
    assert (law.gain(early) <= law.clock(early)).all()
    assert (law.exponent(early) <= law.clock(early) * size / (size - 1)).all()
    late = np.geomspace(1, 1e8, 60) * law.snap_start
    bound = np.log(size * law.clock(late)) / law.clock(late)
    assert (law.gain(late) <= 2 * bound).all()
    assert (law.gain(late) >= 0.5 * bound).all()


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-4])
def test_lemmas_10_and_18_concentration_of_counts(share, delta):
    """Hoeffding's bound against the exact binomial law, for classes (10) and for tokens of a context (18)."""
    for count in (50, 1000, 40_000):
        reach = np.sqrt(count / 2 * np.log(2 / delta))
        expected = np.ceil(count * share)
        inside = binom.cdf(expected + reach + 1, count, share) - binom.cdf(
            expected - reach - 1 - 1e-9, count, share
        )
        assert inside >= 1 - delta
        reach = np.sqrt(np.log(2 / delta) / (2 * count))
        low, high = count * (share - reach), count * (share + reach)
        assert binom.cdf(high, count, share) - binom.cdf(np.ceil(low) - 1, count, share) >= 1 - delta


@pytest.mark.parametrize(("size", "rate"), [(100, 0.3), (1000, 0.9)])
def test_lemma_11_what_a_few_more_samples_change(size, rate):
    for middle in (50.0, 500.0, 50_000.0):
        reach = 0.1 * middle
        other = middle + np.linspace(-reach, reach, 41)
        height, heights = continuous(size, rate, middle), continuous(size, rate, other)
        assert (np.abs(heights - height) <= height * reach / (middle - reach)).all()
        ratio = (size - 1 + np.exp(size * height)) / (size - 1 + np.exp(size * heights))
        assert (np.abs(np.log(ratio)) <= rate * reach / 3).all()
        if middle > 2 * np.log(size) / rate * 2:
            assert (np.abs(ratio - 1) <= 2 * reach / middle).all()


@pytest.mark.parametrize("seed", range(3))
def test_lemma_12_theorem_5_and_corollary_1_for_sampled_classes(seed):
    """The modified gradient (26) on uniformly drawn classes: Y = F (I − E')(I + Θ) W̄, and the rate."""
    rng = np.random.default_rng(seed)
    features, size, rate, n_steps = draw_features(rng), 60, 0.5, 4_000
    _, inverse = split(features)
    moves, decoder = features - features @ inverse, np.zeros((60, size))
    for number in rng.integers(4, size=n_steps):
        missed = np.eye(size)[number] - softmax(decoder.T @ features[:, number])
        decoder += rate * np.outer(moves[:, number], missed)
    height = continuous(size, rate, n_steps / 4)
    mean = np.stack([(size - 1) * height * centred(number, size) for number in range(4)])
    rows = features.T @ decoder
    spread = np.einsum("nm,nm->n", rows, mean) / np.einsum("nm,nm->n", mean, mean)
    np.testing.assert_allclose(rows, spread[:, None] * mean, atol=1e-8)
    assert (np.abs(spread - 1) <= 4 / np.sqrt(n_steps) * np.sqrt(np.log(4 / 0.05))).all()
    rebuilt = features @ (np.eye(4) - inverse) @ np.diag(spread) @ mean
    np.testing.assert_allclose(decoder, rebuilt, atol=1e-8)
    for number in range(4):
        missed = np.eye(size)[number] - softmax(rows[number])
        assert np.linalg.norm(missed) == pytest.approx(
            (size - 1) / (size - 1 + np.exp(size * spread[number] * height)) * np.sqrt(size / (size - 1)),
            rel=1e-6,
        )


@pytest.mark.parametrize("size", [200, 10**4])
@pytest.mark.parametrize("error", [0.1, 1e-3, 1e-6])
def test_corollary_1_steps_to_a_given_error(size, error):
    """At most K ln(M/ε)/(ε η_Y) steps: the constant is 1."""
    length = np.sqrt(size / (size - 1))
    exponent = np.log((size - 1) * (length / error - 1))
    steps = ((size - 1) * exponent + np.expm1(exponent)) / size
    assert steps <= np.log(size / error) / error


@pytest.mark.parametrize("seed", range(20))
def test_lemmas_13_to_17_the_inverse_of_weak_correlations(seed):
    rng = np.random.default_rng(seed)
    cross, inverse = split(draw_features(rng, n_classes=int(rng.integers(2, 7))))
    values = np.linalg.eigvalsh(cross)
    largest = np.abs(values).max()
    assert largest < 1
    assert np.abs(cross).max() <= largest + 1e-12
    np.testing.assert_allclose(np.linalg.eigvalsh(inverse), np.sort(values / (1 + values)), atol=1e-12)
    assert np.abs(np.linalg.eigvalsh(inverse)).max() <= largest / (1 - largest) + 1e-12
    assert (np.diag(inverse) < 0).all()
    assert np.abs(inverse - cross).max() <= largest**2 / (1 - largest) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_theorem_1_a_and_lemma_4_the_gain_and_the_dynamics_of_attention(seed):
    """g = γ (ι f_n − Σ β f_n') with ξ_n > 0, and Equation 10 is Equation 4 with this g."""
    rng = np.random.default_rng(seed)
    n_classes, size, height = 3, 10**5, 5e-5
    features = draw_features(rng, n_classes)
    cross, inverse = split(features)
    values = np.abs(np.linalg.eigvalsh(cross))
    if values.max() >= 1 / n_classes or values.min() < 6 / np.sqrt(size):
        features = np.vstack([np.full((1, 3), 0.2), np.eye(3)])
        features /= np.linalg.norm(features, axis=0)
        cross, inverse = split(features)
    gain = (size - 1) ** 2 * height / (size - 1 + np.exp(size * height))
    inner = np.full((n_classes, n_classes), -size / (size - 1) ** 2) + np.eye(n_classes) * (
        size / (size - 1) + size / (size - 1) ** 2
    )
    for number in range(n_classes):
        shares = gain * (np.eye(n_classes) - inverse) @ inner[:, number]
        others = np.arange(n_classes) != number
        beta = -shares[others] / gain
        strength = gain * (beta * cross[number, others]).sum()
        assert strength > 0
        returned, feature = features @ shares, features[:, number]
        plain = feature * (returned - feature * (feature @ returned))
        as_stated = (
            gain
            * feature
            * ((np.outer(feature, feature) - np.eye(len(feature))) @ features[:, others] @ beta)
        )
        np.testing.assert_allclose(plain, as_stated, atol=1e-12 * gain)
        alone = (features > 0).sum(axis=1) == 1
        mine = alone & (feature > 0)
        np.testing.assert_allclose(as_stated[mine], feature[mine] ** 2 * strength, rtol=1e-9)


def test_theorem_3_is_exact_under_equation_10():
    """ż = f² ξ for any ξ > 0: the ratio law, to the accuracy of the integration."""
    from scipy.integrate import solve_ivp

    law = np.array([0.4, 0.25, 0.2, 0.1, 0.05])

    def slope(time, scores):
        raised = law * np.exp(scores)
        return raised**2 / (raised @ raised) * (1 + np.sin(time)) / (1 + time)

    scores = solve_ivp(slope, (0, 50), np.zeros(5), rtol=1e-11, atol=1e-12).y[:, -1]
    first = (law[:, None] / law) ** 2 - 1
    last = ((law * np.exp(scores))[:, None] / (law * np.exp(scores))) ** 2 - 1
    np.testing.assert_allclose(last, first * np.exp(2 * scores)[:, None], rtol=1e-8, atol=1e-10)
