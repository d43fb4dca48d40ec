"""What the house promises those who build in it: no circles, public names."""

import inspect
import subprocess
import sys

import pytest

import attomaton as at
from tests.house.imports import SOURCE, find_circles, import_graph


def test_no_file_imports_itself_through_others():
    assert find_circles(import_graph()) == []


def test_a_circle_is_found():
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_the_library_and_its_examples_do_without_the_experiments():
    texts = {path: path.read_text(encoding="utf-8") for path in (SOURCE / "attomaton").rglob("*.py")}
    found = [path.relative_to(SOURCE) for path, text in texts.items() if "attomaton_experiments" in text]
    assert [path.as_posix() for path in found] == ["attomaton/cli/reproduce.py"]


@pytest.mark.parametrize(
    "name", ["AttentionLimit", "AttentionModel", "GradientDescent", "Watch", "train", "verify"]
)
def test_names_that_are_loaded_late_are_seen(name):
    assert name in at.__all__
    assert name in dir(at)


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
