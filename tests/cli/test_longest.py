"""A text that is longer than the longest document: the advice is that of who asked."""

import pytest

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.readers import Reading, read_corpus
from tests.cli.inside import run_inside
from tests.faults.processes import cli


@pytest.fixture
def long_text(tmp_path):
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        for _ in range(65):
            file.write((b"a b " * 255 + b"a b\n") * 1024)
    return path


@pytest.mark.parametrize("command", ["learn", "tokenize"])
def test_a_command_names_its_options(command, long_text, tmp_path):
    done = cli(command, long_text, "--out", tmp_path / "out", seconds=300)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert "a document with --documents line, or raise the limit with --max-document, in megabytes" in said
    assert "Reading(" not in said
    assert "max_bytes" not in said


def test_python_names_parameters(long_text):
    advice = r"Reading\(documents='line'\), or .* Reading\(max_bytes=…\)"
    with pytest.raises(UnreadableSource, match=advice) as refused:
        read_corpus(long_text)
    assert "--" not in str(refused.value).replace(str(long_text), "")


def test_the_advice_of_a_command_can_be_followed(tmp_path):
    (tmp_path / "long.txt").write_text("a b a b\n" * 150_000)
    command = ("tokenize", tmp_path / "long.txt", "--out", tmp_path / "out", "--overwrite")
    assert cli(*command, "--max-document", 1, seconds=300).returncode == 2
    for advised in (("--documents", "line"), ("--max-document", 2)):
        done = cli(*command, *advised, seconds=300)
        assert done.returncode == 0, done.stderr


def test_after_a_command_python_is_advised_again(long_text):
    assert "--documents line" in run_inside("learn", long_text, cwd=long_text.parent).stderr
    with pytest.raises(UnreadableSource, match="Reading"):
        read_corpus(long_text, reading=Reading())
