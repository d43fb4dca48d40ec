"""The first hour of an engineer with logs: ``python engineer.py FOLDER`` does it, and says what it sees.

It needs nothing but attomaton, so that it runs from the wheel; pandas, Polars and PyTorch are used where they
are there. Every call is one that a stranger would try. A right one must give the right answer, the same from
every format that holds the same documents; a wrong one must end with one line that says what to do.
"""

import csv
import gzip
import importlib.util
import io
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import attomaton as at
from attomaton.corpora.readers import Reading

PAGES = ("home", "search", "item", "cart", "pay", "help", "log out")
SEED = 17


def draw_sessions(rng, n_sessions):
    """Visits as an engineer has them: who pays has seen the cart, who is lost goes back home."""
    sessions = []
    for _ in range(n_sessions):
        steps = ["home"]
        for _ in range(rng.randrange(3, 12)):
            before = steps[-1]
            likely = {"home": ("search", "help"), "search": ("item", "search"), "item": ("cart", "search")}
            steps.append(rng.choice((*likely.get(before, ("home", "pay")), *steps)))
        sessions.append(steps)
    return sessions


class Hour:
    """One folder, its files, and what was called."""

    def __init__(self, folder):
        self.folder = folder
        self.told = []

    def say(self, line):
        """One line of the transcript."""
        self.told.append(line)
        print(line, flush=True)

    def run(self, *arguments, given=None, code=0):
        """A command; its output, or the one line that it ends with if it is to fail."""
        command = [sys.executable, "-m", "attomaton", *map(str, arguments)]
        ended = subprocess.run(command, cwd=self.folder, input=given, capture_output=True, check=False)
        out, err = ended.stdout.decode(), ended.stderr.decode()
        self.say(f"$ attomaton {' '.join(map(str, arguments))}{' < …' if given is not None else ''}")
        last = (err if code else out).strip().splitlines()[-1:]
        self.say(f"  {ended.returncode}: {''.join(last)[:150]}")
        assert ended.returncode == code, (arguments, ended.returncode, out, err)
        assert "Traceback" not in out + err, (arguments, err)
        if code:
            assert "error" in err.lower(), (arguments, err)
        return err if code else out

    def refused(self, what, call, says):
        """A call that must be refused, by an error of ours that says what to do."""
        told = None
        try:
            call()
        except at.AttomatonError as error:
            told = error
        assert told is not None, f"{what} was not refused"
        assert says in str(told), (what, says, str(told))
        self.say(f">>> {what}\n  {type(told).__name__}: {str(told)[:150]}")


def write_files(hour, sessions):
    """The same documents in every format that an engineer meets."""
    texts = [" ".join(page.replace(" ", "_") for page in steps) for steps in sessions]
    records = [{"user": number, "path": text} for number, text in enumerate(texts)]
    folder = hour.folder
    (folder / "my logs").mkdir()
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (folder / "visits.jsonl").write_text(lines)
    (folder / "visits.json").write_text(json.dumps(records, indent=2))
    (folder / "texts.json").write_text(json.dumps(texts))
    (folder / "split.json").write_text(json.dumps([text.split() for text in texts]))
    (folder / "structured.log").write_text(lines)
    (folder / "my logs" / "visits of today.log").write_text("\n".join(texts) + "\n")
    (folder / "visits.log.1").write_text("\n".join(texts) + "\n")
    for name, delimiter in (("visits.csv", ","), ("german.csv", ";"), ("visits.tsv", "\t")):
        with (folder / name).open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["user", "path"], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(records)
    (folder / "visits.csv.gz").write_bytes(gzip.compress((folder / "visits.csv").read_bytes()))
    return texts


def read_everywhere(hour, texts):
    """Each format, frame and list gives the same automaton."""
    expected = at.learn(texts, window=6)
    folder, named, lines = hour.folder, {"column": "path"}, {"documents": "line"}
    sources = [
        *((folder / name, named) for name in ("visits.jsonl", "visits.json", "visits.csv", "visits.csv.gz")),
        *((folder / name, named) for name in ("german.csv", "visits.tsv")),
        (folder / "texts.json", {}),
        (folder / "split.json", {}),
        (folder / "my logs" / "visits of today.log", lines),
        (folder / "my logs", lines),
        (str(folder / "my logs" / "*.log"), lines),
        ([folder / "my logs" / "visits of today.log"], lines),
        (folder / "visits.log.1", {"reading": Reading(format="txt", documents="line")}),
        (folder / "structured.log", {"reading": Reading(format="jsonl", column="path")}),
        ([text.split() for text in texts], {}),
        ([{"path": text} for text in texts], named),
        (at.read_corpus(folder / "visits.csv", reading=at.Reading(column="path")), {}),
        (at.tokenize_corpus(folder / "visits.csv", folder / "shards", reading=Reading(column="path")), {}),
    ]
    if importlib.util.find_spec("pandas"):
        import pandas as pd

        frame = pd.read_csv(folder / "visits.csv")
        sources += [(frame, {}), (frame, named), (frame["path"], {}), (frame["path"].str.split(), {})]
    if importlib.util.find_spec("polars"):
        import polars as pl

        sources += [(pl.read_csv(folder / "visits.csv"), named), (pl.Series(texts), {})]
    for source, options in sources:
        learned = at.learn(source, window=6, **options)
        shown = source if isinstance(source, str | Path) else type(source).__name__
        assert learned.coverage == expected.coverage, shown
        assert learned.vocabulary.tokens == expected.vocabulary.tokens, shown
        assert (
            learned.predict_proba("home item home").tolist()
            == expected.predict_proba("home item home").tolist()
        )
        hour.say(f">>> at.learn({Path(shown).name}, {options})  # {learned.coverage.n_read:,} samples")
    return expected


def use_commands(hour, expected):
    """The same on the command line, and what one does with a run."""
    read, edges = expected.coverage.n_read, expected.coverage.n_edges
    csv_file = ("visits.csv", "--column", "path", "--window", "6")
    piped = (hour.folder / "visits.jsonl").read_bytes()
    for arguments, given in (
        (csv_file, None),
        (("-", "--format", "jsonl", "--column", "path", "--window", "6"), piped),
        (("my logs/visits of today.log", "--documents", "line", "--window", "6"), None),
        (("shards", "--window", "6"), None),
    ):
        told = json.loads(hour.run("learn", *arguments, "--json", given=given))
        assert (told["n_read"], told["n_edges"]) == (read, edges), arguments
    hour.run("learn", *csv_file, "--out", "run")
    hour.run(
        "learn",
        "visits.jsonl",
        "--column",
        "path",
        "--window",
        "6",
        "--tokenizer",
        "word-punct",
        "--out",
        "punct",
    )
    told = hour.run("tokenize", "visits.csv", "--column", "path", "--out", "from csv", "--json")
    assert (
        json.loads(told)["documents"]
        == json.loads((hour.folder / "shards/manifest.json").read_text())["documents"]
    )
    hour.run("explain", "run", "home item home")
    hour.run("report", "run", "--out", "report.html")
    hour.run("export", "run", "--csv", "tables")
    told = json.loads(hour.run("diff", "run", "visits.jsonl", "--column", "path", "--json"))
    assert told["different"] == 0
    told = json.loads(hour.run("scan-snap", "visits.json", "--column", "path", "--window", "6", "--json"))
    assert told["samples"] == read
    if importlib.util.find_spec("torch"):
        told = json.loads(hour.run("train", *csv_file, "--steps", "5", "--out", "trained", "--json"))
        assert told["samples"] == round(read * expected.coverage.realisable)
        assert told["tokens"] == expected.n_tokens


def score_tomorrow(hour, today, tomorrow):
    """New text in the vocabulary of a run, one that is loaded alike."""
    loaded = at.Automaton.load(hour.folder / "run")
    path = hour.folder / "tomorrow.csv"
    path.write_text("path\n" + "\n".join(tomorrow) + "\n")
    scores = [auto.score(source, epsilon=0.1) for auto in (today, loaded) for source in (path, tomorrow)]
    assert scores == scores[:1] * 4, scores
    hour.say(f">>> auto.score('tomorrow.csv', epsilon=0.1)\n  {scores[0]}")
    different = at.diff(hour.folder / "run", path)
    assert len(different) == len(at.diff(today, at.learn(tomorrow, window=6)))
    hour.say(f">>> at.diff('run', 'tomorrow.csv')\n  {different!r}")


def go_wrong(hour, texts):
    """What one gets wrong in the first hour: each ends with one line that says what to do."""
    folder = hour.folder
    (folder / "empty.csv").write_text("")
    (folder / "latin.csv").write_bytes("path\ncafé au lait\n".encode("latin-1"))
    (folder / "headless.csv").write_text("\n".join(texts))
    for call, says in (
        (lambda: at.learn(folder / "visits.csv"), "name the column of the documents with column"),
        (
            lambda: at.learn(folder / "visits.csv", reading=at.Reading(column="Path")),
            "no column called 'Path'; it has user, path",
        ),
        (lambda: at.learn(folder / "visits.jsonl"), "choose a field with column"),
        (lambda: at.learn(folder / "structured.log"), "begins with JSON"),
        (lambda: at.learn(folder / "visits.log.1"), "set its format"),
        (lambda: at.learn(folder / "headless.csv"), "if the file has no header, add one"),
        (lambda: at.learn(folder / "empty.csv"), "is empty"),
        (lambda: at.learn(folder / "latin.csv"), "is not UTF-8 text"),
        (lambda: at.learn(folder / "run"), "is a run folder"),
        (lambda: at.learn(texts[0]), "if this is the text itself"),
        (lambda: at.learn(texts[0].split()), "a list of this list"),
        (lambda: at.learn(["visits.csv", "german.csv"]), "pathlib.Path"),
        (lambda: at.learn(io.StringIO(texts[0])), "give the path of the file"),
        (lambda: at.learn(texts, reading=at.Reading(column="path")), "has no columns"),
        (lambda: at.learn(None), "a corpus is a path"),
        (lambda: at.learn(texts, tokenizer="words"), "the tokenizer 'words' is unknown"),
    ):
        hour.refused(says, call, says)
    assert "choose a field with column" in hour.run("train", "visits.jsonl", "--out", "no", code=2)
    assert "begins with JSON" in hour.run("learn", "-", given=(folder / "visits.jsonl").read_bytes(), code=2)
    assert "it is compressed" in hour.run("learn", "-", given=(folder / "visits.csv.gz").read_bytes(), code=2)
    assert "but two are needed" in hour.run("learn", "-", given=b"", code=2)


def main(folder):
    """The hour, in order."""
    warnings.simplefilter("error")
    hour = Hour(Path(folder))
    rng = random.Random(SEED)  # noqa: S311  no secret
    texts = write_files(hour, draw_sessions(rng, 120))
    tomorrow = [" ".join(page.replace(" ", "_") for page in one) for one in draw_sessions(rng, 30)]
    expected = read_everywhere(hour, texts)
    use_commands(hour, expected)
    score_tomorrow(hour, expected, [*tomorrow, "home new_page home new_page"])
    go_wrong(hour, texts)
    hour.say(f"{len(hour.told)} lines, nothing that surprises")


if __name__ == "__main__":
    main(sys.argv[1])
