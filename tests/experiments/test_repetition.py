"""Layers fed their own output, at a small size."""

import pytest

from attomaton.base.progress import silent
from attomaton_experiments.run import run_experiment
from attomaton_experiments.settings import read_settings


@pytest.mark.slow  # an experiment
def test_drawn_layers_end_as_predicted(tmp_path):
    settings = read_settings("repetition", trials=2) | {"length": 300_000, "winners": 20_000, "runs": 2}
    page = run_experiment(settings, silent)
    verdicts = {one.claim: one.status.value for one in page.verdicts}
    assert verdicts["repetition-winners"] == "holds"
    assert verdicts["repetition-shares"] == "holds"
    assert page.numbers.num_rows == 2 * 6 * len(set(page.numbers.column("length").to_pylist()))
    assert [path.suffix for path in page.draw(tmp_path / "figure")] == [".png", ".pdf"]
