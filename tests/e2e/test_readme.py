"""The README as a new user meets it: its commands from an installed wheel, its Python as written."""

import json
import re
import shlex

import pytest

from tests.e2e.environments import ROOT

EXTRAS = {"beginning.md", "choices.md", "figures.md", "heads.md", "scale.md", "train-and-verify.md"}
"""Pages whose Python needs an extra, or shards: test_pages.py runs them, and all others too."""
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.slow  # a second environment; test_pages.py runs README in this one
def test_the_quick_start_runs_from_an_installed_wheel(plain):
    commands = [line[2:] for line in blocks(README, "console")[1].splitlines() if line.startswith("$ ")]
    assert len(commands) <= 4
    printed = ""
    for command in commands:
        result = plain.run(*shlex.split(command))
        assert result.returncode == 0, (command, result.stderr)
        printed = result.stdout
    shown = blocks(README, "text")[0]
    assert [line.rstrip() for line in shown.splitlines()] == [
        line.rstrip() for line in printed.splitlines()[: len(shown.splitlines())]
    ]


RUN_ALL = """
import json, sys
for name, code in json.loads(sys.argv[1]).items():
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
"""


@pytest.mark.slow  # test_pages.py runs the same blocks in this environment
def test_the_python_of_readme_and_docs_runs(plain):
    """One program runs all pages, each with names of its own."""
    docs = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in EXTRAS]
    assert plain.run("attomaton", "example", "story.txt").returncode == 0
    pages = {page.name: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *docs]}
    code = {name: "\n".join(blocks(text, "python")) for name, text in pages.items()}
    assert sum(map(bool, code.values())) > 5
    plain.python(RUN_ALL, json.dumps(code))
