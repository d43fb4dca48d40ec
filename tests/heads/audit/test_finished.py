"""Audits that are stopped, saved, loaded and compared."""

import copy
import shutil
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers

from attomaton.base.errors import MismatchedParts, UnreadableSource, UnsupportedOption, UnwritablePlace
from attomaton.heads.audit.compare import compare_audits
from attomaton.heads.audit.course import audit_course, read_finished_steps, remove_finished
from attomaton.heads.audit.explanations import Bigram, Position, Table, TokenCounts
from attomaton.heads.audit.finished import read_finished
from attomaton.heads.audit.heads import TOP, audit_heads
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.randomised import permute_weights, rotate_heads
from attomaton.heads.audit.result import HeadAudit
from attomaton.heads.reading.families import read_object
from tests.heads import made
from tests.heads.audit.standin import StandIn, draw_documents

HOW = AuditSettings(window=8, per_document=6, length=10)
DOCUMENTS = draw_documents(30)
SIZES = {"vocab_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1}
MODEL = read_object(made.make("llama", **SIZES, num_hidden_layers=3))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole audit and the folder of its work."""
    work = tmp_path_factory.mktemp("finished") / "work"
    return audit_heads(MODEL, DOCUMENTS, causal="all", settings=HOW, work=work), work


@pytest.fixture
def whole(finished):
    return finished[0]


@pytest.fixture
def work(finished, tmp_path):
    """A copy of the folder of finished work."""
    return shutil.copytree(finished[1], tmp_path / "work")


def test_what_is_loaded_is_what_was_saved(whole, tmp_path):
    same = HeadAudit.load(whole.save(tmp_path / "heads.parquet"))
    assert same.table().equals(whole.table())
    assert str(same) == str(whole)
    assert same.causal.table().equals(whole.causal.table())
    for part in ("ladder", "alone", "seeking"):
        mine, other = (getattr(one, part).table().to_pandas() for one in (same, whole))
        assert mine.equals(other)
    again = HeadAudit.load(same.save(tmp_path / "again.parquet"))
    assert again.table().equals(whole.table())


def test_without_random_heads_or_causal_value_too(tmp_path):
    audit = audit_heads(StandIn(), DOCUMENTS, settings=HOW)
    same = HeadAudit.load(audit.save(tmp_path / "heads.parquet"))
    assert same.table().equals(audit.table())
    assert same.causal is None
    assert same.left_out == audit.left_out


def test_files_that_hold_no_whole_audit_are_refused(whole, tmp_path):
    whole.save(tmp_path / "heads.parquet")
    table = pq.read_table(tmp_path / "heads.parquet")
    for drop in ("without_explained_position", "random_error_seeking_excess", "scale_alone_last"):
        pq.write_table(table.drop_columns([drop]), tmp_path / "cut.parquet")
        with pytest.raises(UnreadableSource, match="does not contain one whole audit"):
            HeadAudit.load(tmp_path / "cut.parquet")
    course = audit_course([StandIn(), StandIn(seed=1)], DOCUMENTS, steps=[0, 1], settings=HOW)
    with pytest.raises(UnreadableSource, match="several steps"):
        HeadAudit.load(course.save(tmp_path / "course.parquet"))


def test_only_parquet_files_are_replaced(whole, tmp_path):
    for text in ("mine", "files of Parquet begin with PAR1"):
        (tmp_path / "notes.txt").write_text(text)
        with pytest.raises(UnwritablePlace, match="attomaton did not write it"):
            whole.save(tmp_path / "notes.txt")
        assert (tmp_path / "notes.txt").read_text() == text
    assert whole.save(whole.save(tmp_path / "heads.parquet")).exists()


def test_a_name_that_promises_another_format_is_refused(whole, tmp_path):
    with pytest.raises(UnsupportedOption, match=r"heads\.csv would be a Parquet file; end its name"):
        whole.save(tmp_path / "heads.csv")
    assert not any(tmp_path.iterdir())


def test_a_file_with_a_head_twice_is_refused(whole, tmp_path):
    table = pq.read_table(whole.save(tmp_path / "heads.parquet"))
    pq.write_table(pa.concat_tables([table, table]), tmp_path / "twice.parquet")
    with pytest.raises(UnreadableSource, match="a head occurs twice"):
        HeadAudit.load(tmp_path / "twice.parquet")


def test_models_of_other_shapes_are_not_compared(whole):
    other = audit_heads(StandIn(n_layers=2, n_heads=2), DOCUMENTS, settings=HOW)
    with pytest.raises(MismatchedParts, match="3 layers of 2 heads and 2 layers of 2 heads"):
        compare_audits(whole, other)


class Stop(KeyboardInterrupt):
    pass


def stopped_after(n, monkeypatch, stage="measure_layer"):
    """Stop an audit when a layer after n others begins."""
    from attomaton.heads.audit import heads

    whole, count = getattr(heads, stage), iter(range(99))

    def measure(*args, **options):
        if next(count) == n:
            raise Stop
        return whole(*args, **options)

    monkeypatch.setattr(heads, stage, measure)


@pytest.mark.parametrize(("stage", "n"), [("measure_layer", 0), ("measure_layer", 2), ("replace_by", 1)])
def test_an_audit_that_was_stopped_goes_on(whole, tmp_path, monkeypatch, stage, n):
    asked = {"causal": "all", "settings": HOW, "work": tmp_path / "work"}
    with monkeypatch.context() as patch:
        stopped_after(n, patch, stage)
        with pytest.raises(Stop):
            audit_heads(MODEL, DOCUMENTS, **asked)
    part = read_finished(tmp_path / "work")
    if stage == "measure_layer" and not n:
        assert part is None
    elif stage == "measure_layer":
        assert part.layers == [0, 1]
        assert part.is_partial
        assert "layers 0 to 1 of 3" in str(part)
        assert HeadAudit.load(part.save(tmp_path / "part.parquet")).layers == [0, 1]
    else:
        assert [heads[0].layer for heads in part.causal.sets] == [0] * 2
    measured = []
    from attomaton.heads.audit import heads

    again = heads.measure_layer
    monkeypatch.setattr(
        heads, "measure_layer", lambda *args, **options: measured.append(1) or again(*args, **options)
    )
    assert audit_heads(MODEL, DOCUMENTS, **asked).table().equals(whole.table())
    assert len(measured) == (3 - n if stage == "measure_layer" else 0)
    remove_finished(tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_damaged_part_is_measured_again(whole, work):
    (work / "layer-0001.parquet").write_bytes(b"PAR1 cut")
    (work / "mine.txt").write_text("mine")
    again = audit_heads(MODEL, DOCUMENTS, causal="all", settings=HOW, work=work)
    assert again.table().equals(whole.table())
    remove_finished(work)
    assert [file.name for file in work.iterdir()] == ["mine.txt"]


def test_copies_of_finished_layers_are_files_of_others(whole, work):
    """As file managers and synchronising programs write them."""
    first = work / "layer-0000.parquet"
    copies = ["layer-0000 copy.parquet", "layer-0000 (1).parquet", "layer-1.parquet", "layer-x.parquet"]
    for name in copies:
        (work / name).write_bytes(first.read_bytes())
    (work / "layer-0002.parquet").write_bytes(first.read_bytes())  # the heads of another layer
    again = audit_heads(MODEL, DOCUMENTS, causal="all", settings=HOW, work=work)
    assert again.table().equals(whole.table())
    assert read_finished(work).table().equals(whole.table())
    remove_finished(work)
    assert sorted(file.name for file in work.iterdir()) == sorted(copies)


def test_a_layer_of_another_audit_is_measured_again(whole, work, tmp_path):
    """Layers of another model on the same documents were taken for those of this one."""
    other = permute_weights(MODEL, seed=0)
    audit_heads(other, DOCUMENTS, causal="all", settings=HOW, work=tmp_path / "other")
    shutil.copy(tmp_path / "other/layer-0001.parquet", work / "layer-0001.parquet")
    assert read_finished(work).layers == [0, 2]
    again = audit_heads(MODEL, DOCUMENTS, causal="all", settings=HOW, work=work)
    assert again.table().equals(whole.table())


def test_a_folder_named_as_a_layer_is_of_others(work):
    (work / "layer-0007.parquet").mkdir()
    audit_heads(MODEL, DOCUMENTS, causal="all", settings=HOW, work=work)
    remove_finished(work)
    assert [file.name for file in work.iterdir()] == ["layer-0007.parquet"]


def test_a_nested_identity_is_refused(tmp_path):
    (tmp_path / "audit.json").write_text("[" * 100_000)
    with pytest.raises(UnreadableSource, match=r"audit\.json cannot be read; delete folder"):
        audit_heads(MODEL, DOCUMENTS, settings=HOW, work=tmp_path)


def test_copies_of_the_folders_of_steps_are_of_others(tmp_path):
    first = read_object(made.make("llama", **SIZES, num_hidden_layers=1))
    models = [first, permute_weights(first, seed=0)]
    asked = {"steps": [1, 2], "settings": HOW, "work": tmp_path}
    course = audit_course(models, DOCUMENTS, **asked)
    for name in ("step-1 copy", "step-2 (1)", "step-2-1"):
        shutil.copytree(tmp_path / "step-1", tmp_path / name)
    assert read_finished_steps(tmp_path).table().equals(course.table())
    assert audit_course(models, DOCUMENTS, **asked).table().equals(course.table())
    remove_finished(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step-1 copy", "step-2 (1)", "step-2-1"]


@pytest.mark.parametrize("change", ["model", "documents", "how", "rungs", "random", "causal"])
def test_the_work_of_another_audit_is_refused(work, change):
    other = {
        "how": {"settings": AuditSettings(window=7, per_document=6, length=10)},
        "rungs": {"theory": True},
        "random": {"random": 1},
        "causal": {"causal": "top"},
    }.get(change, {})
    model = permute_weights(MODEL, seed=0) if change == "model" else MODEL
    documents = DOCUMENTS[::-1] if change == "documents" else DOCUMENTS
    with pytest.raises(
        MismatchedParts, match=r"another audit, which differs in .*; call with .* to begin anew"
    ):
        audit_heads(model, documents, **({"causal": "all", "settings": HOW, "work": work} | other))


def bloom(seed):
    torch.manual_seed(seed)
    config = transformers.BloomConfig(vocab_size=12, hidden_size=16, n_layer=2, n_head=2)
    return transformers.BloomForCausalLM(config)


def table(seed):
    query, token = np.divmod(np.arange(144), 12)
    values = np.random.default_rng(seed).normal(size=144)
    return {"rungs": (Position(), Table("mine", query, token, values, np.zeros(12)))}


@pytest.mark.parametrize(
    ("different", "one", "other"),
    [
        ("weights", (bloom(0), {}), (bloom(1), {})),
        ("rungs", (MODEL, table(0)), (MODEL, table(1))),
        (
            "random",
            (MODEL, {"random": [rotate_heads(MODEL, seed=0)]}),
            (MODEL, {"random": [rotate_heads(MODEL, seed=1)]}),
        ),
    ],
)
def test_work_under_the_same_names_is_told_apart_by_what_it_was_made_from(tmp_path, different, one, other):
    audit_heads(one[0], DOCUMENTS, settings=HOW, work=tmp_path, **one[1])
    with pytest.raises(MismatchedParts, match=rf"another audit, which differs in {different};"):
        audit_heads(other[0], DOCUMENTS, settings=HOW, work=tmp_path, **other[1])


WIDE = {**SIZES, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}


def changed(model, *, every):
    """A copy of the model with the rows 1, 1 + ``every``, … of each large weight changed."""
    other = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in other.parameters():
            if weight.ndim == 2 and weight.numel() >= 2048:
                rows = weight[1::every]
                rows += torch.randn(rows.shape, generator=draw)
    return other


@pytest.mark.parametrize("every", [2, 64])
def test_a_model_that_differs_in_some_numbers_is_another_model(tmp_path, every):
    model = made.make("llama", **WIDE)
    audit_heads(model, DOCUMENTS, random=0, settings=HOW, work=tmp_path)
    with pytest.raises(MismatchedParts, match=r"another audit, which differs in weights;"):
        audit_heads(changed(model, every=every), DOCUMENTS, random=0, settings=HOW, work=tmp_path)
    audit_heads(copy.deepcopy(model), DOCUMENTS, random=0, settings=HOW, work=tmp_path)


def test_models_of_the_same_weights_differ_by_their_settings(tmp_path):
    one, other = (made.make("llama", **SIZES, rope_theta=theta) for theta in (1e4, 50.0))
    other.load_state_dict(one.state_dict())
    audit_heads(one, DOCUMENTS, random=0, settings=HOW, work=tmp_path)
    with pytest.raises(MismatchedParts, match=r"another audit, which differs in weights;"):
        audit_heads(other, DOCUMENTS, random=0, settings=HOW, work=tmp_path)


def test_rungs_differ_by_what_is_counted(tmp_path):
    counts = [TokenCounts.of(draw_documents(9, seed=seed), n_tokens=12) for seed in range(2)]
    rungs = [(Position(), Bigram(one)) for one in counts]
    audit_heads(StandIn(), DOCUMENTS, rungs=rungs[0], settings=HOW, work=tmp_path)
    with pytest.raises(MismatchedParts, match=r"another audit, which differs in rungs;"):
        audit_heads(StandIn(), DOCUMENTS, rungs=rungs[1], settings=HOW, work=tmp_path)


@pytest.mark.parametrize("inner", [audit_heads, partial(audit_course, steps=[5])])
def test_a_folder_is_used_by_one_audit_at_a_time(tmp_path, inner):
    """The same audit, begun while the first one measures; the folder is free again when that has ended."""
    models = {audit_heads: StandIn(n_layers=1)}.get(inner, [StandIn(n_layers=1)])
    refused = []

    def begin(stage):
        if "explaining" in stage:
            with pytest.raises(UnwritablePlace, match="is being written by process"):
                inner(models, DOCUMENTS, settings=HOW, work=tmp_path / "work")
            refused.append(stage)

    inner(models, DOCUMENTS, settings=HOW, work=tmp_path / "work", progress=begin)
    assert len(refused) == 1
    inner(models, DOCUMENTS, settings=HOW, work=tmp_path / "work")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


def test_of_two_audits_that_begin_together_one_gets_the_folder(tmp_path):
    for number in range(4):
        together, ends = threading.Barrier(2), []

        def begin(_, together=together):
            together.wait()
            return (Position(),)

        def audit(window, work=tmp_path / str(number), ends=ends, begin=begin):
            how = replace(HOW, window=window)
            try:
                ends.append(audit_heads(StandIn(n_layers=1), DOCUMENTS, rungs=begin, settings=how, work=work))
            except (MismatchedParts, UnwritablePlace) as error:
                ends.append(error)

        threads = [threading.Thread(target=audit, args=(window,)) for window in (7, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(isinstance(end, HeadAudit) for end in ends) == [False, True]


def test_work_of_nobody_knows_what_is_refused(work):
    (work / "audit.json").unlink()
    with pytest.raises(MismatchedParts, match=r"the file audit\.json, which describes their audit"):
        audit_heads(permute_weights(MODEL, seed=0), DOCUMENTS, causal="all", settings=HOW, work=work)
    file = work / "mine.txt"
    file.write_text("mine")
    with pytest.raises(UnreadableSource, match="is a file"):
        audit_heads(MODEL, DOCUMENTS, settings=HOW, work=file)


def test_a_course_goes_on(tmp_path):
    models = [StandIn(n_layers=1, seed=seed) for seed in range(2)]
    course = audit_course(models, DOCUMENTS, steps=[0, 5], settings=HOW, work=tmp_path / "work")
    assert read_finished_steps(tmp_path / "work").table().equals(course.table())
    again = audit_course(models, DOCUMENTS, steps=[0, 5], settings=HOW, work=tmp_path / "work")
    assert again.table().equals(course.table())
    remove_finished(tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_the_top_heads_are_those_of_largest_z():
    model = StandIn(n_layers=1, n_heads=TOP + 2)
    whole, top = (audit_heads(model, DOCUMENTS, causal=heads, settings=HOW) for heads in ("all", "top"))
    order = np.argsort(-np.abs(whole.seeking.z), kind="stable")[:TOP]
    assert {heads[0] for heads in top.causal.sets} == {whole.heads[at] for at in order}
    for mine, every in zip(top.rises, whole.rises, strict=True):
        np.testing.assert_allclose(mine[order], every[order])
        assert np.isnan(mine).sum() == len(whole.heads) - TOP
    assert top.table()["pattern_rise"].null_count == len(whole.heads) - TOP


def test_differences_follow_their_definition(whole, tmp_path):
    other = audit_heads(permute_weights(MODEL, seed=1), DOCUMENTS, settings=HOW)
    found = compare_audits(whole, other)
    saved = (whole.save(tmp_path / "whole.parquet"), str(other.save(tmp_path / "other.parquet")))
    assert compare_audits(*saved).table().equals(found.table())
    assert found.is_paired
    at = found.names.index("seeking_excess")
    apart = other.seeking.excess.minus(whole.seeking.excess)
    np.testing.assert_array_equal(found.difference[at], apart.value)
    np.testing.assert_allclose(found.error[at], apart.error, rtol=1e-12)
    assert found.table()["head"].to_pylist() == whole.table()["head"].to_pylist()
    assert "heads that differ" in str(found)
    elsewhere = audit_heads(MODEL, draw_documents(30, seed=5), settings=HOW)
    apart = compare_audits(whole, elsewhere)
    assert not apart.is_paired
    both = np.hypot(whole.seeking.excess.error, elsewhere.seeking.excess.error)
    np.testing.assert_allclose(apart.error[at], both)
    with pytest.raises(MismatchedParts, match="no head in common"):
        compare_audits(whole, replace(other, heads=()))


@pytest.mark.slow  # many audits
def test_one_model_on_two_halves_of_a_text_rarely_differs():
    """Of heads that are compared on independent texts, about one in twenty has |z| beyond 1.96."""
    z = []
    for seed in range(12):
        audits = [
            audit_heads(
                StandIn(n_layers=1, n_heads=4), draw_documents(30, seed=2 * seed + half), settings=HOW
            )
            for half in range(2)
        ]
        difference = compare_audits(*audits)
        z.append(difference.z[difference.names.index("seeking_mass")])
    assert np.mean(np.abs(z) > 1.96) <= 0.15


def build_gemma2(**changes):
    """A model of which only attention patterns are read, with the same weights whatever its settings."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 1, "head_dim": 8, "vocab_size": 12, "pad_token_id": None}
    torch.manual_seed(0)
    config = AutoConfig.for_model("gemma2", **sizes, **more, **changes)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


class Lookup:
    """A rung that scores tokens by a dictionary."""

    name = "mine"

    def __init__(self, scores):
        self.entries = scores

    def scores(self, rows):
        return np.vectorize(lambda token: self.entries.get(int(token), 0.0))(rows.tokens)


@pytest.mark.parametrize("changes", [{"sliding_window": 3}, {"query_pre_attn_scalar": 1}])
def test_a_model_of_the_same_weights_and_another_configuration_is_another_model(changes, tmp_path):
    """The layers of the first model were taken for those of the second."""
    options = {"settings": HOW, "random": 0, "work": tmp_path / "work"}
    audit_heads(build_gemma2(), DOCUMENTS, **options)
    with pytest.raises(MismatchedParts, match="weights"):
        audit_heads(build_gemma2(**changes), DOCUMENTS, **options)
    audit_heads(build_gemma2(), DOCUMENTS, **options)


def test_a_rung_with_other_entries_is_another_rung(tmp_path):
    options = {"settings": HOW, "random": 0, "work": tmp_path / "work"}
    rung = Lookup({1: 1.0, 3: 2.0})
    audit_heads(MODEL, DOCUMENTS, rungs=[Position(), rung], **options)
    audit_heads(MODEL, DOCUMENTS, rungs=[Position(), rung], **options)
    with pytest.raises(MismatchedParts, match="rungs"):
        audit_heads(MODEL, DOCUMENTS, rungs=[Position(), Lookup({1: 1.0, 4: 2.0})], **options)


def test_one_random_head_is_no_control():
    """Heads of one-head models had z = +inf against one random head."""
    model = read_object(made.make("llama", **SIZES | {"num_attention_heads": 1, "num_hidden_layers": 1}))
    with pytest.raises(UnsupportedOption, match="one random head, which is too few"):
        audit_heads(model, DOCUMENTS, settings=HOW, random=1)
    assert np.isfinite(audit_heads(model, DOCUMENTS, settings=HOW).seeking.z).all()
