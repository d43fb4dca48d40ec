"""The README as a new user meets it: its commands from an installed wheel, its Python as written."""

import re
import shlex

from tests.e2e.environments import ROOT

EXTRAS = {"scale.md", "train-and-verify.md", "figures.md"}
"""Pages whose Python needs an extra, or shards: test_pages.py runs them, and all others too."""
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_quick_start_runs_from_an_installed_wheel(plain):
    commands = [line[2:] for line in blocks(README, "console")[0].splitlines() if line.startswith("$ ")]
    assert commands[0] == "pip install attomaton"
    assert len(commands) <= 5
    printed = ""
    for command in commands[1:]:
        result = plain.run(*shlex.split(command))
        assert result.returncode == 0, (command, result.stderr)
        printed = result.stdout
    shown = blocks(README, "text")[0]
    assert [line.rstrip() for line in shown.splitlines()] == [
        line.rstrip() for line in printed.splitlines()[: len(shown.splitlines())]
    ]


def test_the_python_of_readme_and_docs_runs(plain):
    docs = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in EXTRAS]
    assert plain.run("attomaton", "example", "story.txt").returncode == 0
    for page in [ROOT / "README.md", *docs]:
        code = "\n".join(blocks(page.read_text(encoding="utf-8"), "python"))
        if code:
            plain.python(code)
