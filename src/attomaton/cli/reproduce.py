"""``attomaton reproduce``: run published experiments again."""

# It reads the settings of the experiments, runs each, and prints its page, or one JSON object for all.

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.options import MOST_TRIALS
from attomaton.cli import output
from attomaton.cli.progress import stages
from attomaton.cli.stopping import resumable
from attomaton.cli.values import check_folder, path_option, whole, words_argument

if TYPE_CHECKING:
    from attomaton_experiments.page import Page


def reproduce(
    experiment: Annotated[
        str, words_argument("Name of an experiment, or `all-mechanics`; `list` prints the names.")
    ],
    trials: Annotated[
        int | None, whole("Number of trials; default: as published.", least=1, most=MOST_TRIALS)
    ] = None,
    seed: Annotated[int, whole("Random seed.")] = 0,
    data: Annotated[
        Path | None, path_option("Text or published table, for experiments that need one.")
    ] = None,
    out: Annotated[Path | None, path_option("Folder for the figure, the numbers and a page.")] = None,
    work: Annotated[
        Path | None, path_option("Folder for training runs, from which a stopped experiment resumes.")
    ] = None,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Run a published experiment again, and compare the result with the published one."""
    # Commands import the library when they run: `attomaton --help` needs none of it, and the experiments need
    # extras, such as torch, that may not be installed.
    from attomaton.base.errors import needing
    from attomaton_experiments.settings import ALL, find_experiments, read_settings

    if experiment == "list":
        _print_list(as_json)
        return
    options: Any = {"data": data, "trials": trials, "seed": seed, "work": work}
    experiments = [read_settings(name, **options) for name in find_experiments(experiment)]
    with needing(experiment):
        from attomaton_experiments.page import KIND, write_page
        from attomaton_experiments.run import run_experiment
    check_folder(out, KIND)

    records: list[dict[str, Any]] = []
    has_failed = False
    all_began = time.perf_counter()
    for settings in experiments:
        name = settings["name"]
        with resumable(work is not None), stages(quiet) as announce:
            announce(name)
            began = time.perf_counter()
            page = run_experiment(settings, announce)
            seconds = time.perf_counter() - began
            if out is not None:
                announce(f"{name}: writing")
                write_page(page, out / name if experiment == ALL else out)
        records.append(_page_record(page, seconds))
        has_failed |= any(verdict.fails for verdict in page.verdicts or ())
        if not (as_json or quiet):
            _print_page(page, seconds)
    if as_json:
        together = {"experiments": records, "seconds": time.perf_counter() - all_began}
        output.print_json(together if experiment == ALL else records[0])
    raise typer.Exit(1 if has_failed else 0)


def _print_list(as_json: bool) -> None:
    from attomaton_experiments.settings import ALL, describe_experiments, list_experiments

    rows = describe_experiments()
    if as_json:
        output.print_json({"names": [ALL, *list_experiments()], "experiments": rows})
        return
    cells = [(row["name"], row["title"], row["figure"] or "", row["minutes"] or "") for row in rows]
    output.print_table("Experiments", ["name", "title", "published figure", "minutes"], cells)
    output.print_line(f"{ALL} runs all experiments named mechanics-*. Minutes are for two cores.")


def _page_record(page: "Page", seconds: float) -> dict[str, Any]:
    from attomaton.claims.verdicts import verdict_record

    record = {"experiment": page.name, **page.record, "seconds": seconds}
    if page.verdicts is not None:
        record["verdicts"] = list(map(verdict_record, page.verdicts))
    return record


def _print_page(page: "Page", seconds: float) -> None:
    output.print_blocks(page.printed)
    if page.verdicts:
        from attomaton.claims.verdicts import Verdicts

        output.print_value(Verdicts(page.verdicts))
    size_note = page.size  # such as "100 trials in ", or empty
    output.print_line(f"{size_note}{seconds:.1f} s.")
