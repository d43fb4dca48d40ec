"""The option values that broke something once: each is refused in a sentence, before anything is written."""

import math

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import (
    AttomatonError,
    UnreadableSource,
    UnsupportedOption,
)
from attomaton.base.machine import parse_memory
from attomaton.base.options import show
from attomaton.engines import Engine, Selection
from attomaton.training.checkpoints import Store
from attomaton.training.models.embeddings import Orthonormal
from attomaton_experiments.lookup.training import AtSeconds
from tests.cli.inside import run_inside
from tests.faults import calls
from tests.faults.commands import command_line, fresh
from tests.faults.hostile import limited

REFUSED = [
    ("reproduce", "--trials", "0"),
    ("reproduce", "--seed", "-1"),
    ("reproduce", "--seed", str(10**40)),
    ("reproduce", "--trials", str(10**40)),
    ("train", "--step-size", "nan"),
    ("train", "--step-size", "inf"),
    ("train", "--step-size", "-1"),
    ("train", "--seed", str(10**40)),
    ("train", "--window", str(10**40)),
    ("train", "--steps", "9" * 5000),
    ("learn", "--window", str(10**40)),
    ("learn", "--min-support", str(10**40)),
    ("learn", "--queries", str(10**40)),
    ("learn", "--queries", "9" * 5000),
    ("learn", "--queries", "0"),
    ("learn", "--queries", ""),
    ("learn", "--sample-queries", "7"),
    ("learn", "--sample-queries", "nan"),
    ("learn", "--memory", "0GB"),
    ("learn", "--memory", "-1GB"),
    ("learn", "--memory", "nan"),
    ("learn", "--memory", "9" * 400 + "GB"),
    ("learn", "--threads", str(10**6)),
    ("learn", "--master", "abacus"),
    ("learn", "--engine", "abacus"),
    ("learn", "--tokenizer", "missing.json"),
    ("scan-snap", "--tolerance", "nan"),
    ("scan-snap", "--tolerance", "-1"),
    ("scan-snap", "--decoder-rate", "inf"),
    ("scan-snap", "--decoder-rate", "1e308"),
    ("scan-snap", "--momentum", "1"),
    ("diff", "--limit", str(10**40)),
    ("export", "--queries", "9" * 5000),
    ("export", "--graphml", ""),
    ("export", "--graphml", "."),
    ("export", "--csv", ""),
    ("export", "--csv", "here.txt"),
    ("export", "--csv", "\udcff"),
    ("export", "--graphml", "loop"),
    ("report", "--out", ""),
    ("report", "--out", " "),
    ("report", "--figures", ""),
    ("report", "--queries", str(10**40)),
    ("learn", "--out", ""),
    ("learn", "0", ""),
    ("train", "--out", ""),
    ("tokenize", "--out", ""),
    ("tokenize", "--out", "spark://"),
    ("tokenize", "--max-document", str(10**40)),
    ("tokenize", "--workers", str(10**6)),
    ("tokenize", "--column", "\udcff"),
    ("scan-snap", "--out", ""),
    ("reproduce", "--out", ""),
    ("reproduce", "--data", ""),
    ("example", "0", ""),
    ("explain", "0", ""),
    ("explain", "1", "\udcff"),
]


@pytest.mark.parametrize(("command", "option", "value"), REFUSED, ids=lambda value: repr(value)[:30])
def test_refused_in_a_sentence_and_nothing_written(place, command, option, value):
    folder = fresh(place / "template", place / "case" / "here")
    before = sorted(folder.rglob("*"))
    ended = run_inside(*command_line(command, option, value), cwd=folder)
    assert ended.returncode == 2
    assert any(word in ended.stderr for word in ("give", "choose", "write", "correct"))
    assert sorted(folder.rglob("*")) == before


def test_numbers_are_written_in_plain_digits(place):
    folder = fresh(place / "template", place / "case" / "here")
    for value, code in (
        ("3", 0),
        ("3.0", 0),
        ("3e0", 0),
        ("٣", 2),
        ("1_0", 2),
        ("0x3", 2),
        (" 3", 2),
        ("True", 2),
    ):
        assert run_inside("learn", "corpus.txt", f"--window={value}", cwd=folder).returncode == code, value


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 1.5},
        {"steps": math.nan},
        {"steps": math.inf},
        {"steps": -1},
        {"steps": True},
        {"steps": "3"},
        {"steps": 2, "seed": -1},
        {"steps": 2, "trials": 0},
        {"steps": 2, "trials": math.nan},
    ],
    ids=lambda wrong: show(str(list(wrong))),
)
def test_train_says_at_once_what_is_no_number(wrong):
    with limited(), pytest.raises(UnsupportedOption):
        at.train(calls.samples(), at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), **wrong)


@pytest.mark.parametrize("every", [0, 1.5, math.nan])
def test_a_watch_says_at_once_what_is_no_number(every):
    with limited(), pytest.raises(UnsupportedOption):
        at.training.Watch(every=every)


def test_whole_floats_are_whole_numbers():
    model, step = at.AttentionModel(Orthonormal()), at.GradientDescent(1.0)
    one, other = (at.train(calls.samples(), model, step, steps=steps) for steps in (100, 1e2))
    assert one.steps.tolist() == other.steps.tolist()
    assert one.weights.tobytes() == other.weights.tobytes()


def test_an_earlier_training_survives_what_is_wrong(tmp_path):
    """Everything is looked at before a folder is begun anew."""
    model, step, data = at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), calls.samples()
    at.train(data, model, step, steps=40, out=tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert before
    unrealisable = at.Samples.from_lists([[0, 1]], [2])
    tries = [
        lambda: at.train(data, model, step, steps=math.nan, out=tmp_path / "run"),
        lambda: at.train(data, model, step, steps=40, watch=at.training.Watch(every=0), out=tmp_path / "run"),
        lambda: at.train(data, model, step, steps=40, out=Store(tmp_path / "run", every=0)),
        lambda: at.train(data, at.AttentionModel(Orthonormal(2)), step, steps=40, out=tmp_path / "run"),
        lambda: at.train(unrealisable, model, step, steps=40, out=tmp_path / "run"),
        lambda: at.train([], model, step, steps=40, out=tmp_path / "run"),
    ]
    for attempt in tries:
        with pytest.raises(AttomatonError):
            attempt()
        assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_an_earlier_training_survives_a_wrong_command(place):
    folder = fresh(place / "template", place / "case" / "here")
    before = {path: path.read_bytes() for path in (folder / "trained").rglob("*") if path.is_file()}
    for option in ("--step-size=nan", "--dim=0", "--tokenizer=missing.json", "--seed=-1"):
        ended = run_inside("train", "corpus.txt", "--out=trained", option, cwd=folder)
        assert ended.returncode == 2
        assert {
            path: path.read_bytes() for path in (folder / "trained").rglob("*") if path.is_file()
        } == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": "abacus"},
        {"memory": "much"},
        {"memory": 10**5000},
        {"threads": 0},
        {"master": ""},
        {"tokenizer": "missing.json"},
        {"tokenizer": None},
        {"documents": "page"},
        {"queries": []},
        {"queries": ()},
        {"queries": np.array([], int)},
        {"queries": "the"},
        {"queries": math.nan},
        {"queries": 1.5},
        {"queries": [1.5]},
        {"queries": [True]},
        {"queries": [None]},
        {"min_support": math.nan},
        {"sample_queries": math.nan},
        {"sample_queries": True},
        {"window": math.nan},
        {"window": "3"},
        {"out": ""},
    ],
    ids=lambda wrong: show(str(list(wrong))),
)
def test_learn_says_at_once_what_it_cannot_do(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UnsupportedOption, UnreadableSource)):
        at.learn([0, 1, 0, 2, 0, 1], **{"out": "run", **as_values(wrong)})
    assert not list(tmp_path.iterdir())


def as_values(options):
    """Flat options as ``learn`` takes them: in the value that each belongs to."""
    values = {
        **dict.fromkeys(("queries", "min_support", "sample_queries"), ("keep", Selection)),
        **dict.fromkeys(("memory", "threads", "master"), ("engine", Engine)),
        "documents": ("reading", at.Reading),
    }
    [(name, value)] = options.items()
    place, kind = values.get(name, (name, None))
    return {place: value if kind is None else kind(**{name: value})}


@pytest.mark.parametrize("wrong", [{"keep": 3}, {"reading": "line"}, {"engine": 7}, {"engine": None}])
def test_values_of_another_kind_are_refused(wrong):
    with pytest.raises(UnsupportedOption, match=r"give an attomaton\.|engine is"):
        at.learn([0, 1, 0, 2, 0, 1], **wrong)


def test_an_edge_without_a_number_of_samples_is_no_edge():
    edges = at.extract_edges(calls.samples())
    for wrong in (math.nan, 0, "1", True, 1.5):
        with pytest.raises(UnsupportedOption):
            edges.filter(min_support=wrong)


def test_memory_in_words():
    assert parse_memory("256MB") == parse_memory(256_000_000) == parse_memory(256e6) == 256_000_000
    for wrong in (
        "0GB",
        "-1GB",
        "nan",
        "1e400GB",
        "9" * 400 + "GB",
        "٣GB",
        "",
        True,
        math.nan,
        10**5000,
        1.5,
    ):
        with pytest.raises(UnsupportedOption, match="memory is"):
            parse_memory(wrong)


def test_a_time_that_never_comes_is_refused():
    """A training that records at such a time would not end."""
    for wrong in (math.nan, math.inf, -1.0):
        with pytest.raises(UnsupportedOption):
            AtSeconds((wrong,))


def test_a_window_is_a_whole_number_too():
    for wrong in (1.5, math.nan, True, "2", 0):
        with pytest.raises(UnsupportedOption, match=r"window is .*; give a whole number, 1 or more"):
            at.Samples.from_windows([0, 1, 0], window=wrong)


def test_a_stiff_flow_is_given_up(place):
    """Rates far from what the theory assumes: the exact flow would take minutes, and is left out."""
    folder = fresh(place / "template", place / "case" / "here")
    with limited(30):
        ended = run_inside(
            "scan-snap", "corpus.txt", "--window=3", "--attention-rate=1e3", "--json", cwd=folder
        )
    assert ended.returncode == 0
    assert '"until": null' in ended.stdout
