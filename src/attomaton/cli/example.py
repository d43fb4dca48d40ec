"""``attomaton example``: a small text, or a table of comparisons, to try things on."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.values import path_argument


def example(
    path: Annotated[
        Path,
        path_argument("File to write: story.txt; battles.csv (few comparisons) or arena.csv (50,000)."),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a sample text to PATH, or sample comparisons if PATH ends in .csv: arena.csv is simulated."""
    from attomaton.base.artifacts import write_target

    is_table = path.suffix.lower() == ".csv"
    if path.name.lower() == "arena.csv":
        text = _simulate_csv()
    else:
        source = files("attomaton.choices" if is_table else "attomaton.corpora")
        text = source.joinpath("example.csv" if is_table else "example.txt").read_text(encoding="utf-8")
    write_target(
        path,
        lambda draft: draft.write_bytes(text.encode()),
        is_ours=lambda target: target.read_bytes() == text.encode(),
    )
    unit, number = ("rows", text.count("\n") - 1) if is_table else ("words", len(text.split()))
    if as_json:
        print_json({"path": str(path), unit: number})
    elif not quiet:
        print_line(f"Wrote {number:,} {unit} to {path}.")


def _simulate_csv() -> str:
    from pyarrow import BufferOutputStream, csv

    from attomaton.choices.arena import simulate_arena

    write: Any = csv
    sink: Any = BufferOutputStream()
    write.write_csv(simulate_arena(), sink, write.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes().decode()
