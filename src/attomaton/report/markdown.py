"""Tables in Markdown."""

from collections.abc import Sequence


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


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
