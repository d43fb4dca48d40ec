"""Random heads of a tiny model, held against each other, are rarely beyond two: every test of an audit."""

import numpy as np
import pytest

from attomaton.heads.arrays import from_arrays
from attomaton.heads.audit.explanations import TokenCounts
from attomaton.heads.audit.ladder import climb
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.rungs import learned_rungs, plain_rungs
from attomaton.heads.audit.seeking import seek_labels
from tests.heads.audit.built import draw_chains, draw_deep
from tests.heads.audit.standin import draw_documents

N_TOKENS, N_MODELS = 12, 10
DOCUMENTS = draw_documents(60, length=30)
FITTED = DOCUMENTS[:36]


@pytest.fixture(scope="module")
def random():
    """Ladders and next-token seeking of ten draws of random heads beside a model of two layers of 8."""
    rng = np.random.default_rng(0)
    query, key, value = 0.7 * rng.normal(size=(3, 2, 8, 8, 4))
    output = 0.2 * rng.normal(size=(2, 8, 4, 8))
    model = from_arrays(rng.normal(size=(N_TOKENS, 8)), query, key, value, output)
    rungs = (
        *plain_rungs(),
        *learned_rungs(FITTED, n_tokens=N_TOKENS, window=8),
    )
    counts = TokenCounts.of(FITTED, n_tokens=N_TOKENS)
    found = []
    for seed in range(N_MODELS):
        rows = record(rotate_beside(model, seed=seed), DOCUMENTS, window=8, per_document=8).rows
        parts = rows.take(rows.documents < len(FITTED)), rows.take(rows.documents >= len(FITTED))
        found.append((climb(*parts, rungs), seek_labels(*parts, counts)))
    return found


def beyond_two(random, many):
    """For each test the share of heads with |z| > 2, every model held against the next so many."""
    z = []
    for at, (ladder, seeking) in enumerate(random):
        others = [*random[at + 1 :], *random[:at]][:many]
        ladders, seekings = zip(*others, strict=True)
        z.append([*ladder.against(ladders).z, seeking.against(seekings).z])
    return np.mean(np.abs(z) > 2, axis=(0, 2))


@pytest.mark.slow  # campaign
@pytest.mark.parametrize("many", [N_MODELS - 1, 2, 1])
def test_held_against_random_heads_few_are_beyond_two(random, many):
    shares = beyond_two(random, many)
    assert len(shares) == 8  # seven rungs and next-token seeking
    assert (shares <= 0.08).all(), shares


def test_random_heads_deep_in_a_model_are_rarely_beyond_two():
    rng = np.random.default_rng(1)
    model, documents = draw_deep(rng, n_heads=4), draw_chains(rng, 30, length=48)
    counts, found = TokenCounts.of(documents[:18], n_tokens=40), []
    for seed in range(4):
        rows = record(rotate_beside(model, seed=seed), documents, window=16, per_document=12).rows
        found.append(seek_labels(rows.take(rows.documents < 18), rows.take(rows.documents >= 18), counts))
    z = [one.against([*found[at + 1 :], *found[:at]][:2]).z for at, one in enumerate(found)]
    assert np.size(z) == 4 * 48
    assert np.mean(np.abs(z) > 2) <= 0.08


@pytest.mark.slow  # campaign
def test_over_documents_alone_many_are(random):
    shares = np.mean([np.abs(ladder.z) > 2 for ladder, _ in random], axis=(0, 2))
    assert shares.max() > 0.3, shares
