"""The third term against 200,000 plain steps (20 instances without embeddings), and its rate (20 with).

Bars: median gain over two terms at least 100; score errors of at most 5e-3 where the rate is above 1/2; with
embeddings, the error between 10^8 and 10^10 falls at the predicted rate within 20 %. Not reached: 5e-3 on all
20, it is 18 (reported); three terms cannot be closer to training at a step than t^-rate, and rates of 1/2 and
1/3 occur. The instances with embeddings are those of tests/theory/test_third_term.py; of 39 in two other
seedings two fell faster than predicted, by 27 and 49 %, as hardly any of their slowest part was in them.
``--figure PATH`` draws one instance: training, fast-forward and expansion.
"""

import sys
from itertools import count
from statistics import median

import numpy as np
from tests.trajectory.definition import descend_by_definition

import attomaton as at
from attomaton.trajectory import Expansion
from timing import report

STEPS, INSTANCES = 200_000, 20


def one_query(rng: np.random.Generator) -> at.Samples:
    """K = 6, n = 8, T = 4 under one query; tokens may repeat."""
    contexts = rng.integers(0, 6, (8, 4))
    contexts[:, -1] = rng.integers(6)
    labels = [int(rng.choice(context)) for context in contexts]
    return at.Samples.from_lists(contexts.tolist(), labels, n_tokens=6)


def two_queries(seed: int) -> tuple[at.Samples, np.ndarray]:
    """K = 6, n = 8, T = 4 under two queries, no token twice; random unit embeddings in 8 dimensions."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(6)[:2]
    contexts = [
        [*rng.permutation(np.setdiff1d(np.arange(6), [query]))[:3].tolist(), int(query)]
        for query in asked[rng.integers(0, 2, 8)]
    ]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(context)) for context in contexts], n_tokens=6)
    embeddings = np.random.default_rng(seed + 100).normal(size=(6, 8))
    return samples, embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


def expansion_of(samples: at.Samples, embeddings: np.ndarray | None = None) -> Expansion:
    return at.expand(at.learn(samples, embeddings=embeddings), samples, embeddings=embeddings)


def without_embeddings() -> dict:
    """Largest score error with and without R, on the first instances that data alone determine."""
    errors, gains, rates = [], [], []
    for seed in count():
        samples = one_query(np.random.default_rng(seed))
        expansion = expansion_of(samples)
        third = expansion.residual.toarray()
        if expansion.caveat or np.abs(third).max() < 1e-3:
            continue
        walked = descend_by_definition(samples, np.eye(6), step_size=1.0, n_steps=STEPS)
        predicted = expansion.weights_at(STEPS).toarray()
        errors.append(float(np.abs(predicted - walked).max()))
        gains.append(float(np.abs(predicted - third - walked).max()) / errors[-1])
        rates.append(expansion.rate)
        if len(errors) == INSTANCES:
            break
    slow = [[round(rate, 3), error] for rate, error in zip(rates, errors, strict=True) if error > 5e-3]
    return {
        "error_median": median(errors),
        "error_max": max(errors),
        "error_max_above_rate_one_half": max(
            error for rate, error in zip(rates, errors, strict=True) if rate > 0.5
        ),
        "drawn_without_third_term_or_path_dependent": seed + 1 - INSTANCES,
        "within_5e-3": sum(error <= 5e-3 for error in errors),
        "rate_and_error_of_the_others": slow,
        "gain_median": round(median(gains)),
    }


def with_embeddings() -> dict:
    """Measured over predicted rate where the tight directions span all and λ ≥ 0.1."""
    ratios, drawn = [], 0
    for seed in count():
        samples, embeddings = two_queries(seed)
        expansion, drawn = expansion_of(samples, embeddings), drawn + 1
        if expansion.caveat or expansion.settling < 0.1:
            continue
        trajectory = at.fast_forward(samples, embeddings=embeddings, to=1e10, rtol=1e-11)
        early, late = (
            np.linalg.norm(trajectory.weights_at(step) - expansion.weights_at(step)) for step in (1e8, 1e10)
        )
        ratios.append(float(np.log(early / late) / np.log(100) / expansion.rate))
        if len(ratios) == INSTANCES:
            break
    return {
        "drawn": drawn,
        "ratio_min": min(ratios),
        "ratio_median": median(ratios),
        "ratio_max": max(ratios),
    }


def draw_figure(path: str) -> None:
    """One instance with embeddings: correlation, norm, and the error of the expansion."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    plt.style.use("attomaton.report.paper")
    samples, embeddings = two_queries(7)
    auto = at.learn(samples, embeddings=embeddings)
    expansion = at.expand(auto, samples, embeddings=embeddings)
    trajectory = at.fast_forward(samples, embeddings=embeddings)
    early, late = np.logspace(1, 5, 9).round(), np.logspace(1, 12, 45)
    walked = [descend_by_definition(samples, embeddings, step_size=1.0, n_steps=int(step)) for step in early]
    direction = auto.hard.weights
    curves = {"fast_forward": trajectory.curves(late, direction), "expand": expansion.curves(late, direction)}
    figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.2))
    norms = np.array([np.linalg.norm(weights) for weights in walked])
    along = np.array([(weights * direction).sum() for weights in walked]) / np.linalg.norm(direction)
    for axis, name, values in ((axes[0], "norm", norms), (axes[1], "correlation", along / norms)):
        axis.plot(early, _shown(name, values), "o", color="black", label="plain descent", markersize=3)
        for (label, table), style in zip(curves.items(), ("-", "--"), strict=True):
            axis.plot(late, _shown(name, table.column(name).to_numpy()), style, label=label)
        axis.set(xscale="log", xlabel="step")
    axes[0].set(title="norm of W(t)")
    axes[1].set(title="1 - correlation with W_svm", yscale="log")
    axes[0].legend()
    gap = [np.linalg.norm(trajectory.weights_at(step) - expansion.weights_at(step)) for step in late]
    axes[2].plot(late, gap, label="expand against fast_forward")
    axes[2].plot(late, [expansion.error_at(step) for step in late], ":", label="what expand expects")
    axes[2].set(xscale="log", yscale="log", xlabel="step", title=f"error, rate {expansion.rate:.2f}")
    axes[2].legend()
    figure.savefig(path)


def _shown(name: str, values: np.ndarray) -> np.ndarray:
    return 1.0 - values if name == "correlation" else values


if __name__ == "__main__":
    if "--figure" in sys.argv:
        draw_figure(sys.argv[sys.argv.index("--figure") + 1])
    figures = {"orthonormal": without_embeddings(), "embeddings": with_embeddings()}
    bars = {
        "error": figures["orthonormal"]["error_max_above_rate_one_half"] <= 5e-3,
        "gain": figures["orthonormal"]["gain_median"] >= 100,
        "rate": figures["embeddings"]["ratio_min"] >= 0.8 and figures["embeddings"]["ratio_max"] <= 1.2,
    }
    report(figures, bars)
