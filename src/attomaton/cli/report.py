"""``attomaton report``: one HTML page of a run."""

from pathlib import Path
from typing import Annotated, Any

from attomaton.base.errors import UnsupportedOption, UnwritablePlace
from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.progress import stages
from attomaton.cli.values import check_folder, is_stream, path_argument, path_option, whole, words


def report(
    run: Annotated[Path, path_argument("Folder written by `attomaton learn --out`.")],
    out: Annotated[Path, path_option("HTML file to write; - is standard output.")] = Path("report.html"),
    queries: Annotated[
        int | None, whole("Maximum number of queries to show; default: as many as fit.", least=1)
    ] = None,
    heads: Annotated[
        Path | None, path_option("Audit of heads to add: a file written by `attomaton heads --out`.")
    ] = None,
    figures: Annotated[Path | None, path_option("Folder for figures for papers, as PDF and PNG.")] = None,
    query: Annotated[
        str | None, words("Query whose graph --figures draws; default: the query with the most samples.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write RUN as one HTML page: graphs, scores, a box to try contexts, training, verdicts.

    The page needs no network and no server. If the run is large, it shows the queries
    with the most samples, as many as fit in 5 MB.
    """
    from attomaton.report.page.write import write_report

    if query is not None and figures is None:
        raise UnsupportedOption("--query works only with --figures; add --figures FOLDER")
    if figures is not None:
        from attomaton.report.pictures import FIGURES

        check_folder(figures, FIGURES)
    if out.is_dir():
        raise UnwritablePlace(f"{out} is a folder; give the path of a file, such as {out / 'report.html'}")
    streamed = is_stream(out, as_json)
    with stages(quiet) as announce:
        drawn: list[Path] = []
        if figures is not None:
            from attomaton.report.pictures import write_figures

            announce("drawing the figures")
            drawn = write_figures(run, figures, query=query)
        announce("writing the page")
        written = write_report(run, out, most_queries=queries, heads=heads)
    record: dict[str, Any] = {
        "out": str(written.path),
        "bytes": written.n_bytes,
        "queries_shown": written.n_shown,
        "queries": written.n_queries,
        "samples_share": written.samples_share,
        "heads": written.n_heads,
        "figures": list(map(str, drawn)),
    }
    if as_json:
        print_json(record)
    elif not (quiet or streamed):
        print_line(f"Wrote {written.path} ({written.n_bytes / 1e6:.1f} MB). Open it in a browser.")
        if written.n_shown < written.n_queries:
            print_line(
                f"It shows the {written.n_shown:,} queries with the most samples, out of "
                f"{written.n_queries:,}; they have {written.samples_share:.1%} of the realisable samples."
            )
        if drawn:
            print_line(f"Wrote {', '.join(path.name for path in drawn)} to {figures}.")
