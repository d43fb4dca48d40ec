"""A line a stage and one every 30 s where there is no terminal; on a terminal, names as they are."""

import json
import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from itertools import pairwise
from random import Random
from unittest.mock import patch

import pytest

from tests.cli.inside import run_inside
from tests.heads.audit.small import write_model

TEXT = "a b a c a b a c b a c a b b a c a a b c a b a\n" * 3
COMMANDS = {
    "learn": ["learn", "text.txt"],
    "train": ["train", "text.txt", "--out", "trained", "--window", "3", "--steps", "20", "--overwrite"],
    "choices": ["choices", "games.csv"],
    "heads": ["heads", "model", "story.jsonl", "--window", "8", "--length", "12", "--random", "0"],
    "reproduce": ["reproduce", "scan-snap-4", "--trials", "1"],
}
STAGES = {
    "learn": ["reading", "extracting edges", "solving the hard side", "solving the soft side"],
    "train": ["reading", "training"],
    "choices": ["reading games.csv", "fitting the scores"],
    "heads": ["reading", "explaining heads"],
    "reproduce": ["scan-snap-4"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("progress")
    (folder / "text.txt").write_text(TEXT)
    (folder / "games.csv").write_text("winner,loser\na,b\nb,a\na,c\n")
    write_model(folder)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_each_stage_is_a_line_without_a_terminal(folder, name):
    told = run_inside(*COMMANDS[name], cwd=folder)
    assert told.returncode == 0, told.stderr
    lines = told.stderr.splitlines()
    places = [next(at for at, line in enumerate(lines) if line.startswith(stage)) for stage in STAGES[name]]
    assert places == sorted(places)
    assert run_inside(*COMMANDS[name], "--quiet", cwd=folder).stderr == ""
    with_json = run_inside(*COMMANDS[name], "--json", cwd=folder)
    assert json.loads(with_json.stdout)
    assert with_json.stderr.splitlines()[0] == lines[0]


def test_a_stage_that_lasts_is_a_line_again_and_again(folder):
    with patch("attomaton.cli.progress.INTERVAL", 0.05):
        told = run_inside("train", "text.txt", "--out", "longer", "--steps", "5000", cwd=folder)
    again = [line for line in told.stderr.splitlines() if line.startswith("training … ")]
    assert len(again) > 2
    assert any("%" in line for line in again)
    assert all(line.endswith(" s") for line in again)


def listen(command, folder):
    """The seconds at which a command wrote to stderr, from its start to its end."""
    program = [sys.executable, "-c", "from attomaton.cli import main; main()", *command]
    times = [time.monotonic()]
    process = subprocess.Popen(
        program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for _ in process.stderr:
        times.append(time.monotonic())  # noqa: PERF401  as they come
    process.stderr.close()
    assert process.wait() == 0
    return [*times, time.monotonic()]


LONG = {
    "learn": ["learn", "long.txt", "--engine", "duckdb", "--memory", "1G", "--threads", "1", "--out", "run"],
    "heads": ["heads", "stories", "many.jsonl", "--tokenizer", "tok512.bin"],
    "train": ["train", "short.txt", "--out", "long", "--window", "16", "--dim", "64", "--steps", "2000"],
    "choices": ["choices", "battles.csv", "--limit", "3"],
    "reproduce": ["reproduce", "mechanics-global", "--trials", "100"],
}


@pytest.mark.slow  # commands of a minute each
@pytest.mark.parametrize("name", LONG)
def test_no_command_is_silent_for_more_than_30_seconds(folder, wikitext, stories_model, tinystories, name):
    (folder / "stories").unlink(missing_ok=True)
    (folder / "stories").symlink_to(stories_model / "hf")
    shutil.copy(stories_model / "tok512.bin", folder)
    stories = json.loads(tinystories.read_text("utf-8"))[:400]
    texts = [story if isinstance(story, str) else story["text"] for story in stories]
    (folder / "many.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    text = (wikitext / "train.articles-shuffled.txt").read_text("utf-8")
    (folder / "long.txt").write_text(text, "utf-8")
    (folder / "short.txt").write_text(text[:60_000], "utf-8")
    rng = Random(0)  # noqa: S311
    pairs = [
        (*rng.sample(range(1_900), 2), rng.choice(["model_a", "model_b", "tie"])) for _ in range(300_000)
    ]
    lines = [f"m{first},m{second},{outcome}" for first, second, outcome in pairs]
    (folder / "battles.csv").write_text("\n".join(["model_a,model_b,winner", *lines]))
    times = listen(LONG[name], folder)
    assert times[-1] - times[0] > 30  # otherwise the command is no case
    assert max(later - earlier for earlier, later in pairwise(times)) < 30


def on_terminal(*arguments, cwd):
    """The exit code of a command on a terminal, and all that the terminal got."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-c", "from attomaton.cli import main; main()", *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(program, cwd=cwd, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = []

    def read():
        try:
            while part := os.read(ours, 1 << 16):
                shown.append(part)
        except OSError:  # the terminal is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait()
    reader.join()
    os.close(ours)
    return code, b"".join(shown).decode()


NAMES = ["r[/x][bold]b.csv", "[link=http://a.org]x[/link][/].csv", r"\[a][red].csv"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_no_markup_on_a_terminal(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"winner,loser\n{name},[/b]\n[/b],{name}\n")
    code, shown = on_terminal("choices", name, cwd=tmp_path)
    assert (code, "Traceback" in shown) == (0, False), shown
    assert f"reading {name} …" in shown
    assert shown.count(name) >= 2  # as an item, too
    assert "[/b]" in shown
    assert "\x1b]8;" not in shown


@pytest.mark.parametrize(
    "command",
    [
        ["learn", "{}"],
        ["choices", "{}"],
        ["explain", "{}", "a"],
        ["learn", "text.txt", "--tokenizer", "{}"],
        ["choices", "games.csv", "--winner", "{}"],
        ["choices", "games.csv", "--limit", "{}"],
        ["{}"],
    ],
    ids=" ".join,
)
def test_names_are_no_markup_in_errors(tmp_path, command):
    name = "r[/x]" + NAMES[1]
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "games.csv").write_text("winner,loser\na,b\nb,a\n")
    code, shown = on_terminal(*(word.format(name) for word in command), cwd=tmp_path)
    assert (code, "Traceback" in shown) == (2, False), shown
    assert name.replace("//", "/") in shown.replace("//", "/")  # a path has one
    assert "\x1b]8;" not in shown
