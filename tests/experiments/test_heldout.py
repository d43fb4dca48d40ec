"""The held-out table by one command, small."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from attomaton.base.progress import silent
from attomaton.cli import app
from attomaton_experiments import settings as experiment_settings
from attomaton_experiments.mixture import telling
from attomaton_experiments.run import run_experiment
from attomaton_experiments.settings import read_settings
from tests.experiments.mixture.texts import draw_text

SMALL = {"seconds": 0.3, "width": 8, "heads": 2, "window": 8, "batch_size": 2, "cuts": [4, 8]}


@pytest.fixture
def folder(tmp_path):
    for name, seed, size in (("train", 0, 900), ("valid", 1, 150)):
        words = [f"w{token}" for token in draw_text(seed, size)]
        lines = [" ".join(words[first : first + 10]) for first in range(0, size, 10)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def refuse(name, *_):
    raise AssertionError(f"{name} is judged again")


def small(folder, **more):
    settings = read_settings("heldout", data=folder, **more)
    return settings | {
        "transformer": SMALL,
        "held": 0.2,
        "plan": settings["plan"] | {"window": 6, "reach": 9, "cache": 50},
    }


def test_every_row_is_finite_and_the_work_is_taken_up(folder, monkeypatch):
    work = folder / "work"
    first = run_experiment(small(folder, work=work), silent)
    losses = dict(zip(*(first.numbers[name].to_pylist() for name in ("model", "log_loss")), strict=True))
    assert len(losses) == 14
    assert np.isfinite(list(losses.values())).all()
    assert losses["mixture of the limits"] < losses["unigram"]
    assert losses["bigram, Kneser–Ney"] < losses["unigram"]
    assert sum(float(row[1].rstrip("%")) for row in first.printed[2].rows) == pytest.approx(100, abs=0.5)
    monkeypatch.setattr("attomaton_experiments.mixture.table.judge", refuse)
    second = run_experiment(small(folder, work=work), silent)
    assert second.numbers["log_loss"].to_pylist() == first.numbers["log_loss"].to_pylist()


def test_bars_start_at_zero(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(telling, "save_figure", lambda figure, *_, **__: drawn.append(figure) or [])
    rows = [SimpleNamespace(name=name, loss=loss) for name, loss in (("unigram", 6.9), ("bigram", 5.7))]
    telling.draw_rows(SimpleNamespace(rows=rows), tmp_path / "bars.png", caption="two models")
    assert drawn[0].axes[0].get_xlim()[0] == 0.0


@pytest.mark.slow  # an experiment
def test_the_command_prints_and_writes_the_table(folder, monkeypatch):
    read = experiment_settings.read_settings
    monkeypatch.setattr(
        "attomaton_experiments.settings.read_settings",
        lambda name, **asked: (
            read(name, **asked)
            | {key: value for key, value in small(folder).items() if key in ("transformer", "held", "plan")}
        ),
    )
    asked = ["reproduce", "heldout", "--data", str(folder), "--out", str(folder / "out"), "--json"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "perplexity" in json.loads(shown.stdout)["tables"][0]["headers"]
    assert {"figure.png", "numbers.parquet", "summary.md"} <= {one.name for one in (folder / "out").iterdir()}
