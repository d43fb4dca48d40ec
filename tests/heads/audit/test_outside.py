"""Rows in which a head attends to neither the window nor the first token."""

import numpy as np
import pytest
import torch

from attomaton.heads import AuditSettings, HeadAudit, PatternModel, audit_heads, climb, plain_rungs, show_head
from attomaton.heads.audit.recording import record

N_TOKENS, HOW = 12, AuditSettings(window=8, per_document=10)
DOCUMENTS = np.random.default_rng(0).integers(0, N_TOKENS, (40, 40))


def attend_alike(found):
    """Equal attention on all positions found by each query; on the second token where there are none."""
    second = torch.zeros(found.shape[1:], dtype=torch.float64)
    second[torch.arange(len(second)), torch.arange(len(second)).clamp(max=1)] = 1.0
    total = found.double().sum(2, keepdim=True)
    return torch.where(total > 0, found / total.clamp(min=1), second)


def hard_heads(ids):
    """Heads with all attention on: what followed the token; the token; tokens 0 and 1; one position."""
    ids = torch.as_tensor(np.asarray(ids))
    lags = torch.arange(ids.shape[1])[:, None] - torch.arange(ids.shape[1])
    before = torch.cat([torch.full((len(ids), 1), -1), ids[:, :-1]], 1)
    found = [
        (before[:, None, :] == ids[:, :, None]) & (lags > 0),
        (ids[:, None, :] == ids[:, :, None]) & (lags > 0),
        (ids[:, None, :] < 2) & (lags >= 0),
        (lags == 20).expand(len(ids), -1, -1),
    ]
    return [torch.stack([attend_alike(one) for one in found], 1)]


@pytest.fixture(scope="module")
def audit():
    return audit_heads(PatternModel.from_function(hard_heads, n_tokens=N_TOKENS), DOCUMENTS, settings=HOW)


def test_hard_heads_are_audited_by_the_rows_that_reach_the_window(audit):
    found = audit.table().to_pandas()
    assert found.type.tolist() == ["induction", "duplicate", "token-specific", "outside the window"]
    assert (found.type_share[:3] > 0.7).all()
    assert np.isfinite(found.filter(regex="^(explained|added|named|pairs)").to_numpy(float)).all()


def test_rows_outside_are_counted_and_reported(audit, tmp_path):
    counts = audit.table().column("rows_outside").to_pylist()
    assert counts == audit.outside.tolist()
    assert 0 < min(counts) < audit.n_rows < 1.12 * counts[3]
    said = " ".join(str(audit).split())
    assert "In some of 160 rows, these heads attend to neither the window nor the first token" in said
    assert f"left out for them: 0.3 ({counts[3]}), " in said
    assert HeadAudit.load(audit.save(tmp_path / "heads.parquet")).outside.tolist() == counts


def test_rows_outside_have_no_part_in_the_shares():
    model = PatternModel.from_function(lambda ids: [hard_heads(ids)[0][:, 1:2]], n_tokens=N_TOKENS)
    rows = record(model, DOCUMENTS, window=8).rows
    reached = rows.take(rows.inside[:, 0] + rows.first[:, 0] > 0)
    whole, some = (
        climb(part.take(part.documents < 24), part.take(part.documents >= 24), plain_rungs())
        for part in (rows, reached)
    )
    np.testing.assert_allclose(whole.shares, some.shares, atol=1e-9)
    np.testing.assert_allclose(whole.scales, some.scales, rtol=1e-6)


def test_the_contexts_of_such_a_head_are_shown():
    model = PatternModel.from_function(hard_heads, n_tokens=N_TOKENS)
    shown = show_head(model, DOCUMENTS, "0.1", settings=HOW, examples=2)
    assert len(shown.rows) == 2
    assert np.isfinite(shown.fitted).all()
