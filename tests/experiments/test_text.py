"""Experiments on text, in small."""

import json

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton_experiments import settings as shipped
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings
from attomaton_experiments.text import compare_text, split_text
from attomaton_experiments.text_outcome import render_text
from tests.cli.inside import run_inside


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A text in which words come back."""
    rng = np.random.default_rng(0)
    words = ["the", "cat", "saw", "a", "dog", "and", "ran", "home", "to", "sleep", "."]
    text = " ".join(rng.choice(words, 1200, p=np.arange(11, 0, -1) / 66))
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(text, encoding="utf-8")
    return path


def small(name, data, **asked):
    """The settings with few steps."""
    settings = read_settings(name, data=data, **asked)
    return {**settings, "window": 6, "steps": [1, 10, 60], "n_training_contexts": 50}


@pytest.fixture(scope="module", params=["text-shakespeare", "text-wikitext"])
def outcome(request, story):
    return compare_text(small(request.param, story))


def test_attention_comes_to_retrieve_what_the_automaton_says(outcome):
    for model in outcome.settings["models"]:
        rows = outcome.rows(model=model["name"], contexts="trained on", rule="all")
        assert [row["step"] for row in rows] == [1, 10, 60]
        assert rows[-1]["retrieved"] > rows[0]["retrieved"] - 0.01
        assert rows[-1]["distance"] < rows[0]["distance"]
        assert rows[-1]["log_loss"] < rows[0]["log_loss"]
    assert sum(outcome.shares.values()) == pytest.approx(1.0)
    assert outcome.rows(model="uniform attention", contexts="held out", rule="all")


def test_the_same_seed_gives_the_same_numbers(outcome):
    assert compare_text(outcome.settings).curves.equals(outcome.curves)


@pytest.mark.slow  # an experiment
def test_figure_numbers_and_page_are_written(outcome, tmp_path):
    page = render_text(outcome)
    written = write_page(page, tmp_path / "out")
    assert {path.name for path in written} == {"figure.png", "figure.pdf", "curves.parquet", "summary.md"}
    assert all(path.stat().st_size > 500 for path in written)
    assert outcome.settings["models"][0]["name"] in page.text


def test_contexts_do_not_reach_over_the_cut(story):
    trained, held_out = split_text(small("text-wikitext", story))
    assert trained.n_tokens == held_out.n_tokens
    assert len(trained) + len(held_out) == 1200 - 2  # the first word of each part is no label
    assert len(held_out) == 119


def test_what_cannot_be_done_is_refused(tmp_path):
    with pytest.raises(UnsupportedOption, match="needs a text, which is not shipped; give --data FILE"):
        read_settings("text-shakespeare")
    with pytest.raises(UnreadableSource, match="cannot be read"):
        split_text(small("text-shakespeare", tmp_path / "nothing.txt"))
    (tmp_path / "short.txt").write_text("ab", encoding="utf-8")
    with pytest.raises(UnreadableSource, match="2 characters"):
        split_text(small("text-shakespeare", tmp_path / "short.txt"))


@pytest.mark.slow  # an experiment
def test_the_command_prints_how_both_agree(story, tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "read_settings", small)
    asked = ["reproduce", "text-wikitext", "--data", str(story)]
    shown = run_inside(*asked, "--out", "run", cwd=tmp_path)
    assert "contexts held out" in shown.stdout
    assert (tmp_path / "run" / "summary.md").exists()
    told = json.loads(run_inside(*asked, "--json", cwd=tmp_path).stdout)
    assert {row["contexts"] for row in told["last"]} == {"held out", "trained on"}
    refused = run_inside("reproduce", "text-wikitext", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "give --data FILE" in refused.stderr
