"""The figures of the second paper, small: pages are written, verdicts can fail, bad tables are refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from attomaton.cli import app
from attomaton_experiments.page import write_page
from attomaton_experiments.run import run_experiment
from attomaton_experiments.scansnap.figure4 import run_figure4
from attomaton_experiments.scansnap.figure6 import run_figure6
from attomaton_experiments.settings import read_settings

runner = CliRunner()


def status(page):
    return {verdict.claim: verdict.status.value for verdict in page.verdicts}


@pytest.mark.slow  # an experiment
def test_figure_3_corrects_the_printed_growth(tmp_path):
    page = run_experiment(read_settings("scan-snap-3"))
    assert set(status(page).values()) <= {"holds", "not_applicable"}
    assert status(page)["closed form"] == "holds"
    grid = [row for row in page.numbers.to_pylist() if row["part"] == "grid"]
    assert len(grid) == 75
    assert max(row["error"] for row in grid) < 1e-6 < 0.5 < max(row["error_as_printed"] for row in grid)
    steps = [row for row in page.numbers.to_pylist() if row["part"] == "steps"]
    apart = np.array([row["h_by_steps"] - row["h"] for row in steps])
    assert (apart >= -1e-15).all()
    assert (apart <= [2 / row["n_tokens"] for row in steps]).all()
    snaps = {}
    for row in page.numbers.to_pylist():
        if row["part"] == "snaps":
            snaps.setdefault((row["n_classes"], row["n_tokens"], row["ratio"]), []).append(row["growth"])
    assert len(snaps) == 20
    assert all(max(found) - min(found) < 1e-12 for found in snaps.values())
    files = {path.name for path in write_page(page, tmp_path)}
    drawn = {f"figure{name}.{kind}" for name in ("", "-lemmas") for kind in ("png", "pdf")}
    assert files == drawn | {"numbers.parquet", "verdicts.json", "summary.md"}
    assert pq.read_table(tmp_path / "numbers.parquet").num_rows == page.numbers.num_rows


def test_figure_4_has_the_published_loss():
    page = run_figure4(read_settings("scan-snap-4", trials=5))
    assert set(status(page).values()) == {"holds"}
    assert "| 6 | 0.160805 | 0.1" in page.text


def test_figure_4_can_fail():
    settings = read_settings("scan-snap-4", trials=5)
    page = run_figure4({**settings, "rates": [[0.3, 1.0]], "n_steps": 12})
    assert status(page)["loss"] == "fails"
    assert status(run_figure4({**settings, "trials": 1, "n_steps": 4}))["loss"] == "not_applicable"


@pytest.mark.slow  # an experiment
def test_adam_keeps_another_subset_at_each_rate(tmp_path):
    page = run_experiment(read_settings("scan-snap-5", trials=5))
    assert set(status(page).values()) == {"holds"}
    names = {path.name for path in write_page(page, tmp_path)}
    assert {"figure.png", "figure-curves.png"} <= names
    by_sgd = {**read_settings("scan-snap-4", trials=3), "rates": [[0.5, 0.5], [1.0, 1.0]]}
    del by_sgd["published"]
    assert status(run_figure4(by_sgd))["another subset at each rate"] == "fails"


@pytest.fixture(scope="module")
def few():
    """One query, two rates and two ratios, few steps."""
    settings = read_settings("scan-snap-6", trials=2)
    return {**settings, "n_queries": [1], "attention_rates": [0.5, 3.0], "ratios": [2.0, 10.0]}


@pytest.mark.slow  # an experiment
def test_figure_6_beside_the_published_table(tmp_path, few):
    page = run_figure6({**few, "trials": 4})
    assert status(page)["published table"] == status(page)["both rates up: sparser (5)"] == "holds"
    assert status(page)["larger η_Y: recall falls more (5)"] == "holds"
    assert len(page.numbers) == 16
    assert {"figure.png", "figure-recall.png"} <= {path.name for path in write_page(page, tmp_path)}
    assert status(run_figure6({**few, "n_steps": 3}))["published table"] == "fails"


def test_recall_is_the_share_of_distinct_tokens_above_the_threshold(few):
    row = run_figure6({**few, "n_steps": 1, "thresholds": [0.0, 1e9]}).numbers.to_pylist()[0]
    assert (row["recall_0"], row["recall_1e+09"]) == (1.0, 0.0)


def test_the_same_seed_gives_the_same_numbers(few):
    short = {**few, "n_steps": 5}
    one, same, other = (run_figure6({**short, "seed": seed}).numbers for seed in (1, 1, 2))
    assert one.equals(same)
    assert not np.allclose(one["entropy"].to_numpy(), other["entropy"].to_numpy())


def test_the_command_writes_the_page_and_prints_json(tmp_path):
    done = runner.invoke(app, ["reproduce", "scan-snap-4", "--trials", "5", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["experiment"] == "scan-snap-4"
    assert {verdict["status"] for verdict in told["verdicts"]} == {"holds"}
    assert (tmp_path / "figure.pdf").exists()
    shown = runner.invoke(app, ["reproduce", "scan-snap-4", "--trials", "2"])
    assert "ranks follow P" in shown.stdout
    assert "scan-snap-6" in runner.invoke(app, ["reproduce", "list"]).stdout
