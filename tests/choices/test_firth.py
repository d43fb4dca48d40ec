"""Firth's penalised likelihood against its definition, closed forms and published figures."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import attomaton as at
from attomaton.base.errors import UndeterminedChoice, UnsupportedOption
from attomaton.choices import ChoiceProblem, fit_logit
from attomaton.choices.logit.firth import FirthClimb

ENDOMETRIAL = Path(__file__).parents[2] / "docs" / "data" / "endometrial.csv"


def penalised_by_definition(matrix, sizes, counts, beta):
    """The log-likelihood plus half the log determinant of the information, situation by situation."""
    value, information, row = 0.0, np.zeros((matrix.shape[1],) * 2), 0
    for size in sizes:
        x, n = matrix[row : row + size], counts[row : row + size]
        utility = x @ beta
        p = np.exp(utility - utility.max())
        p /= p.sum()
        value += n @ np.log(p)
        away = x - p @ x
        information += n.sum() * (away.T * p) @ away
        row += size
    values = np.linalg.eigvalsh(information)
    return value + 0.5 * np.log(values[values > 1e-9]).sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_is_the_maximum_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 12)
    matrix = rng.standard_normal((sizes.sum(), 2)) + np.array([0, 3 * (seed % 2)])
    drawn = [rng.multinomial(rng.integers(1, 3), np.full(size, 1 / size)) for size in sizes]
    counts = np.concatenate(drawn)
    fit = fit_logit(ChoiceProblem.from_rows(matrix, sizes, counts.astype(float))).firth()
    best = minimize(
        lambda beta: -penalised_by_definition(matrix, sizes, counts, beta),
        np.zeros(2),
        options={"gtol": 1e-9},
    )
    assert fit.coefficients == pytest.approx(best.x, abs=1e-5)
    top = penalised_by_definition(matrix, sizes, counts, fit.coefficients)
    assert top >= -best.fun - 1e-10
    low, high = fit.contrast("x1").interval()
    for end in (low, high):  # where the best of the others lies half the quantile lower
        inside = minimize(
            lambda other, end=end: -penalised_by_definition(matrix, sizes, counts, np.array([end, other[0]])),
            fit.coefficients[1:],
            options={"gtol": 1e-9},
        )
        assert 2 * (top + inside.fun) == pytest.approx(3.841459, abs=1e-4)


def test_the_gradient_is_that_of_the_value():
    rng = np.random.default_rng(1)
    problem = ChoiceProblem.from_battles(
        rng.integers(5, size=40),
        5 + rng.integers(3, size=40),
        np.eye(3)[rng.integers(3, size=40)],
        items=[f"item {number}" for number in range(8)],
        features=rng.standard_normal((40, 1)),
        names=["length"],
    )
    climb = FirthClimb(problem, fit_logit(problem).identified.basis)
    here = 0.3 * rng.standard_normal(climb.basis.shape[1])
    slope = climb.look(here).gradient
    for number, step in enumerate(1e-5 * np.eye(len(here))):
        rise = climb.look(here + step).value - climb.look(here - step).value
        assert rise / 2e-5 == pytest.approx(slope[number], abs=1e-6)


def test_the_published_figures_of_the_endometrial_data():
    """brglm2's estimates and standard errors, logistf's intervals (Heinze and Schemper 2002)."""
    with ENDOMETRIAL.open(encoding="utf-8") as file:
        table = np.array(list(csv.reader(file))[1:], float)
    columns = dict(zip(("NV", "PI", "EH"), table.T, strict=False))
    rows = at.check_separation(columns, table[:, 3].astype(int)).firth().to_pandas().set_index("parameter")
    published = {
        "intercept": (3.77456, 1.48869, 1.08254, 7.20928, "finite"),
        "NV": (2.92927, 1.55076, 0.60973, 7.85463, "+inf"),
        "PI": (-0.03475, 0.03958, -0.12446, 0.04045, "finite"),
        "EH": (-2.60416, 0.77602, -4.36518, -1.23272, "finite"),
    }
    for name, (*numbers, kind) in published.items():
        row = rows.loc[name]
        assert [row.estimate, row.standard_error, row.low, row.high] == pytest.approx(numbers, abs=1.5e-5)
        assert row.maximum == kind


@pytest.mark.parametrize(("wins", "losses"), [(8, 0), (3, 1), (1, 1), (0, 40)])
def test_two_players_get_half_a_win_each(wins, losses):
    fit = at.fit_choices(["a", "b"], losers=["b", "a"], counts=[wins, losses], penalty="firth")
    gap = fit.difference("a", "b")
    assert gap.value == pytest.approx(np.log((wins + 0.5) / (losses + 0.5)), abs=1e-8)
    maximum = [-np.inf, np.log(3), 0.0, np.inf][[0, 3, 1, 8].index(wins)]
    assert gap.maximum == pytest.approx(maximum)
    low, high = gap.interval(1 - gap.p_value) if gap.p_value < 1 else (0.0, 0.0)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-5)
    assert fit.probability("a", "b") == pytest.approx((wins + 0.5) / (wins + losses + 1))


def test_rows_that_are_merged_or_split_have_one_estimate():
    rng = np.random.default_rng(0)
    won, lost = rng.integers(4, size=30), 4 + rng.integers(3, size=30)
    fit = at.fit_choices(won.tolist(), losers=lost.tolist(), penalty="firth")
    sets = at.fit_choices(won.tolist(), np.column_stack([won, lost]).tolist(), penalty="firth")
    assert sets.scores == pytest.approx(fit.scores)
    assert fit.certified
    assert not fit.connected
    assert all(map(np.isfinite, fit.scores.values()))


def test_groups_stay_apart_and_the_proof_is_kept(tmp_path):
    games = {"winner": list("abaxyx"), "loser": list("bacyxy"), "count": [3, 1, 5, 2, 1, 2]}
    fit, plain = at.fit_choices(games, penalty="firth"), at.fit_choices(games)
    assert (fit.components, fit.order, fit.missing) == (plain.components, plain.order, plain.missing)
    with pytest.raises(UndeterminedChoice):
        fit.difference("a", "x")
    with pytest.raises(UndeterminedChoice):
        fit.probability("a", "x")
    assert fit.board()["board"] == [1, 1, 1, 2, 2]
    again = at.ChoiceFit.load(fit.save(tmp_path / "fit"))
    assert again.scores == fit.scores
    assert again.to_dict() == fit.to_dict()
    assert fit.to_dict()["penalty"] == "firth"
    assert "joined by Firth's penalty" in str(fit)
    assert "without the penalty +inf" in str(fit.difference("a", "c"))


def test_ties_and_position_are_penalised_too():
    games = {
        "first": list("aabcab"),
        "second": list("bccabc"),
        "outcome": ["a", "tie", "b", "tie", "a", "tie"],
    }
    fit = at.fit_choices(games, moved_first="first", penalty="firth")
    firth = fit.model.penalised
    columns = fit.logit.problem.names
    for name in ("moved_first", "tie"):
        estimate = firth.contrast(name)
        assert fit.coefficients[name].value == estimate.value
        assert np.isfinite(fit.coefficients[name].standard_error)
    assert sum(fit.outcomes("a", "b", moved_first="a")) == pytest.approx(1)
    rows = np.zeros((18, len(columns)))
    for game, (one, other) in enumerate(zip(games["first"], games["second"], strict=True)):
        block = rows[3 * game : 3 * game + 3]
        block[0, [columns.index(one), columns.index("moved_first")]] = 1
        block[1, columns.index(other)] = 1
        block[2, [columns.index(one), columns.index(other), columns.index("moved_first")]] = 0.5
        block[2, columns.index("tie")] = 1
    counts = np.zeros(18)
    for game, outcome in enumerate(games["outcome"]):
        won = 2 if outcome == "tie" else 0 if outcome == games["first"][game] else 1
        counts[3 * game + won] = 1
    top = penalised_by_definition(rows, [3] * 6, counts, firth.coefficients)
    rng = np.random.default_rng(0)
    for _ in range(50):
        near = firth.coefficients + 0.05 * rng.standard_normal(len(columns))
        assert penalised_by_definition(rows, [3] * 6, counts, near) < top + 1e-9


def test_what_does_not_go_with_the_penalty():
    games = {"winner": list("abac"), "loser": list("bacb")}
    for options in ({"cluster": [1, 2, 3, 4]}, {"counts": [0.5, 1, 1, 1]}):
        with pytest.raises(UnsupportedOption, match="whole and independent"):
            at.fit_choices(games, penalty="firth", **options)
    with pytest.raises(UnsupportedOption, match="cannot be combined with ridge= or prior="):
        at.fit_choices(games, penalty="firth", prior=1.0)
    with pytest.raises(UnsupportedOption, match="penalty is 'ridge'; give 'firth'"):
        at.fit_choices(games, penalty="ridge")
    with pytest.raises(UnsupportedOption, match="Firth's penalty moves the fit away"):
        at.fit_choices(games, penalty="firth").aic  # noqa: B018


def test_a_difference_has_the_error_of_the_penalised_fit():
    """Ann against Dan, who never won: the maximum alone knows no error of it."""
    fit = at.fit_choices(
        ["Ann", "Dan", "Ann"], losers=["Bob", "Bob", "Dan"], counts=[9, 4, 8], penalty="firth"
    )
    pairs = np.array([[1.0, -1, 0], [0, -1, 1], [1, 0, -1]])
    score = np.array([fit.scores[name] for name in ("Ann", "Bob", "Dan")])
    p = 1 / (1 + np.exp(-pairs @ score))
    inverse = np.linalg.pinv(pairs.T * (np.array([9, 4, 8]) * p * (1 - p)) @ pairs)
    for pair in pairs:
        names = [("Ann", "Bob", "Dan")[k] for k in (pair.argmax(), pair.argmin())]
        error = fit.difference(*names).standard_error
        assert error == pytest.approx(np.sqrt(pair @ inverse @ pair), rel=1e-6)
