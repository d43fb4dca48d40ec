"""``attomaton verify``: test every claim of the theory on a training run."""

from pathlib import Path
from typing import Annotated

import typer

from attomaton.cli.messages import print_error
from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value
from attomaton.cli.progress import stages
from attomaton.cli.values import path_argument


def verify(
    run: Annotated[Path, path_argument("Run folder written by `attomaton train`.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test each theorem on the training in RUN; exit code 1 if one fails.

    Assumptions are checked first. Verdicts are written to verdicts.json in RUN.
    """
    from attomaton.base.errors import needing

    with needing("verifying"):
        import attomaton.claims.mechanics as mechanics
        from attomaton.claims.diagnosis import diagnose
        from attomaton.claims.limits import solve_trials
        from attomaton.claims.stored import digest_trace, write_verdicts
        from attomaton.claims.verdicts import verdict_record
        from attomaton.training.checkpoints import read_trace

    with stages(quiet) as announce:
        announce("reading")
        digest = digest_trace(run)
        trace = read_trace(run)
        announce("solving")
        automata = solve_trials(trace)
        announce("judging")
        verdicts = mechanics.verify(automata, trace)
        advice = diagnose(trace, automata)
    judged = [verdict_record(verdict) for verdict in verdicts]
    record = {"summary": verdicts.summary, "counts": verdicts.counts, "verdicts": judged, "diagnosis": advice}
    unwritten = write_verdicts(run, judged, digest)
    if as_json:
        print_json(record)
    elif not quiet:
        print_value(verdicts)
        for line in advice:
            print_line(f"Diagnosis: {line}.")
    if unwritten:
        print_error(f"The verdicts could not be saved: {unwritten}.")
    raise typer.Exit(1 if any(verdict.fails for verdict in verdicts) else 0)
