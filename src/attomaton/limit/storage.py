"""An automaton as a run folder, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attomaton.artifacts import Building, Run, fill_run, read_run, write_run
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import CorruptRun
from attomaton.graphs.choices import CHOICE_SCHEMA, ChoiceTable
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.hard.certify import HardCertificate
from attomaton.hard.solve import MULTIPLIER_SCHEMA, HardSolution
from attomaton.limit.coverage import Coverage
from attomaton.soft.certify import SoftCertificate
from attomaton.soft.solve import SoftSolution
from attomaton.solutions import SCORE_SCHEMA, Solution, sparse_weights
from attomaton.tables import column, make_table

SCHEMAS = {
    "edges": EDGE_SCHEMA,
    "components": NODE_SCHEMA,
    "order": ORDER_SCHEMA,
    "hard": SCORE_SCHEMA,
    "soft": SCORE_SCHEMA,
    "choices": CHOICE_SCHEMA,
}
"""Table of a run folder → its columns."""


def save(path: str | Path | Building, run: Run, *, overwrite: bool) -> Path:
    """Write a run folder, or into one that is being built."""
    if isinstance(path, Building):
        fill_run(path, run)
        return path.target
    return write_run(path, run, overwrite=overwrite)


def describe(
    components: Components,
    hard: HardSolution,
    soft: SoftSolution,
    vocabulary: Vocabulary | None,
    coverage: Coverage,
    about: Mapping[str, Any],
) -> Run:
    """Everything an automaton is made of, as a run folder holds it."""
    edges = components.edges
    records: dict[str, Any] = {"coverage": coverage.to_dict()}
    if vocabulary is not None:
        records["vocabulary"] = vocabulary.to_record()
    return Run(
        tables={
            "edges": edges.table,
            "components": components.nodes,
            "order": components.order,
            "hard": hard.scores,
            "soft": soft.scores,
            "choices": soft.choices.table,
        },
        arrays={
            **{f"queries/{name}": column(edges.queries, name) for name in QUERY_SCHEMA.names},
            **{f"multipliers/{name}": column(hard.multipliers, name) for name in MULTIPLIER_SCHEMA.names},
            **_dense_weights("hard/weights", hard),
            **_dense_weights("soft/weights", soft),
        },
        records=records,
        manifest={
            **about,
            "n_tokens": edges.n_tokens,
            "certificates": {
                "hard": asdict(hard.certificate),
                "soft": asdict(soft.certificate),
            },
            "soft": {"loss": soft.loss, "ridge": soft.ridge, "free": soft.free},
        },
    )


def load(path: str | Path) -> tuple[Components, HardSolution, SoftSolution, Vocabulary | None]:
    """Read what :func:`save` wrote."""
    run = read_run(path)
    try:
        return _assemble(run)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptRun(f"{path} holds no whole automaton ({error}); write the run again") from error


def _assemble(run: Run) -> tuple[Components, HardSolution, SoftSolution, Vocabulary | None]:
    for name, schema in SCHEMAS.items():
        if run.tables[name].schema != schema:
            raise ValueError(f"{name}.parquet has other columns than it should")
    queries = make_table(QUERY_SCHEMA, {name: run.arrays[f"queries/{name}"] for name in QUERY_SCHEMA.names})
    n_tokens = int(run.manifest["n_tokens"])
    edges = EdgeTable(run.tables["edges"], queries, n_tokens)
    components = Components(edges, run.tables["components"], run.tables["order"])
    proofs = run.manifest["certificates"]
    multipliers = {name: run.arrays[f"multipliers/{name}"] for name in MULTIPLIER_SCHEMA.names}
    hard = HardSolution(
        components=components,
        scores=run.tables["hard"],
        weights=_weights(run, "hard", n_tokens),
        certificate=HardCertificate(**proofs["hard"]),
        multipliers=make_table(MULTIPLIER_SCHEMA, multipliers),
    )
    soft = SoftSolution(
        scores=run.tables["soft"],
        weights=_weights(run, "soft", n_tokens),
        certificate=SoftCertificate(**proofs["soft"]),
        choices=ChoiceTable(run.tables["choices"]),
        components=components,
        **run.manifest["soft"],
    )
    words = run.records.get("vocabulary")
    vocabulary = None if words is None else Vocabulary.from_record(words)
    largest = max((int(edges[name].max(initial=-1)) for name in ("query", "winner", "loser")), default=-1)
    if largest >= n_tokens or (vocabulary is not None and len(vocabulary) != n_tokens):
        raise ValueError(f"its tokens do not fit a vocabulary of {n_tokens}")
    return components, hard, soft, vocabulary


def _dense_weights(name: str, solution: Solution) -> dict[str, NDArray[Any]]:
    """Weights in embedding space; without embeddings they are the score table and need no copy."""
    return {name: solution.weights} if isinstance(solution.weights, np.ndarray) else {}


def _weights(run: Run, name: str, n_tokens: int) -> Any:
    dense = run.arrays.get(f"{name}/weights")
    return sparse_weights(run.tables[name], n_tokens) if dense is None else dense
