"""Render pages: self-contained HTML files with styles and scripts inline and the data as JSON."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from attomaton.base.artifacts import begins_with

# Characters that occur only inside JSON strings, and their escapes.
ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}

# The package whose assets all pages share.
COMMON = "attomaton.base"

# Whether a file is a page of attomaton, which a new one may replace.
is_page = begins_with(b'<meta name="generator" content="attomaton">')


def to_json(record: Any) -> str:
    r"""A record as compact JSON that cannot end its script element or be parsed as markup."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(ESCAPES)


def render_page(package: str, scripts: Sequence[str], data: str, *, title: str) -> str:
    """Render a page around its JSON, made safe by :func:`to_json`.

    The assets of the package are ``body.html``, ``style.css`` and the scripts. The content security policy
    allows exactly this script and this style, so nothing in a token, or added to the file later, can run or
    fetch.
    """
    texts = [asset(package, f"{name}.js") for name in scripts]
    statements = "\n".join([asset(COMMON, "elements.js"), *texts])
    script = f'"use strict";\n(() => {{\n{statements}\n}})();'  # a function, so that its names are not global
    style = asset(COMMON, "style.css") + asset(package, "style.css")
    body = asset(package, "body.html") + f'<script type="application/json" id="data">{data}</script>\n'
    body += f"<script>{script}</script>"
    return frame_page(title, style, body, policy=f"script-src '{digest(script)}'; ")


def frame_page(title: str, style: str, body: str, *, policy: str = "") -> str:
    """The HTML around a body, with this style and with what else ``policy`` allows."""
    policy = f"default-src 'none'; {policy}style-src '{digest(style)}'"
    values = {"POLICY": policy, "TITLE": title, "STYLE": style, "BODY": body}
    # page.html has the names of these values between %%, so every second text is a name
    texts = asset(COMMON, "page.html").split("%%")
    return "".join(values[text] if odd % 2 else text for odd, text in enumerate(texts))


def embed_page(page: str, *, height: int) -> str:
    """A page as a frame for notebooks, where the script can reach only the page."""
    source = escape(page, quote=False).replace("'", "&#x27;")  # JSON has too many double quotes to escape
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" srcdoc=\'{source}\'>'
        "</iframe>"
    )


def digest(text: str) -> str:  # as a content security policy writes it
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def asset(package: str, name: str) -> str:
    return (files(package) / "assets" / name).read_text(encoding="utf-8")
