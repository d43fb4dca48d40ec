"""How a corpus is read: what no reader can heed is refused, and folders that are no corpus are named."""

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.corpora import Reading

ODD = [
    ({"max_bytes": "5"}, "max_bytes is '5'; give a whole number, 1 or more"),
    ({"max_bytes": 0}, "max_bytes is 0; give a whole number, 1 or more"),
    ({"separator": "x"}, "separator is 'x'; give a whole number, 0 or more"),
    ({"n_tokens": -1}, "n_tokens is -1; give a whole number from 0 to"),
    ({"skip_bad": "no"}, "skip_bad is 'no'; give True or False"),
]


@pytest.mark.parametrize(("options", "message"), ODD, ids=lambda value: str(value)[:20])
def test_odd_values_are_refused(options, message):
    with pytest.raises(UnsupportedOption, match=message):
        Reading(**options)


READINGS = [{"documents": "line"}, {"column": "text"}, {"format": "csv"}]


@pytest.mark.parametrize("options", READINGS, ids=str)
def test_token_ids_take_no_options_of_files(options, tmp_path):
    at.tokenize_corpus(["to be or not to be to be"], tmp_path / "tokens")
    samples = at.Samples.from_lists([[0, 1, 0]], [1])
    reading, (name,) = Reading(**options), options
    match = f"{name} is .* is already token ids.*leave {name} out"
    for corpus in (tmp_path / "tokens", samples, np.array([0, 1, 0, 1]), [0, 1, 0, 1]):
        with pytest.raises(UnsupportedOption, match=match):
            at.learn(corpus, window=2, reading=reading)
    for call in (at.learn(samples).score, at.learn(samples).read):
        with pytest.raises(UnsupportedOption, match=match):
            call(samples, reading=reading)
    with pytest.raises(UnsupportedOption, match=match):
        at.read_corpus(tmp_path / "tokens", reading=reading)
    assert at.learn(tmp_path / "tokens", window=5, reading=Reading(column="tokens", format="parquet"))


@pytest.mark.parametrize("ids", [[1, 2, 1, 0, 3, 1, 3, 0], [0, 0, 1, 2, 1], [1, 2, 1]], ids=str)
def test_a_separator_splits_ids_in_memory_as_in_a_file(ids, tmp_path):
    reading = Reading(separator=0)
    np.save(tmp_path / "ids.npy", np.array(ids))
    expected = at.read_corpus(tmp_path / "ids.npy", reading=reading)
    for source in (np.array(ids), ids, pa.array(ids)):
        read = at.read_corpus(source, reading=reading)
        assert (read.ids.tolist(), read.offsets.tolist()) == (ids, expected.offsets.tolist())
    learned, from_file = (at.learn(source, reading=reading) for source in (ids, tmp_path / "ids.npy"))
    assert learned.table().equals(from_file.table())


def test_folders_of_other_kinds_are_no_corpus(tmp_path):
    at.fit_choices(["a", "b"], [["a", "b"], ["b", "a"]]).save(tmp_path / "fit")
    at.begin(["to be or not to be"], window=2).save(tmp_path / "first")
    for folder, kind in (("fit", "choices"), ("first", "beginning")):
        for read in (at.learn, at.read_corpus):
            with pytest.raises(UnreadableSource, match=f"{folder} is a folder of the kind '{kind}' that"):
                read(tmp_path / folder)
