"""The files of ``.github`` call ``.ci/run`` and the first commands, refuse a wrong tag, and may only read."""

import os
import re
import subprocess
import tomllib

import pytest
import yaml

from tests.e2e.environments import ROOT
from tests.e2e.test_readme import README, blocks

GITHUB = ROOT / ".github"
GATE = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ACTION = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
READING = {"contents": "read"}
MORE = {("release", "attach"): {"contents": "write"}, ("release", "publish"): {"id-token": "write"}}
"""Jobs that may do more than read, and what."""


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


WORKFLOWS = {path.stem: read(path) for path in sorted((GITHUB / "workflows").iterdir())}
JOBS = {(name, job): what for name, flow in WORKFLOWS.items() for job, what in flow["jobs"].items()}
STEPS = [(*place, step) for place, job in JOBS.items() for step in job.get("steps", [])]


def commands(*place):
    """What the steps of a job run, or of all jobs."""
    found = [(step["run"], at[:2]) for *at, step in STEPS if "run" in step]
    return [text for text, at in found if not place or tuple(at) == place]


def test_the_gate_is_the_script_on_every_python_of_the_classifiers():
    assert commands("gate", "gate") == [".ci/run"]
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert JOBS["gate", "gate"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_smoke_test_is_the_quick_start_of_the_readme():
    install, first, *_ = (
        [line[2:] for line in block.splitlines() if line.startswith("$ ")]
        for block in blocks(README, "console")
    )
    assert install[-1].startswith("pip install attomaton")
    sdist = "python -m pip install --quiet dist/*.tar.gz"
    wanted = [sdist, "attomaton --version", "attomaton doctor", *first]
    assert commands("smoke", "first-commands") == wanted
    systems = JOBS["smoke", "first-commands"]["strategy"]["matrix"]["system"]
    assert [name.split("-")[0] for name in systems] == ["macos", "windows"]


def test_a_wheel_is_tried_as_the_smoke_test_and_with_laws_and_replay():
    wheels = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    *first, tests = wheels["test-command"]
    assert first == commands("smoke", "first-commands")[1:]
    assert {"tests/laws", "tests/base/native"} <= set(tests.split())
    pythons = [line.rsplit(" ", 1)[1].replace(".", "") for line in PROJECT["classifiers"] if ":: 3." in line]
    assert wheels["build"] == [*(f"cp{python}-*" for python in pythons), "cp314t-*"]


@pytest.mark.parametrize(("tag", "code"), [("v{}", 0), ("v{}1", 1), ("{}.dev", 1)])
def test_a_tag_of_another_version_is_refused(tag, code):
    import attomaton

    [line] = [text for text in commands("release", "build") if "__init__.py" in text]
    assert run_step(line, ROOT, tag.format(attomaton.__version__)) == code


@pytest.mark.parametrize(
    ("heading", "cited", "code"),
    [
        ("0.1.0 (2026-12-01)", "date-released: 2026-12-01\n", 0),
        ("0.1.0 (2026-12-01)", "date-released: 2026-12-02\n", 1),
        ("0.1.0 (unreleased)", "", 1),
        ("0.1.1 (2026-12-01)", "date-released: 2026-12-01\n", 1),
    ],
)
def test_a_tag_needs_a_dated_entry(tmp_path, heading, cited, code):
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n- One.\n")
    (tmp_path / "CITATION.cff").write_text(f"version: 0.1.0\n{cited}title: attomaton\n")
    [line] = [text for text in commands("release", "build") if "CITATION.cff" in text]
    assert run_step(line, tmp_path, "v0.1.0") == code


def test_the_text_of_a_release_is_its_entry(tmp_path):
    new, old = (
        "## 0.2.0 (2027-01-02)\n\nNew\nthings.\n\n- One item\n  on two lines.\n- Two.\n",
        "## 0.1.0 (2026-12-01)\n\nOld.\n",
    )
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{new}\n{old}")
    [line] = [text for text in commands("release", "build") if "notes.md" in text]
    assert run_step(line, tmp_path, "v0.2.0") == 0
    assert (tmp_path / "notes.md").read_text().strip() == "New things.\n\n- One item on two lines.\n- Two."


def run_step(line, folder, tag):
    """The exit code of a step of the release of this tag."""
    named = {**os.environ, "GITHUB_REF_NAME": tag}
    return subprocess.run(["bash", "-ec", line], cwd=folder, env=named, check=False).returncode


def test_actions_have_one_commit_each_with_its_version():
    used = set()
    for path in (GITHUB / "workflows").iterdir():
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses: " in line]
        used |= {line.split("uses: ")[1] for line in lines if "uses: $/" not in line}
    assert all(ACTION.fullmatch(one) for one in used), used
    assert len({one.partition("@")[0] for one in used}) == len(used)


def test_workflows_may_only_read_but_for_a_release():
    assert all(flow["permissions"] == READING for flow in WORKFLOWS.values())
    assert {place: job["permissions"] for place, job in JOBS.items() if "permissions" in job} == MORE
    for *place, step in STEPS:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}, place


@pytest.mark.parametrize(
    ("number", "has_sudo", "wanted"),
    [(0, True, ["apt-get"] * 2), (1000, True, ["sudo apt-get"] * 2), (1000, False, ["apt-get"] * 2)],
)
def test_the_gate_installs_packages_as_root_or_through_sudo(tmp_path, number, has_sudo, wanted):
    programs = {
        "id": f"echo {number}",
        "apt-get": 'echo "apt-get $1 ${*: -1} ${DEBIAN_FRONTEND:-}" >> log',
        "sudo": 'printf "sudo " >> log; "$@"',
    }
    for name, body in programs.items():
        if name != "sudo" or has_sudo:
            (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
            (tmp_path / name).chmod(0o755)
    function = re.search(r"^install_packages\(\) \{.*?^\}$", GATE, flags=re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "env").symlink_to("/usr/bin/env")  # nothing else is on the path
    subprocess.run(
        ["/bin/bash", "-euc", f"{function}\ninstall_packages one two"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        check=True,
    )
    first, second = (tmp_path / "log").read_text().splitlines()
    assert [first.partition(" update")[0], second.partition(" install")[0]] == wanted
    assert second.endswith("install two noninteractive")
    assert GATE.count("apt-get") == 2
