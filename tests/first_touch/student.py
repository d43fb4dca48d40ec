"""The first hour of somebody who read the paper: natural calls in Python and at the command line, in order.

``python -m tests.first_touch.student FOLDER`` takes every step in an empty folder and prints what each
printed. A step ends well, or with an :class:`~attomaton.AttomatonError` that says what to do; nothing else.
"""

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl

import attomaton as at
from tests.cli.inside import run_inside

mpl.use("agg")

STORY = "the cat saw the dog\nthe dog saw the cat and the cat ran\na cat and a dog ran to the cat\n" * 3
ASKED = "the dog saw the cat and the"


@dataclass
class Hour:
    """What the student has at hand, and what was printed so far."""

    folder: Path
    known: dict[str, Any] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def python(self, name: str, call: Callable[[dict[str, Any]], Any]) -> None:
        """Make a call, keep its value under this name, and print it."""
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.chdir(self.folder):
                self.known[name] = call(self.known)
                out.write(f"{self.known[name]}\n")
        except at.AttomatonError as error:
            self.refused[name] = str(error)
        self.printed[name] = out.getvalue()

    def shell(self, name: str, *arguments: str) -> None:
        """Run a command; what it prints is kept, and an exit code 2 is a refusal."""
        result = run_inside(*arguments, cwd=self.folder, COLUMNS="100")
        assert "Traceback" not in result.stderr, result.stderr
        assert result.returncode in (0, 1, 2), result
        if result.returncode == 2:
            self.refused[name] = result.stderr
        self.printed[name] = result.stdout


def spend(folder: Path) -> Hour:
    """Every step of the hour."""
    (folder / "story.txt").write_text(STORY)
    (folder / "later.txt").write_text("the dog ran and a zebra saw the dog and the zebra ran\n")
    hour = Hour(folder)
    _ask(hour)
    _train(hour)
    _mistake(hour)
    return hour


def _ask(hour: Hour) -> None:
    hour.python("learn", lambda _: at.learn("story.txt", window=8))
    hour.python("coverage", lambda known: known["learn"].coverage)
    hour.python("explain", lambda known: known["learn"].explain(ASKED))
    hour.python("show", lambda known: known["learn"].show(ASKED))
    hour.python("predict", lambda known: known["learn"].predict(ASKED))
    hour.python("batch", lambda known: known["learn"].predict_batch([ASKED, "a dog ran to the"]))
    hour.python("unknown", lambda known: known["learn"].predict("the zebra saw the"))
    hour.python("sample", lambda known: known["learn"].name(known["learn"].sample(ASKED)))
    hour.python("generate", lambda known: known["learn"].generate(ASKED, 10, seed=1))
    hour.python("early", lambda known: known["learn"].at(20).predict(ASKED))
    hour.python("early text", lambda known: known["learn"].at(20).generate(ASKED, 10, seed=1))
    hour.python("score", lambda known: known["learn"].score("later.txt"))
    hour.python("edges", lambda known: known["learn"].components.edges.to_pandas(known["learn"].vocabulary))
    hour.python("picture", lambda known: known["learn"].plot("the"))
    hour.python("context", lambda known: known["learn"].plot_context(ASKED))
    hour.shell("learn run", "learn", "story.txt", "--window", "8", "--out", "run")
    hour.shell("explain run", "explain", "run", ASKED)
    hour.shell("generate run", "generate", "run", ASKED, "-n", "10", "--seed", "1")
    hour.shell("score run", "score", "run", "later.txt")


def _train(hour: Hour) -> None:
    paper = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    hour.python("small", lambda _: at.learn(paper))
    hour.python(
        "train", lambda _: at.train(paper, at.AttentionModel(), at.GradientDescent(0.5), steps=400, seed=1)
    )
    hour.python("curves", lambda known: known["train"].plot())
    hour.python("verify", lambda known: at.verify(known["small"], known["train"]))
    hour.python("verdicts", lambda known: known["verify"].plot())
    hour.python("expand", lambda known: at.expand(known["small"], paper))
    hour.shell("train run", "train", "story.txt", "--window", "8", "--out", "run", "--steps", "30")
    hour.shell("report run", "report", "run", "--out", "page.html", "--figures", "pictures")


def _mistake(hour: Hour) -> None:
    """What goes wrong in a first hour, each of which must say how to go on."""
    hour.python("no context", lambda known: known["learn"].predict(""))
    hour.python("texts as tokens", lambda known: known["learn"].predict([ASKED, ASKED]))
    hour.python("ids and words", lambda known: known["learn"].predict([1, "cat"]))
    hour.python("no such id", lambda known: known["learn"].predict([0, 99]))
    hour.python("words without words", lambda known: known["small"].predict("the cat"))
    hour.python("no such query", lambda known: known["learn"].plot("zebra"))
    hour.python("nothing to draw", lambda known: known["small"].plot(0))
    hour.python("a loaded run", lambda _: at.Automaton.load("run").at(20).predict(ASKED))
    hour.shell("no such run", "explain", "nowhere", ASKED)
    hour.shell("no prompt", "generate", "run", "")
    hour.shell("no samples", "generate", "run", ASKED, "--step", "20")


MISTAKES = (
    "no context",
    "texts as tokens",
    "ids and words",
    "no such id",
    "words without words",
    "no such query",
    "nothing to draw",
    "a loaded run",
    "no such run",
    "no prompt",
    "no samples",
)
"""Steps that are refused, and no others."""


if __name__ == "__main__":
    spent = spend(Path(sys.argv[1]))
    for step, text in spent.printed.items():
        sys.stdout.write(f"== {step}\n{text}{spent.refused.get(step, '')}\n")
