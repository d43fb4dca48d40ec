"""What commands print on stdout: JSON, tables and lines; and the options that choose between them."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from attomaton.base.printing import Block, Grid, Printed, blocks_of, clean, draw_table, lines_of, show_hidden
from attomaton.cli.messages import SKIPPED, can_encode, encodable

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier command wrote to --out.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no tables and no progress.")]


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object on one line; characters that stdout cannot encode are escaped."""
    record = {**record, **SKIPPED.get()}
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    if not can_encode(sys.stdout.encoding or "utf-8", text):
        text = json.dumps(record, ensure_ascii=True, allow_nan=False)
    typer.echo(text)


def print_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    console = Console(highlight=False)
    console.print(_shown(title, console))
    console.print(draw_table(Grid(title, headers, rows), lambda text: _shown(text, console)))


def print_value(value: Printed) -> None:
    print_blocks(blocks_of(value))


def print_blocks(blocks: Sequence[Block]) -> None:
    for block in blocks:
        if isinstance(block, Grid):
            print_table(block.title, block.headers, block.rows)
        else:
            for line in lines_of(block):
                print_line(line)


def _shown(text: str, console: Console) -> Text:
    return Text(encodable(clean(text), console.encoding))


def print_line(text: str) -> None:
    console = Console(highlight=False)
    console.print(_shown(text, console))


def print_text(text: str) -> None:
    """Print a text without wrapping; characters that a terminal would obey are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo("\n".join(encodable(show_hidden(line), encoding) for line in text.split("\n")))


def print_written(*paths: Any) -> None:
    for path in paths:
        if path is not None:
            print_line(f"Written to {path}.")


def path_texts(**paths: Any) -> dict[str, str | None]:
    # as JSON has them
    return {name: None if path is None else str(path) for name, path in paths.items()}
