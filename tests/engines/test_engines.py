"""Every engine gives, byte for byte, what the in-memory path gives."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attomaton as at
from attomaton.base.errors import MissingExtra
from attomaton.corpora.readers import read_text
from attomaton.corpora.shards import Shards
from attomaton.engines import choose, tasks
from attomaton.engines.duckdb import DuckDBEngine
from attomaton.engines.selection import Selection
from tests.engines.conftest import draw_documents, samples_of, write_shards
from tests.engines.edges import digest, load
from tests.sizes import some

N_CORPORA = 200
DIGEST = "eb1faa492a8a259483826a7051b3ae70983cdc80601804a487b3f215c77a3eb3"


def same_tables(one, other):
    """Equal schemas, rows and order."""
    return one.schema.equals(other.schema) and one.combine_chunks().equals(other.combine_chunks())


def assert_same_passes(engine, samples, min_support=1, *, whole=True):
    """Both passes of an engine against the definition over samples; ``whole``: also whole contexts."""
    expected = at.extract_edges(samples).filter(min_support=min_support)
    edges = load(engine.edges())
    assert same_tables(edges.rows, expected.rows)
    assert same_tables(edges.queries, expected.queries)
    assert edges.n_tokens == expected.n_tokens
    components = at.find_components(edges)
    for inside in (components, None) if whole else (components,):
        assert same_tables(engine.choices(inside).rows, at.extract_choices(samples, inside).rows)


@pytest.mark.parametrize("seed", some(range(20), gate=range(2)))
def test_random_corpora(make_quick_engine, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(tasks, "JOB_TOKENS", 100)  # several jobs even here
    for number in range(N_CORPORA // 20):
        rng = np.random.default_rng([seed, number])
        documents, n_tokens = draw_documents(rng)
        window = int(rng.choice([1, 2, 5, 32, 1000]))
        place = tmp_path / str(number)
        shards = write_shards(
            place, documents, n_tokens, int(rng.integers(1, 4)), large=bool(rng.integers(2))
        )
        engine = make_quick_engine(shards, place / "work", Selection(window))
        assert_same_passes(engine, samples_of(documents, n_tokens, window), whole=number % 5 == 0)


@pytest.mark.parametrize("seed", some(range(20), gate=range(2)))
def test_random_corpora_together(make_engine, tmp_path, seed):
    """Ten corpora over different tokens in one pass: documents and queries never meet."""
    rng = np.random.default_rng([7, seed])
    together, n_all = [], 0
    for _ in range(N_CORPORA // 20):
        documents, n_tokens = draw_documents(rng)
        together += [[n_all + token for token in document] for document in documents]
        n_all += n_tokens
    window = (32, 1, 2, 5, 1000)[seed % 5]
    shards = write_shards(tmp_path, together, n_all, 1 + seed % 3, large=bool(seed % 2))
    engine = make_engine(shards, tmp_path / "work", Selection(window))
    assert_same_passes(engine, samples_of(together, n_all, window), whole=seed % 4 == 0)


def test_selections(make_engine, tmp_path):
    rng = np.random.default_rng(1)
    documents = [(30 * rng.random(200) ** 2).astype(int).tolist() for _ in range(20)]
    shards = write_shards(tmp_path, documents, 30, 3)
    whole = samples_of(documents, 30, 8)
    read = at.extract_edges(whole).queries
    most = np.lexsort((read["query"], -read["realisable"].to_numpy()))[:4]
    share = Selection(sample_queries=0.4).selected(30)
    for number, (selection, samples) in enumerate(
        [
            (Selection(8, queries=(3, 7, 20)), whole.take(np.isin(whole.queries, [3, 7, 20]))),
            (Selection(8, queries=4), whole.take(np.isin(whole.queries, read["query"].to_numpy()[most]))),
            (Selection(8, sample_queries=0.4), whole.take(share[whole.queries])),
            (Selection(8, max_window=5), samples_of(documents, 30, 5)),
            (Selection(8, min_support=3), whole),
        ]
    ):
        engine = make_engine(shards, tmp_path / f"work{number}", selection)
        assert_same_passes(engine, samples, selection.min_support)


def test_a_long_document_is_cut(make_engine, tmp_path, monkeypatch):
    monkeypatch.setattr(DuckDBEngine, "_max_keys", 500)
    monkeypatch.setattr(DuckDBEngine, "_workshop", property(small_pieces))
    monkeypatch.setattr("attomaton.engines.memory.MEMORY_CHUNK_TOKENS", 64)
    monkeypatch.setattr("attomaton.engines.spark.SPARK_CHUNK_TOKENS", 64)
    ids = (40 * np.random.default_rng(3).random(3000) ** 2).astype(int).tolist()
    documents = [ids, [], ids[:100]]
    shards = write_shards(tmp_path, documents, 40)
    engine = make_engine(shards, tmp_path / "work", Selection(16))
    assert_same_passes(engine, samples_of(documents, 40, 16))


def small_pieces(engine):
    return tasks.Workshop(engine.work, engine._threads, 64, engine.progress)


def test_digest_does_not_know_the_engine(make_engine, tmp_path):
    documents = [np.random.default_rng(4).integers(0, 9, 300).tolist()]
    engine = make_engine(write_shards(tmp_path, documents, 9), tmp_path / "work", Selection(5))
    assert digest(engine.edges()) == DIGEST


@pytest.mark.slow
def test_wikitext(make_engine, tmp_path, wikitext):
    read = read_text(wikitext / "train.articles-shuffled.txt")
    documents = np.array_split(read.ids, 4)
    table = pa.table({"tokens": pa.array(documents, pa.list_(pa.int32()))})
    pq.write_table(table, tmp_path / "train.parquet")
    shards = Shards.from_folder(tmp_path, n_tokens=len(read.vocabulary))
    borders = np.concatenate([[0], np.cumsum([len(document) for document in documents])])
    samples = at.Samples.from_windows(read.ids, window=32, documents=borders, n_tokens=len(read.vocabulary))
    engine = make_engine(shards, tmp_path / "work", Selection(32))
    expected = at.extract_edges(samples)
    edges = load(engine.edges())
    assert same_tables(edges.rows, expected.rows)
    assert same_tables(edges.queries, expected.queries)
    components = at.find_components(edges)
    assert same_tables(engine.choices(components).rows, at.extract_choices(samples, components).rows)


def test_without_duckdb_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    write_shards(tmp_path / "shards", [[0, 1, 0, 2] * 50], 3)
    with pytest.raises(
        MissingExtra, match=r"the engine duckdb needs DuckDB: pip install 'attomaton\[duckdb\]'"
    ):
        at.learn(tmp_path / "shards", window=4, engine="duckdb")
    assert at.learn(tmp_path / "shards", window=4).n_tokens == 3
    monkeypatch.setattr(choose, "BYTES_PER_TOKEN", 10**12)
    with pytest.raises(MissingExtra, match="a corpus too large for memory needs DuckDB"):
        at.learn(tmp_path / "shards", window=4)
