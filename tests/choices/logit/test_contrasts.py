"""What the data say about a contrast, against fractions and closed forms."""

import numpy as np
import pytest
from tests.adversary.choices_features import KINDS, draw_case, draw_ladder, judge, problem_of
from tests.sizes import some

import attomaton as at
from attomaton.base.errors import UndeterminedChoice
from attomaton.choices.logit import ChoiceProblem, ContrastKind, fit_logit
from attomaton.choices.logit.builders import binary_logit


@pytest.mark.parametrize("seed", some(range(40), range(8)))
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_ranks_and_classes_are_those_of_fractions(kind, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    case = draw_case(rng, kind)
    for guess in (None, True, False):
        checks = judge(case, np.random.default_rng(seed), guess=guess)
        assert checks is not None, "not certified"
        assert [check for check in checks if check[1] > check[2]] == []


@pytest.mark.parametrize("seed", some(range(60), range(12)))
def test_nothing_certified_is_wrong_where_a_tiny_difference_decides(seed):
    rng = np.random.default_rng([seed, 3])
    case, gap = draw_ladder(rng)
    checks = judge(case, rng, contrasts=2)
    assert checks is not None or -1e-7 < gap < 0.9e-8
    assert [check for check in checks or [] if check[1] > check[2]] == []


def games(pairs, n_items):
    eye = np.eye(n_items)
    rows = [row for winner, loser in pairs for row in (eye[winner], eye[loser])]
    names = [f"item {k}" for k in range(n_items)]
    return ChoiceProblem.from_rows(np.array(rows), [2] * len(pairs), [1, 0] * len(pairs), names=names)


@pytest.mark.parametrize("seed", some(range(150), range(25)))
def test_bradley_terry_is_as_fit_choices_has_it(seed):
    rng = np.random.default_rng([seed, 34])
    n_items = int(rng.integers(2, 8))
    pairs = [tuple(rng.choice(n_items, 2, replace=False).tolist()) for _ in range(rng.integers(2, 30))]
    present = at.fit_choices(pairs)
    fit = fit_logit(games(pairs, n_items)).expect()
    for a in present.items:
        for b in present.items:
            if a == b:
                continue
            contrast = fit.contrast(f"item {a}", f"item {b}")
            try:
                difference = present.difference(a, b)
            except UndeterminedChoice:
                assert contrast.kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED)
                continue
            if np.isinf(difference.value):
                assert contrast.value == difference.value
                continue
            assert contrast.kind is ContrastKind.FINITE
            assert contrast.value == pytest.approx(difference.value, abs=1e-9)
            assert contrast.standard_error == pytest.approx(difference.standard_error, abs=1e-8)


@pytest.mark.parametrize(("wins", "level"), [(8, 0.95), (1, 0.95), (500, 0.99)])
def test_the_bound_of_a_clean_sheet_has_a_closed_form(wins, level):
    problem = ChoiceProblem.from_rows(np.eye(2), [2], [wins, 0], names=["a", "b"])
    contrast = fit_logit(problem).contrast("a", "b", level=level)
    chance = (1 - level) ** (1 / wins)
    assert contrast.bound == pytest.approx(np.log(chance / (1 - chance)), abs=1e-8)
    assert contrast.comparisons == wins
    assert fit_logit(problem).contrast("b", "a", level=level).bound == pytest.approx(
        -contrast.bound, abs=1e-8
    )


def test_only_comparisons_that_bind_are_behind_a_bound():
    """a beat b 8 times; c, which lost to a 100 times, has no say in the gap of a and b."""
    problem = ChoiceProblem.from_rows(np.eye(3)[[0, 1, 0, 2]], [2, 2], [8, 0, 100, 0], names=["a", "b", "c"])
    fit = fit_logit(problem)
    assert fit.contrast("a", "b").comparisons == 8
    assert fit.contrast("a", "b").bound == pytest.approx(0.78918, abs=1e-5)
    assert fit.contrast("b", "c").kind is ContrastKind.UNDECIDED


def test_two_items_with_wins_and_ties_have_two_infinities_and_a_third_item_pins_both():
    def davidson(outcomes, n_items):
        first, second, counts = (np.array(column) for column in zip(*outcomes, strict=True))
        items = [f"item {k}" for k in range(n_items)]
        return fit_logit(ChoiceProblem.from_battles(first, second, counts, items=items)).expect()

    two = davidson([(0, 1, [5, 0, 3])], 2)
    assert two.contrast("item 0", "item 1").kind is ContrastKind.PLUS
    assert two.contrast("tie").kind is ContrastKind.PLUS
    three = davidson([(0, 1, [5, 0, 3]), (1, 2, [2, 3, 1]), (0, 2, [4, 2, 2])], 3)
    assert three.contrast("item 0", "item 1").kind is ContrastKind.FINITE
    none = davidson([(0, 1, [5, 2, 0]), (1, 2, [2, 3, 0])], 3)
    assert none.contrast("tie").kind is ContrastKind.MINUS
    assert none.contrast("item 0", "item 1").value == pytest.approx(np.log(2.5))


def test_what_is_not_identified_is_said_by_name():
    eye = np.eye(5)
    rows = np.column_stack([eye[[0, 1, 1, 0, 2, 3]], [1, 0, 0, 1, 0, 0], [7.0] * 6, [2, 1, 1, 2, 0, 0]])
    names = ["a", "b", "c", "d", "e", "first", "year", "copy"]
    fit = fit_logit(ChoiceProblem.from_rows(rows, [2, 2, 2], [2, 1, 1, 1, 1, 1], names=names))
    said = " / ".join(fit.aliases)
    assert "{c, d}" in said
    assert "year never differs" in said
    assert fit.contrast("year").kind is ContrastKind.UNIDENTIFIED
    assert fit.contrast("c", "d").kind is ContrastKind.FINITE


def bound_by_definition(fit, vector, level=0.95):
    """Min f·(β* + γ) with γ ⟂ S and Σ N log P(face) ≥ log(1 − level), by a general solver."""
    from scipy.optimize import minimize

    problem, alive = fit.problem, ~fit.dying
    complement, contrast = fit.finite.complement, vector / problem.scale
    start = fit.evidence.beta

    def inside(point):
        utilities = problem.with_offsets(problem.utilities(start + complement @ point))
        top = problem.situations.spread(problem.situations.top(utilities))
        odds = np.exp(utilities - top)
        share = problem.situations.sum(odds * alive) / problem.situations.sum(odds)
        return float(problem.totals @ np.log(np.maximum(share, 1e-300))) - np.log(1 - level)

    slope = complement.T @ contrast
    answer = minimize(
        lambda point: slope @ point,
        8 * complement.T @ fit.evidence.direction,
        jac=lambda _: slope,
        constraints=[{"type": "ineq", "fun": inside}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return float(contrast @ start + answer.fun) if answer.success and inside(answer.x) > -1e-6 else None


def test_bounds_are_those_of_a_general_solver():
    rng = np.random.default_rng(8)
    compared = 0
    for kind in KINDS * 4:
        fit = fit_logit(problem_of(draw_case(rng, kind)))
        if not fit.dying.any():
            continue
        row = np.flatnonzero(fit.dying)[:1]
        vector = (fit.problem.differences(row) * fit.problem.scale)[0]
        contrast = fit.contrast(dict(zip(fit.problem.names, vector, strict=True)))
        assert contrast.kind is ContrastKind.PLUS
        reference = bound_by_definition(fit, vector)
        if reference is not None and np.isfinite(reference):
            # other pairs may have to run to infinity, which the general solver only begins to do
            assert contrast.bound <= reference + 1e-6
            compared += abs(contrast.bound - reference) < 1e-3
    assert compared >= 8


def test_the_hard_direction_is_proved():
    rng = np.random.default_rng(9)
    for kind in KINDS * 4:
        fit = fit_logit(problem_of(draw_case(rng, kind)))
        if fit.problem.is_pair.any():
            assert fit.direction.certified


def test_a_large_program_grows_row_by_row():
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 4))])
    utility = rows @ np.array([0.3, 2, -1, 0.5, 0])
    flag = rng.random(20_000) < 0.5
    outcome = np.where(flag, utility > 0, rng.random(20_000) < 1 / (1 + np.exp(-utility)))
    wide = np.column_stack([rows * ~flag[:, None], rows * flag[:, None]])
    fit = fit_logit(binary_logit(wide, outcome)).expect()
    assert np.array_equal(fit.dying.reshape(-1, 2).any(axis=1), flag)
    assert 0 < fit.program_rows < 15_000
    assert fit.finite.rank == 5


def test_a_class_that_a_gap_of_a_millionth_of_a_millionth_decides_is_not_certified():
    rows = [[1, -4, 1], [1, -3, 0], [1, -2, 0], [1, 0, 0], [1, 1e-12, 1], [1, 3, 1], [1, 4, 0]]
    fit = fit_logit(binary_logit(rows, [0, 0, 0, 0, 1, 1, 1], names=["a", "b", "c"]))
    contrast = fit.contrast("a", "c")  # undecided: (0, 1, -1e-12) raises it, and loses nothing
    assert contrast.kind is ContrastKind.UNDECIDED or not contrast.certified
    assert fit.contrast("b").certified
