"""The fast fit against plain minimisation of the loss as it is written."""

import numpy as np
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize, root
from scipy.special import log_softmax

from attomaton.heads.audit.fitting import Design, _conjugate_step, _newton_step, divergence, fit_head


def draw_problem(seed, *, profile, keyed, n_features):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 5, (12, 4)).astype(np.int32)
    attention = rng.dirichlet(np.ones(4), 12)
    design = Design(profile, tokens if keyed else None, 5, rng.normal(size=(n_features, 12, 4)), ridge=0.01)
    return design, attention


def by_definition(design, attention):
    """The coefficients by BFGS on the mean cross-entropy, every score written out."""
    n, window = attention.shape

    def scores(row, place, given):
        total = given[place] if design.profile else 0.0
        at = window if design.profile else 0
        if design.tokens is not None:
            total += given[at + design.tokens[row, place]]
            at += design.n_tokens
        return total + sum(
            given[at + f] * design.features[f, row, place] for f in range(len(design.features))
        )

    def loss(given):
        total = 0.5 * float(np.sum(design.penalty * given**2))
        for row in range(n):
            told = np.array([scores(row, place, given) for place in range(window)])
            total -= attention[row] @ (told - np.log(np.exp(told).sum())) / n
        return total

    return loss, minimize(loss, np.zeros(design.size), method="BFGS", options={"gtol": 1e-5}).x


@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.integers(0, 2))
@settings(max_examples=3)
def test_the_fit_is_the_least_loss(seed, profile, keyed, n_features):
    design, attention = draw_problem(seed, profile=profile, keyed=keyed, n_features=n_features)
    if not design.size:
        return
    loss, expected = by_definition(design, attention)
    found = fit_head(design, attention)
    assert loss(found) <= loss(expected) + 1e-7
    np.testing.assert_allclose(
        log_softmax(design.scores(found), axis=-1), log_softmax(design.scores(expected), axis=-1), atol=5e-3
    )


@given(st.integers(0, 1000), st.booleans(), st.integers(1, 3))
@settings(max_examples=15)
def test_dense_steps_and_conjugate_gradients_reach_the_same_fit(seed, profile, n_features):
    """The factored Hessian against an effect per token that is the same for all, so that it says nothing."""
    design, attention = draw_problem(seed, profile=profile, keyed=False, n_features=n_features)
    n = len(attention)
    coefficients = 0.3 * np.random.default_rng(seed).normal(size=design.size)
    probabilities = np.exp(log_softmax(design.scores(coefficients), axis=-1))
    gradient = design.collect((probabilities - attention) / n) + design.penalty * coefficients
    dense = _newton_step(design, probabilities, gradient)
    step = np.zeros(design.size)
    for _ in range(20):  # each call ends early; what is left of the gradient is given to the next
        along = design.scores(step)
        along -= (probabilities * along).sum(1, keepdims=True)
        left = gradient + design.collect(probabilities * along / n) + design.penalty * step
        if np.abs(left).max() < 1e-15:
            break
        step = step + _conjugate_step(design, probabilities, left)
    shown = [one - (probabilities * one).sum(1, keepdims=True) for one in map(design.scores, (dense, step))]
    np.testing.assert_allclose(shown[0], shown[1], atol=1e-6)
    same = Design(profile, np.zeros(attention.shape, np.int64), 1, design.features, ridge=0.01)
    fits = [log_softmax(one.scores(fit_head(one, attention)), axis=-1) for one in (design, same)]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-6)


@given(st.integers(0, 1000), st.booleans(), st.booleans())
@settings(max_examples=20)
def test_collecting_is_the_adjoint_of_scoring(seed, profile, keyed):
    design, attention = draw_problem(seed, profile=profile, keyed=keyed, n_features=2)
    given_ = np.random.default_rng(seed).normal(size=design.size)
    np.testing.assert_allclose(
        np.vdot(design.scores(given_), attention), np.vdot(given_, design.collect(attention))
    )


def test_one_sided_attention_ends():
    attention = np.zeros((50, 4))
    attention[:, 1] = 1.0
    design = Design(True, None, 1, np.zeros((0, 50, 4)))
    logs = log_softmax(design.scores(fit_head(design, attention)), axis=-1)
    assert divergence(attention, logs).max() < 1e-3


def test_offsets_of_places_that_a_sharp_head_never_looked_at_are_settled():
    """Only the tiny ridge holds them, and other documents are scored by them."""
    attention = np.full((20, 4), 1e-7)
    attention[:14, 0] = attention[14:, 1] = 1.0
    attention /= attention.sum(1, keepdims=True)
    design = Design(True, None, 1, np.zeros((0, 20, 4)))
    found = fit_head(design, attention)
    mean = attention.mean(0)

    def slope(offsets):
        raised = np.exp(offsets - offsets.max())
        return raised / raised.sum() - mean + 1e-6 * offsets

    exact = root(slope, found, tol=1e-14).x
    assert np.abs(slope(exact)).max() < 1e-12
    assert np.abs(found - exact).max() < 1e-2
