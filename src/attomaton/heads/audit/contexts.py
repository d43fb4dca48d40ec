"""One head, context by context: its attention beside the attention that each rung fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages
from attomaton.base.tables import Float64, Int32, table_of
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.heads.audit.explanations import Table
from attomaton.heads.audit.heads import Audit, prepare, watch_all
from attomaton.heads.audit.ladder import Features, Fitted, Step, climb_head, divergence
from attomaton.heads.audit.rows import Rows, list_documents
from attomaton.heads.audit.rungs import Rungs, settle_rungs
from attomaton.heads.model import Head, HeadModel, check_head
from attomaton.heads.opening import open_model

SHOWN = 8
"""Positions of a context that are printed: those with the most attention."""


@dataclass(frozen=True, eq=False, repr=False)
class HeadContexts(Tabular):
    """Contexts in which a head departs from the first rung, with the fit of every rung.

    Attributes
    ----------
    head : Head
        The head.
    rows : Rows
        The contexts, for this head only.
    names : tuple of str
        The rungs, nested.
    fitted : float64 array, shape (n_rungs, n_rows, window)
        The attention fitted by each rung together with those before it.
    vocabulary : Vocabulary, optional
        The texts of the tokens.

    Examples
    --------
    >>> HeadContexts.__name__  # show_head returns them
    'HeadContexts'
    """

    head: Head
    rows: Rows
    names: tuple[str, ...]
    fitted: Float64
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        return f"HeadContexts(head {self.head}, {len(self.rows)} contexts)"

    def _table(self) -> pa.Table:
        """Per position: number, document, position, lag, token, label, attention, and ``fitted <rung>``."""
        n, window = len(self.rows), self.rows.window
        columns: dict[str, Any] = {
            "number": np.repeat(np.arange(n), window),
            "document": np.repeat(self.rows.documents, window),
            "position": np.repeat(self.rows.positions, window),
            "lag": np.tile(np.arange(window), n),
            "token": self.rows.tokens.ravel(),
            "label": np.repeat(self.rows.labels, window),
            "attention": self.rows.attention[:, 0].ravel(),
        }
        fitted = {f"fitted {name}": self.fitted[at].ravel() for at, name in enumerate(self.names)}
        return table_of(columns | fitted)

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def _name(self, token: int) -> str:
        return name_token(self.vocabulary, token)

    def _blocks(self) -> list[Block]:
        rungs = ", ".join(f"+{number}\xa0{name}" for number, name in enumerate(self.names, 1))
        columns = "Attention in %: own, and as fitted up to each rung; * marks the next token."
        legend = (line.replace("\xa0", " ") for line in wrap(f"Rungs: {rungs}.", 80))
        blocks: list[Block] = [repr(self), columns, *legend]
        for at in range(len(self.rows)):
            tokens: Int32 = self.rows.tokens[at]
            label, own = int(self.rows.labels[at]), self.rows.attention[at, 0]
            rows = [
                (
                    str(lag),
                    self._name(int(tokens[lag])) + " *" * (int(tokens[lag]) == label),
                    *(f"{100 * one[lag]:.0f}" for one in (own, *self.fitted[:, at])),
                )
                for lag in np.argsort(-own, kind="stable")[:SHOWN].tolist()
            ]
            title = (
                f"Document {self.rows.documents[at]}, position {self.rows.positions[at]}: query "
                f"{self._name(int(tokens[0]))}, next {self._name(label)}"
            )
            headers = ["lag", "token", "own", *(f"+{number}" for number in range(1, len(self.names) + 1))]
            blocks.append(Grid(title, headers, rows))
        return blocks


def show_head(
    model: Any,
    documents: Sequence[Any],
    head: Head,
    *,
    rungs: Rungs = None,
    how: Audit | None = None,
    n: int = 5,
    vocabulary: Vocabulary | None = None,
    progress: Stages | None = None,
) -> HeadContexts:
    """The held-out contexts in which a head departs most from the first rung, one per document.

    Parameters
    ----------
    model, documents
        As for :func:`~attomaton.heads.audit.heads.audit_heads`.
    head : Head
        Which.
    rungs, how
        As for :func:`~attomaton.heads.audit.heads.audit_heads`.
    n : int
        Number of contexts.
    vocabulary : Vocabulary, optional
        The texts of the tokens.
    progress : Stages, optional
        Reports progress.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> shown = show_head(model, documents, Head(0, 1), how=Audit(window=8), n=2)
    >>> shown, shown.table().num_rows
    (HeadContexts(head 0.1, 2 contexts), 16)
    """
    how, tell = Audit() if how is None else how, Stages() if progress is None else progress
    model = open_model(model)
    head = check_head(head, model.shape)
    documents = list_documents(documents)
    fit_on, score_on, _, steps = prepare(model, documents, rungs, how)
    rows = watch_all(model, documents, how, tell)
    mine = [rows.heads.index(head)]
    arrays = {name: getattr(rows, name)[:, mine] for name in ("attention", "inside", "first")}
    rows = replace(rows, heads=(head,), **arrays)
    fitted, scored = (rows.take(np.isin(rows.documents, part)) for part in (fit_on, score_on))
    own = [of_head(one, model, head) for one in settle_rungs(steps, model)]
    fits = list(climb_head(Features.of(own, fitted), Features.of(own, scored), 0))
    chosen = _most_apart(scored, fits[0], whole_number(n, "n", least=1))
    weights = np.array([np.exp(one.logs[chosen]) for one in fits])
    return HeadContexts(head, scored.take(chosen), tuple(one.name for one in fits), weights, vocabulary)


def of_head(rung: Step, model: HeadModel, head: Head) -> Step:
    """A rung for the rows of one head: a table with scores for every head keeps only this head's."""
    if not isinstance(rung, Table):
        return rung
    place, many = model.shape.heads.index(head), len(model.shape.heads)
    parts = {
        name: one[place : place + 1]
        for name, one in (("values", rung.values), ("background", rung.background))
        if one.ndim == 2 and len(one) == many
    }
    return replace(rung, **parts)


def _most_apart(rows: Rows, first: Fitted, n: int) -> Any:
    """The row of each document that departs most from a rung, for the n documents that depart most."""
    apart = divergence(rows.attention[:, 0].astype(np.float64), first.logs)
    order = np.argsort(-apart, kind="stable")
    _, firsts = np.unique(rows.documents[order], return_index=True)
    return order[np.sort(firsts)[:n]]
