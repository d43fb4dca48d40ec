"""``attomaton export``: write a run as files for other programs."""

from pathlib import Path
from typing import Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.progress import stages
from attomaton.cli.values import check_folder, is_stream, path_argument, path_option, read_queries, words


def export(
    run: Annotated[Path, path_argument("Folder written by `attomaton learn --out`.")],
    graphml: Annotated[
        Path | None, path_option("GraphML file to write, for networkx or Gephi; - is standard output.")
    ] = None,
    csv: Annotated[Path | None, path_option("Folder for the tables as CSV files, with token texts.")] = None,
    nodes: Annotated[str, words("Nodes of the GraphML file: components or tokens.")] = "components",
    queries: Annotated[
        str | None,
        words("Queries to export, separated by spaces, or a number k for the k with the most samples."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Export the priority graphs of RUN as GraphML and its tables as CSV."""
    # imported when the command runs, so that `attomaton --help` needs none of the library
    from attomaton.automaton.automaton import Automaton
    from attomaton.base.errors import UnsupportedOption, UnwritablePlace
    from attomaton.report.csv_tables import CSV_TABLES, write_csv
    from attomaton.report.export import pick_queries, refuse_run_folder
    from attomaton.report.graphml import write_graphml

    if graphml is None and csv is None:
        raise UnsupportedOption("no output is given; give --graphml FILE, --csv FOLDER, or both")
    if nodes not in ("components", "tokens"):
        raise UnsupportedOption(f"--nodes is {nodes!r}; choose components or tokens")
    if graphml is not None and graphml.is_dir():
        raise UnwritablePlace(f"{graphml} is a folder; give the path of a file, such as run.graphml")
    check_folder(csv, CSV_TABLES)
    for target in (graphml, csv):
        if target is not None:
            refuse_run_folder(run, target)
    is_streamed = is_stream(graphml, as_json)
    with stages(quiet) as announce:
        announce("reading")
        automaton = Automaton.load(run)
        picked = pick_queries(automaton, read_queries(queries))
        record: dict[str, Any] = {"queries": int(picked.sum()), "graphml": None, "csv": None}
        if graphml is not None:
            announce("writing GraphML")
            counts = write_graphml(automaton, graphml, picked, nodes=nodes)
            n_bytes = 0 if is_streamed else graphml.stat().st_size
            record["graphml"] = {"path": str(graphml), **vars(counts), "bytes": n_bytes}
        if csv is not None:
            announce("writing CSV")
            record["csv"] = {"path": str(csv), "rows": write_csv(automaton, csv, picked)}
    if as_json:
        print_json(record)
    elif not (quiet or is_streamed):  # otherwise the file itself is on standard output
        _print_files(record)


def _print_files(record: dict[str, Any]) -> None:
    graph, tables = record["graphml"], record["csv"]
    if graph is not None:
        print_line(
            f"Wrote {graph['nodes']:,} nodes and {graph['edges']:,} edges of {record['queries']:,} queries "
            f"to {graph['path']} ({graph['bytes'] / 1e6:,.1f} MB)."
        )
    if tables is not None:
        rows = ", ".join(f"{name}.csv ({count:,})" for name, count in tables["rows"].items())
        print_line(f"Wrote tables to {tables['path']} (number of rows): {rows}.")
