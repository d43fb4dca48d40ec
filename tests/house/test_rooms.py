"""What the house promises those who build in it: no circles, small rooms, short functions, public names."""

import ast
import inspect
import subprocess
import sys

import pytest

import attomaton as at
from tests.house.imports import SOURCE, find_circles, import_graph, module_names

LARGEST_ROOM = 4_000
LONGEST_FUNCTION = 40
MOST_PARAMETERS = 8


def test_no_file_imports_itself_through_others():
    assert find_circles(import_graph()) == []


def test_a_circle_is_found():
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_room_is_too_large():
    sizes = {
        room.name: sum(len(path.read_text().splitlines()) for path in room.rglob("*.py"))
        for room in SOURCE.iterdir()
        if room.is_dir()
    }
    assert {room: size for room, size in sizes.items() if size > LARGEST_ROOM} == {}


def functions():
    for name, path in module_names().items():
        if not name.startswith("attomaton.cli"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    yield f"{name}.{node.name}", node


def test_no_function_is_too_long():
    long = {}
    for name, node in functions():
        lines = node.end_lineno - node.lineno + 1
        if ast.get_docstring(node) is not None:
            lines -= node.body[0].end_lineno - node.body[0].lineno + 1
        if lines > LONGEST_FUNCTION:
            long[name] = lines
    assert set(long) <= {"attomaton.pipeline.learn"}, long


def test_no_function_takes_too_many_parameters():
    many = {}
    for name, node in functions():
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        own = [argument for argument in given if argument.arg not in ("self", "cls")]
        if len(own) > MOST_PARAMETERS:
            many[name] = len(own)
    assert set(many) <= {"attomaton.pipeline.learn"}, many


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
