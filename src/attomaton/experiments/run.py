"""Run an experiment by its settings."""

from attomaton.experiments.mechanics import run_training
from attomaton.experiments.outcome import Outcome
from attomaton.experiments.path import run_path
from attomaton.experiments.settings import Settings
from attomaton.options import MOST_TRIALS, whole_number

KINDS = {"training": run_training, "path": run_path}


def run_experiment(
    settings: Settings, *, trials: int | None = None, seed: int = 0, judged: bool = True
) -> Outcome:
    """Draw, train, solve, measure; and, if ``judged``, hold it against every claim."""
    run = KINDS[settings.kind]
    number = settings.trials if trials is None else whole_number(trials, "trials", least=1, most=MOST_TRIALS)
    return run(settings, trials=number, seed=whole_number(seed, "seed"), judged=judged)
