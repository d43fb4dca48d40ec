"""The section of heads on the report page: what a saved audit says, and what no audit is."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import CorruptRun, UnreadableSource
from attomaton.heads.audit.course import audit_course
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.saved import KEY, About, mark
from attomaton.report.page.heads import MOST_SHOWN_HEADS, read_heads
from attomaton.report.page.write import write_report
from tests.cli.inside import run_inside
from tests.heads.audit.standin import StandIn, draw_documents

HOW = AuditSettings(window=6, per_document=6, length=10)
HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def audit():
    return audit_heads(
        StandIn(n_layers=1),
        draw_documents(),
        random=[StandIn(n_layers=1, seed=1)],
        causal="all",
        settings=HOW,
    )


def made(rungs=("position",), n=2, **changes):
    """A table of heads by hand."""
    numbers = ("layer", "number", "inside", "first", "seeking_mass", "seeking_excess", "seeking_z")
    columns = {"head": [f"0.{one}" for one in range(n)], "seeks": [True] * n}
    columns |= {name: [0.5] * n for name in numbers}
    columns |= {name_column(kind, one): [0.25] * n for kind in ("explained", "z") for one in rungs}
    table = pa.table({name: values for name, values in (columns | changes).items() if values is not None})
    return mark(table, About("made", tuple(rungs), 3, 9, 0))


def written(table, folder):
    pq.write_table(table, folder / "made.parquet")
    return folder / "made.parquet"


def data_of(page):
    """The JSON of a page."""
    text = page.read_text(encoding="utf-8")
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def test_what_the_page_holds_is_what_was_found(audit, tmp_path):
    record = read_heads(audit.save(tmp_path / "heads.parquet"))
    assert record["rungs"] == list(audit.ladder.names)
    assert record["said_of_z"] == "z compares heads with 1 model with random weights."
    assert (record["documents"], record["rows"], record["step"]) == (audit.n_documents, audit.n_rows, None)
    for at_head, row in enumerate(record["heads"]):
        name, shares, excess, z, seeks, pattern, ablation = row
        assert name == str(audit.heads[at_head])
        assert shares == pytest.approx(audit.ladder.shares[:, at_head], abs=1e-4)
        assert (excess, z) == pytest.approx(
            (audit.seeking.excess.value[at_head], audit.seeking.z[at_head]), abs=1e-4
        )
        assert seeks == audit.seeking.holds[at_head]
        assert pattern == pytest.approx(audit.causal.pattern.value[at_head], abs=1e-4)
        assert ablation == pytest.approx(audit.causal.ablation.value[at_head], abs=1e-4)
    assert "not evidence" in record["no_evidence"]


def test_of_a_course_the_last_step_and_all_means(tmp_path):
    models = [StandIn(n_layers=1, seed=seed) for seed in range(2)]
    course = audit_course(models, draw_documents(), steps=[5, 50], settings=AuditSettings(window=6))
    record = read_heads(course.save(tmp_path / "course.parquet"))
    assert record["step"] == 50
    assert [row[1][-1] for row in record["heads"]] == pytest.approx(course.shares[-1, -1], abs=1e-4)
    assert [one[0] for one in record["steps"]] == [5, 50]
    means = course.shares.mean(axis=2)[:, [0, -1]]
    assert np.array([one[1:] for one in record["steps"]]) == pytest.approx(means, abs=1e-4)
    assert record["no_evidence"] is None
    assert all(len(row) == 5 for row in record["heads"])  # neither causal column


def test_the_page_of_a_run_with_heads(audit, tmp_path):
    at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])).save(tmp_path / "run")
    audit.save(tmp_path / "heads.parquet")
    asked = ["report", "run", "--out", "page.html", "--heads", "heads.parquet", "--json"]
    told = json.loads(run_inside(*asked, cwd=tmp_path).stdout)
    assert told["heads"] == 2
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "priority head" not in text
    assert data_of(tmp_path / "page.html")["heads"] == read_heads(tmp_path / "heads.parquet")
    write_report(tmp_path / "run", tmp_path / "plain.html")
    assert data_of(tmp_path / "plain.html")["heads"] is None


def test_everything_in_the_file_is_escaped(tmp_path):
    at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])).save(tmp_path / "run")
    table = made((HOSTILE, "x" * 999), n=1, head=[HOSTILE])
    table = mark(table, About(HOSTILE, (HOSTILE, "x" * 999), 3, 9, 0))
    write_report(tmp_path / "run", tmp_path / "page.html", heads=written(table, tmp_path))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert data_of(tmp_path / "page.html")["heads"]["model"] == HOSTILE
    assert len(data_of(tmp_path / "page.html")["heads"]["rungs"][1]) == 201


def test_what_is_not_finite_is_null_and_very_many_heads_are_cut(tmp_path):
    record = read_heads(written(made(seeking_z=[np.nan, np.inf], seeking_excess=[None, 0.1]), tmp_path))
    assert [row[2:4] for row in record["heads"]] == [[None, None], [0.1, None]]
    record = read_heads(written(made(n=MOST_SHOWN_HEADS + 5), tmp_path))
    assert (record["n_heads"], len(record["heads"])) == (MOST_SHOWN_HEADS + 5, MOST_SHOWN_HEADS)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"a": [1]}), "is not an audit of heads"),
        (made().replace_schema_metadata({KEY: b"[]"}), "is not an object"),
        (made().replace_schema_metadata({KEY: b"{"}), "is not an audit of heads"),
        (made().replace_schema_metadata({KEY: b'{"model": 1}'}), "is not an audit of heads"),
        (made(seeks=None), "'seeks' is missing"),
        (made(ablation_rise=[0.1, 0.2]), "it has only one of the columns pattern_rise and ablation_rise"),
        (made(seeking_z=["a", "b"]), "'seeking_z' does not contain numbers"),
        (made(head=[1, 2]), "'head' is not text, or 'seeks' is not true or false"),
        (made(step=[0.5, 1.5]), "'step' does not contain whole numbers"),
        (made(step=pa.array([1, None])), "'step' does not contain whole numbers"),
        (made().slice(0, 0), "no rows"),
    ],
)
def test_foreign_tables_are_named_errors(table, said, tmp_path):
    with pytest.raises(UnreadableSource, match=said):
        read_heads(written(table, tmp_path))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(99) + b"PAR1", b"not Parquet at all"])
def test_foreign_files_are_named_errors(content, tmp_path):
    (tmp_path / "foreign.parquet").write_bytes(content)
    with pytest.raises(UnreadableSource, match="give a file that attomaton heads --out wrote"):
        read_heads(tmp_path / "foreign.parquet")
    with pytest.raises(UnreadableSource, match="cannot be read"):
        read_heads(tmp_path)


def test_a_value_that_json_lacks_is_refused_by_its_place(tmp_path):
    at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])).save(tmp_path / "run")
    table = mark(made(n=1), About("\ud800", ("position",), 3, 9, 0))
    with pytest.raises(CorruptRun, match=r"^the heads of .*made\.parquet cannot be shown on a page"):
        write_report(tmp_path / "run", tmp_path / "page.html", heads=written(table, tmp_path))
