"""Tables in the shapes that people have: each gives the board of the same choices, plainly encoded."""

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import attomaton as at

WON, LOST = ["b", "a", "b", "a", "c"], ["a", "b", "c", "d", "b"]


def same(fit, other):
    """Both fits have the same components, order, scores and errors."""
    assert set(fit.items) == set(other.items)
    assert {frozenset(part) for part in fit.components} == {frozenset(part) for part in other.components}
    expected = {row["item"]: row for row in other.to_dict()["standings"]}
    for row in fit.to_dict()["standings"]:
        for name in ("rank", "rating", "standard_error", "games"):
            assert row[name] == pytest.approx(expected[row["item"]][name], abs=1e-8), (row, name)


PLAIN = at.fit_choices(WON, losers=LOST)


def test_libraries_of_frames():
    polars, narwhals = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    data = {"winner": WON, "loser": LOST}
    frames = [
        narwhals.from_native(make(data))
        for make in (pd.DataFrame, polars.DataFrame, lambda columns: pa.table(columns))
    ]
    for frame in frames:
        same(at.fit_choices(frame), PLAIN)
        same(at.fit_choices(frame["winner"], losers=frame["loser"]), PLAIN)
    with pytest.raises(at.AttomatonError, match=r"give frame.collect\(\)"):
        at.fit_choices(frames[1].lazy())


def test_datasets():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"winner": WON, "loser": LOST})
    one = datasets.DatasetDict({"train": data})
    for dataset in (data, data.shuffle(seed=1), data.to_iterable_dataset(), data.with_format("numpy"), one):
        same(at.fit_choices(dataset), PLAIN)
    same(at.fit_choices(data["winner"], losers=data["loser"]), PLAIN)
    with pytest.raises(at.AttomatonError, match=r"the splits 'train', 'test'; give .* dataset\['train'\]"):
        at.fit_choices(datasets.DatasetDict({"train": data, "test": data}))


TEXTS = {
    "string_view": lambda column: column.cast(pa.string_view()),
    "large_string": lambda column: column.cast(pa.large_string()),
    "dictionary": lambda column: column.dictionary_encode(),
    "dictionary of views": lambda column: column.cast(pa.dictionary(pa.int32(), pa.string_view())),
    "run-end encoded": pc.run_end_encode,
    "chunks": lambda column: pa.chunked_array(
        [column.cast(pa.string_view())[:2], column[2:].cast("string_view")]
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_types_of_arrow(name):
    encode = TEXTS[name]
    table = pa.table({"winner": encode(pa.array(WON)), "loser": encode(pa.array(LOST))})
    same(at.fit_choices(table), PLAIN)
    columns = {
        "one": encode(pa.array(WON)),
        "two": encode(pa.array(LOST)),
        "won": encode(pa.array(["one"] * 5)),
        "judge": encode(pa.array(list("xyzxy"))),
        "count": pa.array([1] * 5).cast(pa.decimal128(38, 0)),
    }
    named = {"first": "one", "second": "two", "outcome": "won", "cluster": "judge"}
    clustered = at.fit_choices({"winner": WON, "loser": LOST, "judge": list("xyzxy")}, cluster="judge")
    same(at.fit_choices(pa.table(columns), **named), clustered)


@pytest.mark.parametrize(
    "kind", [pa.list_view, pa.large_list_view, lambda of: pa.list_(of, 2), pa.large_list]
)
def test_lists_of_arrow(kind):
    sets = pa.array([list(pair) for pair in zip(WON, LOST, strict=True)], kind(pa.string_view()))
    table = pa.table({"winner": WON, "choice_set": sets})
    same(at.fit_choices(table), PLAIN)


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_missing_cells_of_pandas(backend):
    ranks = pd.DataFrame({"a": [1, 2, None], "b": [2, 1, 1], "c": [3, None, 2]}).convert_dtypes(
        dtype_backend=backend
    )
    plain = at.fit_choices(rankings=[["a", "b", "c"], ["b", "a"], ["b", "c"]])
    same(at.fit_choices(ranks, ranks=["a", "b", "c"]), plain)
    places = pd.DataFrame({"P1": ["a", "b", "b"], "P2": ["b", "a", "c"], "P3": ["c", None, " "]})
    places = places.convert_dtypes(dtype_backend=backend)
    same(at.fit_choices(places, ranking=["P1", "P2", "P3"]), plain)
    sets = at.fit_choices(["a", "b", "b"], [["a", "b", "c"], ["b", "a"], ["b", "c"]])
    same(at.fit_choices(places, winner="P1", choice_set=["P1", "P2", "P3"]), sets)
    battles = {"first": ["a", "b", "a"], "second": ["b", "a", "b"], "outcome": ["a", "tie", "b"]}
    moved = pd.DataFrame({**battles, "white": ["a", None, "a"]}).convert_dtypes(dtype_backend=backend)
    empty = at.fit_choices({**battles, "white": ["a", "", "a"]}, moved_first="white")
    same(at.fit_choices(moved, moved_first="white"), empty)
