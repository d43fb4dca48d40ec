"""The page on scale: its code runs."""

import re
from pathlib import Path

import numpy as np

from tests.engines.conftest import write_shards

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")


def test_the_code_on_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    write_shards(tmp_path / "shards", [rng.integers(0, 9, 80).tolist() for _ in range(6)], 9, 2)
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "scale.md", "exec"), {})  # noqa: S102  our own page
    count, _ = capsys.readouterr().out.split()
    assert int(count) > 50
