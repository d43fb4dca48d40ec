"""A run that is open and not read answers as the automaton in memory does, and never from altered bytes."""

import json
import pickle
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import attomaton as at
from attomaton.automaton.automaton import Automaton, StoredAutomaton
from attomaton.automaton.runs import stored
from attomaton.base.artifacts import blocks, parted
from attomaton.base.errors import CorruptRun
from attomaton.graphs import partitions
from tests.faults.resigned import text_of
from tests.faults.resigning import change_record, set_value
from tests.strategies import sample_sets

SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  many small files, flushed in no time


@contextmanager
def small_parts(samples=3, rows=2):
    """Runs are cut into many parts and row groups, and opened, however small they are."""
    with (
        patch.object(partitions, "PARTITION_SAMPLES", samples),
        patch.object(parted, "GROUP_ROWS", rows),
        patch.object(stored, "SMALL_RUN_BYTES", 0),
        patch.object(stored, "MOST_BLOCK_ROWS", 4),
    ):
        yield


def tables_of(auto):
    """All that an automaton is made of, as plain lists."""
    components, hard, soft = auto.components, auto.hard, auto.soft
    found = {
        "edges": components.edges.rows,
        "queries": components.edges.queries,
        "nodes": components.nodes,
        "order": components.order,
        "hard": hard.scores,
        "soft": soft.scores,
        "multipliers": hard.multipliers,
        "choices": soft.choices.rows,
    }
    return {name: table.to_pylist() for name, table in found.items()}


def equal_parts(whole, some, queries):
    """Whether an automaton of some queries knows of them what the one of all does."""
    first = np.searchsorted(whole.components.query_of, queries)
    for place, query in enumerate(queries.tolist()):
        ours, theirs = (
            [
                {name: row[name] for name in row if name != "component"}
                for row in auto.table().to_pylist()
                if row["query"] == query
            ]
            for auto in (whole, some)
        )
        assert ours == theirs
        own = some.components.query_of
        mine, all_of = some.graph_of(query), whole.graph_of(query)
        assert all_of.first == first[place]
        assert mine.first == np.searchsorted(own, query)
        assert (mine.component - mine.first).tolist() == (all_of.component - all_of.first).tolist()
    return True


def describe_graph(graph):
    edges = [part.tolist() for pieces in graph.edges() for part in pieces if len(part)]
    told = (graph.tokens, graph.component, graph.above, graph.below)
    by_column = [list(chain(*edges[number::3])) for number in range(3)]
    return graph.first, len(graph), *(one.tolist() for one in told), by_column


@contextmanager
def opened(auto):
    """The automaton as an opened run of many parts."""
    with small_parts(), tempfile.TemporaryDirectory(dir=SHM) as folder:
        run = Automaton.load(auto.save(Path(folder, "run")))
        assert isinstance(run, StoredAutomaton)
        yield run


@given(samples=sample_sets(max_tokens=5, max_samples=25), asked=sample_sets(max_tokens=7, max_samples=8))
def test_an_opened_run_answers_as_the_automaton_does(samples, asked):
    auto = at.learn(samples)
    with opened(auto) as run:
        told, found = auto.predict_samples(asked), run.predict_samples(asked)
        for name in ("probabilities", "is_node"):
            assert np.array_equal(getattr(told, name), getattr(found, name))
        assert np.array_equal(told.component[told.is_node], found.component[found.is_node])
        for context, _ in asked:
            if max(context) < samples.n_tokens:
                assert auto.explain(context).to_dict(str) == run.explain(context).to_dict(str)
        for query in range(samples.n_tokens):
            assert describe_graph(auto.graph_of(query)) == describe_graph(run.graph_of(query))
        assert repr(run) == repr(auto)
        assert run.coverage == auto.coverage
        assert run.n_tokens == auto.n_tokens
        assert "solved" not in vars(run)  # nothing has read it whole
        assert tables_of(run) == tables_of(auto)
        assert run.hard.certificate == auto.hard.certificate
        assert run.soft.certificate == auto.soft.certificate
        assert (run.soft.weights != auto.soft.weights).nnz == 0


@settings(max_examples=20)
@given(samples=sample_sets(max_tokens=5, max_samples=25))
def test_parts_and_queries_of_an_opened_run(samples):
    auto = at.learn(samples)
    with opened(auto) as run:
        pieces = list(run.partitions())
        queries = [part.components.queries.tolist() for part in pieces]
        assert list(chain(*queries)) == auto.components.queries.tolist()
        for part, own in zip(pieces, queries, strict=True):
            assert equal_parts(auto, part, np.array(own, np.int64))
        for name in ("edges", "choices"):
            rows = [tables_of(part)[name] for part in pieces]
            assert list(chain(*rows)) == tables_of(auto)[name]
        asked = auto.components.queries[::2].astype(np.int64)
        some = run.of_queries(asked)
        assert some.components.queries.tolist() == asked.tolist()
        assert equal_parts(auto, some, asked)
        assert tables_of(run.of_queries(asked.tolist())) == tables_of(some)
        assert np.array_equal(run.outline(asked.tolist()).hard, run.outline(asked).hard)
        assert auto.of_queries(asked) is auto
        assert list(auto.partitions()) == [auto]


@settings(max_examples=20)
@given(samples=sample_sets(max_tokens=5, max_samples=25, min_samples=4))
def test_what_is_built_on_an_opened_run(samples):
    auto = at.learn(samples)
    with opened(auto) as run:
        assert run.score(samples, epsilon=0.1) == auto.score(samples, epsilon=0.1)
        prompt = next(iter(samples))[0]
        assert run.generate(prompt, 12, seed=3).tokens == auto.generate(prompt, 12, seed=3).tokens
        for query in auto.components.queries.tolist():
            assert run._ranking(query) == auto._ranking(query)
        assert "solved" not in vars(run)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of many parts on disk, with small blocks, and what contexts it was asked."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "text.txt").write_text(text_of(400))
    with small_parts(60, 40), patch.object(blocks, "BLOCK_BYTES", 512):
        auto = at.learn(folder / "text.txt", window=6, out=folder / "run")
    words = auto.vocabulary.tokens
    contexts = [list(words[number : number + 4]) for number in range(len(words) - 4)]
    return folder / "run", auto, contexts


@contextmanager
def as_written():
    with patch.object(blocks, "BLOCK_BYTES", 512), patch.object(stored, "SMALL_RUN_BYTES", 0):
        yield


def test_an_altered_block_of_any_part_is_refused_by_name_when_it_is_read(written, tmp_path):
    run, auto, contexts = written
    expected = {tuple(one): auto.explain(one).to_dict(auto.name) for one in contexts}
    files = sorted(path.name for path in run.glob("*-*.parquet"))
    assert len(files) > 12
    refused = 0
    with as_written():
        for name in files:
            place = Path(shutil.copytree(run, tmp_path / "copy"))
            blob = bytearray((place / name).read_bytes())
            blob[len(blob) // 3] ^= 4
            (place / name).write_bytes(blob)
            opened_run = Automaton.load(place)
            for context in contexts:
                try:
                    assert opened_run.explain(context).to_dict(auto.name) == expected[tuple(context)]
                except CorruptRun as error:
                    refused += f"{name} was altered" in str(error) or pytest.fail(str(error))
            with pytest.raises(CorruptRun, match=rf"{name} was altered"):
                list(opened_run.partitions())
            with pytest.raises(CorruptRun, match=rf"{name} was altered"):
                _ = opened_run.components
            shutil.rmtree(place)
    assert refused


ASKING = """
import json, sys
from attomaton.base.artifacts import blocks
from attomaton.automaton.runs import stored
blocks.BLOCK_BYTES, stored.SMALL_RUN_BYTES = 512, 0
from attomaton.automaton.automaton import Automaton
run = Automaton.load(sys.argv[1])
print(json.dumps([run.explain(context).to_dict(run.name) for context in json.loads(sys.argv[2])]))
"""


@pytest.mark.slow  # processes
def test_two_processes_and_many_threads_read_at_once(written):
    run, auto, contexts = written
    expected = [auto.explain(context).to_dict(auto.name) for context in contexts]
    command = [sys.executable, "-c", ASKING, str(run), json.dumps(contexts)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with as_written():
        opened_run = Automaton.load(run)
        with ThreadPoolExecutor(6) as pool:
            told = list(pool.map(opened_run.explain, contexts * 5))
        assert [one.to_dict(auto.name) for one in told] == expected * 5
        again = pickle.loads(pickle.dumps(opened_run))  # noqa: S301  our own
        assert "solved" not in vars(again)
        assert again.explain(contexts[0]).to_dict(auto.name) == expected[0]
    for one in running:
        output, _ = one.communicate(timeout=120)
        assert json.loads(output) == json.loads(json.dumps(expected))


@pytest.mark.parametrize("asked_before", [0, 1, 6])
def test_a_replaced_run_gives_old_answers_or_a_named_error(written, tmp_path, asked_before):
    run, auto, contexts = written
    place = Path(shutil.copytree(run, tmp_path / "run"))
    expected = [auto.explain(context).to_dict(auto.name) for context in contexts]
    told = refused = 0
    with as_written():
        opened_run = Automaton.load(place)
        for context in contexts[:asked_before]:
            opened_run.explain(context)
        with small_parts(60, 40):
            other = at.learn([text_of(400, seed=5)], window=6)
            other.save(place, overwrite=True)
        for context, old in zip(contexts, expected, strict=True):
            try:
                assert opened_run.explain(context).to_dict(auto.name) == old
                told += 1
            except CorruptRun as error:
                refused += "load the run again" in str(error) or pytest.fail(str(error))
        assert told >= asked_before
        assert refused or asked_before
        anew = Automaton.load(place)
        context = [other.name(token) for token in (0, 1, 2)]
        assert anew.explain(context).to_dict(other.name) == other.explain(context).to_dict(other.name)


def test_answers_do_not_keep_row_groups_in_memory(tmp_path):
    size = 100
    contexts = [[token, (token + 1) % size, token] for token in range(size)]
    at.learn(at.Samples.from_lists(contexts, [token[1] for token in contexts])).save(tmp_path / "run")
    with patch.object(stored, "SMALL_RUN_BYTES", 0):
        run = Automaton.load(tmp_path / "run")
    run.explain(contexts[0])
    before = pa.total_allocated_bytes()
    for context in contexts:
        run.explain(context)
    grown = pa.total_allocated_bytes() - before
    assert grown < 10 * run.scored_nodes.nbytes  # a view for every answer would keep a row group each


def test_an_opened_run_whose_folder_is_gone_says_so(written, tmp_path):
    run, _, contexts = written
    place = Path(shutil.copytree(run, tmp_path / "run"))
    with as_written():
        opened_run = Automaton.load(place)
        shutil.rmtree(place)
        with pytest.raises(CorruptRun, match=r"\.parquet is missing.*load the run again"):
            opened_run.explain(contexts[0])


def test_a_run_with_embeddings_in_parts(tmp_path):
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 0]], [0, 1, 2])
    table = np.random.default_rng(0).normal(size=(3, 4))
    auto = at.learn(samples, embeddings=table)
    with small_parts():
        read = Automaton.load(auto.save(tmp_path / "run"))
    assert tables_of(read) == tables_of(auto)
    assert np.array_equal(read.hard.weights, auto.hard.weights)
    assert np.array_equal(read.soft.weights, auto.soft.weights)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [("choices", "count", -1), ("edges", "winner", 10**6), ("edges", "support", 0)],
)
def test_an_opened_run_refuses_what_the_whole_one_does(tmp_path, name, column, value):
    """The files are altered and the manifest is sealed again, so that no digest tells."""
    run = at.learn([text_of().split()], window=6).save(tmp_path / "run")
    set_value(run, name, column, 0, value)
    with pytest.raises(CorruptRun):
        at.Automaton.load(run, whole=True)
    with patch.object(stored, "SMALL_RUN_BYTES", 0):
        auto = at.Automaton.load(run)
        with pytest.raises(CorruptRun):
            list(auto.scan(name, np.arange(auto.n_tokens)))


def test_more_tokens_than_there_can_be_are_refused(tmp_path):
    run = at.learn([text_of().split()], window=6).save(tmp_path / "run")
    change_record(run, lambda record: record.update(n_tokens=10**15))
    with pytest.raises(CorruptRun, match="n_tokens"):
        at.Automaton.load(run)
