"""One thread count: what a user asks for holds for the engine and for both solvers, and changes no answer."""

import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.machine import count_processors, divide_work
from attomaton.cli import app

IDS = np.random.default_rng(0).geometric(0.1, 4000).clip(max=40) - 1


@pytest.fixture
def started(monkeypatch):
    """The names of threads that are begun; those of a pool end with their numbers there."""
    names = []
    start = threading.Thread.start

    def noted(thread):
        names.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return names


def largest_pool(names):
    """Threads of the pool that had the most."""
    return max((1 + int(name.rpartition("_")[2]) for name in names), default=0)


def solved(automaton):
    return (
        automaton.hard.scores,
        automaton.soft.scores,
        automaton.hard.certificate,
        automaton.soft.certificate,
    )


def test_one_thread_is_the_one_that_asks(started):
    alone = at.learn(IDS, window=8, engine=at.engines.Engine(threads=1))
    assert started == []
    several = at.learn(IDS, window=8, engine=at.engines.Engine(threads=3))
    assert 1 <= largest_pool(started) <= 3
    assert len({name.rpartition("_")[0] for name in started}) == 3  # the hard side, the soft side, its proof
    assert solved(alone) == solved(several) == solved(at.learn(IDS, window=8))


@pytest.mark.parametrize("embeddings", [None, np.eye(40) + 0.1])
def test_solvers_are_told(started, embeddings):
    samples = at.Samples.from_windows(IDS, window=4, n_tokens=40)
    components = at.find_components(at.extract_edges(samples))
    hard = at.solve_graph_svm(components, embeddings=embeddings, threads=1)
    at.solve_luce(samples, hard.components, embeddings=embeddings, threads=1)
    assert started == []
    at.solve_luce(samples, hard.components, embeddings=embeddings, threads=2)
    assert 1 <= largest_pool(started) <= 2


def test_the_engine_on_disk_is_told(started, tmp_path):
    source = tmp_path / "text.txt"
    source.write_text(" ".join(f"w{one}" for one in IDS))
    at.learn(source, window=8, engine=at.engines.Engine("duckdb", memory="1GB", threads=1))
    assert largest_pool(started) == 1


def test_the_command_line_is_told(started, tmp_path):
    source = tmp_path / "text.txt"
    source.write_text(" ".join(f"w{one}" for one in IDS))
    assert CliRunner().invoke(app, ["learn", str(source), "--threads", "1", "--quiet"]).exit_code == 0
    assert started == []


def test_shares_are_worked_on_in_order(started):
    assert divide_work(str, range(5), threads=1) == divide_work(str, range(5), 2) == list("01234")
    assert 1 <= largest_pool(started) <= 2
    started.clear()
    assert divide_work(str, [7]) == ["7"]
    assert started == []
    divide_work(threading.Barrier(count_processors(), timeout=60).wait, [None] * count_processors())
    assert len(started) == (0 if count_processors() == 1 else count_processors())
