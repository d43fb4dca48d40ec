"""Other builds of the kernels: every index checked, under sanitizers; other processors and systems."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.e2e.environments import ROOT, Environment

NATIVE = ROOT / "native"
KERNELS = sorted(path for path in NATIVE.rglob("*.hpp") if path.parent.name != "base")
OUTSIDE = """
import tests.conftest
import numpy as np
from attomaton.base import native
native.label_components(np.array([0]), np.array([99]), 2)
"""
WRONG = """
import tests.conftest
from tests.faults.kernels import main
print(main(100_000, 3))
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """An environment in which Python loads the checked build, under two sanitizers."""
    place = tmp_path_factory.mktemp("checked")
    sanitizers = ("-DCHECKED=ON", "-DSANITIZE=address,undefined")
    options = (*sanitizers, f"-DPython_EXECUTABLE={sys.executable}", "-GNinja")
    for command in (["cmake", "-S", NATIVE, "-B", place, *options], ["cmake", "--build", place]):
        subprocess.run(command, check=True, capture_output=True)
    libraries = [
        subprocess.run([shutil.which("c++"), f"-print-file-name={name}"], check=True, capture_output=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        "ATTOMATON_NATIVE": str(next(place.glob("native*.so"))),
        "LD_PRELOAD": ":".join(found.stdout.decode().strip() for found in libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves memory to the system
        "OMP_NUM_THREADS": "1",
    }


def run(environment, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow  # compiles the kernels anew
def test_an_index_outside_its_array_is_caught(checked):
    ended = run(checked, "-c", OUTSIDE)
    assert ended.returncode != 0
    assert "IndexError: a kernel left its array" in ended.stderr


@pytest.mark.slow  # compiles the kernels anew, and they run ten times slower
@pytest.mark.parametrize("tests", ["tests/base/native/test_replay.py", "tests/laws"])
def test_replay_and_laws_leave_no_array(checked, tests):
    ended = run(checked, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=gate", tests)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]


@pytest.mark.slow  # 100,000 calls
def test_wrong_arrays_leave_no_array(checked):
    ended = run(checked, "-c", WRONG)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "'tracebacks': {}" in ended.stdout


@pytest.mark.slow  # installs a compiler
@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "aarch64-macos", "x86_64-windows-gnu"])
def test_kernels_compile_for_other_systems_without_fused_operations(tmp_path, target):
    """zig brings clang and the headers of all systems; fused operations would give other bits."""
    environment = Environment(tmp_path)
    environment.install("ziglang")
    source, assembly = tmp_path / "kernels.cpp", tmp_path / "kernels.s"
    names = ["base/arrays.hpp", *(path.relative_to(NATIVE).as_posix() for path in KERNELS)]
    first, *others = [f'#include "{name}"\n' for name in names]
    source.write_text("".join([first, "#define inline\n", *others]))  # inline functions would be left out
    options = ["-std=c++17", "-O3", "-ffp-contract=off", "-S", "-I", NATIVE, "-target", target]
    ended = environment.run("python", "-m", "ziglang", "c++", *options, source, "-o", assembly)
    assert ended.returncode == 0, ended.stderr
    assert "condense" in assembly.read_text()
    assert "fmadd" not in assembly.read_text()
