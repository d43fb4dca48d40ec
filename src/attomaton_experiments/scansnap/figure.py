"""The page of a figure of the second paper."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from attomaton.base import Grid
from attomaton.claims import Verdict
from attomaton_experiments.page import Page, render_table, render_verdicts
from attomaton_experiments.settings import Settings


def render_figure(
    settings: Settings,
    caption: str,
    tables: Sequence[Grid],
    numbers: pa.Table,
    draw: Callable[..., list[Path]],
    *,
    verdicts: Sequence[Verdict],
    notes: Sequence[str] = (),
    options: str = "",
) -> Page:
    """The page.

    Parameters
    ----------
    settings : dict
        What was asked for.
    caption : str
        Sizes and settings in one sentence.
    tables : sequence of Grid
        What came out beside what was published.
    numbers : pyarrow.Table
        Every number behind figure and tables.
    draw : callable
        Given a path without ending, and the caption, draws the figure there and returns the files.
    verdicts : sequence of Verdict
        What became of the claims.
    notes : sequence of str
        What differs and why, in sentences.
    options : str
        What the command that makes it again has to be given.
    """
    name, title = settings["name"], settings["title"]
    return Page(
        name=name,
        paragraphs=(
            f"# {name}: {title}",
            f"{caption}.",
            *(
                part
                for table in tables
                for part in (f"**{table.title}**", render_table(table.headers, table.rows))
            ),
            *notes,
            *render_verdicts(verdicts),
            "![Figure](figure.png)",
            "All numbers: `numbers.parquet`. Again: "
            f"`{' '.join(['attomaton reproduce', name, *options.split(), '--out DIR'])}`.",
        ),
        printed=(f"{title} ({name}). {caption}.", *tables, *notes),
        size="",
        record={"caption": caption, "seconds": None, "tables": [*map(asdict, tables)], "notes": notes},
        numbers=numbers,
        numbers_file="numbers.parquet",
        draw=lambda path: draw(path, caption=caption),
        verdicts=tuple(verdicts),
    )
