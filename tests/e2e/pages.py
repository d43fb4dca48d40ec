"""The code blocks of README and docs, and what it takes to run them as they stand."""

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import attomaton as at
from tests.cli.inside import run_inside
from tests.engines.conftest import write_shards

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines and where it begins."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}, line {self.line}"

    def commands(self):
        """The words of every command of a console block, comments left out."""
        return [shlex.split(line[2:], comments=True) for line in self.text.splitlines() if line[:2] == "$ "]


def read_blocks(page):
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(page.name, text[: one.start()].count("\n") + 1, one[1], one[2]) for one in found]


def run_python(block, names):
    """Run a ``python`` block in these names; what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, str(block), "exec"), names)  # noqa: S102  our own page
    return printed.getvalue()


def run_session(block, names):
    """Run a ``pycon`` block in these names and compare what it shows; nothing else is printed."""
    session = doctest.DocTestParser().get_doctest(block.text, names, str(block), None, 0)
    told = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert session.examples, f"{block} has no example"
    assert runner.run(session, out=told.write, clear_globs=False).failed == 0, told.getvalue()
    names.update(session.globs)
    return ""


def run_command(words, folder):
    """Run ``attomaton`` with these words; what it printed."""
    program, *arguments = words
    assert program == "attomaton", words
    if "spark" in arguments:  # a session would stay with this process, and with all tests after this one
        command = [sys.executable, "-m", "attomaton", *arguments]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    else:
        result = run_inside(*arguments, cwd=folder)
    assert result.returncode == 0, (words, result.stderr)
    return result.stdout


def prepare_inputs(folder):
    """Small files under the names that the pages' commands give to larger ones."""
    run_command(["attomaton", "example", "story.txt"], folder)
    story = (folder / "story.txt").read_text(encoding="utf-8")
    for name in ("tinyshakespeare/input.txt", "wikitext-2/valid.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(story, encoding="utf-8")
    (folder / "games.csv").write_text("winner,loser\nAnn,Bob\nBob,Ann\nAnn,Cat\n", encoding="utf-8")
    battle = '{"model_a": "large", "model_b": "small", "winner": "model_a"}\n'
    (folder / "battles.jsonl").write_text(battle * 2, encoding="utf-8")
    (folder / "endometrial.csv").write_bytes((ROOT / "docs" / "data" / "endometrial.csv").read_bytes())
    games = "Ann,Bob,1,1\nBob,Ann,1,1\nBob,Cat,2,1\nCat,Ann,1,2\n"
    (folder / "baseball.csv").write_text(
        "home.team,away.team,home.wins,away.wins\n" + games, encoding="utf-8"
    )
    (folder / "nascar.csv").write_text("rank1,rank2,rank3\n1,2,3\n2,1,3\n2,1,4\n", encoding="utf-8")
    results = "Ann,Bob,1,TRUE\nBob,Ann,0.5,TRUE\nCat,Ann,0,FALSE\nAnn,Cat,0,TRUE\nBob,Cat,1,TRUE\n"
    (folder / "icehockey.csv").write_text("visitor,opponent,result,home.ice\n" + results, encoding="utf-8")
    (folder / "msnbc.txt").write_text("1 2 3\n2 1\n3 2 1\n1 3\n" * 9, encoding="utf-8")
    rng = np.random.default_rng(0)
    write_shards(folder / "shards", [rng.integers(0, 9, 80).tolist() for _ in range(6)], 9, 2)
    (folder / "data").mkdir()
    with pa.CompressedOutputStream(str(folder / "data" / "one.jsonl.zst"), "zstd") as file:
        file.write(b'{"text": "the cat saw the dog"}\n')
    _train_tokenizer(folder / "gpt2" / "tokenizer.json", story)


def prepare_long_inputs(folder):
    """What the commands that take minutes need besides, long enough for their settings."""
    words = at.read_corpus(str(folder / "story.txt")).vocabulary.tokens
    rng = np.random.default_rng(0)
    for name, length in (("train", 60_000), ("valid", 20_000)):
        text = " ".join(words[number] for number in rng.zipf(1.4, length) % len(words))
        for place in ("wikitext-2", "FOLDER"):
            (folder / place).mkdir(exist_ok=True)
            (folder / place / f"{name}.txt").write_text(text, encoding="utf-8")


def _train_tokenizer(path, text):
    from tokenizers import ByteLevelBPETokenizer

    path.parent.mkdir()
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([text], vocab_size=300, show_progress=False)
    tokenizer.save(str(path))
