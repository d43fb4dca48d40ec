"""``attomaton example``: a small text, or a small table of comparisons, to try things on."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.values import place_argument


def example(
    path: Annotated[Path, place_argument("File to write: story.txt, or battles.csv for comparisons.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a sample text to PATH, or sample comparisons if PATH ends in .csv."""
    from attomaton.base.artifacts import write_target

    is_table = path.suffix.lower() == ".csv"
    source = files("attomaton.choices" if is_table else "attomaton.corpora")
    text = source.joinpath("example.csv" if is_table else "example.txt").read_text(encoding="utf-8")
    write_target(
        path,
        lambda draft: draft.write_bytes(text.encode()),
        is_ours=lambda there: there.read_bytes() == text.encode(),
    )
    unit, number = ("rows", text.count("\n") - 1) if is_table else ("words", len(text.split()))
    if as_json:
        print_json({"path": str(path), unit: number})
    elif not quiet:
        print_line(f"Wrote {number:,} {unit} to {path}.")
