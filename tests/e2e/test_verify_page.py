"""The page on training: its code runs, and every claim is on it."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "train-and-verify.md").read_text(encoding="utf-8")


def test_the_code_on_the_page_runs(capsys):
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "train-and-verify.md", "exec"), {})  # noqa: S102  our own page
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert not [line for line in lines if " fails " in line]


def test_every_claim_is_explained():
    from attomaton.verify.claims import CLAIMS

    assert [claim.name for claim in CLAIMS if f"| {claim.name} |" not in PAGE] == []
