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
    """Learn the story, write its report, type a context, and take the picture from the box to the graph."""
    with TemporaryDirectory() as folder, chromium() as browser:
        for command in ("example story.txt", "learn story.txt --window 8 --out run", "report run"):
            assert run_inside(*command.split(), cwd=folder).returncode == 0, command
        page = browser.new_page(viewport={"width": 1100, "height": 2400})
        page.goto((Path(folder) / "report.html").as_uri())
        page.fill("textarea", CONTEXT)
        page.wait_for_timeout(300)
        start = page.locator("section", has=page.locator("textarea")).bounding_box()
        assert start is not None
        page.screenshot(
            path=place, clip={"x": 0, "y": start["y"] - 8, "width": 1100, "height": 1640}, full_page=True
        )


if __name__ == "__main__":
    photograph(PLACE)
