"""Learn on disk in two stages, and write their results to a run folder.

An engine runs each stage for every partition of the queries. The first stage goes from edges to components
and the hard side; the second, once all ties are known, from choices to the soft side. Each partition is read,
solved and written separately, so memory depends only on the largest partition.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.runs import storage
from attomaton.automaton.runs.coverage import Coverage, Tally, join_tallies, tally_components
from attomaton.automaton.runs.layout import RUN_TABLES
from attomaton.automaton.runs.numbering import nodes_to_store, order_to_store, restore_nodes
from attomaton.automaton.runs.query_index import COUNTED, HARD_COUNTS, count_hard_rows, make_index
from attomaton.base.artifacts import Building, digest_arrays, digest_record, explained
from attomaton.base.artifacts.parted import partition_name, write_partition
from attomaton.base.artifacts.systems import link_or_copy
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import column, make_table, read_parquet
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.partitions import ChoicePartitions, EdgePartitions, Ties, count_values
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.graphs.partitions import Gathered, gather_components, keep_ties, of_nodes
from attomaton.solvers.hard.certify import HardCertificate, join_hard
from attomaton.solvers.hard.solve import solve_graph_svm
from attomaton.solvers.soft.certify import SoftCertificate, join_soft
from attomaton.solvers.soft.newton import Groups
from attomaton.solvers.soft.tied import group_choices, solve_groups
from attomaton.solvers.solved import spread_scores

# The result of a stage for a partition: ``folder``, the ``names`` of its files by table, their manifest
# entries (``files``), and the certificate.
StageRecord = Mapping[str, Any]

# Maximum number of edges of a partition in memory; a larger partition is reduced to its totals.
MOST_LOADED_EDGES = 1 << 22

STAGE_FORMAT = 1  # version of the files that stages pass to each other

# Upper estimates of the memory of a partition while it is solved, in bytes.
BYTES_PER_EDGE = 120
BYTES_PER_CHOICE = 80
BYTES_PER_MEMBER = 25


@dataclass(frozen=True, eq=False)
class HardStage:
    """The first stage: from the edges of a partition to its components and its hard side."""

    edges: EdgePartitions
    name: str = "hard"
    title: str = "solving the hard side"

    @property
    def fingerprint(self) -> str:
        """The digest of the edges and of the samples by query, since some samples have no edge."""
        counted = [column(self.edges.queries, name) for name in QUERY_SCHEMA.names]
        samples = [self.edges.n_tokens, self.edges.borders.tolist(), digest_arrays(*counted)]
        return digest_record([self.name, STAGE_FORMAT, samples, _digests(self.edges.entries)])

    @property
    def weights(self) -> list[int]:
        """The memory that each partition needs, in bytes, at most."""
        return [BYTES_PER_EDGE * min(size + 1, MOST_LOADED_EDGES) for size in self.edges.sizes]

    def __call__(self, folder: Path, number: int, /, attempt: str = "") -> dict[str, Any]:
        """Solve a partition: write nodes, order, ties and row counts; return certificate and tally."""
        components, gathered = self._components(number)
        hard = solve_graph_svm(components, threads=1)
        score = column(hard.scores, "score")
        tables = {
            "nodes": nodes_to_store(components, score, np.zeros(len(score))),
            "order": order_to_store(components, column(hard.multipliers, "multiplier")),
            "ties": keep_ties(components).nodes,
            "index": count_hard_rows(components, gathered),
        }
        entries = {
            name: write_partition(
                folder / f"{name}-{number:05d}{attempt}.parquet",
                [table],
                table.schema,
                RUN_TABLES[name].options if name in RUN_TABLES else {},
            )
            for name, table in tables.items()
        }
        return {
            "files": {entry["name"]: entry for entry in entries.values()},
            "names": {name: entry["name"] for name, entry in entries.items()},
            "certificate": asdict(hard.certificate),
            "tally": asdict(tally_components(components, gathered)),
        }

    # The components of a partition; without edges, but with sums over them, if it is large.
    def _components(self, number: int) -> tuple[Components, Gathered | None]:
        if self.edges.sizes[number] > MOST_LOADED_EDGES:
            queries, n_tokens = self.edges.queries_of(number), self.edges.n_tokens
            gathered = gather_components(self.edges.scan(number), queries, n_tokens)
            return gathered.components, gathered
        return find_components(self.edges.partition(number), threads=1), None


@dataclass(frozen=True, eq=False)
class SoftStage:
    """The second stage: from the choices of a partition and its nodes to its soft side.

    ``nodes`` are the files of the first stage, and ``before`` is the fingerprint of that stage.
    """

    nodes: Sequence[Path]
    choices: ChoicePartitions
    n_tokens: int
    before: str
    name: str = "soft"
    title: str = "solving the soft side"

    @property
    def fingerprint(self) -> str:
        return digest_record([self.name, self.before, _digests(self.choices.entries)])

    @property
    def weights(self) -> list[int]:
        """The memory that each partition needs, in bytes, at most."""
        n_members = (count_values(file, "tokens") for file in self.choices.files)
        n_choices = (int(entry["rows"]) + 1 for entry in self.choices.entries)
        return [
            BYTES_PER_CHOICE * choices + BYTES_PER_MEMBER * members
            for choices, members in zip(n_choices, n_members, strict=True)
        ]

    def __call__(self, folder: Path, number: int, /, attempt: str = "") -> dict[str, Any]:
        """Solve a partition: write its nodes with both scores; return the number of choices by query."""
        nodes = read_parquet(self.nodes[number].read_bytes())
        components = of_nodes(restore_nodes(nodes)[0], self.n_tokens)
        groups, counts = self._choices(number, components)
        soft = solve_groups(groups, threads=1)
        layout = RUN_TABLES["nodes"]
        columns = {name: column(nodes, name) for name in layout.schema.names}
        columns["soft"] = spread_scores(components, soft.scores)
        file = folder / f"nodes-{number:05d}{attempt}.parquet"
        entry = write_partition(file, [make_table(layout.schema, columns)], layout.schema, layout.options)
        return {
            "files": {entry["name"]: entry},
            "names": {"nodes": entry["name"]},
            "certificate": asdict(soft.certificate),
            "loss": soft.loss,
            "choices": counts,
        }

    # The choices of a partition inside its ties; the queries with choices, and the number of each.
    def _choices(self, number: int, components: Components) -> tuple[Groups, list[list[int]]]:
        table = self.choices.partition(number)
        query, count = np.unique(column(table, "query"), return_counts=True)
        groups = group_choices(ChoiceTable(table), keep_ties(components))
        return groups, [query.tolist(), count.tolist()]


def learn_by_partition(engine: Any, edges: EdgePartitions, progress: Progress = silent) -> "FinishedStages":
    """Run both stages on an engine on disk; ``progress`` gets the name of each step."""
    hard_stage = HardStage(edges)
    progress(hard_stage.title, 0, 0)
    hard = engine.run_partitions(hard_stage, hard_stage.weights)
    progress("extracting choices", 0, 0)
    nodes, tie_files = ([_path_of(record, table) for record in hard] for table in ("nodes", "ties"))
    digests = _digests([record["files"][record["names"]["ties"]] for record in hard])
    choices = engine.choice_partitions(Ties(tuple(tie_files), tuple(digests), edges.n_tokens), edges.borders)
    soft_stage = SoftStage(nodes, choices, edges.n_tokens, hard_stage.fingerprint)
    progress(soft_stage.title, 0, 0)
    return FinishedStages(edges, choices, hard, engine.run_partitions(soft_stage, soft_stage.weights))


def _path_of(record: StageRecord, table: str) -> Path:
    return Path(record["folder"], record["names"][table])


@dataclass(frozen=True, eq=False)
class FinishedStages:
    """The results of both stages for all partitions, ready to be written to a run folder."""

    edges: EdgePartitions
    choices: ChoicePartitions
    hard: Sequence[StageRecord]
    soft: Sequence[StageRecord]

    @cached_property
    def proofs(self) -> storage.Proofs:
        hard = join_hard([HardCertificate(**record["certificate"]) for record in self.hard])
        soft = join_soft([SoftCertificate(**record["certificate"]) for record in self.soft])
        return storage.Proofs(hard, soft, sum(float(record["loss"]) for record in self.soft))

    def coverage(self, vocabulary: Vocabulary | None) -> Coverage:
        tallies = [Tally.from_dict(record["tally"]) for record in self.hard]
        n_realisable, n_unrealisable = (
            int(column(self.edges.queries, name).sum()) for name in ("realisable", "unrealisable")
        )
        proofs = self.proofs.hard, self.proofs.soft
        return join_tallies(tallies, n_realisable, n_unrealisable, proofs, vocabulary)

    def write(self, building: Building, vocabulary: Vocabulary | None, about: Mapping[str, Any]) -> None:
        """Put the files of both stages into a run folder and finish it; ``about`` opens its manifest."""
        entries: dict[str, dict[str, Any]] = {}
        with explained(building.folder):
            for table, number, path, entry in self._files():
                name = partition_name(table, number)
                link_or_copy(path, building.folder / name)
                entries[name] = {key: value for key, value in entry.items() if key != "name"}
        storage.finish_run(
            building,
            entries=entries,
            index=self._index(),
            borders=self.edges.borders,
            n_tokens=self.edges.n_tokens,
            proofs=self.proofs,
            arrays={},
            records=storage.records_of_run(vocabulary, self.coverage(vocabulary)),
            about=about,
        )

    # The table, the number of the partition, the path and the manifest entry of each file.
    def _files(self) -> Iterator[tuple[str, int, Path, Mapping[str, Any]]]:
        for table, counted in (("edges", self.edges), ("choices", self.choices)):
            for number, (path, entry) in enumerate(zip(counted.files, counted.entries, strict=True)):
                yield table, number, path, entry
        for table, records in (("order", self.hard), ("nodes", self.soft)):
            for number, record in enumerate(records):
                entry = record["files"][record["names"][table]]
                yield table, number, _path_of(record, table), entry

    def _index(self) -> pa.Table:
        counts = {name: np.zeros(self.edges.n_tokens, np.int64) for name in COUNTED}
        for record in self.hard:
            table = read_parquet(_path_of(record, "index").read_bytes())
            for name in HARD_COUNTS:
                counts[name][column(table, "query")] = column(table, name)
        for record in self.soft:
            query, count = record["choices"]  # as `SoftStage._choices` returned them
            counts["choices"][np.array(query, np.int64)] = count
        return make_index(self.edges.queries, counts)


def _digests(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(entry["sha256"]) for entry in entries]
