"""One deep order of 10⁶ nodes and about 10⁷ edges between nodes at most 1,000 apart.

Timed: solver and certificate on the problem as it stands, at 10⁴, 10⁵ and 10⁶ nodes (median of 5, 5 and 3
after a first call), and the growth exponent in edges fitted to the three. Bars: every size certified at a
relative gap of at most 1e-12; 10⁶ nodes under 120 s and 8 GB; exponent at most 1.15.
"""

import statistics

import numpy as np

from attomaton.solvers import Placement
from attomaton.solvers.hard.certify import HardCertificate, certify_positions
from attomaton.solvers.hard.problem import OrderProblem
from orders import deep_order
from timing import peak_gigabytes, report, timed


def solve(problem: OrderProblem) -> HardCertificate:
    return certify_positions(problem, *Placement().solve_order(problem), rtol=1e-12)


if __name__ == "__main__":
    _, first_s = timed(solve, deep_order(5_000, 50_000, np.random.default_rng(1)))
    edges, seconds, gaps, certified = [], [], [], []
    for n_nodes, runs in ((10**4, 5), (10**5, 5), (10**6, 3)):
        problem = deep_order(n_nodes, round(10.01 * n_nodes), np.random.default_rng(0))
        results = [timed(solve, problem) for _ in range(runs)]
        edges.append(len(problem.above))
        seconds.append(statistics.median(taken for _, taken in results))
        gaps.append(results[0][0].gap)
        certified.append(all(certificate.certified for certificate, _ in results))
    exponent = float(np.polyfit(np.log(edges), np.log(seconds), 1)[0])
    figures = {
        "edges": edges,
        "seconds": seconds,
        "gaps": gaps,
        "first_call_s": first_s,
        "exponent": round(exponent, 3),
        "peak_gb": peak_gigabytes(),
    }
    bars = {
        "certified_at_1e-12": all(certified),
        "under_120_s": seconds[-1] < 120,
        "under_8_gb": figures["peak_gb"] < 8,
        "exponent_at_most_1.15": exponent <= 1.15,
    }
    report(figures, bars)
