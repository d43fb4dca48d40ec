"""How every picture looks: one style, its sizes and its font, and the axes that a plot is drawn in.

``matplotlib.pyplot.style.use("attomaton.report.paper")`` gives a paper's own figures the same widths, fonts
and colours. What is drawn here is drawn inside the style, so that the settings of the session that asks for
it stay as they are. Colours are given by their values: a colour by number is looked up when a figure is
shown, after the style has ended.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from attomaton.display import show_hidden
from attomaton.errors import UnreadableSource, needing

STYLE = "attomaton.report.paper"
"""The style's name for matplotlib."""

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Inches of a figure as wide as one column, or two."""

FONT_SIZE, TITLE_SIZE = 6.5, 7.0
"""Points of the style's text, and of captions."""

MARGIN = 0.16
"""Inches that a caption keeps from the edges, both together."""

HEIGHT = 1.35
"""Inches of one row of panels."""

GREY, LIGHT = "0.55", "0.93"
"""Colours of what is beside the point, and of what is left out."""


@contextmanager
def paper_style() -> Generator[None]:
    """The style, and nothing of what the session has set, for as long as a figure is drawn and saved.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> with paper_style():
    ...     mpl.rcParams["pdf.fonttype"]
    42
    >>> mpl.rcParams["pdf.fonttype"]
    3
    """
    with loading_matplotlib():
        from matplotlib import style
    context: Any = style.context(STYLE, after_reset=True)
    with context:
        yield


@contextmanager
def plotting(ax: Any = None, *, height: float = 2.1, width: float = ONE_COLUMN, n: int = 1) -> Generator[Any]:
    """The axes to draw in, inside the style: those given, or ``n`` new ones below each other.

    New ones belong to pyplot, so that a notebook shows them and ``pyplot.show()`` opens them.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> mpl.use("agg")
    >>> with plotting(height=1.5) as axes:
    ...     _ = axes.plot([1, 2])
    >>> axes.figure.get_size_inches().tolist()
    [3.4, 1.5]
    """
    with paper_style():
        if ax is not None:
            yield ax
            return
        with loading_matplotlib():
            import matplotlib.pyplot as plt
        tools: Any = plt
        _, axes = tools.subplots(n, 1, figsize=(width, height))
        yield axes


def wrap_caption(caption: str, *, width: float = ONE_COLUMN) -> list[str]:
    """The caption in lines that fit the width.

    Examples
    --------
    >>> wrap_caption("Loss and norm of W by step, measured and predicted from the corpus alone")
    ['Loss and norm of W by step, measured and predicted from the', 'corpus alone']
    """
    lines: list[str] = []
    for part in caption.split("\n"):
        lines.append("")
        for word in part.split():
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and measure_text(longer, TITLE_SIZE) > width - MARGIN:
                lines.append(word)
            else:
                lines[-1] = longer
    return lines


def drawable(text: str, most: int) -> str:
    """A token as a figure can hold it: hidden signs and those the font lacks by number, cut if long.

    Examples
    --------
    >>> drawable("lighthouse", 6), drawable("a😀", 20)
    ('light…', 'a😀')
    """
    known = _font().get_charmap()
    shown = [
        sign if sign.isprintable() and ord(sign) in known else f"U+{ord(sign):04X}"
        for sign in show_hidden(text[: most + 1])
    ]
    cut = False
    while sum(map(len, shown)) + cut > most:
        shown.pop()
        cut = True
    return "".join(shown) + "…" * cut


def measure_text(text: str, size: float = FONT_SIZE) -> float:
    """Inches that a text takes, in points of the style's font."""
    font = _font()
    font.set_size(size, 720)
    font.set_text(text)
    return font.get_width_height()[0] / 64 / 720


@cache
def _font() -> Any:
    """The style's font, which comes with matplotlib."""
    with loading_matplotlib():
        from matplotlib import font_manager, ft2font

    fonts: Any = font_manager
    return ft2font.FT2Font(fonts.findfont("DejaVu Sans"))


@contextmanager
def loading_matplotlib() -> Generator[None]:
    """Say what to install, or what to mend, where matplotlib does not load."""
    try:
        with needing("a figure"):
            yield
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            f"matplotlib cannot read its file matplotlibrc, here or in its own folder ({error.reason}); "
            f"mend it, or move it away"
        ) from error
