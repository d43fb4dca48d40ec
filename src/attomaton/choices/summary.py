"""A fit in words: a table, its order and what is missing. Signs of ours are plain ASCII."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

from attomaton.base.printing import Block, Listing, Signal, shorten
from attomaton.choices.standings import Standings, item_column, rows_of_table
from attomaton.solvers.soft.certify import SCORES_WITHIN

SHOWN_ROWS, SHOWN = 20, 12
"""Most items, and most of anything else, that a summary prints."""


class FitFacts(NamedTuple):
    """What there is to tell of a fit."""

    n_choices: float
    n_components: int
    standings: Standings
    order: Sequence[tuple[int, int]]  # pairs of components, from 0
    joined: bool  # whether a prior joins the components
    status: str
    certificate: str
    certified: bool
    remarks: Sequence[str]
    missing: Sequence[tuple[Any, Any]]  # comparisons: winner, loser


def tell(told: FitFacts, most: int = SHOWN_ROWS, rest: str = ".table() has all") -> list[Block]:
    """The summary, with the first ``most`` items, and where to find the ``rest``."""
    headers, rows = _grid(told, most)
    hidden = len(told.standings) - len(rows)
    proof = (
        f"none is farther than {SCORES_WITHIN:.0e} from the best fit" if told.certified else told.certificate
    )
    return [
        _describe_size(told),
        Listing(headers, rows),
        *([f"and {hidden:,} more; {rest}"] if hidden else []),
        *_describe_order(told),
        Signal(f"scores {told.status}: {proof}", told.certified),
        *told.remarks,
        *_describe_missing(told),
    ]


def record(told: FitFacts) -> dict[str, Any]:
    """What the table, the order and the missing comparisons say, as JSON can hold it."""
    rows = rows_of_table(told.standings.rows)
    for row in rows:
        if row["ahead"] is not None and not isfinite(row["ahead"]):
            row["ahead"] = "infinite"
    return {
        "choices": told.n_choices,
        "items": len(told.standings),
        "components": told.n_components,
        "joined": told.joined,
        "certified": told.certified,
        "certificate": told.certificate,
        "remarks": list(told.remarks),
        "standings": rows,
        "order": [{"above": above + 1, "below": below + 1} for above, below in told.order],
        "missing": [
            {"winner": winner, "loser": loser}
            for winner, loser in zip(
                *(item_column([pair[side] for pair in told.missing]).to_pylist() for side in (0, 1)),
                strict=True,
            )
        ],
    }


def remark(n_ties: int, prior: float | None, ridge: float) -> list[str]:
    """What was done to the data besides fitting them."""
    remarks: list[str] = []
    if n_ties:
        rule = "half a win each way; of more than two, the average over their orders"
        remarks.append(f"ties: {n_ties:,}, each counted as {rule}; scores are those of expected scores")
    if prior is not None:
        remarks.append(
            f"prior: every score is normal about 0 with standard deviation {prior:g}; what stands between "
            "components is the prior's, not the data's"
        )
    elif ridge:
        remarks.append(f"ridge: {ridge:g}, inside components")
    return remarks


def _grid(told: FitFacts, most: int) -> tuple[list[str], list[list[str]]]:
    table = told.standings.rows
    rows = rows_of_table(table, most)
    several, groups = told.n_components > 1, _n_groups(told) > 1
    texts = all(isinstance(row["item"], str) for row in rows)
    errors = any(row["standard_error"] is not None for row in rows)
    headers = ["rank", "item", *["group"] * groups, *["component"] * several]
    headers += ["score", *["s.e."] * errors, "ahead", "won", "lost"]
    cells = [
        [
            _whole(row["rank"]),
            shorten(row["item"]) if texts else str(row["item"]),
            *[str(row["group"])] * groups,
            *[str(row["component"])] * several,
            _real(row["score"], "+.3f"),
            *[_real(row["standard_error"], ".3f")] * errors,
            _real(row["ahead"], ".3f") if place + 1 < len(told.standings) else "",
            _whole(row["wins"]),
            _whole(row["losses"]),
        ]
        for place, row in enumerate(rows)
    ]
    return headers, cells


def _n_groups(told: FitFacts) -> int:
    return max(told.standings["group"], default=0)


def _whole(value: Any) -> str:
    return "-" if value is None else f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"


def _real(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _describe_size(told: FitFacts) -> str:
    n_items, number = len(told.standings), told.n_components
    joined = " of the data, joined by the prior" * (told.joined and number > 1)
    return (
        f"{told.n_choices:,.12g} choice{'s' * (told.n_choices != 1)} between {n_items:,} "
        f"item{'s' * (n_items != 1)}: {number:,} component{'s' * (number != 1)}{joined}"
    )


def _describe_order(told: FitFacts) -> list[str]:
    """Which component is before which, and which cannot be compared."""
    number = told.n_components
    if number < 2 or told.joined:
        return []
    below: dict[int, list[str]] = {}
    for above, other in told.order:
        below.setdefault(above, []).append(str(other + 1))
    lines = [
        f"component {above + 1} is always before {', '.join(names[:SHOWN])}{', ...' * (len(names) > SHOWN)}: "
        "infinitely far ahead"
        for above, names in list(below.items())[:SHOWN]
    ]
    if len(below) > SHOWN:
        lines.append(f"and so on for {len(below) - SHOWN:,} more components; .order has all")
    groups = _n_groups(told) > 1
    if groups:
        lines.append("nothing compares items of different groups, so each group has ranks of its own")
    if None in told.standings["rank"]:
        others = "all others of their group" if groups else "all others"
        lines.append(f"no rank (-): no chain of wins joins these items with {others}, so nothing orders them")
    return lines


def _describe_missing(told: FitFacts) -> list[str]:
    if told.n_components < 2:
        return []
    alone = "" if told.joined else "Scores of different components cannot be compared. "
    lines = [f"{alone}To connect all components by data, the least is"]
    lines += [f"  {comparison!s}" for comparison in told.missing[:SHOWN]]
    if len(told.missing) > SHOWN:
        lines.append(f"  and {len(told.missing) - SHOWN:,} more")
    return lines
