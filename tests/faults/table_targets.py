"""Tables of choices to fuzz: every form of a table, as CSV, JSON lines and Parquet."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

import attomaton as at
from attomaton.choices.inputs import read_columns
from attomaton.corpora.readers import Reading
from tests.faults.mutants import mutate_bytes, mutate_json

PAIRS = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("bob", "ann"), ("cat", "bob"), ("ann", "cat")]
ENDS = [0, 0, 2, 1, 0, 0]


def games(words, **more):
    rows = [{"one": a, "two": b, "end": words[end]} for (a, b), end in zip(PAIRS, ENDS, strict=True)]
    return [{**row, **{name: column[k] for name, column in more.items()}} for k, row in enumerate(rows)]


GAMES = {"first": "one", "second": "two", "outcome": "end"}
TOPICS = {"topic": list("xyxxyx"), "judge": list("pqrpqr")}
LENGTHS = {"meta": [{"len_one": k, "len_two": 3, "v0.1": {"ok": True}} for k in range(6)]}
NESTED = [
    (games(("A", "B", "both_bad"), **LENGTHS), {**GAMES, "features": ["meta.len"]}),
    (games(("one", "two", "tie"), **LENGTHS), {**GAMES, "by": "meta.v0.1.ok"}),
]
"""Forms with nested fields: records and the names of their columns."""

FORMS = [
    (games(("1-0", "0-1", "1/2-1/2"), **TOPICS), {**GAMES, "cluster": "judge"}),
    (games(("W", "L", "D"), **TOPICS), {**GAMES, "by": "topic", "drop": ["D"]}),
    (games((1, 0, 0.5)), {**GAMES, "moved_first": "one"}),
    (games(("H", "A", "D"), a=[1, 3, 2, 0, 4, 1], b=[0, 1, 2, 2, 0, 0]), {**GAMES, "outcome": ["a", "b"]}),
    ([{"winner": a, "loser": b, "count": k} for k, (a, b) in enumerate(PAIRS)], {}),
    (
        [{"who": name, "ann": k, "bob": 2 - k, "cat": 1} for k, name in enumerate(("ann", "bob", "cat"))],
        {"winner": "who", "loser": ["ann", "bob", "cat"]},
    ),
    ([{"ann": 1, "bob": 2, "cat": 3}, {"ann": 2, "bob": 1, "cat": ""}], {"ranks": ["ann", "bob", "cat"]}),
    (
        [{"P1": "ann", "P2": "bob", "P3": "cat"}, {"P1": "bob", "P2": "ann", "P3": ""}],
        {"ranking": ["P1", "P2", "P3"]},
    ),
    (
        [{"race": k // 3, "car": PAIRS[k][0], "rank": 1 + k % 3} for k in range(6)],
        {"situation": "race", "alternative": "car", "ranks": "rank"},
    ),
    (
        [
            {"i": "ann", "j": "bob", "k": "cat", "best": "ann", "worst": "cat"},
            {"i": "ann", "j": "bob", "k": "cat", "best": "bob", "worst": "ann"},
        ],
        {"choice_set": ["i", "j", "k"]},
    ),
]
"""Forms with flat columns: records and the names of their columns."""

CELLS = ["", " ", "ann", "dan", "tie", "A", "1-0", "*", "-1", "0", "1e308", "nan", "inf", "2", "\0", '"']
CELLS += ["é" * 300, "both_bad"]
"""What replaces a cell."""


def write_csv(records, rng):
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=rng.choice(",;\t|"))
    writer.writerow(records[0])
    writer.writerows(record.values() for record in records)
    return sink.getvalue().encode()


def write_lines(records, _rng):
    return "\n".join(json.dumps(record) for record in records).encode()


def write_parquet(records, rng):
    sink = pa.BufferOutputStream()
    same = [{name: str(cell) for name, cell in record.items()} for record in records]
    flat = not any(isinstance(cell, dict) for record in records for cell in record.values())
    table = pa.Table.from_pylist(same if flat else records)
    if rng.random() < 0.5:
        for place, name in enumerate(table.column_names):
            if name in ("one", "two"):
                table = table.set_column(place, name, table.column(name).dictionary_encode())
    pq.write_table(table, sink, compression=rng.choice(["none", "snappy"]))
    return sink.getvalue().to_pybytes()


def mutate(write, forms):
    """A mutant of one of the forms: of its cells, of its bytes, or of both; its number says which form."""

    def make(rng):
        records, _ = forms[rng.randrange(len(forms))]
        records = [dict(record) for record in records]
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            record = rng.choice(records)
            record[rng.choice(list(record))] = rng.choice(CELLS)
        if write is write_lines and rng.random() < 0.3:
            lines = [json.dumps(record) for record in records]
            place = rng.randrange(len(lines))
            return b"\n".join([*map(str.encode, lines[:place]), mutate_json(lines[place], rng)])
        try:
            blob = write(records, rng)
        except pa.ArrowException:  # cells of different types
            blob = write(forms[0][0], rng)
        return mutate_bytes(blob, rng) if rng.random() < 0.6 else blob

    return make


def read_table(forms):
    """A fit of every form whose columns the file has, every other time without rows that cannot be read."""

    def read(path, number):
        frame = read_columns(path, Reading(skip_bad=bool(number % 2)))
        for records, named in forms:
            if records[0].keys() <= frame.keys():
                fit = at.fit_choices(frame, **named)
                assert len(fit.items) == len(fit.scores)

    return read
