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
    (tmp_path / "games.png").write_text(GAMES)
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
        (["games.csv", "--penalty", "firth"], "Ann", 2),
    ],
)
def test_tables(folder, arguments, best, components):
    record = json.loads(run_inside("choices", *arguments, "--json", cwd=folder).stdout)
    assert record["components"] == components
    assert best in [row["item"] for row in record["standings"] if row["rank"] == 1]
    shown = run_inside("choices", *arguments, cwd=folder)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[1].split()[:3] == ["rank", "ranks", "item"]
    assert run_inside("choices", *arguments, "--quiet", cwd=folder).stdout == f"{components}\n"


def test_tests_have_the_names_of_python(folder):
    rows = [f"{'ab'[k % 2]},{'ba'[k % 2]},{'xyz'[k % 3]},{k // 3},{'uv'[k % 5 % 2]}" for k in range(30)]
    (folder / "votes.csv").write_text("winner,loser,judge,question,month\n" + "\n".join(rows))
    tests = "goodness_of_fit,intransitivity,cross_validate"
    record = json.loads(run_inside("choices", "votes.csv", "--tests", tests, "--json", cwd=folder).stdout)
    fit = at.fit_choices(folder / "votes.csv")
    assert record["cross_validate"] == fit.cross_validate().to_dict()
    assert record["goodness_of_fit"] == fit.goodness_of_fit().to_dict()
    assert record["intransitivity"] == fit.intransitivity().to_dict()
    judged = ["--cluster", "judge", "--task", "question", "--tests", "compare_judges", "--by", "month"]
    record = json.loads(run_inside("choices", "votes.csv", *judged, "--json", cwd=folder).stdout)
    result = at.choices.compare_judges(folder / "votes.csv", cluster="judge", task="question")
    assert record["compare_judges"] == result.to_dict()
    shown = run_inside("choices", "votes.csv", *judged, "--figure", "lines.png", cwd=folder).stdout
    assert str(result) in shown
    assert (folder / "lines.png").stat().st_size > 1_000


def test_counts_and_ties_of_a_file(folder):
    record = json.loads(run_inside("choices", "games.csv", "--json", cwd=folder).stdout)
    assert (record["choices"], record["standings"][0]["wins"]) == (6, 5)
    fit = at.fit_choices(folder / "games.csv")
    assert record["standings"][0]["rating"] == fit.scores["Ann"]
    (folder / "even.csv").write_text("winner,loser,even\na,b,no\nb,a,yes\n")
    record = json.loads(run_inside("choices", "even.csv", "--tied", "even", "--json", cwd=folder).stdout)
    assert (record["n_ties"], record["standings"][0]["wins"]) == (1, 1.5)


def test_the_board_as_a_figure_and_a_page(folder):
    pytest.importorskip("matplotlib")
    for figure in ("board.png", "board.pdf", "board.svg"):
        arguments = ["choices", "games.csv", "--figure", figure, "--page", "board.html"]
        shown = run_inside(*arguments, cwd=folder)
        assert shown.stdout.endswith(f"Written to {figure}.\nWritten to board.html.\n")
        assert (folder / figure).stat().st_size > 1_000
    assert "<td>Ann</td>" in (folder / "board.html").read_text(encoding="utf-8")
    record = json.loads(run_inside(*arguments, "--json", cwd=folder).stdout)
    assert (record["figure"], record["page"], record["out"]) == ("board.svg", "board.html", None)
    shown = run_inside("choices", "games.csv", "--limit", "1", cwd=folder).stdout
    assert "Ann" in shown.splitlines()[2]
    assert shown.splitlines()[3] == "and 2 more; --limit 3 shows all"


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
        (["games.txt"], "is not supported; give a file"),
        (["menus.csv"], "--winner"),
        (["menus.csv", "--winner", "dish", "--choice-set", "menu"], "--split"),
        (["games.csv", "--split", "|"], "name the column and the separator"),
        (["games.csv", "--loser", "lost"], "no column 'lost'"),
        (["games.csv", "--prior", "0"], "above 0"),
        (["games.csv", "--figure", "board.gif"], "end the name in .pdf, .png or .svg"),
        (["games.csv", "--figure", "games.png"], "attomaton did not write it"),
        (["games.csv", "--page", "games.csv"], "attomaton did not write it"),
        (["games.csv", "--page", "."], "is a folder"),
        (["games.csv", "--prior", "1", "--ridge", "1"], "leave one of them out"),
        (["games.csv", "--tests", "anova"], "--tests has 'anova'; choose from goodness_of_fit"),
        (["games.csv", "--tests", "compare_judges"], "add --cluster COLUMN"),
        (["games.csv", "--task", "winner"], "--task needs --tests compare_judges"),
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
    assert "1 row was skipped; the first: " in told.stderr
    code = [sys.executable, "-m", "attomaton", "choices", "-", "--skip-bad", "--json"]
    piped = subprocess.run(code, input=table, capture_output=True, text=True, check=False)
    assert json.loads(piped.stdout)["standings"] == record["standings"]


def test_columns_are_named_by_a_pattern_or_in_quotes(tmp_path):
    """A survey as tools export it: a question before each item, and commas in it."""
    rows = ['id,"Q3: Price, with tax",Q3: Quality,Q4: age', "1,1,2,30", "2,2,1,40", "3,1,2,20"]
    (tmp_path / "survey.csv").write_text("\n".join(rows), encoding="utf-8")
    boards = [
        run_inside("choices", "survey.csv", "--ranks", names, "--json", cwd=tmp_path).stdout
        for names in ("Q3*", '"Q3: Price, with tax", Q3: Quality')
    ]
    assert boards[0] == boards[1]
    assert json.loads(boards[0])["items"] == 2
    refused = run_inside("choices", "survey.csv", "--ranks", "Q5*", cwd=tmp_path).stderr
    assert "'Q5*' names fewer than two columns" in refused


def test_errors_name_the_options_to_add(tmp_path):
    """A table of chess with an unfinished game and a walkover, which a club may have."""
    rows = ["White,Black,Result", "Ann,Bob,1-0", "Bob,Ann,*", "Ann,Cat,+--", "Cat,Bob,0-1"]
    (tmp_path / "club.csv").write_text("\n".join(rows), encoding="utf-8")
    told = run_inside("choices", "club.csv", cwd=tmp_path).stderr
    assert told.rstrip().endswith("drop such rows: --drop '*' --drop '+--'")
    assert run_inside("choices", "club.csv", "--drop", "*", "--drop", "+--", cwd=tmp_path).returncode == 0
    wrong = run_inside("choices", "club.csv", "--ranking", "Ann", cwd=tmp_path).stderr
    assert wrong.rstrip().endswith("name the column with --ranking")
    (tmp_path / "survey.csv").write_text("id,Tea,Milk\n1,1,2\n2,2,1\n", encoding="utf-8")
    unnamed = run_inside("choices", "survey.csv", cwd=tmp_path).stderr
    assert "with --winner and --loser, with --first, --second and --outcome," in unnamed
    assert "=" not in unnamed
    (tmp_path / "survey.xlsx").write_bytes(b"PK")
    assert "save a spreadsheet as .csv" in run_inside("choices", "survey.xlsx", cwd=tmp_path).stderr


def test_an_arena_needs_no_names_and_features_may_be_two_columns(tmp_path):
    table = "model_a,model_b,winner,conv_a_length,conv_b_length,one,two,language\n"
    rows = [
        "x,y,model_a,3,1,1,0,en",
        "y,x,model_a,2,2,0,1,de",
        "x,y,tie,1,2,1,1,en",
        "x,y,tie (bothbad),1,4,0,0,de",
    ]
    rows += ["y,x,model_b,1,2,1,0,en", "x,y,model_b,2,1,0,1,en", "y,x,model_a,1,2,0,0,de"]
    (tmp_path / "arena.csv").write_text(table + "\n".join(rows) + "\n")
    frame = at.fit_choices(
        tmp_path / "arena.csv", first="model_a", second="model_b", outcome="winner", drop="tie (bothbad)",
        features={"conv_length": ("conv_a_length", "conv_b_length"), "other": ("one", "two")},
    )  # fmt: skip
    options = ["--drop", "tie (bothbad)", "--features", "conv_length,other=one:two", "--json"]
    record = json.loads(run_inside("choices", "arena.csv", *options, cwd=tmp_path).stdout)
    assert record["choices"] == 6
    assert record["coefficients"] == frame.to_dict()["coefficients"]
    assert record["standings"] == frame.to_dict()["standings"]
    wrong = run_inside("choices", "arena.csv", "--features", "chars", cwd=tmp_path)
    assert "--features chars=…:…" in wrong.stderr
    (tmp_path / "gap.csv").write_text(table + rows[0] + "\n" + rows[1].removesuffix("de") + "\n")
    missing = run_inside("choices", "gap.csv", "--by", "language", cwd=tmp_path)
    assert "'language' (by) is missing in line 3 of gap.csv" in missing.stderr


def test_a_winner_of_0_or_1_is_refused_or_its_reading_is_printed(tmp_path):
    rows = "x,y,0\ny,x,1\nx,y,0\ny,x,1\nx,y,1\n"
    (tmp_path / "arena.csv").write_text("model_a,model_b,winner\n" + rows)
    (tmp_path / "scores.csv").write_text("model_a,model_b,score\n" + rows)
    refused = run_inside("choices", "arena.csv", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "write 'model_a' or 'model_b' instead" in " ".join(refused.stderr.split())
    named = ["choices", "scores.csv", "--first", "model_a", "--second", "model_b", "--outcome", "score"]
    reading = "'score' was read as the score of 'model_a': 1 is a win, 0 is a loss, 0.5 is a tie"
    assert reading in run_inside(*named, cwd=tmp_path).stdout
    assert json.loads(run_inside(*named, "--json", cwd=tmp_path).stdout)["remarks"] == [reading]
