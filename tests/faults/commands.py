"""Every option of every command, found in the command line itself, and what to try it with."""

import shutil
from pathlib import Path

import typer

from attomaton.cli import app
from tests.cli.inside import run_inside
from tests.heads.audit.small import write_model

WORDS = "the cat sat on the mat and the dog sat on the cat and so it was the end of it\n"

BASES = {
    "learn": ["corpus.txt", "--window=3"],
    "explain": ["run", "the cat sat on the"],
    "generate": ["run", "the cat sat on the", "--n=3"],
    "score": ["run", "corpus.txt"],
    "diff": ["run", "run"],
    "export": ["run", "--graphml=out.graphml", "--csv=tables"],
    "report": ["run", "--out=page.html"],
    "reproduce": ["list"],
    "train": ["corpus.txt", "--out=new", "--window=3", "--steps=2"],
    "verify": ["trained"],
    "scan-snap": ["corpus.txt", "--window=3"],
    "begin": ["corpus.txt", "--window=3"],
    "heads": ["model", "story.jsonl", "--window=8", "--random=0"],
    "tokenize": ["corpus.txt", "--out=shards"],
    "choices": ["games.csv"],
    "example": ["example.txt"],
    "doctor": [],
}
"""Arguments that each command runs with, quickly."""


def prepare(folder: Path) -> Path:
    """A folder with all that the commands read, and places of every kind."""
    folder.mkdir()
    write_model(folder)
    (folder / "corpus.txt").write_text(WORDS * 3)
    (folder / "small.txt").write_text("a b a a b")
    (folder / "games.csv").write_text("winner,loser\na,b\nb,a\na,c\n")
    for arguments in (
        ["learn", "corpus.txt", "--window=3", "--out=run"],
        ["train", "small.txt", "--out=trained", "--window=2", "--steps=40"],
    ):
        ended = run_inside(*arguments, cwd=folder)
        assert ended.returncode == 0, ended.stderr
    (folder / "here.txt").write_text("here\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "inside.txt").write_text("inside\n")
    (folder / "link").symlink_to("here.txt")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    return folder


def fresh(template: Path, folder: Path) -> Path:
    """A copy of the folder in which one case may do its worst."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)
    return folder


def options() -> list[tuple[str, str]]:
    """Each command with the name of each of its options and the number of each of its arguments."""
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        place = 0
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                found.append((name, str(place)))
                place += 1
            elif not getattr(parameter, "is_flag", False) and parameter.name != "help":
                found.append((name, parameter.opts[0]))
    return found


def command_line(command: str, option: str, value: str) -> list[str]:
    """The arguments of a command with one of them replaced."""
    base = list(BASES[command])
    if option.isdecimal():
        base[int(option)] = value
        flags = [one for one in base if one.startswith("--") and one != value]
        rest = [one for one in base if one not in flags]
        return [command, *flags, "--", *rest]
    return [command, *(one for one in base if not one.startswith(f"{option}=")), f"{option}={value}"]


__all__ = ["BASES", "command_line", "fresh", "options", "prepare"]
