"""What packages print for the smallest logistic regressions without a finite estimate, as a Markdown table.

    python benchmarks/compare_separation.py

complete: x = (−2, −1, 1, 2), y = (0, 0, 1, 1); quasi: x = (0, 0, 0, 0, 1, 1), y = (0, 1, 0, 1, 1, 1); both
with intercept. unbeaten: a beat b three times (Bradley–Terry). Packages that are not installed are left out.
"""

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

import attomaton as at

COMPLETE = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0, 0, 1, 1])
QUASI = np.array([0.0, 0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 1, 1])
UNBEATEN = [(0, 1)] * 3


class Row(NamedTuple):
    package: str
    call: str
    case: str
    printed: str
    said: str


class Call(NamedTuple):
    text: str
    case: str
    run: Callable[[], tuple[float, float | None, str]]
    """The slope, its standard error if one is given, and what the result says about itself."""


def with_constant(x: Any) -> Any:
    return np.column_stack([np.ones(len(x)), x])


def statsmodels_calls() -> Iterator[Call]:
    models: Any = import_module("statsmodels.api")
    conditional: Any = import_module("statsmodels.discrete.conditional_models").ConditionalLogit

    def state(fit: Any) -> str:
        converged = getattr(fit, "mle_retvals", None)
        converged = converged.get("converged") if converged else getattr(fit, "converged", None)
        return "" if converged is None else f"converged = {bool(converged)}"

    def logit(data: Any, **options: Any) -> tuple[float, float, str]:
        fit = models.Logit(data[1], with_constant(data[0])).fit(disp=0, **options)
        return fit.params[1], fit.bse[1], state(fit)

    def glm(data: Any) -> tuple[float, float, str]:
        fit = models.GLM(data[1], with_constant(data[0]), family=models.families.Binomial()).fit()
        return fit.params[1], fit.bse[1], state(fit)

    def multinomial(data: Any) -> tuple[float, float, str]:
        fit = models.MNLogit(data[1], with_constant(data[0])).fit(disp=0)
        return np.asarray(fit.params)[1, 0], np.asarray(fit.bse)[1, 0], state(fit)

    def groups(data: Any) -> tuple[float, float, str]:
        x, y = data
        fit = conditional(y, x[:, None], groups=np.zeros(len(x))).fit()
        return fit.params[0], fit.bse[0], state(fit)

    for case, data in (("complete", COMPLETE), ("quasi", QUASI)):
        yield Call("Logit.fit()", case, lambda data=data: logit(data))
        yield Call('Logit.fit(method="bfgs")', case, lambda data=data: logit(data, method="bfgs"))
        yield Call("GLM(Binomial).fit()", case, lambda data=data: glm(data))
        yield Call("MNLogit.fit()", case, lambda data=data: multinomial(data))
        yield Call("ConditionalLogit.fit()", case, lambda data=data: groups(data))


def sklearn_calls() -> Iterator[Call]:
    regression: Any = import_module("sklearn.linear_model").LogisticRegression

    def fit(data: Any, **options: Any) -> tuple[float, None, str]:
        return regression(**options).fit(data[0][:, None], data[1]).coef_[0, 0], None, ""

    for case, data in (("complete", COMPLETE), ("quasi", QUASI)):
        yield Call("LogisticRegression()", case, lambda data=data: fit(data))
        yield Call("LogisticRegression(C=inf)", case, lambda data=data: fit(data, C=np.inf))
        yield Call(
            'LogisticRegression(C=inf, solver="newton-cholesky")',
            case,
            lambda data=data: fit(data, C=np.inf, solver="newton-cholesky"),
        )


def choix_calls() -> Iterator[Call]:
    choix: Any = import_module("choix")

    def gap(method: str, **options: Any) -> tuple[float, None, str]:
        scores = getattr(choix, method)(2, UNBEATEN, **options)
        return scores[0] - scores[1], None, ""

    for method in ("ilsr_pairwise", "lsr_pairwise", "rank_centrality", "mm_pairwise", "opt_pairwise"):
        yield Call(f"{method}()", "unbeaten", lambda method=method: gap(method))
    yield Call("opt_pairwise(alpha=1e-8)", "unbeaten", lambda: gap("opt_pairwise", alpha=1e-8))


def own_rows() -> Iterator[Row]:
    for case, data in (("complete", COMPLETE), ("quasi", QUASI)):
        found = at.check_separation(*data, names=["x"])
        slope = found.coefficients[1]
        yield Row("attomaton", "check_separation()", case, slope.kind.value, found.explain())
        model = at.choices.LogisticRegression().fit(data[0][:, None], data[1])
        said = f"separation_ = {model.separation_!r}, certificate_.certified = {model.certificate_.certified}"
        yield Row("attomaton", "LogisticRegression().fit()", case, f"{model.coef_[0, 0]:+}", said)
    fit = at.fit_choices(UNBEATEN)
    gap = fit.difference(0, 1)
    missing = "; ".join(map(str, fit.missing))
    yield Row("attomaton", "fit_choices()", "unbeaten", f"{gap.value:+}", f"missing: {missing}")


def ask(package: str, call: Call) -> Row:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error, state = call.run()
        except Exception as wrong:  # what a package raises is its answer
            text = " ".join(str(wrong).split()).split(". ")[0]
            return Row(package, call.text, call.case, "no number", f"{type(wrong).__name__}: {text}")
    printed = f"{value:.4g}" if error is None else f"{value:.4g} ± {error:,.4g}"
    heard = list(dict.fromkeys(one.category.__name__ for one in caught))
    said = ", ".join([*([state] if state else []), *(heard or ["no warning"])])
    return Row(package, call.text, call.case, printed, said)


PACKAGES: dict[str, Callable[[], Iterator[Call]]] = {
    "statsmodels": statsmodels_calls,
    "scikit-learn": sklearn_calls,
    "choix": choix_calls,
}


def rows() -> Iterator[Row]:
    """Every row, of the packages that are installed; the version is part of the package's name."""
    for package, calls in PACKAGES.items():
        try:
            named = f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
        yield from (ask(named, call) for call in calls())
    yield from own_rows()


def main() -> None:
    print("| package | call | data | slope or gap | what it says |\n|---|---|---|---|---|")
    for row in rows():
        print(f"| {row.package} | `{row.call}` | {row.case} | {row.printed} | {row.said} |")


if __name__ == "__main__":
    main()
