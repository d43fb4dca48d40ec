"""The documentation as built, and what each of its pages holds."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from tests.e2e.pages import ROOT

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""The attribute by which an element loads something."""


class Links(HTMLParser):
    """The places a page has (ids), the places it leads to, and what it loads."""

    def __init__(self, html):
        super().__init__()
        self.places, self.leads, self.loads = set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places.update(name for name in (found.get("id"), found.get("name")) if name)
        if tag == "a" and found.get("href"):
            self.leads.append(found["href"])
        wanted = found.get(LOADED.get(tag, ""))
        if wanted and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(wanted)


def read_site(place):
    """The links of every page of the site that ``.ci/run`` has built, or of one that is built here."""
    if "ATTOMATON_SITE" in os.environ:
        place = Path(os.environ["ATTOMATON_SITE"])
    else:
        build_site(place)
    pages = [path for path in sorted(place.rglob("*.html")) if path.name != "404.html"]
    return {path: Links(path.read_text(encoding="utf-8")) for path in pages}


def build_site(place):
    """Build strictly. Not --quiet, which hides the warnings that --strict counts."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr[-3000:]


def leads_somewhere(site, path, link):
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
