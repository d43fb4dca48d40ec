"""Run an experiment by its settings."""

from attomaton.experiments.mechanics import run_training
from attomaton.experiments.outcome import Outcome
from attomaton.experiments.path import run_path
from attomaton.experiments.settings import Settings

KINDS = {"training": run_training, "path": run_path}


def run_experiment(
    settings: Settings, *, trials: int | None = None, seed: int = 0, judged: bool = True
) -> Outcome:
    """Draw, train, solve, measure; and, if ``judged``, hold it against every claim."""
    run = KINDS[settings.kind]
    return run(settings, trials=settings.trials if trials is None else trials, seed=seed, judged=judged)
