"""Read a saved audit of heads for the page: the heads of the last step, and means at every step."""

from math import isfinite
from os import PathLike
from typing import Any

from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.saved import NO_EVIDENCE, read_saved

MOST_SHOWN_HEADS = 2_000  # the first heads of the file
DECIMALS = 4
MOST_NAME_CHARACTERS = 200


def read_heads(path: str | PathLike[str]) -> dict[str, Any]:
    """Read what the page shows from a file of ``attomaton heads --out``.

    ``heads`` has a row for each head of the last step: its name, the explained share of every rung, the
    excess and the z of next-token seeking, whether it seeks, and, if measured, the cost of replacing its
    pattern and its output by their means. ``steps`` has the mean explained shares at each of several steps.
    """
    table, about = read_saved(path)
    saved: Any = table
    columns: dict[str, list[Any]] = {name: saved.column(name).to_pylist() for name in saved.column_names}
    steps = columns.get("step")
    last = None if steps is None else max(steps)
    rows = [row for row in range(saved.num_rows) if steps is None or steps[row] == last]
    causal = ("pattern_rise", "ablation_rise") if "pattern_rise" in columns else ()
    explained = [name_column("explained", name) for name in about.rungs]

    def describe_head(row: int) -> list[Any]:
        shares, seeking, rises = (
            [_json_number(columns[name][row]) for name in names]
            for names in (explained, ("seeking_excess", "seeking_z"), causal)
        )
        return [_short_text(columns["head"][row]), shares, *seeking, columns["seeks"][row], *rises]

    return {
        "model": _short_text(about.model),
        "rungs": [_short_text(name) for name in about.rungs],
        "documents": about.n_documents,
        "rows": about.n_rows,
        "said_of_z": about.said_of_z,
        "no_evidence": NO_EVIDENCE if causal else None,
        "step": last,
        "n_heads": len(rows),
        "heads": [describe_head(row) for row in rows[:MOST_SHOWN_HEADS]],
        "steps": [] if steps is None else _means(steps, [columns[name] for name in explained]),
    }


def _means(steps: list[Any], shares: list[list[Any]]) -> list[list[Any]]:
    # for each step: the step, and the mean shares of the first rung and of all rungs; `shares` are by rung
    # and row
    rows_of: dict[int, list[int]] = {}
    for row, step in enumerate(steps):
        rows_of.setdefault(step, []).append(row)
    first, all_rungs = shares[0], shares[-1]  # the share of a rung includes the rungs before it
    return [
        [step, *(_mean([rung[row] for row in rows]) for rung in (first, all_rungs))]
        for step, rows in sorted(rows_of.items())
    ]


def _mean(values: list[Any]) -> float | None:
    finite = [value for value in values if value is not None and isfinite(value)]
    return _json_number(sum(finite) / len(finite)) if finite else None


def _json_number(value: Any) -> float | None:
    return round(float(value), DECIMALS) if value is not None and isfinite(value) else None


def _short_text(value: Any) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= MOST_NAME_CHARACTERS else f"{text[:MOST_NAME_CHARACTERS]}…"
