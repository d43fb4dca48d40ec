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
    """Write the sample text that comes with attomaton to PATH. A file that already exists is kept."""
    from attomaton.base.artifacts import write_target

    text = files("attomaton.corpora").joinpath("example.txt").read_text(encoding="utf-8")
    write_target(
        path,
        lambda draft: draft.write_bytes(text.encode()),
        is_ours=lambda there: there.read_bytes() == text.encode(),
    )
    if as_json:
        print_json({"path": str(path), "words": len(text.split())})
    elif not quiet:
        print_line(f"Wrote {len(text.split()):,} words to {path}.")
