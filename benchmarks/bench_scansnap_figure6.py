"""Figure 6 of "Scan and Snap": 64 cells of learning rates and class settings, ten seeds each.

Bars: under 5 minutes on two cores; mean absolute difference to the published table at most 0.03 nats.
"""

from attomaton_experiments.run import run_experiment
from attomaton_experiments.settings import read_settings
from timing import DATA, report, timed

if __name__ == "__main__":
    settings = read_settings("scan-snap-6", data=DATA / "reference" / "scan_snap_fig6.csv")
    page, seconds = timed(lambda: run_experiment(settings))
    judged = {verdict.claim: verdict for verdict in page.verdicts}
    off = judged["published table"].value
    bars = {"under_300_s": seconds < 300, "at_most_0.03": off is not None and off <= 0.03}
    report({"seconds": seconds, "difference": off}, bars)
