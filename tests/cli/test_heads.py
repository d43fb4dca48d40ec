"""``attomaton heads``: the audit of a model on disk."""

import json

import pyarrow.parquet as pq
import pytest

from tests.audit.small import write_model
from tests.cli.inside import run_inside

PLAIN = ["heads", "model", "story.jsonl", "--window", "8", "--length", "12", "--random", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("heads")
    write_model(place)
    return place


def test_a_table_a_file_and_a_figure(folder):
    ended = run_inside(*PLAIN, "--out", "heads.parquet", "--figure", "heads.png", cwd=folder, COLUMNS="80")
    assert ended.returncode == 0, ended.stderr
    assert "Mean explained share" in ended.stdout
    table = pq.read_table(folder / "heads.parquet")
    assert table["head"].to_pylist() == ["0.0", "0.1"]
    assert {"explained shrink", "alone bigram", "pattern_rise", "ablation_rise"} <= set(table.column_names)
    assert (folder / "heads.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run_inside(*PLAIN, "--json", cwd=folder).stdout)
    assert [row["head"] for row in told["rows"]] == ["0.0", "0.1"]
    assert told["out"] is None


def test_one_head_is_shown_with_every_rung(folder):
    ended = run_inside(*PLAIN, "--head", "0.1", "--limit", "2", cwd=folder, COLUMNS="160")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Document") == 2
    assert "+ automaton" in ended.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--head", "first"], "such as 4.0"),
        (["--head", "3.0"], "there is no head 3.0"),
        (["--head", "0.0", "--figure", "one.pdf"], "leave --head out"),
        (["--figure", "heads.gif"], "draw to .pdf"),
    ],
)
def test_wrong_asking_is_one_sentence(folder, asked, said):
    ended = run_inside(*PLAIN, *asked, cwd=folder)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_text_without_a_tokenizer_is_refused(folder):
    (folder / "words.txt").write_text("to be or not to be " * 20)
    ended = run_inside("heads", "model", "words.txt", cwd=folder)
    assert ended.returncode == 2
    assert "nothing says which id" in ended.stderr


def test_files_of_others_are_kept(folder):
    (folder / "mine.parquet").write_text("mine")
    ended = run_inside(*PLAIN, "--out", "mine.parquet", cwd=folder)
    assert ended.returncode == 2
    assert (folder / "mine.parquet").read_text() == "mine"
