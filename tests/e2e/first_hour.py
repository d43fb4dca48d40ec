"""A new user's first hour with a text of their own, from an empty environment to the open report, timed.

``python -m tests.e2e.first_hour`` writes ``docs/first-hour.md``: the commands, what they printed, and the
seconds they took. It needs the text (a folder named by ATTOMATON_DATA), Chromium, and a few minutes.
"""

import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from textwrap import wrap

from tests.e2e.browser import Opened, chromium
from tests.e2e.environments import ROOT, Environment, build

PAGE = ROOT / "docs" / "first-hour.md"
TEXT = "moby-dick.txt"
CONTEXT = "the head of a whale and that of"
LIMIT = 300
"""Seconds from the empty environment to the answer in the open page; downloads are not counted."""

COMMANDS = (
    "pip install attomaton",
    f"attomaton learn {TEXT} --window 8 --out run",
    f'attomaton explain run "{CONTEXT}"',
    "attomaton report run --out report.html",
)
OPENED = "report.html opened in a browser, and the same context typed into its box"

HEAD = """# The first hour

From nothing to an answer about a text of one's own: the terminal as it was, and how long each step took.
The text is *Moby Dick*, one file of 1.2 MB; put the name of yours in its place.
"""
NOTES = {
    0: "An empty virtual environment, Python {python}. The wheels had been downloaded before.",
    1: "The first `learn` on a machine also compiles: most of its seconds are spent once and never again.",
    2: "A context of one's own words. The answer names its rule, and the evidence in the text behind it.",
    3: "One page to keep or to send.",
}
TAIL = """
It needs no network. Typed into its box, the same context has the same answer, computed in the page:

![The report of Moby Dick with the answer to a context](figures/first-hour.png)

## How long it took

{table}

Downloads are not counted (about {megabytes} MB of wheels). Measured on {machine} by the
command that wrote this page, `python -m tests.e2e.first_hour`; `tests/e2e/test_first_hour.py` runs the same
steps and holds the total under {limit} seconds and the output to what is shown here.
"""


def find_text():
    """Where the text is, or None."""
    data = Path(os.environ.get("ATTOMATON_DATA", ROOT / "../shared/data"))
    text = data / "gutenberg" / TEXT
    return text if text.is_file() else None


def spend(folder, wheel, picture=None):
    """Walk through the hour in an empty folder: the steps as (command, what it printed, seconds)."""
    download(folder, wheel)
    begun = time.perf_counter()
    environment = Environment(folder)
    shutil.copy(find_text(), folder / TEXT)
    steps = []
    for command in COMMANDS:
        asked = shlex.split(command)
        if asked[0] == "pip":  # as without a network: what would be downloaded is there
            asked += ["--no-index", "--find-links", "wheels"]
        result = environment.run(*asked, COLUMNS="80", NO_COLOR="1")
        assert result.returncode == 0, result.stderr
        steps.append((command, result.stdout, time.perf_counter() - begun))
        begun = time.perf_counter()
    answer = open_report(folder / "report.html", picture)
    steps.append((OPENED, answer, time.perf_counter() - begun))
    return steps


def download(folder, wheel):
    """All that an install of the wheel would download, into ``folder / "wheels"``; not counted."""
    before = Environment(folder / "before")
    result = before.run("pip", "download", "--quiet", "--dest", folder / "wheels", wheel)
    assert result.returncode == 0, result.stderr
    shutil.copy(wheel, folder / "wheels")
    shutil.rmtree(folder / "before")


def open_report(path, picture=None):
    """Type the context into the page; the rule and the tokens of its answer, with their chances."""
    with chromium() as browser:
        opened = Opened(browser.new_page(viewport={"width": 1100, "height": 800}), path)
        opened.page.fill("#context-text", CONTEXT)
        opened.page.wait_for_selector("#answer tbody tr")
        rows = opened.page.eval_on_selector_all(
            "#answer tbody tr",
            "rows => rows.map(row => [row.cells[0].innerText.split('\\n')[0],"
            " row.querySelector('data').textContent].join(' '))",
        )
        told = "\n".join([opened.page.inner_text("#rule"), *rows])
        if picture is not None:
            opened.page.locator("#answer").scroll_into_view_if_needed()
            opened.page.screenshot(path=picture)
        assert opened.wrong == []
    return told


def shown(command, printed):
    """What the page shows of a command's output: all of it, but of pip's the last line."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return ["…", *wrap(lines[-1], 80)] if command.startswith("pip ") else lines


def unvarying(lines):
    """The lines without what rounding and releases of other packages decide."""
    text = "\n".join(lines)
    text = re.sub(r"Successfully installed .*", "Successfully installed", text, flags=re.DOTALL)
    return re.sub(r"(relative gap|gradient) \d\.\de[+-]\d\d", r"\1", text)


def render(steps, megabytes):
    """The page."""
    parts = [HEAD]
    for number, (command, printed, _) in enumerate(steps[:-1]):
        note = NOTES[number].format(python=platform.python_version())
        block = "\n".join([f"$ {command}", *shown(command, printed)])
        parts.append(f"\n{note}\n\n```console\n{block}\n```\n")
    rows = [
        f"| {'`' + name + '`' if name in COMMANDS else name} | {seconds:.1f} |" for name, _, seconds in steps
    ]
    rows += [f"| **all** | **{sum(seconds for *_, seconds in steps):.1f}** |"]
    table = "\n".join(["| step | seconds |", "|---|---:|", *rows])
    facts = {"table": table, "megabytes": megabytes, "machine": describe_load(), "limit": LIMIT}
    return "".join(parts) + TAIL.format(**facts)


def describe_load():
    """Processors, and how many programs wanted them in the minutes before."""
    return f"{os.cpu_count()} processors that {os.getloadavg()[1]:.0f} programs shared"


def main():
    if find_text() is None:
        sys.exit(f"no {TEXT}: set ATTOMATON_DATA to a folder with gutenberg/{TEXT}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "hour").mkdir()
        wheel = build(folder / "dist", kinds=("--wheel",))[0]
        steps = spend(folder / "hour", wheel, picture=ROOT / "docs" / "figures" / "first-hour.png")
        megabytes = sum(file.stat().st_size for file in (folder / "hour" / "wheels").iterdir()) // 1_000_000
        PAGE.write_text(render(steps, megabytes), encoding="utf-8")
    for name, _, seconds in steps:
        sys.stdout.write(f"{seconds:7.1f} s  {name}\n")


if __name__ == "__main__":
    main()
