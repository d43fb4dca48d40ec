"""Parts that do not depend on the theory: errors, options, progress, tables, files, URLs, kernels."""

from attomaton.base import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is imported.
# isort: split
from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.base.drawing import paper_style as paper_style
    from attomaton.base.errors import AttomatonError as AttomatonError
    from attomaton.base.frames import Tabular as Tabular
    from attomaton.base.solutions import Status as Status
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
