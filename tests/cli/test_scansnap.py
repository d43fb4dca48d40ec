"""``attomaton scan-snap``, and what ``learn`` says where only that applies."""

import json
import warnings

import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import NothingRealisable
from tests.cli.test_commands import attomaton

VISITS = "front news sport\nnews front sport\nfront sport news\nweather news front\nweather front news\n" * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("scan")
    assert attomaton("example", "story.txt", cwd=place).returncode == 0
    (place / "visits.txt").write_text(VISITS)
    return place


def test_a_text(folder):
    printed = attomaton("scan-snap", "story.txt", "--window", 8, "--queries", 5, cwd=folder)
    assert printed.returncode == 0, printed.stderr
    for text in (
        "443 samples",
        "first to fade",
        "last to stay",
        "snap",
        "raised first",
        "long contexts",
        "the",
    ):
        assert text in printed.stdout
    assert max(map(len, printed.stdout.splitlines())) <= 80


def test_json_is_what_is_written(folder):
    asked = ("scan-snap", "story.txt", "--window", 8, "--out", "written", "--momentum", 0.5, "--json")
    record = json.loads(attomaton(*asked, cwd=folder).stdout)
    stored = json.loads((folder / "written" / "forecast.json").read_text())
    assert record == {**stored, "out": "written", "skipped": 0, "first_skipped": None}
    assert (record["decoder_rate"], record["attention_rate"]) == (2.0, 0.2)
    assert len(record["forecasts"]) == 20
    assert record["followed"] == []
    first = record["forecasts"][0]
    assert first["query"] == "the"
    assert first["turn"] < first["snap"] <= first["half_snap"]
    distinct = pq.read_table(folder / "written" / "distinct.parquet").to_pylist()
    own = [row for row in distinct if row["query"] == distinct[0]["query"]]
    assert [row["rank"] for row in own] == list(range(1, first["distinct"] + 1))
    tokens = pq.read_table(folder / "written" / "tokens.parquet")
    assert tokens.num_rows == sum(one["distinct"] + one["common"] for one in record["forecasts"])
    classes = pq.read_table(folder / "written" / "classes.parquet")
    assert classes.num_rows == sum(one["classes"] for one in record["forecasts"])


def test_documents_are_lines_if_asked_for(folder):
    record = json.loads(
        attomaton("scan-snap", "visits.txt", "--documents", "line", "--json", cwd=folder).stdout
    )
    assert record["samples"] == 50
    assert record["counted"] == 25
    assert record["tokens"] == 4
    assert record["until"] > 0
    assert {one["query"] for one in record["followed"]} == {"news", "front", "sport"}
    whole = json.loads(attomaton("scan-snap", "visits.txt", "--json", cwd=folder).stdout)
    assert whole["tokens"] == 5  # with <eos>


def test_where_nothing_is_distinct_it_says_so(folder):
    (folder / "alike.txt").write_text("a q x\na q y\n" * 3)
    printed = attomaton("scan-snap", "alike.txt", "--documents", "line", "--queries", 1, cwd=folder)
    assert "No token is distinct" in printed.stdout
    assert "exact flow" in printed.stdout
    assert attomaton("scan-snap", "alike.txt", "--quiet", cwd=folder).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "error: missing.txt cannot be read: No such file or directory"),
        (["story.txt", "--momentum", "1"], "'--momentum': it is 1; give a finite number of at least 0"),
        (["story.txt", "--decoder-rate", "0"], "'--decoder-rate': it is 0;"),
        (["story.txt", "--tolerance", "1"], "'--tolerance': it is 1; give a finite number of at least 0"),
        (["story.txt", "--min-samples", "999"], "lower min_samples"),
        (["story.txt", "--documents", "page"], "choose file or line"),
        (["story.txt", "--window", "1"], "Invalid value"),
        (["story.txt", "--out", "story.txt"], "error: story.txt is a file; give the path of a folder"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_2(folder, arguments, message):
    result = attomaton("scan-snap", *arguments, cwd=folder)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_learn_says_that_it_does_not_apply_and_what_does(folder):
    printed = attomaton("learn", "visits.txt", "--documents", "line", cwd=folder)
    assert printed.returncode == 0
    said = " ".join(printed.stdout.split())
    assert "none of the 50 samples has its label in its context" in said
    assert "attomaton scan-snap" in said
    record = json.loads(attomaton("learn", "visits.txt", "--documents", "line", "--json", cwd=folder).stdout)
    assert record["note"].startswith("This theory does not apply")
    assert record["n_edges"] == 0


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_learn_warns_in_python(folder, engine):
    with pytest.warns(NothingRealisable, match="scan-snap"):
        auto = at.learn(folder / "visits.txt", reading=at.Reading(documents="line"), engine=engine)
    assert auto.coverage.realisable == 0
    assert auto.coverage.n_read == 50
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert at.learn(folder / "visits.txt").coverage.note == ""
