"""What a figure of the second paper came to: tables, numbers, verdicts, how to draw it; and that on disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from attomaton.artifacts import build_folder, explained, json_writer
from attomaton.claims.verdicts import Verdict, as_record
from attomaton.report.markdown import render_table, render_verdicts
from attomaton.tables import write_parquet


@dataclass(frozen=True)
class PageTable:
    """A table to read: a title, headers, and cells as text."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Page:
    """One figure, done.

    Attributes
    ----------
    name, title : str
        What it is called, and what it shows.
    caption : str
        Sizes and settings in one sentence.
    tables : tuple of PageTable
        What came out beside what was published.
    numbers : pyarrow.Table
        Every number behind figure and tables.
    draw : callable
        Given a path without ending and the caption, draws the figure there and returns the files.
    verdicts : tuple of Verdict
        What became of the claims.
    notes : tuple of str
        Sentences for the page: what differs and why.
    options : str
        What the command that makes it again has to be given.
    """

    name: str
    title: str
    caption: str
    tables: tuple[PageTable, ...]
    numbers: pa.Table
    draw: Callable[[Path, str], list[Path]]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    options: str = ""


def write_page(page: Page, folder: Path) -> list[Path]:
    """Write figure.png, figure.pdf, numbers.parquet, verdicts.json and summary.md; returns their paths."""
    with build_folder(folder, "experiment", overwrite=True) as building:
        place = building.folder
        written = page.draw(place / "figure", page.caption)
        numbers, verdicts, text = (
            place / name for name in ("numbers.parquet", "verdicts.json", "summary.md")
        )
        with explained(folder):
            write_parquet(page.numbers, str(numbers))
            json_writer([as_record(one) for one in page.verdicts])(verdicts)
            text.write_text(summarise_page(page), encoding="utf-8")
            building.finish({"name": page.name})
    return [folder / path.name for path in (*written, numbers, verdicts, text)]


def summarise_page(page: Page) -> str:
    """One page in Markdown."""
    parts = [f"# {page.name}: {page.title}", page.caption + "."]
    for table in page.tables:
        parts += [f"**{table.title}**", render_table(table.headers, table.rows)]
    parts += page.notes
    if page.verdicts:
        parts += ["## Verdicts", render_verdicts(page.verdicts)]
    parts += [
        "![Figure](figure.png)",
        "All numbers: `numbers.parquet`. Again: "
        f"`{' '.join(['attomaton reproduce', page.name, *page.options.split(), '--out DIR'])}`.",
    ]
    return "\n\n".join(parts) + "\n"
