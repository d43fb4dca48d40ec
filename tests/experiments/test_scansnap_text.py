"""Figures 7 and 10 of the second paper, in small."""

import json
from functools import cache

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.tables import column
from attomaton_experiments.page import write_page
from attomaton_experiments.scansnap.figure7 import run_figure7
from attomaton_experiments.scansnap.figure10 import run_figure10
from attomaton_experiments.scansnap_model.texts import UNKNOWN, read_texts
from attomaton_experiments.settings import read_settings

SMALL = {"width": 8, "hidden": 8, "dropout": 0.1, "window": 6}
WORDS = ["the", "cat", "saw", "a", "dog", "and", "ran", "home", "to", "sleep", "<unk>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts in which some words are frequent and some rare."""
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("texts")
    for name, size in (("train", 900), ("valid", 300)):
        words = rng.choice(WORDS, size, p=np.arange(11, 0, -1) / 66)
        (place / f"{name}.txt").write_text(" ".join(words) + "\n", encoding="utf-8")
    return place


def small(name, folder, **changes):
    settings = read_settings(name, data=folder)
    settings |= {"n_tokens": 9, "n_windows": 20, "model": SMALL, "workers": 1, **changes}
    settings["training"] |= {"batch_size": 4}
    return settings


@pytest.fixture(scope="module")
def seventh(folder):
    changes = {
        "records": [0, 5, 20],
        "maps_at": [0, 5, 20],
        "shown_window": 3,
        "shown_tokens": 6,
        "ranks": [3],
    }

    @cache
    def run(seed=0, again=False):
        return run_figure7(small("scan-snap-7", folder, seed=seed, **changes))

    return run


@pytest.fixture(scope="module")
def tenth(folder):
    changes = {"records": [0, 10], "rates": [0.5, 2.0], "trials": 2}

    @cache
    def run(seed=0, again=False):
        return run_figure10(small("scan-snap-10", folder, seed=seed, **changes))

    return run


@pytest.mark.slow  # an experiment
@pytest.mark.parametrize("name", ["seventh", "tenth"])
def test_figure_numbers_and_page_are_written(name, request, tmp_path):
    page = request.getfixturevalue(name)()
    written = write_page(page, tmp_path / "out")
    assert {"figure.png", "figure.pdf", "numbers.parquet", "verdicts.json", "summary.md"} <= {
        path.name for path in written
    }
    assert all(path.stat().st_size > 300 for path in written)
    judged = json.loads((tmp_path / "out" / "verdicts.json").read_text(encoding="utf-8"))
    assert {one["status"] for one in judged} == {"not_applicable"}
    assert all("positions" in one["reason"] and one["value"] is not None for one in judged)
    assert "Wall time" in page.text
    assert "8 most frequent words" in page.record["caption"]


@pytest.mark.parametrize("name", ["seventh", "tenth"])
def test_the_same_seed_gives_the_same_numbers(name, request):
    run = request.getfixturevalue(name)
    assert run().numbers.equals(run(again=True).numbers)
    assert not run().numbers.equals(run(seed=7).numbers)


def test_gains_are_one_where_attention_is_uniform_on_average(seventh):
    table = seventh().numbers
    rows = table.to_pylist()
    assert [row["step"] for row in rows] == [0, 5, 20]
    assert [len(row["map"]) for row in rows] == [36, 36, 36]
    assert all(abs(gain - 1) < 0.5 for gain in rows[0]["gains"])
    assert rows[-1]["gains"] != rows[0]["gains"]


def test_every_rate_and_trial_has_a_row(tenth):
    table = tenth().numbers
    assert column(table, "rate").tolist() == [0.5] * 4 + [2.0] * 4
    assert column(table, "trial").tolist() == [0, 0, 1, 1] * 2
    start = column(table, "entropy")[column(table, "step") == 0]
    assert start[0] == start[2]  # the same start, whatever the rate


def test_progress_counts_all_runs(folder):
    told = []
    settings = small("scan-snap-10", folder, records=[0, 3], rates=[1.0, 2.0], trials=1)
    run_figure10(settings, lambda *one: told.append(one))
    assert told == [("scan-snap-10", done, 6) for done in range(1, 7)]


def test_rare_words_become_unknown(folder):
    texts = read_texts(folder, 5)
    assert texts.tokens[0] == UNKNOWN
    assert sorted(texts.tokens[1:]) == ["a", "cat", "saw", "the"]
    assert texts.shares.sum() == pytest.approx(1.0)
    assert np.all(np.diff(texts.shares[1:]) <= 0)
    words = (folder / "valid.txt").read_text(encoding="utf-8").split()
    known = [word if word in texts.tokens else UNKNOWN for word in words]
    assert [texts.tokens[one] for one in texts.valid] == [*known, UNKNOWN]  # the line end
    assert len(read_texts(folder, 100).tokens) == 12


def test_what_cannot_be_done_is_refused(folder, tmp_path):
    with pytest.raises(UnreadableSource, match="holds 0 files"):
        read_texts(tmp_path, 10)
    (tmp_path / "train.txt").write_text("a b c", encoding="utf-8")
    with pytest.raises(UnreadableSource, match=r"valid\.txt"):
        read_texts(tmp_path, 10)
    with pytest.raises(UnsupportedOption, match="n_tokens"):
        read_texts(folder, 1)
    with pytest.raises(UnsupportedOption, match="trials"):
        read_settings("scan-snap-10", data=folder, trials=0)
    with pytest.raises(UnsupportedOption, match=r"scan-snap-7 needs WikiText-2.*--data FOLDER"):
        read_settings("scan-snap-7")
