"""Standard errors where ties count as half wins, against numerical derivatives and simulations."""

from itertools import chain, permutations, product

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import UnsupportedOption


def mean_loss(ranking, scores):
    """−ln p of a ranking, averaged over the orders of those who share a place."""
    places = [place if isinstance(place, list) else [place] for place in ranking]
    ways = product(*(permutations(place) for place in places))
    orders = [list(chain.from_iterable(chosen)) for chosen in ways]
    losses = [
        sum(np.log(np.exp(scores[order[k:]]).sum()) - scores[order[k]] for k in range(len(order)))
        for order in orders
    ]
    return np.mean(losses)


def derivatives(loss, at_scores, step=1e-3):
    """Slope and curvature by central differences."""
    steps = step * np.eye(len(at_scores))
    slope = np.array([(loss(at_scores + a) - loss(at_scores - a)) / (2 * step) for a in steps])
    curvature = [
        [
            loss(at_scores + a + b)
            - loss(at_scores + a - b)
            - loss(at_scores - a + b)
            + loss(at_scores - a - b)
            for b in steps
        ]
        for a in steps
    ]
    return slope, np.array(curvature) / (4 * step**2)


def sandwich(rankings, counts, scores, ridge=0.0):
    """H⁺ Σ (ψψᵀ + W H⁺ W) H⁺ over scores with mean zero."""
    found = [derivatives(lambda s, one=one: mean_loss(one, s), scores) for one in rankings]
    total = sum(n * curvature for n, (_, curvature) in zip(counts, found, strict=True))
    flat = np.full_like(total, 1 / len(scores))
    centre = np.eye(len(scores)) - flat
    inverse = np.linalg.inv(total + ridge * np.eye(len(scores)) + flat) @ centre
    spread = sum(
        n * (np.outer(slope, slope) + curvature @ inverse @ curvature)
        for n, (slope, curvature) in zip(counts, found, strict=True)
    )
    return inverse.T @ (spread + ridge * centre) @ inverse


RANKINGS = [[0, [1, 2], 3], [[0, 1, 2], 3], [3, 2, 1, 0], [[2, 3], [0, 1]], [1, 3], [[1, 2]], [2, 0, 1, 3]]


@pytest.mark.parametrize("ridge", [0.0, 0.8])
@pytest.mark.parametrize("counts", [[1] * 7, [3, 1, 2, 40, 5, 7, 1]])
def test_covariances_of_rankings_with_ties_by_numerical_derivatives(counts, ridge):
    fit = at.fit_choices(rankings=RANKINGS, counts=counts, ridge=ridge)
    scores = np.array([fit.scores[item] for item in range(4)])
    expected = sandwich(RANKINGS, counts, scores, ridge)
    np.testing.assert_allclose(fit.covariance(), expected, rtol=1e-4, atol=1e-8)
    errors = [fit.standard_errors[item] for item in range(4)]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(expected)), rtol=1e-4)
    gap = expected[0, 0] + expected[2, 2] - 2 * expected[0, 2]
    assert fit.difference(0, 2).standard_error == pytest.approx(gap**0.5, rel=1e-4)
    assert fit.n_ties == counts[0] + counts[1] + 2 * counts[3] + counts[5]


def test_a_prior_and_components():
    won, lost, tied = list("aabcdex"), list("bcadcfa"), [False, True, True, False, True, True, False]
    fit, joined = (
        at.fit_choices(won, losers=lost, tied=tied, ties="half", prior=prior) for prior in (None, 0.7)
    )
    assert fit.components == (("x",), ("a", "c", "b", "d"), ("e", "f")) or len(fit.components) == 3
    number = {item: place for place, item in enumerate(joined.items)}
    pairs = [
        [[number[w], number[x]]] if even else [number[w], number[x]]
        for w, x, even in zip(won, lost, tied, strict=True)
    ]
    scores = np.array([joined.scores[item] for item in joined.items])
    expected = sandwich(pairs, [1] * len(pairs), scores, 0.7**-2)
    np.testing.assert_allclose(joined.covariance(), expected, rtol=1e-4, atol=1e-8)
    alone = at.fit_choices(["e"], losers=["f"], tied=[True], ties="half")
    assert fit.difference("e", "f").standard_error == pytest.approx(alone.difference("e", "f").standard_error)
    assert np.isnan(fit.standard_errors["x"])


def test_the_case_of_half_wins():
    """± 0.200 by the information; simulated 0.142."""
    fit = at.fit_choices(
        ["a", "b", "a"], losers=["b", "a", "b"], counts=[25, 25, 50], tied=[False, False, True], ties="half"
    )
    assert fit.difference("a", "b").standard_error == pytest.approx(0.142, abs=0.0015)
    assert "scores give the expected score of a pair, not the odds of a win" in str(fit)
    with pytest.raises(UnsupportedOption, match="half a win has no likelihood"):
        fit.aic  # noqa: B018


def test_ties_alone_are_no_certainty():
    """Every residual is 0, and a plain sandwich would say 0 ± 0."""
    errors = [
        at.fit_choices(["a"], losers=["b"], tied=[True], counts=[n], ties="half")
        .difference("a", "b")
        .standard_error
        for n in (1, 4, 100)
    ]
    np.testing.assert_allclose(errors, [2.0, 0.5, 0.02])


def draw_games(rng, strength, games, share):
    """Winners, losers, flags and counts of a round robin with ties in about this share of the games."""
    rows = []
    for one in range(len(strength)):
        for other in range(one):
            win = 1 / (1 + np.exp(strength[other] - strength[one]))
            even = min(share, 1.9 * min(win, 1 - win))
            often = rng.multinomial(games, [win - even / 2, even, 1 - win - even / 2])
            rows += [
                (one, other, False, often[0]),
                (one, other, True, often[1]),
                (other, one, False, often[2]),
            ]
    return [list(column) for column in zip(*(row for row in rows if row[3]), strict=True)]


@pytest.mark.slow  # simulation
@pytest.mark.parametrize(
    ("strength", "games", "share"),
    [([0.0, 0.0], 100, 0.48), ([0.6, 0.1, -0.1, -0.6], 30, 0.48)],
)
def test_standard_errors_are_as_wide_as_scores_scatter(strength, games, share):
    rng, gaps, errors = np.random.default_rng(5), [], []
    for _ in range(800):
        won, lost, tied, counts = draw_games(rng, strength, games, share)
        gap = at.fit_choices(won, losers=lost, tied=tied, counts=counts, ties="half").difference(0, 1)
        gaps.append(gap.value)
        errors.append(gap.standard_error)
    assert 0.95 < np.std(gaps) / np.sqrt(np.mean(np.square(errors))) < 1.05
    assert abs(np.mean(gaps) - (strength[0] - strength[1])) < 0.03


@pytest.mark.parametrize("tied", [True, False])
def test_the_error_of_a_difference_keeps_its_digits_beside_larger_ones(tied):
    """It was formed from variances a million times as large: 1.1e-5 off."""
    won, lost = ["a", "b", "c", "a"], ["b", "a", "a", "c"]
    fit = at.fit_choices(won, losers=lost, tied=[tied] * 4, ties="half", counts=[10**7, 10**7, 1, 1])
    expected = 2 / (2 * 10**7) if tied else (2 / 10**7) ** 0.5
    assert fit.difference("a", "b").standard_error == pytest.approx(expected, rel=1e-9)


def test_categories_of_tied_rankings_of_which_some_were_never_made():
    rankings, counts = [["a", ["b", "c"]], ["b", "a"], ["c", "a", "b"], ["b", "c", "a"]], [1, 0, 2, 3]
    by = at.fit_choices(rankings=rankings, counts=counts, by=[1, 1, 2, 2]).by
    expected = at.fit_choices(rankings=rankings[2:], counts=counts[2:])
    assert by[1].items == ("a", "b", "c")
    assert by[2].scores == pytest.approx(expected.scores)
