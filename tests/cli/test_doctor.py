"""``attomaton doctor``: what it finds, what it says of what is missing, and that it loads nothing heavy."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys

import pytest

from attomaton.cli import installation
from attomaton.cli.installation import MODULES, find_installation
from tests.cli.test_commands import attomaton

REQUIRES = ["numpy>=2.0", "torch>=2.10; extra == 'train'", "scikit-learn>=1.6 ; extra == 'sklearn'"]


def test_it_prints_tables_and_ends_with_0(tmp_path):
    printed = attomaton("doctor", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert printed.stderr == ""
    for text in ("(core)", "numpy", "Java", "processors", "not tested on a real", "memory", "data folder"):
        assert text in printed.stdout


def test_json_is_the_record(tmp_path):
    record = json.loads(attomaton("doctor", "--json", cwd=tmp_path).stdout)
    names = {package["name"] for package in record["packages"]}
    assert {"numpy", "scipy", "pyarrow", "typer", "rich", "safetensors"} == names
    assert all(package["state"] == "ready" for package in record["packages"])
    assert {"train", "spark", "hf", "report"} <= {extra["name"] for extra in record["extras"]}
    assert not {"all", "dev"} & {extra["name"] for extra in record["extras"]}


def test_nothing_heavy_is_loaded():
    code = (
        "import sys; from attomaton.cli.installation import find_installation; find_installation();"
        "print([n for n in ('torch', 'duckdb', 'pyspark', 'matplotlib') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_a_plain_install_names_the_command_for_each_extra(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: REQUIRES)
    versions = {"numpy": "2.4.6"}

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(installation.shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("ATTOMATON_DATA", "/no/such/place")
    found = find_installation()
    assert {extra.name: extra.install for extra in found.extras} == {
        "sklearn": "pip install --upgrade 'attomaton[sklearn]'",
        "train": "pip install --upgrade 'attomaton[train]'",
    }
    assert {package.state for extra in found.extras for package in extra.packages} == {"missing"}
    assert [package.name for package in found.packages] == ["numpy"]
    assert "JAVA_HOME" in found.java.install
    assert "apt install chromium" in found.browser.install
    assert not found.data.usable
    assert "ATTOMATON_DATA" in found.data.remedy


def test_an_installed_package_with_another_import_name_is_ready(monkeypatch):
    requires = ["beautifulsoup4>=4.12; extra == 'docs'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: requires)
    monkeypatch.setattr(importlib.metadata, "version", {"beautifulsoup4": "4.15.0"}.__getitem__)
    (package,) = find_installation().extras[0].packages
    assert (package.version, package.state) == ("4.15.0", "ready")


def test_every_required_package_that_is_installed_has_its_module():
    installation_here = find_installation()
    packages = [
        *installation_here.packages,
        *(p for extra in installation_here.extras for p in extra.packages),
    ]
    names = [package.name for package in packages if package.version is not None]
    modules = {name: MODULES.get(name, name.replace("-", "_")) for name in names}
    assert [name for name, module in modules.items() if importlib.util.find_spec(module) is None] == []


def test_an_old_package_and_a_broken_one_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["crooked>=1; extra == 'x'", "numpy>=99"])
    versions = {"crooked": "1.0.0", "numpy": "2.4.6"}
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
    (tmp_path / "crooked.py").write_text("raise OSError('libgone.so: not found\\nsecond line')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_installation().extras[0].packages[0].state == "ready"  # looked for, not loaded
    found = find_installation(probe=True)
    assert found.packages[0].state == "too old"
    assert found.extras[0].packages[0].state == "broken: OSError: libgone.so: not found"
    assert found.extras[0].install is not None


@pytest.mark.parametrize(
    ("version", "wanted", "older"),
    [
        ("2.9.1", ">=2.10", True),
        ("2.10.0+cpu", ">=2.10", False),
        ("2", ">=2.0", False),
        ("3.0rc1", ">=3", False),
        ("1.0", "<3", False),
    ],
)
def test_versions_are_compared_by_number(version, wanted, older):
    assert installation._is_older(version, wanted) is older
