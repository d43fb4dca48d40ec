"""Label seeking."""

from dataclasses import replace

import numpy as np
import pytest

from attomaton.audit.explanations import Counts
from attomaton.audit.rows import watch_rows
from attomaton.audit.seeking import match_by_definition, match_tokens, seek_labels
from attomaton.errors import InvalidSamples, MismatchedParts
from tests.audit.standin import StandIn, draw_documents

DOCUMENTS = draw_documents(60)
COUNTS = Counts.of(DOCUMENTS, n_tokens=12)
ROWS = watch_rows(StandIn(), DOCUMENTS, window=8)
FITTED, SCORED = ROWS.take(ROWS.documents < 30), ROWS.take(ROWS.documents >= 30)


def test_the_fast_match_is_the_definition():
    assert match_tokens(ROWS, COUNTS).tolist() == match_by_definition(ROWS, COUNTS).tolist()


def test_a_head_that_looks_at_the_label_is_found():
    attention = SCORED.attention.copy()
    label = SCORED.tokens == SCORED.labels[:, None]
    attention[:, 1] = np.where(label, 0.5, 0.05)
    attention[:, 1] /= attention[:, 1].sum(1, keepdims=True)
    seeking = seek_labels(FITTED, replace(SCORED, attention=attention), COUNTS)
    assert seeking.holds.tolist().index(True) == 1
    assert seeking.z[1] > 10
    assert seeking.mass.value[1] > seeking.over_profile.value[1] > 0.1
    assert "random" in str(seeking)


def test_random_heads_of_one_layer_measure_chance():
    random = []
    for seed in range(10):
        rows = watch_rows(StandIn(n_layers=1, n_heads=40, seed=seed), DOCUMENTS, window=8, seed=seed)
        random.append(seek_labels(rows.take(rows.documents < 30), rows.take(rows.documents >= 30), COUNTS))
    z = np.concatenate([one.against(random[:at] + random[at + 1 :]).z for at, one in enumerate(random)])
    assert len(z) == 400
    assert np.mean(np.abs(z) > 2) <= 0.08


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(MismatchedParts):
        seek_labels(replace(FITTED, heads=FITTED.heads[:1]), SCORED, COUNTS)
    with pytest.raises(InvalidSamples, match="label in the window"):
        seek_labels(FITTED, replace(SCORED, labels=SCORED.labels * 0 + 99), Counts.of([[99]], n_tokens=100))
