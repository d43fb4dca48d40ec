"""``attomaton reproduce scan-snap-…``: the figures of the second paper."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attomaton.cli.output import print_json, print_line, print_table, print_verdicts, stages
from attomaton.errors import needing

if TYPE_CHECKING:
    from attomaton.experiments.scansnap.page import Page


def reproduce_scan(
    experiment: str,
    data: Path | None,
    *,
    trials: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Run, write and print one figure; whether no verdict failed."""
    with needing(experiment):
        from attomaton.experiments.scansnap.page import write_page
        from attomaton.experiments.scansnap.run import run_figure

    with stages(quiet or as_json) as announce:
        began = time.perf_counter()
        announce(experiment)
        page = run_figure(experiment, data=data, trials=trials, seed=seed, progress=announce.advance)
        seconds = time.perf_counter() - began
        if out is not None:
            announce(f"{experiment}: writing")
            write_page(page, out)
    if as_json:
        print_json(_record(page, seconds))
    elif not quiet:
        _print(page, seconds)
    return not any(verdict.fails for verdict in page.verdicts)


def _record(page: "Page", seconds: float) -> dict[str, Any]:
    from attomaton.claims.verdicts import as_record

    tables = [{"title": one.title, "headers": one.headers, "rows": one.rows} for one in page.tables]
    told = {"experiment": page.name, "caption": page.caption, "seconds": seconds, "tables": tables}
    return {**told, "notes": page.notes, "verdicts": [as_record(verdict) for verdict in page.verdicts]}


def _print(page: "Page", seconds: float) -> None:
    print_line(f"{page.title} ({page.name}). {page.caption}.")
    for table in page.tables:
        print_table(table.title, list(table.headers), [tuple(row) for row in table.rows])
    for note in page.notes:
        print_line(note)
    print_verdicts(page.verdicts)
    print_line(f"{seconds:.1f} s.")
