"""Edges of any engine, in memory or in files, as one table, and a digest of that table."""

import hashlib

import numpy as np

import attomaton as at
from attomaton.base.tables import column


def load(edges):
    """The edge table, of which an engine on disk returns the parts."""
    return edges if isinstance(edges, at.EdgeTable) else edges.load()


def digest(edges):
    """The SHA-256 of all edges and of the samples by query."""
    table, whole = load(edges), hashlib.sha256()
    columns = {name: column(table.rows, name) for name in table.rows.schema.names}
    columns |= {f"queries.{name}": column(table.queries, name) for name in table.queries.schema.names}
    for name, values in columns.items():
        whole.update(f"{name} {hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()}".encode())
    return whole.hexdigest()
