"""``attomaton example``: a small text to try things on."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from attomaton.cli.output import print_line


def example(
    path: Annotated[Path, typer.Argument(help="Where to write the text.")],
) -> None:
    """Write the sample text that comes with attomaton to PATH."""
    from attomaton.errors import UnreadableSource

    text = files("attomaton.corpora").joinpath("example.txt").read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnreadableSource(f"{path} cannot be written: {error.strerror}; choose another place") from error
    print_line(f"Wrote {len(text.split()):,} words to {path}.")
