"""``attomaton reproduce``: redraw a published experiment."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table, stages

if TYPE_CHECKING:
    from attomaton.experiments.run import Outcome


def reproduce(
    experiment: Annotated[str, typer.Argument(help="Its name, or `list` for all names.")],
    trials: Annotated[int | None, typer.Option(help="How many; those of the settings if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write figure, numbers and a page there.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw, train and measure EXPERIMENT again, and put what was published beside what came out."""
    from attomaton.experiments.settings import list_experiments, read_settings

    if experiment == "list":
        print_line(" ".join(list_experiments()))
        return
    settings = read_settings(experiment)
    from attomaton.experiments.run import run_experiment
    from attomaton.experiments.write import write_outcome

    with stages(quiet or as_json) as announce:
        announce("drawing, training, solving")
        began = time.perf_counter()
        outcome = run_experiment(settings, trials=trials, seed=seed)
        seconds = time.perf_counter() - began
        if out is not None:
            announce("writing")
            write_outcome(outcome, out)
    if as_json:
        print_json({"experiment": experiment, "seconds": seconds, **outcome.last()})
    elif not quiet:
        print_table(settings.title, ["measure", "mean", "range", "published"], _rows(outcome))
        print_line(f"{outcome.trace.n_trials} trials in {seconds:.1f} s.")


def _rows(outcome: "Outcome") -> list[tuple[object, ...]]:
    from attomaton.experiments.run import MEASURES

    return [
        (
            MEASURES[name],
            f"{mean:.4g}",
            f"{least:.4g} to {most:.4g}",
            " to ".join(map(str, outcome.settings.published.get(name, ()))),
        )
        for name, (mean, least, most) in outcome.last().items()
    ]
