"""The docs speak of things that exist."""

import json
import pkgutil
import re
import runpy
import shlex
import tomllib
import warnings
from pathlib import Path

import choix
import griffe
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import attomaton as at
from attomaton.choices import simulate_arena
from attomaton.claims.mechanics import MECHANICS_CLAIMS
from attomaton.cli.commands import GROUPS
from attomaton_experiments.settings import ALL, describe_experiments, find_experiments, list_experiments
from tests.cli.inside import run_inside

ROOT = Path(__file__).parents[2]


def test_every_test_named_in_theory_to_code_exists():
    page = "".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("theory-to-code.md", "definitions.md")
    )
    named = re.findall(r"`((?:\w+/)+\w+\.py)?(?:::(\w+))?`", page)
    file, seen = "", 0
    for path, name in named:
        file = path or file
        place = ROOT / "tests" / file
        if not place.exists():
            home = "" if file.startswith("attomaton_experiments/") else "attomaton"
            place = ROOT / "src" / home / file
            assert place.exists(), file
        if name:
            assert re.search(rf"\b(?:def|class) {name}\b", place.read_text(encoding="utf-8")), (file, name)
            seen += 1
    assert seen > 20


def test_statements_name_what_exists():
    """Every function, claim, experiment, command and test; the page is the one written from the table."""
    script = runpy.run_path(str(ROOT / "docs" / "pictures" / "statements.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["render"]()
    sections = tomllib.loads(script["TABLE"].read_text(encoding="utf-8"))["section"]
    rows = [row for section in sections for row in section["rows"]]
    assert len(rows) > 110
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    commands = {name for names in GROUPS.values() for name in names}
    for place, _, functions, claims, command, tests, verdict, remark in rows:
        for folder, names in (("src", functions), ("tests", tests)):
            for path, _, name in (name.partition("::") for name in names.split()):
                home = (
                    "attomaton" if folder == "src" and not path.startswith("attomaton_experiments/") else ""
                )
                file = ROOT / folder / home / path
                assert file.is_file(), (place, path)
                text = file.read_text(encoding="utf-8")
                defined = re.search(rf"^(?:def|class) {name}\b", text, flags=re.MULTILINE)
                assert defined or not name, (place, name)
        assert [claim for claim in claims.split(", ") if claim and f'"{claim}"' not in sources] == [], place
        if command.startswith("attomaton "):
            assert command.split()[1] in commands, place
        else:
            assert set(command.split()) <= set(list_experiments()), place
        assert verdict == "exact" or remark, place
        assert verdict in ("text", "open", "unreadable") or tests, place


def test_every_picture_is_on_the_page_of_figures_with_its_command():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    figures = {f"figures/{path.name}" for path in (ROOT / "docs" / "figures").iterdir()}
    rows = re.findall(r"^\| !\[[^\]]+\]\((\S+?)\).*\| (?:`(.+)`|the same) \|$", page, flags=re.MULTILINE)
    assert figures <= {picture for picture, _ in rows}
    names = list_experiments()
    for _, command in rows:
        if command.startswith("attomaton reproduce "):
            assert command.split()[2] in names
        elif command.startswith("python -m "):
            assert (ROOT / command.split()[2].replace(".", "/")).with_suffix(".py").is_file(), command
        elif command.startswith("python "):
            assert (ROOT / command.split()[1]).is_file(), command


def test_the_picture_of_the_landing_page_is_what_its_command_draws():
    place = ROOT / "docs" / "pictures" / "automaton.py"
    picture = runpy.run_path(str(place))
    assert picture["PLACE"].read_text(encoding="utf-8") == picture["draw"]()
    trees = runpy.run_path(str(place.with_name("trees.py")))
    drawn = {name: draw() for name, draw in trees["PICTURES"].items()}
    assert {name: (trees["ASSETS"] / name).read_text(encoding="utf-8") for name in drawn} == drawn


@pytest.mark.slow  # reads the whole site
def test_cross_references_of_docstrings_become_links():
    hook = griffe.load_extensions(str(ROOT / "docs" / ".hooks" / "roles.py"))
    package = griffe.load("attomaton", search_paths=[ROOT / "src"], extensions=hook)
    texts = docstrings(package)
    assert not any(re.search(r":(?:func|class|meth|mod|attr):`", text) for text in texts)
    assert sum('<autoref optional identifier="attomaton.' in text for text in texts) > 50


def docstrings(thing):
    """Those of a thing and of all in it."""
    own = [] if thing.docstring is None else [thing.docstring.value]
    inner = [one for one in thing.members.values() if isinstance(one, griffe.Object)]
    return own + [text for one in inner for text in docstrings(one)]


def test_every_claim_is_explained():
    page = (ROOT / "docs" / "train-and-verify.md").read_text(encoding="utf-8")
    assert [claim.name for claim in MECHANICS_CLAIMS if f"| {claim.name} |" not in page] == []


def test_every_experiment_with_a_figure_is_on_its_page():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    names = [name for name in find_experiments(ALL) if name != "mechanics-path"]
    assert [name for name in names if f"`{name}`" not in page] == []


PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_that_a_page_gives_in_full_imports(page):
    text = page.read_text(encoding="utf-8")
    names = {name.replace("at.", "attomaton.", 1) for name in re.findall(r"`(at\.[a-z_]\w*(?:\.\w+)*)", text)}
    names |= set(re.findall(r"`(attomaton(?:\.\w+)+)", text))
    assert [name for name in sorted(names) if not _imports(name)] == []


def _imports(name):
    """Whether a dotted name leads to a module, or to something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_table_is_broken_by_a_blank_line(page):
    """Rows that follow a blank line must begin a table: their second line is its rule."""
    blocks = re.split(r"\n\s*\n", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    tables = [block.strip().splitlines() for block in blocks if block.lstrip().startswith("|")]
    assert [rows[0] for rows in tables if len(rows) < 2 or not re.fullmatch(r"\s*\|[\s:|-]+", rows[1])] == []


def test_minutes_of_experiments_are_those_of_the_list():
    page = (ROOT / "docs" / "theory-to-code.md").read_text(encoding="utf-8")
    experiments = {one["name"]: one["minutes"] for one in describe_experiments()}
    rows = re.findall(r"\| `([a-z0-9-]+)(?: --[^`|]*)?` \| ([^|]+) \|", page)
    stated = [(name, minutes.strip()) for name, minutes in rows if name in experiments]
    assert len(stated) > 20
    expected = [(name, experiments[name]) for name, _ in stated]
    assert [(name, 1 if minutes == "< 1" else int(minutes)) for name, minutes in stated] == expected


def test_every_heading_of_the_reference_has_an_entry():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert re.findall(r"^## .+\n\s*(?=## )", page, flags=re.MULTILINE) == []


def test_the_arrows_of_the_path_of_the_data_are_rooms():
    picture = (ROOT / "docs" / "assets" / "path.svg").read_text(encoding="utf-8")
    arrows = re.findall(r">(\w+)</text>", picture[picture.index("monospace") :])
    assert arrows
    assert [name for name in arrows if not (ROOT / "src" / "attomaton" / name).is_dir()] == []


def test_tutorials_name_doors_only():
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        names = re.findall(r"`(attomaton(?:\.\w+)+)", page.read_text(encoding="utf-8"))
        assert [name for name in names if name.count(".") > 2 or not _imports(name)] == [], page.name


def test_the_readme_says_which_words_are_in_the_component(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_inside("example", "story.txt", cwd=tmp_path)
    run = at.learn("story.txt", window=8)
    vocabulary = run.vocabulary.tokens
    rows = [row for row in run.components.edges.rows.to_pylist() if vocabulary[row["query"]] == "the"]
    inside = {"wind", "lamp", "boat", "girl", "bird", "keeper", "bread"}
    pairs = {(vocabulary[row["winner"]], vocabulary[row["loser"]]) for row in rows}
    above = {winner for winner, loser in pairs if loser in inside and winner not in inside}
    below = {loser for winner, loser in pairs if winner in inside and loser not in inside}
    words = {word for pair in pairs for word in pair}
    assert (above, words - inside - below) == ({"sea"}, {"sea"})
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "seven nouns of this story beat one another in circles: they form one *component*" in text
    assert "above all other words except *sea*" in text


TABLES = {
    "games.pgn": '[White "Ann"]\n[Black "Bob"]\n[Result "1-0"]\n\n'
    '[White "Bob"]\n[Black "Ann"]\n[Result "1-0"]\n',
    "battles.jsonl": '{"model_a": "x", "model_b": "y", "winner": "model_a"}\n'
    '{"model_a": "x", "model_b": "y", "winner": "tie (bothbad)"}\n',
    "league.csv": "home,away,home_goals,away_goals\nAjax,PSV,2,1\nPSV,Ajax,0,0\n",
    "survey.csv": "id,Price,Quality,Brand\n1,1,2,3\n2,2,1,\n",
}


def test_the_tables_of_the_readme_are_rated_as_it_says(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        shlex.split(command) for command in re.findall(r"\| `attomaton (choices .*?)` (?:\||or)", text)
    ]
    assert [command[1] for command in commands] == list(TABLES)
    for command in commands:
        (tmp_path / command[1]).write_text(TABLES[command[1]], encoding="utf-8")
        board = run_inside(*command, "--json", cwd=tmp_path)
        assert json.loads(board.stdout)["items"] == (3 if command[1] == "survey.csv" else 2), board.stderr


@pytest.mark.slow  # choix iterates over 42,000 battles
def test_what_the_readme_says_of_choix_and_scikit_learn():
    battles = simulate_arena().to_pandas()
    battles = battles[battles.winner.isin(["model_a", "model_b"])]
    models = sorted({*battles.model_a, *battles.model_b})
    first, second = (battles[side].map(models.index).to_numpy() for side in ("model_a", "model_b"))
    won = (battles.winner == "model_a").to_numpy()
    pairs = np.where(
        won[:, None], np.column_stack([first, second]), np.column_stack([second, first])
    ).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns on the way to the error
        with pytest.raises(RuntimeError, match="Did not converge"):
            choix.ilsr_pairwise(len(models), pairs)
    assert choix.opt_pairwise(len(models), pairs)[models.index("lotus")] == pytest.approx(-13.2, abs=0.05)
    design = np.zeros((len(pairs), len(models)))
    design[np.arange(len(pairs)), first], design[np.arange(len(pairs)), second] = 1.0, -1.0
    fit = LogisticRegression(fit_intercept=False).fit(design, won)
    assert fit.coef_[0][models.index("lotus")] == pytest.approx(-2.6, abs=0.05)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`ilsr_pairwise` raises an error" in text
    assert "returns −13.2 without a warning" in text
    assert "`LogisticRegression()` returns −2.6" in text


def test_get_started_lists_every_extra_of_a_user():
    page = (ROOT / "docs" / "get-started.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.M))))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"].keys() - {"bench", "dev", "docs"} == listed
