"""A new user, a novel and an empty environment: from the install to the open report, in minutes."""

import os
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from tests.e2e.browser import Opened, chromium
from tests.e2e.environments import ROOT, Environment

TEXT = Path(os.environ.get("ATTOMATON_DATA", ROOT / "../shared/data")) / "gutenberg" / "moby-dick.txt"
CONTEXT = "the head of a whale and that of"
LIMIT = 300
"""Seconds from the empty environment to the answer in the open page; downloads are not counted."""
COMMANDS = (
    "pip install attomaton --no-index --find-links wheels",
    "attomaton learn moby-dick.txt --window 8 --out run",
    f'attomaton explain run "{CONTEXT}"',
    "attomaton report run --out report.html",
)


@pytest.mark.slow  # installs into a new environment
@pytest.mark.timing
@pytest.mark.skipif(not TEXT.is_file(), reason="no real corpora here (listed in tests/SKIPS.md)")
def test_from_an_empty_environment_to_the_open_report(wheel, tmp_path):
    download(tmp_path, wheel)
    begin = time.perf_counter()
    environment = Environment(tmp_path)
    shutil.copy(TEXT, tmp_path)
    printed = {}
    for command in COMMANDS:
        result = environment.run(*shlex.split(command), COLUMNS="80", NO_COLOR="1")
        assert result.returncode == 0, result.stderr
        printed[command] = result.stdout
    rule, rows = open_report(tmp_path / "report.html")
    assert time.perf_counter() - begin < LIMIT
    assert f"Rule: {rule}" in printed[COMMANDS[2]]
    for token, probability in rows:
        if (
            float(probability) > 0
        ):  # the terminal lists what is retrieved, the page every token of the context
            assert re.search(rf"│ {token}\s+│ {probability}", printed[COMMANDS[2]])


def download(folder, wheel):
    """All that an install of the wheel would download, into ``folder / "wheels"``; not counted."""
    before = Environment(folder / "before")
    result = before.run("pip", "download", "--quiet", "--dest", folder / "wheels", wheel)
    assert result.returncode == 0, result.stderr
    shutil.copy(wheel, folder / "wheels")
    shutil.rmtree(folder / "before")


def open_report(path):
    """Type the context into the page: the rule, and the tokens of its answer with their probabilities."""
    with chromium() as browser:
        opened = Opened(browser.new_page(viewport={"width": 1100, "height": 800}), path)
        opened.page.fill("#context-text", CONTEXT)
        opened.page.wait_for_selector("#answer tbody tr")
        rows = opened.page.eval_on_selector_all(
            "#answer tbody tr",
            "rows => rows.map(row => [row.cells[0].innerText.split('\\n')[0],"
            " row.querySelector('data').textContent])",
        )
        assert opened.wrong == []
        return opened.page.inner_text("#rule"), rows
