"""choix's own problem: 2,000 items of equal strength, 20,000 random sets of 8, redrawn until connected.

Each side starts from Python lists in its own form and ends with scores; ours is timed end to end, with the
components and the certificate (the solve alone is given too). Bars: at least 30 times faster than
choix.ilsr_top1, largest gradient entry of the summed loss ≤ 1e-8.
"""

import choix
import numpy as np

from attomaton.choices import fit_choices
from attomaton.solvers import Newton
from attomaton.solvers.soft.likelihood import luce_problem
from timing import median_run, report, timed

N_ITEMS, N_CHOICES, SIZE = 2_000, 20_000, 8


def draw(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Winners and choice sets. All are equally strong, so the first of a random set is a fair choice."""
    sets = [rng.choice(N_ITEMS, SIZE, replace=False).tolist() for _ in range(N_CHOICES)]
    return [members[0] for members in sets], sets


def largest_gradient(sets: list[list[int]], scores: np.ndarray) -> float:
    """Expected less observed wins, from the lists alone."""
    members = np.array(sets)
    odds = np.exp(scores[members])
    expected = np.bincount(members.ravel(), (odds / odds.sum(axis=1, keepdims=True)).ravel(), N_ITEMS)
    return float(np.abs(expected - np.bincount(members[:, 0], minlength=N_ITEMS)).max())


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    winners, sets = draw(rng)
    while not (first := fit_choices(winners, sets)).connected or len(first.items) < N_ITEMS:
        winners, sets = draw(rng)
    data = [(members[0], members[1:]) for members in sets]  # as choix takes it
    _, problem = luce_problem(first.soft.choices, first.graph)

    def once() -> dict:
        fit, seconds = timed(lambda: fit_choices(winners, sets).expect())
        scores = np.array([fit.scores[item] for item in range(N_ITEMS)])
        return {"fit_s": seconds, "gradient": largest_gradient(sets, scores)}

    def theirs_once() -> dict:
        scores, seconds = timed(choix.ilsr_top1, N_ITEMS, data)
        return {"choix_s": seconds, "choix_gradient": largest_gradient(sets, scores)}

    figures = {**median_run(theirs_once, "choix_s", 5), **median_run(once, "fit_s", 9)}
    figures["solve_s"] = median_run(lambda: {"s": timed(Newton().solve, problem)[1]}, "s", 9)["s"]
    figures["times_faster"] = round(figures["choix_s"] / figures["fit_s"], 1)
    bars = {"30 times faster": figures["times_faster"] >= 30, "gradient 1e-8": figures["gradient"] <= 1e-8}
    report(figures, bars)
