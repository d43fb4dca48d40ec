"""What ``begin`` returns: looks, lags, display, folders and errors."""

import json

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import (
    CorruptRun,
    UnknownToken,
    UnreadableSource,
    UnsupportedOption,
    UnwritablePlace,
)
from tests.cli.inside import run_inside

TEXT = "the cat saw the dog and the dog saw the cat and the cat ran to the dog and the dog ran"


@pytest.fixture(scope="module")
def begun():
    return at.begin([TEXT], window=5)


def test_first_looks_are_a_row_in_order(begun):
    looks = begun.first_looks("dog")
    row = begun.statistics.look_table[looks.query]
    assert np.array_equal(looks.gains, -np.sort(-row[looks.tokens]))
    assert np.count_nonzero(row) <= len(looks) == len(set(looks.tokens.tolist()))
    assert looks.table().column("token").to_pylist()[0] == looks.most(1)[0]
    assert begun.first_looks(looks.query).tokens.tolist() == looks.tokens.tolist()
    assert abs(row.sum()) < 1e-15  # what one token gains, the others lose


def test_lags_are_a_table(begun):
    assert np.array_equal(begun.lags.table().column("gain").to_numpy(), begun.statistics.lags)
    assert abs(begun.statistics.lags.sum()) < 1e-15


def test_weights_are_multiples(begun):
    weights = begun.weights_at(5, 0.5)
    assert np.allclose(weights.output, 5 * 0.5 * begun.statistics.bigrams)
    assert np.allclose(weights.values, 10 * 0.25 * begun.statistics.contexts.T @ begun.statistics.bigrams.T)
    assert np.allclose(weights.attention, 35 * 0.5**4 * begun.statistics.look_table)
    assert np.allclose(weights.positions, 35 * 0.5**4 * begun.statistics.lags)


@pytest.mark.parametrize("shown", [str, lambda value: value._repr_html_()])
def test_values_show_themselves(begun, shown):
    for value, words in (
        (begun, ["dog", "turns to", "4 of"]),
        (begun.first_looks("dog"), ["cat", "gain"]),
        (begun.lags, ["lag", "gain"]),
    ):
        text = shown(value)
        assert all(word in text for word in words), text
    assert "The theorem does not guarantee" in str(begun.weights_at(3, 0.1))
    assert "W_O" in str(begun.bounds_at(3, 0.1))


@pytest.mark.parametrize("query", ["zebra", 99, "-"])
def test_unknown_queries_are_refused(begun, query):
    with pytest.raises(UnknownToken):
        begun.first_looks(query)


def test_a_token_that_is_only_a_label_looks_at_nothing():
    begun = at.begin([[0, 1, 0, 2]], window=3)
    with pytest.raises(UnknownToken, match="occurs in no sequence"):
        begun.first_looks(2)
    with pytest.raises(UnknownToken, match="no vocabulary"):
        begun.first_looks("a")


def test_wrong_corpora_and_options_are_refused():
    with pytest.raises(UnsupportedOption, match="order"):
        at.begin(at.Samples.from_lists([[0, 1]], [1]))
    with pytest.raises(UnreadableSource, match="smaller window"):
        at.begin([TEXT], window=500)
    for wrong in ({"window": 0}, {"most_frequent": 0}, {"engine": "abacus"}, {"engine": 3}):
        with pytest.raises(UnsupportedOption):
            at.begin([TEXT], **{"window": 5, **wrong})
    with pytest.raises(TypeError, match="colour"):
        at.begin([TEXT], colour="red")


def test_frequent_tokens_keep_their_names_and_others_are_one():
    begun = at.begin([TEXT], window=5, most_frequent=2)
    assert begun.vocabulary.tokens == ("the", "dog", "<rest>")
    plain = [[{"the": 0, "dog": 1}.get(word, 2) for word in TEXT.split()]]
    assert np.array_equal(at.begin(plain, window=5).statistics.lags, begun.statistics.lags)
    ids = at.begin([[7, 7, 5, 5, 7, 3]], window=5, most_frequent=2)
    assert ids.vocabulary.tokens == ("7", "5", "<rest>")
    named = at.begin([["<rest>", "<rest>", "a", "b"]], window=3, most_frequent=1)
    assert named.vocabulary.tokens == ("<rest>", "<<rest>>")


def test_all_tokens_are_kept_where_there_are_few():
    assert at.begin([TEXT], window=5, most_frequent=7).vocabulary.tokens == (
        "the",
        "cat",
        "saw",
        "dog",
        "and",
        "ran",
        "to",
    )


@pytest.mark.parametrize("corpus", [[TEXT], [[0, 1, 2, 0, 1, 1, 0]]])
def test_a_folder_gives_it_back(corpus, tmp_path):
    begun = at.begin(corpus, window=3)
    place = begun.save(tmp_path / "begun")
    again = at.Beginning.load(place)
    assert again.vocabulary == begun.vocabulary
    assert np.array_equal(again.statistics.look_table, begun.statistics.look_table)
    assert np.array_equal(again.statistics.bigrams, begun.statistics.bigrams)
    assert again.to_dict() == begun.to_dict()
    with pytest.raises(UnwritablePlace):
        begun.save(place)
    begun.save(place, overwrite=True)


def test_an_altered_folder_does_not_load(begun, tmp_path):
    place = begun.save(tmp_path / "begun")
    arrays = place / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptRun):
        at.Beginning.load(place)
    with pytest.raises(CorruptRun, match="attomaton begin"):
        at.Beginning.load(tmp_path / "nowhere")


def test_the_command(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    asked = ["begin", "text.txt", "--window", "5", "--queries", "dog the", "--step-size", "0.1"]
    printed = run_inside(*asked, "--layers", "2", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert "turns from" in printed.stdout
    assert "2 layers need sequences" in " ".join(printed.stdout.split())
    record = json.loads(run_inside(*asked, "--json", "--out", "begun", cwd=tmp_path).stdout)
    assert [look["query"] for look in record["looks"]] == ["dog", "the"]
    assert record == {
        **at.Beginning.load(tmp_path / "begun").to_dict(["dog", "the"]),
        "step_size": 0.1,
        "layers": 1,
        "valid_until": 0,
        "missing": ["the vocabulary needs at least 500 tokens, not 7"],
        "out": "begun",
        "skipped": 0,
        "first_skipped": None,
    }
    assert run_inside(*asked, "--out", "begun", cwd=tmp_path).returncode == 2
    assert run_inside("begin", "text.txt", "--queries", "zebra", cwd=tmp_path).returncode == 2
