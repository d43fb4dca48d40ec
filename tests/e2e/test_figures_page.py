"""The page on figures: its code runs, and every command that draws is on it."""

import re
from pathlib import Path

from attomaton.experiments.settings import list_experiments

PAGE = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")


def test_the_code_on_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    exec(compile(code, "figures.md", "exec"), {})  # noqa: S102  our own page
    assert {path.name for path in tmp_path.glob("*.pdf")} == {"loss.pdf"}
    assert (tmp_path / "pictures" / "graph.pdf").read_bytes().startswith(b"%PDF")


def test_every_experiment_is_on_the_page():
    assert [name for name in list_experiments() if f"`{name}`" not in PAGE and name != "mechanics-path"] == []
