"""``attomaton bench``: what the solvers take on this machine."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table, stages
from attomaton.cli.values import words_argument

if TYPE_CHECKING:
    from attomaton.hard.trials import Trial


def bench(
    topic: Annotated[str, words_argument("What to measure: hard.")],
    rivals: Annotated[
        bool, typer.Option(help="Also solve with Clarabel, where it is installed and can.")
    ] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Solve standard problems of TOPIC and print times and certificates; takes about a minute."""
    from attomaton.errors import UnsupportedOption
    from attomaton.hard.trials import run_trials

    if topic != "hard":
        raise UnsupportedOption(f"there is no benchmark {topic!r}; choose hard")
    trials: list[Trial] = []
    with stages(quiet or as_json) as begin:
        begin("solving")
        for trial in run_trials(rivals=rivals):
            trials.append(trial)
            begin(f"solving, {len(trials)} done")
    if as_json:
        print_json({"topic": topic, "trials": [_record(trial) for trial in trials]})
    elif not quiet:
        headers = ["problem", "size", "seconds", "first call", "relative gap", "Clarabel"]
        print_table("The hard side on this machine", headers, [_row(trial) for trial in trials])
        print_line("The first call may compile; compiled code is kept for the next program.")
    if not all(trial.certificate.certified for trial in trials):
        raise typer.Exit(1)


def _row(trial: "Trial") -> tuple[object, ...]:
    rival = "" if trial.rival_seconds is None else f"{trial.rival_seconds:.2f}"
    gap = f"{trial.certificate.gap:.0e}"
    return trial.name, trial.size, f"{trial.seconds:.3f}", f"{trial.first_seconds:.2f}", gap, rival


def _record(trial: "Trial") -> dict[str, Any]:
    return {
        "problem": trial.name,
        "size": trial.size,
        "seconds": trial.seconds,
        "first_seconds": trial.first_seconds,
        "gap": trial.certificate.gap,
        "certified": trial.certificate.certified,
        "clarabel_seconds": trial.rival_seconds,
    }
