"""``attomaton upgrade``: a run of an earlier version, laid out as this version does."""

from pathlib import Path
from typing import Annotated

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, stages
from attomaton.cli.values import place_argument


def upgrade(
    run: Annotated[Path, place_argument("A folder written by `attomaton learn --out`.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write RUN anew, in its place, in parts of whole queries, so that it is asked and not loaded.

    Answers, configuration, a training and verdicts stay as they are.
    """
    from attomaton.runs.upgrade import upgrade_run

    with stages(quiet or as_json) as announce:
        announce("upgrading")
        done = upgrade_run(run)
    if as_json:
        print_json({"run": str(run), "upgraded": done})
    elif not quiet:
        told = "was written anew" if done else "is laid out in this way already: there is nothing to do"
        print_line(f"{run} {told}.")
