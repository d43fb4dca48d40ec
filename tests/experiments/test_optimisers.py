"""Margins of optimisers, redrawn in small: the page, what is kept for going on, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import silent
from attomaton.claims.verdicts import VerdictStatus
from attomaton.cli import app
from attomaton_experiments.optimisers import draw_trials, make_step, run_optimisers
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings


def small(**changed):
    settings = read_settings("optimisers", trials=2, **changed)
    return settings | {"steps": 200, "every": 20}


@pytest.mark.slow  # an experiment
def test_the_page_has_every_optimiser_with_and_without_cycles(tmp_path):
    page = run_optimisers(small(), silent)
    names = [asked["name"] for asked in small()["optimisers"]]
    assert [[row[0] for row in table["rows"]] for table in page.record["tables"]] == [names, names]
    cyclic = [one for one in page.verdicts if one.claim.endswith("with cycles")]
    assert {one.status for one in cyclic} == {VerdictStatus.NOT_APPLICABLE}
    assert all("cycle" in one.reason and "measured" in one.reason for one in cyclic)
    assert not any(one.fails for one in page.verdicts if one.claim.startswith("margin"))
    numbers = page.numbers.to_pydict()
    assert len(numbers["share"]) == 2 * len(names) * 3 * 11 * 2
    assert max(numbers["share"]) <= 1 + 1e-5
    written = write_page(page, tmp_path / "page")
    assert {path.name for path in written} >= {"figure.png", "figure.pdf", "numbers.parquet", "summary.md"}


@pytest.mark.slow  # an experiment
def test_what_was_trained_is_read_again_and_gives_the_same_page(tmp_path):
    chosen = [one for one in small()["optimisers"] if one["name"] in ("sign descent", "Adam, usual averages")]
    kept, free = (small(work=work) | {"optimisers": chosen} for work in (tmp_path, None))
    first = run_optimisers(kept, silent)
    folders = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert "acyclic-sign-descent" in folders
    assert "cyclic-adam-usual-averages" in folders
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert run_optimisers(kept, silent).text == first.text == run_optimisers(free, silent).text
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == stamps


def test_trials_are_the_same_alone_and_among_others():
    few, more = (draw_trials(read_settings("optimisers", trials=number), "acyclic") for number in (2, 4))
    for one, other in zip(few, more, strict=False):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.labels, other.labels)


def test_steps_are_those_of_the_settings():
    made = {asked["name"]: make_step(asked) for asked in read_settings("optimisers")["optimisers"]}
    assert made["Adam"].epsilon == 0
    assert made["Adam"].betas == (0.9, 0.99)
    assert made["normalised descent"].normalized
    assert all(step.schedule is not None for name, step in made.items() if name != "gradient descent")


def test_work_is_refused_where_nothing_is_kept(tmp_path):
    with pytest.raises(UnsupportedOption, match="does not store its work"):
        read_settings("mechanics-global", work=tmp_path)
    found = CliRunner().invoke(app, ["reproduce", "scan-snap-3", "--work", str(tmp_path / "w"), "--json"])
    assert found.exit_code == 1
    assert isinstance(found.exception, UnsupportedOption)


def test_the_command_lists_it():
    listed = CliRunner().invoke(app, ["reproduce", "list", "--json"])
    assert "optimisers" in json.loads(listed.stdout)["names"]
