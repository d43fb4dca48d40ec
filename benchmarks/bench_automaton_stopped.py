"""Training stopped at step t: which t predicts new text best, and how it moves with the size of the corpus.

Gradient descent (step size 1) on parts of WikiText-2 train, window 32, fast-forwarded from zero and from the
pooled scores; t is chosen on the last tenth of train, held back, and scored on valid, beside shrinkage of the
same part. Bar: from the pooled scores, a quarter of train scores below 2.10 nats.
"""

import numpy as np
from scipy.sparse import csc_array

import attomaton as at
from attomaton.automaton.finite import FiniteAttention
from attomaton.automaton.shrinkage import Shrinkage, prepare_shrinkage
from attomaton.base.solutions import score_table, sparse_weights
from attomaton.base.tables import column
from bench_automaton_heldout import Split, read_split
from timing import peak_gigabytes, report, timed

FRACTIONS = (1 / 64, 1 / 16, 1 / 4)
TIMES = (0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)  # steps per realisable sample
STRENGTH = 0.4


def pooled_start(shrinkage: Shrinkage, n_tokens: int) -> csc_array:
    anchor = shrinkage.background[column(shrinkage.pairs, "token")]
    return sparse_weights(score_table(shrinkage.pairs, anchor), n_tokens)


def stopped(split: Split, part: at.Samples, start: csc_array | None, background: np.ndarray) -> dict:
    components = at.find_components(at.extract_edges(part))
    steps = [time * components.edges.n_samples for time in TIMES]
    trajectory = at.fast_forward(part, components=components, start=start, to=steps[-1], rtol=1e-3)
    attentions = [FiniteAttention(trajectory.scores_at(step), background) for step in steps]
    held = [round(attention.score(split.held_back).log_loss, 4) for attention in attentions]
    best = int(np.argmin(held))
    score = attentions[best].score(split.valid)
    return {
        "held_back": held,
        "best_steps_per_sample": TIMES[best],
        "best_step": float(f"{steps[best]:.3g}"),
        "log_loss": round(score.log_loss, 4),
        "top1": round(score.top1, 4),
    }


def measure() -> list[dict]:
    split, rows = read_split(), []
    for fraction in FRACTIONS:
        part = split.learned.take(slice(0, int(fraction * len(split.learned))))
        shrinkage = prepare_shrinkage(part)
        zeros, pooled = np.zeros(part.n_tokens), shrinkage.background
        rows.append(
            {
                "fraction": fraction,
                "from_zero": stopped(split, part, None, zeros),
                "from_pooled": stopped(split, part, pooled_start(shrinkage, part.n_tokens), pooled),
                "shrunken": round(shrinkage.solve(STRENGTH).score(split.valid).log_loss, 4),
            }
        )
    return rows


if __name__ == "__main__":
    rows, seconds = timed(measure)
    figures = {"rows": rows, "seconds": seconds, "peak_gb": peak_gigabytes()}
    report(figures, {"log_loss_below_2.10": rows[-1]["from_pooled"]["log_loss"] < 2.10})
