"""Ctrl-C ends a command with the code 130, and says how to go on where that can be done."""

import shlex
from unittest.mock import patch

import pytest

from attomaton.training.checkpoints import TrainingFiles
from tests.cli.inside import run_inside

TEXT = "a b a c a b a c b a c a b b a c a a b c a b a\n" * 3


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a text.txt").write_text(TEXT)
    return tmp_path


def stop(*_, **__):
    raise KeyboardInterrupt


def advice_of(told):
    """The command that goes on, as a list; None where none is given."""
    assert (told.returncode, told.stdout) == (130, "")
    line = told.stderr.splitlines()[-1]
    if line == "Stopped.":
        return None
    before, _, command = line.partition("To resume, run: ")
    assert (before, command.split()[0]) == ("Stopped. ", "attomaton")
    return shlex.split(command)[1:]


def test_a_training_goes_on_with_the_command_that_is_told(folder):
    command = ["train", "a text.txt", "--out", "run", "--window", "3", "--steps", "40", "--quiet"]
    save = TrainingFiles.save

    def save_and_stop(self, checkpoint):
        save(self, checkpoint)
        if checkpoint.step == 20:
            raise KeyboardInterrupt

    with patch.object(TrainingFiles, "save", save_and_stop):
        told = advice_of(run_inside(*command, cwd=folder))
    assert told == [*command, "--resume"]
    assert run_inside(*told, cwd=folder).returncode == 0
    run_inside(*command[:3], "other", *command[4:], cwd=folder)
    traces = [(folder / name / "training" / "trace.safetensors").read_bytes() for name in ("run", "other")]
    assert traces[0] == traces[1]
    with patch.object(TrainingFiles, "log", stop):
        again = [*command[:3], "third", *command[4:], "--resume"]
        assert advice_of(run_inside(*again, cwd=folder)) == again


CASES = {
    "learn-duckdb": (["learn", "a text.txt", "--engine", "duckdb", "--memory", "1G", "--out", "run"], True),
    "learn-memory": (["learn", "a text.txt", "--out", "run"], False),
    "learn-nowhere": (["learn", "a text.txt", "--engine", "duckdb", "--memory", "1G"], False),
    "begin": (["begin", "a text.txt", "--engine", "duckdb", "--memory", "1G", "--work", "work"], True),
    "begin-memory": (["begin", "a text.txt"], False),
    "tokenize": (["tokenize", "a text.txt", "--out", "tokens"], True),
}
PLACES = {
    "learn": "attomaton.engines.duckdb.DuckDBEngine.edges",
    "begin": "attomaton.engines.duckdb.DuckDBEngine.sums",
    "tokenize": "attomaton.corpora.readers.input_jobs.EncodeJob.run",
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_can_be_resumed_says_how(name, folder):
    command, can = CASES[name]
    with patch(PLACES[command[0]] if can else "attomaton.engines.source._read_corpus", stop):
        told = advice_of(run_inside(*command, cwd=folder))
    assert told == (command if can else None)
    if can:
        assert run_inside(*told, "--quiet", cwd=folder).returncode == 0


def test_other_commands_say_that_they_were_stopped(folder):
    with patch("attomaton.corpora.readers.corpus.read_documents_and_entry", stop):
        assert advice_of(run_inside("scan-snap", "a text.txt", cwd=folder)) is None
