"""Every format gives the documents that were written to it, with the rows they came from."""

import csv
import gzip
import io
import itertools
import json
import tempfile
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.corpora.readers import Reading, batches as batches_module, find_readers, read_corpus, read_text
from attomaton.corpora.readers.delimited import DelimitedReader, _CsvRows
from attomaton.corpora.readers.files import File
from attomaton.corpora.tokenizers import TOKENIZERS

texts_strategy = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=6)
ids_strategy = st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=1, max_size=6)


def write_zst(path, blob):
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(blob)


def json_lines(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def delimited(texts, delimiter, end="\r\n"):
    file = io.StringIO()
    rows = csv.writer(file, delimiter=delimiter, lineterminator=end)
    rows.writerows([["n", "text", 'a "b"'], *([number, text, "…"] for number, text in enumerate(texts))])
    return file.getvalue().encode()


TEXT_WRITERS = {
    "a.jsonl": lambda path, texts: path.write_bytes(json_lines(texts)),
    "a.jsonl.gz": lambda path, texts: path.write_bytes(gzip.compress(json_lines(texts))),
    "a.jsonl.zst": lambda path, texts: write_zst(path, json_lines(texts)),
    "a.json": lambda path, texts: path.write_text(json.dumps(texts), encoding="utf-8"),
    "b.json": lambda path, texts: path.write_text(
        json.dumps([{"n": 1, "text": text} for text in texts], indent=1, ensure_ascii=False), encoding="utf-8"
    ),
    "c.json.gz": lambda path, texts: path.write_bytes(gzip.compress(json_lines(texts))),
    "a.csv": lambda path, texts: path.write_bytes(b"\xef\xbb\xbf" + delimited(texts, ",")),
    "b.csv": lambda path, texts: path.write_bytes(delimited(texts, ";")),
    "d.csv": lambda path, texts: path.write_bytes(delimited(texts, "|")),
    "c.csv.gz": lambda path, texts: path.write_bytes(gzip.compress(delimited(texts, "\t"))),
    "a.tsv": lambda path, texts: path.write_bytes(delimited(texts, "\t", "\n")),
    "a.parquet": lambda path, texts: pq.write_table(pa.table({"n": range(len(texts)), "text": texts}), path),
    "a.arrow": lambda path, texts: _write_stream(
        path, pa.table({"text": pa.array(texts, pa.large_string())})
    ),
    "a.feather": lambda path, texts: pyarrow.feather.write_feather(
        pa.table({"text": pa.array(texts).dictionary_encode()}), str(path)
    ),
}


def _write_stream(path, table):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=2)


def texts_of(source, **reading):
    readers = find_readers(source, Reading(**reading))
    return [text for reader in readers for batch in reader.batches() for text in batch.texts]


def lists_of(source, **reading):
    readers = find_readers(source, Reading(**reading))
    pairs = [(batch.ids, batch.offsets) for reader in readers for batch in reader.batches()]
    return [ids[a:b].tolist() for ids, offsets in pairs for a, b in itertools.pairwise(offsets)]


@given(texts_strategy)
def test_every_format_gives_the_texts_back(texts):
    with tempfile.TemporaryDirectory() as folder:
        for name, write in TEXT_WRITERS.items():
            path = Path(folder) / name
            write(path, texts)
            assert texts_of(path) == texts, name
    assert texts_of(texts) == texts


@given(ids_strategy, st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64()]))
def test_every_format_gives_the_ids_back(documents, dtype):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        for kind in (pa.list_(dtype), pa.large_list(dtype)):
            pq.write_table(pa.table({"tokens": pa.array(documents, kind), "other": documents}), path)
            assert lists_of(path) == documents
    assert lists_of(documents) == documents
    assert lists_of([np.array(ids, np.uint8) for ids in documents]) == documents
    assert lists_of(np.array(documents[0] + [1])) == [documents[0] + [1]]
    assert lists_of(np.eye(2, dtype=int)) == [[1, 0], [0, 1]]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 7))
def test_a_stream_is_cut_after_each_separator_whatever_the_pieces(ids, piece):
    expected, rest = [], []
    for token in ids:
        rest.append(token)
        if token == 0:
            expected.append(rest)
            rest = []
    expected += [rest] if rest else []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("attomaton.corpora.readers.streams.IDS_AT_ONCE", piece)
        for name, dtype in (("a.bin", "<u2"), ("b.bin", "<i4"), ("a.npy", ">i8")):
            path = Path(folder) / name
            array = np.array(ids, dtype)
            np.save(path, array) if name == "a.npy" else path.write_bytes(array.tobytes())
            reading = {"dtype": "int32" if name == "b.bin" else "uint16"}
            assert lists_of(path, separator=0, **reading) == expected
            assert lists_of(path, **reading) == [ids]


def test_an_array_of_two_axes_has_a_document_in_each_row(tmp_path):
    array = np.arange(12).reshape(4, 3)
    np.save(tmp_path / "a.npy", array)
    assert lists_of(tmp_path / "a.npy") == array.tolist()
    [reader] = find_readers(tmp_path / "a.npy")
    assert [batch.rows.tolist() for batch in reader.batches() if len(batch.rows)] == [[0, 1, 2, 3]]


def test_fasta_records_are_documents(tmp_path):
    (tmp_path / "a.fasta").write_text(";note\n>one first\nMKV\nLA \n\n>two\n>three\nGG\n;note\nAA\n")
    assert texts_of(tmp_path / "a.fasta") == ["MKVLA", "", "GGAA"]
    documents = read_corpus(tmp_path / "a.fasta", tokenizer="character")
    assert documents.offsets.tolist() == [0, 5, 5, 9]
    assert documents.vocabulary.tokens == tuple("MKVLAG")


def test_lines_of_a_text_may_be_documents(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfto be\r\n\nor not")
    assert texts_of(tmp_path / "a.txt") == ["to be\n\nor not"]
    assert texts_of(tmp_path / "a.txt", documents="line") == ["to be", "", "or not"]


def test_rows_say_where_documents_came_from(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n\n   \n{"text": "b"}\n')
    [batch] = next(iter(find_readers(tmp_path / "a.jsonl"))).batches()
    assert (batch.texts, batch.rows.tolist()) == (["a", "b"], [1, 4])


def test_folders_globs_and_urls_give_the_same_documents_in_the_order_of_names(tmp_path):
    for name, text in (("b/1.jsonl", "3"), ("a/2.jsonl", "2"), ("a/10.jsonl", "1"), ("_x/3.jsonl", "no")):
        for place in (tmp_path / "corpus" / name,):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(json_lines([text]))
        with fsspec.open(f"memory://corpus/{name}", "wb") as file:
            file.write(json_lines([text]))
    corpus = tmp_path / "corpus"
    for source in (corpus, f"{corpus}/[ab]/*.jsonl", f"{corpus}/**/[0-9]*.jsonl", f"file://{corpus}"):
        expected = ["1", "2", "3"] if "**" not in str(source) else ["no", "1", "2", "3"]
        assert texts_of(source) == expected, source
    assert texts_of("memory://corpus") == texts_of("memory://corpus/[ab]/*.jsonl") == ["1", "2", "3"]
    assert texts_of("memory://corpus/a/2.jsonl") == ["2"]
    assert [reader.name for reader in find_readers(corpus)] == ["a/10.jsonl", "a/2.jsonl", "b/1.jsonl"]
    pq.write_table(pa.table({"text": ["p"]}), tmp_path / "p.parquet")
    assert texts_of(f"file://{tmp_path}/p.parquet") == ["p"]


def test_a_dataset_of_the_library_datasets(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    texts = [f"text {number}" for number in range(2500)]
    dataset = datasets.Dataset.from_dict({"text": texts, "label": list(range(2500))})
    assert texts_of(dataset) == texts
    assert texts_of(dataset.to_iterable_dataset()) == texts
    assert lists_of(datasets.Dataset.from_dict({"input_ids": [[1, 2], []]})) == [[1, 2], []]
    assert texts_of(dataset.select([5, 3])) == ["text 5", "text 3"]
    with pytest.raises(at.AttomatonError, match=r"has the splits train; give one of these"):
        texts_of(datasets.DatasetDict(train=dataset))


def test_batches_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(batches_module, "TEXT_BATCH_BYTES", 1000)
    monkeypatch.setattr("attomaton.corpora.readers.columns.TEXT_BATCH_BYTES", 1000)
    texts = ["x" * 100] * 500
    for name, write in TEXT_WRITERS.items():
        write(tmp_path / name, texts)
        [reader] = find_readers(tmp_path / name)
        sizes = [sum(map(len, batch.texts)) for batch in reader.batches()]
        if name != "a.feather":  # its dictionary makes the column small
            assert max(sizes) <= 1100, name
        assert sum(sizes) == 50_000


def test_a_text_file_reads_as_before(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffto be\r\nor\rnot".encode())
    before, now = read_text(tmp_path / "a.txt"), read_corpus(tmp_path / "a.txt")
    assert before.vocabulary == now.vocabulary
    assert before.ids.tolist() == now.ids.tolist()
    assert before.offsets.tolist() == now.offsets.tolist()


@pytest.mark.parametrize("skip_bad", [True, False])
def test_a_declared_delimiter_may_be_followed_by_blank_lines(skip_bad, tmp_path):
    (tmp_path / "a.csv").write_text("\nsep=;\n\r\n\ntext;n\na, b;1\n")
    found = read_corpus(tmp_path / "a.csv", reading=Reading(skip_bad=skip_bad))
    assert found.vocabulary.tokens == ("a,", "b")


def test_a_compressed_list_of_ids_may_hold_a_value_in_each_byte(tmp_path):
    """Two million and more ids, which gzip stores in less than two bytes each."""
    ids = np.random.default_rng(0).integers(0, 100, (2_200, 1_000))
    path = tmp_path / "ids.json.gz"
    path.write_bytes(gzip.compress(json.dumps(ids.tolist()).encode(), 1))
    assert ids.size < path.stat().st_size < 2 * ids.size
    assert read_corpus(path).ids.tolist() == ids.ravel().tolist()


def test_a_column_is_found_or_asked_for(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"story": ["x"], "n": [1]}), path)
    assert texts_of(path) == ["x"]
    pq.write_table(pa.table({"text": ["x"], "url": ["y"]}), path)
    assert texts_of(path) == ["x"]
    assert texts_of(path, column="url") == ["y"]


@given(texts_strategy, st.sampled_from(["word", "character"]), st.integers(1, 5))
def test_words_are_numbered_as_in_one_text_whatever_the_batches(texts, tokenizer, size):
    split = TOKENIZERS[tokenizer].split
    expected = dict.fromkeys(token for text in texts for token in split(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_module, "TEXT_BATCH_BYTES", size)
        documents = read_corpus(texts, tokenizer=tokenizer)
    assert documents.vocabulary.tokens == tuple(expected)
    assert np.diff(documents.offsets).tolist() == [len(split(text)) for text in texts]
    assert documents.vocabulary.decode(documents.ids) == [token for text in texts for token in split(text)]


LINES = [{"text": "a b\nb a"}, {"text": "b a"}]
STRUCTURED = {
    "a.json": json.dumps(LINES).encode(),
    "a.csv": b"text\na b\nb a\n",
    "a.fasta": b">one\nABBA\n",
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_lines_are_asked_of_plain_text_only(name, tmp_path):
    (tmp_path / name).write_bytes(STRUCTURED[name])
    advice = (
        rf"documents is 'line', but .*{name} is not plain text: .*; leave documents out, or read the file as"
    )
    for call in (at.read_corpus, at.learn, at.begin):
        with pytest.raises(UnsupportedOption, match=advice):
            call(tmp_path / name, reading=Reading(documents="line"))
    lines = read_corpus(tmp_path / name, reading=Reading(documents="line", format="txt"))
    assert len(lines.offsets) - 1 == len(STRUCTURED[name].splitlines())


@pytest.mark.parametrize("source", [["a b\nb a"], LINES, pa.table({"text": ["a b\nb a"]})])
def test_nor_of_documents_in_memory(source):
    with pytest.raises(UnsupportedOption, match=r"documents is 'line', but .* is not plain text"):
        read_corpus(source, reading=at.Reading(documents="line"))


def test_each_line_of_json_lines_is_a_document_already(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines(["a b", "b a"]))
    (tmp_path / "b.txt").write_text("a\nb\n")
    assert len(read_corpus(tmp_path / "a.jsonl", reading=at.Reading(documents="line")).offsets) == 3
    assert len(read_corpus(tmp_path, reading=at.Reading(documents="line")).offsets) == 5


@given(
    st.lists(
        st.lists(st.text(alphabet='a7,;"\r\n é\t', max_size=4), min_size=2, max_size=2),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, None]),
)
def test_plain_tables_are_read_as_all_others(rows, end, quoting):
    text = io.StringIO(newline="")
    if quoting is None:  # as they come, most of them broken
        text.write("".join(f"{','.join(row)}{end}" for row in [["x", "y"], *rows]))
    else:
        csv.writer(text, quoting=quoting, lineterminator=end).writerows([["x", "y"], *rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        path.write_bytes(text.getvalue().encode())
        answers = []
        for plainly in (_CsvRows.read_with_arrow, lambda *_: None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_CsvRows, "read_with_arrow", plainly)
                try:
                    answers.append(DelimitedReader(File(str(path), str(path)), Reading()).table().to_pylist())
                except UnreadableSource as error:
                    answers.append(str(error))
        assert answers[0] == answers[1]
