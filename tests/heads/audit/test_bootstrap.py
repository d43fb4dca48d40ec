"""Draws of documents, and many tests at once."""

from math import erfc
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from attomaton.base.errors import InvalidSamples
from attomaton.heads.audit.jackknife import Resampled, above_null, divide


def test_errors_are_those_of_documents_not_of_rows():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(200), 10)
    values = np.repeat(rng.normal(size=200), 10)[:, None]
    told = Resampled.over(documents).mean(values)
    assert told.error[0] == pytest.approx(1 / np.sqrt(200), rel=0.15)
    assert told.low[0] < told.value[0] < told.high[0]


def of_documents(rng, n, columns):
    """Means of documents, lopsided (normal and exponential) and 0 on average, and five rows of each."""
    own = rng.normal(size=(n, columns)) + rng.exponential(size=(n, columns)) - 1.0
    return np.repeat(np.arange(n), 5), np.repeat(own, 5, 0) + 0.5 * rng.normal(size=(5 * n, columns))


@pytest.mark.parametrize("n", [8, 12, 20, 60])
def test_intervals_cover_and_z_is_as_rare_as_it_says(n):
    documents, values = of_documents(np.random.default_rng(n), n, 4_000)
    means = Resampled.over(documents).mean(values)
    assert 0.93 < np.mean((means.low <= 0) & (means.high >= 0)) < 0.965
    assert 0.035 < np.mean(np.abs(means.z) > 1.96) < 0.07


@pytest.mark.parametrize(
    ("law", "n", "share"), [("normal", 8, 0.95), ("exponential", 40, 0.93), ("exponential", 8, 0.89)]
)
def test_the_page_says_how_often_intervals_contain_the_mean(law, n, share):
    values = getattr(np.random.default_rng(1), law)(size=(n, 40_000))
    means = Resampled.over(np.arange(n)).mean(values)
    mean = {"normal": 0.0, "exponential": 1.0}[law]
    assert np.mean((means.low <= mean) & (means.high >= mean)) == pytest.approx(share, abs=0.005)
    page = (Path(__file__).parents[3] / "docs" / "heads-method.md").read_text(encoding="utf-8")
    assert f"{share:.0%}".replace("%", " %") in page


@pytest.mark.parametrize("n", [8, 20])
def test_intervals_of_shares_cover(n):
    """Of a ratio of sums, as explained shares are, over documents of unequal lengths."""
    rng = np.random.default_rng(n)
    rows = rng.integers(3, 8, n)
    documents = np.repeat(np.arange(n), rows)
    own = (rng.normal(size=(n, 4_000)) + rng.exponential(size=(n, 4_000)) - 1.0)[documents]
    below = rng.exponential(size=own.shape)
    shares = Resampled.over(documents).ratio(below * (0.3 + 0.2 * own), below)
    assert np.mean((shares.low <= 0.3) & (shares.high >= 0.3)) > 0.93


def test_errors_are_those_of_leaving_documents_out():
    rng = np.random.default_rng(3)
    documents, above, below = np.repeat(np.arange(9), 2), rng.normal(size=18), rng.uniform(1, 2, 18)
    shares = Resampled.over(documents).ratio(above[:, None], below[:, None])
    without = [above[documents != one].sum() / below[documents != one].sum() for one in range(9)]
    assert shares.without[:, 0] == pytest.approx(without)
    assert shares.error[0] == pytest.approx(np.sqrt(8 / 9 * np.sum((without - np.mean(without)) ** 2)))
    mean = Resampled.over(np.arange(18)).mean(above[:, None])
    plain = ttest_1samp(above, 0.0)
    assert (mean.low[0], mean.high[0]) == pytest.approx(tuple(plain.confidence_interval(0.95)))
    assert norm.sf(abs(mean.z[0])) * 2 == pytest.approx(plain.pvalue)


def test_few_documents_are_refused():
    with pytest.raises(InvalidSamples, match="too few"):
        Resampled.over(np.zeros(50, int))


def test_the_correction_is_that_of_benjamini_and_hochberg():
    z = np.random.default_rng(2).normal(size=40) + np.r_[np.full(5, 3.0), np.zeros(35)]
    probabilities = [0.5 * erfc(one / 2**0.5) for one in z]
    ranked = sorted(probabilities)
    most = max((p for rank, p in enumerate(ranked, 1) if p <= 0.05 * rank / 40), default=-1.0)
    assert above_null(z).tolist() == [p <= most for p in probabilities]
    assert 2 <= above_null(z).sum() <= 7


def test_nothing_by_nothing_is_nothing():
    assert divide(np.array([0.0, 2.0]), np.array([0.0, 0.0])).tolist() == [0.0, np.inf]
