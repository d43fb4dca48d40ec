"""Builders against fit_choices and against each other."""

import numpy as np
import pytest

import attomaton as at
from attomaton.choices.logit import fit_logit
from attomaton.choices.logit.builders import binary_logit, multinomial_logit


@pytest.mark.parametrize("seed", range(6))
def test_rankings_in_the_general_engine_are_those_of_the_luce_model(seed):
    rng = np.random.default_rng(seed)
    orders = [[f"item {k}" for k in rng.permutation(5)[: rng.integers(2, 6)]] for _ in range(12)]
    judges = at.fit_choices(rankings=orders, cluster=list(range(12)))
    fit, present = judges.logit.expect(), at.fit_choices(rankings=orders)
    for part in present.components:
        for item in part[1:]:
            assert fit.contrast(part[0], item).value == pytest.approx(
                present.difference(part[0], item).value, abs=1e-9
            )


@pytest.mark.parametrize("seed", range(6))
def test_half_wins_in_the_general_engine_are_those_of_the_luce_model(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 60)
    second = (first + rng.integers(1, 4, 60)) % 4
    tied = rng.random(60) < 0.3
    options = {"losers": [f"{k}" for k in second], "tied": tied, "ties": "half"}
    fit = at.fit_choices([f"{k}" for k in first], cluster=list(range(60)), **options).logit.expect()
    present = at.fit_choices([f"{k}" for k in first], **options)
    difference, contrast = present.difference("0", "1"), fit.contrast("0", "1")
    assert contrast.value == pytest.approx(difference.value, abs=1e-9)
    assert contrast.robust_error == pytest.approx(difference.standard_error, rel=0.2)  # another sandwich


def test_two_classes_are_a_logistic_regression():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
    outcome = rng.random(80) < 0.5
    binary = fit_logit(binary_logit(rows, outcome, names=["1", "y", "z"])).expect()
    words = ["yes" if one else "no" for one in outcome]
    several = fit_logit(multinomial_logit(rows, words, names=["1", "y", "z"])).expect()
    for name in ("1", "y", "z"):
        a, b = binary.contrast(name), several.contrast(f"yes: {name}", f"no: {name}")
        assert a.value == pytest.approx(b.value, abs=1e-9)
        assert a.standard_error == pytest.approx(b.standard_error, abs=1e-9)
        assert a.robust_error == pytest.approx(b.robust_error, abs=1e-9)


def test_position_and_style_are_estimated():
    rng = np.random.default_rng(1)
    first = rng.integers(0, 4, 4000)
    second = (first + rng.integers(1, 4, 4000)) % 4
    style = rng.normal(size=(4000, 1))
    half = 0.5 * (0.3 * (first - second) + 0.4 + 0.5 * style[:, 0])
    noise = rng.gumbel(size=(4000, 3))
    ends = (np.stack([half, -half, np.full(4000, -0.2)], axis=1) + noise).argmax(axis=1)
    games = {
        "one": first + 7,
        "other": second + 7,
        "end": np.array([1.0, 0.0, 0.5])[ends],
        "style": style[:, 0],
    }
    names = {"first": "one", "second": "other", "outcome": "end", "moved_first": "one"}
    fit = at.fit_choices(games, **names, features=["style"]).logit.expect()
    truth = {"moved_first": 0.4, "style": 0.5, "tie": -0.2}
    for name, value in truth.items():
        contrast = fit.contrast(name)
        assert abs(contrast.value - value) < 4 * contrast.standard_error
    assert abs(fit.contrast("10", "7").value - 0.9) < 4 * fit.contrast("10", "7").standard_error
