"""The README as a new user meets it: its commands from an installed wheel, its Python as written."""

import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = {"scale.md", "train-and-verify.md", "figures.md"}
"""Pages whose Python needs an extra, or shards: test_pages.py runs them, and all others too."""
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A clean environment with nothing but the wheel and what it requires."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place / "venv", with_pip=True)
    commands = [line[2:] for line in blocks(README, "console")[0].splitlines() if line.startswith("$ ")]
    assert commands[0] == "pip install attomaton"
    assert len(commands) <= 5
    bin_folder = place / "venv" / "bin"
    subprocess.run([bin_folder / "pip", "install", "--quiet", str(wheel)], check=True, capture_output=True)
    return place, bin_folder, commands[1:]


@pytest.mark.xdist_group("readme")
def test_the_quick_start_runs_from_an_installed_wheel(installed):
    place, bin_folder, commands = installed
    printed = ""
    for command in commands:
        program, *arguments = shlex.split(command)
        result = subprocess.run(
            [bin_folder / program, *arguments], cwd=place, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, (command, result.stderr)
        printed = result.stdout
    shown = blocks(README, "text")[0]
    assert [line.rstrip() for line in shown.splitlines()] == [
        line.rstrip() for line in printed.splitlines()[: len(shown.splitlines())]
    ]


@pytest.mark.xdist_group("readme")
def test_the_python_of_readme_and_docs_runs(installed):
    place, bin_folder, _ = installed
    docs = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in EXTRAS]
    pages = [README, *(page.read_text(encoding="utf-8") for page in docs)]
    subprocess.run(
        [bin_folder / "attomaton", "example", "story.txt"], cwd=place, check=True, capture_output=True
    )
    for page in pages:
        code = "\n".join(blocks(page, "python"))
        if code:
            result = subprocess.run(
                [bin_folder / "python", "-W", "error", "-c", code],
                cwd=place,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stderr
