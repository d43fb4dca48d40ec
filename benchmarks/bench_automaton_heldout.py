"""New text: learned on WikiText-2 train, scored on the realisable samples of valid, window 32.

Whatever has a free number (a share ε of uniform, a strength) has it chosen on the last tenth of train, held
back; then all of train is learned. Bars: the shrunken scores' log-loss below 2.10 nats, top-1 above 42 %.

    python benchmarks/bench_automaton_heldout.py [--figure docs/figures/heldout.png] [--table]
"""

import sys
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

import attomaton as at
from attomaton.automaton.finite import FiniteAttention
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import (
    Score,
    fit_epsilon,
    mix_uniform,
    score_prediction,
    uniform_probabilities,
)
from attomaton.automaton.shrinkage import prepare_shrinkage
from attomaton.base.drawing import HOUSE_GREY, house_axes
from attomaton.graphs import count_tokens
from attomaton.graphs.bags import find_realisable
from timing import DATA, peak_gigabytes, report, timed

WINDOW = 32
STRENGTHS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 3.0, 10.0, 100.0)
FRACTIONS = (1 / 64, 1 / 16, 1 / 4, 1.0)
SHADES = ("#b3d4e8", "#66a9d1", "#0072b2", "#003a5c")  # of the fractions, towards the house's blue
FIRST = 20_000  # realisable samples that an earlier trial was scored on


@dataclass(frozen=True)
class Split:
    """Train, the part of it that is learned while choosing, the rest of it, and valid with its beginning."""

    train: at.Samples
    learned: at.Samples
    held_back: at.Samples
    valid: at.Samples
    first: at.Samples


def read_split() -> Split:
    texts = [
        (DATA / "wikitext-2" / name).read_text(encoding="utf-8")
        for name in ("train.articles-shuffled.txt", "valid.txt")
    ]
    n_train = len(at.Vocabulary.from_text(texts[0])[1])
    words, ids = at.Vocabulary.from_text("".join(texts))  # one vocabulary; words of valid alone are unseen
    train, valid = (
        at.Samples.from_windows(part, window=WINDOW, n_tokens=len(words))
        for part in (ids[:n_train], ids[n_train:])
    )
    cut = len(train) - len(train) // 10
    first = valid.take(np.flatnonzero(find_realisable(valid))[:FIRST])
    return Split(train, train.take(slice(0, cut)), train.take(slice(cut, None)), valid, first)


def uniform(samples: at.Samples) -> BatchPrediction:
    bags = count_tokens(samples)
    nothing = np.zeros(len(bags.sample), np.int64)
    return BatchPrediction(bags, nothing, nothing.astype(bool), uniform_probabilities(bags))


def most_recent(samples: at.Samples, *, skip_query: bool) -> BatchPrediction:
    """Sure of the last token; or of the last one that is not the query, where there is one."""
    prediction = uniform(samples)
    bags = prediction.bags
    last = bags.samples.queries.copy()
    if skip_query:
        for back in range(2, WINDOW + 1):
            place = bags.samples.stops - back
            open_yet = (last == bags.samples.queries) & (place >= bags.samples.starts)
            last[open_yet] = bags.samples.values[place[open_yet]]
    probabilities = (bags.token == last[bags.sample]).astype(np.float64)
    return BatchPrediction(bags, prediction.component, prediction.is_node, probabilities)


def row(rule: str, score: Score, first: Score, **chosen: float) -> dict:
    def shown(number: float) -> float | None:
        return round(number, 4) if np.isfinite(number) else None

    return {
        "rule": rule,
        "log_loss": shown(score.log_loss),
        "top1": shown(score.top1),
        "zero_share": shown(score.zero_share),
        "unseen": shown(score.unseen),
        "no_evidence": shown(score.no_evidence),
        f"first_{FIRST}": [shown(first.log_loss), shown(first.top1)],
        **{name: shown(number) for name, number in chosen.items()},
    }


def baselines(split: Split) -> list[dict]:
    """Rules that learn nothing. Being sure of one token is mixed with uniform for its log-loss alone."""
    tested = split.valid, split.first
    rows = [row("uniform", *(score_prediction(uniform(part)) for part in tested))]
    for name, skip in (("most recent", False), ("most recent but the query", True)):
        epsilon = fit_epsilon(most_recent(split.held_back, skip_query=skip))
        sure = [most_recent(part, skip_query=skip) for part in tested]
        scores = [
            replace(score_prediction(one), log_loss=score_prediction(mix_uniform(one, epsilon)).log_loss)
            for one in sure
        ]
        rows.append(row(name, *scores, epsilon=epsilon))
    return rows


def limit(split: Split) -> list[dict]:
    """The automaton as it is, and mixed with uniform."""
    epsilon = fit_epsilon(at.learn(split.learned).predict_bags(count_tokens(split.held_back)))
    auto, tested = at.learn(split.train), (split.valid, split.first)
    mixed = (auto.score(part, epsilon=epsilon) for part in tested)
    unseen = unseen_zeros(auto.predict_bags(count_tokens(split.valid)))
    return [
        row("limit", *(auto.score(part) for part in tested), zero_and_unseen=unseen),
        row("limit with uniform", *mixed, epsilon=epsilon),
    ]


def without_soft(auto: at.Automaton) -> at.Automaton:
    """Hard retrieval alone: every occurrence in the retrieved component is as likely."""
    scores = auto.soft.scores.set_column(2, "score", pa.array(np.zeros(auto.soft.scores.num_rows)))
    return replace(auto, soft=replace(auto.soft, scores=scores))


def ablation(split: Split) -> list[dict]:
    """The limit without W_fin, mixed with uniform, and W_fin without the limit's direction."""
    epsilon = fit_epsilon(without_soft(at.learn(split.learned)).predict_bags(count_tokens(split.held_back)))
    auto, tested = at.learn(split.train), (split.valid, split.first)
    hard, soft = without_soft(auto), FiniteAttention(auto.soft.scores, np.zeros(auto.n_tokens))
    return [
        row("limit without W_fin", *(hard.score(part) for part in tested)),
        row("that with uniform", *(hard.score(part, epsilon=epsilon) for part in tested), epsilon=epsilon),
        row("W_fin alone", *(soft.score(part) for part in tested)),
    ]


def unseen_zeros(prediction: BatchPrediction) -> float:
    """Share of labels with p = 0 because no sample shows them under their query."""
    bags = prediction.bags
    mine = bags.token == bags.samples.labels[bags.sample]
    return float(np.mean(~prediction.is_node[mine] & (prediction.probabilities[mine] == 0)))


def shrunken(split: Split, strength: float) -> list[dict]:
    """All of train, with no scores for single queries and with shrunken ones."""
    tested = split.valid, split.first
    attention = prepare_shrinkage(split.train).solve(strength)
    pooled = FiniteAttention(attention.scores.slice(0, 0), attention.background)
    return [
        row("pooled", *(pooled.score(part) for part in tested)),
        row("shrunken", *(attention.score(part) for part in tested), strength=strength),
    ]


def curves(split: Split) -> list[dict]:
    """Log-loss against strength for growing parts of train: on what was held back, and on valid."""
    found = []
    for fraction in FRACTIONS:
        part = split.learned.take(slice(0, int(fraction * len(split.learned))))
        shrinkage = prepare_shrinkage(part)
        held, valid = [], []
        for strength in STRENGTHS:
            attention = shrinkage.solve(strength)
            held.append(round(attention.score(split.held_back).log_loss, 4))
            valid.append(round(attention.score(split.valid).log_loss, 4))
        best = {"best_strength": STRENGTHS[int(np.argmin(held))], "optimum": round(lowest_point(held), 3)}
        found.append({"fraction": fraction, **best, "held_back": held, "valid": valid})
    return found


def lowest_point(losses: list[float]) -> float:
    """The strength at the vertex of the parabola in ln r through the least loss and its neighbours."""
    middle = min(max(int(np.argmin(losses)), 1), len(losses) - 2)
    near = slice(middle - 1, middle + 2)
    square, slope, _ = np.polyfit(np.log(STRENGTHS[near]), losses[near], 2)
    return float(np.exp(-slope / (2 * square)))


def measure() -> dict:
    split = read_split()
    found = curves(split)
    rows = [*baselines(split), *limit(split), *ablation(split), *shrunken(split, found[-1]["best_strength"])]
    samples = {"read": len(split.valid), "realisable": int(find_realisable(split.valid).sum())}
    return {"samples": samples, "rows": rows, "curves": found}


def draw(figures: dict, path: str) -> None:
    with house_axes(height=2.4, width=5.0) as axes:
        for curve, shade in zip(figures["curves"], SHADES, strict=True):
            name = "all" if curve["fraction"] == 1 else f"1/{round(1 / curve['fraction'])}"
            axes.plot(STRENGTHS, curve["valid"], color=shade, marker=".", label=f"{name} of train")
            best = STRENGTHS.index(curve["best_strength"])
            axes.plot(STRENGTHS[best], curve["valid"][best], "o", color=shade, markersize=6)
        for rule, style in (("uniform", ":"), ("pooled", "--"), ("limit with uniform", "-.")):
            loss = next(row["log_loss"] for row in figures["rows"] if row["rule"] == rule)
            axes.axhline(loss, color=HOUSE_GREY, linestyle=style, linewidth=0.8, label=rule)
        axes.set(xscale="log", xlabel="strength r of the pull towards pooled scores")
        axes.set(ylabel="log-loss on WikiText-2 valid, nats")
        axes.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, 0.96))
        axes.figure.savefig(path, bbox_inches="tight")


def table(figures: dict) -> str:
    lines = ["| rule | log-loss | top-1 | labels with p = 0 |", "|---|---|---|---|"]
    for one in figures["rows"]:
        top1, zero = (f"{100 * one[name]:.1f} %" for name in ("top1", "zero_share"))
        lines.append(f"| {one['rule']} | {one['log_loss'] or 'infinite'} | {top1} | {zero} |")
    return "\n".join(lines)


if __name__ == "__main__":
    figures, seconds = timed(measure)
    if "--figure" in sys.argv:
        draw(figures, sys.argv[sys.argv.index("--figure") + 1])
    if "--table" in sys.argv:
        sys.stderr.write(table(figures) + "\n")
    best = next(one for one in figures["rows"] if one["rule"] == "shrunken")
    bars = {"log_loss_below_2.10": best["log_loss"] < 2.10, "top1_above_0.42": best["top1"] > 0.42}
    report({**figures, "seconds": seconds, "peak_gb": peak_gigabytes()}, bars)
