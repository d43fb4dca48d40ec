"""``attomaton example``: a small text to try things on."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from attomaton.cli.output import AsJson, Quiet, print_json, print_line
from attomaton.cli.values import place_argument


def example(
    path: Annotated[Path, place_argument("Where to write the text.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the sample text that comes with attomaton to PATH. A file that is there already is kept."""
    from attomaton.errors import UnwritablePlace

    text = files("attomaton.corpora").joinpath("example.txt").read_text(encoding="utf-8")
    try:
        if path.exists() and path.read_bytes() != text.encode():
            raise UnwritablePlace(f"{path} is there already and holds something else; choose another name")
        path.write_bytes(text.encode())
    except UnwritablePlace:
        raise
    except OSError as error:
        raise UnwritablePlace(f"{path} cannot be written: {error.strerror}; choose another place") from error
    if as_json:
        print_json({"path": str(path), "words": len(text.split())})
    elif not quiet:
        print_line(f"Wrote {len(text.split()):,} words to {path}.")
