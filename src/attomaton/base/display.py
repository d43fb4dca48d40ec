"""What everything shown shares: how much is shown, hidden characters written out, long texts cut, colours."""

import json
import re

SHOWN = 8
"""Rows of a table that are shown."""

TOKEN_LENGTH, TEXT_LENGTH = 40, 600
"""Characters of a token, and of any other text, that are shown."""

LONGEST_WORD, KEPT, LONGEST_CELL = 4096, 200, 20_000
"""Characters of a word that a terminal shows whole (no path is longer), what it shows of a longer one, and
the most of any text."""

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
"""Colours that readers with any kind of colour vision tell apart (Okabe and Ito)."""

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: what terminals obey, and XML cannot hold
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line and paragraph ends, marks that turn the direction
    "\ufeff\ufffe\uffff\ud800-\udfff]"  # byte order mark, no characters, halves of characters
)
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def show_hidden(text: str) -> str:
    r"""The text with every hidden character written out, as in JSON; a backslash stays as it is."""
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def shorten(text: str, most: int = TOKEN_LENGTH) -> str:
    """The text without hidden characters, its first part and its length if it is long."""
    return (
        show_hidden(text) if len(text) <= most else f"{show_hidden(text[:most])}… ({len(text):,} characters)"
    )


def cut_long(text: str) -> str:
    """The text, shortened: words that no line holds are cut, with their length, and so is a long text.

    A token may have millions of characters, and a terminal's table wraps each of them.
    """
    if len(text) <= LONGEST_WORD:
        return text
    cut = _LONG_WORD.sub(lambda match: shorten(match[0], KEPT), text)
    return cut if len(cut) <= LONGEST_CELL else shorten(cut, LONGEST_CELL)
