"""The Graph-SVM of factored weights: laws, closed forms, an independent solver, edge cases."""

import time

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog, minimize

import attomaton as at
from attomaton.base.errors import InvalidEmbeddings, UncertifiedSolution, UnsupportedOption
from attomaton.graphs.separation import separate
from attomaton.solvers.hard.reference import Clarabel
from attomaton.solvers.norms.certify import certify_weights, lower_bound, repair_weights
from attomaton.solvers.norms.interior import InteriorPoint
from attomaton.solvers.norms.problem import factored_problem
from attomaton.solvers.norms.solve import solve_factored
from tests.drawn import components_of, embeddings_for, paper_draw, scores_of
from tests.strategies import embedded, ordered_sets, paper_draws, sample_sets, unit_rows, vectors


def with_any_rows(sets):
    """Samples with no embeddings, or with unit rows of 0, 1 or 16 dimensions more than there are tokens."""
    without = sets.map(lambda samples: (samples, None))
    return st.one_of(without, *(embedded(sets, more) for more in (0, 1, 16)))


def table_for(extra, seed, n_tokens):
    return None if extra is None else embeddings_for(seed, n_tokens, n_tokens + extra)


def explicit(embeddings, n_tokens):
    return np.eye(n_tokens) if embeddings is None else embeddings


def nuclear(weights):
    return np.linalg.norm(weights, "nuc")


def dense(weights):
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


def constraints_of(components, embeddings):
    """u_c v_cᵀ of every data edge: those of priorities, those of ties, shape (n, dim²) each."""
    priorities, ties = [], []
    for row in components.edges.rows.to_pylist():
        query, winner, loser = row["query"], row["winner"], row["loser"]
        tied = components.component(query, winner) == components.component(query, loser)
        direction = np.outer(embeddings[winner] - embeddings[loser], embeddings[query])
        (ties if tied else priorities).append(direction.ravel())
    size = embeddings.shape[1] ** 2
    return np.array(priorities).reshape(-1, size), np.array(ties).reshape(-1, size)


def solve_with_cvxpy(components, embeddings):
    """The definition, as a semidefinite program: its value."""
    priorities, ties = constraints_of(components, embeddings)
    weights = cp.Variable((embeddings.shape[1],) * 2)
    flat = cp.reshape(weights, (weights.size,), order="C")
    limits = [priorities @ flat >= 1, ties @ flat == 0] if len(ties) else [priorities @ flat >= 1]
    return cp.Problem(cp.Minimize(cp.normNuc(weights)), limits).solve(solver=cp.CLARABEL)


@given(with_any_rows(sample_sets(max_tokens=7)))
def test_every_draw_is_certified_and_meets_every_constraint(drawn):
    samples, embeddings = drawn
    components = components_of(samples)
    factored = solve_factored(components, embeddings=embeddings).expect()
    table, certificate = explicit(embeddings, samples.n_tokens), factored.certificate
    priorities, ties = constraints_of(components, table)
    flat = factored.weights.ravel()
    assert np.all(priorities @ flat >= 1 - 1e-9)
    assert np.all(np.abs(ties @ flat) <= 1e-9)
    scores = table @ factored.weights @ table.T
    for (query, token), score in scores_of(factored).items():
        assert score == pytest.approx(scores[token, query], abs=1e-9)
    assert certificate.lower <= certificate.upper * (1 + 1e-12)
    assert certificate.upper == pytest.approx(nuclear(factored.weights), rel=1e-9, abs=1e-12)
    assert factored.rank <= len(components.queries)


@pytest.mark.parametrize(("seed", "n_tokens", "extra"), [(0, 4, None), (1, 5, 0), (2, 5, 3), (3, 6, None)])
def test_an_independent_solver_agrees(seed, n_tokens, extra):
    components = components_of(paper_draw(seed, n_tokens=n_tokens, window=3))
    embeddings = table_for(extra, seed, n_tokens)
    factored = solve_factored(components, embeddings=embeddings).expect()
    known = solve_with_cvxpy(components, explicit(embeddings, n_tokens))
    assert factored.certificate.upper == pytest.approx(known, rel=1e-4)


@given(unit_rows(6, 8), st.permutations(range(6)), st.floats(-2, 2))
def test_one_priority_has_its_closed_form(rows, order, exponent):
    embeddings, (winner, query) = 10**exponent * rows, order[:2]
    components = components_of(at.Samples.from_lists([[winner, query]], [winner], n_tokens=6))
    factored = solve_factored(components, embeddings=embeddings).expect()
    left, right = embeddings[winner] - embeddings[query], embeddings[query]
    known = np.outer(left, right) / ((left @ left) * (right @ right))
    np.testing.assert_allclose(factored.weights, known, atol=1e-6 * np.abs(known).max())
    assert factored.rank == 1
    assert factored.certificate.upper == pytest.approx(np.linalg.norm(known), rel=1e-6)


@given(st.integers(1, 20))
def test_one_winner_over_every_query_has_its_closed_form(n_queries):
    """Token 0 beats query k under k = 1 … m: W = w 1ᵀ, so 0 also beats tokens never seen beside it."""
    queries = range(1, n_queries + 1)
    components = components_of(at.Samples.from_lists([[0, query] for query in queries], [0] * n_queries))
    factored = solve_factored(components).expect()
    assert factored.certificate.upper == pytest.approx(n_queries / np.sqrt(n_queries + 1), rel=1e-6)
    known = np.full((n_queries + 1, n_queries), -1 / (n_queries + 1))
    known[0] = n_queries / (n_queries + 1)
    np.testing.assert_allclose(factored.weights[:, 1:], known, atol=1e-3)


@given(embedded(sample_sets(max_tokens=6, min_samples=4)))
def test_under_one_query_it_is_the_graph_svm(drawn):
    samples, embeddings = drawn
    contexts = [[*context, 0] for context, _ in samples]
    samples = at.Samples.from_lists(contexts, samples.labels.tolist(), n_tokens=samples.n_tokens)
    components = components_of(samples)
    factored = solve_factored(components, embeddings=embeddings).expect()
    hard = at.solve_graph_svm(components, embeddings=embeddings).expect()
    assert factored.certificate.upper == pytest.approx(np.linalg.norm(hard.weights), rel=1e-5, abs=1e-9)
    scale = max(1.0, np.abs(hard.weights).max())
    np.testing.assert_allclose(factored.weights, hard.weights, atol=5e-3 * scale)


@given(with_any_rows(ordered_sets()))
def test_its_nuclear_norm_is_less_and_its_frobenius_norm_more_than_the_graph_svms(drawn):
    samples, embeddings = drawn
    components = components_of(samples)
    factored = solve_factored(components, embeddings=embeddings).expect()
    hard = dense(at.solve_graph_svm(components, embeddings=embeddings).expect().weights)
    assert nuclear(factored.weights) <= nuclear(hard) * (1 + 1e-6)
    assert np.linalg.norm(factored.weights) >= np.linalg.norm(hard) * (1 - 1e-6)


@given(with_any_rows(ordered_sets()), st.data())
def test_no_multipliers_prove_more_than_any_answer_has(drawn, data):
    samples, embeddings = drawn
    components, table = components_of(samples), explicit(embeddings, samples.n_tokens)
    problem, _, _ = factored_problem(components, table)
    upper = solve_factored(components, embeddings=table).expect().certificate.upper
    weights, multipliers = InteriorPoint().solve_factored(problem)
    pressed, moved_by = data.draw(vectors(len(multipliers))), data.draw(vectors(*weights.shape))
    for size in (0.0, 1e-3, 1.0, 1e3):
        noisy = multipliers + size * pressed
        assert lower_bound(problem, noisy, "nuclear") <= upper * (1 + 1e-9)
        moved = repair_weights(problem, weights + size * moved_by)
        certificate = certify_weights(problem, moved, noisy, norm="nuclear", rtol=1e-6)
        assert certificate.lower <= certificate.upper * (1 + 1e-9)
        assert certificate.upper >= upper * (1 - 2e-6)


@given(embedded(ordered_sets(), more=4))
def test_multipliers_press_on_tight_priorities_and_add_up_to_the_lower_bound(drawn):
    samples, embeddings = drawn
    components = components_of(samples)
    factored = solve_factored(components, embeddings=embeddings).expect()
    multipliers = factored.multipliers.to_pylist()
    assert [(row["above"], row["below"]) for row in multipliers] == [
        (row["above"], row["below"]) for row in components.order.to_pylist()
    ]
    scores = np.zeros(len(components))
    scores[components.component_of_node] = factored.scores.column("score").to_numpy()
    slack = sum(row["multiplier"] * (scores[row["above"]] - scores[row["below"]] - 1) for row in multipliers)
    total = sum(row["multiplier"] for row in multipliers)
    assert total == pytest.approx(factored.certificate.lower, rel=1e-12)
    assert -1e-9 * total <= slack <= 1e-6 * total


@given(embedded(paper_draws().filter(lambda one: components_of(one).order.num_rows > 0)), st.floats(-3, 3))
def test_the_length_of_embeddings_scales_weights_and_bounds(drawn, exponent):
    (samples, embeddings), factor = drawn, 10**exponent
    components = components_of(samples)
    one = solve_factored(components, embeddings=embeddings).expect()
    other = solve_factored(components, embeddings=factor * embeddings).expect()
    assert other.certificate.upper == pytest.approx(one.certificate.upper / factor**2, rel=1e-6)
    assert nuclear(other.weights) == pytest.approx(other.certificate.upper, rel=1e-9)
    assert np.vdot(other.weights, one.weights) > 0.999 * np.linalg.norm(other.weights) * np.linalg.norm(
        one.weights
    )


@given(paper_draws(n_samples=6), st.integers(2, 6).flatmap(lambda dim: unit_rows(6, dim)))
def test_dependent_embeddings_are_certified_exactly_where_the_constraints_can_be_met(samples, rows):
    embeddings, dim = rows[: samples.n_tokens], rows.shape[1]
    components = components_of(samples)
    priorities, ties = constraints_of(components, embeddings)
    feasible = linprog(
        np.zeros(dim**2),
        A_ub=-priorities,
        b_ub=-np.ones(len(priorities)),
        A_eq=ties if len(ties) else None,
        b_eq=np.zeros(len(ties)) if len(ties) else None,
        bounds=(None, None),
    ).success
    factored = solve_factored(components, embeddings=embeddings)
    assert (factored.status is at.base.Status.CERTIFIED) == feasible
    if not feasible:
        with pytest.raises(UncertifiedSolution, match="relative gap inf"):
            factored.expect()
        merged = separate(components, embeddings).components
        assert solve_factored(merged, embeddings=embeddings).certificate.lower < np.inf


def test_queries_interact_even_without_embeddings():
    components = components_of(at.Samples.from_lists([[0, 1], [0, 2]], [0, 0]))
    alone = at.solve_graph_svm(components).expect().scores.column("score").to_numpy()
    together = solve_factored(components).expect().scores.column("score").to_numpy()
    np.testing.assert_allclose(alone, [1 / 2, -1 / 2, 1 / 2, -1 / 2])
    np.testing.assert_allclose(together, [2 / 3, -1 / 3, 2 / 3, -1 / 3], atol=1e-3)


@pytest.mark.parametrize("embeddings", [None, np.eye(3)])
def test_without_priorities_the_answer_is_zero(embeddings):
    samples = at.Samples.from_lists([[0, 0], [1, 2, 1], [2, 2, 1]], [0, 1, 2])
    factored = solve_factored(components_of(samples), embeddings=embeddings).expect()
    assert not factored.weights.any()
    assert factored.rank == factored.certificate.upper == factored.certificate.lower == 0


def test_without_samples_the_answer_is_zero():
    factored = solve_factored(components_of(at.Samples.from_lists([], [], n_tokens=3))).expect()
    assert factored.weights.shape == (3, 3)
    assert factored.rank == factored.scores.num_rows == factored.multipliers.num_rows == 0


def test_a_solver_that_stops_early_is_not_certified():
    factored = solve_factored(components_of(paper_draw(0)), solver=InteriorPoint(max_steps=2))
    assert factored.status is at.base.Status.UNCERTIFIED
    with pytest.raises(UncertifiedSolution, match="relative gap"):
        factored.expect()


def test_what_is_not_a_number_or_not_feasible_has_no_certificate():
    problem, _, _ = factored_problem(components_of(paper_draw(0)), np.eye(6))
    weights, multipliers = InteriorPoint().solve_factored(problem)
    weights = repair_weights(problem, weights)
    options = {"norm": "nuclear", "rtol": 1e-6}
    assert certify_weights(problem, weights, multipliers, **options).certified
    assert not certify_weights(problem, 0.999 * weights, multipliers, **options).certified
    assert not certify_weights(
        problem, np.full_like(weights, np.nan), multipliers, norm="nuclear", rtol=1e-6
    ).certified
    assert not certify_weights(problem, weights, 0 * multipliers, **options).certified


def test_wrong_options_are_refused():
    components = components_of(paper_draw(0))
    with pytest.raises(UnsupportedOption, match=r"Clarabel.*use InteriorPoint"):
        solve_factored(components, solver=Clarabel())
    with pytest.raises(InvalidEmbeddings, match=r"not \(6, dim\)"):
        solve_factored(components, embeddings=np.eye(5))


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("dim", [None, 64, 80])
def test_64_tokens_take_less_than_a_minute(dim):
    components = components_of(paper_draw(0, n_tokens=64, n_samples=300, window=8))
    embeddings = None if dim is None else embeddings_for(1, 64, dim)
    start = time.perf_counter()
    factored = solve_factored(components, embeddings=embeddings).expect()
    seconds = time.perf_counter() - start
    assert seconds < 60, f"{seconds:.1f} s: {factored}"
    assert factored.rank < 32


LARGE = st.one_of(paper_draws(n_tokens=32, n_samples=160, window=6, repeats=one) for one in (False, True))


@pytest.mark.slow
@given(with_any_rows(LARGE))
def test_larger_draws_are_certified(drawn):
    samples, embeddings = drawn
    solve_factored(components_of(samples), embeddings=embeddings).expect()


def penalised_loss(factors, samples, decay):
    """Mean log-loss of W = K Qᵀ plus ½ decay (‖K‖² + ‖Q‖²), and its gradient (identity embeddings)."""
    keys, queries = factors.reshape(2, samples.n_tokens, -1)
    weights, slope, loss = keys @ queries.T, np.zeros((samples.n_tokens,) * 2), 0.0
    for context, label in samples:
        tokens = np.array(context)
        raised = np.exp(weights[tokens, tokens[-1]] - weights[tokens, tokens[-1]].max())
        mass = raised / raised.sum()
        right = np.where(tokens == label, mass, 0.0)
        loss -= np.log(right.sum()) / len(samples)
        np.add.at(slope, (tokens, tokens[-1]), (mass - right / right.sum()) / len(samples))
    gradient = np.stack([slope @ queries, slope.T @ keys]).ravel()
    return loss + decay / 2 * factors @ factors, gradient + decay * factors


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_training_the_factors_with_weight_decay_tends_to_it_and_not_to_the_graph_svm(seed):
    samples = at.synthetic.draw_acyclic(np.random.default_rng(seed), n_tokens=5, n_samples=8, window=3)
    components, rng = components_of(samples), np.random.default_rng(0)
    factored = solve_factored(components).expect().weights
    hard = dense(at.solve_graph_svm(components).expect().weights)

    def cosine(one, other):
        return np.vdot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other))

    factors, reached = 0.1 * rng.normal(size=50), []
    for decay in 10.0 ** -np.arange(1, 10):
        options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-4 * decay}
        start = factors + 1e-3 * rng.normal(size=50)
        factors = minimize(
            penalised_loss, start, (samples, decay), jac=True, method="L-BFGS-B", options=options
        ).x
        keys, queries = factors.reshape(2, 5, 5)
        reached.append(keys @ queries.T)
    errors = [1 - cosine(weights, factored) for weights in reached]
    assert errors[-1] < 0.003
    assert errors[-1] < errors[5] < errors[3]
    assert 1 - cosine(reached[-1], hard) > 5 * errors[-1]


def test_the_norm_is_a_choice_of_solve_graph_svm():
    components, table = components_of(paper_draw(0)), np.random.default_rng(0).normal(size=(6, 8))
    for embeddings in (None, table):
        one = at.solve_graph_svm(components, embeddings=embeddings, norm="nuclear").expect()
        other = solve_factored(components, embeddings=embeddings)
        assert one.scores.equals(other.scores)
        np.testing.assert_array_equal(one.weights, other.weights)
        plain = at.solve_graph_svm(components, embeddings=embeddings)
        named = at.solve_graph_svm(components, embeddings=embeddings, norm="frobenius")
        assert named.scores.equals(plain.scores)
        weights = plain.weights if embeddings is not None else plain.weights.toarray()
        assert one.certificate.lower <= np.linalg.norm(weights, "nuc") * (1 + 1e-9)
    loose = at.solve_graph_svm(components, norm="nuclear", rtol=1e-3, solver=InteriorPoint(rtol=1e-4))
    assert loose.certificate.certified


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"norm": "max"}, "the norm is 'max'; give 'frobenius' or 'nuclear'"),
        ({"norm": None}, "give 'frobenius' or 'nuclear'"),
        (
            {"norm": "nuclear", "solver": Clarabel()},
            "cannot minimise the nuclear norm; use InteriorPoint",
        ),
        ({"solver": InteriorPoint()}, "give norm='nuclear' with it"),
        ({"norm": "nuclear", "rtol": 0.0}, "rtol"),
        ({"norm": "nuclear", "threads": 1}, "leave them out for 'nuclear'"),
    ],
)
def test_a_norm_with_what_does_not_fit_it_is_refused(options, said):
    with pytest.raises(UnsupportedOption, match=said):
        at.solve_graph_svm(components_of(paper_draw(0)), **options)
