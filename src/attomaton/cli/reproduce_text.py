"""``attomaton reproduce text-… --data FILE``: train attention on a text and compare it with its automaton."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from attomaton.cli.output import print_json, print_line, print_table, stages
from attomaton.errors import UnsupportedOption, needing

if TYPE_CHECKING:
    from attomaton.experiments.text import Row, TextOutcome


def reproduce_text(
    experiment: str, data: Path | None, *, seed: int, out: Path | None, as_json: bool, quiet: bool
) -> None:
    """Run one experiment on text; print how attention and automaton agree at the last step."""
    from attomaton.experiments.text_settings import read_text_settings

    settings = read_text_settings(experiment)
    if data is None:
        raise UnsupportedOption(
            f"{experiment} needs a text, which is not shipped; give --data FILE ({settings.title})"
        )
    with needing(experiment):
        from attomaton.experiments.text import run_text
        from attomaton.experiments.text_write import write_text_outcome

    with stages(quiet or as_json) as announce:
        began = time.perf_counter()
        outcome = run_text(settings, data, seed=seed, announce=announce)
        seconds = time.perf_counter() - began
        if out is not None:
            announce("writing")
            write_text_outcome(outcome, out)
    if as_json:
        parts = {"counts": outcome.counts, "shares": outcome.shares, "last": _last(outcome)}
        print_json({"experiment": experiment, "seconds": seconds, **parts})
    elif not quiet:
        headers = ["model", "contexts", "step", "top token retrieved", "distance", "log-loss"]
        print_table(settings.title, headers, [_cells(row) for row in _last(outcome)])
        print_line(f"{outcome.counts['held_out']:,} contexts held out; {seconds:.1f} s.")


def _last(outcome: "TextOutcome") -> "list[Row]":
    """The last row of every model, over all contexts of each kind."""
    rows = outcome.rows(rule="all")
    return list({(row["model"], row["contexts"]): row for row in rows}.values())


def _cells(row: "Row") -> tuple[object, ...]:
    numbers = f"{100 * row['retrieved']:.2f} %", f"{row['distance']:.3f}", f"{row['log_loss']:.3f}"
    return row["model"], row["contexts"], row["step"], *numbers
