"""Tutorials run as they are written, print what they show, and stand on the site with every link alive."""

import importlib.util
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from tests.e2e.built import Links
from tests.e2e.environments import TORCH, Environment
from tests.sizes import some

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
HOSTED = ("paper-in-ten-minutes", "which-heads-of-smollm2", "choice-models")
"""One tutorial of each path on the landing page, which installs attomaton and fetches its data by itself."""

PATHS = ("/tmp", "/work", "/root", "/home", "/Users", "C:\\")  # noqa: S108
MOST_SECONDS = 600
MOST_PICTURE = 80_000  # bytes of base64, 60 kB of PNG
MOST_PAGE = 500_000


def load(name):
    """A module beside the tutorials, which is no part of the package."""
    place = importlib.util.spec_from_file_location(f"tutorials_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tutorials():
    return load("execute")


def need_data(tutorials, name):
    if (
        tutorials.needs_data(tutorials.read_tutorial(FOLDER / f"{name}.ipynb"))
        and not tutorials.DATA.is_dir()
    ):
        pytest.skip("no real corpora here: set ATTOMATON_DATA (listed in tests/SKIPS.md)")
    if "smollm2" in name and not Path(os.environ.get("ATTOMATON_SMOLLM2", "")).is_file():
        pytest.skip("no SmolLM2 here: set ATTOMATON_SMOLLM2 (listed in tests/SKIPS.md)")


@pytest.mark.costly("a notebook in a kernel of its own")
@pytest.mark.parametrize("name", some(NAMES, {*NAMES} - {"which-heads-of-smollm2"}))  # that takes minutes
def test_it_prints_what_it_shows(tutorials, name):
    need_data(tutorials, name)
    path = FOLDER / f"{name}.ipynb"
    shown, printed = tutorials.read_tutorial(path), tutorials.run_tutorial(path)
    for cell, old, new in zip(
        shown.cells, tutorials.texts_of(shown), tutorials.texts_of(printed), strict=True
    ):
        assert new == old, f"{name}, cell {cell.id}; if it should, run docs/tutorials/execute.py {name}"
    assert not any(output.get("name") == "stderr" for cell in printed.cells for output in outputs(cell))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_as_execute_leaves_it(tutorials, name, tmp_path):
    path = FOLDER / f"{name}.ipynb"
    written = path.read_text(encoding="utf-8")
    notebook = tutorials.read_tutorial(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any(output for cell in code for output in outputs(cell))
    again = tmp_path / path.name
    tutorials.write_tutorial(tutorials.clean(notebook, name), again)
    assert again.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("name", NAMES)
def test_outputs_hold_texts_that_every_machine_shows(tutorials, name):
    for cell in tutorials.read_tutorial(FOLDER / f"{name}.ipynb").cells:
        for output in outputs(cell):
            assert output.get("name") != "stderr", cell.id
            for kind, shown in {"text/plain": output.get("text", ""), **output.get("data", {})}.items():
                if kind.startswith("image/"):
                    assert kind == "image/png", cell.id
                    assert len(shown) <= MOST_PICTURE, cell.id
                else:
                    assert not any(path in shown for path in PATHS), cell.id
                    assert not re.search(r"\b0x[0-9a-f]{6,}", shown), cell.id


@pytest.mark.parametrize("name", NAMES)
def test_it_has_a_title_and_says_where_to_go_next(tutorials, name):
    cells = tutorials.read_tutorial(FOLDER / f"{name}.ipynb").cells
    assert cells[0].cell_type == cells[-1].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    assert re.search(r"^## Where to go next$.*\]\(", cells[-1].source, re.MULTILINE | re.DOTALL)


def test_one_tutorial_of_each_path_installs_attomaton(tutorials):
    sources = {
        name: [cell.source for cell in tutorials.read_tutorial(FOLDER / f"{name}.ipynb").cells]
        for name in NAMES
    }
    installing = {name for name, cells in sources.items() if "%pip install" in "".join(cells)}
    assert installing == set(HOSTED)
    for name in HOSTED:
        assert 'if find_spec("attomaton") is None:\n    %pip install --quiet "attomaton[' in sources[name][1]
        assert "../shared" not in "".join(sources[name])


@pytest.mark.slow  # a fresh environment and minutes of a notebook
@pytest.mark.parametrize("name", HOSTED)
def test_it_runs_where_nothing_but_jupyter_is_installed(tutorials, wheel, tmp_path, name):
    """From an empty folder; pip, which the notebook calls, finds the wheel of this tree beside the index."""
    need_data(tutorials, name)
    environment = Environment(tmp_path)
    environment.install("nbclient", "ipykernel", TORCH)
    (tmp_path / f"{name}.ipynb").write_bytes((FOLDER / f"{name}.ipynb").read_bytes())
    own = {"PIP_FIND_LINKS": str(wheel.parent), "ATTOMATON_DATA": str(tutorials.DATA)}
    result = environment.run("jupyter", "execute", f"{name}.ipynb", "--timeout=1200", **own)
    assert result.returncode == 0, result.stderr[-3000:]


def test_a_changed_output_is_noticed_and_a_volatile_one_is_not(tutorials, tmp_path):
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [
        new_code_cell("import os; print(os.getcwd() + '/corpus.txt')"),
        new_code_cell("import time; print(time.perf_counter())", metadata={"tags": ["volatile"]}),
        new_code_cell("1 + 1"),
    ]
    path = tmp_path / "made.ipynb"
    tutorials.write_tutorial(new_notebook(cells=cells), path)
    first, second = tutorials.run_tutorial(path), tutorials.run_tutorial(path)
    assert tutorials.texts_of(first) == tutorials.texts_of(second) == [["corpus.txt"], [], ["2"]]
    assert first.cells[1].outputs != second.cells[1].outputs
    second.cells[2].outputs[0].data["text/plain"] = "3"
    assert tutorials.texts_of(first) != tutorials.texts_of(second)


@pytest.mark.slow
@pytest.mark.timing
def test_all_together_take_less_than_ten_minutes(tutorials):
    start = time.perf_counter()
    for name in NAMES:
        tutorials.run_tutorial(FOLDER / f"{name}.ipynb")
    assert time.perf_counter() - start < MOST_SECONDS


def outputs(cell):
    return cell.get("outputs", [])


def test_links_become_addresses_and_dead_ones_are_warned_of(caplog):
    from mkdocs.structure.files import File, Files

    def source(path):
        return File(path, "docs", "site", use_directory_urls=True)

    page = SimpleNamespace(file=source("tutorials/made.ipynb"))
    files = Files([source("theory.md"), page.file])
    cell = "<div class='jupyter-wrapper'><div class='jp-MarkdownCell'>{}</div></div>"
    text = cell.format(
        "<a href='../theory.md#soft'>x</a><a href='https://a.b'>y</a><a href='../gone.md'>z</a>"
    )
    made = load("pages").on_page_content(text, page=page, files=files)
    leads = Links(made).leads
    assert leads[1:] == ["https://a.b", "../gone.md"]
    assert urlsplit(leads[0])[2:] == ("../theory/", "", "soft")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "../gone.md" in caplog.text


def test_a_hosted_notebook_is_offered(monkeypatch):
    from mkdocs.structure.files import File, Files

    page = SimpleNamespace(file=File("tutorials/made.ipynb", "docs", "site", use_directory_urls=False))
    cell = "<div class='jupyter-wrapper'><h1>Made</h1><p>{}</p></div>"

    def leads(text):
        return Links(load("pages").on_page_content(cell.format(text), page=page, files=Files([]))).leads

    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert leads("import attomaton") == []
    assert leads("%pip install attomaton") == ["made.ipynb"]
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/attomaton")
    assert leads("%pip install attomaton")[1:] == [
        "https://colab.research.google.com/github/somebody/attomaton/blob/main/docs/tutorials/made.ipynb"
    ]
