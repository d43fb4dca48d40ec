"""A run for other programs: what is read back from GraphML and CSV is the run, whatever its tokens."""

import csv
import json
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import UnknownToken, UnsupportedOption, UnwritablePlace
from attomaton.base.printing import show_hidden
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.report import export, graphml
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import escape_cell, escape_text, pick_queries, refuse_run_folder, unescape_text
from attomaton.report.graphml import write_graphml

HOSTILE = (
    "</data><node id='x'>&amp;",
    "=cmd|' /C calc'!A0",
    'say "hi", he;=1+1',
    "line\nend\r\n\ttab",
    "\x00\x01\x1b[31m\x7f\x9b",
    "שלום עולם",
    "\u202eevil\u2066",
    "😀 \u200d e\u0301",
    "\ud800 alone \udfff",
    "back\\slash \\n \\u003d",
    " =2",
    "@SUM(A1)",
    "x" * 10_000,
    "\ufffe\uffff\ufeff",
    "=",
    "]]>",
)


def hostile_automaton(tokens=HOSTILE, seed=0):
    rng = np.random.default_rng(seed)
    contexts = [rng.integers(0, len(tokens), rng.integers(2, 7)).tolist() for _ in range(200)]
    samples = at.Samples.from_lists(contexts, [context[0] for context in contexts], n_tokens=len(tokens))
    learned = at.learn(samples)
    return at.Automaton(learned.components, learned.hard, learned.soft, Vocabulary(tokens))


@pytest.fixture(scope="module")
def automaton():
    return hostile_automaton()


def texts(cell):
    return [unescape_text(text) for text in json.loads(cell)]


@given(st.text(st.characters(), max_size=20) | st.sampled_from(HOSTILE))
def test_escapes_can_be_undone_and_hide_nothing(text):
    for escaped in (escape_text(text), escape_cell(text)):
        assert unescape_text(escaped) == text
        assert show_hidden(escaped) == escaped
        assert escaped.encode("utf-8").decode("utf-8") == escaped
        assert len(escaped.splitlines()) <= 1
    cell = escape_cell(text)
    assert len(cell) <= 1 or cell.lstrip()[:1] not in tuple("=+-@＝＋－＠") or len(cell.lstrip()) == 1


@pytest.mark.parametrize("batch", [3, 1 << 16])
def test_graphml_of_components_reads_back_as_the_order(automaton, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(graphml, "ROWS_AT_A_TIME", batch)
    monkeypatch.setattr(export, "ROWS_AT_A_TIME", batch)
    counts = write_graphml(automaton, tmp_path / "a.graphml", pick_queries(automaton))
    graph = nx.read_graphml(tmp_path / "a.graphml")
    components = automaton.components
    assert (counts.nodes, counts.edges) == (len(components), components.order.num_rows)
    assert (len(graph.nodes), len(graph.edges)) == (counts.nodes, counts.edges)
    assert graph.is_directed()
    for number in range(len(components)):
        node = graph.nodes[f"c{number}"]
        tokens = components.tokens(number).tolist()
        assert texts(node["tokens"]) == [HOSTILE[token] for token in tokens]
        assert unescape_text(node["query"]) == HOSTILE[components.query_of[number]]
        assert (node["query_id"], node["size"]) == (components.query_of[number], len(tokens))
        assert node["height"] == components.heights[number]
        assert node["label"].endswith(" …") == (len(tokens) > 5)
    for row in components.order.to_pylist():
        edge = graph.edges[f"c{row['above']}", f"c{row['below']}"]
        assert (edge["edges"], edge["support"]) == (row["edges"], row["support"])


def test_graphml_of_tokens_reads_back_as_the_edges(automaton, tmp_path):
    write_graphml(automaton, tmp_path / "a.graphml", pick_queries(automaton), nodes="tokens")
    graph = nx.read_graphml(tmp_path / "a.graphml")
    components = automaton.components
    hard, soft = (part.scores.column("score").to_pylist() for part in (automaton.hard, automaton.soft))
    assert len(graph.nodes) == components.nodes.num_rows
    for row, node in enumerate(components.nodes.to_pylist()):
        found = graph.nodes[f"q{node['query']}t{node['token']}"]
        assert unescape_text(found["label"]) == HOSTILE[node["token"]]
        assert (found["component"], found["hard"], found["soft"]) == (node["component"], hard[row], soft[row])
    expected = {
        (f"q{edge['query']}t{edge['winner']}", f"q{edge['query']}t{edge['loser']}"): edge["support"]
        for edge in components.edges.rows.to_pylist()
    }
    assert {(a, b): support for a, b, support in graph.edges(data="support")} == expected


@pytest.mark.parametrize("batch", [7, 1 << 16])
def test_csv_reads_back_as_the_tables(automaton, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(export, "ROWS_AT_A_TIME", batch)
    written = write_csv(automaton, tmp_path, pick_queries(automaton))
    read = {}
    for name in written:
        lines = (tmp_path / f"{name}.csv").read_bytes().decode().split("\n")
        assert len(lines) == written[name] + 2  # the header, and nothing after the last line end
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            read[name] = list(csv.DictReader(file))
    assert [unescape_text(row["token_text"]) for row in read["tokens"]] == list(HOSTILE)
    components = automaton.components
    tables = {"edges": components.edges.rows, "components": components.nodes, "order": components.order}
    tables |= {"hard": automaton.hard.scores, "soft": automaton.soft.scores}
    for name, table in tables.items():
        assert written[name] == table.num_rows
        for row, expected in zip(read[name], table.to_pylist(), strict=True):
            assert {key: float(row[key]) for key in expected} == expected
            for key in {"query", "winner", "loser", "token"} & row.keys():
                assert unescape_text(row[f"{key}_text"]) == HOSTILE[int(row[key])]
    for row, expected in zip(read["choices"], automaton.soft.choices.rows.to_pylist(), strict=True):
        assert [int(token) for token in row["tokens"].split()] == expected["tokens"]
        assert [int(number) for number in row["multiplicities"].split()] == expected["multiplicities"]
        assert texts(row["tokens_text"]) == [HOSTILE[token] for token in expected["tokens"]]


def test_only_the_queries_asked_for_are_written(automaton, tmp_path):
    picked = pick_queries(automaton, [HOSTILE[1], HOSTILE[8]])
    assert np.flatnonzero(picked).tolist() == [1, 8]
    write_graphml(automaton, tmp_path / "a.graphml", picked)
    graph = nx.read_graphml(tmp_path / "a.graphml")
    assert {query for _, query in graph.nodes(data="query_id")} == {1, 8}
    order, of = automaton.components.order, automaton.components.query_of
    assert len(graph.edges) == sum(of[row["above"]] in (1, 8) for row in order.to_pylist())
    write_csv(automaton, tmp_path / "csv", picked)
    for name in ("edges", "components", "order", "hard", "soft", "choices"):
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as file:
            assert {row["query"] for row in csv.DictReader(file)} <= {"1", "8"}
    assert pick_queries(automaton, 3).sum() == 3
    assert pick_queries(automaton, 10**6).sum() == len(automaton.components.queries)


def test_what_cannot_be_picked_is_an_error(automaton):
    with pytest.raises(UnknownToken, match="not in the vocabulary of 16 tokens"):
        pick_queries(automaton, ["nowhere"])
    with pytest.raises(UnsupportedOption, match="give a whole number, 1 or more"):
        pick_queries(automaton, 0)
    with pytest.raises(UnsupportedOption, match="no query is named"):
        pick_queries(automaton, [])
    few = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1], n_tokens=3))
    with pytest.raises(UnknownToken, match="'1' is not a query of this run"):
        pick_queries(few, ["1"])
    with pytest.raises(UnknownToken, match="give ids below 3"):
        pick_queries(few, ["3"])


def test_a_run_without_edges_gives_whole_files(tmp_path):
    with pytest.warns(at.base.errors.NothingRealisable):
        nothing = at.learn(at.Samples.from_lists([[0, 1]], [2], n_tokens=3))
    for nodes in ("components", "tokens"):
        write_graphml(nothing, tmp_path / "a.graphml", pick_queries(nothing), nodes=nodes)
        assert len(nx.read_graphml(tmp_path / "a.graphml")) == 0
    assert write_csv(nothing, tmp_path / "tables", pick_queries(nothing))["edges"] == 0
    assert (tmp_path / "tables" / "edges.csv").read_text().count("\n") == 1


def test_a_failure_leaves_the_old_file_and_no_draft(automaton, tmp_path, monkeypatch):
    target = tmp_path / "a.graphml"
    write_graphml(automaton, target, pick_queries(automaton))
    old = target.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(graphml, "_write_rows", fail)
    with pytest.raises(UnwritablePlace, match="No space left on device; free space"):
        write_graphml(automaton, target, pick_queries(automaton))
    assert [path.name for path in tmp_path.iterdir()] == ["a.graphml"]
    assert target.read_bytes() == old


def test_the_run_itself_is_no_place_to_write_to(tmp_path):
    (tmp_path / "run").mkdir()
    for inside in ("run", "run/manifest.json", "run/../run/x"):
        with pytest.raises(UnwritablePlace, match="is inside the run folder"):
            refuse_run_folder(tmp_path / "run", tmp_path / inside)
    refuse_run_folder(tmp_path / "run", tmp_path / "runs.graphml")


@pytest.mark.slow
def test_wikitext_is_written_without_another_copy_in_memory(wikitext, tmp_path):
    """Beyond what the loaded run takes, writing needs less than a third of it."""
    import subprocess

    at.learn(str(wikitext / "train.articles-shuffled.txt"), out=tmp_path / "run")
    code = """
import resource, sys
from pathlib import Path
from attomaton.automaton.automaton import Automaton
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import pick_queries
from attomaton.report.graphml import write_graphml
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
automaton = Automaton.load(sys.argv[1])
loaded = peak()
write_csv(automaton, Path(sys.argv[2]), pick_queries(automaton))
write_graphml(automaton, Path(sys.argv[2]) / "a.graphml", pick_queries(automaton))
print(peak() / loaded)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "out")]
    ratio = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert ratio < 4 / 3, ratio
