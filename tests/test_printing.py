"""Values as plain text: the same look as the command line's tables, at any width, whatever the cells hold."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attomaton.printing import NARROWEST, Grid, draw_blocks, measure

WORDS = st.text("abc xyz", max_size=12)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), st.booleans())
def test_a_table_looks_as_rich_draws_it(rows, headed):
    headers = ["token", "chance"] if headed else ["", ""]
    table = Table(show_header=headed)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=StringIO(), width=200)
    console.print(table)
    assert draw_blocks([Grid("", headers, rows)]) == console.file.getvalue().rstrip("\n")


@given(
    st.lists(st.lists(st.text(max_size=150), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(40, 120),
)
def test_a_table_fits_its_width_and_loses_no_sign(rows, width):
    drawn = draw_blocks([Grid("", ["one", "two", "three"], rows)], width=width)
    assert max(map(measure, drawn.split("\n"))) <= width


def test_columns_keep_some_width():
    drawn = draw_blocks([Grid("", ["a"] * 9, [["x" * 50] * 9])], width=20)
    assert measure(drawn.partition("\n")[0]) == 9 * (NARROWEST + 3) + 1


@pytest.mark.parametrize("rows", [[], [("\x1b[31m", "a\nb")]])
def test_nothing_is_obeyed_by_a_terminal(rows):
    drawn = draw_blocks(["line\x07", Grid("", ["token", "note"], rows)])
    assert "\x1b" not in drawn
    assert "\x07" not in drawn
