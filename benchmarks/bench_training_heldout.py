"""Training beside the automaton on new text: WikiText-2 train, window 32, scored on valid as time goes by.

One layer of attention with a score for each (query, token) pair, the automaton's own parameters, is trained
for ``--budget`` times what the automaton costs. A second run has a score for each token besides, s_jk =
v_jk + u_j, as the shrunken scores have, for at most five times. Steps were chosen on the last tenth of train
(``--tune`` prints that table). Times are seconds of this process on one thread; counting and laying out the
corpus is free for training and part of the automaton's cost. Bars: with the automaton's own parameters no
moment of training, chosen with hindsight on valid, is as good in log-loss as the shrunken scores; with a
score for each token besides, training takes at least twice the automaton's time to become as good.

    python benchmarks/bench_training_heldout.py [--budget 100] [--figure FILE.png]
    python benchmarks/bench_training_heldout.py --tune [--seconds 60]
"""

import sys
import time
from statistics import median

import numpy as np
import torch

import attomaton as at
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import Score, score_prediction
from attomaton.automaton.shrinkage import prepare_shrinkage
from attomaton.base.drawing import HOUSE_GREY, house_axes
from attomaton.graphs import count_tokens
from attomaton.graphs.bags import Bags
from attomaton.training import Adam, GradientDescent
from attomaton_experiments.lookup.lookup import Pairs, find_pairs
from attomaton_experiments.lookup.parametrisations import PerQuery, Shared
from attomaton_experiments.lookup.training import AtSeconds, LookupRecord, LookupTraining
from attomaton_experiments.retrieval import attend
from bench_automaton_heldout import Split, read_split  # of wikitext-2
from timing import peak_gigabytes, report

BUDGET = 5.0  # times the automaton's cost, unless --budget says otherwise
STRENGTH, EPSILON = 0.4, 0.28  # chosen on held-back train by bench_automaton_heldout
RUNS = 3
FAST = {"seed": 0, "single": True, "clock": time.process_time}
PULLED = GradientDescent(100.0, momentum=0.9)
TRAINED = {
    "scores per query and per token": LookupTraining(Shared(0.2), PULLED, 16_384, **FAST),
    "scores per query": LookupTraining(PerQuery(), PULLED, 16_384, **FAST),
}
TRIED = {
    "gradient descent, 100": LookupTraining(PerQuery(), GradientDescent(100.0), **FAST),
    "SGD of 2,048, 100": LookupTraining(PerQuery(), GradientDescent(100.0), 2_048, **FAST),
    "SGD of 16,384, momentum 0.9, 100": TRAINED["scores per query"],
    "Adam of 65,536, 0.1": LookupTraining(PerQuery(), Adam(0.1), 65_536, **FAST),
    "Adam of 16,384, 0.1": LookupTraining(PerQuery(), Adam(0.1), 16_384, **FAST),
    "Adam of 16,384, 0.03": LookupTraining(PerQuery(), Adam(0.03), 16_384, **FAST),
    "and per token: SGD of 16,384, momentum 0.9, 100": TRAINED["scores per query and per token"],
    "and per token: Adam of 16,384, 0.03": LookupTraining(Shared(), Adam(0.03), 16_384, **FAST),
    "and per token: Adam of 16,384, 0.01": LookupTraining(Shared(), Adam(0.01), 16_384, **FAST),
}


def spent(function, *arguments):
    """What the function returns, and the seconds of this process."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def solve_automaton(split: Split) -> tuple[dict, dict]:
    """The automaton (edges, components, hard, soft) and the shrunken scores: costs, and scores on valid."""
    small = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    at.learn(small), at.shrink(small, strength=STRENGTH)  # compiles
    learned = [spent(at.learn, split.train) for _ in range(RUNS)]
    shrunken = [spent(lambda: prepare_shrinkage(split.train).solve(STRENGTH)) for _ in range(RUNS)]
    costs = {"automaton": median(one for _, one in learned), "shrunken": median(one for _, one in shrunken)}
    scores: dict[str, Score] = {
        "automaton": learned[0][0].score(split.valid, epsilon=EPSILON),
        "shrunken": shrunken[0][0].score(split.valid),
    }
    shown = {
        name: {"log_loss": round(one.log_loss, 4), "top1": round(one.top1, 4)} for name, one in scores.items()
    }
    return {name: round(one, 2) for name, one in costs.items()}, shown


def scorer(held_out: Bags, pairs: Pairs):
    """Scores of pairs → log-loss and top-1 on these contexts."""
    place = pairs.find(held_out)
    seen = np.ones(len(place), bool)

    def measure(scores: np.ndarray) -> dict[str, float]:
        score = score_prediction(BatchPrediction(held_out, place, seen, attend(held_out, scores[place])))
        sys.stderr.write(f"{time.process_time():.0f} s: {score.log_loss:.4f} nats, {score.top1:.4f}\n")
        return {"log_loss": score.log_loss, "top1": score.top1}

    return measure


def train(training: LookupTraining, trained: Bags, held_out: Bags, seconds: float) -> list[LookupRecord]:
    pairs = find_pairs([trained, held_out])
    times = (0.0, *np.geomspace(0.5, seconds, 40).tolist())
    return training.run(trained, pairs, records=AtSeconds(times), measure=scorer(held_out, pairs))


def loss_of(moment: LookupRecord) -> float:
    return moment.measured["log_loss"]


def best_of(moments: list[LookupRecord], level: float = 0.0) -> dict:
    """The moment with the least log-loss, the first one at this level, the last, and the highest top-1."""
    best = min(moments, key=loss_of)
    return {
        "best_log_loss": round(best.measured["log_loss"], 4),
        "top1_there": round(best.measured["top1"], 4),
        "seconds_there": round(best.seconds, 1),
        "epochs_there": round(best.epochs, 2),
        "level_after": next((round(one.seconds, 1) for one in moments if loss_of(one) <= level), None),
        "best_top1": round(max(one.measured["top1"] for one in moments), 4),
        "last_log_loss": round(moments[-1].measured["log_loss"], 4),
        "last_top1": round(moments[-1].measured["top1"], 4),
        "seconds": round(moments[-1].seconds, 1),
        "epochs": round(moments[-1].epochs, 1),
    }


def tune(split: Split, seconds: float) -> str:
    """Every step tried on nine tenths of train, scored on the last tenth."""
    learned, held_back = count_tokens(split.learned), count_tokens(split.held_back)
    lines = ["| step | least log-loss | top-1 there | seconds | epochs |", "|---|---|---|---|---|"]
    for name, training in TRIED.items():
        best = best_of(train(training, learned, held_back, seconds))
        shown = [f"{best[key]:g}" for key in ("best_log_loss", "top1_there", "seconds_there", "epochs_there")]
        lines.append(f"| {name} | {' | '.join(shown)} |")
        sys.stderr.write(lines[-1] + "\n")
    return "\n".join(lines)


def measure(budget: float) -> dict:
    split = read_split()
    costs, scores = solve_automaton(split)
    sys.stderr.write(f"{costs} {scores}\n")
    trained, held_out = count_tokens(split.train), count_tokens(split.valid)
    shares = dict(zip(TRAINED, (min(budget, 5.0), budget), strict=True))
    runs = {
        name: train(one, trained, held_out, shares[name] * costs["automaton"])
        for name, one in TRAINED.items()
    }
    return {
        "budget": budget,
        "costs": costs,
        "scores": scores,
        "trained": {name: best_of(moments, scores["shrunken"]["log_loss"]) for name, moments in runs.items()},
        "curves": {
            name: [
                [round(one.seconds, 2), round(one.measured["log_loss"], 4), round(one.measured["top1"], 4)]
                for one in moments
            ]
            for name, moments in runs.items()
        },
    }


def draw(figures: dict, path: str) -> None:
    looks = {
        "automaton": (HOUSE_GREY, ":", "automaton with 28 % uniform"),
        "shrunken": ("black", "--", "shrunken scores"),
    }
    with house_axes(height=4.0, n=2) as axes:
        for axis, column, name, factor in zip(axes, (1, 2), ("log_loss", "top1"), (1, 100), strict=True):
            for title, curve in figures["curves"].items():
                seconds, values = [row[0] for row in curve[1:]], [factor * row[column] for row in curve[1:]]
                axis.plot(seconds, values, label=f"trained: {title}")
            for rule, (shade, style, title) in looks.items():
                level, cost = factor * figures["scores"][rule][name], figures["costs"][rule]
                axis.axhline(level, color=shade, linestyle=style, linewidth=0.8)
                axis.axvline(
                    cost, color=shade, linestyle=style, linewidth=0.8, label=f"{title}: result and cost"
                )
        axes[0].set(xscale="log", ylabel="log-loss on valid, nats")
        axes[1].set(xscale="log", ylabel="top-1 on valid, %", xlabel="training time, seconds of one thread")
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
        axes[0].figure.savefig(path, bbox_inches="tight")


def option(name: str, otherwise: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--tune" in sys.argv:
        sys.stderr.write(tune(read_split(), float(option("--seconds", "60"))) + "\n")
        sys.exit()
    figures = measure(float(option("--budget", str(BUDGET))))
    if "--figure" in sys.argv:
        draw(figures, option("--figure", ""))
    after = {name: one["level_after"] for name, one in figures["trained"].items()}
    shared, cost = after["scores per query and per token"], figures["costs"]["automaton"]
    bars = {
        "per query: never as good as shrunken": after["scores per query"] is None,
        "and per token: not before twice the cost": shared is None or shared > 2 * cost,
    }
    report({**figures, "peak_gb": peak_gigabytes()}, bars)
