"""The layer: closed-form gradients against autograd, heads, embeddings, ragged trials."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from attomaton.base.errors import InvalidEmbeddings, InvalidSamples
from attomaton.training.models.attention import (
    AttentionModel,
    _Pairs,
    combine_factors,
    lay_out,
    split_gradient,
)
from attomaton.training.models.embeddings import (
    EmbeddingTable,
    Equicorrelated,
    Orthonormal,
    RandomUnit,
    as_embeddings,
)
from attomaton.training.models.heads import EmbeddingDistance, Tied, TokenId, Untied
from attomaton.training.models.losses import CorrelationLoss, LogLoss, SquaredLoss
from tests.strategies import many, read_samples, realisable_sets, sample_sets, unit_rows, vectors

HEADS = [
    TokenId(),
    Tied(),
    Tied(0.5),
    Untied(),
    Untied(1.0),
    Untied(0.3),
    EmbeddingDistance(),
    EmbeddingDistance(tied=False),
]
LOSSES = [LogLoss(), SquaredLoss(), CorrelationLoss()]


def ragged_corpora(count=3, n_tokens=5):
    """Corpora of 1 to 7 samples with contexts of 1 to 5 tokens, repeated ones too."""
    rows = many(st.binary(min_size=2, max_size=6), 7, fewest=1)
    corpora = rows.map(lambda drawn: read_samples(drawn, n_tokens, n_tokens))
    return st.lists(corpora, min_size=count, max_size=count)


def loss_by_definition(model, samples, table, weights):
    """(1/n) Σ ℓ(u), one sample after the other, differentiable by ``weights``."""
    table = torch.as_tensor(table)
    total, kept = 0.0, [(context, label) for context, label in samples if label in context]
    for context, label in kept:
        keys = table[list(context)]
        share = torch.softmax(keys @ weights @ keys[-1], 0)
        match model.head:
            case TokenId():
                value = share[torch.tensor(context) == label].sum()
            case Tied(temperature=float(warmth)):
                value = torch.softmax(torch.linalg.pinv(table).T @ (share @ keys) / warmth, 0)[label]
            case Tied():
                value = torch.linalg.pinv(table)[:, label] @ (share @ keys)
            case Untied(temperature=None):
                value = table[label] @ (share @ keys)
            case Untied(temperature=warmth):
                value = torch.softmax(table @ (share @ keys) / warmth, 0)[label]
            case EmbeddingDistance(tied=True):
                value = -((share @ keys - table[label]) ** 2).sum()
            case EmbeddingDistance():
                value = -((table.T @ (table @ (share @ keys)) - table[label]) ** 2).sum()
        total = total + model.loss.value(value) / len(kept)
    return total


@pytest.mark.parametrize("by", ["pairs", "positions"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("head", HEADS, ids=str)
@settings(max_examples=8)
@given(corpora=ragged_corpora(), table=unit_rows(5, 6), weights=vectors(3, 6, 6))
def test_losses_and_gradients_are_those_of_autograd(head, loss, by, corpora, table, weights):
    if isinstance(head, EmbeddingDistance) and isinstance(loss, LogLoss):
        return  # u is negative, and has no logarithm
    if isinstance(head, Untied) and head.temperature is None and isinstance(loss, LogLoss):
        table = np.abs(table)  # e_y · f may be negative else, and has no logarithm
    model = AttentionModel(EmbeddingTable(table), head, loss)
    weights = torch.as_tensor(weights)
    batch = lay_out(model, corpora, [table] * 3)
    vars(batch)["_pairs"] = _Pairs.of(batch.tokens.numpy(), batch.table) if by == "pairs" else None
    gradient, losses = batch.gradient(weights)
    weights.requires_grad_(True)
    expected = torch.stack(
        [
            loss_by_definition(model, *both, one)
            for *both, one in zip(corpora, [table] * 3, weights, strict=True)
        ]
    )
    expected.sum().backward()
    scale = 1.0 + float(weights.grad.abs().max())
    torch.testing.assert_close(losses, expected.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(batch.loss(weights.detach()), expected.detach(), rtol=1e-10, atol=1e-10)
    assert float((gradient - weights.grad).abs().max()) <= 1e-10 * scale


@given(ragged_corpora(), unit_rows(5, 6), st.tuples(vectors(3, 6, 2), vectors(3, 6, 2)))
@settings(max_examples=20)
def test_gradients_by_factors_are_those_of_autograd(corpora, table, drawn):
    batch = lay_out(AttentionModel(EmbeddingTable(table), rank=2), corpora, [table] * 3)
    factors = tuple(torch.as_tensor(one) for one in drawn)
    gradient, _ = batch.gradient(combine_factors(factors))
    moves = split_gradient(factors, gradient)
    for one in factors:
        one.requires_grad_(True)
    batch.loss(combine_factors(factors)).sum().backward()
    for one, move in zip(factors, moves, strict=True):
        torch.testing.assert_close(move, one.grad, rtol=1e-10, atol=1e-12)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(sample_sets(max_tokens=3, max_samples=3), unit_rows(3, 3))
def test_samples_without_a_label_in_its_context_are_refused(samples, table):
    assume(not any(label in context for context, label in samples))
    with pytest.raises(InvalidSamples, match="trial 0 has no sample whose label"):
        lay_out(AttentionModel(), [samples], [table[: samples.n_tokens]])


@given(realisable_sets(), st.integers(1, 4), st.data())
def test_attention_is_a_distribution_over_the_filled_positions(samples, dim, data):
    kept = [sample for sample in samples if sample.label in sample.context]
    table = data.draw(unit_rows(samples.n_tokens, dim))
    weights = torch.as_tensor(data.draw(vectors(1, dim, dim)))
    shares = lay_out(AttentionModel(), [samples], [table]).attention(weights)[0].numpy()
    for share, (context, _) in zip(shares, kept, strict=True):
        keys = table[list(context)]
        odds = np.exp(keys @ weights[0].numpy() @ keys[-1])
        np.testing.assert_allclose(share[len(share) - len(context) :], odds / odds.sum(), atol=1e-12)
        assert not share[: len(share) - len(context)].any()


@given(ragged_corpora(), unit_rows(5, 7), vectors(3, 7, 7))
def test_the_tied_head_reads_the_attention_mass_if_rows_are_independent(corpora, table, weights):
    weights = torch.as_tensor(weights)
    mass = lay_out(AttentionModel(EmbeddingTable(table), TokenId()), corpora, [table] * 3)
    tied = lay_out(AttentionModel(EmbeddingTable(table), Tied()), corpora, [table] * 3)
    for one, other in zip(mass.gradient(weights), tied.gradient(weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("correlation", [-0.2, 0.0, 0.5, 0.9])
def test_equicorrelated_rows_have_the_gram_matrix_asked_for(correlation):
    table = Equicorrelated(7, correlation).draw(5, np.random.default_rng(0))
    wanted = np.full((5, 5), correlation) + (1 - correlation) * np.eye(5)
    np.testing.assert_allclose(table @ table.T, wanted, atol=1e-14)
    other = Equicorrelated(7, correlation).draw(5, np.random.default_rng(1))
    assert np.abs(table - other).max() > 0.1


def test_embeddings_are_as_named_and_refuse_what_does_not_fit():
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(Orthonormal().draw(3, rng), np.eye(3))
    np.testing.assert_allclose(np.linalg.norm(RandomUnit(4).draw(9, rng), axis=1), 1.0)
    for wrong in (Orthonormal(2), Equicorrelated(2, 0.1), Equicorrelated(5, -0.6), EmbeddingTable(np.eye(2))):
        with pytest.raises(InvalidEmbeddings):
            wrong.draw(3, rng)


def test_embeddings_are_taken_from_tables_and_names():
    assert as_embeddings([[1.0, 0.0], [0.6, 0.8]]).table.tolist() == [[1.0, 0.0], [0.6, 0.8]]
    assert as_embeddings(None) == as_embeddings("orthonormal") == Orthonormal()
    with pytest.raises(InvalidEmbeddings, match="a table with one row per token"):
        as_embeddings(8)
