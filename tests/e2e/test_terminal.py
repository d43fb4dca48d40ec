"""Commands on a real terminal, 80 and 120 columns wide: what a person would see in it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from rich.cells import cell_len

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here (listed in tests/SKIPS.md)"),
]
ENDED = "ended with"
CONTEXT = "the wind saw the lamp and the"


class Terminal:
    """A detached tmux session of its own server, so wide and 200 lines high."""

    def __init__(self, folder, width, **environment):
        self._place = tempfile.mkdtemp(prefix="tmux")
        settings = [f"{name}={value}" for name, value in environment.items()]
        shell = ["env", "-u", "NO_COLOR", *settings, "PS1=$ ", "sh"]
        size = ["-x", str(width), "-y", "200"]
        self._tmux("new-session", "-d", "-c", str(folder), *size, shlex.join(shell))

    def run(self, *arguments, seconds=60):
        """Type a command, wait for its end, and return its exit code and what the screen shows then."""
        program = [sys.executable, "-c", "from attomaton.cli import main; main()", *arguments]
        self._tmux("send-keys", f"clear; {shlex.join(program)}; echo {ENDED} $?", "Enter")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lines = self._tmux("capture-pane", "-p").splitlines()
            ends = [line for line in lines if line.startswith(f"{ENDED} ") and line.split()[-1].isdecimal()]
            if ends:
                last = lines.index(ends[-1])
                return int(ends[-1].split()[-1]), [line for line in lines[:last] if ENDED not in line]
            time.sleep(0.1)
        raise TimeoutError("\n".join(lines))

    def raw(self):
        """The screen with the escape codes of its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def close(self):
        self._tmux("kill-server")
        shutil.rmtree(self._place)

    def _tmux(self, *arguments):
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        command = ["tmux", "-u", "-f", "/dev/null", "-S", f"{self._place}/socket", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal")
    for command in (["example", "story.txt"], ["learn", "story.txt", "--window", "8", "--out", "run"]):
        code = "from attomaton.cli import main; main()"
        subprocess.run([sys.executable, "-c", code, *command, "--quiet"], cwd=place, check=True)
    return place


@pytest.fixture(params=[80, 120])
def terminal(request, folder):
    opened = Terminal(folder, request.param)
    yield opened, request.param
    opened.close()


def tables(lines):
    """Each table that stands whole on the screen: its lines, from the upper border to the lower one."""
    found, open_table = [], None
    for line in lines:
        if line[:1] in "┏┌" and line:
            open_table = []
        if open_table is not None:
            open_table.append(line)
            if line[0] == "└":
                found.append(open_table)
                open_table = None
    assert open_table is None
    return found


@pytest.mark.parametrize(
    ("arguments", "n_tables", "shown"),
    [
        (["learn", "story.txt", "--window", "8"], 2, "Largest components"),
        (["explain", "run", CONTEXT], 2, "Rule: determined"),
        (["scan-snap", "story.txt", "--window", "8", "--queries", "5"], 3, "Assumptions of the theory"),
        (["diff", "run", "run"], 1, "0 of "),
        (["doctor"], 2, "Packages"),
    ],
)
def test_tables_stand_whole_on_the_screen(terminal, arguments, n_tables, shown):
    screen, width = terminal
    code, lines = screen.run(*arguments)
    assert code == 0
    assert any(shown in line for line in lines)
    found = tables(lines)
    assert len(found) >= n_tables
    for table in found:
        widths = {cell_len(line) for line in table}
        assert len(widths) == 1, "\n".join(table)  # a line that was broken by the terminal would be shorter
        assert widths.pop() <= width
        assert all(line[-1] in "┓┃┩│┘┐┤" for line in table), "\n".join(table)


def test_progress_leaves_nothing_behind(terminal):
    screen, _ = terminal
    code, lines = screen.run("learn", "story.txt", "--window", "8", "--out", "again")
    assert code == 0
    assert not any("0:00:0" in line or "━━ " in line for line in lines if line[:1] not in "┏┡")
    assert next(line for line in lines if line).startswith("Coverage")


def test_errors_are_one_sentence(terminal):
    screen, _ = terminal
    code, lines = screen.run("explain", "nowhere", "a")
    assert code == 2
    assert lines[0].startswith("error: nowhere has no manifest.json")
    assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_respected(folder, environment, coloured):
    screen = Terminal(folder, 80, **environment)
    try:
        code, _ = screen.run("--help")
        raw = screen.raw()
    finally:
        screen.close()
    assert code == 0
    assert bool(re.search(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])[;m]", raw)) is coloured
