"""The files of a release: the same bytes from the same tree, and all that belongs in them."""

import email
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

import attomaton
from tests.e2e.environments import ROOT, Environment, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"attomaton-{attomaton.__version__}"
in_a_clone = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="not a clone: git lists the tree (listed in tests/SKIPS.md)"
)


def digests(files):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def list_tree():
    """What git would commit now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.rstrip("\0").split("\0") if (ROOT / name).exists()}


def copy_tree(place):
    """The tree with other times and rights, and with rubbish that git ignores."""
    for name in list_tree():
        source, copy = ROOT / name, place / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o700 if os.access(source, os.X_OK) else 0o600)
        os.utime(copy, (1_000_000_000, 1_000_000_000))
    for rubbish in ("base/native.cpython-311-x86_64-linux-gnu.so", "__pycache__/errors.cpython-311.pyc"):
        file = place / "src/attomaton" / rubbish
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"not to be shipped")
    return place


@pytest.mark.slow  # builds the wheel several times
@in_a_clone
def test_two_builds_are_the_same_bytes(dist, tmp_path):
    copy = copy_tree(tmp_path / "elsewhere" / "attomaton")
    before = os.umask(0o077)
    try:
        again = build(tmp_path / "second", copy, TZ="Pacific/Kiritimati", LC_ALL="C", PYTHONHASHSEED="7")
    finally:
        os.umask(before)
    assert digests(again) == digests(dist)


@pytest.mark.slow  # builds the wheel again
def test_the_wheel_of_the_unpacked_sdist_is_that_of_the_tree(dist, tmp_path):
    sdist, from_sdist = split(dist)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = build(tmp_path / "unpacked", tmp_path / NAME, kinds=("--wheel",))
    tree = build(tmp_path / "tree", kinds=("--wheel",))
    assert digests(unpacked) == digests(tree) == digests([from_sdist])


@pytest.mark.slow  # builds the wheel again
def test_the_date_of_the_files_can_be_set(dist, tmp_path):
    dated = build(tmp_path, SOURCE_DATE_EPOCH="1700000000")
    assert digests(dated) != digests(dist)
    with zipfile.ZipFile(split(dated)[1]) as archive:
        assert {info.date_time[:3] for info in archive.infolist()} == {(2023, 11, 14)}


@pytest.mark.slow  # compiles the kernels
def test_a_compiler_alone_builds_from_the_sdist(dist, tmp_path):
    """pip brings all else; without a compiler it says what is missing."""
    environment = Environment(tmp_path)
    without = environment.run("pip", "install", split(dist)[0], CXX="/nowhere/c++", CMAKE_GENERATOR="Ninja")
    assert without.returncode != 0
    assert "a C++17 compiler" in without.stdout + without.stderr
    environment.install(split(dist)[0])
    assert environment.python("from attomaton.base import native; print(native.__doc__[:7])") == "Kernels\n"


def split(files):
    """The sdist and the wheel."""
    sdist, wheel = sorted(files, key=lambda file: file.suffix)
    assert sdist.name == f"{NAME}.tar.gz"
    assert re.fullmatch(rf"{re.escape(NAME)}-cp\d+-(cp\d+t?|abi3)-\w+\.whl", wheel.name)
    return sdist, wheel


@in_a_clone
def test_the_sdist_holds_all_that_git_does(dist):
    with tarfile.open(split(dist)[0]) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert names - {"PKG-INFO"} == list_tree()


def test_the_wheel_holds_the_package_and_nothing_else(dist):
    with zipfile.ZipFile(split(dist)[1]) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "attomaton",
        "attomaton_experiments",
        f"{NAME}.dist-info",
    }
    assert "attomaton/py.typed" in names
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if re.search(r"__pycache__|\.py[co]$|\.[ch]pp$|/tests?/", name)]
    assert len([name for name in names if re.fullmatch(r"attomaton/base/native\..*(so|pyd)", name)]) == 1


def test_twine_accepts_both(dist):
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("PASSED") == 2


def test_metadata_is_whole(dist):
    with zipfile.ZipFile(split(dist)[1]) as archive:
        told = email.message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"))
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert told["Description-Content-Type"] == "text/markdown"
    assert set(told.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert told["Requires-Python"] == ">=3.11"
    for field in ("Summary", "Author", "Keywords", "Classifier"):
        assert told[field], field


def test_the_citation_and_the_changelog_speak_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^(version|date-released): \"?([\w.-]+)\"?$", citation, flags=re.MULTILINE))
    headings = re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)
    first, *rest = [re.fullmatch(r"(\d+\.\d+\.\d+) \((.*)\)", heading).groups() for heading in headings]
    assert first[0] == attomaton.__version__
    dates = dict([first, *rest] if first[1] != "unreleased" else rest)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for date in dates.values())
    assert list(dates.values()) == sorted(dates.values(), reverse=True)
    assert cited["version"] == attomaton.__version__
    # a version that is not released yet has no date, neither here nor there
    assert cited.get("date-released") == dates.get(attomaton.__version__)


def test_the_readme_has_no_link_into_the_tree_once_the_project_has_an_address():
    """On a package index such a link leads nowhere; test_site.py follows them until then."""
    targets = re.findall(r"\]\(([^)\s]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert targets
    inside = [target for target in targets if not target.startswith(("https://", "#"))]
    assert not (inside and "urls" in PROJECT)
