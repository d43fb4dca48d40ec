"""The forward pass does what it says: what an edit changes, and where gradients flow."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attomaton.base.errors import InvalidSamples, MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.heads.arrays import from_arrays
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.replacing import LabelledContexts
from attomaton.heads.deviation import compare_logits
from attomaton.heads.model import BATCH_BYTES, Head
from attomaton.heads.opening import open_model
from attomaton.heads.parts import FeedForward, Linear
from tests.heads import made


@pytest.fixture(params=["gpt2", "llama"])
def model(request, tmp_path):
    made.write(tmp_path, request.param)
    return open_model(tmp_path, dtype="float64")


IDS = np.random.default_rng(0).integers(0, 61, (2, 9))


def test_what_is_not_changed_changes_nothing(model):
    plain = model.watch(IDS)
    same = model.watch(IDS, edit_patterns=lambda _, one: one, edit_outputs=lambda _, one: one)
    assert torch.equal(plain.logits, same.logits)
    assert not plain.logits.requires_grad


def test_a_token_sees_only_those_before_it(model):
    other = IDS.copy()
    other[:, 6:] = (other[:, 6:] + 1) % 61
    torch.testing.assert_close(model.watch(IDS).logits[:, :6], model.watch(other).logits[:, :6])


def test_removing_outputs_is_removing_patterns(model):
    """A head that looks at nothing passes nothing on, the bias of its values included."""

    def remove(layer, given):
        return (
            given
            * torch.tensor(
                [0.0 if layer == 1 and head == 2 else 1.0 for head in range(given.shape[1])]
            ).double()[None, :, None, None]
        )

    by_pattern = model.watch(IDS, edit_patterns=remove)
    by_output = model.watch(IDS, edit_outputs=remove)
    torch.testing.assert_close(by_pattern.logits, by_output.logits)
    assert not torch.allclose(by_output.logits, model.watch(IDS).logits)
    assert torch.equal(by_pattern.patterns[1], model.watch(IDS).patterns[1]), (
        "patterns are those before the edit"
    )


def test_the_gradient_of_a_pattern_is_its_difference(model):
    asked = []

    def ask(layer, pattern):
        if layer == 0:
            pattern = pattern.detach().requires_grad_()
            asked.append(pattern)
        return pattern

    value = model.watch(IDS, edit_patterns=ask).logits[0, 7, 5]
    slope = torch.autograd.grad(value, asked[0])[0][0, 1, 4, 3]

    def moved(step):
        def move(layer, pattern):
            pattern = pattern.clone()
            if layer == 0:
                pattern[0, 1, 4, 3] += step
            return pattern

        return model.watch(IDS, edit_patterns=move).logits[0, 7, 5]

    assert abs(float(slope - (moved(1e-5) - moved(-1e-5)) / 2e-5)) < 1e-6


def test_token_scores_are_those_of_a_first_layer_without_places(model):
    """A context of two tokens has one score to compare: the log-odds of its second row."""
    bare = model if model.position_embeddings is None else _without_places(model)
    for head in range(bare.n_heads):
        for query, key in ((3, 9), (11, 0)):
            pattern = bare.watch(np.array([[key, query]])).patterns[0][0, head, 1]
            other, own = (
                bare.score_tokens(Head(0, head), np.array([query]), np.array([one]), lag=lag)[0, 0]
                for one, lag in ((key, 1), (query, 0))
            )
            assert abs(float(pattern[0].log() - pattern[1].log()) - (other - own)) < 1e-9


def _without_places(model):
    return replace(model, position_embeddings=torch.zeros_like(model.position_embeddings))


def test_projected_tokens_are_the_scores(model):
    for lag in (0, 3):
        queries, keys = model.project_tokens(1, lag=lag)
        shared = keys.repeat_interleave(model.n_heads // model.n_groups, 1)
        for head in range(model.n_heads):
            ours = model.score_tokens(Head(1, head), np.arange(61), np.arange(61), lag=lag)
            torch.testing.assert_close(torch.as_tensor(ours), shared[:, head] @ queries[:, head].T)


@pytest.mark.parametrize("lagged", [False, True])
def test_scores_of_inputs_are_those_of_the_forward_pass(model, lagged):
    """RoPE and shared keys, or position embeddings, and scores by lag: the same rows of attention."""
    if lagged:
        lags = torch.randn(model.n_heads, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        layers = (replace(one, attention=replace(one.attention, lag_biases=lags)) for one in model.layers)
        model = replace(model, layers=tuple(layers))
    seen = []
    model.run_layers(model.embed(IDS[:1]), range(2), on_layer=lambda *one: seen.append(one))
    at = np.arange(9)
    keys = np.concatenate([at[:, None], np.tile(at, (9, 1))], 1)  # the query comes first
    for layer, read in seen:
        patterns = model.attend(model.layers[layer].attention, read)
        scores = model.score_inputs(layer, read[0], keys, np.maximum(at[:, None] - keys, 0), at)
        later = torch.as_tensor(keys > at[:, None])[:, None]
        masked = torch.as_tensor(scores).masked_fill(later, -torch.inf)[:, :, 1:]
        torch.testing.assert_close(masked.softmax(-1).transpose(0, 1), patterns[0], atol=1e-9, rtol=0)


def test_written_logits_are_what_a_head_adds():
    """Without norms the logits are sums: a head that looks at one token adds what that token writes."""
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    model = from_arrays(rng.normal(size=(6, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))

    def look_at_first(_, pattern):
        pattern = torch.zeros_like(pattern)
        pattern[:, 1, :, 0] = 1.0
        return pattern

    def look_nowhere(_, pattern):
        return torch.zeros_like(pattern)

    ids = np.array([[2, 5, 1]])
    added = (
        model.watch(ids, edit_patterns=look_at_first).logits
        - model.watch(ids, edit_patterns=look_nowhere).logits
    )
    ours = model.write_logits(Head(0, 1), np.array([2]))
    np.testing.assert_allclose(added[0].numpy(), np.repeat(ours, 3, 0), atol=1e-12)


def test_wrong_contexts_are_named(model):
    for given, error in (
        (np.array([1, 2]), InvalidSamples),
        (np.zeros((1, 0), np.int64), InvalidSamples),
        (np.zeros((0, 3), np.int64), InvalidSamples),
        ([[0, 1], [2]], InvalidSamples),
        (np.array([[0.5]]), InvalidSamples),
        (np.array([[61]]), TokenOutOfRange),
        (np.array([[-1]]), TokenOutOfRange),
        (np.zeros((1, 49), np.int64), InvalidSamples),
    ):
        with pytest.raises(error):
            model.watch(given)
    with pytest.raises(MismatchedParts, match=r"no head 2\.0"):
        model.score_tokens(Head(2, 0), np.array([0]), np.array([0]))
    for head in ("0:1", Head(0.5, 0), 3, (0, 0, 0)):
        with pytest.raises(MismatchedParts, match="is not a head"):
            model.score_tokens(head, np.array([0]), np.array([0]))
    with pytest.raises(TokenOutOfRange):
        model.write_logits(Head(0, 0), np.array([61]))
    with pytest.raises(UnsupportedOption, match="lag"):
        model.score_tokens(Head(0, 0), np.array([0]), np.array([0]), lag=48)
    with pytest.raises(MismatchedParts, match="return the same shape"):
        model.watch(IDS, edit_patterns=lambda _, one: one[:1])


def test_a_deviation_is_told(model):
    moved = compare_logits(model, lambda ids: model.watch(ids).logits + 0.5, IDS)
    assert abs(moved.logits - 0.5) < 1e-12
    assert moved.probabilities < 1e-12
    assert "logits deviate from the original's by at most 0.5" in str(moved)
    with pytest.raises(MismatchedParts, match="give the model that ours was read from"):
        compare_logits(model, lambda _: torch.zeros(1, 2, 3), IDS)


def test_an_activation_that_is_not_known_is_named():
    one = Linear(torch.ones(1, 1))
    with pytest.raises(UnsupportedOption, match="activation is 'GELU'; choose one of gelu, "):
        FeedForward(one, one, "GELU")


def test_a_large_vocabulary_makes_batches_small():
    """Logits of all contexts at once would take gigabytes where heads are few."""
    query, key, value = np.zeros((3, 1, 1, 2, 2))
    large = from_arrays(np.ones((50_257, 2)), query, key, value, np.zeros((1, 1, 2, 2)))
    documents, sizes = [np.arange(42)] * 60, list[int]()

    def count(_, pattern):
        sizes.append(len(pattern))
        return pattern

    model = SimpleNamespace(
        name="large", shape=large.shape, watch=lambda tokens: large.watch(tokens, edit_patterns=count)
    )
    record(model, documents, window=4, per_document=1)
    assert sum(sizes) == 60
    assert max(sizes) == BATCH_BYTES // (4 * 41 * (50_257 + 41)) == 16
    parts = LabelledContexts.of(documents, length=32, n_tokens=50_257).batches(model)
    assert max(map(len, parts)) == 20
