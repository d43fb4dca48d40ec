"""What docs/security.md promises: nothing is unpickled or evaluated, and no command asks the network."""

import ast
import re
import socket
from pathlib import Path

import pytest

from tests.cli.inside import run_inside
from tests.e2e.pages import ROOT, prepare_inputs
from tests.heads.audit.small import write_model

SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
CALLS = {"eval", "exec", "torch.load", "joblib.load", "numpy.load", "np.load", "os.system"}


def _dotted(node):
    """``a.b.c`` of an expression, or an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _breaches(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name for name in names if name.split(".")[0] in MODULES or name in CALLS)
        elif isinstance(node, ast.Call):
            called = _dotted(node.func)
            given = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            if called in CALLS or (
                called.split(".")[-1] in ("__import__", "import_module") and given in MODULES
            ):
                yield called
            yield from (word.arg for word in node.keywords if word.arg in ("allow_pickle", "shell"))


def test_nothing_is_unpickled_or_evaluated():
    found = {path.name: list(_breaches(ast.parse(path.read_text(encoding="utf-8")))) for path in SOURCES}
    assert {name: breaches for name, breaches in found.items() if breaches} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "eval(x)",
        "torch.load(x)",
        "f(x, allow_pickle=True)",
        "from torch import load",
        "from os import system",
        "__import__('pickle')",
        "import_module('dill')",
    ],
)
def test_the_check_would_find_it(code):
    assert len(list(_breaches(ast.parse(code)))) == 1


def test_no_command_asks_the_network(tmp_path, monkeypatch):
    prepare_inputs(tmp_path)
    write_model(tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError(f"a connection was opened: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    commands = [
        "learn story.txt --window 8 --out run",
        "learn shards --window 8 --engine duckdb --out other",
        "explain run the",
        "export run --csv tables --graphml run.graphml",
        "report run --out report.html",
        "scan-snap story.txt --window 8",
        "tokenize data/one.jsonl.zst --tokenizer gpt2/tokenizer.json --out tokens",
        "train story.txt --window 8 --steps 20 --out run",
        "diff run run",
        "doctor",
        "heads model story.jsonl --window 8 --random 0",
    ]
    for command in commands:
        result = run_inside(*command.split(), "--json", cwd=tmp_path)
        assert result.returncode == 0, (command, result.stderr)


def test_the_page_says_when_a_model_is_fetched():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    [downloads] = [part for part in page.split("\n\n") if part.startswith("**Downloads.**")]
    assert "--revision" in downloads
    assert "heads/reading/test_hub.py" in downloads


def test_duckdb_fetches_no_extensions(tmp_path):
    from attomaton.engines.merging import Merger

    with Merger(tmp_path / "spill", 1 << 28, 1, lambda *_: None) as merger:
        rows = merger._connection.execute(
            "select current_setting('autoinstall_known_extensions'), "
            "current_setting('autoload_known_extensions')"
        ).fetchall()
    assert rows == [(False, False)]


def test_the_tests_that_the_page_names_exist():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+/test_\w+\.py)`", page)
    assert len(named) > 8
    assert [name for name in named if not Path(ROOT, "tests", name).is_file()] == []
