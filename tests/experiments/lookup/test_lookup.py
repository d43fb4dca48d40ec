"""Looked-up scores: the same layer as embedded contexts, loss and gradient."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import InvalidSamples, MismatchedParts
from attomaton.graphs.bags import count_all_tokens, count_tokens
from attomaton.training.models.attention import AttentionModel, combine_factors, lay_out, split_gradient
from attomaton.training.models.embeddings import Orthonormal
from attomaton_experiments.lookup.lookup import find_pairs, lay_out_lookups
from attomaton_experiments.lookup.parametrisations import Dense, Factored, IndexedPairs, PerQuery, Shared
from tests.strategies import realisable_sets, vectors


def draw_parameters(data, parametrisation, pairs):
    """Parameters of any values."""
    shapes = [one.shape for one in parametrisation.draw_start(pairs, np.random.default_rng(0))]
    return tuple(torch.as_tensor(data.draw(vectors(*shape))) for shape in shapes)


def as_matrix(scores, pairs):
    """The scores as W, zero where no pair is."""
    weights = torch.zeros(pairs.n_tokens, pairs.n_tokens, dtype=torch.float64)
    weights[pairs.token.astype(np.int64), pairs.query] = scores
    return weights


@given(realisable_sets(), st.sampled_from([Dense(), PerQuery(), Shared(0.5), Factored(2)]), st.data())
def test_loss_and_gradient_are_those_of_embedded_contexts(samples, parametrisation, data):
    bags = count_tokens(samples)
    pairs = find_pairs([bags])
    places, lookups = IndexedPairs.of(pairs), lay_out_lookups(bags, pairs)
    parameters = draw_parameters(data, parametrisation, pairs)
    scores = parametrisation.scores(parameters, places)
    slopes, loss = lookups.slopes(scores)
    batch = lay_out(AttentionModel(Orthonormal()), [samples], [np.eye(samples.n_tokens)])
    gradient, expected = batch.gradient(as_matrix(scores, pairs)[None])
    torch.testing.assert_close(loss, expected[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(lookups.loss(scores), expected[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(as_matrix(slopes, pairs), gradient[0], rtol=1e-10, atol=1e-10)
    found = parametrisation.pull_back(parameters, places, slopes)
    assert [one.shape for one in found] == [one.shape for one in parameters]
    if isinstance(parametrisation, Factored):
        gradient, _ = batch.gradient(combine_factors(parameters))
        for one, other in zip(found, split_gradient(parameters, gradient), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@given(realisable_sets(), st.sampled_from([Dense(), PerQuery(), Shared(0.5), Factored(2)]), st.data())
def test_gradients_are_those_of_autograd(samples, parametrisation, data):
    bags = count_tokens(samples)
    pairs = find_pairs([bags])
    places, lookups = IndexedPairs.of(pairs), lay_out_lookups(bags, pairs)
    parameters = draw_parameters(data, parametrisation, pairs)
    slopes, _ = lookups.slopes(parametrisation.scores(parameters, places))
    found = parametrisation.pull_back(parameters, places, slopes)
    followed = tuple(one.clone().requires_grad_(True) for one in parameters)
    looked_up = parametrisation.scores(followed, places)[lookups.pair] + lookups.log_multiplicity
    (-torch.log_softmax(looked_up, 1).gather(1, lookups.label).mean()).backward()
    for one, other in zip(found, followed, strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-10, atol=1e-10)


@given(realisable_sets(), st.data())
def test_mini_batches_of_one_size_average_to_the_whole(samples, data):
    bags = count_tokens(samples)
    pairs = find_pairs([bags])
    lookups = lay_out_lookups(bags, pairs)
    scores = torch.as_tensor(data.draw(vectors(len(pairs))))
    slopes, loss = lookups.slopes(scores)
    parts = [lookups.take(torch.tensor([row])).slopes(scores) for row in range(len(lookups))]
    torch.testing.assert_close(torch.stack([one for one, _ in parts]).mean(0), slopes)
    torch.testing.assert_close(torch.stack([one for _, one in parts]).mean(), loss)


@given(realisable_sets(), realisable_sets())
def test_pairs_of_held_out_contexts_alone_are_never_moved(trained, held_out):
    bags = count_tokens(trained)
    pairs, own = find_pairs([bags, count_tokens(held_out)]), find_pairs([bags])
    slopes, _ = lay_out_lookups(bags, pairs).slopes(torch.zeros(len(pairs), dtype=torch.float64))
    outside = ~np.isin(pairs.keys, own.keys)
    assert not slopes.numpy()[outside].any()


def test_contexts_without_scores_or_labels_are_refused():
    known, new = (at.Samples.from_lists([context], [0], n_tokens=3) for context in ([0, 1], [0, 2]))
    with pytest.raises(MismatchedParts, match="find the pairs of all contexts"):
        find_pairs([count_tokens(known)]).find(count_tokens(new))
    lost = count_all_tokens(at.Samples.from_lists([[0, 1]], [2]))
    with pytest.raises(InvalidSamples, match="label in the context"):
        lay_out_lookups(lost, find_pairs([lost]))
