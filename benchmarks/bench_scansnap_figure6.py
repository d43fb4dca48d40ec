"""Figure 6 of "Scan and Snap": 64 cells of learning rates and class settings, ten seeds each.

Bars: under 5 minutes on two cores; no cell further than four standard errors from the published table.
"""

from attomaton_experiments.run import run_experiment
from attomaton_experiments.settings import read_settings
from timing import report, timed

if __name__ == "__main__":
    page, seconds = timed(lambda: run_experiment(read_settings("scan-snap-6")))
    judged = {verdict.claim: verdict for verdict in page.verdicts}
    off = judged["published table"].value
    report(
        {"seconds": seconds, "standard_errors": off}, {"under_300_s": seconds < 300, "at_most_4": off <= 4.0}
    )
