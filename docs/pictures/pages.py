"""Photograph the page of a board and that of an audit: ``python docs/pictures/pages.py heads.html``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the browser of the tests

from tests.cli.inside import run_inside
from tests.e2e.browser import chromium

FIGURES = Path(__file__).parents[1] / "figures"
BOARD = (
    "choices arena.csv --moved-first model_a --features length --cluster judge --scale elo --page board.html"
)


def photograph(heads: Path) -> None:
    """The board of arena.csv, and the page of the audit."""
    with TemporaryDirectory() as folder, chromium() as browser:
        for command in ("example arena.csv", BOARD):
            assert run_inside(*command.split(), cwd=folder).returncode == 0, command
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.goto((Path(folder) / "board.html").as_uri())
        _take(page, FIGURES / "board-page.png", "Coefficients")
        page.set_viewport_size(
            {"width": 1100, "height": 1220}
        )  # the card beside the map is as tall as the window
        page.goto(heads.absolute().as_uri())
        page.wait_for_timeout(500)
        _take(page, FIGURES / "heads-page.png", "Layers × heads")


def _take(page: Any, place: Path, last: str) -> None:
    """From the top of the page to the lower border of the card with this heading."""
    box = page.locator("section", has=page.get_by_role("heading", name=last)).first.bounding_box()
    clip = {"x": 0, "y": 0, "width": 1100, "height": box["y"] + box["height"] + 8}
    page.screenshot(path=place, clip=clip, full_page=True)


if __name__ == "__main__":
    photograph(Path(sys.argv[1]))
