"""The page of the first hour says what a new user does and sees, and it takes minutes."""

import re
import shlex

import pytest

from tests.e2e.environments import ROOT
from tests.e2e.first_hour import COMMANDS, CONTEXT, LIMIT, PAGE, TEXT, find_text, shown, spend, unvarying


def read_page():
    """Command → the lines shown below it."""
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {command: printed.splitlines() for command, printed in blocks}


def test_the_page_shows_the_commands_of_the_readme():
    assert tuple(read_page()) == COMMANDS
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        as_there = command.replace(TEXT, "story.txt").replace(CONTEXT, "the wind saw the lamp and the")
        assert as_there in readme


def test_the_times_on_the_page_add_up():
    cells = re.findall(r"\| \**([\d.]+)\** \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    *steps, total = map(float, cells)
    assert len(steps) == len(COMMANDS) + 1
    assert sum(steps) == pytest.approx(total, abs=0.5)
    assert total < LIMIT


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.skipif(find_text() is None, reason="no real corpora here (listed in tests/SKIPS.md)")
def test_from_an_empty_environment_to_the_open_report(wheel, tmp_path, capsys):
    steps = spend(tmp_path, wheel)
    with capsys.disabled():
        for name, _, seconds in steps:
            print(f"\n{seconds:7.1f} s  {name}", end="")  # noqa: T201
    page = read_page()
    for command, printed, _ in steps[:-1]:
        assert unvarying(shown(command, printed)) == unvarying(page[command])
    explained = next(printed for command, printed, _ in steps if shlex.split(command)[1:2] == ["explain"])
    rule, *rows = steps[-1][1].splitlines()
    assert f"Rule: {rule}" in explained
    for token, chance in (row.split() for row in rows):
        if float(chance) > 0:  # the terminal lists what is retrieved, the page every token of the context
            assert re.search(rf"│ {token}\s+│ {chance}", explained)
    assert sum(seconds for *_, seconds in steps) < LIMIT
