"""The command line: output, exit codes, no tracebacks."""

import json
import shlex
import subprocess
import sys

import pytest

from tests.cli.inside import run_inside as attomaton


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    assert attomaton("example", "story.txt", cwd=place).returncode == 0
    learned = attomaton("learn", "story.txt", "--window", 8, "--out", "run", "--json", cwd=place)
    assert learned.returncode == 0, learned.stderr
    (place / "learned.json").write_text(learned.stdout)
    return place


def test_learn_prints_the_coverage_report(folder):
    printed = attomaton("learn", "story.txt", "--window", 8, cwd=folder)
    assert printed.returncode == 0
    for line in (
        "samples read",
        "realisable",
        "queries",
        "edges",
        "components",
        "How contexts are answered",
        "certified",
        "Largest",
    ):
        assert line in printed.stdout
    assert max(map(len, printed.stdout.splitlines())) <= 80


def test_learn_json_is_the_coverage_record(folder):
    record = json.loads((folder / "learned.json").read_text())
    stored = json.loads((folder / "run" / "coverage.json").read_text())
    assert record["answered"]["n_contexts"] == 443
    assert record["held_out"]["n_contexts"] == 44
    assert {**record, "answered": None, "held_out": None} == {
        **stored,
        "answered": None,
        "held_out": None,
        "note": None,
        "out": "run",
        "skipped": 0,
        "first_skipped": None,
    }
    assert record["n_read"] == 443


def test_explain_prints_retrieval_evidence_and_rule(folder):
    printed = attomaton("explain", "run", "the wind saw the lamp and the", cwd=folder)
    assert printed.returncode == 0
    for text in ("Query: the", "Rule: determined", "lamp", "wind", "It beat", "→", "×"):
        assert text in printed.stdout


def test_explain_json_and_quiet(folder):
    printed = attomaton("explain", "run", "the wind saw the lamp and the", "--json", cwd=folder)
    record = json.loads(printed.stdout)
    assert record["rule"] == "determined"
    assert dict(record["probabilities"]).keys() == {"lamp", "wind"}
    assert (
        attomaton("explain", "run", "the wind saw the lamp and the", "--quiet", cwd=folder).stdout == "lamp\n"
    )
    assert attomaton("learn", "story.txt", "--quiet", cwd=folder).stdout == ""


def test_markup_in_tokens_is_shown_as_text(folder):
    (folder / "markup.txt").write_text("[bold] [/x] [bold] [/x] [bold] [red]a [bold]\n" * 4)
    assert attomaton("learn", "markup.txt", "--window", 3, "--out", "markup", cwd=folder).returncode == 0
    printed = attomaton("explain", "markup", "[/x] [bold]", cwd=folder)
    assert printed.returncode == 0
    assert "Query: [bold]" in printed.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["learn", "missing.txt"],
            "error: missing.txt cannot be read: No such file or directory; check the path",
        ),
        (["learn", "story.txt", "--tokenizer", "bpe"], "error: the tokenizer 'bpe' is unknown"),
        (
            ["learn", "story.txt", "--engine", "polars"],
            "error: engine is 'polars'; choose auto, memory, duckdb or spark",
        ),
        (["learn", "story.txt", "--window", "0"], "Invalid value"),
        (["explain", "nowhere", "a"], "error: nowhere has no manifest.json"),
        (["explain", "run", ""], "error: the context is empty"),
        (["example", "no/such/place.txt"], "cannot be written: No such file or directory"),
        (
            ["learn", "story.txt", "--out", "story.txt"],
            "error: story.txt is a file; give the path of a folder",
        ),
        (["example", "learned.json"], "error: learned.json exists"),
        (["unknown"], "No such command"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_2(folder, arguments, message):
    result = attomaton(*arguments, cwd=folder)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_uncertified_answer_is_exit_code_1(folder, monkeypatch):
    code = (
        "from attomaton.solvers.hard import placement, reference;"
        "placement.Placement = lambda **_: reference.Clarabel(max_steps=1);"
        "from attomaton.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "learn", "story.txt"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "uncertified" in result.stdout


def test_the_command_that_learn_suggests_works(folder):
    printed = attomaton("learn", "story.txt", "--window", 8, "--out", "again", cwd=folder).stdout
    suggested = shlex.split(printed[printed.index("attomaton explain") :])
    assert attomaton(*suggested[1:], cwd=folder).returncode == 0


def test_a_query_without_evidence_backs_off_without_contradiction(folder):
    (folder / "few.txt").write_text("a b c a b d\n")
    attomaton("learn", "few.txt", "--window", 3, "--out", "few", cwd=folder)
    printed = attomaton("explain", "few", "a d", cwd=folder).stdout
    assert "no evidence" in printed
    assert "Ignored" not in printed


def test_output_that_cannot_be_written_is_an_error_without_traceback(folder):
    command = (
        f"{sys.executable} -c 'from attomaton.cli import main; main()' explain run 'lamp the' > /dev/full"
    )
    result = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_version_and_help(folder):
    import attomaton as at

    assert attomaton("--version", cwd=folder).stdout == f"attomaton {at.__version__}\n"
    assert "explain" in attomaton("--help", cwd=folder).stdout
