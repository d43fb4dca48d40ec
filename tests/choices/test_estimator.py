"""LogisticRegression: scikit-learn's checks, the engine behind it, and limits where they are infinite."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Penalised
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import attomaton as at
from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnsupportedOption
from attomaton.choices import ContrastKind, LogisticRegression, LogitFit, binary_logit, fit_logit, long_table
from attomaton.choices.logit.certificate import LogitState
from attomaton.choices.logit.prediction import predict_rows
from attomaton.choices.logit.rows import Situations


def expected_failures(estimator):
    """The checks that cannot hold, and why."""
    if estimator.undecided == "descent":
        return {}
    why = "it asks for rows that were not fitted (weight 0), which the fitted rows leave open"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        LogisticRegression(),
        LogisticRegression(undecided="descent"),
        LogisticRegression(fit_intercept=False),
        LogisticRegression(penalty="firth"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(rng, n_labels=2, n_cases=None):
    """Small whole numbers, often separated."""
    X = rng.integers(-2, 3, (n_cases or rng.integers(6, 14), rng.integers(1, 4))).astype(float)
    y = np.concatenate([np.arange(n_labels), rng.integers(0, n_labels, len(X) - n_labels)])
    return X, y


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_are_those_of_check_separation(seed, intercept):
    X, y = draw(np.random.default_rng(seed), 2 + seed % 2)
    model = LogisticRegression(fit_intercept=intercept).fit(X, y)
    answer = at.check_separation(X, y, intercept=intercept)
    values = np.array([one.value for one in answer.coefficients]).reshape(len(model.classes_) - 1, -1)
    own = np.column_stack([model.intercept_, model.coef_]) if intercept else model.coef_
    np.testing.assert_allclose(own, values, atol=1e-7)
    errors = np.array([one.standard_error or np.nan for one in answer.coefficients]).reshape(values.shape)
    own = [model.intercept_standard_errors_, model.coef_standard_errors_][not intercept :]
    np.testing.assert_allclose(np.column_stack(own), errors, rtol=1e-6, atol=1e-7)
    assert model.separation_ == answer.separation == answer.fit.separation
    assert model.certificate_.certified == answer.fit.certificate.certified


def penalised_loss(beta, X, y):
    """−ln likelihood − ½ ln det of the information, with labels 0 and 1."""
    utilities = X @ beta
    p = 1 / (1 + np.exp(-utilities))
    information = (X.T * (p * (1 - p))) @ X
    return np.logaddexp(0, utilities).sum() - y @ utilities - np.linalg.slogdet(information)[1] / 2


@pytest.mark.parametrize("seed", range(8))
def test_firth_is_the_minimum_of_the_penalised_loss(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2))
    y = (X[:, 0] > 0).astype(int)  # separated by the first column
    model = LogisticRegression(penalty="firth").fit(X, y)
    assert model.separation_ == "complete"
    rows = np.column_stack([np.ones(len(X)), X])
    best = minimize(penalised_loss, np.zeros(3), (rows, y), tol=1e-12).x
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_[0]), best, atol=1e-4)
    new = np.column_stack([np.ones(5), rng.normal(size=(5, 2))])
    expected = 1 / (1 + np.exp(-new @ best))
    np.testing.assert_allclose(model.predict_proba(new[:, 1:])[:, 1], expected, atol=1e-4)
    assert "Firth" in str(model.summary())


def test_firth_refuses_what_it_does_not_have():
    X, y = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [0, 1, 1]
    with pytest.raises(UnsupportedOption, match="penalty is 'l2'"):
        LogisticRegression(penalty="l2").fit(X, y)
    with pytest.raises(UnsupportedOption, match="gradient descent"):
        LogisticRegression(penalty="firth", undecided="descent").fit(X, y)
    model = LogisticRegression(penalty="firth").fit(X, y)
    assert np.isnan(model.coef_).all()  # the two columns are equal
    assert model.predict([[3.0, 3.0]]).tolist() == [1]
    with pytest.raises(UndeterminedChoice, match="do not determine"):
        model.predict([[3.0, 2.0]])
    with pytest.raises(UnsupportedOption, match="robust"):
        model.summary(robust=True)


@pytest.mark.parametrize("seed", range(20))
def test_probabilities_of_the_fitted_rows_are_the_limits_of_the_fit(seed):
    X, y = draw(np.random.default_rng(seed), 2 + seed % 2)
    size = 2 + seed % 2
    for undecided in ("refuse", "descent"):
        model = LogisticRegression(undecided=undecided).fit(X, y)
        expected = model.fit_.probabilities.reshape(-1, size)
        np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)


def by_contrasts(fit, rows):
    """The limits of probabilities by the class of every difference; None where one is open."""
    names = fit.problem.names
    left = []
    for row in rows:
        ahead = [fit.contrast(dict(zip(names, other - row, strict=True))) for other in rows]
        if not any(one.kind is ContrastKind.PLUS for one in ahead):
            left.append(ahead)
        else:
            left.append(None)
    odds = np.zeros(len(rows))
    for place, ahead in enumerate(left):
        if ahead is None:
            continue
        inside = [one for one, other in zip(ahead, left, strict=True) if other is not None]
        if any(one.kind is not ContrastKind.FINITE for one in inside):
            return None
        odds[place] = 1 / sum(np.exp(one.value) for one in inside)
    return odds


@pytest.mark.parametrize("seed", range(25))
def test_new_situations_by_the_classes_of_their_differences(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (rng.integers(4, 9) * 3, 3)).astype(float)
    chosen = np.eye(3)[rng.integers(0, 3, len(rows) // 3)].ravel()
    fit = fit_logit(long_table(np.repeat(np.arange(len(rows) // 3), 3), chosen, rows))
    for _ in range(6):
        new = rng.integers(-2, 3, (rng.integers(2, 5), 3)).astype(float)
        situations, expected = Situations(np.array([0, len(new)])), by_contrasts(fit, new)
        if expected is None:
            with pytest.raises(UndeterminedChoice, match="do not decide between two alternatives"):
                predict_rows(fit, new, situations)
        else:
            for matrix in (new, csr_array(new)):
                np.testing.assert_allclose(predict_rows(fit, matrix, situations), expected, atol=1e-9)
    weights = rng.integers(-2, 3, (20, 3))
    one_by_one = [fit.contrast(dict(zip(fit.problem.names, row, strict=True))).kind for row in weights]
    assert list(fit.classify(weights)) == one_by_one


def descend(X, y, steps=200_000):
    """Plain gradient descent from 0 on the logistic loss."""
    wide = np.column_stack([np.ones(len(X)), X])
    signed = wide * (2 * y - 1)[:, None]
    step, beta = 1.0 / np.linalg.norm(wide, 2) ** 2, np.zeros(wide.shape[1])
    for _ in range(steps):
        beta += step * (signed / (1 + np.exp(signed @ beta))[:, None]).sum(axis=0)
    return beta


def test_what_the_data_leave_open_is_refused_or_as_gradient_descent_has_it():
    X, y = np.array([[-2.0, 0], [-1, 1], [1, 1], [3, 0]]), np.array([0, 0, 1, 1])
    new = np.array([[0.5, 1.0], [0.2, -3.0], [-0.3, 2.0], [-0.4, -2.0]])
    with pytest.raises(UndeterminedChoice, match="do not decide between two alternatives of situation 0"):
        LogisticRegression().fit(X, y).predict_proba(new)
    model = LogisticRegression(undecided="descent").fit(X, y)
    grown = np.column_stack([np.ones(4), new]) @ descend(X, y)
    assert (np.abs(grown) > 1).all()
    np.testing.assert_array_equal(model.predict_proba(new)[:, 1], grown > 0)
    with pytest.raises(UndeterminedChoice, match="nor does gradient descent"):
        LogisticRegression(undecided="descent").fit([[-1], [1]], [0, 1]).predict([[0]])


def test_descent_takes_rows_that_are_not_identified_to_what_was_seen():
    X, y = np.array([[0.0, 0], [1, 1], [2, 2], [3, 3]]), np.array([0, 1, 0, 1])  # only x1 + x2 counts
    model = LogisticRegression(undecided="descent").fit(X, y)
    assert np.isnan(model.coef_).all()
    np.testing.assert_allclose(model.predict_proba([[2.0, 0.0]]), model.predict_proba([[1.0, 1.0]]))
    with pytest.raises(UndeterminedChoice, match="do not decide"):
        LogisticRegression().fit(X, y).predict_proba([[2.0, 0.0]])


@pytest.mark.parametrize("n_labels", [2, 4])
def test_overlapping_data_as_scikit_learn_has_them(n_labels):
    rng = np.random.default_rng(n_labels)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, n_labels, 300)
    model = LogisticRegression().fit(X, y)
    theirs = Penalised(C=np.inf, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert (model.predict(X) == theirs.predict(X)).all()
    if n_labels == 2:
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-5)
    sparse = LogisticRegression().fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, model.coef_, atol=1e-12)
    np.testing.assert_allclose(sparse.predict_proba(csr_array(X)), model.predict_proba(X), atol=1e-12)


def test_weights_are_repeats_and_weight_0_is_absence():
    rng = np.random.default_rng(5)
    X, y, weights = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    weighted = LogisticRegression().fit(X, y, sample_weight=weights)
    repeated = LogisticRegression().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    assert weighted.classes_.tolist() == repeated.classes_.tolist()
    with pytest.raises(InvalidSamples, match="every y is of one class, 1"):
        LogisticRegression().fit([[1.0], [2.0]], [0, 1], sample_weight=[0, 1])


def test_groups_are_a_conditional_logit():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.array(["b", "a", "d", "c", "e", "f"]), 3)
    X = rng.normal(size=(18, 2))
    y = np.zeros(18, bool)
    y[3 * np.arange(6) + rng.integers(0, 3, 6)] = True
    shuffled = rng.permutation(18)
    model = LogisticRegression().fit(X[shuffled], y[shuffled], groups=groups[shuffled])
    fit = fit_logit(long_table(groups, y, X))
    np.testing.assert_allclose(model.coef_[0], [one.value for one in fit.contrasts], atol=1e-9)
    assert model.intercept_.tolist() == [0.0]
    chosen = model.predict_proba(X, groups)[:, 1]
    np.testing.assert_allclose(chosen, fit.probabilities, atol=1e-12)
    marks = model.predict(X, groups)
    assert marks.dtype == bool
    assert marks.reshape(6, 3).argmax(axis=1).tolist() == chosen.reshape(6, 3).argmax(axis=1).tolist()
    assert marks.sum() == 6
    half = LogisticRegression().fit(X, y, groups, sample_weight=np.where(groups > "c", 2.0, 0.0))
    kept = LogisticRegression().fit(X[groups > "c"], y[groups > "c"], groups[groups > "c"])
    np.testing.assert_allclose(half.coef_, kept.coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        ([1, 1, 0, 0], [1, 1, 2, 2], "group 1 has 2 chosen rows; mark one with 1, or drop the group"),
        ([1, 0, 0, 0], [1, 1, 2, 2], "group 2 has 0 chosen rows"),
        ([1, 0, 2, 0], [1, 1, 2, 2], "y has 3 labels; with groups, mark the chosen row"),
        ([1, 0, 1, 0], [1, 1, 2], "X has 4 rows, and groups has shape"),
        ([1, 1, 1, 1], None, "every y is of one class, 1; give cases of another class"),
    ],
)
def test_what_is_no_choice_is_refused(y, groups, message):
    with pytest.raises(InvalidSamples, match=message):
        LogisticRegression().fit(np.arange(4.0)[:, None], y, groups)


def test_groups_at_fitting_and_predicting_go_together():
    X, y, groups = np.arange(4.0)[:, None], [1, 0, 0, 1], [1, 1, 2, 2]
    with pytest.raises(InvalidSamples, match="fitted with groups; give the groups"):
        LogisticRegression().fit(X, y, groups).predict(X)
    with pytest.raises(InvalidSamples, match="fitted without groups; leave groups out"):
        LogisticRegression().fit(X, y).predict(X, groups)
    with pytest.raises(UnsupportedOption, match="undecided is 'guess'; give 'refuse' or 'descent'"):
        LogisticRegression(undecided="guess").fit(X, y)


def test_tiny_differences_warn():
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    rows = np.column_stack([x, x + 1e-10 * rng.normal(size=40)])
    with pytest.warns(ConvergenceWarning, match="treated as equal"):
        LogisticRegression().fit(rows, rng.integers(0, 2, 40))


def test_it_goes_through_pipelines_and_cross_validation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = make_pipeline(StandardScaler(), LogisticRegression(undecided="descent"))
    assert cross_val_score(model, X, y).mean() > 0.9
    model.fit(X, y)
    assert model[-1].separation_ == "complete"
    assert model.score(X, y) == 1.0


def test_without_scikit_learn_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import attomaton as at\n"
        "at.check_separation([1, 2, 3], [0, 1, 0])\n"
        "try: at.choices.LogisticRegression\n"
        "except at.AttomatonError as error: print(isinstance(error, ImportError), error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("True LogisticRegression needs scikit-learn")
    assert "pip install 'attomaton[sklearn]'" in result.stdout


def test_the_bound_of_a_binary_logit_survives_the_estimator():
    model = LogisticRegression(fit_intercept=False).fit([[1.0]] * 8 + [[-1.0]], [1] * 8 + [0])
    assert model.coef_.tolist() == [[np.inf]]
    assert model.fit_.contrast("x1").comparisons == 9
    again = fit_logit(binary_logit([[1.0]], [1], counts=[9]))
    assert model.fit_.contrast("x1").bound == pytest.approx(again.contrast("x1").bound)


@pytest.mark.parametrize("undecided", ["refuse", "descent"])
def test_far_features_have_the_probabilities_of_near_ones(undecided):
    rng = np.random.default_rng(8)
    near = rng.integers(0, 10, (40, 2)).astype(float)
    y = (near[:, 0] + rng.normal(0, 4, 40) > 4).astype(int)
    offset = np.array([4e14, 1.7e9])
    far, here = (LogisticRegression(undecided=undecided).fit(rows, y) for rows in (near + offset, near))
    assert far.certificate_.certified
    assert far.coef_ == pytest.approx(here.coef_, rel=1e-9)
    assert far.predict_proba(near + offset) == pytest.approx(here.predict_proba(near), abs=1e-9)
    sparse = LogisticRegression(undecided=undecided).fit(csr_array(near + offset), y % 5)
    assert sparse.coef_ == pytest.approx(here.coef_, rel=1e-9)


def test_far_features_of_many_classes_stored_as_a_sparse_matrix():
    rng = np.random.default_rng(9)
    near = rng.integers(0, 10, 80).astype(float)
    y = rng.integers(0, 6, 80)
    far, here = (at.check_separation(rows, y) for rows in (4e14 + near, near))
    assert far.certified
    for one, other in zip(far.coefficients[1::2], here.coefficients[1::2], strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-8, abs=1e-10)


def test_far_features_beside_a_position_are_decided_and_saved(tmp_path):
    first, second = ["a", "b", "a", "b"], ["b", "a", "b", "a"]
    games = {"first": first, "second": second, "outcome": ["a", "b", "b", "a"]}
    games["length"] = 4e14 + np.array([3.0, 2.0, 1.0, 0.0])
    fit = at.fit_choices(games, moved_first="first", features=["length"]).logit
    assert fit.state is LogitState.CERTIFIED
    assert fit.separation == "complete"
    assert fit.contrast("length").kind is ContrastKind.PLUS
    again = LogitFit.load(fit.save(tmp_path / "fit"))
    assert str(again.contrast("moved_first")) == str(fit.contrast("moved_first"))
    assert fit.contrast("moved_first").kind is ContrastKind.MINUS
