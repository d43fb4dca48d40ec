"""Tokens of four million characters are shown at once, cut; data keeps them whole."""

import sys
import time

import pytest

import attomaton as at
from tests.faults.processes import cli

LONG = 4_000_000


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    x, y = "x" * LONG, "y" * LONG
    (folder / "a.txt").write_text(f"a b a c b a {x} a b a {x} b c a b {y} a a b {y} b a {x} a {y} a b")
    return at.learn(folder / "a.txt", window=8, out=folder / "run"), folder


def test_long_tokens_are_printed_at_once(long_run, capsys):
    from attomaton.automaton.suggestion import suggest_context
    from attomaton.cli.messages import print_error
    from attomaton.cli.output import print_table, print_value

    automaton, _ = long_run
    context = [
        0,
        1,
        *(token for token in range(len(automaton.vocabulary)) if len(automaton.name(token)) == LONG),
        0,
    ]
    shown = automaton.show(context)
    for show in (
        lambda: print_value(automaton.coverage),
        lambda: suggest_context(automaton),
        lambda: print_value(automaton.explain(context)),
        lambda: print_table("t", ["x"], [("x y " * LONG,)]),
        lambda: print_error("x" * LONG),
        lambda: sys.stdout.write(repr(shown) + shown._repr_html_() + automaton._repr_html_()),
    ):
        begun = time.process_time()
        show()
        assert time.process_time() - begun < 1
    printed = capsys.readouterr()
    assert len(printed.out) < 200_000
    assert "4,000,000 characters" in printed.err
    assert len(printed.err) < 1000
    print_table("t", ["token"], [("x" * LONG,)])
    assert "…" in (cut := capsys.readouterr().out)
    assert "4,000,000" in cut.replace("\n", "")


@pytest.mark.slow  # very long tokens
def test_a_page_cuts_long_tokens_and_tables_keep_them(long_run):
    _, folder = long_run
    done = cli("report", folder / "run", "--out", folder / "a.html")
    assert done.returncode == 0, done.stderr
    page = (folder / "a.html").read_text()
    assert len(page) < 2_000_000
    assert "(4,000,000 characters)" in page
    assert cli("export", folder / "run", "--csv", folder / "csv").returncode == 0
    assert any("x" * LONG in path.read_text() for path in (folder / "csv").iterdir())


def test_paths_are_not_cut(capsys):
    from attomaton.cli.messages import print_error

    print_error(f"{'/long' * 800} cannot be read")
    assert "/long" * 800 in capsys.readouterr().err
