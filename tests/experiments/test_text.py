"""Experiments on text, in small."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attomaton.cli.reproduce_text import reproduce_text
from attomaton.errors import UnreadableSource, UnsupportedOption
from attomaton.experiments.text import run_text, split_text
from attomaton.experiments.text_settings import list_text_experiments, read_text_settings
from attomaton.experiments.text_write import summarise_text, write_text_outcome


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A text in which words come back."""
    rng = np.random.default_rng(0)
    words = ["the", "cat", "saw", "a", "dog", "and", "ran", "home", "to", "sleep", "."]
    text = " ".join(rng.choice(words, 1200, p=np.arange(11, 0, -1) / 66))
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(text, encoding="utf-8")
    return path


def small(name):
    """The settings with few steps."""
    settings = read_text_settings(name)
    return replace(settings, window=6, steps=(1, 10, 60), n_training_contexts=50)


@pytest.fixture(scope="module", params=["text-shakespeare", "text-wikitext"])
def outcome(request, story):
    return run_text(small(request.param), story)


def test_attention_comes_to_retrieve_what_the_automaton_says(outcome):
    for model in outcome.settings.models:
        rows = outcome.rows(model=model["name"], contexts="trained on", rule="all")
        assert [row["step"] for row in rows] == [1, 10, 60]
        assert rows[-1]["retrieved"] > rows[0]["retrieved"] - 0.01
        assert rows[-1]["distance"] < rows[0]["distance"]
        assert rows[-1]["log_loss"] < rows[0]["log_loss"]
    assert sum(outcome.shares.values()) == pytest.approx(1.0)
    assert outcome.rows(model="uniform attention", contexts="held out", rule="all")


def test_the_same_seed_gives_the_same_numbers(outcome, story):
    again = run_text(outcome.settings, story)
    assert again.curves.equals(outcome.curves)


def test_figure_numbers_and_page_are_written(outcome, tmp_path):
    written = write_text_outcome(outcome, tmp_path / "out")
    assert {path.name for path in written} == {"figure.png", "figure.pdf", "curves.parquet", "summary.md"}
    assert all(path.stat().st_size > 500 for path in written)
    assert outcome.settings.models[0]["name"] in summarise_text(outcome)


def test_contexts_do_not_reach_over_the_cut(story):
    trained, held_out = split_text(small("text-wikitext"), story)
    assert trained.n_tokens == held_out.n_tokens
    assert len(trained) + len(held_out) == 1200 - 2  # the first word of each part is no label
    assert len(held_out) == 119


def test_what_cannot_be_done_is_refused(tmp_path):
    assert list_text_experiments() == ["text-shakespeare", "text-wikitext"]
    with pytest.raises(UnsupportedOption, match="text-shakespeare"):
        read_text_settings("nothing")
    with pytest.raises(UnreadableSource, match="cannot be read"):
        split_text(small("text-shakespeare"), tmp_path / "nothing.txt")
    (tmp_path / "short.txt").write_text("ab", encoding="utf-8")
    with pytest.raises(UnreadableSource, match="2 characters"):
        split_text(small("text-shakespeare"), tmp_path / "short.txt")


def test_the_command_prints_how_both_agree(story, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("attomaton.experiments.text_settings.read_text_settings", small)
    asked = {"seed": 0, "quiet": False}
    reproduce_text("text-wikitext", story, out=tmp_path / "run", as_json=False, **asked)
    assert "contexts held out" in capsys.readouterr().out
    assert (tmp_path / "run" / "summary.md").exists()
    reproduce_text("text-wikitext", story, out=None, as_json=True, **asked)
    told = json.loads(capsys.readouterr().out)
    assert {row["contexts"] for row in told["last"]} == {"held out", "trained on"}
    with pytest.raises(UnsupportedOption, match="--data"):
        reproduce_text("text-wikitext", None, out=None, as_json=True, **asked)
