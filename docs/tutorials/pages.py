"""A hook of mkdocs: notebooks as pages of this site.

mkdocs-jupyter turns a notebook into a page that brings JupyterLab's style sheets
(600 kB) and scripts from the network, and leaves links as they are. Here only the cells
are kept, in the site's own style, and links to other sources become links to their
pages; one that leads nowhere is a warning, so a strict build fails. A notebook that
installs attomaton by itself can be downloaded, and opened in Colab where the name of
the repository is known: GitHub's workflows set ``GITHUB_REPOSITORY``.
"""

import logging
import os
import posixpath
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

LOG = logging.getLogger("mkdocs.hooks.tutorials")

CHROME = (
    ".zeroclipboard-container, .clipboard-copy-txt, .celltoolbar, "
    ".jp-InputPrompt, .jp-OutputPrompt"
)
"""Parts of JupyterLab around cells: buttons, tags, prompts."""

INSTALLS = "%pip install"
"""What a notebook for hosted services has in its first code."""

COLAB = "https://colab.research.google.com/github/{}/blob/main/docs/{}"


def on_page_content(html: str, page: Any, files: Any, **_: Any) -> str:
    """The cells of a notebook; every other page as it is."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    cells = BeautifulSoup(html, "html.parser").select_one(".jupyter-wrapper")
    if cells is None:
        LOG.warning(
            "%s: no cells found in what mkdocs-jupyter made of it",
            page.file.src_uri,
        )
        return html
    for part in cells.select(CHROME):
        part.decompose()
    for part in cells.select("[tabindex]"):
        del part["tabindex"]  # a page is not stepped through cell by cell
    for code in cells.select(".highlight-ipynb"):
        _restyle(code)
    for cell in cells.select(".jp-Cell.celltag_fold .jp-Cell-inputWrapper"):
        _fold(cell)
    for anchor in cells.select("a.anchor-link"):
        anchor["class"] = ["headerlink"]
    for link in cells.select(".jp-MarkdownCell a[href]"):
        link["href"] = _resolve(str(link["href"]), page, files)
    if INSTALLS in cells.get_text() and cells.h1 is not None:
        cells.h1.insert_after(_offer(page.file.src_uri))
    return str(cells)


def _offer(source: str) -> Tag:
    """Links to open a notebook elsewhere."""
    targets = {"Download the notebook": posixpath.basename(source)}
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        targets["Open in Colab"] = COLAB.format(repository, source)
    links = [f"<a href='{target}'>{name}</a>" for name, target in targets.items()]
    return BeautifulSoup(f"<p>{' · '.join(links)}</p>", "html.parser").find("p")


def _fold(source: Tag) -> None:
    """Source that few want to read, as that of a figure, behind a line to click."""
    soup = BeautifulSoup(
        "<details class='fold'><summary>code of this figure</summary></details>",
        "html.parser",
    )
    source.wrap(soup.details)


def _restyle(code: Tag) -> None:
    """Source as the site shows it elsewhere, with its colours and its copy button."""
    code["class"] = ["language-python", "highlight"]
    for block in code.select("pre"):
        inner = BeautifulSoup("", "html.parser").new_tag("code")
        inner.extend(list(block.contents))
        block.append(inner)


def _resolve(target: str, page: Any, files: Any) -> str:
    """Where a link leads on the built site."""
    parts = urlsplit(target)
    if parts.scheme or not parts.path:
        return target
    here = page.file.src_uri
    found = files.get_file_from_path(
        posixpath.normpath(posixpath.join(posixpath.dirname(here), parts.path))
    )
    if found is None:
        LOG.warning("%s links to %s, which is not there", here, target)
        return target
    address = found.url_relative_to(page.file)
    return f"{address}#{parts.fragment}" if parts.fragment else address
