"""Every command: 80 columns, no escape codes when piped, a terminal that knows only ASCII, completion."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import attomaton
from attomaton.cli.messages import STAND_INS
from tests.cli.inside import run_inside

CONTEXT = "the wind saw the lamp and the"
STRANGE = "漢字仮名交じり文 \x1b[31mred \x9b2J שלום 😀😀 " + "long" * 40 + " é \u202eevil 漢字仮名交じり文"
WORKING = {
    "learn": ["learn", "story.txt", "--window", "8", "--out", "learned", "--overwrite"],
    "learn-strange": ["learn", "strange.txt", "--window", "5"],
    "learn-nothing": ["learn", "visits.txt", "--documents", "line"],
    "explain": ["explain", "run", CONTEXT],
    "explain-strange": ["explain", "strange", STRANGE],
    "diff": ["diff", "run", "other"],
    "diff-strange": ["diff", "strange", "run"],
    "train": [
        "train",
        "short.txt",
        "--out",
        "trained-again",
        "--window",
        "3",
        "--steps",
        "20",
        "--overwrite",
    ],
    "verify": ["verify", "trained"],
    "tokenize": ["tokenize", "story.txt", "--out", "shards"],
    "reproduce-list": ["reproduce", "list"],
    "scan-snap": ["scan-snap", "story.txt", "--window", "8"],
    "begin": ["begin", "story.txt", "--window", "8", "--queries", "the lamp", "--step-size", "0.01"],
    "begin-strange": ["begin", "strange.txt", "--window", "2"],
    "scan-snap-strange": ["scan-snap", "strange.txt", "--window", "5"],
    "export": ["export", "run", "--graphml", "deep/folder/of/its/own/run.graphml", "--csv", "tables"],
    "report": ["report", "run", "--out", "page.html", "--figures", "pictures", "--query", "the"],
    "report-strange": ["report", "strange", "--out", "strange.html", "--figures", "strange-pictures"],
    "unknown-strange": ["explain", "run", "zebra \x1b[31m"],
    "generate": ["generate", "run", "the wind saw the lamp and the", "-n", "5"],
    "score": ["score", "run", "visits.txt"],
    "doctor": ["doctor"],
    "example": ["example", "story.txt"],
    "version": ["--version"],
}
NAMES = ("learn", "explain", "diff", "export", "reproduce", "train", "verify", "scan-snap", "tokenize")
NAMES += ("begin", "report", "example", "doctor", "generate", "score")
HELP = {f"{name}-help": [name, "--help"] for name in NAMES} | {"help": ["--help"]}
WRONG = {
    "no-run": ["explain", "nowhere", "a"],
    "no-file": ["learn", "missing \x1b[31m é.txt"],
    "no-option": ["learn", "--colour"],
    "no-argument": ["diff", "run"],
    "no-command": ["unknown"],
    "no-figures": ["report", "run", "--query", "the"],
}
COMMANDS = WORKING | HELP | WRONG


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("manners")
    (place / "strange.txt").write_text(f"{STRANGE}\n" * 6, encoding="utf-8")
    (place / "visits.txt").write_text("a b c\nb c a\n")
    (place / "short.txt").write_text("a b a c a b a c b a c a b b a c a a b c a b a\n" * 2)
    for command in (
        ["example", "story.txt"],
        ["learn", "story.txt", "--window", "8", "--out", "run"],
        ["learn", "story.txt", "--window", "16", "--out", "other"],
        ["learn", "strange.txt", "--window", "20", "--out", "strange"],
        ["train", "short.txt", "--out", "trained", "--window", "3", "--steps", "200"],
    ):
        assert run_inside(*command, "--quiet", cwd=place).returncode == 0
    return place


def check(name, result):
    assert result.returncode == (2 if name in WRONG else 0), result.stderr
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "\x9b" not in result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert max(map(cell_len, lines), default=0) <= 80, max(lines, key=cell_len)
    assert bool(lines) == (name not in WRONG)


@pytest.mark.parametrize("name", COMMANDS)
def test_piped_output_is_plain_and_fits_80_columns(folder, name):
    check(name, run_inside(*COMMANDS[name], cwd=folder, COLUMNS="80", NO_COLOR="1"))


@pytest.mark.slow  # every command again, as ASCII
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_that_knows_only_ascii_is_served(folder, name):
    result = run_inside(*COMMANDS[name], cwd=folder, encoding="ascii", COLUMNS="80")
    check(name, result)
    assert (result.stdout + result.stderr).isascii()
    if "strange" not in name:
        assert "??" not in result.stdout
    if name in HELP:
        assert "?" not in result.stdout


def test_every_sign_that_commands_may_print_has_a_stand_in():
    signs = set()
    for path in Path(attomaton.__file__).parents[1].glob("attomaton*/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                signs |= set(node.value)
    read_only = set("＝＋－＠。\ufffd")
    unprintable = {sign for sign in signs if not sign.isprintable()} | read_only
    assert {sign for sign in signs - unprintable if not sign.isascii()} - STAND_INS.keys() == set()
    assert "".join(STAND_INS.values()).isascii()


def test_json_holds_the_same_on_every_terminal(folder):
    record = json.loads(run_inside("explain", "strange", STRANGE, "--json", cwd=folder).stdout)
    plain = run_inside("explain", "strange", STRANGE, "--json", cwd=folder, encoding="ascii").stdout
    assert plain.isascii()
    assert json.loads(plain) == record
    assert record["context"] == STRANGE.split()


def test_hostile_tokens_are_shown_and_not_obeyed(folder):
    shown = run_inside("explain", "strange", STRANGE, cwd=folder, COLUMNS="200").stdout
    assert "\\u001b[31mred" in shown
    assert "\\u202eevil" in shown
    assert "שלום" in shown


def test_a_real_process_with_a_plain_locale(folder):
    environment = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}
    code = "from attomaton.cli import main; main()"
    command = [sys.executable, "-c", code, "explain", "run", CONTEXT]
    found = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stderr == b""
    assert b"\x1b" not in found.stdout
    assert found.stdout.isascii()


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    code = "from attomaton.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "scan-snap", "story.txt"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert b"rror" not in process.stderr.read()  # stages of the work are there
    process.stderr.close()
    process.wait()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_generated(tmp_path, shell):
    result = run_inside(cwd=tmp_path, _ATTOMATON_COMPLETE=f"source_{shell}")
    assert result.returncode == 0, result.stderr
    assert "_ATTOMATON_COMPLETE" in result.stdout
    assert "attomaton" in result.stdout


def test_completion_names_commands_and_options(tmp_path):
    asked = {"_ATTOMATON_COMPLETE": "complete_bash", "COMP_WORDS": "attomaton ex", "COMP_CWORD": "1"}
    assert sorted(run_inside(cwd=tmp_path, **asked).stdout.split()) == ["example", "explain", "export"]
    asked |= {"COMP_WORDS": "attomaton export --g", "COMP_CWORD": "2"}
    assert run_inside(cwd=tmp_path, **asked).stdout.split() == ["--graphml"]


def test_completion_can_be_installed(tmp_path):
    home = {"HOME": str(tmp_path), "SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code = "import sys; sys.argv[0] = 'attomaton'; from attomaton.cli import main; main()"
    command = [sys.executable, "-c", code, "--install-completion", "bash"]
    found = subprocess.run(command, env={**os.environ, **home}, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    scripts = [path for path in tmp_path.rglob("*") if path.is_file() and "attomaton" in path.name]
    assert scripts
    assert "_ATTOMATON_COMPLETE" in scripts[0].read_text()


def test_no_memory_is_one_line_with_a_remedy(monkeypatch, capsys):
    import attomaton.cli

    def fail(**_):
        raise MemoryError

    monkeypatch.setattr("attomaton.cli.commands.app", fail)
    monkeypatch.setattr("sys.argv", ["attomaton", "learn", "story.txt"])
    with pytest.raises(SystemExit) as ended:
        attomaton.cli.main()
    assert ended.value.code == 2
    assert "error: memory ran out; use a smaller --window" in " ".join(capsys.readouterr().err.split())


def test_the_folder_of_a_page_is_made_before_the_work(tmp_path):
    (tmp_path / "games.csv").write_text("winner,loser\na,b\nb,a\n")
    ran = run_inside("choices", "games.csv", "--page", "new/board.html", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "new" / "board.html").exists()
