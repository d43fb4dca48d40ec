r"""Token text where a reader could mistake it for something else: files for other programs.

One rule for all of them: what cannot be seen or could be obeyed is written as in a JSON string (``\n``,
``\u001b``), and where the text must be found again a backslash is written twice. Quotes stay as they are.
"""

import re

from attomaton.base.display import show_hidden

_FORMULA = re.compile("(?:^|(?<=[;,|\"']))(\\s*)([=+\\-@\uff1d\uff0b\uff0d\uff20])(?=.)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def escape_text(text: str) -> str:
    r"""The text with hidden characters escaped and backslashes doubled: :func:`unescape_text` undoes it."""
    return show_hidden(text.replace("\\", "\\\\"))


def escape_cell(text: str) -> str:
    r"""As :func:`escape_text`, and no spreadsheet takes the cell for a formula.

    A sign that begins a formula is written out where a cell begins, or where one would if the text were split
    at other separators; a sign that is the whole text does nothing and stays.
    """
    return _FORMULA.sub(lambda match: match[1] + f"\\u{ord(match[2]):04x}", escape_text(text))


def unescape_text(text: str) -> str:
    r"""What :func:`escape_text` or :func:`escape_cell` was given.

    Examples
    --------
    >>> unescape_text(r"\u003d1 \\n \n")
    '=1 \\n \n'
    """
    return _ESCAPE.sub(_read_escape, text)


def _read_escape(match: "re.Match[str]") -> str:
    return chr(int(match[1], 16)) if match[1] is not None else _SHORT.get(match[2], match[2])
