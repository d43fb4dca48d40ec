"""``attomaton choices``: every form of a table, what is refused, and what is saved."""

import json
import subprocess
import sys

import pytest

import attomaton as at
from tests.cli.inside import run_inside

GAMES = "winner,loser,count\nAnn,Bob,3\nBob,Ann,1\nAnn,Cat,2\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "games.csv").write_text(GAMES)
    (tmp_path / "games.tsv").write_text(GAMES.replace(",", "\t"))
    (tmp_path / "menus.csv").write_text('dish,menu\nsoup,"soup | fish"\nfish,fish|soup|cake\n')
    (tmp_path / "races.csv").write_text("result\nAnn > Bob > Cat\nBob>Ann\n")
    battle = {"a": "x", "b": "y", "won": "a"}
    rows = [battle, {**battle, "won": "tie"}, {**battle, "won": "y"}]
    (tmp_path / "battles.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "best", "components"),
    [
        (["games.csv"], "Ann", 2),
        (["games.tsv"], "Ann", 2),
        (["games.csv", "--winner", "loser", "--loser", "winner"], "Cat", 2),
        (["menus.csv", "--winner", "dish", "--choice-set", "menu", "--split", "|"], "fish", 2),
        (["races.csv", "--ranking", "result", "--split", ">"], "Ann", 2),
        (["battles.jsonl", "--first", "a", "--second", "b", "--outcome", "won"], "x", 1),
        (["games.csv", "--prior", "1"], "Ann", 2),
    ],
)
def test_tables(folder, arguments, best, components):
    record = json.loads(run_inside("choices", *arguments, "--json", cwd=folder).stdout)
    assert record["components"] == components
    assert best in [row["item"] for row in record["standings"] if row["place"] == 1]
    shown = run_inside("choices", *arguments, cwd=folder)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1].split()[:2] == ["rank", "item"]
    assert run_inside("choices", *arguments, "--quiet", cwd=folder).stdout == f"{components}\n"


def test_counts_and_ties_of_a_file(folder):
    record = json.loads(run_inside("choices", "games.csv", "--json", cwd=folder).stdout)
    assert (record["choices"], record["standings"][0]["wins"]) == (6, 5)
    fit = at.fit_choices(folder / "games.csv")
    assert record["standings"][0]["score"] == fit.scores["Ann"]
    (folder / "even.csv").write_text("winner,loser,even\na,b,no\nb,a,yes\n")
    record = json.loads(run_inside("choices", "even.csv", "--tied", "even", "--json", cwd=folder).stdout)
    assert (record["n_ties"], record["standings"][0]["wins"]) == (1, 1.5)


def test_a_fit_is_saved_and_not_overwritten_by_accident(folder):
    assert run_inside("choices", "games.csv", "--out", "fit", "--quiet", cwd=folder).returncode == 0
    assert at.ChoiceFit.load(folder / "fit").items == ("Ann", "Bob", "Cat")
    again = run_inside("choices", "games.csv", "--out", "fit", "--quiet", cwd=folder)
    assert again.returncode == 2
    assert "overwrite" in again.stderr
    assert run_inside("choices", "games.csv", "--out", "fit", "--overwrite", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.csv"], "nowhere.csv cannot be read"),
        (["games.txt"], "not a file of choices"),
        (["menus.csv"], "--winner"),
        (["menus.csv", "--winner", "dish", "--choice-set", "menu"], "--split"),
        (["games.csv", "--split", "|"], "name that column"),
        (["games.csv", "--loser", "lost"], "no column 'lost'"),
        (["games.csv", "--prior", "0"], "above 0"),
        (["games.csv", "--prior", "1", "--ridge", "1"], "give only one"),
    ],
)
def test_what_is_refused(folder, arguments, told):
    ended = run_inside("choices", *arguments, cwd=folder)
    assert ended.returncode == 2
    assert told in " ".join(ended.stderr.replace("│", " ").split())
    assert "Traceback" not in ended.stderr


def test_long_and_hidden_names_and_narrow_encodings(folder):
    (folder / "odd.csv").write_text(
        "winner,loser\n\x1b[31mred,größer\ngrößer,\x1b[31mred\n", encoding="utf-8"
    )
    shown = run_inside("choices", "odd.csv", cwd=folder)
    assert "\x1b" not in shown.stdout
    assert "größer" in shown.stdout


def test_help_has_examples(folder):
    shown = run_inside("choices", "--help", cwd=folder).stdout
    assert "attomaton choices games.csv" in shown
    assert "--outcome" in shown


def test_standard_input_semicolons_and_bad_rows(tmp_path):
    table = "winner;loser\na;b\nb\nb;a\n"
    (tmp_path / "games.csv").write_text(table, encoding="utf-8")
    refused = run_inside("choices", "games.csv", cwd=tmp_path)
    assert refused.returncode == 2
    told = run_inside("choices", "games.csv", "--skip-bad", "--json", cwd=tmp_path)
    record = json.loads(told.stdout)
    assert (record["skipped"], record["items"]) == (1, 2)
    assert "1 document was skipped" in told.stderr
    code = [sys.executable, "-m", "attomaton", "choices", "-", "--skip-bad", "--json"]
    piped = subprocess.run(code, input=table, capture_output=True, text=True, check=False)
    assert json.loads(piped.stdout)["standings"] == record["standings"]
