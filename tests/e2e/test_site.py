"""The documentation as built: every link leads somewhere, and nothing is fetched from elsewhere."""

import re
from urllib.parse import unquote, urldefrag

import pytest

from tests.e2e.browser import chromium
from tests.e2e.built import leads_somewhere, read_site
from tests.e2e.pages import ROOT

WIDTHS = (1440, 820, 390)
TUTORIALS = sorted(path.stem for path in (ROOT / "docs" / "tutorials").glob("*.ipynb"))
OPENED = ["index", "get-started", "figures", "reference", *TUTORIALS]
MOST_BYTES = 500_000
"""Of a tutorial's page: JupyterLab's style sheets alone would be more."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return read_site(tmp_path_factory.mktemp("site"))


def test_every_link_leads_somewhere(site):
    links = [(path, link) for path, page in site.items() for link in page.leads]
    assert len(links) > 1000
    assert [f"{path.name}: {link}" for path, link in links if not leads_somewhere(site, path, link)] == []


def test_nothing_is_loaded_from_elsewhere(site):
    loads = [(path, one) for path, page in site.items() for one in page.loads if not one.startswith("data:")]
    assert [f"{path.name}: {one}" for path, one in loads if re.match(r"(\w+:)?//", one)] == []
    files = [(path, path.parent / unquote(one.split("?")[0])) for path, one in loads]
    assert [f"{path.name}: {file.name}" for path, file in files if not file.is_file()] == []


def test_every_page_is_in_the_contents(site):
    index = next(path for path in site if path.name == "index.html")
    reached = {(index.parent / unquote(urldefrag(link).url)).resolve() for link in site[index].leads}
    assert [path.name for path in site if path.resolve() not in reached] == []
    assert len(TUTORIALS) == 12


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_files_beside_the_docs(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / urldefrag(link).url).exists()] == []


@pytest.mark.slow  # every page in the browser
def test_pages_open_from_the_disk_without_a_request_or_an_error(site):
    chosen = [path for path in site if path.stem in OPENED]
    assert {path.stem for path in chosen} == set(OPENED)
    assert [path.name for path in chosen if path.stem in TUTORIALS and path.stat().st_size > MOST_BYTES] == []
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
