"""The documentation as built: every link leads somewhere, and nothing is fetched from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import pytest

from tests.e2e.browser import chromium
from tests.e2e.pages import ROOT

pytestmark = pytest.mark.xdist_group("site")
WIDTHS = (1440, 820, 390)


LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""The attribute by which an element loads something."""


class Links(HTMLParser):
    """The places a page has (ids), the places it leads to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.places, self.leads, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places.update(name for name in (found.get("id"), found.get("name")) if name)
        if tag == "a" and found.get("href"):
            self.leads.append(found["href"])
        wanted = found.get(LOADED.get(tag, ""))
        if wanted and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(wanted)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    # not --quiet, which hides the warnings that --strict counts
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return {path: Links(path) for path in sorted(place.rglob("*.html")) if path.name != "404.html"}


def test_every_link_leads_somewhere(site):
    dead = [
        f"{path.name}: {link}"
        for path, page in site.items()
        for link in page.leads
        if not _lives(site, path, link)
    ]
    assert dead == []
    assert sum(len(page.leads) for page in site.values()) > 1000


def test_nothing_is_loaded_from_elsewhere(site):
    loads = [(path, one) for path, page in site.items() for one in page.loads if not one.startswith("data:")]
    assert [f"{path.name}: {one}" for path, one in loads if re.match(r"(\w+:)?//", one)] == []
    files = [(path, path.parent / unquote(one.split("?")[0])) for path, one in loads]
    assert [f"{path.name}: {file.name}" for path, file in files if not file.is_file()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_files_beside_the_docs(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / urldefrag(link).url).exists()] == []


def test_pages_open_from_the_disk_without_a_request_or_an_error(site):
    index = next(path for path in site if path.name == "index.html")
    chosen = [
        index,
        *(path for path in site if path.stem in ("get-started", "report", "reference", "first-automaton")),
    ]
    with chromium() as browser:
        wrong = [one for path in chosen for one in _open(browser, path)]
    assert wrong == []


def _open(browser, path):
    """What goes wrong when the page is opened at three widths: requests, errors, text beyond the edge."""
    page = browser.new_page()
    wrong = []
    page.on(
        "request", lambda sent: sent.url[:5] not in ("file:", "data:", "blob:") and wrong.append(sent.url)
    )
    page.on("pageerror", lambda error: wrong.append(f"{path.name}: {error}"))
    page.goto(path.as_uri())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if beyond > 0:
            wrong.append(f"{path.name} is {beyond} px too wide at {width}")
    page.close()
    return wrong


def _lives(site, path, link):
    """Whether a link leads to a page of the site, or a place on it; addresses elsewhere are only read."""
    if re.match(r"(https?|mailto):", link):
        return "//" not in link or len(link.split("/")) > 2
    file, place = urldefrag(link)
    target = (path.parent / unquote(file)).resolve() if file else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return not place or target not in site or unquote(place) in site[target].places
