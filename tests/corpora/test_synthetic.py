"""Synthetic corpora and the paper's draws."""

import numpy as np
import pytest
from hypothesis import given

import attomaton as at
from attomaton.base.errors import InvalidSamples
from attomaton.corpora.synthetic import has_cycle
from tests.strategies import sample_sets, seeds


@given(seeds)
def test_draws_are_of_the_kind_asked_for(seed):
    rng = np.random.default_rng(seed)
    for draw, acyclic in ((at.synthetic.draw_cyclic, False), (at.synthetic.draw_acyclic, True)):
        samples = draw(rng)
        assert (len(samples), samples.n_tokens, set(samples.lengths.tolist())) == (6, 6, {4})
        assert all(label in context and len(set(context)) == 4 for context, label in samples)
        assert at.find_components(at.extract_edges(samples)).is_acyclic is acyclic


@given(sample_sets(max_samples=40))
def test_cycles_are_found_as_by_components(samples):
    assert has_cycle(samples) is not at.find_components(at.extract_edges(samples)).is_acyclic


def test_too_few_samples_are_refused():
    with pytest.raises(InvalidSamples, match="give 9 or more"):
        at.synthetic.corpus(at.synthetic.Chain(5), n_samples=3, rng=np.random.default_rng(0))
    with pytest.raises(InvalidSamples, match="does not lead to a later block"):
        at.synthetic.BlockOrder((1, 1), ((1, 0),))
