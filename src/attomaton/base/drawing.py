"""Draw figures in the house style: those of reports, and the ``plot`` methods of values.

matplotlib is loaded when something is drawn. The style is ``report/paper.mplstyle``, which other code can use
by name: ``matplotlib.pyplot.style.use("attomaton.report.paper")``. Plots set colours by value, because
matplotlib looks up numbered colours only when a figure is shown, after the style has ended.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

from attomaton.base.errors import UnreadableSource, needing
from attomaton.base.printing import show_hidden

STYLE = "attomaton.report.paper"  # the style's name for matplotlib
ONE_COLUMN = 3.4  # inches: the width of a figure in one column
TWO_COLUMNS = 7.0  # inches: the width of a figure across two columns
FONT_SIZE = 6.5  # points: the text of the style
TITLE_SIZE = 7.0  # points: captions
CAPTION_MARGIN = 0.16  # inches between a caption and the edges, both sides together
PANEL_HEIGHT = 1.35  # inches: one row of panels
HOUSE_GREY = "0.55"  # the colour of background elements
HOUSE_LIGHT = "0.93"  # the colour of missing elements
MEASURING_DPI = 720  # dots per inch at which text is measured: fine enough to ignore rounding to dots
FONT_UNITS_PER_DOT = 64  # FreeType's unit of length


@contextmanager
def paper_style() -> Generator[None]:
    """Draw and save figures in the house style, ignoring the settings of the session.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> with paper_style():
    ...     mpl.rcParams["font.size"]
    6.5
    """
    with loading_matplotlib():
        from matplotlib import style
    context: Any = style.context(STYLE, after_reset=True)
    with context:
        yield


@contextmanager
def house_axes(
    ax: Any = None, *, height: float, width: float = ONE_COLUMN, n: int = 1, side_by_side: bool = False
) -> Generator[Any]:
    """The axes to draw on in the house style: ``ax``, or ``n`` new axes in a column (or ``side_by_side``)."""
    with paper_style():
        if ax is None:
            # new axes belong to pyplot, so that notebooks and `pyplot.show()` show them; sizes are in inches
            from matplotlib import pyplot as plt

            plots: Any = plt
            rows, columns = (1, n) if side_by_side else (n, 1)
            _, ax = plots.subplots(rows, columns, figsize=(width, height))
        yield ax


def colour_map(colours: Sequence[str]) -> Any:
    """A matplotlib colormap that passes through these colours, from 0 to 1."""
    with loading_matplotlib():
        from matplotlib.colors import LinearSegmentedColormap
    return cast("Any", LinearSegmentedColormap).from_list("attomaton", list(colours))


@contextmanager
def loading_matplotlib() -> Generator[None]:
    """Import matplotlib inside this context: a missing or misconfigured matplotlib is explained."""
    try:
        with needing("a figure"):
            yield
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            "matplotlib cannot read its settings file matplotlibrc, in the working directory or in its own "
            f"folder ({error.reason}); correct the file, or move it"
        ) from error


def wrap_caption(caption: str, *, width: float = ONE_COLUMN) -> list[str]:
    """The lines of a caption, broken at spaces, but not beside =, to fit a figure of ``width`` inches."""
    lines: list[str] = []
    for paragraph in caption.split("\n"):
        lines.append("")
        for word in filter(None, paragraph.replace(" = ", "\u00a0=\u00a0").split(" ")):
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and measure_text(longer, TITLE_SIZE) > width - CAPTION_MARGIN:
                lines.append(word)
            else:
                lines[-1] = longer
    return lines


def drawable(text: str, most: int) -> str:
    """A token as a figure shows it, at most ``most`` characters: U+… for a character not in the font."""
    characters = _font().get_charmap()
    shown = [
        sign if sign.isprintable() and ord(sign) in characters else f"U+{ord(sign):04X}"
        for sign in show_hidden(text[: most + 1])
    ]
    ending = ""  # shown has at most one character more than fits, but an escape such as U+2028 is longer
    while sum(map(len, shown)) + len(ending) > most:
        shown.pop()
        ending = "…"
    return "".join(shown) + ending


def white_outline() -> list[Any]:
    """Path effects of a text that stays legible above dots and lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=1.5, foreground="white")]


def measure_text(text: str, size: float = FONT_SIZE) -> float:
    """The width of a text in inches; ``size`` is the size of the font in points."""
    font = _font()
    font.set_size(size, MEASURING_DPI)
    font.set_text(text)
    width, _ = font.get_width_height()
    return width / FONT_UNITS_PER_DOT / MEASURING_DPI


@cache
def _font() -> Any:
    with loading_matplotlib():
        from matplotlib import font_manager, ft2font

    return ft2font.FT2Font(cast("Any", font_manager).findfont("DejaVu Sans"))
