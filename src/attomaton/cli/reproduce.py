"""``attomaton reproduce``: redraw published experiments."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.output import (
    AsJson,
    Quiet,
    print_json,
    print_line,
    print_table,
    print_verdicts,
    stages,
)
from attomaton.cli.values import check_folder, place, whole, words_argument
from attomaton.options import MOST_TRIALS

if TYPE_CHECKING:
    from attomaton.experiments.outcome import Outcome

ALL = "all-mechanics"
"""Every experiment of the first paper."""


def reproduce(
    experiment: Annotated[str, words_argument(f"Its name, `{ALL}`, or `list` for all names.")],
    trials: Annotated[
        int | None, whole("How many; those of the settings if not given.", least=1, most=MOST_TRIALS)
    ] = None,
    seed: Annotated[int, whole("Of all that is drawn.")] = 0,
    data: Annotated[
        Path | None, place("The text, or the published table, for experiments that take one.")
    ] = None,
    out: Annotated[Path | None, place("Write figure, numbers and a page there.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw, train and measure EXPERIMENT again, put what was published beside what came out, and judge it."""
    from attomaton.experiments.settings import SCAN_SNAP, list_experiments, list_tables, read_settings
    from attomaton.experiments.text_settings import list_text_experiments

    if experiment == "list":
        names = [*list_experiments(), ALL, *list_text_experiments(), *list_tables(SCAN_SNAP)]
        if as_json:
            print_json({"names": names})
        else:
            print_line(" ".join(names))
        return
    check_folder(out, "experiment")
    if experiment in list_text_experiments():
        from attomaton.cli.reproduce_text import reproduce_text

        reproduce_text(experiment, data, seed=seed, out=out, as_json=as_json, quiet=quiet)
        return
    if experiment in list_tables(SCAN_SNAP):
        from attomaton.cli.reproduce_scan import reproduce_scan

        sound = reproduce_scan(
            experiment, data, trials=trials, seed=seed, out=out, as_json=as_json, quiet=quiet
        )
        raise typer.Exit(0 if sound else 1)
    mechanics = [name for name in list_experiments() if name.startswith("mechanics-")]
    settings = [read_settings(name) for name in (mechanics if experiment == ALL else [experiment])]
    from attomaton.errors import needing

    with needing(experiment):
        from attomaton.experiments.run import run_experiment
        from attomaton.experiments.write import write_outcome

    records: list[dict[str, Any]] = []
    failed = False
    began = time.perf_counter()
    for one in settings:
        with stages(quiet or as_json) as announce:
            announce(f"{one.name}: drawing, training, solving, judging")
            start = time.perf_counter()
            outcome = run_experiment(one, trials=trials, seed=seed)
            if out is not None:
                announce(f"{one.name}: writing")
                write_outcome(outcome, out / one.name if experiment == ALL else out)
        records.append(_record(outcome, time.perf_counter() - start))
        failed |= any(verdict.fails for verdict in outcome.verdicts)
        if not (as_json or quiet):
            _print(outcome, records[-1]["seconds"])
    if as_json:
        together = {"experiments": records, "seconds": time.perf_counter() - began}
        print_json(together if experiment == ALL else records[0])
    raise typer.Exit(1 if failed else 0)


def _record(outcome: "Outcome", seconds: float) -> dict[str, Any]:
    from attomaton.claims.verdicts import as_record

    ends = {name: dict(zip(("mean", "min", "max"), end, strict=True)) for name, end in outcome.last().items()}
    return {
        "experiment": outcome.settings.name,
        "trials": outcome.n_trials,
        "seconds": seconds,
        "measures": ends,
        "notes": list(outcome.notes),
        "verdicts": [as_record(verdict) for verdict in outcome.verdicts],
    }


def _print(outcome: "Outcome", seconds: float) -> None:
    rows: list[tuple[object, ...]] = []
    for one in outcome.measured:
        mean, least, most = outcome.last()[one.name]
        published = " to ".join(map(str, outcome.settings.published.get(one.name, ())))
        rows.append((one.title, f"{mean:.4g}", f"{least:.4g} to {most:.4g}", published))
    title = f"{outcome.settings.title} ({outcome.settings.name})"
    print_table(title, ["measure", "mean", "range", "published"], rows)
    for note in outcome.notes:
        print_line(note)
    print_verdicts(outcome.verdicts)
    print_line(f"{outcome.n_trials} trials in {seconds:.1f} s.")
