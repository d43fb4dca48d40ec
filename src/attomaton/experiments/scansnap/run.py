"""Run a figure of the second paper by its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attomaton.errors import UnsupportedOption
from attomaton.experiments.scansnap.figure3 import run_figure3
from attomaton.experiments.scansnap.figure4 import run_figure4
from attomaton.experiments.scansnap.figure6 import run_figure6
from attomaton.experiments.scansnap.figure7 import run_figure7
from attomaton.experiments.scansnap.figure10 import run_figure10
from attomaton.experiments.scansnap.meeting import run_meeting
from attomaton.experiments.scansnap.page import Page
from attomaton.experiments.settings import SCAN_SNAP, read_table
from attomaton.options import MOST_TRIALS, whole_number

WORKERS = 2
"""Processes of Figure 10, whose runs are independent."""


def run_figure(
    name: str,
    *,
    data: Path | None = None,
    trials: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Page:
    """Compute one figure.

    Parameters
    ----------
    name : str
        Of its settings file.
    data : Path, optional
        The text, or the published table, where a figure takes one.
    trials : int, optional
        Seeds; those of the settings if not given.
    """
    settings: dict[str, Any] = read_table(SCAN_SNAP, name)
    seed = whole_number(seed, "seed")
    trials = None if trials is None else whole_number(trials, "trials", least=1, most=MOST_TRIALS)
    match name:
        case "scan-snap-3":
            return run_figure3(settings)
        case "scan-snap-4":
            return run_figure4(settings, trials=trials, seed=seed, progress=progress)
        case "scan-snap-6":
            return run_figure6(settings, data=data, trials=trials, seed=seed, progress=progress)
        case "scan-snap-7":
            return run_figure7(settings, _need(data, name), seed=seed, progress=progress)
        case "scan-snap-10":
            each = settings["trials"] if trials is None else trials
            return run_figure10(
                settings, _need(data, name), trials=each, seed=seed, workers=WORKERS, progress=progress
            )
        case "scan-snap-meeting":
            return run_meeting(settings)
        case _:
            raise UnsupportedOption(f"there are settings for {name!r}, but nothing that runs it")


def _need(data: Path | None, name: str) -> Path:
    if data is None:
        raise UnsupportedOption(
            f"{name} needs WikiText-2, which is not shipped; give --data FOLDER with train*.txt and valid.txt"
        )
    return data
