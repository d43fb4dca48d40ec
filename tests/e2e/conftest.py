"""The wheel, an environment that holds it and what it requires, and axe; made once per process."""

import shutil
import subprocess
import tarfile

import pytest

from tests.e2e.environments import Environment, released


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The sdist and the wheel."""
    return released(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(dist):
    return next(file for file in dist if file.suffix == ".whl")


@pytest.fixture(scope="session")
def sdist(dist):
    return next(file for file in dist if file.suffix == ".gz")


@pytest.fixture(scope="session")
def plain(wheel, tmp_path_factory):
    """What ``pip install attomaton`` gives, no extras."""
    environment = Environment(tmp_path_factory.mktemp("plain"))
    environment.install(wheel)
    return environment


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core, from npm."""
    place = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    fetch = [npm, "pack", "axe-core@4", "--silent"]
    if not npm or subprocess.run(fetch, cwd=place, capture_output=True, check=False).returncode:
        pytest.skip("axe-core cannot be fetched from npm (listed in tests/SKIPS.md)")
    with tarfile.open(next(place.glob("axe-core-*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()
