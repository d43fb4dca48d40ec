"""Battles of 150 models, 20 % ties (Davidson), 8 style features, position: 1.7 million, or ``--battles N``.

Two data sets, each in a process of its own: overlapping, and separated (one model never won, one never lost,
a flag that always loses). Bars for 1.7 million: at most 5 CPU s and 1 GB overlapping, 12 CPU s separated,
both certified. A third run goes through ``fit_choices`` from an Arrow table of names, outcomes and features;
it includes the reading, and the table itself takes 0.2 GB. ``--rival`` also times scikit-learn's logistic
regression with half wins, without a penalty.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from timing import peak_gigabytes, report

N_MODELS, N_STYLES = 150, 8


def draw(n_battles: int, *, separated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """First and second model, outcome (2: tie), features of the first less the second, number of models."""
    rng = np.random.default_rng(0)
    strength = 0.8 * np.sort(rng.normal(size=N_MODELS))[::-1]
    effect = np.concatenate([[0.25], 0.1 * rng.normal(size=N_STYLES - 1)])
    share = rng.dirichlet(np.full(N_MODELS, 2.0))
    first, second = rng.choice(N_MODELS, n_battles, p=share), rng.choice(N_MODELS, n_battles, p=share)
    second = np.where(first == second, (second + 1) % N_MODELS, second)
    style = np.clip(0.5 * rng.normal(size=(n_battles, N_STYLES)), -1, 1)
    half = 0.5 * (strength[first] - strength[second] + 0.05 + style @ effect)
    noise = rng.gumbel(size=(n_battles, 3))
    outcome = (np.stack([half, -half, np.full(n_battles, np.log(0.5))], axis=1) + noise).argmax(axis=1)
    features, n_models = np.column_stack([np.ones(n_battles), style]), N_MODELS
    if separated:
        part = n_battles // 3400
        some = rng.choice(n_battles, 2 * part, replace=False)
        first[some[:part]], outcome[some[:part]] = N_MODELS, 1
        first[some[part:]], outcome[some[part:]] = N_MODELS + 1, 0
        second[some] = rng.choice(N_MODELS, 2 * part)
        flagged = rng.choice(np.setdiff1d(np.arange(n_battles), some), 6 * part, replace=False)
        flagged = flagged[outcome[flagged] != 2]
        flag = np.zeros(n_battles)
        flag[flagged] = np.where(outcome[flagged] == 0, -1.0, 1.0)
        features, n_models = np.column_stack([features, flag]), N_MODELS + 2
    return first, second, outcome, features, n_models


def run_ours(n_battles: int, *, separated: bool) -> dict:
    """CPU seconds of the fit, of sandwich errors, and of the bounds."""
    from attomaton.choices.logit import ChoiceProblem, fit_logit

    first, second, outcome, features, n_models = draw(n_battles, separated=separated)
    names = ["position", *(f"style {k}" for k in range(N_STYLES)), *(["flag"] if separated else [])]
    items = [f"model {k}" for k in range(n_models)]
    clock = time.process_time
    start = clock()
    counts = np.zeros((n_battles, 3))
    counts[np.arange(n_battles), outcome] = 1
    problem = ChoiceProblem.from_battles(first, second, counts, items=items, features=features, names=names)
    fit = fit_logit(problem)
    fitted = clock()
    fit.robust_covariance()
    robust = clock()
    figures = {
        "cpu_s": round(fitted - start, 2),
        "sandwich_cpu_s": round(robust - fitted, 2),
        "gb": peak_gigabytes(),
        "certified": fit.certificate.certified,
        "way": fit.method,
        "program_rows": fit.program_rows,
        "dying": int(fit.dying.sum()),
        "style 0": round(fit.contrast("style 0").value, 4),
        "certificate": str(fit.certificate),
    }
    if separated:
        last, top = f"model {N_MODELS}", f"model {N_MODELS + 1}"
        asked = [fit.contrast("model 0", last), fit.contrast(top, "model 0"), fit.contrast("flag")]
        figures["contrasts"] = [str(contrast) for contrast in asked]
        figures["bounds_cpu_s"] = round(clock() - robust, 2)
    return figures


def run_frame(n_battles: int, *, separated: bool) -> dict:
    """CPU seconds of fit_choices from an Arrow table, as an arena publishes it."""
    import pyarrow as pa

    import attomaton as at

    first, second, outcome, features, n_models = draw(n_battles, separated=separated)
    models, words = pa.array([f"model {k}" for k in range(n_models)]), pa.array(["model_a", "model_b", "tie"])
    columns = {"model_a": models.take(pa.array(first)), "model_b": models.take(pa.array(second))}
    columns["winner"] = words.take(pa.array(outcome))
    styles = [f"style {k}" for k in range(features.shape[1] - 1)]
    columns |= {name: pa.array(features[:, k + 1].copy()) for k, name in enumerate(styles)}
    table = pa.table(columns)
    del first, second, outcome, features, columns
    start = time.process_time()
    names = {"first": "model_a", "second": "model_b", "outcome": "winner", "moved_first": "model_a"}
    fit = at.fit_choices(table, **names, features=styles)
    fitted = time.process_time()
    top = fit.components[0 if fit.connected else 1][0]
    return {
        "cpu_s": round(fitted - start, 2),
        "gb": peak_gigabytes(),
        "certified": fit.certified,
        "components": len(fit.components),
        "best of the largest": top,
        "style 0": round(fit.coefficients["style 0"].value, 4),
    }


def run_rival(n_battles: int, *, separated: bool) -> dict:
    """scikit-learn's default solver without a penalty; ties are half wins."""
    import warnings

    from scipy.sparse import csr_array, hstack, vstack
    from sklearn.linear_model import LogisticRegression

    first, second, outcome, features, n_models = draw(n_battles, separated=separated)
    start = time.process_time()
    number = np.arange(n_battles)
    items = csr_array((np.ones(n_battles), (number, first)), shape=(n_battles, n_models))
    items = items - csr_array((np.ones(n_battles), (number, second)), shape=(n_battles, n_models))
    rows = csr_array(hstack([items, csr_array(features)]))
    tie = outcome == 2
    rows = vstack([rows, rows[tie]]).tocsr()
    won = np.concatenate([(outcome == 0) | tie, np.zeros(int(tie.sum()), bool)])
    weight = np.concatenate([np.where(tie, 0.5, 1.0), np.full(int(tie.sum()), 0.5)])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = LogisticRegression(C=np.inf, fit_intercept=False, max_iter=2000)
        model.fit(rows, won, sample_weight=weight)
    slope = rows.T @ (weight * (won - 1 / (1 + np.exp(-(rows @ model.coef_.ravel())))))
    return {
        "cpu_s": round(time.process_time() - start, 2),
        "gb": peak_gigabytes(),
        "largest_slope": round(float(np.abs(slope).max()), 1),
        "warnings": sorted({one.category.__name__ for one in heard}),
    }


def run_apart(which: str, n_battles: int, separated: bool) -> dict:
    """One run in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, str(Path(__file__)), "--alone", which, str(n_battles), str(int(separated))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    if "--alone" in sys.argv:
        which, size, apart = sys.argv[-3:]
        run = {"ours": run_ours, "frame": run_frame, "rival": run_rival}[which]
        print(json.dumps(run(int(size), separated=apart == "1")))
        sys.exit()
    n_battles = int(sys.argv[sys.argv.index("--battles") + 1]) if "--battles" in sys.argv else 1_700_000
    plain, apart = run_apart("ours", n_battles, False), run_apart("ours", n_battles, True)
    framed = run_apart("frame", n_battles, False)
    figures = {"battles": n_battles, "overlapping": plain, "separated": apart, "fit_choices": framed}
    if "--rival" in sys.argv:
        figures["scikit-learn"] = [run_apart("rival", n_battles, apart) for apart in (False, True)]
    bars = {
        "overlapping at most 5 CPU s": plain["cpu_s"] <= 5,
        "overlapping at most 1 GB": plain["gb"] <= 1,
        "separated at most 12 CPU s": apart["cpu_s"] <= 12,
        "sandwich at most 3 CPU s": plain["sandwich_cpu_s"] <= 3,
        "fit_choices at most 1.4 times the engine's CPU": framed["cpu_s"] <= 1.4 * plain["cpu_s"],
        "certified": plain["certified"] and apart["certified"] and framed["certified"],
    }
    report(figures, bars)
