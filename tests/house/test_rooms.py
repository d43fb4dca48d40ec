"""What the house promises those who build in it: fourteen rooms, a door each, no circles, public names."""

import ast
import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import attomaton as at
from tests.house.imports import SOURCE, find_circles, import_graph, module_names

DOORS = ("base", "corpora", "graphs", "engines", "solvers", "trajectory", "automaton", "choices", "theories")
DOORS += ("training", "claims", "heads", "report")
ROOMS = (*DOORS, "cli")


def test_no_file_imports_itself_through_others():
    assert find_circles(import_graph()) == []


def test_a_circle_is_found():
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_the_library_and_its_examples_do_without_the_experiments():
    texts = {path: path.read_text(encoding="utf-8") for path in (SOURCE / "attomaton").rglob("*.py")}
    found = [path.relative_to(SOURCE) for path, text in texts.items() if "attomaton_experiments" in text]
    assert [path.as_posix() for path in found] == ["attomaton/cli/reproduce.py"]


def test_fourteen_rooms_and_nothing_beside_them():
    beside = {path.name for path in (SOURCE / "attomaton").iterdir() if path.name != "__pycache__"}
    assert beside == {*ROOMS, "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("room", [f"attomaton.{name}" for name in DOORS])
def test_a_door_leads_to_what_it_names(room):
    door = importlib.import_module(room)
    assert door.__all__
    assert all(hasattr(door, name) and name in dir(door) for name in door.__all__)
    files = {path.stem for path in Path(door.__file__).parent.iterdir()}
    shadowed = [
        name for name in files.intersection(door.__all__) if not inspect.ismodule(getattr(door, name))
    ]
    assert shadowed == []  # importing the file would put it in the place of the name


@pytest.mark.parametrize("name", ["AttentionLimit", "AttentionModel", "GradientDescent", "train", "verify"])
def test_names_that_are_loaded_late_are_seen(name):
    assert name in at.__all__
    assert name in dir(at)


def test_no_class_name_occurs_twice():
    names = [
        node.name
        for path in module_names().values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def imports_in(text: str) -> Iterator[str]:
    """``attomaton.room.Name`` for all that a piece of text imports from below ``attomaton``."""
    for module, names in re.findall(r"from (attomaton\.[\w.]+) import (\([^)]*\)|[\w ,]+)", text):
        for name in names.strip("()\n ").split(","):
            if name.strip():
                yield f"{module}.{name.split()[0]}"


def code_of(path: Path) -> str:
    """A file's text; of a notebook, that of its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def is_public(name: str) -> bool:
    room, _, last = name.rpartition(".")
    if room == "attomaton.corpora.synthetic":
        return True
    return room in PUBLIC and last in importlib.import_module(room).__all__


PUBLIC = [f"attomaton.{name}" for name in DOORS]
PAGES = ["README.md", *(f"docs/{pattern}" for pattern in ("*.md", "tutorials/*.ipynb"))]
ROOT = SOURCE.parent


def test_pages_and_tutorials_use_doors_only():
    files = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    inside = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in imports_in(code_of(path))
        if not is_public(name) and not name.startswith("attomaton.base.native.")
    }
    assert inside == set()


def test_the_architecture_page_shows_every_file_and_the_imports_between_rooms():
    script = ROOT / "docs" / "pictures" / "rooms.py"
    rooms = runpy.run_path(str(script))
    graph = rooms["room_graph"]()
    assert set(graph) == set(ROOMS)
    assert rooms["find_rising"](graph) == []
    assert rooms["PICTURE"].read_text(encoding="utf-8") == rooms["draw"](graph), f"run python {script}"
    assert rooms["PAGE"].read_text(encoding="utf-8") == rooms["make_page"](), f"run python {script}"


def test_verify_is_a_function_with_a_signature():
    assert inspect.isfunction(at.verify)
    assert list(inspect.signature(at.verify).parameters) == ["automata", "trace"]
    assert at.verify.__doc__


PLAIN = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in ("torch", "sklearn") else find(name, *more)
from attomaton import *
import attomaton
assert "learn" in dir() and "train" not in dir() and "train" in dir(attomaton)
"""


def test_a_plain_install_can_import_everything_it_has():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
