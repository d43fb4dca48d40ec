"""The page of a figure of the second paper."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from attomaton.base.printing import Grid
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
        The settings.
    caption : str
        Sizes and settings in one sentence.
    tables : sequence of Grid
        Results beside the published ones.
    numbers : pyarrow.Table
        All numbers behind figure and tables.
    draw : callable
        Takes a path without extension, and the caption; draws the figure there and returns the files.
    verdicts : sequence of Verdict
        The verdicts on the claims.
    notes : sequence of str
        Remarks on differences and their reasons, in sentences.
    options : str
        Options of the command that reproduces it.
    """
    name, title = settings["name"], settings["title"]
    return Page(
        name=name,
        paragraphs=(
            f"# {name}: {title}",
            f"{caption}.",
            *(
                block
                for table in tables
                for block in (f"**{table.title}**", render_table(table.headers, table.rows))
            ),
            *notes,
            *render_verdicts(verdicts),
            "![Figure](figure.png)",
            "All numbers: `numbers.parquet`. To reproduce: "
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
