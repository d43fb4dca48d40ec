"""Save a fit to a folder and load it: who beats whom, choices within components, scores, and items.

Loading recomputes the components and the certificate, so neither has to be trusted.
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.borders import check_counts, check_ids, check_table
from attomaton.base.errors import UnsupportedOption
from attomaton.base.ragged import centre
from attomaton.base.solutions import check_scores, sparse_weights
from attomaton.base.tables import column, make_table, ragged_column
from attomaton.choices.order import join_components
from attomaton.choices.rankings import RANKING_SCHEMA
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import QUERY_SCHEMA, EdgeTable
from attomaton.solvers.soft.certify import certify_scores
from attomaton.solvers.soft.likelihood import luce_problem
from attomaton.solvers.soft.solve import SoftSolution

KIND = FolderKind("choices", "a fit of choices", "attomaton choices --out")


def pack(
    items: tuple[Any, ...],
    graph: Components,
    soft: SoftSolution,
    prior: float | None,
    parts: int,
    rankings: pa.Table | None,
) -> Run:
    """The files of a fit."""
    edges = graph.edges
    return Run(
        tables={
            "edges": edges.rows,
            "soft": soft.scores,
            "choices": soft.choices.rows,
            **({} if rankings is None else {"rankings": rankings}),
        },
        arrays={f"queries/{name}": column(edges.queries, name) for name in QUERY_SCHEMA.names},
        records={"items": [_pack(item) for item in items]},
        manifest={
            "n_tokens": edges.n_tokens,
            "ridge": soft.ridge,
            "atol": soft.certificate.atol,
            "prior": prior,
            "parts": parts,
        },
    )


def unpack(run: Run) -> tuple[tuple[Any, ...], Components, SoftSolution, float | None, int, pa.Table | None]:
    """Construct every part, which also checks it, after the parts that it indexes."""
    about = run.manifest
    queries = make_table(QUERY_SCHEMA, {name: run.arrays[f"queries/{name}"] for name in QUERY_SCHEMA.names})
    edges = EdgeTable(run.tables["edges"], queries, about["n_tokens"])
    graph = find_components(edges)
    items = tuple(_unpack(item) for item in run.records["items"])
    sizes = {len(set(items)), len(items), edges.n_tokens - 1, max(graph.nodes.num_rows - 1, 0)}
    if len(sizes) > 1:
        raise ValueError("items.json does not name each item once")
    ridge, atol, parts = _real(about["ridge"]), _real(about["atol"]), about["parts"]
    prior = None if about["prior"] is None else _real(about["prior"])
    if type(parts) is not int or parts < 1:
        raise ValueError("parts in manifest.json is not a positive whole number")
    rankings = _check_rankings(run.tables["rankings"], len(items)) if parts > 1 else None
    scored = graph if prior is None else join_components(graph)
    check_scores(run.tables["soft"], scored.nodes, "the table of scores")
    choices = ChoiceTable(run.tables["choices"])
    rows, problem = luce_problem(choices, scored, connected=ridge == 0.0)
    inside = centre(problem.component, column(run.tables["soft"], "score")[rows])
    soft = SoftSolution(
        scores=run.tables["soft"],
        weights=sparse_weights(run.tables["soft"], scored.edges.n_tokens),
        certificate=certify_scores(problem, inside, atol=atol, ridge=ridge),
        loss=problem.loss(inside),
        choices=choices,
        components=scored,
        ridge=ridge,
    )
    return items, graph, soft, prior, parts, rankings


def _check_rankings(rankings: pa.Table, n_items: int) -> pa.Table:
    check_table(rankings, RANKING_SCHEMA, "the table of rankings")
    (offsets, items), (others, _) = (ragged_column(rankings, name) for name in ("items", "places"))
    check_ids(items, n_items, "an item of the rankings")
    check_counts(column(rankings, "count"), 1, "count in the table of rankings")
    if not np.array_equal(offsets, others):
        raise ValueError("a ranking has more or fewer places than items")
    return rankings


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not np.isfinite(value) or value < 0:
        raise ValueError(f"manifest.json gives {str(value)[:40]} where a number is needed")
    return float(value)


def _pack(item: Any) -> Any:
    """An item as JSON: strings and numbers unchanged, a tuple as an object marked as such."""
    if item is None or type(item) in (str, int, bool) or (type(item) is float and np.isfinite(item)):
        return item
    if type(item) is tuple:
        return {"tuple": [_pack(part) for part in cast("tuple[Any, ...]", item)]}
    raise UnsupportedOption(
        f"the item {item!r} of type {type(item).__name__} cannot be saved; fit strings or numbers"
    )


def _unpack(record: Any) -> Any:
    if isinstance(record, Mapping):
        return tuple(_unpack(part) for part in cast("Mapping[str, list[Any]]", record)["tuple"])
    if isinstance(record, list):
        raise ValueError("an item in items.json is a list")
    return record
