"""Start-up: which modules are loaded, and how many, where little is asked for."""

import resource
import subprocess
import sys

EXTRAS = {"torch", "duckdb", "pyspark", "matplotlib", "sklearn", "fsspec", "pandas", "tokenizers"}
ARRAYS = {"numpy", "pyarrow", "scipy"}
COMMAND = "import sys; sys.argv[0] = 'attomaton'; from attomaton.cli import main; main()"
LOADED = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "


def load(code, *arguments, cwd=None):
    """The modules that a program has loaded when it ends."""
    command = [sys.executable, "-c", LOADED + code, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return set(told.stderr.split())


def rooms(modules):
    return {name.split(".")[1] for name in modules if name.startswith("attomaton.")}


def test_import_loads_nothing():
    loaded = load("import attomaton")
    assert not loaded & (EXTRAS | ARRAYS | {"typer", "rich"})
    assert len(loaded) < 120


def test_version_loads_no_command():
    loaded = load(COMMAND, "--version")
    assert not loaded & (EXTRAS | ARRAYS | {"typer", "rich"})
    assert len(loaded) < 120


def test_help_loads_no_room():
    loaded = load(COMMAND, "--help")
    assert not loaded & (EXTRAS | ARRAYS)
    assert not rooms(loaded) & {"automaton", "corpora", "graphs", "readers", "runs", "artifacts"}


def test_explain_loads_what_it_needs(tmp_path):
    load(COMMAND, "example", "story.txt", cwd=tmp_path)
    learned = load(COMMAND, "learn", "story.txt", "--window", "8", "--out", "run", "--quiet", cwd=tmp_path)
    assert not learned & (EXTRAS | {"scipy"})
    loaded = load(COMMAND, "explain", "run", "the wind saw the lamp and the", cwd=tmp_path)
    assert not loaded & (EXTRAS | {"scipy", "pyarrow.compute", "pyarrow.dataset"})
    assert not rooms(loaded) & {"choices", "claims", "decoder", "engines", "readers", "trajectory"}
    assert len(loaded) < 620
    assert len([name for name in loaded if name.startswith("attomaton")]) <= 112
    assert {name for name in loaded if name.startswith("attomaton.automaton.ov_maps")} == {
        "attomaton.automaton.ov_maps",
        "attomaton.automaton.ov_maps.load",
    }
    reported = load(COMMAND, "report", "run", "--quiet", cwd=tmp_path)
    assert "attomaton.report" in reported
    assert not reported & {"torch", "matplotlib", "sklearn"}  # a plain install has none of them


def test_a_room_is_loaded_when_it_is_asked_for():
    code = "import attomaton as at; print(at.corpora.Reading(), at.synthetic); at.no_such_room"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.startswith("Reading(")
    assert told.stderr.endswith("AttributeError: module 'attomaton' has no attribute 'no_such_room'\n")


def _processor_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, env=environment, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
