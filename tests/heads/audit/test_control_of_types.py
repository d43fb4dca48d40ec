"""Audits of heads: no type that random weights explain, and how sure a type is."""

import numpy as np
import pytest
import torch

from attomaton.heads import AuditSettings, HeadAudit, PatternModel, audit_heads
from tests.heads.audit.built import draw_sentences

HOW = AuditSettings(window=16, per_document=8)
SPECIFIC = {"sink", "previous token", "induction", "duplicate", "position", "delimiter", "token-specific",
            "next-token seeking"}  # fmt: skip


def untrained(seed, *, n_layers=2, n_heads=4):
    """A Llama as it is before training."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"hidden_size": 16 * n_heads, "intermediate_size": 32 * n_heads, "vocab_size": 40}
    return LlamaForCausalLM(
        LlamaConfig(
            **sizes, num_hidden_layers=n_layers, num_attention_heads=n_heads, max_position_embeddings=99
        )
    ).eval()


@pytest.fixture(scope="module")
def random_audit():
    return audit_heads(untrained(0), draw_sentences(np.random.default_rng(0)), settings=HOW)


@pytest.mark.costly("imports transformers and audits a model beside random heads")
def test_a_model_with_random_weights_has_no_specific_type(random_audit):
    found = random_audit.table().to_pandas()
    assert not set(found["type"]) & SPECIFIC
    alike = found[found["type"] == "like random weights"]
    assert len(alike) >= 6
    assert (alike.type_share > 0.5).all()
    assert (alike.type_z < 3).all()
    assert alike.type_reason.str.contains("not significantly more than in random heads").all()


def test_errors_and_intervals_are_columns(random_audit, tmp_path):
    found = random_audit.to_pandas()
    for name in ("type_share", "named", "pairs"):
        assert (found[f"{name}_error"] > 0).all()
        assert (found[f"{name}_low"] < found[name]).all()
        assert (found[name] < found[f"{name}_high"]).all()
    assert found.columns.str.fullmatch(r"\w+").all()
    again = HeadAudit.load(random_audit.save(tmp_path / "heads.parquet"))
    assert again.table().equals(random_audit.table())


def test_a_type_that_differs_between_halves_of_the_documents_says_so():
    """A head that attends to some tokens in the first documents, and three tokens back in the others."""
    documents = np.random.default_rng(0).integers(0, 12, (80, 40))
    first = {document[:-1].tobytes() for document in documents[:40]}

    def patterns(ids):
        ids = np.asarray(ids, np.int64)
        lags = np.arange(ids.shape[1])[:, None] - np.arange(ids.shape[1])
        found = [np.tile(row < 3, (len(row), 1)) if row.tobytes() in first else lags == 3 for row in ids]
        weights = np.where(lags < 0, 0.0, np.exp(4.0 * np.array(found)))
        return [torch.as_tensor(weights / weights.sum(2, keepdims=True))[:, None]]

    model = PatternModel.from_function(patterns, n_tokens=12)
    found = audit_heads(model, documents, settings=HOW).to_pandas()
    assert not found.type_is_stable[0]
    assert "in the first half of the documents and" in found.type_reason[0]


def test_without_weights_a_type_says_that_random_weights_may_do_the_same():
    def before(ids):
        return [torch.eye(ids.shape[1]).roll(-1, 1).tril().expand(len(ids), 1, -1, -1)]

    documents = np.random.default_rng(0).integers(0, 9, (30, 40))
    found = audit_heads(PatternModel.from_function(before, n_tokens=9), documents, settings=HOW).to_pandas()
    assert found["type"].tolist() == ["previous token"]
    assert "no random heads to compare with, so random weights may do the same" in found.type_reason[0]
    assert found.type_z.isna().all()
