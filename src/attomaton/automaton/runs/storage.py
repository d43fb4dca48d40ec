"""Write an automaton to a run folder (`write_tables`, `finish_run`), and read it back (`assemble`)."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from numpy.typing import NDArray

from attomaton.automaton.runs.coverage import Coverage
from attomaton.automaton.runs.layout import RUN_TABLES
from attomaton.automaton.runs.numbering import restore_components
from attomaton.base.artifacts import Building, Run, fill_run
from attomaton.base.artifacts.parted import partition_name, write_partition
from attomaton.base.borders import trusted
from attomaton.base.machine import divide_work
from attomaton.base.solutions import check_scores, score_table
from attomaton.base.tables import Int64, column, make_table
from attomaton.corpora.tokenizers import Vocabulary, vocabulary_records
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.partitions import slice_queries
from attomaton.solvers.hard.certify import HardCertificate
from attomaton.solvers.hard.problem import MULTIPLIER_SCHEMA
from attomaton.solvers.hard.solve import HardSolution
from attomaton.solvers.soft.certify import SoftCertificate
from attomaton.solvers.soft.solve import SoftSolution
from attomaton.solvers.solved import Solved

INDEX_TABLE = "queries"  # the name of the table with the index
SMALL_RUN_ROWS = 1 << 18  # up to this size a second thread does not speed up writing


@dataclass(frozen=True)
class Proofs:
    """The certificates of both sides of a run; loss, ridge and free are those of ``SoftSolution``."""

    hard: HardCertificate
    soft: SoftCertificate
    loss: float
    ridge: float = 0.0
    free: bool = True


def records_of_run(vocabulary: Vocabulary | None, coverage: Coverage) -> dict[str, Any]:
    """The JSON files of a run by name: the coverage, and the vocabulary if there is one."""
    return {"coverage": coverage.to_dict(), **vocabulary_records(vocabulary)}


def write_tables(folder: Path, tables: Mapping[str, pa.Table], borders: Int64) -> dict[str, dict[str, Any]]:
    """Write tables as partitions with these borders between queries; return the entry of each file."""
    ranges = list(pairwise(borders.tolist()))

    def write(file: tuple[str, int]) -> dict[str, Any]:
        name, number = file
        layout = RUN_TABLES[name]
        rows = slice_queries(tables[name], *ranges[number])
        return write_partition(folder / partition_name(name, number), [rows], layout.schema, layout.options)

    files = [(name, number) for name in tables for number in range(len(ranges))]
    is_small = sum(table.num_rows for table in tables.values()) <= SMALL_RUN_ROWS
    return {entry.pop("name"): entry for entry in divide_work(write, files, 1 if is_small else None)}


def finish_run(
    building: Building,
    *,
    entries: Mapping[str, Mapping[str, Any]],
    index: pa.Table,
    borders: Int64,
    n_tokens: int,
    proofs: Proofs,
    arrays: Mapping[str, NDArray[Any]],
    records: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Write the index, arrays, records and manifest of a run whose tables are written (``entries``)."""
    manifest = {
        **about,
        "n_tokens": n_tokens,
        "borders": borders.tolist(),
        "certificates": {"hard": asdict(proofs.hard), "soft": asdict(proofs.soft)},
        "soft": {"loss": proofs.loss, "ridge": proofs.ridge, "free": proofs.free},
    }
    fill_run(building, Run({INDEX_TABLE: index}, arrays, records, manifest, entries))


def assemble(tables: Mapping[str, pa.Table], queries: pa.Table, run: Run) -> Solved:
    """The solved queries of some stored rows, all of which are checked."""
    # `tables` are the four tables of a run, or their rows of some queries; `queries` counts the samples.
    proofs = read_proofs(run.manifest)
    with _explained_as("the table edges"):
        edges = EdgeTable(tables["edges"], queries, run.manifest["n_tokens"])
    with _explained_as("the tables nodes and order"):
        components = Components(edges, *restore_components(tables))
        hard_scores, soft_scores = (
            score_table(tables["nodes"], column(tables["nodes"], side)) for side in ("hard", "soft")
        )
        for scores in (hard_scores, soft_scores):
            check_scores(scores, components.nodes, "the table of scores")
        order = {name: column(components.order, name) for name in ("above", "below")}
        order["multiplier"] = column(tables["order"], "multiplier")
        hard = trusted(
            HardSolution,
            components=components,
            scores=hard_scores,
            certificate=proofs.hard,
            multipliers=make_table(MULTIPLIER_SCHEMA, order),
            **_read_weights(run, "hard"),
        )
        hard.__post_init__()
    with _explained_as("the table choices"):
        choices = ChoiceTable(tables["choices"])
    with _explained_as("the table nodes"):
        soft = trusted(
            SoftSolution,
            scores=soft_scores,
            certificate=proofs.soft,
            choices=choices,
            components=components,
            loss=proofs.loss,
            ridge=proofs.ridge,
            free=proofs.free,
            **_read_weights(run, "soft"),
        )
        soft.__post_init__()
    return trusted(Solved, components=components, hard=hard, soft=soft)


def read_proofs(manifest: Mapping[str, Any]) -> Proofs:
    """The certificates in a manifest; a field that is missing, or has another type, is refused."""
    certificates: list[Any] = []
    for name, kind in (("hard", HardCertificate), ("soft", SoftCertificate)):
        kinds: dict[str, Any] = {field.name: field.type for field in fields(kind)}
        certificates.append(kind(**_check_values(manifest["certificates"][name], kinds)))
    kinds = {"loss": float, "ridge": float, "free": bool}
    return Proofs(*certificates, **_check_values(manifest["soft"], kinds))


def read_window(manifest: Mapping[str, Any]) -> int | None:
    """The longest context of the samples; None if the manifest has no valid number."""
    config: Any = manifest.get("config")
    settings = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    windows: list[Any] = [settings.get(name) for name in ("window", "max_window")]
    valid = [size for size in windows if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    return min(valid, default=None)


# Name the files whose content was refused, at the beginning of the message.
@contextmanager
def _explained_as(files: str) -> Generator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{files}: {error}") from error


# The record, if its fields are exactly those of ``kinds`` and of these types, and numbers are finite.
def _check_values(record: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    # Whole numbers also pass as floats. A bool is an int in Python, but passes only as a bool.
    if record.keys() != kinds.keys():
        raise ValueError(f"a record in manifest.json does not have exactly the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = record[name]
        is_flag = isinstance(value, bool)
        if isinstance(value, int) and not is_flag and not isinstance(value, kind):
            value = float(value)
        has_type = isinstance(value, kind) and (not is_flag or isinstance(True, kind))  # kind is bool
        if not has_type or not (isinstance(value, str | None) or isfinite(value)):
            raise ValueError(f"{name} is {str(value)[:40]} in manifest.json")
    return dict(record)


# The argument ``weights`` of a solution, if the run was learned with embeddings; otherwise none.
def _read_weights(run: Run, side: str) -> dict[str, NDArray[Any]]:
    if not run.arrays:
        return {}
    if f"{side}/weights" not in run.arrays:
        raise ValueError(f"the file of arrays has no {side}/weights")
    return {"weights": run.arrays[f"{side}/weights"]}
