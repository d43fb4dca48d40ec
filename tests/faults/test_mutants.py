# ruff: noqa: S311  no secret
"""Mutants of every kind of input: no crash, no hang, no gigabytes, no traceback.

``ATTOMATON_FAULTS`` multiplies the counts. Each campaign runs in a process of its own, which has no threads
when it forks. By hand, with the number of a mutant to make it again: see ``mutants.py``.
"""

import os
import random
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.faults.mutants import mutate_bytes, mutate_json
from tests.faults.targets import TARGETS

TIMES = float(os.environ.get("ATTOMATON_FAULTS", "1"))
FEW, MANY = int(400 * TIMES), int(50_000 * TIMES)


def campaign(name, count, seed):
    command = [sys.executable, "-m", "tests.faults.mutants", name, "--count", str(count), "--seed", str(seed)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow  # campaign
@pytest.mark.parametrize("name", TARGETS)
def test_few_mutants(name):
    done = campaign(name, FEW, seed=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: {FEW:,} mutants" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutants(name):
    done = campaign(name, MANY, seed=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: {MANY:,} mutants" in done.stdout


FOUND = """
import os, signal, time
from tests.faults import mutants
from tests.faults.targets import Target

def consume(path, number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 5:
        time.sleep(60)
    if number == 7:
        raise KeyError("no error of ours")
    if number == 9:
        bytearray(os.urandom(1)) * (1600 << 20)

mutants.WAITING = 20
outcome = mutants.run_campaign(Target("t", "a.txt", lambda rng: b"x", consume), 12)
print(sorted((one["number"], one["what"]) for one in outcome.failures), outcome.count, outcome.harmless)
"""


@pytest.mark.slow  # campaign
def test_a_campaign_finds_what_it_looks_for_and_goes_on():
    done = subprocess.run([sys.executable, "-c", FOUND], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[(3, 'crash'), (5, 'hang'), (7, 'traceback'), (9, 'memory')] 12 8"


def test_mutants_can_be_made_again_and_differ():
    for make in (
        lambda rng: mutate_bytes(b"some bytes of a file", rng),
        lambda rng: mutate_json('{"a": [1, {"b": "c"}]}', rng),
    ):
        first = [make(random.Random(number)) for number in range(300)]
        assert first == [make(random.Random(number)) for number in range(300)]
        assert len(set(first)) > 150
