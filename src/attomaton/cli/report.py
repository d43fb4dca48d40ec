"""``attomaton report``: one HTML page of a run, to open or to send."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, stages


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by `attomaton learn --out`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    queries: Annotated[
        int | None, typer.Option(min=1, help="Show at most so many queries; as many as fit if not given.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained HTML page of RUN: graphs, scores, a live context box, training, verdicts.

    The page needs no network and no server. Of a large run it shows the queries with the most samples, so
    that it stays within 5 MB, and says so.
    """
    from attomaton.report.page.write import write_report

    with stages(quiet or as_json) as announce:
        announce("writing the page")
        written = write_report(run, out, most_queries=queries)
    record: dict[str, Any] = {
        "out": str(written.path),
        "bytes": written.n_bytes,
        "queries_shown": written.n_shown,
        "queries": written.n_queries,
        "samples_share": written.samples_share,
    }
    if as_json:
        print_json(record)
    elif not quiet:
        print_line(f"Wrote {written.path}, {written.n_bytes / 1e6:.1f} MB: open it in a browser.")
        if written.n_shown < written.n_queries:
            print_line(
                f"It holds {written.n_shown:,} of {written.n_queries:,} queries, those with the most "
                f"samples: {written.samples_share:.1%} of the samples that attention can learn."
            )
