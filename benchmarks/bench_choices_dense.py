"""100,000 situations of 10 alternatives with 50 dense features; overlapping, and with a flag that never wins.

Bar: at most 5 CPU s for the overlapping data, both certified. ``--situations N`` for other sizes.
"""

import sys
import time

import numpy as np

from attomaton.choices.logit import ChoiceProblem, fit_logit
from timing import peak_gigabytes, report

SIZE, N_FEATURES = 10, 50


def draw(n_situations: int, *, separated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, how often each was chosen, and the truth."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_situations * SIZE, N_FEATURES))
    truth = 0.3 * rng.normal(size=N_FEATURES)
    if separated:
        rows[:, 0] = rng.random(len(rows)) < 0.02
    utility = (rows @ truth + rng.gumbel(size=len(rows))).reshape(n_situations, SIZE)
    if separated:
        flag = rows[:, 0].reshape(n_situations, SIZE)
        utility = utility - 1e9 * flag * (flag.min(axis=1) == 0)[:, None]
    counts = np.zeros((n_situations, SIZE))
    counts[np.arange(n_situations), utility.argmax(axis=1)] = 1
    return rows, counts.ravel(), truth


def run(n_situations: int, *, separated: bool) -> dict:
    """CPU seconds, and what came out."""
    rows, counts, truth = draw(n_situations, separated=separated)
    start = time.process_time()
    fit = fit_logit(ChoiceProblem.from_rows(rows, [SIZE] * n_situations, counts))
    return {
        "cpu_s": round(time.process_time() - start, 2),
        "certified": fit.certificate.certified,
        "way": fit.method,
        "dying": int(fit.dying.sum()),
        "first": fit.contrast("x1").kind.value,
        "largest_error": round(float(np.abs(fit.coefficients - truth)[1:].max()), 4),
    }


if __name__ == "__main__":
    size = int(sys.argv[sys.argv.index("--situations") + 1]) if "--situations" in sys.argv else 100_000
    plain = run(size, separated=False)
    gigabytes = peak_gigabytes()
    apart = run(size, separated=True)
    bars = {
        "overlapping at most 5 CPU s": plain["cpu_s"] <= 5,
        "certified": plain["certified"] and apart["certified"],
    }
    report({"situations": size, "overlapping": plain, "separated": apart, "gb": gigabytes}, bars)
