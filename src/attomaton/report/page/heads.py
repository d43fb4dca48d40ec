"""A saved audit of heads for the page: heads of the last step, and means at every step."""

from math import isfinite
from os import PathLike
from typing import Any

from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.saved import NO_EVIDENCE, read_saved

MOST_SHOWN_HEADS = 2_000
"""Maximum number of heads that a page shows: the first ones."""

DECIMALS = 4
"""Digits after the decimal point."""

MOST_NAME_CHARACTERS = 200
"""Maximum number of characters of a name."""


def read_heads(path: str | PathLike[str]) -> dict[str, Any]:
    """The content for the page of a file that ``attomaton heads --out`` wrote.

    ``heads`` has one row per head: its name, the explained share of every rung (nested), the next token's
    excess and its z, whether the head seeks the next token, and the cost of its own mean pattern and of its
    mean output, both or neither. ``steps`` has the mean explained shares of every step, if there are several.
    """
    table, about = read_saved(path)
    read: Any = table
    columns: dict[str, list[Any]] = {name: read.column(name).to_pylist() for name in read.column_names}
    steps = columns.get("step")
    last = None if steps is None else max(steps)
    rows = [at for at in range(read.num_rows) if steps is None or steps[at] == last]
    causal = "pattern_rise" in columns
    explained = [name_column("explained", name) for name in about.rungs]

    def row(at: int) -> list[Any]:
        shares = [_json_number(columns[name][at]) for name in explained]
        worth = (
            [_json_number(columns[name][at]) for name in ("pattern_rise", "ablation_rise")] if causal else []
        )
        label = [_json_number(columns[name][at]) for name in ("seeking_excess", "seeking_z")]
        return [_short_text(columns["head"][at]), shares, *label, columns["seeks"][at], *worth]

    return {
        "model": _short_text(about.model),
        "rungs": [_short_text(name) for name in about.rungs],
        "documents": about.n_documents,
        "rows": about.n_rows,
        "said_of_z": about.said_of_z,
        "no_evidence": NO_EVIDENCE if causal else None,
        "step": last,
        "n_heads": len(rows),
        "heads": [row(at) for at in rows[:MOST_SHOWN_HEADS]],
        "steps": [] if steps is None else _means(steps, [columns[name] for name in explained]),
    }


def _means(steps: list[Any], shares: list[list[Any]]) -> list[list[Any]]:
    """Step, and the mean explained share of the first rung and of all, over heads."""
    groups: dict[int, list[int]] = {}
    for at, step in enumerate(steps):
        groups.setdefault(step, []).append(at)
    ends = (shares[0], shares[-1])
    return [
        [step, *(_mean([rung[at] for at in rows]) for rung in ends)] for step, rows in sorted(groups.items())
    ]


def _mean(values: list[Any]) -> float | None:
    finite = [value for value in values if value is not None and isfinite(value)]
    return _json_number(sum(finite) / len(finite)) if finite else None


def _json_number(value: Any) -> float | None:
    """A number for JSON; null if it is not finite."""
    return round(float(value), DECIMALS) if value is not None and isfinite(value) else None


def _short_text(value: Any) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= MOST_NAME_CHARACTERS else f"{text[:MOST_NAME_CHARACTERS]}…"
