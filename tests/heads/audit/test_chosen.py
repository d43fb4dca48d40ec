"""Audits of some layers or heads: the numbers of the whole audit, for these heads only."""

import numpy as np
import pytest

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.heads import AuditSettings, Head, HeadAudit, audit_heads, compare_audits, open_model, show_head
from attomaton.heads.arrays import from_arrays
from attomaton.heads.audit.course import audit_course
from attomaton.heads.audit.finished import read_finished
from tests.heads import architectures

RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, 20, 30) for _ in range(30)]
HOW = AuditSettings(window=8, length=12, per_document=6)
JUDGED = ("type", "type_reason", "seeks")
"""Columns that depend on the tests of the other heads: the false discovery rate is over all audited heads."""


def draw_model():
    """Three layers of eight heads."""
    query, key, value = RNG.normal(size=(3, 3, 8, 16, 3))
    return from_arrays(RNG.normal(size=(20, 16)), query, key, value, 0.2 * RNG.normal(size=(3, 8, 3, 16)))


MODELS = {
    "arrays": draw_model(),
    "live": open_model(architectures.make("llama")),
    "written": open_model(architectures.make("bloom")),
}
WHOLE = {}


def audit_whole(name):
    if name not in WHOLE:
        WHOLE[name] = audit_heads(MODELS[name], DOCUMENTS, causal="all", settings=HOW)
    return WHOLE[name]


def assert_rows_of(part, whole, *, exact):
    """The table of a part is that of the whole, without what depends on other heads."""
    mine = part.to_pandas().set_index("head").drop(columns=[*JUDGED])
    theirs = whole.to_pandas().set_index("head").loc[mine.index].drop(columns=[*JUDGED])
    if not exact:  # with fewer than 16 random heads, a layer is compared with those of all layers too
        names = [name for name in mine.columns if not name.startswith("z_") and not name.endswith("_z")]
        mine, theirs = mine[names], theirs[names]
    for name in mine.columns:
        if mine[name].dtype == object:
            assert mine[name].tolist() == theirs[name].tolist(), name
        else:
            np.testing.assert_allclose(mine[name], theirs[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_layers_have_the_numbers_of_the_whole_audit(name, tmp_path):
    whole = audit_whole(name)
    last = MODELS[name].shape.n_layers - 1
    part = audit_heads(MODELS[name], DOCUMENTS, causal="all", layers=[last], settings=HOW)
    assert part.heads == tuple(head for head in whole.heads if head.layer == last)
    assert_rows_of(part, whole, exact=name == "arrays")
    assert not part.is_partial
    assert f"1 of {last + 1} layers" in repr(part)
    assert "was stopped" not in str(part)
    same = HeadAudit.load(part.save(tmp_path / "heads.parquet"))
    assert same.table().equals(part.table())


@pytest.mark.parametrize("name", MODELS)
def test_heads_are_compared_with_all_random_heads_of_their_layers(name, tmp_path):
    whole, wanted = audit_whole(name), ["1.2", Head(0, 1)]
    part = audit_heads(MODELS[name], DOCUMENTS, causal="all", heads=wanted, settings=HOW)
    assert part.heads == (Head(0, 1), Head(1, 2))
    assert part.seeking.null is not None
    assert len(part.seeking.null.values) == 2 * 2 * MODELS[name].shape.n_heads
    assert_rows_of(part, whole, exact=name == "arrays")
    same = HeadAudit.load(part.save(tmp_path / "heads.parquet"))
    assert same.table().equals(part.table())
    difference = compare_audits(same, whole)
    assert difference.heads == part.heads
    assert difference.is_paired
    assert np.abs(difference.difference).max() < 1e-6


def test_a_limit_takes_the_first_documents():
    model = MODELS["arrays"]
    first = audit_heads(model, DOCUMENTS[:24], layers=0, settings=HOW)
    limited = audit_heads(model, DOCUMENTS, layers=0, limit=24, settings=HOW)
    assert limited.table().equals(first.table())
    shown = [
        show_head(model, documents, "1.2", settings=HOW, limit=24)
        for documents in (DOCUMENTS[:24], DOCUMENTS)
    ]
    assert shown[0].table().equals(shown[1].table())


def test_steps_of_a_training_are_audited_for_some_heads():
    models = [MODELS["arrays"], draw_model()]
    course = audit_course(models, DOCUMENTS, steps=(0, 9), heads="2.7", limit=24, random=1, settings=HOW)
    assert course.heads == (Head(2, 7),)
    assert course.shares.shape[2] == 1


def test_an_audit_of_some_heads_is_resumed_as_such(tmp_path):
    model = MODELS["arrays"]
    options = {"heads": ["0.1", "2.3"], "random": 1, "settings": HOW}
    whole = audit_heads(model, DOCUMENTS, work=tmp_path / "work", **options)
    (tmp_path / "work" / "layer-0002.parquet").unlink()
    finished = read_finished(tmp_path / "work")
    assert finished.is_partial
    assert "The audit was stopped: it has layers 0 to 0 of 3 layers." in str(finished)
    assert audit_heads(model, DOCUMENTS, work=tmp_path / "work", **options).table().equals(whole.table())
    with pytest.raises(MismatchedParts, match="differs in heads"):
        audit_heads(model, DOCUMENTS, work=tmp_path / "work", **options | {"heads": ["0.1"]})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": [0], "heads": ["0.1"]}, "layers and heads are both given"),
        ({"layers": [3]}, "layers is 3"),
        ({"layers": []}, "name at least one"),
        ({"heads": ["0.8"]}, "there is no head 0.8"),
        ({"heads": ["0.1", "L0H1"]}, "head 0.1 is given twice"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_a_wrong_choice_is_named(options, words):
    with pytest.raises((UnsupportedOption, MismatchedParts, ValueError), match=words):
        audit_heads(MODELS["arrays"], DOCUMENTS, settings=HOW, **options)
