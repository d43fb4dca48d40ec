"""Values as plain text: the same look as the command line's tables, at any width, whatever the cells hold."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from attomaton.base.printing import Grid, draw_text, show_count


def test_colours_that_a_terminal_is_forced_to_stay_out(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    drawn = draw_text([Grid("", ["token", "probability"], [("[bold]lamp", 0.75)])])
    assert "│ [bold]lamp │ 0.75        │" in drawn
    assert "\x1b" not in drawn


@given(
    st.lists(st.lists(st.text(max_size=150), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(40, 120),
)
def test_a_table_fits_its_width_and_loses_no_sign(rows, width):
    drawn = draw_text([Grid("", ["one", "two", "three"], rows)], width=width)
    assert max(map(cell_len, drawn.split("\n"))) <= width


@pytest.mark.parametrize("rows", [[], [("\x1b[31m", "a\nb")]])
def test_nothing_is_obeyed_by_a_terminal(rows):
    drawn = draw_text(["line\x07", Grid("", ["token", "note"], rows)])
    assert "\x1b" not in drawn
    assert "\x07" not in drawn


@pytest.mark.parametrize(("count", "shown"), [(1234567.0, "1,234,567"), (53.7865522171, "53.8"), (3, "3")])
def test_counts_have_a_decimal_only_where_weights_make_fractions(count, shown):
    assert show_count(count) == shown
