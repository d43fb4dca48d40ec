"""Parts that do not depend on the theory: errors, options, progress, tables, files, URLs, kernels."""

from attomaton.base import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is imported.
# isort: split
from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.base.artifacts.arrays import (
        digest_arrays as digest_arrays,
        read_arrays as read_arrays,
        write_arrays as write_arrays,
    )
    from attomaton.base.artifacts.files import explained as explained
    from attomaton.base.artifacts.folders import build_folder as build_folder
    from attomaton.base.artifacts.manifests import (
        FolderKind as FolderKind,
        json_writer as json_writer,
        read_sealed as read_sealed,
        write_sealed as write_sealed,
    )
    from attomaton.base.drawing import (
        GREY as GREY,
        HEIGHT as HEIGHT,
        LIGHT as LIGHT,
        ONE_COLUMN as ONE_COLUMN,
        TWO_COLUMNS as TWO_COLUMNS,
        drawable as drawable,
        house_axes as house_axes,
        paper_style as paper_style,
        wrap_caption as wrap_caption,
    )
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
        needing as needing,
    )
    from attomaton.base.frames import Tabular as Tabular, Worded as Worded
    from attomaton.base.machine import share_out as share_out
    from attomaton.base.options import (
        MOST_THREADS as MOST_THREADS,
        MOST_TRIALS as MOST_TRIALS,
        make_rng as make_rng,
        real_number as real_number,
        settle as settle,
        whole_number as whole_number,
    )
    from attomaton.base.printing import Block as Block, Grid as Grid, Printed as Printed
    from attomaton.base.progress import (
        Advance as Advance,
        Progress as Progress,
        Stages as Stages,
        silent as silent,
    )
    from attomaton.base.ragged import (
        group_borders as group_borders,
        largest_of as largest_of,
        offsets_of as offsets_of,
        run_starts as run_starts,
        sum_at as sum_at,
    )
    from attomaton.base.remote import RemotePath as RemotePath, Stat as Stat
    from attomaton.base.solutions import Certificate as Certificate, Solution as Solution, Status as Status
    from attomaton.base.tables import (
        Bool as Bool,
        Float64 as Float64,
        Int32 as Int32,
        Int64 as Int64,
        Integers as Integers,
        column as column,
        make_table as make_table,
        rows_to_bytes as rows_to_bytes,
        table_of as table_of,
        write_parquet as write_parquet,
    )
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
