"""One style for every figure, ``paper.mplstyle``, which others can use by name, and how figures are saved.

``matplotlib.pyplot.style.use("attomaton.report.paper")`` gives a paper's own figures the same widths, fonts
and colours. Figures here are made without pyplot, so the style, the backend and the windows of the session
that asks for them stay as they are.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attomaton.artifacts import explained
from attomaton.display import show_hidden
from attomaton.drawing import ONE_COLUMN, STYLE, TWO_COLUMNS, loading_matplotlib, paper_style

__all__ = [
    "GREY",
    "HEIGHT",
    "LIGHT",
    "ONE_COLUMN",
    "STYLE",
    "TWO_COLUMNS",
    "drawable",
    "finish_figure",
    "hide_rest",
    "measure_text",
    "new_figure",
    "paper_style",
    "save_figure",
    "wrap_caption",
]

FONT_SIZE, TITLE_SIZE = 6.5, 7.0
"""Points of the style's text, and of captions."""

MARGIN = 0.16
"""Inches that a caption keeps from the edges, both together."""

HEIGHT = 1.35
"""Inches of one row of panels."""

GREY, LIGHT = "0.55", "0.93"
"""Colours of what is beside the point, and of what is left out."""


def new_figure(height: float, *, width: float = ONE_COLUMN) -> Any:
    """An empty figure of this size in inches; call it inside :func:`paper_style`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


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


def finish_figure(figure: Any, path: Path, *, caption: str, n_columns: int) -> list[Path]:
    """Caption above, one legend of all panels below; write ``path`` as PNG and PDF."""
    named = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(named.values(), named, loc="outside lower center", ncols=n_columns)
    return save_figure(figure, path, caption=caption)


def save_figure(figure: Any, path: Path, *, caption: str) -> list[Path]:
    """Caption above; write ``path`` as PNG and PDF, the same bytes whenever it is drawn."""
    figure.suptitle(caption, parse_math=False)
    written = [path.with_suffix(kind) for kind in (".png", ".pdf")]
    with explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in written:
            figure.savefig(file, metadata={"CreationDate": None} if file.suffix == ".pdf" else None)
    return written


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


def hide_rest(axes: Any, n_used: int) -> Sequence[Any]:
    """The axes that are used; the others are hidden."""
    for axis in axes.flat[n_used:]:
        axis.set_visible(False)
    return axes.flat[:n_used]


@cache
def _font() -> Any:
    """The style's font, which comes with matplotlib."""
    with loading_matplotlib():
        from matplotlib import font_manager, ft2font

    fonts: Any = font_manager
    return ft2font.FT2Font(fonts.findfont("DejaVu Sans"))
