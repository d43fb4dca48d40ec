"""Run folders as the version before this one wrote them: one file for each table, arrays beside."""

from dataclasses import asdict

import numpy as np

from attomaton.artifacts import Run, write_run
from attomaton.graphs.edges import QUERY_SCHEMA
from attomaton.tables import column


def save_olden(auto, folder, about=None, *, overwrite=False):
    """Write an automaton as edges, components, order, hard, soft and choices, each in one file."""
    components, hard, soft = auto.components, auto.hard, auto.soft
    edges = components.edges
    tables = {
        "edges": edges.table,
        "components": components.nodes,
        "order": components.order,
        "hard": hard.scores,
        "soft": soft.scores,
        "choices": soft.choices.table,
    }
    arrays = {f"queries/{name}": column(edges.queries, name) for name in QUERY_SCHEMA.names}
    arrays |= {
        f"multipliers/{name}": column(hard.multipliers, name) for name in hard.multipliers.column_names
    }
    for name, side in (("hard", hard), ("soft", soft)):
        if isinstance(side.weights, np.ndarray):
            arrays[f"{name}/weights"] = side.weights
    records = {"coverage": auto.coverage.to_dict()}
    if auto.vocabulary is not None:
        records["vocabulary"] = auto.vocabulary.to_record()
    manifest = {
        **(about or {}),
        "n_tokens": edges.n_tokens,
        "certificates": {"hard": asdict(hard.certificate), "soft": asdict(soft.certificate)},
        "soft": {"loss": soft.loss, "ridge": soft.ridge, "free": soft.free},
    }
    return write_run(folder, Run(tables, arrays, records, manifest), overwrite=overwrite)
