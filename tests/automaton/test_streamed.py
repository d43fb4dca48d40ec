"""What reads a run query by query gives what the automaton in memory gives."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings, strategies as st

import attomaton as at
from attomaton.automaton import compare
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.rules import answer_bags
from attomaton.graphs.bags import count_all_tokens
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import pick_queries
from attomaton.report.graphml import write_graphml
from attomaton.report.page import content, packing
from attomaton.report.page.content import choose_queries, gather_page
from attomaton.report.page.packing import Packer
from tests.automaton.test_stored import SHM, opened, small_parts
from tests.strategies import sample_sets

FEW = settings(max_examples=20)  # each writes some dozen files
sets = sample_sets(max_tokens=5, max_samples=25)


@FEW
@given(samples=sets, asked=sample_sets(max_tokens=7, max_samples=12))
def test_rules(samples, asked):
    auto = at.learn(samples)
    with opened(auto) as run:
        expected = answer_bags(auto, count_all_tokens(asked))[1]
        assert answer_bags(run, count_all_tokens(asked))[1].tolist() == expected.tolist()
        assert "solved" not in vars(run)


@FEW
@given(samples=sets, data=st.data())
def test_tables_index_and_outlines(samples, data):
    auto = at.learn(samples)
    with opened(auto) as run:
        assert run.index.equals(auto.index)
        every = np.arange(samples.n_tokens)
        some = np.array(sorted(data.draw(st.sets(st.integers(0, samples.n_tokens - 1)))), np.int64)
        for name in ("edges", "nodes", "order", "choices"):
            rows = [row for piece in auto.scan(name, every) for row in piece.to_pylist()]
            for asked in (every, some):
                pieces = list(run.scan(name, asked))
                assert pieces
                found = [row for piece in pieces for row in piece.to_pylist()]
                assert found == [row for row in rows if row["query"] in asked]
        for block, outline in run.outlines(some):
            known = np.flatnonzero(np.isin(auto.components.query_of, block))
            assert outline.number.tolist() == known.tolist()
            mine = np.isin(auto.components.query_of_node, block)
            whole = auto.outline(block)
            assert outline.hard.tolist() == whole.hard[mine].tolist()
            assert outline.soft.tolist() == whole.soft[mine].tolist()
            assert outline.components.heights.tolist() == auto.components.heights[known].tolist()
        assert "solved" not in vars(run)


@FEW
@given(samples=sets, others=sets)
def test_differences(samples, others):
    one, other = at.learn(samples), at.learn(others)
    expected = at.diff(one, other)
    with opened(one) as run_a, opened(other) as run_b, patch.object(compare, "MOST_EDGES", 3):
        for a, b in ((run_a, run_b), (one, run_b), (run_a, other)):
            found = at.diff(a, b)
            assert found.rows.to_pylist() == expected.rows.to_pylist()
            assert (found.n_pairs, found.tokens) == (expected.n_pairs, expected.tokens)
        assert not {"solved"} & (vars(run_a).keys() | vars(run_b).keys())


def exported(auto, picked):
    with tempfile.TemporaryDirectory(dir=SHM) as name:
        folder = Path(name)
        rows = write_csv(auto, folder / "csv", picked)
        counts = [
            write_graphml(auto, folder / f"{nodes}.graphml", picked, nodes=nodes)
            for nodes in ("components", "tokens")
        ]
        files = {path.name: path.read_bytes() for path in folder.rglob("*.csv")}
        files |= {path.name: path.read_bytes() for path in folder.glob("*.graphml")}
    return rows, repr(counts), files


@FEW
@given(samples=sets, most=st.integers(1, 4))
def test_exports(samples, most):
    auto = at.learn(samples)
    with opened(auto) as run:
        for asked in (None, most):
            picked = pick_queries(auto, asked)
            assert pick_queries(run, asked).tolist() == picked.tolist()
            assert exported(run, picked) == exported(auto, picked)
        assert "solved" not in vars(run)


@FEW
@given(samples=sets, room=st.integers(100, 3000))
def test_pages(samples, room):
    auto = at.learn(samples)
    rows = patch.object(packing, "ROWS_AHEAD", 20)
    with opened(auto) as run, patch.object(packing, "QUERIES_AHEAD", 2), rows:
        packers = [Packer(auto), Packer(run)]
        told = [choose_queries(packer, room=room) for packer in packers]
        assert told[0].packed == told[1].packed
        assert gather_page(auto, packers[0], told[0], {}) == gather_page(run, packers[1], told[1], {})
        for place in range(len(Packer(auto).queries)):
            assert Packer(run).graph(place).tokens.tolist() == Packer(auto).graph(place).tokens.tolist()
        assert "solved" not in vars(run)


def test_a_large_run_leaves_out_queries_that_are_too_large_for_a_page(tmp_path):
    """They are not even read, and the page says how many of how many it shows."""
    often = [[0, 1, 2, 3, 4]] * 9 + [[1, 0, 2, 3, 4]] * 9
    samples = at.Samples.from_lists([*often, [0, 1], [1, 0]], [0] * 9 + [1] * 9 + [0, 1])
    with small_parts(), patch.object(content, "LARGE_RUN", 5), patch.object(content, "MOST_QUERY_SIZE", 6):
        run = Automaton.load(at.learn(samples).save(tmp_path / "run"))
        packer = Packer(run)
        chosen = choose_queries(packer, room=10**6)
        assert packer.queries.tolist() == [0, 1, 4]
        assert packer.queries[chosen.indices].tolist() == [0, 1]
        assert chosen.samples_share == 2 / 20
