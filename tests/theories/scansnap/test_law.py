"""The closed form: equal to the equations it solves, and to what theory says about their ends."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import brentq

from attomaton.base.errors import UnsupportedOption
from attomaton.theories.scansnap.law import Rates, SnapLaw, solve_exponent
from attomaton_experiments.scansnap.star import integrate_law, star_constant

laws = st.builds(
    SnapLaw,
    st.integers(2, 50),
    st.integers(10, 100_000),
    st.builds(Rates, st.floats(0.1, 100), st.floats(0.01, 10)),
    st.one_of(st.none(), st.floats(1e-3, 1e6)),
)


@given(st.integers(2, 10**6), st.floats(0, 1e8))
def test_the_exponent_is_the_root_of_its_equation(n_tokens, clock):
    def excess(root):
        return ((n_tokens - 1) * root + np.expm1(root)) / n_tokens - clock

    found = float(solve_exponent(clock, n_tokens))
    if clock == 0:
        assert found == 0
    else:
        assert found == pytest.approx(brentq(excess, 0, 60, xtol=1e-14, rtol=1e-14), rel=1e-9)


@given(laws, st.floats(0.1, 50))
def test_the_closed_form_solves_its_equations(law, turns):
    times = np.array([0.3, 1.0]) * turns * law.turn
    gain, growth = integrate_law(law, times)
    np.testing.assert_allclose(law.gain(times), gain, rtol=1e-6)
    np.testing.assert_allclose(law.growth(times), growth, rtol=1e-6, atol=1e-12)


@given(laws)
def test_the_gain_is_largest_at_the_turn(law):
    near = law.turn * np.array([0.9, 0.99, 1.0, 1.01, 1.1])
    assert law.gain(near).argmax() == 2


@given(laws, st.floats(0.1, 10))
def test_growth_at_the_snap_depends_on_the_ratio_alone(law, scale):
    faster = Rates(law.rates.decoder * scale, law.rates.attention * scale)
    other = SnapLaw(law.n_classes, law.n_tokens, faster, law.start)
    assert other.snap == pytest.approx(law.snap / scale, rel=1e-6)
    assert float(other.growth(other.snap)) == pytest.approx(float(law.growth(law.snap)), rel=1e-6)


def test_a_larger_decoder_rate_snaps_earlier_and_leaves_attention_denser():
    laws = [SnapLaw(10, 1000, Rates(rate, 0.5)) for rate in (0.5, 1.0, 2.0, 5.0)]
    snaps = [law.snap for law in laws]
    assert snaps == sorted(snaps, reverse=True)
    ends = [float(law.growth(7000.0)) for law in laws]
    assert ends == sorted(ends, reverse=True)


def test_growth_slows_but_does_not_stop():
    law = SnapLaw(10, 1000, Rates(5.0, 0.5))
    late = law.growth(law.snap * 10.0 ** np.arange(1, 9))
    assert (np.diff(late) > 0).all()
    assert (np.diff(np.diff(late)) < 0).all()


@pytest.mark.parametrize("n_tokens", [100, 1000, 10_000, 10**6])
def test_the_snap_of_slow_growth_is_the_limit_of_large_constants(n_tokens):
    law = SnapLaw(10, n_tokens, Rates(5.0, 0.5), start=1e12)
    assert law.snap_of_slow_growth == pytest.approx(law.snap, rel=3 / n_tokens**0.5)
    assert law.snap_of_slow_growth < law.snap_start


def test_with_one_class_there_is_nothing_to_tell_apart():
    with pytest.raises(UnsupportedOption, match=r"n_classes .* is 1; give a whole number, 2 or more"):
        star_constant(1, 100, common=0.1)


@pytest.mark.parametrize("bad", [(0.0, 1.0), (1.0, -1.0), (np.inf, 1.0), (np.nan, 1.0)])
def test_rates_that_make_no_sense_are_refused(bad):
    with pytest.raises(UnsupportedOption, match="give a finite number of at least"):
        Rates(*bad)


def test_momentum_and_time_are_checked():
    with pytest.raises(UnsupportedOption, match="momentum"):
        Rates.with_momentum(1.0, 1.0, 1.0)
    with pytest.raises(UnsupportedOption, match="time"):
        SnapLaw(2, 10, Rates(1.0, 1.0)).gain(-1.0)
    with pytest.raises(UnsupportedOption, match="n_classes is 0; give a whole number, 1 or more"):
        SnapLaw(0, 10, Rates(1.0, 1.0))
