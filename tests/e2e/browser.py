"""Chromium for tests: Debian's, without a window, and without any request but for files."""

import shutil
from contextlib import contextmanager

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Opened:
    """A page with all that went wrong in it: console errors, exceptions, requests beyond the file."""

    def __init__(self, page, path):
        self.page, self.wrong = page, []
        page.on("console", lambda told: told.type in ("error", "warning") and self.wrong.append(told.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda sent: sent.url != path.as_uri() and self.wrong.append(sent.url))
        page.goto(path.as_uri())


@contextmanager
def chromium():
    """A browser; it is closed at the end."""
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium")
    assert place, "no chromium: apt-get install chromium (.ci/run does)"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place, args=list(FLAGS))
        yield browser
        browser.close()


def find_serious(page, axe):
    """The serious findings of axe in a page as it is shown."""
    page.evaluate(axe)
    return [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in page.evaluate("axe.run().then(result => result.violations)")
        if one["impact"] in ("serious", "critical")
    ]
