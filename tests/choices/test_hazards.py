"""check_separation of Poisson and Cox regressions, formulas, text, and fits of other packages."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog, minimize

import attomaton as at
from attomaton.base import AttomatonError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    sm = pytest.importorskip("statsmodels.api")
    smf = pytest.importorskip("statsmodels.formula.api")


def by_linear_programs(rising, level):
    """The definition: whether there is a direction in which no case loses, and each coefficient's class."""
    equal = {"A_eq": level, "b_eq": np.zeros(len(level))} if len(level) else {}

    def highest(goal):
        return -linprog(-goal, A_ub=-rising, b_ub=np.zeros(len(rising)), bounds=(-1, 1), **equal).fun

    kinds = []
    for goal in np.eye(rising.shape[1]):
        up, down = highest(goal) > 1e-7, highest(-goal) > 1e-7
        kinds.append(["finite", "+inf", "-inf", "open"][up + 2 * down])
    return highest(rising.sum(axis=0)) <= 1e-7, kinds


def agrees(answer, exists, kinds):
    assert answer.certified
    assert answer.exists == exists
    classes = ["open" if kind in ("undecided", "not identified") else kind for kind in answer.kinds.values()]
    assert classes == kinds
    assert str(answer)
    assert str(answer.summary())


@pytest.mark.parametrize("seed", range(60))
def test_random_counts_against_linear_programs(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (rng.integers(5, 12), rng.integers(1, 4)))
    y = rng.poisson(0.5, len(X)) + (np.arange(len(X)) == 0)
    wide = np.column_stack([np.ones(len(X)), X])
    if (X == 1).all(axis=0).any():
        return
    agrees(at.check_separation(X, y, model="poisson"), *by_linear_programs(-wide[y == 0], wide[y > 0]))


@pytest.mark.parametrize("seed", range(60))
def test_random_times_against_linear_programs(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 12))
    X, time = rng.integers(-1, 2, (size, rng.integers(1, 4))), rng.integers(1, 6, size)
    event, strata = rng.random(size) < 0.5, rng.integers(0, 1 + seed % 2, size)
    event[0] = True
    at_risk = (time[None] >= time[:, None]) & (strata[None] == strata[:, None]) & event[:, None]
    rising = [X[i] - X[j] for i, j in zip(*np.nonzero(at_risk), strict=True)]
    answer = at.check_separation(X, time, event=event, strata=strata, model="cox")
    agrees(answer, *by_linear_programs(np.array(rising), []))


@pytest.mark.parametrize("seed", range(20))
def test_efrons_rule_for_ties_has_the_same_infinite_directions(seed):
    rng = np.random.default_rng(seed)
    X, time = rng.integers(-1, 2, (8, 2)).astype(float), rng.integers(1, 4, 8)
    event = np.append(True, rng.random(7) < 0.6)
    answer = at.check_separation(X, time, event=event, model="cox")
    at_risk = (time[None] >= time[:, None]) & event[:, None]
    rising = np.array([X[i] - X[j] for i, j in zip(*np.nonzero(at_risk), strict=True)])
    program = linprog(-rising.sum(axis=0), A_ub=-rising, b_ub=np.zeros(len(rising)), bounds=(-1, 1))
    model = sm.PHReg(time, X, status=event, ties="efron")
    if answer.exists and answer.unique:
        for direction in rng.normal(size=(20, 2)):
            unit = direction / np.linalg.norm(direction)
            assert model.loglike(20 * unit) < model.loglike(15 * unit)
    elif not answer.exists:
        steps = [model.loglike(size * program.x) for size in (0, 5, 10, 15)]
        assert (np.diff(steps) > -1e-9).all()
        assert steps[1] > steps[0]


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    size = 80
    return pd.DataFrame(
        {
            "age": rng.normal(size=size),
            "sex": rng.choice(["f", "m"], size),
            "dose": pd.Categorical(rng.choice(["low", "mid", "high"], size), ["low", "mid", "high"]),
            "ill": rng.integers(0, 2, size),
            "count": rng.poisson(1.5, size),
            "time": rng.exponential(size=size).round(1),
            "died": rng.random(size) < 0.6,
            "grade": rng.integers(0, 3, size),
            "years": rng.uniform(1, 3, size),
        }
    )


TERMS = "age + sex + dose"
FITS = {
    "logit": lambda data: smf.logit(f"ill ~ {TERMS}", data).fit(disp=0, tol=1e-12),
    "classes": lambda data: smf.mnlogit(f"grade ~ {TERMS}", data).fit(disp=0, tol=1e-12),
    "binomial": lambda data: smf.glm(
        f"ill ~ {TERMS}", data, family=sm.families.Binomial(), offset=data["years"]
    ).fit(tol=1e-14),
    "shares": lambda data: sm.GLM(
        np.column_stack([data["count"], data["grade"] + 1]),
        sm.add_constant(data[["age"]]),
        family=sm.families.Binomial(),
    ).fit(tol=1e-14),
    "weights": lambda data: smf.glm(
        f"ill ~ {TERMS}", data, family=sm.families.Binomial(), freq_weights=data["grade"]
    ).fit(tol=1e-14),
    "poisson": lambda data: smf.poisson(f"count ~ {TERMS}", data, exposure=data["years"]).fit(
        disp=0, tol=1e-12
    ),
    "poisson weights": lambda data: smf.glm(
        f"count ~ {TERMS}",
        data,
        family=sm.families.Poisson(),
        freq_weights=data["grade"],
        exposure=data["years"],
    ).fit(tol=1e-14),
    "cox": lambda data: smf.phreg(f"time ~ 0 + {TERMS}", data, status=data["died"]).fit(tol=1e-12),
    "strata": lambda data: smf.phreg(
        f"time ~ 0 + {TERMS}", data, status=data["died"], strata=data["grade"]
    ).fit(),
    "entry": lambda data: smf.phreg(
        f"time ~ 0 + {TERMS}", data, status=data["died"], entry=(data["time"] / 3).round(1)
    ).fit(),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_of_statsmodels_is_read_in_one_call(name, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = FITS[name](frame)
    answer = at.check_separation(theirs)
    assert answer.exists
    assert set(answer.kinds.values()) <= {"finite", "not identified"}
    if "not identified" in answer.kinds.values():
        return  # phreg leaves out no level, so statsmodels has a pseudo-inverse
    values, errors = np.asarray(theirs.params).T.ravel(), np.asarray(theirs.bse).T.ravel()
    assert [one.value for one in answer.coefficients] == pytest.approx(values, abs=1e-6)
    assert [one.standard_error for one in answer.coefficients] == pytest.approx(errors, abs=1e-5)
    again = at.check_separation(theirs.model)
    assert again.kinds == answer.kinds


def test_text_becomes_columns_as_in_a_formula(frame):
    columns = ["age", "sex", "dose"]
    plain = at.check_separation(frame[columns], frame["ill"])
    assert plain.columns == ("intercept", "age", "sex[T.m]", "dose[T.mid]", "dose[T.high]")
    formula = at.check_separation("ill ~ age + sex + dose", frame)
    values = {one.label: one.value for one in formula.coefficients}
    for one in plain.coefficients:
        assert values[one.label.replace("intercept", "Intercept")] == pytest.approx(one.value, abs=1e-9)
    assert formula.target == "ill"
    product = at.check_separation("ill ~ 0 + age:sex", frame)
    assert product.columns == ("age:sex[f]", "age:sex[m]")


def test_reasons_name_the_level(frame):
    frame["ill"] *= frame["sex"] == "m"
    answer = at.check_separation(frame[["sex", "age"]], frame["ill"])
    number = int((frame["sex"] == "f").sum())
    assert f"sex[T.m] → +∞ (all {number} cases with sex other than m had ill = 0)" in answer.explain()
    counts = at.check_separation(
        frame[["age", "sex"]], frame["count"] * (frame["sex"] == "f"), model="poisson"
    )
    assert counts.kinds["sex[T.m]"] == "-inf"
    assert counts.reason("sex[T.m]") == f"all {len(frame) - number} cases with sex = m had y = 0"
    turned = at.check_separation(
        frame[["age", "sex"]], frame["count"] * (frame["sex"] == "m"), model="poisson"
    )
    assert turned.kinds == {"intercept": "-inf", "age": "finite", "sex[T.m]": "+inf"}
    assert "means must stay finite" in turned.reason("intercept")
    dose = at.check_separation([1, 2, 3, 4], [0, 0, 0, 2], model="poisson")
    assert dose.reason("x1") == "every case with x1 < 4 had y = 0"
    died = frame["died"] & (frame["sex"] == "m")
    cox = at.check_separation(frame[["age", "sex"]], frame["time"], event=died, model="cox")
    assert "(monotone likelihood)" in cox.explain()
    assert (
        cox.reason("sex[T.m]") == "at each event with cases of both kinds at risk, it was a case with sex = m"
    )
    largest = at.check_separation([4, 3, 2, 1], [1, 2, 3, 4], model="cox")
    assert largest.reason("x1") == "at each event, the case had the largest x1 at risk"


def test_aliases_of_counts_and_times():
    columns = {"a": [1.0, 2, 3, 4], "b": [2.0, 4, 6, 8], "c": [5.0] * 4}
    counts = at.check_separation(columns, [4, 3, 2, 1], model="poisson")
    assert set(counts.aliases) == {"c = 5 intercept in every case", "b = 2 a in every case"}
    cox = at.check_separation(columns, [4, 3, 2, 1], event=[0, 1, 1, 0], model="cox")
    assert "c does not vary between the cases at risk at any event" in cox.aliases


def test_firths_penalty_of_counts_is_that_of_the_poisson_likelihood():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(30), rng.normal(size=30), rng.integers(0, 2, 30)])
    y = rng.poisson(1.0, 30) * (X[:, 2] == 0)

    def loss(beta):
        mean = np.exp(X @ beta)
        return mean.sum() - y @ (X @ beta) - 0.5 * np.linalg.slogdet(X.T * mean @ X)[1]

    theirs = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    ours = at.check_separation(X[:, 1:], y, model="poisson").firth()
    assert [one.value for one in ours.contrasts] == pytest.approx(theirs[1:], abs=1e-5)


def test_a_pipeline_of_scikit_learn(frame):
    compose, linear = pytest.importorskip("sklearn.compose"), pytest.importorskip("sklearn.linear_model")
    pipeline, preprocessing = (
        pytest.importorskip("sklearn.pipeline"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    frame["ill"] *= frame["sex"] == "m"
    columns = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(drop="first", sparse_output=False), ["sex"]),
        (preprocessing.StandardScaler(), ["age"]),
    )
    model = pipeline.make_pipeline(columns, linear.LogisticRegression()).fit(frame, frame["ill"])
    answer = at.check_separation(frame, frame["ill"], model=model)
    assert answer.kinds["onehotencoder__sex_m"] == "+inf"
    assert answer.target == "ill"
    poisson = linear.PoissonRegressor().fit(frame[["age"]], frame["count"])
    assert at.check_separation(frame[["age"]], frame["count"], model=poisson).exists


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda data: at.check_separation(smf.probit("ill ~ age", data)),
            "the model Probit of statsmodels is not supported",
        ),
        (
            lambda data: at.check_separation(data[["age"]], data["ill"], model="probit"),
            "model is 'probit'; give",
        ),
        (lambda data: at.check_separation("ill ~ agee", data), "the formula .* cannot be read: .*agee"),
        (
            lambda data: at.check_separation("sick ~ age", data),
            "no column 'sick' for the outcome of the formula",
        ),
        (
            lambda data: at.check_separation("ill ~ age", data["ill"].to_numpy()),
            "a formula needs a frame",
        ),
        (
            lambda data: at.check_separation(data["age"], -data["count"], model="poisson"),
            "0 or more and not all 0",
        ),
        (
            lambda data: at.check_separation(data["age"], data["count"], model="poisson", intercept=False),
            "a Poisson regression needs an intercept",
        ),
        (
            lambda data: at.check_separation(data["age"], data["time"], model="cox", event=[0] * 80),
            "at least one event",
        ),
        (
            lambda data: at.check_separation(data["age"], data["time"], model="cox", counts=[1] * 80),
            "is not supported for Cox",
        ),
        (
            lambda _: at.check_separation(np.zeros((3, 0)), [1, 0, 2], model="poisson"),
            "no column besides the",
        ),
        (lambda _: at.check_separation({"id": ["a", "b", "c"]}, [0, 1, 0]), "a different text in every row"),
        (
            lambda _: at.check_separation({"id": ["a", "a"]}, [0, 1]),
            "is 'a' in every row; leave the column out",
        ),
        (
            lambda _: at.check_separation({"id": ["a", None, "b", "a"]}, [0, 1, 0, 1]),
            "missing .None. in row 1",
        ),
        (
            lambda _: at.check_separation({"id": ["a", 2, "b", "a"]}, [0, 1, 0, 1]),
            "contains both text .* and numbers",
        ),
        (
            lambda data: at.check_separation(data["age"], data["count"], model="poisson").summary(
                robust=True
            ),
            "robust errors are for logistic regression",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused_with_what_to_do(call, message, frame):
    with pytest.raises(AttomatonError, match=message):
        call(frame)
