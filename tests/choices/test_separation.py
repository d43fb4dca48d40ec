"""check_separation: textbook cases, linear programs of their own, other packages, and what is refused."""

import warnings
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from sklearn import linear_model

import attomaton as at
from attomaton.base.errors import InvalidSamples, UncertifiedSolution, UnsupportedOption
from attomaton.choices.logit.certificate import LogitState

# 79 patients, published by Heinze and Schemper, "A solution to the problem of separation in logistic
# regression", Statistics in Medicine 21 (2002) 2409-2419; .
ENDOMETRIAL = Path(__file__).parents[2] / "docs" / "data" / "endometrial.csv"


def test_the_endometrial_data():
    data = pd.read_csv(ENDOMETRIAL)
    found = at.check_separation(data[["NV", "PI", "EH"]], data["HG"])
    assert found.kinds == {"intercept": "finite", "NV": "+inf", "PI": "finite", "EH": "finite"}
    assert not found.exists
    assert found.separation == "quasi-complete"
    assert found.certified
    assert found.expect() is found
    table = found.to_pandas().set_index("coefficient")
    finite = ["intercept", "PI", "EH"]
    assert table.loc[finite, "estimate"].tolist() == pytest.approx(
        [4.3045178, -0.0421834, -2.9026056], abs=1e-7
    )
    assert table.loc[finite, "standard_error"].tolist() == pytest.approx(
        [1.63729861, 0.04433196, 0.84555156], abs=1e-7
    )
    assert table.loc["NV", "estimate"] == np.inf
    assert "NV → +∞ (all 13 cases with NV = 1 had HG = 1)" in str(found)
    assert "The other coefficients are finite: intercept, PI and EH." in str(found)
    assert "<table" in found._repr_html_()


def test_complete_separation():
    found = at.check_separation([-2, -1, 1, 2], [0, 0, 1, 1])
    assert found.separation == "complete"
    assert found.kinds == {"intercept": "undecided", "x1": "+inf"}
    assert found.reason("x1") == "every case with x1 > -1 had y = 1, every other case had y = 0"
    assert found.reason("intercept") == ""
    assert (
        at.check_separation([-2, -1, 1, 2], [1, 1, 0, 0]).reason("x1").startswith("every case with x1 > -1")
    )


def test_quasi_complete_separation():
    found = at.check_separation([0, 0, 0, 0, 1, 1], [0, 1, 0, 1, 1, 1])
    assert found.kinds == {"intercept": "finite", "x1": "+inf"}
    assert found.coefficients[0].value == pytest.approx(0, abs=1e-12)
    edge = at.check_separation([1, 2, 3, 3, 4], [0, 0, 0, 1, 1])
    assert edge.separation == "quasi-complete"
    assert edge.reason("x1") == "every case with x1 > 3 had y = 1, and every case with x1 < 3 had y = 0"


def test_two_columns_separate_together():
    rows = [[0, 2], [1, 3], [4, 6], [2, 1], [3, 2], [5, 4]]  # x1 > x2, or not
    found = at.check_separation(rows, [0, 0, 0, 1, 1, 1])
    assert found.separation == "complete"
    assert found.kinds["x1"] == "+inf"
    assert "by several columns together" in found.reason("x1")


def test_without_an_intercept_the_threshold_is_zero():
    found = at.check_separation([1.0, 2.0, 2.0], [1, 1, 1], intercept=False)
    assert found.kinds == {"x1": "+inf"}
    assert found.reason("x1") == "in all 3 cases that bear on it"
    assert at.check_separation([-1.0, 0, 2, 0], [0, 0, 1, 1], intercept=False).reason("x1") == (
        "every case with x1 > 0 had y = 1, and every case with x1 < 0 had y = 0"
    )
    assert at.check_separation([1.0, 2.0, 3.0], [0, 1, 1], intercept=False).exists


@pytest.mark.parametrize("n_labels", [2, 3])
def test_overlapping_data_as_statsmodels_has_them(n_labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(n_labels)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, n_labels, 120)
    found = at.check_separation(X, y)
    assert found.exists
    assert found.unique
    assert found.explain() == "The estimate exists, and every coefficient is finite."
    model = models.Logit if n_labels == 2 else models.MNLogit
    theirs = model(y, models.add_constant(X)).fit(disp=0)
    table = found.to_pandas()
    assert table["estimate"].to_numpy() == pytest.approx(np.asarray(theirs.params).T.ravel(), abs=1e-6)
    assert table["standard_error"].to_numpy() == pytest.approx(np.asarray(theirs.bse).T.ravel(), abs=1e-6)


COLUMNS = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_the_summary_is_that_of_statsmodels(n_labels, robust):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(n_labels)
    X = rng.normal(size=(150, 3)) * [1, 20, 0.1]
    y = np.where(rng.random(150) < 0.4, X[:, 0] > 0, rng.integers(0, n_labels, 150))
    model = models.Logit if n_labels == 2 else models.MNLogit
    kind = "HC0" if robust else "nonrobust"
    theirs = model(y, models.add_constant(X)).fit(disp=0, tol=1e-14, maxiter=100, cov_type=kind)
    with np.errstate(all="ignore"):
        expected = [theirs.params, theirs.bse, theirs.tvalues, theirs.pvalues]
        columns = [np.asarray(column).T.ravel() for column in expected]
        interval = np.asarray(theirs.conf_int()).reshape(-1, 2).T
    answer = at.check_separation(X, y)
    table = answer.summary(robust=robust).to_pandas()
    np.testing.assert_allclose(table[COLUMNS].to_numpy().T, [*columns, *interval], rtol=1e-8, atol=1e-8)
    assert table["reading"].tolist() == [""] * len(table)
    own = answer.fit.summary(robust=robust).to_pandas().set_index("parameter")
    rows = table.set_index("parameter")
    np.testing.assert_array_equal(own.loc[rows.index, COLUMNS].to_numpy(), rows[COLUMNS].to_numpy())


def test_a_summary_says_infinite_rows_in_words():
    data = pd.read_csv(ENDOMETRIAL)
    summary = at.check_separation(data[["NV", "PI", "EH"]], data["HG"]).summary()
    table = summary.to_pandas().set_index("parameter")
    assert table.loc["NV", "coef"] == np.inf
    assert table.loc["NV", COLUMNS[1:]].isna().all()
    assert table.loc["NV", "reading"].startswith("all 13 cases with NV = 1 had HG = 1; ")
    assert table.loc["NV", "reading"].endswith(" or more (95 %)")
    assert table.loc["EH", "P>|z|"] == pytest.approx(0.000597, abs=1e-6)
    printed = str(summary)
    assert "P>|z|" in printed
    assert "all 13 cases" in printed.replace("\n", " ")
    assert "log odds of HG = 1 against 0: 79 cases" in printed
    assert "[0.025" in summary._repr_html_()


def by_linear_programs(X, y):
    """Existence, and the class of each coefficient, from the recession cone: two programs for each."""
    wide = np.column_stack([np.ones(len(X)), X])
    n_labels = int(y.max()) + 1
    rows = []
    for x, label in zip(wide, y, strict=True):
        for other in range(n_labels):
            if other != label:
                row = np.zeros((n_labels, wide.shape[1]))
                row[label], row[other] = x, -x
                rows.append(row[1:].ravel())
    rows = np.array(rows)

    def highest(goal):
        return -linprog(-goal, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1)).fun

    kinds = []
    for goal in np.eye(rows.shape[1]):
        up, down = highest(goal) > 1e-7, highest(-goal) > 1e-7
        kinds.append(["finite", "+inf", "-inf", "open"][up + 2 * down])
    return highest(rows.sum(axis=0)) <= 1e-7, kinds


@pytest.mark.parametrize("seed", range(60))
def test_random_small_tables_against_linear_programs(seed):
    rng = np.random.default_rng(seed)
    n_labels = 2 + seed % 2
    X = rng.integers(-1, 2, (rng.integers(5, 12), rng.integers(1, 4)))
    y = np.concatenate([np.arange(n_labels), rng.integers(0, n_labels, len(X) - n_labels)])
    exists, kinds = by_linear_programs(X, y)
    found = at.check_separation(X, y)
    assert found.certified
    if (X == 1).all(axis=0).any():  # it serves as the intercept
        assert found.exists == exists
        return
    assert found.exists == exists
    told = ["open" if kind in ("undecided", "not identified") else kind for kind in found.kinds.values()]
    assert told == kinds
    ranks = np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X])), X.shape[1] + 1
    assert bool(found.aliases) == (ranks[0] < ranks[1])
    assert ("not identified" in found.kinds.values()) == bool(found.aliases)
    str(found)


def test_constant_columns():
    y = [0, 1, 0, 1, 1]
    five = at.check_separation({"age": [1, 2, 3, 4, 2], "year": [5] * 5}, y)
    assert five.exists
    assert not five.unique
    assert five.kinds == {"intercept": "not identified", "age": "finite", "year": "not identified"}
    assert five.aliases == ("year = 5 intercept in every case",)
    one = at.check_separation({"const": [1] * 5, "age": [1, 2, 3, 4, 2]}, y)  # as sm.add_constant makes it
    assert one.unique
    assert one.columns == ("const", "age")
    assert "const is 1 in every case and serves as the intercept." in str(one)
    none = at.check_separation({"age": [1, 2, 3, 4, 2], "zero": [0] * 5}, y)
    assert none.aliases == ("zero is 0 in every case",)


@pytest.mark.parametrize("labels", ["abbab", "abcab"])
def test_collinear_columns(labels):
    found = at.check_separation({"a": [1, 2, 3, 4, 2], "b": [2, 4, 6, 8, 4]}, list(labels))
    assert found.aliases == ("b = 2 a in every case",)
    assert not found.unique
    assert "Not identified" in found.explain()


@pytest.mark.parametrize(
    ("label", "kind"), [(1, "+inf"), (True, "+inf"), ("yes", "+inf"), (0, "-inf"), (False, "-inf")]
)
def test_one_class_only(label, kind):
    found = at.check_separation([-1.0, 0.0, 4.0], [label] * 3)
    assert not found.exists
    assert found.separation == "complete"
    assert found.kinds == {"intercept": kind, "x1": "undecided"}
    assert f"Every case had y = {label}, so there is nothing to compare." in found.explain()
    assert found.certified


def test_three_labels_and_a_reference():
    x = [0, 0, 1, 1, 0, 0, 1, 1, 0]
    y = ["a", "b", "a", "b", "a", "b", "c", "c", "a"]
    found = at.check_separation({"x": x}, y)
    assert list(found.kinds) == ["b: intercept", "b: x", "c: intercept", "c: x"]
    assert found.kinds["c: x"] == "+inf"
    assert found.kinds["b: x"] == "finite"
    assert found.reason("c: x").startswith("of the cases with y = a or c, all 3 cases with x = 0 had y = a")
    other = at.check_separation({"x": x}, y, reference="c")
    assert other.kinds["a: x"] == "-inf"
    assert "against c" in str(other)


def test_a_reference_turns_signs():
    data = [0, 0, 0, 1, 1], ["no", "yes", "no", "yes", "yes"]
    assert at.check_separation(*data).kinds["x1"] == "+inf"
    assert at.check_separation(*data, reference="yes").kinds["x1"] == "-inf"


def test_a_table_of_counts_is_the_same_cases_many_times():
    rng = np.random.default_rng(1)
    X, y, counts = rng.integers(0, 2, (16, 2)), rng.integers(0, 3, 16), rng.integers(0, 4, 16)
    once = at.check_separation(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    table = at.check_separation(X, y, counts=counts)
    assert table.kinds == once.kinds
    for own, other in zip(table.coefficients, once.coefficients, strict=True):
        assert own.value == pytest.approx(other.value, abs=1e-9, nan_ok=True)
        assert own.comparisons == other.comparisons
        assert table.reason(own.label) == once.reason(own.label)
    assert str(table).splitlines()[0] == str(once).splitlines()[0]
    cross = at.check_separation({"x": [0, 0, 1, 1]}, [0, 1, 0, 1], counts=[5, 2, 0, 7])
    assert cross.explain().startswith(
        "The estimate does not exist (quasi-complete separation): x → +∞ (all 7 cases with x = 1 had y = 1)"
    )


def test_categories_of_pandas_have_their_own_order():
    grades = pd.Series(pd.Categorical(["low", "high", "high", "low"], categories=["low", "none", "high"]))
    found = at.check_separation([1, 2, 3, 2.5], grades)
    assert found.labels == ("low", "high")
    assert "log odds of y = high against low" in str(found)


def test_an_intercept_alone():
    found = at.check_separation(np.zeros((5, 0)), [0, 1, 1, 0, 1])
    assert found.kinds == {"intercept": "finite"}
    assert found.coefficients[0].value == pytest.approx(np.log(1.5))


FAR = [
    ([[-37.0, -1e-6], [-37, 0], [-1000037, 1e-6], [1999963, 2e-6], [-2000037, -2e-6]], [1, 1, 0, 0, 1]),
    (
        [
            [1e-6, -1999000.0],
            [-2e-6, 1000],
            [2e-6, 2001000],
            [-1e-6, 2001000],
            [0, 2001000],
            [-1e-6, -999000],
        ],
        [1, 0, 1, 1, 1, 0],
    ),
    ([[1.0, 0.0], [1.0, 50.0], [1.0, 1e4]], [0, 1, 1]),
]


@pytest.mark.parametrize(("X", "y"), FAR)
def test_bounds_where_cases_differ_by_orders_of_magnitude(X, y):
    """The definition: the end of the values at which all that happened has probability 0.05 or more."""
    found = at.check_separation(X, y, intercept=False)
    assert found.separation == "complete"
    size = np.abs(X).max(axis=0)
    signed = np.array(X) / size * (2 * np.array(y) - 1)[:, None]
    infinite = [(place, one) for place, one in enumerate(found.coefficients) if np.isinf(one.value)]
    assert infinite
    for place, one in infinite:

        def highest(value, place=place):
            """The largest log-likelihood with this coefficient at this value."""
            low, high = -1e7, 1e7
            for _ in range(200):  # the derivative in the other coefficient falls
                middle = (low + high) / 2
                gap = signed[:, place] * value + signed[:, 1 - place] * middle
                up = (signed[:, 1 - place] * expit(-gap)).sum() > 0
                low, high = (middle, high) if up else (low, middle)
            return -np.logaddexp(0, -gap).sum()

        ends = [-1e7, 1e7] if one.value > 0 else [1e7, -1e7]
        for _ in range(200):
            middle = sum(ends) / 2
            ends[int(highest(middle) > np.log(0.05))] = middle
        assert one.bound * size[place] == pytest.approx(ends[0], rel=1e-6, abs=1e-6)


def test_differences_too_small_to_tell_are_said_without_a_bound():
    rows = [[2, 0.0, 2000.0], [2, 0.2, 2000.000004], [2, 0.2, 2000.000002]]
    found = at.check_separation(rows, [0, 1, 1], intercept=False)
    assert not found.certified
    assert found.coefficients[1].bound is None
    assert "Not proved: the answer depends on differences" in str(found)


FRAME = {"dose": [1.0, 2.0, 3.0, 4.0], "old": [True, False, False, True]}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_keep_their_names(make):
    y = pd.Series([0, 1, 0, 1], name="cured") if make is pd.DataFrame else [0, 1, 0, 1]
    found = at.check_separation(make(FRAME), y)
    assert found.columns == ("intercept", "dose", "old")
    assert found.target == ("cured" if make is pd.DataFrame else "y")
    plain = at.check_separation(np.column_stack(list(FRAME.values())).tolist(), y, names=["dose", "old"])
    assert plain.kinds == found.kinds


def test_series_and_columns_of_matrices():
    x, y = pd.Series([1.0, 2.0, 3.0, 4.0], name="dose"), np.array([[0], [1], [0], [1]])
    found = at.check_separation(x, y)
    assert found.columns == ("intercept", "dose")
    assert found.exists
    nullable = pd.DataFrame({"dose": pd.array([1, 2, 3, 4], dtype="Int64")})
    assert at.check_separation(nullable, y[:, 0]).kinds == found.kinds


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0], [np.nan], [2.0]], [0, 1, 1], {}, r"column 'x1' is missing \(nan\) in row 1; drop such rows"),
        ({"a": [1, None, 2]}, [0, 1, 1], {}, r"column 'a' is missing \(None\) in row 1"),
        ([1.0, np.inf, 2.0], [0, 1, 1], {}, "column 'x1' is infinite in row 1"),
        ({"sex": ["f", "m", 1]}, [0, 1, 1], {}, "column 'sex' contains both text .* and numbers"),
        ([1, 2, 3], [0, None, 1], {}, r"y is missing \(None\) in row 1"),
        ([1, 2, 3], [0.0, np.nan, 1.0], {}, r"y is missing \(nan\) in row 1"),
        (
            np.ma.masked_greater([[1.0], [9.0], [2.0]], 5),
            [0, 1, 1],
            {},
            "X has a masked value in row 1; drop such rows",
        ),
        ([1, 2, 3], np.ma.masked_equal([0, 1, 2], 1), {}, "y has a masked value in row 1"),
        ([1, 2, 3], [0.25, 0.5, 1], {}, "y is 0.25 in row 0, which is not a class"),
        ([1, 2, 3], [0, 1, 1], {"counts": [1, 2]}, "counts must be one number for each of 3 cases"),
        ([1, 2, 3], [0, 1, 1], {"counts": [1, -2, 1]}, "0 or more and not all 0"),
        ([1, 2, 3], [0, 1, 1], {"counts": [1, None, 1]}, r"column 'counts' is missing \(None\) in row 1"),
        ([1e300, -1e300, 2e299], [0, 1, 0], {}, r"column 'x1' has values up to 1e\+300; scale the column"),
        ([1e-300, -1e-300, 2e-299], [0, 1, 0], {}, "column 'x1' has values up to 2e-299; scale the column"),
        ([1, 2, 3], [0, 1], {}, "X has 3 cases, but y has 2 labels"),
        ([1, 2, 3], [0, "1", 1], {}, "labels of different types"),
        ([1, 2, 3], [[0, 1], [1, 0], [1, 1]], {}, "a value that is not a label"),
        (range(200), np.arange(200) / 7, {}, "200 different values, so it looks like a measurement"),
        ([[1, 2], [3]], [0, 1], {}, "a matrix with one row for each case"),
        ([1, 2, 3], [0, 1, 1], {"names": ["a", "b"]}, "1 columns but 2 names"),
        ([[1, 2], [3, 4]], [0, 1], {"names": ["a", "a"]}, "two columns are called 'a'"),
        ([[1], [2]], [0, 1], {"names": ["intercept"]}, "two columns are called 'intercept'"),
        ([1, 2, 3], [0, 1, 1], {"reference": 2}, "no case has the reference label 2"),
        ([], [], {}, "there are no cases"),
        (pd.Series([1, 2], index=[3, 4]), pd.Series([0, 1]), {}, "different indexes"),
        (pd.DataFrame([[1, 2], [2, 1]], columns=["a", "a"]), [0, 1], {}, "two columns 'a'"),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"y": [0, 1], "z": [0, 1]}), {}, "y must be one column"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(X, y, options, message):
    with pytest.raises(InvalidSamples, match=message):
        at.check_separation(X, y, **options)


def test_tiny_differences_are_said_to_be_taken_as_none():
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    rows = np.column_stack([x, x + 1e-10 * rng.normal(size=40)])
    found = at.check_separation(rows, rng.integers(0, 2, 40))
    assert found.fit.state is LogitState.EQUAL
    assert not found.certified
    assert "Not proved: the answer depends on differences" in str(found)
    assert found.table()["certified"].to_pylist() == [False] * 3
    with pytest.raises(UncertifiedSolution, match="treated as equal"):
        found.expect()
    caveat = r"treated as equal.*contrast\(\) answers with this caveat"
    for name in ("coefficients", "covariance", "log_likelihood", "probabilities", "direction"):
        with pytest.raises(UncertifiedSolution, match=caveat):
            getattr(found.fit, name)
    with pytest.raises(UncertifiedSolution, match="treated as equal"):
        found.fit.robust_covariance()
    assert not found.fit.contrast("intercept").certified


FAR = [1e7, 1e8, 1.7e9, 1e12, 4e14, 1e15, 4e15]


@pytest.mark.parametrize("offset", FAR)
def test_far_values_that_are_apart_are_separated(offset):
    found = at.check_separation(offset + np.arange(4.0), [0, 0, 1, 1], names=["time"])
    assert found.certified
    assert found.separation == "complete"
    assert found.kinds == {"intercept": "-inf", "time": "+inf"}
    shared = at.check_separation(offset + np.array([0.0, 1.0, 1.0, 2.0]), [0, 0, 1, 1], names=["time"])
    assert shared.certified
    assert shared.separation == "quasi-complete"
    assert shared.kinds == {"intercept": "-inf", "time": "+inf"}


@pytest.mark.parametrize("offset", FAR)
@pytest.mark.parametrize("labels", ["abab", "abcacbab"])
def test_far_values_that_overlap_have_the_slope_of_near_ones(offset, labels):
    near = np.arange(float(len(labels)))
    far, here = (at.check_separation(values, list(labels)) for values in (offset + near, near))
    assert far.certified
    assert far.unique
    for one, other in zip(far.coefficients[1::2], here.coefficients[1::2], strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-9)


def exact_logit(values, outcome):
    """Intercept and slope with their standard errors, by Newton's method with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        x, y = [Decimal(float(value)) for value in values], [Decimal(int(one)) for one in outcome]
        middle = x[len(x) // 2]
        z = [value - middle for value in x]
        start = at.check_separation(np.array([float(value) for value in z]), outcome)  # where to begin
        a, b = (Decimal(one.value) for one in start.coefficients)
        for _ in range(12):
            p = [1 / (1 + (-a - b * value).exp()) for value in z]
            rest = [one - share for one, share in zip(y, p, strict=True)]
            weight = [share * (1 - share) for share in p]
            products = [w * value for w, value in zip(weight, z, strict=True)]
            h = [sum(weight), sum(products), sum(w * value for w, value in zip(products, z, strict=True))]
            g = [sum(rest), sum(r * value for r, value in zip(rest, z, strict=True))]
            det = h[0] * h[2] - h[1] ** 2
            a, b = a + (h[2] * g[0] - h[1] * g[1]) / det, b + (h[0] * g[1] - h[1] * g[0]) / det
        assert max(map(abs, g)) < Decimal("1e-40")
        errors = (h[2] + 2 * h[1] * middle + h[0] * middle**2) / det, h[0] / det
        return [float(a - b * middle), float(b)], [float(error.sqrt()) for error in errors]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        (1.7e9 + 3600 * np.arange(8.0), [0, 0, 1, 0, 1, 0, 1, 1]),
        (4e15 + np.arange(8.0), [0, 0, 1, 0, 1, 0, 1, 1]),
        (-1e8 - np.arange(8.0) ** 2, [1, 0, 1, 0, 1, 0, 0, 1]),
        (np.array([0.0, 0.5 + 1e-6, 0.5, 1.0]), [0, 0, 1, 1]),
        (np.array([0.0, 0.5 + 1e-9, 0.5, 1.0]), [0, 0, 1, 1]),
        (1.7e9 + np.array([0.0, 0.1, 0.3, 0.5 + 1e-6, 0.5, 0.8, 0.9]), [0, 0, 0, 0, 1, 1, 1]),
    ],
)
def test_estimates_of_far_and_hardly_overlapping_values_have_their_digits(values, outcome):
    found = at.check_separation(values, outcome)
    assert found.certified
    estimates, errors = exact_logit(values, outcome)
    assert [one.value for one in found.coefficients] == pytest.approx(estimates, rel=1e-8)
    assert [one.standard_error for one in found.coefficients] == pytest.approx(errors, rel=1e-6)


@pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_classes_that_hardly_overlap_or_are_hardly_apart_are_decided(share, scale):
    rng = np.random.default_rng(5)
    low, high = rng.uniform(0, 0.5, 20), rng.uniform(0.5 + share, 1, 20)
    outcome = [0] * 21 + [1] * 21
    overlap = at.check_separation(scale * np.concatenate([low, [0.5 + share], high, [0.5]]), outcome)
    assert overlap.exists
    assert overlap.certified
    gap = at.check_separation(scale * np.concatenate([low, [0.5], high, [0.5 + share]]), outcome)
    assert gap.separation == "complete"
    assert gap.certified


@pytest.mark.parametrize("step", [2.0**-52, 2.0**-48, 2.0**-44])
def test_a_difference_of_a_few_units_in_the_last_place_is_never_proved_away(step):
    gap = at.check_separation([-1.0, 1.0, 1.0 + step], [0, 0, 1])
    assert gap.separation == "complete" or not gap.certified
    overlap = at.check_separation([-1.0, 1.0 + step, 1.0, 2.0], [0, 0, 1, 1])
    assert overlap.exists or not overlap.certified


def test_without_an_intercept_far_columns_are_not_centred():
    near = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    far = at.check_separation(4e14 + np.array(near), [0, 1, 0, 1], intercept=False)
    assert not far.exists or not far.certified  # the first column less the second separates all but ties
    one = at.check_separation(4e14 + np.arange(4.0), [0, 0, 1, 1], intercept=False)
    assert one.exists
    assert one.certified


def test_far_columns_follow_from_others_in_the_words_of_the_columns():
    first = 4e14 + np.arange(6.0)
    found = at.check_separation({"a": first, "b": first - 4e14}, [0, 1, 0, 1, 1, 0])
    assert found.certified
    assert found.aliases == ("b = -4e+14 intercept + a in every case",)


@pytest.mark.parametrize("far", [1e8, 1e10, 1e12, 1e15, 1e17, 1e19, -(2.0**63)])
def test_a_value_far_from_all_others_is_never_proved_wrong(far):
    """The classes of 0, 1 and 2 overlap, but 1e15 beside them gave a certified quasi-complete separation."""
    found = at.check_separation([0.0, 1.0, 2.0, far], [0, 1, 0, 1])
    assert found.exists or not found.certified


def test_values_far_from_all_others_are_never_proved_wrong_at_random():
    rng, judged = np.random.default_rng(8), 0
    for _ in range(40):
        values = rng.integers(-3, 4, int(rng.integers(3, 9))).astype(float)
        outcome = rng.integers(0, 2, len(values))
        if rng.random() < 0.5:
            values[0] = 10.0 ** rng.integers(3, 19)
        else:
            values = rng.choice([1e7, 1.7e9, 1.7e12, 4e15]) + values
            values[0] = 0.0
        if np.ptp(values) == 0 or np.ptp(outcome) == 0:
            continue
        try:
            found = at.check_separation(values, outcome)
        except UncertifiedSolution:
            continue
        zero, one = values[outcome == 0], values[outcome == 1]
        overlap = zero.max() > one.min() and one.max() > zero.min()
        judged += found.certified
        assert found.exists == overlap or not found.certified
    assert judged > 15


@pytest.mark.parametrize("kind", [list, np.array])
def test_integers_with_more_digits_than_float64_are_refused(kind):
    """They were rounded to one value, and the columns called the same."""
    with pytest.raises(InvalidSamples, match=r"1152921504606846977 in row 1.*subtract"):
        at.check_separation(kind([2**60 + number for number in range(4)]), [0, 0, 1, 1])
    exact = at.check_separation(kind([2**60 + 1024 * number for number in range(4)]), [0, 0, 1, 1])
    assert exact.separation == "complete"


def test_thresholds_have_the_digits_that_tell_the_classes_apart():
    """It said that every case above 4e+14 had y = 1, but 4e14 + 1 had y = 0."""
    for values, shown in (
        (4e14 + np.arange(4.0), "400000000000001"),
        (1700000000120 + np.arange(4), "1700000000121"),
        (1.7e9 + np.arange(4) / 1000, "1700000000.001"),
        (np.arange(4) / 10, "0.1"),
    ):
        reason = at.check_separation(values, [0, 0, 1, 1], names=["x"]).reason("x")
        assert reason == f"every case with x > {shown} had y = 1, every other case had y = 0"


@pytest.mark.parametrize("constant", [3.0, 1e8, 1e9, 1e12, 4e-9])
def test_a_constant_column_is_a_multiple_of_the_intercept(constant):
    """From 1e9 on it said that the intercept is 0 in every case."""
    columns = {"a": [constant] * 4, "b": [1.0, 2.0, 3.0, 4.0]}
    (alias,) = at.check_separation(columns, [0, 1, 0, 1]).aliases
    expected = f"a = {constant:g} intercept" if constant > 1 else f"intercept = {1 / constant:g} a"
    assert alias == f"{expected} in every case"


def test_a_border_has_few_digits():
    rng = np.random.default_rng(0)
    for scale in (1e-8, 1.0, 1e12):
        dose = scale * rng.normal(size=40)
        answer = at.check_separation({"dose": dose}, dose > dose[0])
        border = float(answer.reason("dose").partition("> ")[2].partition(" ")[0])
        assert dose[0] <= border < dose[dose > dose[0]].min()
    near = np.array([0.1, np.nextafter(0.1, 1), 0.3])
    assert "x > 0.1 had" in at.check_separation({"x": near}, [0, 1, 1]).reason("x")


def test_an_estimator_goes_with_its_data():
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 1]
    estimator = linear_model.LogisticRegression().fit(X, y)
    with pytest.raises(UnsupportedOption, match="model=estimator"):
        at.check_separation(estimator, X, y)
    assert not at.check_separation(X, y, model=estimator).exists
