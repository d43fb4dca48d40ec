"""What ``--json`` prints is what docs/json.md lists, key by key, for every command."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from attomaton.cli.commands import EXAMPLES
from tests.cli.inside import run_inside
from tests.heads.audit.small import write_model

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
CASES = [
    ("learn", 0, [["learn", "story.txt", "--window", "8"], ["learn", "visits.txt", "--documents", "line"]]),
    ("explain", 0, [["explain", "run", "the wind saw the lamp and the"]]),
    ("generate", 0, [["generate", "run", "the wind saw the lamp and the"]]),
    ("score", 0, [["score", "run", "short.txt"]]),
    ("diff", 0, [["diff", "run", "other"]]),
    ("export", 0, [["export", "run", "--graphml", "a.graphml", "--csv", "tables"]]),
    ("report", 0, [["report", "run", "--out", "page.html", "--figures", "pictures"]]),
    ("train", 0, [["train", "short.txt", "--out", "again", "--window", "3", "--steps", "20"]]),
    ("verify", 0, [["verify", "trained"]]),
    ("scan-snap", 0, [["scan-snap", "queries.txt", "--documents", "line"]]),
    ("begin", 0, [["begin", "story.txt", "--window", "8", "--step-size", "0.01", "--out", "begun"]]),
    ("choices", 0, [["choices", "games.csv", "--tied", "even"]]),
    (
        "heads",
        0,
        [
            [
                "heads",
                "model",
                "story.jsonl",
                "--window",
                "8",
                "--length",
                "12",
                "--random",
                "1",
                "--out",
                "h.parquet",
            ]
        ],
    ),
    ("tokenize", 0, [["tokenize", "story.txt", "--out", "shards"]]),
    ("reproduce", 0, [["reproduce", "mechanics-acyclic", "--trials", "2"]]),
    ("reproduce", 1, [["reproduce", "scan-snap-4", "--trials", "1"]]),
    ("reproduce", 2, [["reproduce", "text-shakespeare", "--data", "story.txt"]]),
    ("example", 0, [["example", "story.txt"]]),
    ("doctor", 0, [["doctor"]]),
]
"""Command, which of its tables, and what to run: together they print every key that is listed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("json")
    write_model(place)
    (place / "visits.txt").write_text("a b c\nb c a\n")
    (place / "queries.txt").write_text("c a q x\nc b q y\nc a c q x\nc c b q y\n" * 5)
    (place / "short.txt").write_text("a b a c a b a c b a c a b b a c a a b c a b a\n" * 2)
    (place / "games.csv").write_text("winner,loser,even\na,b,no\nb,a,yes\na,c,no\n")
    for command in (
        ["example", "story.txt"],
        ["learn", "story.txt", "--window", "8", "--out", "run"],
        ["learn", "story.txt", "--window", "16", "--out", "other"],
        ["train", "short.txt", "--out", "trained", "--window", "3", "--steps", "200"],
    ):
        assert run_inside(*command, "--quiet", cwd=place).returncode == 0
    return place


@pytest.fixture(autouse=True)
def small_work(monkeypatch):
    """An experiment on text that is done already."""
    from attomaton.base.tables import make_table
    from attomaton_experiments import text
    from attomaton_experiments.text_outcome import CURVE_SCHEMA, RULES, TextOutcome

    strings = {"model": "dense", "contexts": "held out", "rule": "all"}
    curves = make_table(CURVE_SCHEMA, {name: [strings.get(name, 1)] for name in CURVE_SCHEMA.names})
    counts = dict.fromkeys(("n_tokens", "trained_on", "held_out", "pairs", "components"), 1)
    shares = {rule.name.lower(): 1.0 for rule in RULES}
    monkeypatch.setattr(
        text, "compare_text", lambda settings, _: TextOutcome(settings, counts, shares, curves)
    )


def listed_keys(command, number):
    """The keys in the first column of a command's tables of keys."""
    section = re.search(rf"^## `attomaton {command}\b.*?(?=^## |\Z)", PAGE, re.M | re.S)[0]
    table = re.findall(r"^\| key \| value \|\n\|---\|---\|\n((?:\|.*\n?)+)", section, re.M)[number]
    return [key for line in table.splitlines() for key in re.findall(r"`([^`]+)`", line.split(" | ")[0])]


def printed_keys(value, path=""):
    """Path → whether something hangs there, for every value that has no keys of its own."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from printed_keys(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for one in value:
            yield from printed_keys(one, f"{path}[]")
    else:
        yield path, value not in (None, [], {})


@pytest.mark.parametrize(("command", "number", "runs"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_listed_keys_are_printed_and_printed_keys_are_listed(folder, command, number, runs):
    listed = listed_keys(command, number)
    assert [key for key, times in Counter(listed).items() if times > 1] == []
    patterns = {key: re.compile(re.escape(key).replace(r"\*", r"[^.\[\]]+")) for key in listed}
    seen = set()
    for arguments in runs:
        result = run_inside(*arguments, "--json", cwd=folder)
        assert result.returncode in (0, 1), result.stderr
        assert result.stdout.count("\n") == 1
        for path, filled in printed_keys(json.loads(result.stdout)):
            matching = {key for key, pattern in patterns.items() if pattern.fullmatch(path)}
            above = [key for key in listed if key.startswith((f"{path}.", f"{path}[]"))]
            assert matching or (above and not filled), f"{path} is printed and not listed"
            seen |= matching
    assert seen == set(listed)


def test_every_command_has_a_list_of_keys():
    assert set(EXAMPLES) == {command for command, _, _ in CASES}


@pytest.mark.slow  # experiments
def test_the_other_shapes_of_reproduce(folder, monkeypatch):
    from attomaton_experiments import settings

    names = json.loads(run_inside("reproduce", "list", "--json", cwd=folder).stdout)["names"]
    assert "all-mechanics" in names
    monkeypatch.setattr(settings, "list_experiments", lambda: ["mechanics-acyclic"])
    together = run_inside("reproduce", "all-mechanics", "--trials", "1", "--json", cwd=folder)
    record = json.loads(together.stdout)
    assert record.keys() == {"experiments", "seconds"}
    assert [one["experiment"] for one in record["experiments"]] == ["mechanics-acyclic"]
