"""Tables in Markdown."""

from collections.abc import Sequence

from attomaton.claims.verdicts import Verdict


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table; bars in cells are escaped.

    Examples
    --------
    >>> print(render_table(["a", "b"], [["1", "|x|"]]))
    | a | b |
    |---|---|
    | 1 | \|x\| |
    """
    lines = [_row(headers), "|" + "---|" * len(headers), *(_row(row) for row in rows)]
    return "\n".join(lines)


def render_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Claims with their verdicts, numbers and reasons."""
    rows = [[one.claim, one.status.value, one.shown_value, one.shown_bound, one.reason] for one in verdicts]
    return render_table(["claim", "verdict", "value", "bound", "reason"], rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
