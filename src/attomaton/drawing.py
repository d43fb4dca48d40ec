"""The house style for whoever draws: figures of reports, and the ``plot`` methods of values.

matplotlib is loaded when something is drawn. The style is ``report/paper.mplstyle``, which others can use by
name.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from attomaton.errors import UnreadableSource, needing

STYLE = "attomaton.report.paper"
"""The style's name for matplotlib."""

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Inches of a figure as wide as one column, or two."""


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
def house_axes(ax: Any = None, *, height: float, width: float = ONE_COLUMN) -> Generator[Any]:
    """Axes to draw on, in the house style as long as they are drawn on: those given, or new ones.

    New axes belong to pyplot, so that a notebook shows them and ``pyplot.show()`` does; sizes are in inches.

    Examples
    --------
    >>> with house_axes(height=1.0) as ax:
    ...     lines = ax.plot([0, 1], [1, 0])
    >>> ax.spines["top"].get_visible(), ax.figure.get_size_inches().tolist()
    (False, [3.4, 1.0])
    """
    with paper_style():
        if ax is None:
            from matplotlib import pyplot as plt

            plots: Any = plt
            _, ax = plots.subplots(figsize=(width, height))
        yield ax


@contextmanager
def loading_matplotlib() -> Generator[None]:
    """Say what is missing, or wrong, where matplotlib cannot be loaded."""
    try:
        with needing("a figure"):
            yield
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            f"matplotlib cannot read its file matplotlibrc, here or in its own folder ({error.reason}); "
            f"mend it, or move it away"
        ) from error
