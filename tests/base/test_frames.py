"""Values that are tables: pandas and Polars hold what Arrow does, and tokens are text where they can be."""

import copy
import pickle
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.shrinkage import choose_strength
from attomaton.base.frames import TOKEN_COLUMNS, name_tokens
from attomaton.claims.limits import solve_trials
from attomaton.claims.measures import measure_trace
from attomaton.graphs.robustness import measure_robustness
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.survey import survey_samples

TEXTS = ["the cat saw the dog", "the dog saw the cat and the cat ran", "to be or to be", "be or to or be"] * 2
SMALL = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])


@cache
def auto():
    return at.learn(TEXTS, window=8)


@cache
def trace():
    return at.train(SMALL, at.AttentionModel(), at.GradientDescent(0.5), steps=20, trials=2)


VALUES = {
    "samples": lambda: auto().samples,
    "edges": lambda: auto().components.edges,
    "components": lambda: auto().components,
    "choices": lambda: auto().soft.choices,
    "hard": lambda: auto().hard,
    "soft": lambda: auto().soft,
    "automaton": auto,
    "coverage": lambda: auto().coverage,
    "robustness": lambda: measure_robustness(auto().components),
    "prediction": lambda: auto().predict_samples(auto().samples),
    "explanation": lambda: auto().explain("the zebra saw the"),
    "score": lambda: auto().score(auto().samples),
    "tuning": lambda: choose_strength(auto().samples, auto().samples, strengths=(0.1, 1.0)),
    "finite": lambda: auto().at(10),
    "difference": lambda: at.diff(auto(), at.learn(TEXTS[:1], window=8)),
    "trace": trace,
    "curves": lambda: measure_trace(trace(), solve_trials(trace())),
    "verdicts": lambda: at.verify(solve_trials(trace()), trace()),
    "fit": lambda: at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"]),
    "winners": lambda: at.winners(auto(), "to be or"),
    "expansion": lambda: at.expand(auto(), auto().samples),
    "trajectory": lambda: at.fast_forward(auto().samples, to=1e3),
    "beginning": lambda: at.begin(TEXTS, window=4),
    "decoder": lambda: at.learn_decoder(TEXTS),
    "survey": lambda: survey_samples(auto().samples, Rates(decoder=1.0, attention=0.1)),
}
TEXTUAL = {"automaton", "finite", "difference", "winners", "beginning", "decoder"}
"""Values that know what their tokens are called."""


CITED = {  # who cited a source always won, and nobody lost to z
    "model_a": ["a", "b", "c", "a", "b", "c", "a"],
    "model_b": ["b", "c", "a", "b", "a", "b", "z"],
    "winner": ["model_a", "model_b", "model_a", "model_b", "model_a", "model_b", "model_a"],
    "cited": [1, 0, 1, 0, 0, 0, 0],
}
PICKLED = VALUES | {
    "half wins": lambda: at.fit_choices(["a", "b", "a"], losers=["b", "a", "b"], tied=[0, 0, 1], ties="half"),
    "ties": lambda: at.fit_choices(["a", "b", "a"], losers=["b", "a", "b"], tied=[0, 0, 1]),
    "clusters": lambda: at.fit_choices(["a", "b", "a"] * 9, losers=["b", "a", "c"] * 9, cluster=[*"xyz"] * 9),
    "infinite feature": lambda: at.fit_choices(CITED, features=["cited"]),
    "board": lambda: at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"]).board(),
    "separation": lambda: at.check_separation([0, 1, 2, 3], [0, 0, 1, 1]),
}


@cache
def make(name):
    return PICKLED[name]()


@pytest.mark.parametrize("name", VALUES)
def test_every_table_is_a_frame_of_pandas_and_polars(name):
    value = make(name)
    table = value.table()
    assert table.num_rows
    frame = value.to_pandas()
    assert frame.columns.tolist() == table.column_names
    assert len(frame) == table.num_rows
    polars = pytest.importorskip("polars")
    other = value.to_polars()
    assert isinstance(other, polars.DataFrame)
    assert (other.columns, other.height) == (table.column_names, table.num_rows)


@pytest.mark.parametrize("name", VALUES)
def test_every_result_prints_and_shows_itself_in_a_notebook(name):
    value = make(name)
    assert str(value)
    html = value._repr_html_()
    assert html.startswith("<div")
    assert len(html) < 100_000


@pytest.mark.parametrize("name", PICKLED)
@pytest.mark.parametrize("copied", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy])  # noqa: S301
def test_every_result_survives_pickle_and_deepcopy_after_it_was_printed(copied, name):
    value = make(name)
    printed, shown = str(value), value._repr_html_()
    again = copied(value)
    assert (str(again), again._repr_html_()) == (printed, shown)
    assert repr(again.table().to_pylist()) == repr(value.table().to_pylist())


@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"coverage", "score", "tuning", "trace", "curves"}))
def test_tokens_are_text_where_a_vocabulary_is_given(name):
    value, words = make(name), auto().vocabulary
    given = None if name in TEXTUAL else words
    named = value.table(given)
    for column in named.column_names:
        if column in TOKEN_COLUMNS:
            assert "string" in str(named.schema.field(column).type), column
            plain = value._table().column(column).to_pylist()
            texts = named.column(column).to_pylist()
            tokens = value.tokens if name == "difference" else words.tokens
            assert texts == [
                [tokens[one] for one in cell] if isinstance(cell, list) else tokens[cell] for cell in plain
            ]


@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"fit"}))  # whose table has no frame
def test_every_table_prints_as_one(name):
    printed = str(make(name))
    assert "│" in printed
    assert not printed.startswith(("[Verdict(", f"{type(make(name)).__name__}(n_"))
    assert max(map(len, printed.splitlines())) <= 400


def test_another_vocabulary_is_refused():
    with pytest.raises(at.AttomatonError, match="the vocabulary of the same corpus"):
        auto().components.edges.to_pandas(at.Vocabulary(("the",)))


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5), st.integers(0, 5))
def test_lists_are_named_wherever_a_table_was_cut(lists, cut):
    table = pa.table({"tokens": pa.array(lists, pa.large_list(pa.int32()))}).slice(cut)
    named = name_tokens(table, "abcd").column("tokens").to_pylist()
    assert named == [["abcd"[one] for one in cell] for cell in lists[cut:]]


def test_a_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(at.AttomatonError, match=r"to_polars needs Polars: pip install 'attomaton\[frames\]'"):
        auto().to_polars()


def test_learn_names_tokens_in_its_record(tmp_path):
    import json

    from tests.cli.inside import run_inside

    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    record = json.loads(run_inside("learn", "t.txt", "--json", cwd=tmp_path).stdout)
    largest = record["largest"][0]
    assert len(largest["texts"]) == len(largest["tokens"])
    assert largest["query_text"] in "\n".join(TEXTS).replace("\n", " <eos> ").split()
