"""Folders full of files that are not ours, with names that look as if they were; and a look at them all."""

import json
import os
import stat
from pathlib import Path

OURS = [
    *("manifest.json", "partial.json", "verdicts.json", "vocabulary.json"),
    *("coverage.json", "arrays.safetensors", "edges.parquet", "order-00000.parquet", "queries.parquet"),
    *("order.csv", "report.html", "report.docx", "novel.draft"),
    *("training.txt", "training", "checkpoints", "words"),
    *("inputs", "part-00000-00000.parquet", "work", "work.draft"),
    *("choices", "trace.safetensors", "trace.jsonl", "forecast.json"),
    *("figure.png", "summary.md", "graph.pdf", "out.old"),
    *(".out.attomaton-lock", "out.partial-0123abcd", "out.partial-0123abcd.old", ".0123456789abcdef.draft"),
    *("000000000010.safetensors", "epoch10.safetensors", "out.html", "out.graphml"),
    *(".out.html.attomaton-lock",),
]
HOSTILE = [
    "-rf",
    "--overwrite",
    "a b",
    " ",
    "a\nb",
    "*",
    "?",
    "[ab]",
    "{a,b}",
    "~",
    "$HOME",
    "%s",
    "é",
    "漢字",
]
HOSTILE += [
    "x=1",
    "key=5",
    "'; drop table",
    '"',
    "\\",
    "a" * 255,
    "é" * 127,
    "\udcff\udcfe",
    "..x",
    ".hidden",
]
HOSTILE += ["CON", "a:b", "#", "\u202etxt"]
KINDS = ["file", "file", "file", "json", "empty", "folder", "link", "lost link", "folder link", "pipe"]
DEEPEST = 12
"""Parts of a path."""


def scatter(folder, rng, most=6):
    """Put some strangers into a folder: files, folders, links and pipes."""
    for name in rng.sample(OURS + HOSTILE, rng.randint(1, most)):
        place(folder / name, rng)


def place(path, rng):
    """One stranger, unless the name is taken."""
    if os.path.lexists(path):
        return
    kind = rng.choice(
        ["file", "file", "file", "json", "empty", "folder", "link", "lost link", "folder link", "pipe"]
    )
    if kind == "folder":
        path.mkdir()
        for name in rng.sample(OURS + HOSTILE, 2):
            if len(path.parts) < DEEPEST:
                place(path / name, rng)
    elif kind == "link":
        target = path.parent / f"target-{rng.randrange(10**9)}"
        target.write_bytes(rng.randbytes(9))
        path.symlink_to(target.name)
    elif kind == "lost link":
        path.symlink_to("nowhere-at-all")
    elif kind == "folder link":
        path.symlink_to(".")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "json":
        path.write_text(
            json.dumps({"kind": "run", "format": 2, "files": {"edges-00000.parquet": {}}, "seal": "0" * 64})
        )
    else:
        path.write_bytes(b"" if kind == "empty" else rng.randbytes(rng.randint(1, 40)))


def look(folder):
    """Everything under a folder: kind, mode, and bytes or target."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place, name)
            mode = path.lstat().st_mode
            content = path.readlink() if stat.S_ISLNK(mode) else None
            if stat.S_ISREG(mode):
                content = path.read_bytes()
            found[str(path.relative_to(folder))] = (mode, content)
    return found
