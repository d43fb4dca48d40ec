"""The engine: kernels against the definition, certificates against false vectors, published figures."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.adversary.choices_features import KINDS, draw_case, problem_of

from attomaton.base.errors import InvalidSamples, UncertifiedSolution
from attomaton.choices.logit import ChoiceProblem, LogitState, fit_logit
from attomaton.choices.logit.certificate import certify
from attomaton.choices.logit.exact import prove_in_fractions
from attomaton.choices.logit.face import find_components_face, find_face
from attomaton.choices.logit.spans import span_of


def draw_battles(rng, n_battles=60, n_items=4, n_features=2, ties=True):
    first = rng.integers(0, n_items, n_battles)
    second = (first + rng.integers(1, n_items, n_battles)) % n_items
    features = rng.normal(size=(n_battles, n_features))
    counts = np.eye(3 if ties else 2)[rng.integers(0, 3 if ties else 2, n_battles)]
    return first, second, counts, features


def as_rows(first, second, counts, features, n_items):
    """The same battles by the definition: x_a | x_b | their mean with e_tie."""
    size = counts.shape[1]
    eye, blocks = np.eye(n_items), []
    for a, b, z in zip(first, second, features, strict=True):
        one = np.concatenate([eye[a], z / 2, [0] * (size - 2)])
        other = np.concatenate([eye[b], -z / 2, [0] * (size - 2)])
        tie = (one + other) / 2
        tie[-1] = 1
        blocks += [one, other, tie][:size]
    return np.array(blocks)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_three_kernels_are_one_definition(ties, seed):
    rng = np.random.default_rng(seed)
    first, second, counts, features = draw_battles(rng, ties=ties)
    items, names = list("abcd"), ["y", "z"]
    battles = ChoiceProblem.from_battles(first, second, counts, items=items, features=features, names=names)
    matrix = as_rows(first, second, counts, features, 4)
    sizes, flat = [counts.shape[1]] * len(first), counts.ravel()
    dense = ChoiceProblem.from_rows(matrix, sizes, flat, names=battles.names)
    wide = np.pad(matrix, ((0, 0), (0, 30)))  # sparse enough to be kept sparse
    names = [*battles.names, *(f"empty {k}" for k in range(30))]
    sparse = ChoiceProblem.from_rows(csr_array(wide), sizes, flat, names=names)
    groups = rng.integers(0, 7, len(first))
    face = rng.random(len(flat)) < 0.8
    face[battles.reference] = True
    beta = rng.normal(size=matrix.shape[1])
    answers = []
    for problem in (battles, dense, sparse):
        size = problem.rows.n_parameters
        padded = np.pad(beta, (0, size - len(beta))) * problem.scale
        chances, value = problem.probabilities(problem.utilities(padded), face)
        rest = problem.residuals(chances)
        answers.append(
            [
                chances,
                value,
                problem.gaps(padded),
                problem.gradient(rest)[: len(beta)] * problem.scale[: len(beta)],
                problem.rows.information(chances, problem.totals)[: len(beta), : len(beta)],
                problem.rows.scores(rest, None)[: len(beta), : len(beta)],
                problem.rows.scores(rest, groups)[: len(beta), : len(beta)],
                (problem.differences(np.arange(len(flat))) * problem.scale)[:, : len(beta)],
                problem.rows.norms(problem.reference, np.ones(size)),
                problem.rows.pick(np.arange(len(flat))).toarray()[:, : len(items)]
                - problem.rows.take(problem.situations.spread(problem.reference))[:, : len(items)],
            ]
        )
    _, definition, _ = answers
    for other in (answers[0], answers[2]):
        for a, b in zip(other, definition, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11)
    # and the definition itself
    matrices = rng.normal(size=(len(beta), 2))
    bread = matrices @ matrices.T
    traces = battles.rows.leverage(bread, answers[1][0], battles.totals)
    moved = matrix @ matrices
    away = moved - np.repeat(battles.situations.sum(answers[1][0][:, None] * moved), counts.shape[1], axis=0)
    spread = battles.situations.sum(answers[1][0] * (away**2).sum(axis=1))
    np.testing.assert_allclose(traces, battles.totals * spread, atol=1e-11)
    weights = problem.situations.spread(problem.totals) * answers[1][0]
    centred = matrix - np.repeat(
        problem.situations.sum(answers[1][0][:, None] * matrix), counts.shape[1], axis=0
    )
    np.testing.assert_allclose(answers[1][4], (centred.T * weights) @ centred, atol=1e-11)


@pytest.mark.parametrize("seed", range(25))
def test_components_and_the_linear_program_agree(seed):
    rng = np.random.default_rng([seed, 1])
    case = draw_case(rng, "Bradley-Terry" if seed % 2 else "Plackett-Luce")
    problem = problem_of(case)
    zero = np.zeros(problem.rows.n_parameters)
    arcs = problem.rows.arcs(problem.reference)
    assert arcs is not None
    by_graph, by_program = find_components_face(problem, arcs, zero), find_face(problem, zero, guess=False)
    assert np.array_equal(by_graph.dying, by_program.dying)
    heights = problem.gaps(by_graph.direction)
    assert (heights[by_graph.dying] >= 1 - 1e-12).all()
    assert np.abs(heights[~by_graph.dying]).max(initial=0.0) < 1e-12


def test_the_endometrial_data_of_heinze_and_schemper():
    # Statistics in Medicine 21 (2002) 2409-2419: 79 published measurements of patients
    with (Path(__file__).parents[3] / "docs" / "data" / "endometrial.csv").open(encoding="utf-8") as file:
        table = np.array(list(csv.reader(file))[1:], float)
    rows = np.zeros((158, 4))
    rows[::2] = np.column_stack([np.ones(79), table[:, :3]])
    counts = np.column_stack([table[:, 3], 1 - table[:, 3]]).ravel()
    fit = fit_logit(ChoiceProblem.from_rows(rows, [2] * 79, counts, names=["1", "NV", "PI", "EH"])).expect()
    assert fit.contrast("NV").kind.value == "+inf"
    values = {"1": (4.3045178, 1.63729861), "PI": (-0.0421834, 0.04433196), "EH": (-2.9026056, 0.84555156)}
    for name, (value, error) in values.items():
        assert fit.contrast(name).value == pytest.approx(value, abs=1e-7)
        assert fit.contrast(name).standard_error == pytest.approx(error, abs=1e-7)
    assert fit.direction.certified
    assert fit.direction.vector == pytest.approx([0, 1, 0, 0], abs=1e-9)


def test_false_vectors_certify_nothing():
    rng = np.random.default_rng(0)
    case = draw_case(rng, "binary logit")
    while not (fit := fit_logit(problem_of(case))).dying.any() or not fit.finite.rank:
        case = draw_case(rng, "binary logit")
    problem, evidence = fit.problem, fit.evidence
    lies = [
        evidence._replace(direction=-evidence.direction),
        evidence._replace(direction=0 * evidence.direction),
        evidence._replace(beta=evidence.beta + 1e-3, witness=evidence.beta),
        evidence._replace(dying=np.zeros_like(evidence.dying), direction=0 * evidence.direction),
    ]
    alone = evidence.dying.copy()
    alone[np.flatnonzero(problem.is_pair & ~alone)[0]] = True  # a pair that survives
    lies.append(evidence._replace(dying=alone))
    assert certify(problem, evidence, fit.finite, fit.identified)[0].certified
    for lie in lies:
        finite = span_of(problem, ~lie.dying)
        assert not certify(problem, lie, finite, fit.identified)[0].certified


def test_lengths_of_1e8_stand_beside_items():
    rng = np.random.default_rng(0)
    values = []
    for scale in (1.0, 1e4, 1e8):
        rng = np.random.default_rng(0)
        first, second, counts, features = draw_battles(rng, 80, 4, 1, ties=False)
        counts[first == 3], counts[second == 3] = [0, 1], [1, 0]  # the last item never wins
        problem = ChoiceProblem.from_battles(
            first, second, counts, items=list("abcd"), features=scale * features, names=["length"]
        )
        fit = fit_logit(problem).expect()
        assert fit.contrast("a", "d").kind.value == "+inf"
        values.append(fit.contrast("length").value * scale)
    assert np.ptp(values) < 1e-9


def test_sums_that_cancel_only_in_real_numbers_count_as_cancelling():
    for third in (-(0.1 + 0.2), -0.3):
        rows = np.array([[0.1, 1.0], [0, 0], [0.2, -2.0], [0, 0], [third, 1.0], [0, 0]])
        fit = fit_logit(ChoiceProblem.from_rows(rows, [2, 2, 2], [1, 0] * 3))
        assert fit.state is LogitState.CERTIFIED
        assert not fit.dying.any()


def test_what_says_nothing_is_dropped_and_offsets_shift():
    rows = [[1.0], [0.0], [1.0], [1.0], [0.0], [2.0]]
    full = ChoiceProblem.from_rows(
        rows, [2, 1, 3], [1, 2, 5, 1, 1, 0], offsets=[np.log(2), 0, 0, 0, 0, -np.inf]
    )
    assert len(full.situations) == 2
    assert full.source_rows.tolist() == [0, 1, 3, 4]
    # 2 e^b / (2 e^b + 1) three times with 1 of 3, e^b / (e^b + 1) with 1 of 2
    fit = fit_logit(full).expect()
    odds = np.exp(fit.contrast("x1").value)
    assert 3 * 2 * odds / (2 * odds + 1) + 2 * odds / (odds + 1) == pytest.approx(2)


def test_counts_are_repetitions_and_robust_errors_are_those_of_single_choices():
    rng = np.random.default_rng(3)
    first, second, counts, _ = draw_battles(rng, 200)
    once = ChoiceProblem.from_battles(first, second, counts, items=list("abcd"), merge=False)
    merged = ChoiceProblem.from_battles(first, second, counts, items=list("abcd"))
    assert len(merged.situations) < len(once.situations)
    fits = [fit_logit(problem).expect() for problem in (once, merged)]
    for name in ("value", "standard_error", "robust_error"):
        a, b = (getattr(fit.contrast("a", "b"), name) for fit in fits)
        assert a == pytest.approx(b, abs=1e-10)
    alone = fits[0].robust_covariance(np.arange(200))  # CR2, which is larger by some hundredths
    gap = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    assert 1.0 < gap @ alone @ gap / (gap @ fits[0].robust_covariance() @ gap) < 1.05


def test_errors_say_what_where_and_what_to_do():
    with pytest.raises(InvalidSamples, match="row 1 is not finite"):
        ChoiceProblem.from_rows([[1.0], [np.nan]], [2], [1, 0])
    with pytest.raises(InvalidSamples, match="count 1 is -1"):
        ChoiceProblem.from_rows([[1.0], [0.0]], [2], [1, -1])
    with pytest.raises(InvalidSamples, match="there is no parameter 'y'"):
        fit_logit(ChoiceProblem.from_rows([[1.0], [0.0]], [2], [1, 1])).contrast("y")
    rows = np.zeros((8, 2))
    rows[::2] = [[0, 0], [1, 1], [2, 2 + 1e-12], [3, 3]]  # columns that differ by 1e-12: too little to tell
    fit = fit_logit(ChoiceProblem.from_rows(rows, [2] * 4, [0, 1, 0, 1, 1, 0, 1, 0]))
    with pytest.raises(UncertifiedSolution, match="treated as equal"):
        fit.expect()


@pytest.mark.parametrize("kernel", ["battles", "dense", "sparse"])
def test_a_fit_is_saved_with_its_vectors_and_proved_again(kernel, tmp_path):
    rng = np.random.default_rng(5)
    first, second, counts, features = draw_battles(rng, 40)
    counts[(first == 3) | (second == 3)] = [1, 0, 0]
    counts[second == 3] = [1, 0, 0]
    counts[first == 3] = [0, 1, 0]
    if kernel == "battles":
        options = {"items": list("abcd"), "features": features, "names": ["y", "z"]}
        problem = ChoiceProblem.from_battles(first, second, counts, **options)
    else:
        matrix = as_rows(first, second, counts, features, 4)
        matrix = csr_array(np.pad(matrix, ((0, 0), (0, 30)))) if kernel == "sparse" else matrix
        problem = ChoiceProblem.from_rows(matrix, [3] * 40, counts.ravel())
    fit = fit_logit(problem).expect()
    again = type(fit).load(fit.save(tmp_path / "fit"))
    assert again.certificate == fit.certificate
    assert np.array_equal(again.dying, fit.dying)
    name, other = problem.names[0], problem.names[3]
    assert str(again.contrast(name, other)) == str(fit.contrast(name, other))


def test_fractions_prove_what_integers_say():
    rng = np.random.default_rng(7)
    proved = 0
    for kind in KINDS * 6:
        case = draw_case(rng, kind)
        fit = fit_logit(problem_of(case))
        ranks = (fit.finite.rank, fit.identified.rank)
        if fit.problem.is_pair.any():
            assert prove_in_fractions(fit.problem, fit.dying, fit.evidence.direction, ranks)
            proved += 1
            lie = fit.dying.copy()
            some = np.flatnonzero(fit.problem.is_pair & (fit.problem.norms > 0) & ~fit.problem.also_chosen)
            if len(some):
                lie[some[0]] ^= True
                own = (span_of(fit.problem, ~lie).rank, ranks[1])
                assert not prove_in_fractions(fit.problem, lie, fit.evidence.direction, own)
    assert proved > 30


@pytest.mark.parametrize("many", [1e6, 1e12])
def test_counts_of_one_and_of_a_trillion_stand_side_by_side(many):
    rows = np.eye(4)[[0, 1, 1, 2, 2, 3]]
    fit = fit_logit(
        ChoiceProblem.from_rows(rows, [2, 2, 2], [3 * many, many, 2, 1, 1, many], names=list("abcd"))
    )
    assert fit.expect().contrast("a", "b").value == pytest.approx(np.log(3), abs=1e-12)
    assert fit.contrast("b", "c").value == pytest.approx(np.log(2), abs=1e-9)
    assert fit.contrast("b", "c").standard_error == pytest.approx(np.sqrt(1.5), rel=1e-8)
    assert fit.contrast("d", "c").value == pytest.approx(np.log(many), rel=1e-9)
