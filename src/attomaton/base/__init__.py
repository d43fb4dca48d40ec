"""Parts that do not depend on the theory: errors, options, progress, tables, files, URLs, kernels."""

from attomaton.base import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is imported.
# isort: split
from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.base.drawing import paper_style as paper_style
    from attomaton.base.errors import (
        AttomatonError as AttomatonError,
        CorruptRun as CorruptRun,
        EmptyContext as EmptyContext,
        InvalidEmbeddings as InvalidEmbeddings,
        InvalidSamples as InvalidSamples,
        MismatchedParts as MismatchedParts,
        MissingExtra as MissingExtra,
        NothingRealisable as NothingRealisable,
        SameWeights as SameWeights,
        SkippedDocuments as SkippedDocuments,
        StepBeyondEdge as StepBeyondEdge,
        TokenOutOfRange as TokenOutOfRange,
        UncertifiedSolution as UncertifiedSolution,
        UndeterminedChoice as UndeterminedChoice,
        UnknownToken as UnknownToken,
        UnreadableModel as UnreadableModel,
        UnreadableSource as UnreadableSource,
        UnsupportedOption as UnsupportedOption,
        UnwritablePlace as UnwritablePlace,
    )
    from attomaton.base.frames import Tabular as Tabular, Worded as Worded
    from attomaton.base.progress import Stages as Stages
    from attomaton.base.remote import RemotePath as RemotePath, Stat as Stat
    from attomaton.base.solutions import Certificate as Certificate, Solution as Solution, Status as Status
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
