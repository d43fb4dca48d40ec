"""Contexts with given features: proofs either way, and gradient descent beside them."""

import cvxpy as cp
import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, UncertifiedSolution, UnsupportedOption
from attomaton.theories.decoder.closed_form import direct_column, find_finite, squared_norm
from attomaton.theories.decoder.compatibility import find_compatibility
from attomaton.theories.decoder.features import law_of, solve_decoder
from attomaton.theories.decoder.supports import Supports, count_supports
from attomaton_experiments.decoder_claims import find_excess, train_decoder
from tests.theories.decoder.draws import draw_supports
from tests.theories.decoder.flow import follow_flow


def by_program(supports):
    """The NTP-SVM of one-hot contexts as cvxpy solves it, shape (n_tokens, n_contexts)."""
    inside = law_of(supports) > 0
    weights = cp.Variable((supports.n_tokens, len(supports)))
    rules = []
    for context, row in enumerate(inside):
        first, column = int(np.argmax(row)), weights[:, context]
        rules += [column[token] == column[first] for token in np.flatnonzero(row)[1:]]
        rules += [column[first] - column[token] >= 1 for token in np.flatnonzero(~row)]
    cp.Problem(cp.Minimize(cp.sum_squares(weights)), rules).solve(solver="CLARABEL")
    return weights.value


def check_one_hot(trials, seed, *, program):
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        supports = draw_supports(rng)
        limit = solve_decoder(supports, np.eye(len(supports))).expect()
        direction = np.array([direct_column(supports, number) for number in range(len(supports))]).T
        finite = np.zeros(direction.shape)
        finite[supports.tokens, supports.row] = find_finite(supports)
        assert limit.separable
        assert limit.compatible
        assert np.abs(limit.direction - direction).max() < 1e-9
        assert np.abs(limit.finite - finite).max() < 1e-8
        assert limit.squared_norm == pytest.approx(squared_norm(supports), abs=1e-9)
        if program and direction.any():
            assert np.abs(by_program(supports) - direction).max() < 1e-5


def test_closed_forms_equal_the_joint_solver_and_cvxpy():
    check_one_hot(10, 0, program=True)


@pytest.mark.slow
def test_closed_forms_equal_the_joint_solver_and_cvxpy_on_200():
    check_one_hot(200, 1, program=True)


KINDS = ("few", "many", "dependent")


def draw_features(rng, n_contexts, kind):
    """d < m, d > m, and d = m with rank below it."""
    if kind == "few":
        return rng.normal(size=(n_contexts, n_contexts - 1))
    if kind == "many":
        return rng.normal(size=(n_contexts, n_contexts + 2))
    return rng.normal(size=(n_contexts, n_contexts - 2)) @ rng.normal(size=(n_contexts - 2, n_contexts))


def draw_small(rng, kind):
    """Six contexts over five tokens, with supports of at most three."""
    while True:
        supports = draw_supports(rng, n_tokens=5, n_contexts=6, positions=6000, even=True)
        if supports.sizes.max() < 4:
            return supports, draw_features(rng, 6, kind)


def assert_proved(limit):
    """Both answers follow from the proofs, taken by themselves."""
    found, supports, features = limit.compatibility, limit.supports, limit.features
    wanted = np.log(supports.probabilities[found.first] / supports.probabilities[found.second])
    tokens, contexts = supports.tokens, supports.row[found.first]
    if limit.compatible:
        scores = features @ found.weights.T
        told = scores[contexts, tokens[found.first]] - scores[contexts, tokens[found.second]]
        assert np.allclose(told, wanted, atol=1e-6)
    else:
        total = np.zeros((supports.n_tokens, features.shape[1]))
        np.add.at(total, tokens[found.first], found.contradiction[:, None] * features[contexts])
        np.add.at(total, tokens[found.second], -found.contradiction[:, None] * features[contexts])
        assert np.abs(total).max() < 1e-8
        assert found.contradiction @ wanted > 1e-6
    inside, scores = law_of(supports) > 0, features @ limit.direction.T
    gaps = np.where(inside, scores, np.inf).min(axis=1)[:, None] - scores
    merged = limit.solved.merged
    assert (gaps[~merged] >= 1 - 1e-6).all()
    assert np.abs(np.where(merged, gaps, 0)).max() < 1e-6
    assert (merged == inside).all() == limit.separable
    if not limit.separable:
        separation = limit.solved.separation
        assert separation.multipliers.max() > 0
        assert separation.residual < 1e-9


def follow_all(limits, steps):
    """Gradient descent of all at once, η = 1/largest curvature each: W at these steps and the step sizes."""
    features = np.array([one.features for one in limits])
    laws = np.array([law_of(one.supports) for one in limits])
    shares = np.array([one.supports.shares for one in limits])
    sizes = np.array(
        [1.0 / np.linalg.eigvalsh((h.T * share) @ h)[-1] for h, share in zip(features, shares, strict=True)]
    )
    rates, weights = (sizes[:, None] * shares)[..., None], np.zeros((len(limits), 5, features.shape[2]))
    turned, kept = features.transpose(0, 2, 1), []
    for step in range(1, steps[-1] + 1):
        logits = features @ weights.transpose(0, 2, 1)
        raised = np.exp(logits - logits.max(axis=2, keepdims=True))
        pull = rates * (laws - raised / raised.sum(axis=2, keepdims=True))
        weights = weights + (turned @ pull).transpose(0, 2, 1)
        if step in steps:
            kept.append(weights)
    return kept, sizes


def cosine_of(one, other):
    return (one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other)


def measure_excess(limit, weights):
    """CE of a W less the limit of the loss, with all its digits where the limit is the entropy."""
    return find_excess(limit.supports, limit.features @ weights.T) - (limit.loss - limit.entropy)


def check_flow(limit):
    """Where descent cannot get in time its flow does: W grows by W^mm for each factor e of time."""
    given = limit.features, law_of(limit.supports), limit.supports.shares
    early, late = follow_flow(*given, times=(1e9, 1e11))
    grown = (late - early) / np.log(100)
    if limit.direction.any():
        assert cosine_of(grown, limit.direction) > 0.995
        assert np.linalg.norm(grown) == pytest.approx(np.linalg.norm(limit.direction), rel=0.05)
    else:
        assert np.abs(grown).max() < 1e-3


def check_given(trials, seed, steps, flows):
    """Every instance is certified or refuted; training goes where the limit says."""
    rng = np.random.default_rng(seed)
    counts = {"separable": 0, "compatible": 0, "growing": 0, "near": 0, "loss": 0, "still": 0, "ended": 0}
    for kind in KINDS:
        limits = [solve_decoder(*draw_small(rng, kind)).expect() for _ in range(trials)]
        for limit in limits:
            assert_proved(limit)
            counts["separable"] += limit.separable
            counts["compatible"] += limit.compatible
            assert kind != "many" or (limit.separable and limit.compatible)
        (early, late), sizes = follow_all(limits, steps)
        for limit, first, last, size in zip(limits, early, late, sizes, strict=True):
            grown = (last - first) / np.log(steps[1] / steps[0])
            if not limit.direction.any():
                counts["ended"] += abs(measure_excess(limit, last)) < 0.01
                counts["still"] += 1
                continue
            counts["growing"] += 1
            counts["near"] += cosine_of(grown, limit.direction) > 0.98
            excess = steps[1] * size * measure_excess(limit, last) / limit.squared_norm
            counts["loss"] += abs(excess - 1) < 0.1
        for limit in limits[:flows]:
            check_flow(limit)
    return counts


def test_the_flow_is_where_descent_is():
    rng = np.random.default_rng(4)
    for kind in KINDS:
        limit = solve_decoder(*draw_small(rng, kind))
        (early, late), (size,) = follow_all([limit], (300, 3000))
        given = limit.features, law_of(limit.supports), limit.supports.shares
        flown = follow_flow(*given, times=(300 * size, 3000 * size), growth=1.02)
        for one, other in zip((early[0], late[0]), flown, strict=True):
            assert np.abs(one - other).max() < 0.02 * np.abs(one).max()


@pytest.mark.slow  # trains
def test_given_features_are_certified_or_refuted_and_training_follows():
    counts = check_given(6, 0, (2000, 6000), 2)
    assert 0 < counts["separable"] < 18
    assert counts["near"] >= 0.6 * counts["growing"]


@pytest.mark.slow
def test_given_features_on_201():
    """Where the margin is small descent is slow, and shares are counted; the flow gets there in all."""
    counts = check_given(67, 1, (30_000, 90_000), 67)
    assert counts["near"] >= 0.85 * counts["growing"]
    assert counts["loss"] >= 0.7 * counts["growing"]
    assert counts["ended"] == counts["still"]


def test_features_by_label_give_the_contexts_that_they_tell_apart():
    corpus = [[0, 1, 0, 2, 0, 1], [2, 0]]
    table = np.eye(3)[[0, 1, 0, 2, 0, 2]]  # the token before each label, one-hot
    found, plain = at.learn_decoder(corpus, table), at.learn_decoder(corpus)
    assert found.supports.totals.sum() == plain.supports.n_positions
    for token in range(3):
        assert np.allclose(found.predict_proba(np.eye(3)[token]), plain.predict_proba([token]))
    assert found.loss == pytest.approx(plain.entropy)
    assert "entropy" in str(found)
    assert "entropy" in found._repr_html_()
    assert found.to_dict()["certified"]
    with pytest.raises(MismatchedParts, match="6"):
        at.learn_decoder(corpus, table[:5])
    for wrong in (table[0], np.full((6, 2), np.nan), [["a"]] * 6):
        with pytest.raises(UnsupportedOption):
            at.learn_decoder(corpus, wrong)


def test_training_with_one_hot_features_is_training():
    supports = draw_supports(np.random.default_rng(3))
    one, other = (train_decoder(supports, [7, 40], features=h) for h in (None, np.eye(len(supports))))
    assert np.allclose(one.weights, other.weights)
    assert np.allclose(one.excesses, other.excesses)


def test_without_ties_everything_is_compatible():
    supports = at.learn_decoder([[0, 1, 2, 0]]).supports
    assert find_compatibility(supports, np.ones((3, 1))).compatible


def test_the_length_of_features_makes_no_difference_to_the_limit():
    supports = at.learn_decoder([[0, 1, 2, 0]]).supports
    limit = solve_decoder(supports, np.eye(len(supports)))
    for one in np.eye(len(supports)):
        assert np.allclose(limit.predict_proba(one), limit.predict_proba(1e-9 * one))


def test_a_context_without_features_cannot_have_unequal_odds():
    """0 = ln 3 is a contradiction by itself, beside an equation that can be met."""
    ends, tokens, counts = np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1, 3, 1, 3])
    supports = Supports(np.zeros((2, 0), np.int32), ends, tokens, counts, 2)
    found = find_compatibility(supports, np.array([[0.0], [1.0]]))
    assert found.decided
    assert not found.compatible
    rng = np.random.default_rng(0)
    for _ in range(60):
        drawn = draw_supports(rng, n_tokens=4, n_contexts=5, positions=600, even=True)
        assert find_compatibility(drawn, np.round(rng.normal(size=(5, 3)))).decided


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-6, 1e-8, 1e-11, 1e-15])
def test_contexts_that_are_nearly_equal_are_certified_or_called_uncertified(apart):
    """With rows of condition 10⁶ the finite part still has its digits; further on it says what it lacks."""
    rng = np.random.default_rng(0)
    supports = draw_supports(rng, n_tokens=4, n_contexts=3)
    features = rng.normal(size=(len(supports), 5))
    features[1] = features[0] + apart * rng.normal(size=5)
    limit = solve_decoder(supports, features)
    assert limit.certified or apart < 1e-6
    if limit.certified and apart >= 1e-6:
        scores = limit.features @ limit.finite.T
        for context in range(len(supports)):
            inside = supports.tokens[supports.row == context]
            counts = supports.counts[supports.row == context]
            odds = np.log(counts / counts[0])
            found = scores[context, inside] - scores[context, inside[0]]
            assert found == pytest.approx(odds, abs=1e-6)


def test_more_pairs_than_can_be_solved_are_refused():
    size = 400
    supports = count_supports([np.arange(size).tolist() * 2], 1)
    with pytest.raises(UnsupportedOption, match="160,000 pairs"):
        solve_decoder(supports, np.eye(size))


def test_the_loss_at_a_step_is_its_limit_and_the_excess():
    supports = count_supports([[0, 2, 0, 2, 1, 0]], 1)
    limit = solve_decoder(supports, np.eye(3))
    assert limit.loss_at(10**6, 0.5) == pytest.approx(limit.loss + limit.squared_norm / (0.5 * 10**6))


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 0.0], [1.0, 1e-7]],
        np.array([[1.0, 0.0], [1.0, 1e-6]], np.float32),
        [[1000.0, 0.0], [1000.0, 1e-3]],
    ],
)
def test_nearly_equal_contexts_are_answered_from_the_solution(rows):
    """1 follows the first and 2 the second; both lie inside any tolerance relative to the length of W^mm."""
    rows = np.array(rows)
    limit = at.learn_decoder([[0, 1, 2, 1, 2]], rows[[0, 1, 0, 1]]).expect()
    assert limit.separable
    assert limit.loss == 0
    assert limit.predict_proba(rows[0]).tolist() == [0, 1, 0]
    assert limit.predict_proba(rows[1]).tolist() == [0, 0, 1]
    assert limit.explain(0).tokens == ("1",)
    with pytest.raises(UncertifiedSolution, match="growing score"):
        limit.predict_proba(rows.astype(np.float64).mean(axis=0))


@pytest.mark.slow  # campaign
@pytest.mark.filterwarnings("error")
def test_what_is_certified_agrees_with_its_own_loss():
    rng, counts = np.random.default_rng(9), {"certified": 0, "all": 0}
    for _ in range(40):
        n_tokens, n_rows, dim = (int(rng.integers(*ends)) for ends in ((2, 6), (2, 6), (1, 7)))
        rows, apart = rng.normal(size=(n_rows, dim)), 10.0 ** -rng.integers(1, 11)
        rows[1] = rows[0] + apart * rng.normal(size=dim)
        place = np.append([0, 1], rng.integers(0, n_rows, int(rng.integers(1, 13))))
        labels = np.append(n_tokens - 1, rng.integers(0, n_tokens, len(place) - 1))
        limit = at.learn_decoder([[0, *labels.tolist()]], rows[place])
        probabilities = [
            limit.predict_proba(rows[row])[label] for row, label in zip(place, labels, strict=True)
        ]
        counts["all"] += 1
        if limit.certified:
            counts["certified"] += 1
            assert -np.log(probabilities).mean() == pytest.approx(limit.loss, abs=1e-6)
    assert counts["certified"] > 0.6 * counts["all"]


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e8])
def test_scaled_features_are_certified_as_often_as_unscaled_ones(scale):
    rng = np.random.default_rng(3)
    for _ in range(12):
        rows = rng.normal(size=(4, int(rng.integers(1, 5))))
        place, labels = rng.integers(0, 4, 12), np.append(3, rng.integers(0, 4, 11))
        plain, scaled = (at.learn_decoder([[0, *labels.tolist()]], (by * rows)[place]) for by in (1, scale))
        assert plain.certified
        assert scaled.certified
        assert scaled.separable == plain.separable
        assert scaled.loss == pytest.approx(plain.loss, abs=1e-9)
        assert np.allclose(scale * scaled.direction, plain.direction, rtol=1e-4, atol=1e-4)
        assert np.allclose(scale * scaled.finite, plain.finite, rtol=1e-5, atol=1e-5)
        for row in rows[np.unique(place)]:
            assert np.allclose(scaled.predict_proba(scale * row), plain.predict_proba(row), atol=1e-6)


def test_features_of_no_context_are_answered_where_the_limit_is_proved():
    supports = count_supports([[0, 1, 0, 1, 0, 2, 3, 1]], 1)  # after 0: 1 twice and 2 once
    limit = solve_decoder(supports, 2 * np.eye(len(supports), 5)).expect()
    half = limit.predict_proba([1.0, 0, 0, 0, 0])  # of context 0, so that its log-odds are halved
    assert half == pytest.approx(np.array([0, 2**0.5, 1, 0]) / (1 + 2**0.5))
    assert limit.predict_proba([0.0, 0, 0, 0, 7]) == pytest.approx(
        np.full(4, 0.25)
    )  # no row has this: W h = 0
    assert limit.predict_proba(np.zeros(5)) == pytest.approx(np.full(4, 0.25))
    single = solve_decoder(count_supports([[0, 1]], 1, 4), [[1.0]])
    assert single.predict_proba([-3.0]) == pytest.approx(
        [1 / 3, 0, 1 / 3, 1 / 3]
    )  # nothing tells these apart


def test_tokens_that_meet_between_contexts_are_refused():
    """Where 1 and 2 grow alike between their contexts, how they share is no matter of W^mm and W*."""
    limit = solve_decoder(count_supports([[0, 1, 0, 1, 3, 2]], 1), np.eye(3))
    between = limit.features[0] + limit.features[2]
    with pytest.raises(UncertifiedSolution, match="2 tokens"):
        limit.predict_proba(between)
