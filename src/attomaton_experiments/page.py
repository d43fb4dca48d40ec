"""The result of every experiment: one page, printed, and written with its figure and its numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.base.artifacts.files import explained
from attomaton.base.artifacts.folders import build_folder
from attomaton.base.artifacts.manifests import FolderKind, json_writer
from attomaton.base.printing import Block
from attomaton.base.tables import write_parquet
from attomaton.claims import Verdict
from attomaton.claims.verdicts import verdict_record

KIND = FolderKind("experiment", "an experiment", "attomaton reproduce --out")


@dataclass(frozen=True, eq=False)
class Page:
    """The page of one experiment.

    Attributes
    ----------
    paragraphs : tuple of str
        The page in Markdown.
    printed : tuple of str or Grid
        The command's output, before the verdicts.
    size : str
        The last line of output, before the elapsed seconds.
    record : dict
        The output with ``--json``, besides the name and the verdicts; ``seconds`` are added later.
    numbers : pyarrow.Table
        All numbers behind figure and tables.
    numbers_file : str
        The name of their file.
    draw : callable
        Takes a path without extension, draws the figure there and returns the files.
    verdicts : tuple of Verdict, optional
        The verdicts on the claims. None means that the experiment judges none.
    """

    name: str
    paragraphs: tuple[str, ...]
    printed: tuple[Block, ...]
    size: str
    record: dict[str, Any]
    numbers: pa.Table
    numbers_file: str
    draw: Callable[[Path], list[Path]]
    verdicts: tuple[Verdict, ...] | None

    @property
    def text(self) -> str:
        """The page in Markdown."""
        return "\n\n".join(self.paragraphs) + "\n"


def write_page(page: Page, folder: Path) -> list[Path]:
    """Write figure.png, figure.pdf, the numbers, verdicts.json and summary.md; returns their paths.

    If no claim is judged there is no verdicts.json.
    """
    files: dict[str, Callable[[Path], object]] = {
        page.numbers_file: partial(write_parquet, page.numbers),
        "summary.md": partial(Path.write_text, data=page.text, encoding="utf-8"),
    }
    if page.verdicts is not None:
        files["verdicts.json"] = json_writer([verdict_record(verdict) for verdict in page.verdicts])
    with build_folder(folder, KIND, ["figure.png", "figure.pdf", *files], overwrite=True) as building:
        written = page.draw(building.folder / "figure")
        with explained(folder):
            for name, write in files.items():
                write(building.folder / name)
            building.finish({"name": page.name})
    return [folder / name for name in (*(path.name for path in written), *files)]


def render_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    r"""A table in Markdown; bars in cells are escaped.

    Examples
    --------
    >>> print(render_table(["a", "b"], [["1", "|x|"]]))
    | a | b |
    |---|---|
    | 1 | \|x\| |
    """
    lines = [_row(headers), "|" + "---|" * len(headers), *(_row(row) for row in rows)]
    return "\n".join(lines)


def render_verdicts(verdicts: Sequence[Verdict]) -> list[str]:
    """A heading, and claims with their verdicts, numbers and reasons; empty if there are none."""
    rows = [
        [verdict.claim, verdict.status.value, verdict.shown_value, verdict.shown_bound, verdict.reason]
        for verdict in verdicts
    ]
    headers = ["claim", "verdict", "value", "bound", "reason"]
    return ["## Verdicts", render_table(headers, rows)] if rows else []


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
