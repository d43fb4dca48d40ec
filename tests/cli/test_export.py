"""``attomaton export``: files, output, JSON, exit codes."""

import json

import networkx as nx
import pytest

from tests.cli.inside import run_inside as attomaton


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    assert attomaton("example", "story.txt", cwd=place).returncode == 0
    learned = attomaton("learn", "story.txt", "--window", 8, "--out", "run", "--quiet", cwd=place)
    assert learned.returncode == 0, learned.stderr
    return place


def test_both_formats_are_written_and_said(folder):
    printed = attomaton("export", "run", "--graphml", "a/b.graphml", "--csv", "tables", cwd=folder)
    assert printed.returncode == 0, printed.stderr
    assert "a/b.graphml" in printed.stdout
    assert "edges.csv" in printed.stdout
    names = {path.name for path in (folder / "tables").iterdir()}
    tables = ("tokens", "edges", "components", "order", "hard", "soft", "choices")
    assert names == {"manifest.json"} | {f"{name}.csv" for name in tables}


def test_json_counts_what_is_in_the_files(folder):
    asked = ("--graphml", "top.graphml", "--csv", "top", "--queries", 2, "--nodes", "tokens", "--json")
    record = json.loads(attomaton("export", "run", *asked, cwd=folder).stdout)
    graph = nx.read_graphml(folder / "top.graphml")
    assert record["queries"] == len({query for _, query in graph.nodes(data="query")}) == 2
    told = record["graphml"]
    assert (told["nodes"], told["edges"]) == (len(graph.nodes), len(graph.edges))
    assert told["bytes"] == (folder / "top.graphml").stat().st_size
    for name, rows in record["csv"]["rows"].items():
        assert (folder / "top" / f"{name}.csv").read_text(encoding="utf-8").count("\n") == rows + 1
    named = attomaton("export", "run", "--graphml", "x.graphml", "--queries", "the and", "--json", cwd=folder)
    assert json.loads(named.stdout)["queries"] == 2
    assert attomaton("export", "run", "--csv", "again", "--quiet", cwd=folder).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "give --graphml FILE, --csv FOLDER, or both"),
        (["run", "--csv", "x", "--nodes", "queries"], "choose components or tokens"),
        (["run", "--csv", "x", "--queries", "zebra"], "not in the vocabulary of 61 tokens: 'zebra'"),
        (
            ["run", "--csv", "run/tables"],
            "run/tables is in run, an attomaton folder",
        ),
        (["run", "--csv", "story.txt"], "story.txt is a file; give the path of a folder"),
        (["run", "--graphml", "run.graphml/"], "run.graphml is a folder; give the path of a file"),
        (["nowhere", "--csv", "x"], "nowhere has no manifest.json"),
    ],
)
def test_errors_name_the_file_and_a_next_step(folder, arguments, message):
    (folder / "run.graphml").mkdir(exist_ok=True)
    result = attomaton("export", *arguments, cwd=folder)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
