"""What fresh eyes found: silence where a user needs a word, and advice that did not help."""

import numpy as np
import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.base.errors import CorruptRun, InvalidSamples, UnreadableSource, UnwritablePlace
from attomaton.cli import app


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


@pytest.mark.parametrize("corpus", [[], [[]], [[0]], [[3], [1]], np.array([], int)])
def test_a_corpus_without_a_sample_is_refused(corpus):
    with pytest.raises(UnreadableSource, match="has two tokens, but a sample needs a context and a label"):
        at.learn(corpus)


def test_whole_counts_that_pandas_wrote_as_floats_are_read(tmp_path):
    path = tmp_path / "games.csv"
    path.write_text("winner,loser,count\nAnn,Bob,3.0\nBob,Ann,1.0\n")
    assert at.fit_choices(path).probability("Ann", "Bob") == pytest.approx(0.75)
    path.write_text("winner,loser,count\nAnn,Bob,3\nBob,Ann,0\n")
    assert at.fit_choices(path).probability("Ann", "Bob") == 1.0


@pytest.mark.parametrize("named", [[], ["--ranking", "ranking"]])
def test_rankings_as_text_are_split_without_naming_the_column(tmp_path, named):
    path = tmp_path / "ranks.csv"
    path.write_text("ranking\nA|B|C\nB|A\nC|A\n")
    with pytest.raises(InvalidSamples, match=r"on the command line: --split"):
        call("choices", path, *named)
    assert "1 component" in call("choices", path, "--split", "|", *named).output


def test_the_command_line_names_its_own_option_for_the_rest(tmp_path):
    path = tmp_path / "games.csv"
    path.write_text("winner,loser\nAnn,Bob\nBob,Ann\nAnn,Cat\n")
    assert "and 2 more; --limit 3 shows all" in call("choices", path, "--limit", 1).output


def test_a_fit_that_is_not_there_is_not_to_be_learned(tmp_path):
    with pytest.raises(CorruptRun, match=r"not a complete fit of choices; .* `attomaton choices … --out"):
        at.ChoiceFit.load(tmp_path / "ratings")


def test_the_covariance_of_one_item():
    fit = at.fit_choices([1, 2], losers=[2, 1])
    assert fit.covariance(1).tolist() == fit.covariance([1]).tolist() == [[pytest.approx(0.5)]]
    with pytest.raises(at.AttomatonError, match="7 occurs in no choice"):
        fit.covariance(7)


@pytest.mark.parametrize("pairs", [zip("ab", "ba", strict=True), {("a", "b"), ("b", "a")}])
def test_pairs_without_an_order_are_refused_for_what_they_are(pairs):
    with pytest.raises(InvalidSamples, match=r"give a list of winners"):
        at.fit_choices(pairs)


def test_learn_says_that_a_training_would_be_replaced_too(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat saw the dog and the cat saw the bird and the dog")
    call("train", path, "--window", 6, "--steps", 2, "--out", tmp_path / "run", "--quiet")
    call("learn", path, "--window", 6, "--out", tmp_path / "run", "--quiet")
    with pytest.raises(UnwritablePlace, match="and a training, which would be removed too"):
        call("learn", path, "--window", 6, "--out", tmp_path / "run")
