"""Tables of heads drawn at random, with types and contexts, for tests of the page."""

import numpy as np
import pyarrow as pa

from attomaton.base.tables import table_of
from attomaton.heads.audit.excerpts import CONTEXTS
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.saved import About, mark

TYPES = {
    "sink": 30,
    "previous token": 6,
    "induction": 4,
    "duplicate": 4,
    "position": 20,
    "delimiter": 4,
    "token-specific": 20,
    "next-token seeking": 15,
    "contextual": 60,
    "mixed": 15,
}
"""Types, and how frequent they are."""

RUNGS = ("sink", "position", "previous token", "key token", "induction", "duplicate")


def draw_audit(
    n_layers, n_heads, *, words=(" the", " day", "\n"), rungs=RUNGS, types=True, contexts=3, model="drawn"
):
    """A table of heads with its metadata; everything is drawn."""
    rng = np.random.default_rng(0)
    n = n_layers * n_heads
    layer, number = np.divmod(np.arange(n), n_heads)
    explained = np.cumsum(rng.dirichlet(np.ones(len(rungs) + 1), n)[:, :-1], 1)
    inside = rng.uniform(0.2, 0.9, n)
    columns = {
        "head": [f"{one}.{other}" for one, other in zip(layer, number, strict=True)],
        "layer": layer,
        "number": number,
        "inside": inside,
        "first": (1 - inside) * rng.uniform(0, 1, n),
        "seeking_mass": rng.uniform(0, 0.2, n),
        "seeking_excess": rng.normal(size=n) / 20,
        "seeking_z": rng.normal(size=n) * 3,
        "seeks": pa.array(rng.random(n) < 0.2),
    }
    for at, name in enumerate(rungs):
        columns |= {
            name_column("explained", name): explained[:, at],
            name_column("z", name): rng.normal(size=n) * 4,
        }
    if types:
        weights = np.array(list(TYPES.values()))
        drawn = rng.choice(list(TYPES), n, p=weights / weights.sum()).tolist()
        pairs = explained[:, -1] + (1 - explained[:, -1]) * rng.uniform(0, 0.5, n)
        columns |= {"type": drawn, "type_share": rng.uniform(0.3, 0.9, n), "named": explained[:, -1]}
        columns |= {"pairs": pairs, "contextual": 1 - pairs}
        columns["type_reason"] = [f"Most of its attention follows the rung {one}." for one in drawn]
    if contexts:
        columns["contexts"] = pa.array([_contexts(rng, words, contexts) for _ in range(n)], CONTEXTS)
    about = About(model, tuple(rungs), 40, 800, 2)
    return mark(table_of(columns), about), about


def _contexts(rng, words, n, window=32):
    """The contexts of one head."""
    return [
        {
            "document": int(rng.integers(80)),
            "position": int(rng.integers(window, 256)),
            "opening": str(rng.choice(words)),
            "tokens": [str(one) for one in rng.choice(words, window)],
            "label": str(rng.choice(words)),
            "first": int(rng.integers(60)),
            "attention": np.floor(190 * rng.dirichlet(np.full(window, 0.2))).astype(np.uint8),
        }
        for _ in range(n)
    ]
