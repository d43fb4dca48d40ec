"""The docs speak of things that exist."""

import pkgutil
import re
import runpy
from pathlib import Path

import griffe
import pytest

from attomaton.claims.mechanics import CLAIMS
from attomaton_experiments.settings import ALL, find_experiments, list_experiments

ROOT = Path(__file__).parents[2]


def test_every_test_named_in_theory_to_code_exists():
    page = (ROOT / "docs" / "theory-to-code.md").read_text(encoding="utf-8")
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


def test_every_picture_is_on_the_page_of_figures_with_its_command():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
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
    assert [claim.name for claim in CLAIMS if f"| {claim.name} |" not in page] == []


def test_every_experiment_with_a_figure_is_on_its_page():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
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
