"""One reader everywhere: what a stranger gives as a corpus is read, or refused with the cure."""

import csv
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

import attomaton as at
from attomaton.corpora.readers import Reading
from attomaton.corpora.readers.corpus import read_samples
from tests.cli.inside import run_inside

TEXTS = ["the cat sat on the mat", "the dog sat on the cat and the mat", 'a "quoted, word" and the a']
RECORDS = [{"id": number, "message": text} for number, text in enumerate(TEXTS)]


def same(documents, expected):
    return (
        np.array_equal(documents.ids, expected.ids)
        and np.array_equal(documents.offsets, expected.offsets)
        and documents.vocabulary == expected.vocabulary
    )


@pytest.fixture
def folder(tmp_path):
    """The same documents in every format, under the field or column ``message``."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    (tmp_path / "a.json").write_text(json.dumps(RECORDS, indent=2))
    for name, delimiter in (("a.csv", ","), ("b.csv", ";"), ("a.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "message"], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(RECORDS)
    for name in ("a.txt", "a.md", "a.log"):
        (tmp_path / name).write_text("\n".join(TEXTS))
    return tmp_path


def test_a_field_of_any_name_is_read_from_every_format(folder):
    expected = at.read_corpus(TEXTS)
    for name in ("a.jsonl", "a.json", "a.csv", "b.csv", "a.tsv"):
        assert same(at.read_corpus(folder / name, reading=at.Reading(column="message")), expected), name
        learned = at.learn(folder / name, reading=at.Reading(column="message"), window=4)
        assert learned.coverage == at.learn(TEXTS, window=4).coverage, name
    for name in ("a.txt", "a.md", "a.log"):
        assert same(at.read_corpus(folder / name, reading=at.Reading(documents="line")), expected), name


def test_frames_series_and_records_are_read(folder):
    expected = at.read_corpus(TEXTS)
    frame = pd.DataFrame(RECORDS)
    for source in (frame, frame.message, frame.message.astype("category"), RECORDS, np.array(TEXTS)):
        column = None if source is frame.message or isinstance(source, np.ndarray) else "message"
        column = None if isinstance(source, pd.Series) else column
        assert same(at.read_corpus(source, reading=at.Reading(column=column)), expected), type(source)
    assert same(at.read_corpus(frame), expected)  # the only column of text
    import pyarrow as pa

    assert same(at.read_corpus(pa.Table.from_pandas(frame)), expected)


def test_polars_is_read():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(RECORDS)
    for source in (frame, frame["message"], frame["message"].cast(polars.Categorical)):
        assert same(at.read_corpus(source), at.read_corpus(TEXTS))
    with pytest.raises(at.AttomatonError, match=r"call \.collect\(\) on it"):
        at.read_corpus(frame.lazy())


def test_a_frame_names_the_row_that_is_no_text():
    with pytest.raises(at.AttomatonError, match="row 1, is null, not text; drop the row"):
        at.learn(pd.Series(["a b a", None, "c"]))
    with pytest.raises(at.AttomatonError, match="document 1 is float, not text"):
        at.learn(pd.DataFrame({"text": ["a b a", 3.5]}), reading=at.Reading(column="text"))
    with pytest.raises(at.AttomatonError, match="several columns called 'text'"):
        at.learn(pd.DataFrame([["a b", "c d"]], columns=["text", "text"]))
    with pytest.raises(at.AttomatonError, match="no column called 'message'; choose one of text"):
        at.learn(pd.DataFrame({"text": ["a b"]}), reading=at.Reading(column="message"))


def test_documents_are_accepted(folder):
    read = at.read_corpus(folder / "a.jsonl", reading=at.Reading(column="message"))
    expected = at.learn(TEXTS, window=4)
    assert at.learn(read, window=4).coverage == expected.coverage
    assert at.learn(read, window=4, engine="duckdb").coverage == expected.coverage
    assert at.learn(read, window=4, engine="duckdb").vocabulary == expected.vocabulary
    assert at.read_corpus(read) is read
    assert list(read_samples(read, window=4)) == list(read.windows(4))


def test_train_reads_what_learn_reads(folder):
    options = ("--column", "message", "--window", "4")
    for name in ("a.jsonl", "a.csv", "a.json"):
        learned = run_inside("learn", name, *options, "--json", cwd=folder)
        trained = run_inside(
            "train", name, *options, "--steps=2", "--out", f"{name}-run", "--json", cwd=folder
        )
        told, made = json.loads(learned.stdout), json.loads(trained.stdout)
        assert made["samples"] == round(told["n_read"] * told["realisable"])
        assert made["tokens"] == at.learn(TEXTS).n_tokens
    refused = run_inside("train", "a.jsonl", "--out", "no", cwd=folder)
    assert refused.returncode == 2
    assert "has no field 'text', only id, message; choose a field with column" in refused.stderr


def test_a_list_of_lists_of_words_is_a_corpus():
    split = [text.split() for text in TEXTS]
    assert same(at.read_corpus(split), at.read_corpus(TEXTS))
    automaton = at.learn([["New York", "is", "New York", "is"]])
    assert automaton.vocabulary.tokens == ("New York", "is")
    assert automaton.predict_proba(["New York", "is"]).tolist() == [1.0, 0.0]


def test_a_flat_list_of_words_is_refused_with_the_cure():
    with pytest.raises(at.AttomatonError, match=r"give a list of this list \(\[words\]\)"):
        at.learn(["the", "cat", "sat", "on", "the", "mat"])
    with pytest.raises(at.AttomatonError, match=r"a list of pathlib\.Path"):
        at.learn(["a.txt", "b.txt"])


def test_a_list_of_paths_is_files(folder):
    read = at.read_corpus([folder / "a.csv", folder / "a.jsonl"], reading=at.Reading(column="message"))
    assert same(read, at.read_corpus(TEXTS * 2))


def test_a_text_that_is_no_path_is_refused_with_the_cure():
    for text in ("the cat sat on the mat", "what? is [this] " * 40):
        with pytest.raises(at.AttomatonError, match=r"if this is the text itself, give a list of documents"):
            at.learn(text)


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        (b"a b", "decode the bytes"),
        (np.array("a b"), "type ndarray"),
        ({"a": "b"}, "list of records"),
        (iter(TEXTS), "list"),
        (io.StringIO("a"), "path"),
    ],
)
def test_what_nearly_is_a_corpus_is_refused_with_the_cure(source, cure):
    with pytest.raises(at.AttomatonError, match=cure):
        at.learn(source)


def from_stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_standard_input_is_read_in_every_format(folder, monkeypatch):
    expected = at.read_corpus(TEXTS)
    for name in ("a.jsonl", "a.json", "a.csv", "a.tsv"):
        from_stdin(monkeypatch, (folder / name).read_bytes())
        reading = Reading(format=name.partition(".")[2], column="message")
        assert same(at.read_corpus("-", reading=reading), expected), name
    from_stdin(monkeypatch, (folder / "a.csv").read_bytes())
    told = run_inside("learn", "-", "--format=csv", "--column=message", "--window=4", "--json", cwd=folder)
    assert json.loads(told.stdout)["n_read"] == at.learn(TEXTS, window=4).coverage.n_read


def test_json_on_standard_input_is_not_taken_for_text(folder, monkeypatch):
    from_stdin(monkeypatch, (folder / "a.jsonl").read_bytes())
    with pytest.raises(at.AttomatonError, match="standard input begins with JSON; set format"):
        at.learn("-")
    from_stdin(monkeypatch, (folder / "a.csv").read_bytes())
    with pytest.raises(at.AttomatonError, match="standard input has no columns"):
        at.learn("-", reading=at.Reading(column="message"))


def test_a_column_of_what_has_none_is_refused(folder):
    for source in (folder / "a.txt", TEXTS):
        with pytest.raises(at.AttomatonError, match="has no columns; leave column out"):
            at.learn(source, reading=at.Reading(column="message"))


def test_a_log_of_any_name_is_read_as_it_is_said_to_be(folder):
    (folder / "a.log").rename(folder / "access.log.1")
    with pytest.raises(at.AttomatonError, match="set its format"):
        at.learn(folder / "access.log.1")
    read = at.read_corpus(folder / "access.log.1", reading=Reading(format="txt", documents="line"))
    assert same(read, at.read_corpus(TEXTS))
    with pytest.raises(at.AttomatonError, match="the format 'docx' is unknown"):
        at.read_corpus(folder / "access.log.1", reading=Reading(format="docx"))
