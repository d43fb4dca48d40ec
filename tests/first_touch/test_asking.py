"""Natural questions to an automaton: each of these failed, or printed a dump, when it was first tried."""

import json

import numpy as np
import pandas as pd
import pytest

import attomaton as at
from attomaton.automaton.explanation import Rule
from tests.cli.inside import run_inside

TEXT = "the cat saw the dog\nthe dog saw the cat and the cat ran\n" * 4


@pytest.fixture(scope="module")
def auto():
    return at.learn(TEXT.splitlines(), window=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("asking")
    (place / "story.txt").write_text(TEXT)
    assert run_inside("learn", "story.txt", "--out", "run", "--quiet", cwd=place).returncode == 0
    return place


def test_a_text_is_predicted_as_tokens_with_probabilities(auto):
    told = auto.predict("the cat saw the")
    assert told.keys() <= {"the", "cat", "saw"}
    assert sum(told.values()) == pytest.approx(1)
    assert list(told.values()) == sorted(told.values(), reverse=True)


def test_many_texts_of_any_lengths_are_predicted_at_once(auto):
    texts = ["the cat saw the", "dog", "and the cat ran", "zebra the"]
    assert auto.predict_batch(texts) == [auto.predict(text) for text in texts]
    assert auto.predict_batch(np.array(texts)) == auto.predict_batch(texts)
    assert auto.predict_batch([]) == []


def test_a_list_of_texts_is_not_mistaken_for_a_list_of_tokens(auto):
    with pytest.raises(at.AttomatonError, match="predict_batch"):
        auto.predict(["the cat saw the", "and the cat"])
    with pytest.raises(at.AttomatonError, match=r"call predict\(text\)"):
        auto.predict_batch("the cat saw the")


@pytest.mark.parametrize("wrong", [None, 3, {"text": "the cat"}, pd.DataFrame({"text": ["the cat"]})])
def test_what_is_no_list_of_texts_is_refused(auto, wrong):
    with pytest.raises(at.AttomatonError, match="give a list of texts"):
        auto.predict_batch(wrong)


def test_sample_needs_no_rng(auto):
    drawn = {auto.name(auto.sample("the cat saw the")) for _ in range(20)}
    assert drawn <= auto.predict("the cat saw the").keys()
    assert auto.sample("the cat saw the", 3) == auto.sample("the cat saw the", np.random.default_rng(3))


def test_unknown_words_are_unseen_and_named(auto):
    told = auto.explain("zebra the cat saw the")
    assert told.unknown == ("zebra",)
    assert [told.name(token) for token in told.unseen] == ["zebra"]
    assert told.rule in (Rule.UNSEEN_IGNORED, Rule.INCOMPARABLE)
    assert dict(told.probabilities) == dict(auto.explain("the cat saw the").probabilities)
    assert auto.predict("zebra the cat saw the") == auto.predict("the cat saw the")


def test_only_unknown_words_are_no_evidence(auto):
    assert auto.predict("zebra gnu") == {"zebra": 0.5, "gnu": 0.5}
    assert auto.predict_proba("zebra gnu").sum() == 0.0
    assert auto.retrieve("zebra gnu").tolist() == []
    assert auto.attention("zebra gnu").tolist() == [0.5, 0.5]
    with pytest.raises(at.AttomatonError, match="have no id"):
        auto.sample("zebra gnu")


def test_an_explanation_prints_as_the_terminal_shows_it(auto, folder):
    printed = str(auto.explain("the cat saw the"))
    assert printed.startswith("Query: the\nRule: ")
    assert "Explanation(" not in printed
    loaded = at.Automaton.load(folder / "run")
    shown = run_inside("explain", "run", "the cat saw the", cwd=folder, COLUMNS="100")
    assert "".join(shown.stdout.split()) == "".join(str(loaded.explain("the cat saw the")).split())


def test_the_command_line_names_unknown_words(folder):
    shown = run_inside("explain", "run", "zebra the cat saw the", cwd=folder)
    assert shown.returncode == 0
    assert "Not in the vocabulary: zebra" in shown.stdout
    record = json.loads(run_inside("explain", "run", "zebra the", "--json", cwd=folder).stdout)
    assert record["unknown"] == ["zebra"]
    quiet = run_inside("explain", "run", "zebra the", "--quiet", cwd=folder)
    assert (quiet.stdout, quiet.stderr) == ("the\n", "Words outside the vocabulary: zebra\n")


def test_ids_are_asked_by_ids_on_the_command_line(tmp_path):
    at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])).save(tmp_path / "run")
    assert "Query: 2" in run_inside("explain", "run", "0 1 2", cwd=tmp_path).stdout
    refused = run_inside("explain", "run", "the cat", cwd=tmp_path)
    assert refused.returncode == 2
    assert "'the' is not a token id" in refused.stderr


def test_text_is_generated(auto, folder):
    written = auto.generate("the cat saw the", 12, seed=1)
    assert str(written).startswith("the cat saw the ")
    assert set(written.words) <= {"the", "cat", "saw"}
    printed = run_inside("generate", "run", "the cat saw the", "-n", "12", "--seed", "1", cwd=folder)
    assert printed.stdout == f"{at.Automaton.load(folder / 'run').generate('the cat saw the', 12, seed=1)}\n"


@pytest.mark.parametrize("n", [-1, 1.5, "three", 10**12])
def test_no_number_of_tokens(auto, n):
    with pytest.raises(at.AttomatonError):
        auto.generate("the cat", n)
