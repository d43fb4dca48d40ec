"""``attomaton diff``: output, JSON, exit codes."""

import json

import pytest

from tests.cli.test_commands import attomaton


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("diff")
    (place / "a.txt").write_text("a b a c a b a b d\n" * 4)
    (place / "b.txt").write_text("c b c a c a c c b\n" * 4)
    for name in "ab":
        learned = attomaton("learn", f"{name}.txt", "--window", 4, "--out", name, "--quiet", cwd=place)
        assert learned.returncode == 0, learned.stderr
    return place


def test_diff_prints_counts_and_the_strongest_changes(folder):
    result = attomaton("diff", "a", "b", cwd=folder)
    assert result.returncode == 0, result.stderr
    for text in ("are related differently", "Changes", "reversed", "gained", "in a", "in b", "before", "×"):
        assert text in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_diff_json_agrees_with_the_library(folder):
    import attomaton as at
    from attomaton.automaton.compare import diff

    record = json.loads(attomaton("diff", "a", "b", "--json", "--limit", "2", cwd=folder).stdout)
    difference = diff(at.Automaton.load(folder / "a"), at.Automaton.load(folder / "b"))
    assert (record["pairs"], record["different"]) == (difference.n_pairs, len(difference))
    assert sum(record["changes"].values()) == len(difference) > 0
    shown = [row["change"] for row in record["strongest"]]
    assert {change: shown.count(change) for change in record["changes"]} == {
        change: min(count, 2) for change, count in record["changes"].items()
    }
    assert {row["query"] for row in record["strongest"]} <= {"a", "b", "c", "d", "<eos>"}
    assert attomaton("diff", "a", "b", "--quiet", cwd=folder).stdout == f"{len(difference)}\n"


def test_a_run_does_not_differ_from_itself(folder):
    result = attomaton("diff", "a", "a", "--json", cwd=folder)
    assert result.returncode == 0
    assert json.loads(result.stdout)["different"] == 0


def test_a_missing_run_is_exit_code_2(folder):
    result = attomaton("diff", "a", "nowhere", cwd=folder)
    assert result.returncode == 2
    assert "error: nowhere cannot be read: No such file or directory" in result.stderr
    assert "Traceback" not in result.stderr
