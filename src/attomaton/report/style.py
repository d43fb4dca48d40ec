"""How figures are made and saved, in the style of :mod:`attomaton.base.drawing`.

They are made without pyplot, so the backend and the windows of the session that asks for them stay as they
are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import explained
from attomaton.base.drawing import ONE_COLUMN


def new_figure(height: float, *, width: float = ONE_COLUMN) -> Any:
    """An empty figure of this size in inches; call it inside :func:`paper_style`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


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


def hide_rest(axes: Any, n_used: int) -> Sequence[Any]:
    """The axes that are used; the others are hidden."""
    for axis in axes.flat[n_used:]:
        axis.set_visible(False)
    return axes.flat[:n_used]
