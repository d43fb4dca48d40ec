"""What happens by chance: z is as rare as it says, however few random heads stand behind it."""

import numpy as np
import pytest
from scipy.stats import norm, t

from attomaton.heads.audit.jackknife import Estimates, NullDistribution, as_normal
from attomaton.heads.model import Head

RNG = np.random.default_rng(0)


def exact(values):
    """Measures without an error over documents."""
    return Estimates(values, np.tile(values, (3, 1)))


@pytest.mark.parametrize("many", [8, 16, 80])
def test_a_normal_measure_is_beyond_two_as_rarely_as_two_is(many):
    heads = tuple(Head(0, number) for number in range(many))
    asked = tuple(Head(0, number) for number in range(20))
    z = []
    for _ in range(300):
        null = NullDistribution.of([(heads, exact(3.0 + 0.1 * RNG.normal(size=many)))])
        z.append(null.z(asked, exact(3.0 + 0.1 * RNG.normal(size=20))))
    assert 0.03 < np.mean(np.abs(z) > 2) < 0.055


def test_a_heavy_tail_stays_below_eight_in_a_hundred():
    heads = tuple(Head(0, number) for number in range(16))
    shares = []
    for _ in range(300):
        drawn = RNG.exponential(size=(2, 16))  # as lopsided as what a rung adds
        shares.append(np.abs(NullDistribution.of([(heads, exact(drawn[0]))]).z(heads, exact(drawn[1]))) > 2)
    assert np.mean(shares) < 0.08


def test_students_distances_are_as_rare_as_the_normal_ones():
    apart, behind = np.array([-3.0, 0.5, 6.0]), np.array([8.0, 16.0, 80.0])
    expected = norm.isf(t.sf(apart / np.sqrt(1 + 1 / behind), behind - 1))
    np.testing.assert_allclose(as_normal(apart, behind), expected, rtol=1e-9)


def test_far_and_endless_distances_keep_their_order_and_sign():
    z = as_normal(np.array([-np.inf, -1e9, 0.0, 1e9, np.inf]), np.full(5, 1e4))
    assert z.tolist() == sorted(z.tolist())
    assert np.isinf(z[[0, 4]]).all()
    assert np.isfinite(z[1:4]).all()
    assert z[2] == 0


def test_a_lone_random_head_shows_nothing_but_a_difference():
    one = NullDistribution.of([((Head(0, 0),), exact(np.array([1.0])))])
    assert one.z((Head(0, 0),), exact(np.array([1.0]))).tolist() == [0.0]


def test_few_heads_of_a_narrow_layer_borrow_the_spread_of_the_others():
    heads = tuple(Head(layer, number) for layer in (0, 1) for number in range(8))
    values = np.concatenate([np.linspace(-1, 1, 8) * 0.01, 5.0 + np.linspace(-1, 1, 8)])
    null, asked = NullDistribution.of([(heads, exact(values))]), (Head(0, 0),)
    few = null.z(asked, exact(np.array([0.5])))[0]
    many = NullDistribution.of([(heads, exact(values))] * 2).z(asked, exact(np.array([0.5])))[0]
    assert 0 < few < 2 < many
