"""Next-token seeking."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.base.errors import InvalidSamples, MismatchedParts
from attomaton.heads.audit.explanations import Position, TokenCounts
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.jackknife import Estimates
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.seeking import match_tokens, seek_labels
from tests.heads.audit.built import KINDS, Seeker, build_heads, draw_text
from tests.heads.audit.standin import StandIn, draw_documents


def match_by_definition(rows, counts):
    """The partner of each label, row by row."""
    matched = []
    for tokens, label in zip(rows.tokens.tolist(), rows.labels.tolist(), strict=True):
        others = sorted(set(tokens) - {tokens[0]}, key=lambda one: (counts.tokens[one], one))
        partner = others.index(label) ^ 1 if label in others else len(others)
        matched.append(others[partner] if partner < len(others) else -1)
    return np.array(matched, np.int64)


DOCUMENTS = draw_documents(60)
COUNTS = TokenCounts.of(DOCUMENTS, n_tokens=12)
ROWS = record(StandIn(), DOCUMENTS, window=8).rows
FITTED, SCORED = ROWS.take(ROWS.documents < 30), ROWS.take(ROWS.documents >= 30)


def test_the_fast_match_is_the_definition():
    assert match_tokens(ROWS, COUNTS).tolist() == match_by_definition(ROWS, COUNTS).tolist()


def test_rows_whose_label_is_the_query_are_left_out_and_partners_are_mutual():
    partner = match_tokens(ROWS, COUNTS)
    assert (partner[ROWS.labels == ROWS.queries] == -1).all()
    assert not (partner == ROWS.queries).any()
    kept = partner >= 0
    back = match_tokens(replace(ROWS, labels=partner).take(kept), COUNTS)
    assert back.tolist() == ROWS.labels[kept].tolist()


@pytest.mark.parametrize("kind", ["same token", "key token"])
@pytest.mark.parametrize("steepness", [0.0, 1.0])
def test_nothing_is_sought_where_tokens_are_independent(kind, steepness):
    z = []
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        model, documents = build_heads(kind, rng, n_heads=2), draw_text(rng, steepness=steepness)
        rows = record(model, documents, window=16).rows
        parts = rows.take(rows.documents < 36), rows.take(rows.documents >= 36)
        z.append(seek_labels(*parts, TokenCounts.of(documents[:36], n_tokens=14)).excess.z)
    assert np.abs(np.mean(z)) < 0.75  # of 24, whose mean has a deviation of about .2 to .3
    assert np.mean(np.abs(z) > 2.3) < 0.13


@pytest.mark.slow  # campaign
def test_audits_of_independent_tokens_find_no_seeker_and_audits_of_a_seeker_do():
    how, rungs, false, found = AuditSettings(window=16), (Position(),), 0, 0
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng(number)
        model, documents = build_heads(kind, rng), draw_text(rng)
        false += audit_heads(model, documents, rungs=rungs, settings=how).seeking.holds.any()
        random = [rotate_beside(model, seed=seed) for seed in (1, 2)]
        if kind != "first token":  # nothing of it is left inside the window
            seeking = audit_heads(Seeker(model), documents, rungs=rungs, random=random, settings=how).seeking
            found += seeking.holds[0]
    assert false <= 1
    assert found == 5


def test_without_random_heads_nothing_is_judged():
    seeking = seek_labels(FITTED, SCORED, COUNTS)
    far = replace(seeking, excess=Estimates(seeking.excess.value + 1.0, seeking.excess.without + 1.0))
    assert far.z.min() > 10
    assert not far.holds.any()
    assert far.table()["holds"].null_count == len(far.heads)
    assert "not judged" in str(far)


def test_documents_without_a_label_in_reach_are_drawn_too():
    some = np.isin(SCORED.documents, np.unique(SCORED.documents)[:3])
    labels = np.where(some, SCORED.labels, 99)
    seeking = seek_labels(FITTED, replace(SCORED, labels=labels), TokenCounts.of([[99]], n_tokens=100))
    assert seeking.n_documents == 3
    assert (seeking.excess.error > 0).all()


def test_a_head_that_looks_at_the_label_is_found():
    attention = SCORED.attention.copy()
    label = SCORED.tokens == SCORED.labels[:, None]
    attention[:, 1] = np.where(label, 0.5, 0.05)
    attention[:, 1] /= attention[:, 1].sum(1, keepdims=True)
    random = []
    for seed in range(1, 5):
        rows = record(StandIn(seed=seed), DOCUMENTS, window=8).rows
        random.append(seek_labels(rows.take(rows.documents < 30), rows.take(rows.documents >= 30), COUNTS))
    seeking = seek_labels(FITTED, replace(SCORED, attention=attention), COUNTS).against(random)
    assert seeking.holds.tolist().index(True) == 1
    assert seeking.z[1] > 4
    assert seeking.excess.value[1] > 10 * seeking.excess.error[1]
    assert seeking.mass.value[1] > seeking.over_profile.value[1] > 0.1
    assert "random" in str(seeking)


def test_random_heads_of_one_layer_measure_probability():
    random = []
    for seed in range(10):
        rows = record(StandIn(n_layers=1, n_heads=40, seed=seed), DOCUMENTS, window=8, seed=seed).rows
        random.append(seek_labels(rows.take(rows.documents < 30), rows.take(rows.documents >= 30), COUNTS))
    z = np.concatenate([one.against(random[:at] + random[at + 1 :]).z for at, one in enumerate(random)])
    assert len(z) == 400
    assert np.mean(np.abs(z) > 2) <= 0.08


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(MismatchedParts):
        seek_labels(replace(FITTED, heads=FITTED.heads[:1]), SCORED, COUNTS)
    with pytest.raises(InvalidSamples, match="window contains the next token"):
        seek_labels(
            FITTED, replace(SCORED, labels=SCORED.labels * 0 + 99), TokenCounts.of([[99]], n_tokens=100)
        )
