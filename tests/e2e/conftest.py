"""The wheel, and an environment that holds it and what it requires; made once for all tests of a process."""

import pytest

from tests.e2e.environments import Environment, build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"), kinds=("--wheel",))[0]


@pytest.fixture(scope="session")
def plain(wheel, tmp_path_factory):
    """What ``pip install attomaton`` gives, no extras."""
    environment = Environment(tmp_path_factory.mktemp("plain"))
    environment.install(wheel)
    return environment
