"""Photograph the report of the example story: ``python docs/pictures/report.py`` (Chromium, playwright)."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))  # the browser of the tests

from tests.cli.inside import run_inside
from tests.e2e.browser import chromium

PLACE = Path(__file__).parents[1] / "figures" / "report.png"
CONTEXT = "the bird saw the lamp and the girl saw the"


def photograph(place: Path) -> None:
    """Learn the story, write its report, type a context, and photograph the two cards below it."""
    with TemporaryDirectory() as folder, chromium() as browser:
        for command in ("example story.txt", "learn story.txt --window 8 --out run", "report run"):
            assert run_inside(*command.split(), cwd=folder).returncode == 0, command
        page = browser.new_page(viewport={"width": 1100, "height": 2400})
        page.goto((Path(folder) / "report.html").as_uri())
        page.fill("textarea", CONTEXT)
        page.wait_for_timeout(300)
        first = page.locator("section", has=page.locator("textarea")).bounding_box()
        last = page.locator("section", has=page.locator("#query-list")).bounding_box()
        assert first is not None
        assert last is not None
        height = last["y"] + last["height"] - first["y"] + 16
        clip = {"x": 0, "y": first["y"] - 8, "width": 1100, "height": height}
        page.screenshot(path=place, clip=clip, full_page=True)


if __name__ == "__main__":
    photograph(PLACE)
