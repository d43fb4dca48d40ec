"""Certificates from the rows of the embeddings: bounds that rounding did not make."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import MismatchedParts, UncertifiedSolution
from attomaton.graphs.separation import bound_singular
from attomaton.solvers.hard.dense import find_answer
from attomaton.solvers.hard.rows import RowProof, certify_answer, in_pairs, row_constraints
from tests.drawn import components_of
from tests.strategies import embedded, sample_sets, unit_rows, vectors

ONE = at.Samples.from_lists([[0, 1]], [0])
"""0 precedes 1 under the query 1: ‖W‖² = 1 / (‖e_0 − e_1‖² ‖e_1‖²)."""


def exact_square(table):
    """‖W_svm‖² of :data:`ONE`, in fractions."""
    zero, one = ([Fraction(value) for value in row] for row in table.tolist())
    apart = sum((a - b) ** 2 for a, b in zip(zero, one, strict=True))
    return 1 / (apart * sum(b * b for b in one))


@pytest.mark.parametrize("apart", [1e-4, 1e-5, 1e-8, 1e-9, 1e-12, 1e-14])
def test_bounds_hold_where_two_rows_nearly_coincide(apart):
    table = np.array([[0.6, 0.8], [0.6 + apart, 0.8 - apart]])
    hard = at.solve_graph_svm(components_of(ONE), embeddings=table)
    assert hard.certificate.certified
    slack = Fraction(1, 10**12)
    exact = exact_square(table)
    assert Fraction(hard.certificate.lower) <= exact * (1 + slack)
    assert Fraction(hard.certificate.upper) >= exact * (1 - slack)
    assert hard.certificate.upper / float(exact) == pytest.approx(1.0, rel=1e-5)


def test_what_cannot_be_proved_names_the_rows():
    """A tie and a priority of rows 1e-11 apart, under queries 1e-11 apart: W is too large for doubles."""
    samples = at.Samples.from_lists([[2, 1, 0], [0, 2, 1], [2, 1, 0], [1, 0, 2]], [1, 0, 0, 1])
    table = np.random.default_rng(0).normal(size=(3, 4))
    table[1] = table[0] + 1e-11 * np.array([1.0, -2.0, 0.5, 3.0])
    hard = at.solve_graph_svm(components_of(samples), embeddings=table)
    assert not hard.certificate.certified
    assert any(f"tokens {pair} differ" in hard.certificate.closest for pair in ("0 and 1", "1 and 0"))
    with pytest.raises(UncertifiedSolution, match=r"differ by only .* of their length"):
        hard.expect()


@pytest.mark.slow  # scale
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_ill_conditioned_embeddings_are_certified(condition):
    rng = np.random.default_rng(int(np.log10(condition)))
    certified = 0
    for _ in range(20):
        left, right = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
        table = left @ np.diag(np.geomspace(1.0, 1.0 / condition, 6)) @ right
        contexts = [rng.choice(6, 4, replace=False).tolist() for _ in range(6)]
        labels = [int(rng.choice(context)) for context in contexts]
        samples = at.Samples.from_lists(contexts, labels, n_tokens=6)
        certified += at.solve_graph_svm(components_of(samples), embeddings=table).certificate.certified
    assert certified == 20


@given(embedded(sample_sets(min_samples=1), more=1))
def test_the_active_set_and_the_joint_solver_agree(drawn):
    """Two solvers, one from rows and one from Gram matrices, end at the same W where both are certified."""
    samples, table = drawn
    components = components_of(samples)
    joint = at.solve_graph_svm(components, embeddings=table)
    constraints = row_constraints(components, table)
    answer = find_answer(constraints)
    assert answer is not None
    found = certify_answer(constraints, answer, rtol=1e-6)
    assert found.certified
    assert found.upper == pytest.approx(joint.certificate.upper, rel=1e-6, abs=1e-12)
    apart = np.linalg.norm(answer.weights[..., 0] - joint.weights)
    assert apart <= 1e-3 * (1e-3 + np.linalg.norm(joint.weights))


@given(sample_sets(min_samples=1), unit_rows(6, 3), vectors(3, 3), st.data())
def test_sums_of_pairs_are_those_of_fractions(samples, table, weights, data):
    """Stretches and pressures, each formed again without any rounding."""
    constraints = row_constraints(components_of(samples), table[: samples.n_tokens])
    weights, multipliers = weights / 3, data.draw(vectors(len(constraints.plus))) / 3  # not exact in binary
    differences, pressed = (
        constraints.differences(in_pairs(weights)),
        constraints.press(in_pairs(multipliers)),
    )
    total = [[Fraction(0)] * 3 for _ in range(3)]
    for constraint in range(len(constraints.plus)):
        keys = [constraints.keys[part[constraint]].tolist() for part in (constraints.plus, constraints.minus)]
        apart = [Fraction(a) - Fraction(b) for a, b in zip(*keys, strict=True)]
        asked = [Fraction(value) for value in constraints.queries[constraints.query[constraint]].tolist()]
        exact = sum(apart[i] * Fraction(weights[i, j]) * asked[j] for i in range(3) for j in range(3))
        assert abs(
            Fraction(differences[constraint, 0]) + Fraction(differences[constraint, 1]) - exact
        ) < Fraction(1, 10**27)
        for i in range(3):
            for j in range(3):
                total[i][j] += Fraction(multipliers[constraint]) * apart[i] * asked[j]
    for i in range(3):
        for j in range(3):
            found = Fraction(pressed[i, j, 0]) + Fraction(pressed[i, j, 1])
            assert abs(found - total[i][j]) < Fraction(1, 10**26)


@given(st.integers(1, 8).flatmap(lambda size: vectors(size, 8)))
def test_singular_values_are_bounded_from_below(rows):
    least = np.linalg.svd(rows, compute_uv=False)[-1]
    assert bound_singular(rows) <= least * (1 + 1e-9)
    assert bound_singular(rows) >= 0.49 * least or least < 1e-3


def test_a_wrong_answer_is_not_certified():
    components = components_of(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [2, 1]], [0, 1, 2]))
    constraints = row_constraints(components, np.random.default_rng(1).normal(size=(3, 4)))
    answer = find_answer(constraints)
    assert certify_answer(constraints, answer, rtol=1e-6).certified
    for weights, multipliers in (
        (1.001 * answer.weights, answer.multipliers),
        (0.999 * answer.weights, answer.multipliers),
        (-answer.weights, answer.multipliers),
        (answer.weights, np.abs(answer.multipliers)[::-1]),
        (np.nan * answer.weights, answer.multipliers),
    ):
        assert not certify_answer(constraints, RowProof(weights, multipliers), rtol=1e-6).certified


@pytest.mark.parametrize(
    "wrong",
    [
        {"tie": np.zeros(1, np.int16)},
        {"tie": np.zeros((1, 1), bool)},
        {"number": np.zeros((1, 1), np.int64)},
        {"tokens": np.zeros(1, np.int64)},
    ],
)
def test_ropes_with_columns_of_other_kinds_are_refused(wrong):
    constraints = row_constraints(components_of(ONE), np.eye(2))
    with pytest.raises(MismatchedParts):
        replace(constraints, **wrong)
