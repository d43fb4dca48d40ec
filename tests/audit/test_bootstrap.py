"""Draws of documents, and many tests at once."""

from math import erfc

import numpy as np
import pytest

from attomaton.audit.bootstrap import Resampled, above_chance, divide
from attomaton.errors import InvalidSamples


def test_errors_are_those_of_documents_not_of_rows():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(200), 10)
    values = np.repeat(rng.normal(size=200), 10)[:, None]
    told = Resampled.over(documents).mean(values)
    assert told.error[0] == pytest.approx(1 / np.sqrt(200), rel=0.15)
    assert told.low[0] < told.value[0] < told.high[0]


def test_intervals_cover():
    rng = np.random.default_rng(1)
    documents = np.repeat(np.arange(60), 5)
    values = np.repeat(rng.normal(size=(60, 400)), 5, 0) + rng.normal(size=(300, 400))
    told = Resampled.over(documents).mean(values)
    assert np.mean((told.low <= 0) & (told.high >= 0)) > 0.9
    assert np.mean(np.abs(told.z) > 2) <= 0.08


def test_few_documents_are_refused():
    with pytest.raises(InvalidSamples, match="too few"):
        Resampled.over(np.zeros(50, int))


def test_the_correction_is_that_of_benjamini_and_hochberg():
    z = np.random.default_rng(2).normal(size=40) + np.r_[np.full(5, 3.0), np.zeros(35)]
    chances = [0.5 * erfc(one / 2**0.5) for one in z]
    ranked = sorted(chances)
    most = max((p for rank, p in enumerate(ranked, 1) if p <= 0.05 * rank / 40), default=-1.0)
    assert above_chance(z).tolist() == [p <= most for p in chances]
    assert 2 <= above_chance(z).sum() <= 7


def test_nothing_by_nothing_is_nothing():
    assert divide(np.array([0.0, 2.0]), np.array([0.0, 0.0])).tolist() == [0.0, np.inf]
