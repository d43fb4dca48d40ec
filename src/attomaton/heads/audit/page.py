"""An audit as a page (``write_audit``): a map of heads, and for each its ladder and contexts as text."""

from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from attomaton.base.artifacts import write_target
from attomaton.base.pages import is_page, render_page, to_json
from attomaton.base.printing import shorten
from attomaton.heads.audit.excerpts import FULL
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.saved import NO_EVIDENCE, About

# Columns of a table of heads that the page shows, if they are there.
PAGE_COLUMNS = (
    *("inside", "first", "type", "type_share", "type_z", "type_reason", "named", "pairs", "contextual"),
    *("seeking_mass", "seeking_excess", "seeking_z", "seeks", "pattern_rise", "ablation_rise"),
)

ROUNDED_DIGITS = 4  # digits after the decimal point

SHOWN_CHARACTERS = 200  # characters shown of a token or a name, at most


def render_audit(table: pa.Table, about: About) -> str:
    """The HTML of the page, from the table of heads with their contexts."""
    columns: dict[str, list[Any]] = {name: _rounded(table, name) for name in table.column_names}
    is_path = Path(about.model).is_absolute()  # the page is sent to others: without folders of this machine
    model = Path(about.model).name if is_path else about.model
    record = {
        "model": shorten(model, SHOWN_CHARACTERS),
        "rungs": [shorten(name, SHOWN_CHARACTERS) for name in about.rungs],
        "n_documents": about.n_documents,
        "n_rows": about.n_rows,
        "said_of_z": about.said_of_z,
        "no_evidence": NO_EVIDENCE,
        "layers": columns["layer"],
        "numbers": columns["number"],
        "columns": {name: columns[name] for name in PAGE_COLUMNS if name in columns},
        "explained": [columns[name_column("explained", name)] for name in about.rungs],
        "z": [columns[name_column("z", name)] for name in about.rungs],
        "full": FULL,
        **_number_contexts(columns.get("contexts", [])),
    }
    return render_page("attomaton.heads.audit", ("page",), to_json(record), title="Attention heads")


def write_audit(table: pa.Table, about: About, path: str | PathLike[str]) -> Path:
    """Write the page to a file, and return its path; only pages of attomaton are overwritten."""
    page = render_audit(table, about)
    write_target(path, lambda draft: draft.write_text(page, encoding="utf-8"), is_ours=is_page)
    return Path(path)


# A column for JSON: numbers are rounded, and null if they are not finite.
def _rounded(table: Any, name: str) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    return [
        (round(value, ROUNDED_DIGITS) if isfinite(value) else None) if isinstance(value, float) else value
        for value in values
    ]


# The distinct tokens, the distinct windows with numbers for tokens, and the contexts of every head.
def _number_contexts(heads: list[list[dict[str, Any]]]) -> dict[str, list[Any]]:
    # Heads share many windows, so each window and token is written once, and numbered in order of appearance.
    tokens = dict[str, int]()
    windows = dict[tuple[int, ...], int]()

    def number(text: str) -> int:
        return tokens.setdefault(text[:SHOWN_CHARACTERS], len(tokens))

    def pack(context: dict[str, Any]) -> list[int]:
        """The number of the window, and the attention on the first token and on each token of the window."""
        words = (number(context["opening"]), number(context["label"]), *map(number, context["tokens"]))
        window = (context["document"], context["position"], *words)
        return [windows.setdefault(window, len(windows)), context["first"], *context["attention"]]

    contexts = [[pack(context) for context in head] for head in heads]
    return {"tokens": list(tokens), "windows": list(map(list, windows)), "contexts": contexts}
