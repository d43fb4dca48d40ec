"""A student's first hour: every natural call works or says how, and no answer is silently another."""

import numpy as np
import pytest

import attomaton as at
from tests.first_touch.student import ASKED, MISTAKES, spend


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    return spend(tmp_path_factory.mktemp("student"))


@pytest.mark.slow  # an hour of a student
def test_what_is_refused_is_a_mistake_and_says_how_to_go_on(hour):
    assert set(hour.refused) == set(MISTAKES)
    assert all("; " in text for text in hour.refused.values()), hour.refused


@pytest.mark.slow  # an hour of a student
def test_everything_prints_for_a_reader(hour):
    dumps = ("Explanation(", "[Verdict(", "Score(", "Coverage(", "Expansion(", " object at 0x")
    for step, text in hour.printed.items():
        if step not in MISTAKES and step not in ("curves",):
            assert text.strip(), step
            assert not text.startswith(dumps), (step, text[:200])
            assert " object at 0x" not in text, (step, text[:200])


def test_python_and_the_command_line_say_the_same(hour):
    known, printed = hour.known, hour.printed
    assert printed["generate run"] == f"{known['generate']}\n"
    for step in ("explain", "score"):
        assert "".join(printed[f"{step} run"].split()) == "".join(str(known[step]).split())
    assert "".join(str(known["coverage"]).split()) in "".join(printed["learn run"].split())


def test_answers_are_those_of_the_definition(hour):
    auto = hour.known["learn"]
    probabilities = auto.predict_proba(ASKED)
    told = hour.known["predict"]
    assert {auto.vocabulary.ids[token]: probability for token, probability in told.items()} == {
        int(token): pytest.approx(probabilities[token]) for token in np.flatnonzero(probabilities)
    }
    assert hour.known["batch"][0] == told
    assert hour.known["unknown"] == auto.predict("the saw the")
    assert hour.known["score"].unknown == ("zebra",)
    assert set(hour.known["early"]) == set(ASKED.split())
    assert sum(hour.known["early"].values()) == pytest.approx(1)


def test_the_run_can_be_verified_and_opened(hour):
    assert not [verdict.claim for verdict in hour.known["verify"] if verdict.fails]
    assert (hour.folder / "page.html").stat().st_size > 10_000
    assert (hour.folder / "pictures" / "training.png").is_file()
    assert isinstance(at.Automaton.load(hour.folder / "run"), at.Automaton)
