# ruff: noqa: E501, S106  a token is no password; lists of examples have long rows
"""What is fuzzed: small whole files of every kind that is read, and the reader that they go through."""

import gzip
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from attomaton.choices import fit_choices
from attomaton.corpora.readers import Reading, TextBatch, read_corpus
from attomaton.corpora.readers.corpus import checked_batches
from attomaton.corpora.readers.files import File
from attomaton.corpora.readers.sources import reader_of
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.ranks import SCHEMES, Scheme
from tests.faults import model_targets, table_targets
from tests.faults.mutants import mutate_bytes, mutate_json

LINES = ["to be or not to be", "é 漢字 x", "", "that is the question: whether 'tis nobler", "a a a b"] * 3
IDS = [[1, 2, 3, 1, 2], [0, 5, 0], [], [7, 7, 7, 7]] * 5
TEXT = "\n".join(LINES) * 4
ASKED = [TEXT[:300], "", "\0 \u202e é 漢字 <unk> <s>", "a" * 2000, ("a" * 20 + "b") * 40]


@dataclass(frozen=True)
class Target:
    """A kind of file: what it is called, what makes a mutant of it from a random generator, and what reads it."""

    name: str
    file: str
    mutate: Callable
    consume: Callable


def read_documents(path, number):
    """The reader alone, and every eighth time all that is done with a path."""
    if number % 8:
        reading = Reading(skip_bad=bool(number % 2))
        for batch in checked_batches(reader_of(File(str(path), path.name), reading), reading):
            if isinstance(batch, TextBatch):
                for text in batch.texts:
                    assert isinstance(text, str) or all(isinstance(token, str) and token for token in text)
                assert len(batch.texts) == len(batch.rows)
            else:
                check_ragged(batch.offsets, batch.ids)
        return
    documents = read_corpus(path, reading=Reading(skip_bad=bool(number % 2)))
    check_ragged(documents.offsets, documents.ids)


def check_ragged(offsets, ids):
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    assert (np.diff(offsets) >= 0).all()
    assert len(ids) == 0 or (ids.min() >= 0 and ids.max() < (1 << 21))


def read_tokenizer(path, number):
    with patch.dict(SCHEMES, tiny=TINY):
        vocabulary = Vocabulary.fixed(str(path))
    assert len(set(vocabulary.tokens)) == len(vocabulary)
    offsets, ids = vocabulary.encoder.encode(ASKED)
    assert offsets[-1] == len(ids)
    assert len(ids) == 0 or (ids.min() >= 0 and ids.max() < len(vocabulary))
    vocabulary.join(ids[:300].tolist())
    json.dumps(vocabulary.to_record()).encode()


def of_bytes(name, file, *blobs):
    return Target(name, file, lambda rng: mutate_bytes(rng.choice(blobs), rng), read_documents)


def of_json(name, text):
    blob = text.encode()
    mutate = lambda rng: mutate_json(text, rng) if rng.random() < 0.7 else mutate_bytes(blob, rng)  # noqa: E731
    return Target(name, "tokenizer.json", mutate, read_tokenizer)


RECORDS = [
    json.dumps({"text": line, "n": number, "more": {"a": [1, None]}}) for number, line in enumerate(LINES)
]


def json_lines(rng):
    lines = [one.encode() for one in RECORDS]
    if rng.random() < 0.5:
        place = rng.randrange(len(lines))
        lines[place] = mutate_json(RECORDS[place], rng)
        return b"\n".join(lines)
    return mutate_bytes(b"\n".join(lines), rng)


def json_list(rng):
    if rng.random() < 0.5:
        return mutate_json(f"[{', '.join(RECORDS)}]", rng)
    return mutate_bytes(f"[\n{', '.join(RECORDS)}\n]".encode(), rng)


def parquet(column, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(column), sink, **options)
    return sink.getvalue().to_pybytes()


def interchange(table, *, file, packed=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=packed)
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=8)
    return sink.getvalue().to_pybytes()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


HEADERS = [
    f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    for kind in (
        "'<i4'",
        "'<u8'",
        "'<m8[s]'",
        "'|O'",
        "[('a','<i4')]",
        "('<i4',(5,))",
        "'>i4'",
        "'|b1'",
        "'<f4'",
        "'<U9'",
    )
    for shape in (
        "(50,)",
        f"({10**30},)",
        "(5,-10)",
        "(0,0)",
        "(50,0)",
        "()",
        "(True,)",
        "(50.0,)",
        "(-1,)",
        f"({2**63},{2**63})",
    )
] + ["[" * 3000, "(" * 90, "{'descr': '<i4'}", "__import__('os').getcwd()"]


def npy_header(rng):
    if rng.random() < 0.5:
        return mutate_bytes(rng.choice(ARRAYS), rng)
    told = rng.choice(HEADERS).encode() + b" \n"
    version = rng.choice((b"\1\0", b"\2\0", b"\3\0", b"\7\7"))
    length = len(told).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + told + np.arange(50, dtype=np.int32).tobytes()


def zst(blob):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(blob)
    return sink.getvalue().to_pybytes()


def trained(kind):
    if kind == "bpe":
        made = Tokenizer(models.BPE(unk_token="<unk>"))
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
        made.pre_tokenizer = pre_tokenizers.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=["<unk>", "<s>"], show_progress=False)
    elif kind == "unigram":
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=60, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
        )
    elif kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]"], show_progress=False)
    else:
        made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"\w+|\s"), "isolated")
        trainer = trainers.WordLevelTrainer(vocab_size=90, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator([TEXT], trainer)
    return made.to_str()


TINY = Scheme(r"\p{L}+|\s+(?!\S)|\s|[^\s\p{L}]+", 260, {"<|endoftext|>": 260})
RANKS = [bytes([byte]) for byte in range(256)] + [b"to", b"be", b" a", b"\xc3\xa9"]


def tiktoken_file(rng):
    import base64

    lines = [base64.b64encode(token) + b" " + str(rank).encode() for rank, token in enumerate(RANKS)]
    if rng.random() < 0.5:
        return mutate_bytes(b"\n".join(lines) + b"\n", rng)
    place = rng.randrange(len(lines))
    token, rank = lines[place].split()
    rank = rng.choice(
        [
            rank + b"9",
            b"-1",
            b"4294967295",
            b"4294967296",
            b"99999999",
            b"0",
            b"1e5",
            b"",
            b"0x10",
            "٣".encode(),
            b"1_0",
            b"260",
            b"261",
            b"2097151",
            b"2097152",
        ]
    )
    token = rng.choice(
        [token, token, b"", b"====", b"QQ==", base64.b64encode(b"x" * rng.choice((10, 70_000)))]
    )
    lines[place] = token + b" " + rank
    return b"\n".join(lines)


ARRAYS = [npy(np.arange(50, dtype=np.int32)), npy(np.arange(60, dtype=np.uint16).reshape(6, 10))]
TABLES = [
    pa.table({"text": LINES, "n": list(range(len(LINES)))}),
    pa.table({"tokens": IDS}),
    pa.table({"text": pa.array(LINES, pa.large_string())}),
    pa.table({"text": pa.array(LINES).cast(pa.string_view())}),
    pa.table({"text": pa.array(LINES).dictionary_encode()}),
    pa.table({"tokens": pa.array([[1, 2, 3]] * 20, pa.list_(pa.int16(), 3))}),
]
FASTA = b">x one\nMKVLA\nAAC\n;note\n>y\nGG\n>z\n\n"
TABLED = [
    b"text,n\r\n" + b"".join(b'"%s",1\r\n' % line.replace('"', '""').encode() for line in LINES),
    b'\xef\xbb\xbfn;text\n1;a b\n2;"c ""d""\n\ne; f"\n\n3;\n',
    b"text\n" + b"a b a\n" * 9,
]
LINED = "\n".join(json.dumps({"text": line}) for line in LINES).encode()

GAMES = [{"winner": "abcd"[one % 4], "loser": "efgh"[one % 3], "count": one % 5 + 1} for one in range(40)]
GAMES_CSV = "\n".join(["winner,loser,count", *(",".join(map(str, game.values())) for game in GAMES)]).encode()
GAMES_PARQUET = [
    parquet({name: [game[name] for game in GAMES] for name in GAMES[0]}, compression=packing)
    for packing in ("none", "snappy", "zstd")
]
GAMES_JSON = b"\n".join(json.dumps(game).encode() for game in GAMES)


def read_choices(path, number):
    """A board, and every second time what else is asked of it."""
    board = fit_choices(path, winner="winner", loser="loser", count="count")
    if number % 2:
        str(board)
        board.table()


def packed(pack, text):
    """Compressed tables: damaged, damaged before they are compressed, and some repeated without end."""

    def mutate(rng):
        kind = rng.random()
        if kind < 0.5:
            return mutate_bytes(pack(text), rng)
        inside = mutate_bytes(text, rng)
        if kind < 0.99:
            return pack(inside)
        return pack(text.partition(b"\n")[0] + b"\n" + text.partition(b"\n")[2] * 10 ** rng.randrange(2, 6))

    return mutate


def repeated_games(rng):
    """Parquet of games: damaged, or of a row that is there very often."""
    if rng.random() < 0.99:
        return mutate_bytes(rng.choice(GAMES_PARQUET), rng)
    n_rows = 10 ** rng.randrange(3, 8)
    who = [pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int8)), [name]) for name in "ab"]
    return parquet({"winner": who[0], "loser": who[1], "count": pa.array(np.ones(n_rows, np.int8))})


ALL = [
    Target("jsonl", "a.jsonl", json_lines, read_documents),
    of_bytes("jsonl-gz", "a.jsonl.gz", gzip.compress(LINED, mtime=0)),
    of_bytes("jsonl-zst", "a.jsonl.zst", zst(LINED)),
    of_bytes(
        "parquet-text",
        "a.parquet",
        parquet({"text": LINES}, compression="none"),
        parquet({"text": LINES, "n": list(range(15))}, compression="snappy"),
    ),
    of_bytes(
        "parquet-packed",
        "a.parquet",
        parquet({"text": LINES}, compression="gzip", use_dictionary=False),
        parquet({"text": LINES}, compression="zstd", data_page_version="2.0"),
    ),
    of_bytes(
        "parquet-delta",
        "a.parquet",
        parquet({"text": LINES}, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"),
        parquet(
            {"text": LINES},
            use_dictionary=False,
            column_encoding="DELTA_LENGTH_BYTE_ARRAY",
            compression="none",
        ),
    ),
    of_bytes(
        "parquet-ids",
        "a.parquet",
        parquet({"tokens": IDS}),
        parquet({"tokens": IDS}, compression="none", use_dictionary=False, row_group_size=7),
        parquet({"tokens": IDS}, data_page_version="2.0"),
    ),
    of_bytes("arrow-file", "a.arrow", *[interchange(one, file=True) for one in TABLES]),
    of_bytes("arrow-stream", "a.arrow", *[interchange(one, file=False) for one in TABLES]),
    of_bytes(
        "arrow-packed",
        "a.feather",
        *[
            interchange(one, file=file, packed=packed)
            for one in TABLES[:3]
            for file in (True, False)
            for packed in ("lz4", "zstd")
        ],
    ),
    Target("npy", "a.npy", npy_header, read_documents),
    of_bytes("bin", "a.bin", np.arange(100, dtype=np.uint16).tobytes()),
    Target("json", "a.json", json_list, read_documents),
    of_bytes("json-texts", "a.json", json.dumps(LINES).encode(), json.dumps(IDS).encode(), LINED),
    of_bytes("json-gz", "a.json.gz", gzip.compress(json.dumps(LINES).encode(), mtime=0)),
    of_bytes("csv", "a.csv", *TABLED),
    of_bytes("csv-gz", "a.csv.gz", gzip.compress(TABLED[0], mtime=0)),
    *(
        Target(
            f"choices-{file.partition('.')[2]}",
            file,
            table_targets.mutate(write, forms),
            table_targets.read_table(forms),
        )
        for file, write, forms in (
            ("a.csv", table_targets.write_csv, table_targets.FORMS),
            ("a.jsonl", table_targets.write_lines, table_targets.FORMS + table_targets.NESTED),
            ("a.parquet", table_targets.write_parquet, table_targets.FORMS + table_targets.NESTED),
        )
    ),
    of_bytes("tsv", "a.tsv", TABLED[0].replace(b",", b"\t")),
    of_bytes("log", "a.log", TEXT.encode()),
    of_bytes("fasta", "a.fasta", FASTA),
    of_bytes("fasta-gz", "a.fasta.gz", gzip.compress(FASTA, mtime=0)),
    of_bytes("txt", "a.txt", TEXT.encode()),
    of_bytes("txt-gz", "a.txt.gz", gzip.compress(TEXT.encode(), mtime=0)),
    of_bytes("txt-zst", "a.txt.zst", zst(TEXT.encode())),
    *(of_json(f"tokenizer-{kind}", trained(kind)) for kind in ("bpe", "unigram", "wordpiece", "wordlevel")),
    Target("tiktoken", "tiny.tiktoken", tiktoken_file, read_tokenizer),
    Target(
        "choices-csv-gz",
        "a.csv.gz",
        packed(lambda blob: gzip.compress(blob, mtime=0), GAMES_CSV),
        read_choices,
    ),
    Target("choices-csv-zst", "a.csv.zst", packed(zst, GAMES_CSV), read_choices),
    Target(
        "choices-jsonl-gz",
        "a.jsonl.gz",
        packed(lambda blob: gzip.compress(blob, mtime=0), GAMES_JSON),
        read_choices,
    ),
    Target("choices-parquet-repeated", "a.parquet", repeated_games, read_choices),
    Target("gguf", "model.gguf", model_targets.mutate_gguf, model_targets.read_gguf),
    Target("safetensors", "model", model_targets.mutate_safetensors, model_targets.read_weights),
    Target("config", "config.json", model_targets.mutate_config, model_targets.read_config),
]
TARGETS = {target.name: target for target in ALL}
