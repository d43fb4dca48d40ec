"""One head, context by context: its attention, and the attention that rungs predict (``show_head``)."""

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_kind
from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import as_stages
from attomaton.base.tables import Float64, Int32, table_of
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.heads.audit.documents import read_audited
from attomaton.heads.audit.excerpts import find_most_apart
from attomaton.heads.audit.features import Features, climb_head
from attomaton.heads.audit.fitting import divergence
from attomaton.heads.audit.heads import record_all, table_of_heads
from attomaton.heads.audit.planning import AuditSettings, plan_audit
from attomaton.heads.audit.rows import Rows
from attomaton.heads.audit.rungs import Rungs, settle_rungs
from attomaton.heads.model import Head, check_head
from attomaton.heads.opening import open_model

SHOWN_KEYS = 8  # keys of a context that are printed: those with the most attention


@dataclass(frozen=True, eq=False, repr=False)
class HeadContexts(Tabular):
    """Contexts in which the attention of a ``head`` differs most from what the first rung predicts.

    ``rows`` are the attention rows of these contexts, and ``names`` the rungs. ``fitted`` (n_rungs, n_rows,
    window + 1) is the attention on the window and the first token, as predicted by each rung with all rungs
    before it. ``vocabulary`` has the texts of the tokens.
    """

    head: Head
    rows: Rows
    names: tuple[str, ...]
    fitted: Float64
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        return f"HeadContexts(head {self.head}, {len(self.rows)} contexts)"

    # One row per key (positions of the window, then the first token), with a column for each rung.
    def _table(self) -> pa.Table:
        n, n_keys = len(self.rows), self.rows.window + 1
        columns: dict[str, Any] = {
            "number": np.repeat(np.arange(n), n_keys),
            "document": np.repeat(self.rows.documents, n_keys),
            "position": np.repeat(self.rows.positions, n_keys),
            "lag": self._lags.ravel(),
            "token": self._tokens.ravel(),
            "label": np.repeat(self.rows.labels, n_keys),
            "attention": self.rows.on_keys(0).ravel(),
        }
        fits = zip(self.names, self.fitted, strict=True)
        return table_of(columns | {f"fitted {name}": fit.ravel() for name, fit in fits})

    # How far before the query each key is, shape (n_rows, window + 1).
    @property
    def _lags(self) -> Int32:
        near = np.broadcast_to(np.arange(self.rows.window, dtype=np.int32), self.rows.tokens.shape)
        return np.concatenate([near, self.rows.positions[:, None]], 1)

    @property
    def _tokens(self) -> Int32:
        return np.concatenate([self.rows.tokens, self.rows.starts[:, None]], 1)

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def _name(self, token: int) -> str:
        return name_token(self.vocabulary, token)

    def _blocks(self) -> list[Block]:
        rungs = ", ".join(f"+{number}\xa0{name}" for number, name in enumerate(self.names, 1))
        columns = "Attention in %: own, and as rungs predict it (+1, …); * marks the next token."
        legend = (line.replace("\xa0", " ") for line in wrap(f"Rungs: {rungs}.", 80))
        return [repr(self), columns, *legend, *map(self._grid_of_context, range(len(self.rows)))]

    def _grid_of_context(self, row: int) -> Grid:
        tokens: list[int] = self._tokens[row].tolist()
        attention = self.rows.on_keys(0)[row]
        label = int(self.rows.labels[row])
        keys: list[int] = np.argsort(-attention, kind="stable")[:SHOWN_KEYS].tolist()
        cells = [
            (
                str(self._lags[row, key]),
                self._name(tokens[key]) + " *" * (tokens[key] == label),
                *(f"{100 * fit[key]:.0f}" for fit in (attention, *self.fitted[:, row])),
            )
            for key in keys
        ]
        title = (
            f"Document {self.rows.documents[row]}, position {self.rows.positions[row]}: query "
            f"{self._name(tokens[0])}, next {self._name(label)}"
        )
        headers = ["lag", "token", "own", *(f"+{number}" for number in range(1, len(self.names) + 1))]
        return Grid(title, headers, cells)


def show_head(
    model: Any,
    corpus: Any,
    head: Head | str,
    *,
    rungs: Rungs = None,
    theory: bool = False,
    settings: AuditSettings | None = None,
    limit: int | None = None,
    tokenizer: Any = None,
    reading: Reading | None = None,
    progress: bool | Callable[[str], object] = False,
    examples: int = 5,
    vocabulary: Vocabulary | None = None,
) -> HeadContexts:
    """Show the contexts in which the attention of a head differs most from what the first rung predicts.

    They come from documents on which no rung was fitted, at most one from each.

    Parameters
    ----------
    model, corpus
        As in :func:`~attomaton.heads.audit.heads.audit_heads`.
    head : Head or str
        The head, such as ``Head(17, 5)``, ``"17.5"`` or ``"L17H5"``.
    rungs, theory, settings, limit, tokenizer, reading, progress
        As in ``audit_heads``.
    examples : int
        The number of contexts.
    vocabulary : Vocabulary, optional
        The texts of the tokens. None means the vocabulary of the corpus.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> show_head(*example_audit(), Head(0, 1), settings=AuditSettings(window=8), examples=2)
    HeadContexts(head 0.1, 2 contexts)
    """
    settings = settings or AuditSettings()
    check_kind(settings, AuditSettings, "settings")
    source = model
    model = open_model(source)
    head = check_head(head, model.shape)
    documents, read_vocabulary = read_audited([source], corpus, tokenizer, reading, limit)
    vocabulary = vocabulary or read_vocabulary
    plan = plan_audit(model, documents, rungs, settings, theory=theory, vocabulary=vocabulary)
    # Rows of this head only, so its index is 0.
    [recorded] = record_all(model, (), documents, settings, as_stages(progress), layers=[head.layer])
    fitted, scored = plan.split(recorded.rows.of_heads([head]))
    rungs_of_head = [table_of_heads(rung, [head], model) for rung in settle_rungs(plan.rungs, model)]
    features_fitted, features_scored = Features.of(rungs_of_head, fitted, scored)
    fits = list(climb_head(features_fitted, features_scored, 0))
    departures = divergence(scored.on_keys(0), fits[0].logs)  # from what the first rung predicts
    chosen = find_most_apart(departures, scored.documents, whole_number(examples, "examples", least=1))
    weights = np.array([np.exp(fit.logs[chosen]) for fit in fits])
    names = tuple(rung.name for rung in rungs_of_head)
    return HeadContexts(head, scored.take(chosen), names, weights, vocabulary)
