"""learn() and the command give the same run on every engine."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.errors import MissingExtra, UnsupportedOption
from attomaton.cli import app
from attomaton.engines import choose
from attomaton.engines.memory import MemoryEngine
from tests.engines.conftest import samples_of, write_shards


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(7)
    path = tmp_path / "text.txt"
    path.write_text(" ".join(f"w{number}" for number in (30 * rng.random(3000) ** 2).astype(int)))
    return path


@pytest.mark.parametrize("folder", [False, True])
def test_a_text_that_may_not_fit_in_memory_is_learned_on_disk(tmp_path, text, monkeypatch, folder):
    """The user of 50 GB who types ``attomaton learn corpus``."""
    source = text.parent if folder else text
    expected = at.learn(source, window=6)
    monkeypatch.setattr(choose, "BYTES_PER_TEXT_BYTE", 10**12)
    with monkeypatch.context() as without:
        without.setattr(MemoryEngine, "edges", None)
        learned = at.learn(source, window=6)
    assert learned.hard.scores == expected.hard.scores
    assert learned.coverage == expected.coverage
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match="a corpus too large for memory needs DuckDB"):
        at.learn(source, window=6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"queries": 5},
        {"queries": ["w1", "w2"]},
        {"min_support": 3, "max_window": 4},
        {"sample_queries": 0.5},
    ],
)
def test_both_engines_write_the_same_run(tmp_path, text, settings):
    for engine in ("memory", "duckdb"):
        auto = at.learn(text, window=6, engine=engine, out=tmp_path / engine, keep=at.Selection(**settings))
        assert auto.coverage.n_edges
        assert not (tmp_path / engine / "work.draft").exists()
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("memory", "duckdb")]
    for told in ("files", "certificates", "soft", "borders"):
        assert manifests[0][told] == manifests[1][told]
    loaded = at.Automaton.load(tmp_path / "duckdb")
    assert loaded.predict_proba("w1 w0 w3").tolist() == auto.predict_proba("w1 w0 w3").tolist()


def test_a_folder_of_shards(tmp_path):
    rng = np.random.default_rng(8)
    documents = [rng.integers(0, 9, 80).tolist() for _ in range(6)]
    write_shards(tmp_path / "shards", documents, 9, 2)
    expected = at.learn(samples_of(documents, 9, 5))
    for engine in ("auto", "memory", "duckdb"):
        found = at.learn(
            tmp_path / "shards", window=5, engine=at.engines.Engine(engine, memory="1GB", threads=2)
        )
        assert found.soft.scores.equals(expected.soft.scores)
        assert found.hard.scores.equals(expected.hard.scores)


def test_samples_need_memory():
    with pytest.raises(UnsupportedOption, match="not Samples; use memory"):
        at.learn(samples_of([[0, 1, 0]], 2, 3), engine="duckdb")


def test_longest_context_of_samples():
    long, short = samples_of([[0, 1, 2, 0, 1, 0] * 5], 3, 9), samples_of([[0, 1, 2, 0, 1, 0] * 5], 3, 4)
    found, expected = at.learn(long, keep=at.Selection(max_window=4)), at.learn(short)
    assert found.hard.scores.equals(expected.hard.scores)
    assert found.samples.lengths.max() == 4


def test_command(tmp_path, text):
    options = ["--window", "6", "--engine", "duckdb", "--memory", "1GB", "--threads", "1", "--json"]
    more = ["", "--queries 4", "--queries w0,w1", "--sample-queries 0.5", "--max-window 2"]
    extra = [[word.replace(",", " ") for word in one.split()] for one in more]
    results = [CliRunner().invoke(app, ["learn", str(text), *options, *one]) for one in extra]
    assert [result.exit_code for result in results] == [0] * 5, results
    counts = [json.loads(result.stdout)["n_queries"] for result in results]
    assert counts[1:3] == [4, 2]
    assert 0 < counts[3] < counts[0]
    wrong = CliRunner().invoke(app, ["learn", str(text), "--engine", "duckdb", "--memory", "much"])
    assert "memory is 'much'" in str(wrong.exception)


def test_every_kind_of_corpus_gives_the_same_answer(tmp_path):
    """Documents as lists, JSON lines, a tokenised folder, in memory and on disk."""
    rng = np.random.default_rng(9)
    texts = [" ".join(f"w{number}" for number in rng.integers(0, 9, 60)) for _ in range(5)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    at.tokenize_corpus(texts, tmp_path / "tokens")
    expected = at.learn(at.read_corpus(texts).windows(5))
    for source in (texts, tmp_path / "texts.jsonl", str(tmp_path / "*.jsonl"), tmp_path / "tokens"):
        for engine in ("memory", "duckdb"):
            found = at.learn(source, window=5, engine=engine)
            assert found.hard.scores.equals(expected.hard.scores)
            assert found.soft.scores.equals(expected.soft.scores)
            assert found.vocabulary.tokens == at.read_corpus(texts).vocabulary.tokens


def test_ids_on_disk(tmp_path):
    ids = np.random.default_rng(3).integers(0, 7, 300)
    on_disk, in_memory = (at.learn(ids, window=4, engine=engine) for engine in ("duckdb", "memory"))
    assert on_disk.soft.scores.equals(in_memory.soft.scores)
    assert at.learn(ids.tolist(), window=4).soft.scores.equals(in_memory.soft.scores)
