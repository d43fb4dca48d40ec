"""``attomaton example``: write sample data: a text, passages, or a table of comparisons."""

import gzip
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.values import path_argument


def example(
    path: Annotated[
        Path,
        path_argument(
            "File to write. arena.csv: 50,000 simulated comparisons; llmfao.csv: 8,931 human votes on 59 "
            "language models; any other .csv: a few comparisons; .jsonl: passages; any other name: a story."
        ),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write sample data to PATH, whose name or suffix selects the data."""
    from attomaton.base.artifacts import write_target

    text = _read_sample(path)
    write_target(
        path,
        lambda draft: draft.write_bytes(text.encode()),
        is_ours=lambda target: target.read_bytes() == text.encode(),
    )
    unit = {".csv": "rows", ".jsonl": "passages", ".json": "passages"}.get(path.suffix.lower(), "words")
    n_lines = text.count("\n") - (unit == "rows")  # a table has a header
    number = len(text.split()) if unit == "words" else n_lines
    if as_json:
        print_json({"path": str(path), unit: number})
    elif not quiet:
        print_line(f"Wrote {number:,} {unit} to {path}.")


def _read_sample(path: Path) -> str:
    name, ending = path.name.lower(), path.suffix.lower()
    if name == "arena.csv":
        return _simulate_csv()
    choices = files("attomaton.choices")
    if name == "llmfao.csv":
        return gzip.decompress(choices.joinpath("llmfao.csv.gz").read_bytes()).decode("utf-8")
    if ending == ".csv":
        return choices.joinpath("example.csv").read_text(encoding="utf-8")
    source = "example.jsonl" if ending in (".jsonl", ".json") else "example.txt"
    return files("attomaton.corpora").joinpath(source).read_text(encoding="utf-8")


def _simulate_csv() -> str:
    # the simulated comparisons as CSV, with quotes only where a cell needs them
    from pyarrow import BufferOutputStream, csv

    from attomaton.choices.arena import simulate_arena

    write: Any = csv
    sink: Any = BufferOutputStream()
    write.write_csv(simulate_arena(), sink, write.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes().decode()
