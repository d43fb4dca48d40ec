"""Sums by key: every engine gives the same digits as a plain loop."""

import sys
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from attomaton.base.tables import column
from attomaton.corpora.documents import Chunk
from attomaton.engines import sums
from attomaton.engines.selection import Selection
from attomaton.engines.sums import add_rows, merge_sums, split_numbers, sum_chunks, sum_in_batches
from tests.engines.conftest import draw_documents, write_shards


class Weigh:
    """Each token counted, and each token of a document with its place's reciprocal, times a table's value."""

    name = "weighed"

    def __init__(self, values):
        self.settings = {"made": "for a test"}
        self.values = np.asarray(values, np.float64)
        self.sizes = {"counts": len(self.values) or 400, "weights": len(self.values) or 400}

    @property
    def tables(self):
        return {"values": pa.table({"value": self.values})}

    def with_tables(self, tables):
        made = Weigh(column(tables["values"], "value"))
        made.sizes = self.sizes
        return made

    def __call__(self, piece):
        keys = piece.ids.astype(np.int64)
        yield "counts", keys, np.ones(len(keys), np.int64), None
        places = np.arange(len(keys)) - np.repeat(piece.documents[:-1], np.diff(piece.documents))
        yield "weights", keys, *split_numbers(self.values[keys] / (1 + places))


@pytest.fixture(autouse=True, scope="module")
def sent_by_value():
    """Executors of Spark need not find the tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def weigh_plainly(documents, values):
    counts, weights = defaultdict(int), defaultdict(Fraction)
    for document in documents:
        for place, token in enumerate(document):
            counts[token] += 1
            high, low = split_numbers(np.array([values[token] / (1 + place)]))
            weights[token] += Fraction(int(high[0]), 2**30) + Fraction(int(low[0]), 2**60)
    return dict(counts), {token: weight for token, weight in weights.items() if weight}


def as_fractions(found):
    return {
        key: Fraction(high, 2**30) + Fraction(low, 2**60)
        for key, high, low in zip(*(one.tolist() for one in (found.keys, found.high, found.low)), strict=True)
    }


def check_engine(make, tmp_path, trials):
    rng = np.random.default_rng(5)
    for trial in range(trials):
        documents, n_tokens = draw_documents(rng)
        values = rng.uniform(-1, 1, n_tokens)
        shards = write_shards(tmp_path / f"shards{trial}", documents, n_tokens, int(rng.integers(1, 4)))
        found = make(shards, tmp_path / f"work{trial}", Selection()).sums(Weigh(values))
        counts, weights = weigh_plainly(documents, values)
        assert (
            dict(zip(found["counts"].keys.tolist(), found["counts"].counts.tolist(), strict=True)) == counts
        )
        assert as_fractions(found["weights"]) == weights


def test_engines_add_up_exactly(make_quick_engine, tmp_path):
    check_engine(make_quick_engine, tmp_path, 10)


def test_all_engines_add_up_exactly(make_engine, tmp_path):
    check_engine(make_engine, tmp_path, 2)


def test_a_later_run_takes_up_the_sums(make_engine, tmp_path):
    shards = write_shards(tmp_path / "shards", [[0, 1, 1]], 2)
    first = make_engine(shards, tmp_path / "work", Selection()).sums(Weigh([0.5, -0.25]))
    again = make_engine(shards, tmp_path / "work", Selection()).sums(Weigh([0.5, -0.25]))
    for kind in first:
        assert as_fractions(first[kind]) == as_fractions(again[kind])


def test_parts_of_a_piece_add_up_to_the_whole(monkeypatch):
    rng = np.random.default_rng(6)
    ids = rng.integers(0, 400, 3000).astype(np.int32)
    piece = Chunk(ids, np.array([0, 1000, 3000]), 0, 400)
    count = Weigh(rng.uniform(-1, 1, 400))
    whole = sum_chunks([piece], count)
    parts = list(sum_in_batches(piece, count, 10))
    monkeypatch.setattr(sums, "LARGEST_DENSE_SUMS", 10)
    kept = sum_chunks([piece], count)
    for kind, total in whole.items():
        merged = merge_sums(part for name, part in parts if name == kind)
        assert as_fractions(merged) == as_fractions(total) == as_fractions(kept[kind])


@pytest.mark.parametrize("number", [0.0, 1.0, -1.0, 1 / 3, -1e-9, 2.0**-60, 0.1])
def test_numbers_are_split_to_the_last_digit(number):
    found = add_rows(np.zeros(1, np.int64), *split_numbers(np.array([number])))
    assert float(found.numbers.sum()) == pytest.approx(number, abs=2.0**-61, rel=1e-16)


def test_sums_that_cancel_are_left_out():
    found = add_rows(np.array([4, 4, 5]), *split_numbers(np.array([0.1, -0.1, 0.5])))
    assert as_fractions(found) == {5: Fraction(1, 2)}
