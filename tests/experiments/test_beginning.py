"""Experiments on the beginning of training, at a size for tests, on a text drawn here."""

import json

import numpy as np
import pytest

from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import silent
from attomaton_experiments.beginning import curves, turn
from attomaton_experiments.beginning.curves import run_curves
from attomaton_experiments.beginning.ends import run_ends
from attomaton_experiments.beginning.sequences import read_sequences
from attomaton_experiments.beginning.turn import run_turn
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """Stories in which each word has few successors, and names come back."""
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(20)]
    after = rng.integers(0, 20, (20, 3))
    told = []
    for _ in range(60):
        place, story = int(rng.integers(20)), []
        for _ in range(40):
            story.append(words[place])
            place = int(rng.choice(after[place])) if rng.random() < 0.8 else int(rng.integers(20))
        told.append(" ".join(story))
    path = tmp_path_factory.mktemp("stories") / "stories.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


SMALL = {"n_tokens": 12, "window": 8, "n_sequences": 20}


def small(name, stories, **changed):
    return read_settings(name, data=stories) | SMALL | changed


def test_sequences_are_cut_from_documents_over_their_frequent_words(stories):
    text = read_sequences(stories, 12, 8, "word-punct")
    assert text.n_tokens == 12
    assert text.vocabulary.tokens[-1] == "<rest>"
    assert text.table.shape == (60 * 4, 9)
    assert (text.table[0, -1] == text.table[1, 0]).all()
    assert len(np.unique(text.draw(50, 0), axis=0)) == 50
    with pytest.raises(UnsupportedOption, match="longer text"):
        text.draw(500, 0)


@pytest.mark.slow  # an experiment
def test_the_published_curves_are_drawn_again_at_a_small_size(stories, tmp_path):
    page = run_curves(small("beginning", stories, epochs=10, marks=[5, 10]), silent)
    rows = page.record["tables"][0]["rows"]
    assert [row[:2] for row in rows] == [["0.005", "5"], ["0.005", "10"], ["0.05", "5"], ["0.05", "10"]]
    assert all(float(cell) > 0.99 for row in rows for cell in row[3:7])
    written = {path.name for path in write_page(page, tmp_path / "out")}
    assert written == {"figure.png", "figure.pdf", "numbers.parquet", "verdicts.json", "summary.md"}
    assert "an unknown number" in (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")


def test_an_experiment_that_was_cut_short_goes_on(stories, tmp_path, monkeypatch):
    settings = small("beginning", stories, epochs=2, marks=[2], every=5, work=tmp_path / "parts")
    trained = []

    def train(*given, **options):
        trained.append(given[2])
        if len(trained) == 2:
            raise KeyboardInterrupt
        return real(*given, **options)

    real = curves.train_deep
    monkeypatch.setattr(curves, "train_deep", train)
    with pytest.raises(KeyboardInterrupt):
        run_curves(settings, silent)
    assert len(list((tmp_path / "parts").iterdir())) == 1
    page = run_curves(settings, silent)
    assert trained == [0.005, 0.05, 0.05]
    whole = run_curves(settings | {"work": None}, silent)
    assert whole.numbers.equals(page.numbers)


@pytest.mark.slow  # an experiment
def test_the_turn_is_reported_with_its_spread(stories, tmp_path):
    settings = small("beginning-turn", stories, steps=30, trials=3, every=3, courses=2)
    settings |= {"starts": [1e-6], "step_sizes": [1.0], "depths": [3], "work": tmp_path / "parts"}
    page = run_turn(settings, silent)
    titles = [table["title"] for table in page.record["tables"]]
    assert titles[0].startswith("Cosine of W")
    assert len(page.verdicts) >= 2
    written = {path.name for path in write_page(page, tmp_path / "out")}
    assert "figure.png" in written
    assert turn.run_turn is run_turn


@pytest.mark.slow  # an experiment
def test_first_and_last_are_compared_on_a_text(stories, tmp_path):
    page = run_ends(small("beginning-last", stories), silent)
    table = page.record["tables"][0]
    assert [row[0] for row in table["rows"]] == ["keep", "turn", "neither"]
    assert sum(int(row[1].replace(",", "")) for row in table["rows"]) == page.numbers.num_rows
    assert {path.name for path in write_page(page, tmp_path)} >= {"figure.png", "numbers.parquet"}
