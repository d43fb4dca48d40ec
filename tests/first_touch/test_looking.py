"""Pictures that a first user asks for: axes are returned, and what they show is what the numbers say."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.drawing import MOST_POSITIONS
from attomaton.claims.verdicts import Verdict, Verdicts, VerdictStatus
from attomaton.report.pictures import measure_courses
from tests.cli.inside import run_inside

mpl.use("agg")
SAMPLES = at.Samples.from_lists([[0, 1, 3], [1, 0, 3], [1, 2, 3], [1, 2, 3]], [0, 1, 1, 1], n_tokens=5)
AUTO = at.learn(SAMPLES)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def trace():
    return at.train(SAMPLES, at.AttentionModel(), at.GradientDescent(0.5), steps=300, trials=2)


def test_a_query_is_drawn_best_token_first():
    axes = AUTO.plot(3)
    names = [label.get_text() for label in axes.get_yticklabels()]
    widths = [bar.get_width() for bar in axes.patches]
    assert names == ["1", "0", "3", "2"]  # of equals, the one with more evidence
    assert widths == pytest.approx([0.5, 0.5, -0.5, -0.5])
    notes = [note.get_text() for note in axes.texts]
    share = np.exp(AUTO.soft.scores.column("score").to_numpy()[:2])
    assert notes[:2] == [f"{one:.0%}" for one in sorted(share / share.sum(), reverse=True)]


def test_finite_attention_is_drawn_too():
    widths = [bar.get_width() for bar in AUTO.at(50).plot(3).patches]
    assert widths == sorted(widths, reverse=True)


def test_a_context_is_drawn_position_by_position():
    axes = AUTO.plot_context([0, 2, 1, 3])
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(AUTO.attention([0, 2, 1, 3]).tolist())
    long = AUTO.plot_context([0, 1, 2] * 100 + [3])
    assert len(long.patches) == MOST_POSITIONS


def test_axes_of_ones_own_are_drawn_in_and_settings_stay():
    before = dict(mpl.rcParams)
    _, mine = plt.subplots()
    assert AUTO.plot(3, ax=mine) is mine
    assert AUTO.plot_context([0, 1, 3], ax=mine) is mine
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("query", [4, 0, 17, "lamp", 2.5])
def test_a_query_that_cannot_be_drawn_says_why(query):
    with pytest.raises(at.AttomatonError):
        AUTO.plot(query)


def test_a_word_that_is_not_known_says_so():
    auto = at.learn(["to be or not to be", "to be is to do"])
    with pytest.raises(at.AttomatonError, match="not in the vocabulary of 6 tokens"):
        auto.plot("zebra")
    assert auto.plot("to").get_yticklabels()[0].get_text() == "be"
    assert len(auto.plot_context("zebra to $x_1$ né 灯 to").patches) == 6


def test_a_run_is_drawn(trace):
    loss, norm = trace.plot()
    assert loss.lines[0].get_ydata()[-1] == pytest.approx(np.exp(np.log(trace.losses[-1]).mean()))
    assert norm.lines[0].get_ydata()[-1] == pytest.approx(
        np.linalg.norm(trace.weights[-1], axis=(1, 2)).mean()
    )


def test_verdicts_are_drawn(trace):
    status = VerdictStatus
    verdicts = Verdicts(
        [
            Verdict("one", status.HOLDS, 2.0, 1.0, "because"),
            Verdict("two", status.FAILS, -1.0, 1.0, "because"),
            Verdict("three", status.FAILS, float("inf"), 1.0, "because"),
            Verdict("four", status.NOT_APPLICABLE, None, None, "because"),
        ]
    )
    axes = verdicts.plot()
    assert axes.get_title(loc="left") == "1 holds, 2 fail, 1 not judged (1 does not apply here)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two", "three", "four"]
    assert Verdicts([]).plot().get_title(loc="left") == "no claims"


def test_the_way_to_the_limit_is_as_predicted(trace):
    courses = measure_courses(trace)
    measured, predicted = courses["measured"], courses["predicted"]
    for name in ("correlation", "distance"):
        at_the_end = [course[name][-1] for course in (measured, predicted)]
        assert at_the_end[0] == pytest.approx(at_the_end[1], abs=2e-3)
    acyclic = at.Samples.from_lists([[0, 1]], [0])
    alone = measure_courses(at.train(acyclic, at.AttentionModel(), at.GradientDescent(0.5), steps=20))
    assert alone["measured"]["distance"] is None


@pytest.mark.slow  # draws every figure
def test_figures_show_the_way_to_the_limit(tmp_path, monkeypatch):
    from attomaton.report import pictures

    seen = []
    draw = pictures.draw_line_panels
    monkeypatch.setattr(
        pictures,
        "draw_line_panels",
        lambda panels, *rest, **more: seen.extend(panels) or draw(panels, *rest, **more),
    )
    (tmp_path / "t.txt").write_text("a b a c a b a c b a c a b b a c a a b c a b a\n" * 2)
    for command in (
        ["learn", "t.txt", "--window", "3", "--out", "run", "--quiet"],
        ["train", "t.txt", "--window", "3", "--out", "run", "--steps", "50", "--quiet"],
        ["report", "run", "--figures", "pictures", "--quiet"],
    ):
        assert run_inside(*command, cwd=tmp_path).returncode == 0
    assert [panel.title.partition(",")[0] for panel in seen] == [
        "training loss",
        "norm of W",
        "correlation of W with W_svm",
        "distance of the finite part",
    ]
    assert all(
        {line.name for line in panel.lines} == {"measured", "predicted", "limit"} for panel in seen[2:]
    )
