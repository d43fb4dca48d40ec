"""Three first hours (a student, an engineer, a choice modeller) from the wheel, in a clean environment.

In the gate the same scripts run in the environment of the tests (``tests/first_touch``).
"""

import pytest

from tests.e2e.environments import ROOT, Environment


@pytest.fixture(scope="module")
def complete(wheel, tmp_path_factory):
    """What ``pip install 'attomaton[train,report,frames]'`` gives."""
    environment = Environment(tmp_path_factory.mktemp("complete"))
    environment.install("torch==2.13.0")  # the build for processors, before anything that depends on it
    environment.install(f"{wheel}[train,report,frames]")
    return environment


@pytest.mark.slow
@pytest.mark.parametrize("who", ["student", "engineer", "choice_modeller"])
def test_a_first_hour_from_the_wheel(complete, who, tmp_path):
    ended = complete.run("python", "-m", f"tests.first_touch.{who}", tmp_path, PYTHONPATH=ROOT)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert "Traceback" not in ended.stdout + ended.stderr
    found = complete.run("python", "-c", "import attomaton; print(attomaton.__file__)")
    assert str(complete.folder) in found.stdout
