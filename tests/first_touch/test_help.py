"""Help that a new user reads: ``-h`` works, flags carry no type, every example runs, every name is listed."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from attomaton.cli import app
from attomaton.cli.commands import EXAMPLES
from tests.cli.inside import run_inside
from tests.heads.audit.small import write_model, write_steps


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", *EXAMPLES])
def test_help_is_short_and_has_examples(command, flag):
    shown = CliRunner().invoke(app, [*command.split(), flag])
    assert shown.exit_code == 0
    assert "<bool>" not in shown.output
    if command:
        assert "$ attomaton" in shown.output


TABLES = {
    "games.csv": "winner,loser\nann,bob\nbob,cy\n",
    "matches.csv": "home,guest,games\nann,bob,3\nbob,ann,1\n",
    "battles.jsonl": '{"model_a": "x", "model_b": "y", "winner": "model_a"}\n'
    '{"model_a": "x", "model_b": "y", "winner": "tie"}\n',
    "menus.csv": "dish,menu\ntea,tea|milk\nmilk,tea|milk|water\n",
    "races.tsv": "result\nann>bob>cy\nbob>ann>cy\n",
}


@pytest.mark.slow  # every example of every command
def test_every_example_runs(tmp_path):
    """In the order of the list; nothing ends in an error."""
    for name, table in TABLES.items():
        (tmp_path / name).write_text(table)
    write_model(tmp_path)
    write_steps(tmp_path)
    for lines in EXAMPLES.values():
        for line in lines:
            ended = run_inside(*shlex.split(line)[1:], cwd=tmp_path)
            assert ended.returncode == 0, (line, ended.stderr)


def test_a_misspelt_command_is_told_apart():
    shown = CliRunner().invoke(app, ["scan-snp"])
    assert shown.exit_code == 2
    assert "Did you mean 'scan-snap'?" in shown.output


def test_a_misspelt_experiment_lists_all_names():
    listed = CliRunner().invoke(app, ["reproduce", "list", "--json"])
    with pytest.raises(Exception, match="there is no experiment 'mechanics-globl'") as told:
        CliRunner().invoke(app, ["reproduce", "mechanics-globl"], catch_exceptions=False)
    for name in json.loads(listed.output)["names"]:
        assert name in str(told.value)
