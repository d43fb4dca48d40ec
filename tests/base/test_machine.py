"""Processors and memory: what this system says, and what is taken where a system does not say."""

import os
import re
from pathlib import Path

import pytest

import attomaton
from attomaton.base import machine
from attomaton.base.machine import ASSUMED, available_memory, count_processors, parse_memory, total_memory
from attomaton.cli.installation import find_installation

SOURCES = Path(attomaton.__file__).parent


@pytest.fixture
def elsewhere(monkeypatch):
    """A system that tells neither which processors a process may use nor how much memory there is."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr(machine, "CGROUP_FILES", ())


def test_processors_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert count_processors() == find_installation().machine.usable == 3


@pytest.mark.usefixtures("elsewhere")
def test_without_affinity_they_are_those_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert count_processors() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_processors() == 1


def test_memory_is_that_of_the_machine_or_its_cgroup(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CGROUP_FILES", (str(limit), str(tmp_path / "none")))
    assert available_memory() == total_memory()
    limit.write_text("1000000000\n")
    assert available_memory() == 1_000_000_000
    limit.write_text("max\n")
    assert available_memory() == total_memory()


@pytest.mark.usefixtures("elsewhere")
def test_memory_is_assumed_where_the_system_does_not_say():
    assert total_memory() is None
    assert available_memory() == ASSUMED
    found = find_installation().machine
    assert found.memory is None
    assert found.share == parse_memory(None) == int(0.6 * ASSUMED)


def test_processors_are_counted_in_one_place():
    asking = re.compile(r"sched_getaffinity|\bcpu_count\b|sysconf")
    files = {path.relative_to(SOURCES).as_posix(): path.read_text("utf-8") for path in SOURCES.rglob("*.py")}
    found = {name for name, text in files.items() if asking.search(text)}
    assert found == {"base/machine.py", "cli/installation.py"}  # doctor also says how many the machine has
