"""How an audit is done, and what is ready before a model is watched: parts of the documents, and rungs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import settle, share, whole_number
from attomaton.base.progress import Stages
from attomaton.heads.audit.explanations import TokenCounts
from attomaton.heads.audit.ladder import Step
from attomaton.heads.audit.rows import (
    Rows,
    check_copies,
    check_parts,
    cut_documents,
    split_documents,
    watch_rows,
)
from attomaton.heads.audit.useful import OfModel
from attomaton.heads.audit.usual import Rungs, plain_rungs
from attomaton.heads.model import HeadModel


@dataclass(frozen=True)
class Audit:
    """How an audit is done.

    Attributes
    ----------
    window : int
        Places of each attention row.
    per_document : int
        Positions that are drawn from each document.
    longest : int
        The longest context.
    fitted : float
        The share of the documents that explanations are fitted on; the others are scored.
    length : int
        Tokens of the contexts of causal value; 0 leaves causal value out.
    seed : int
        What draws.

    Examples
    --------
    >>> Audit(window=16).fitted
    0.6
    """

    window: int = 32
    per_document: int = 20
    longest: int = 256
    fitted: float = 0.6
    length: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        settle(
            self,
            window=whole_number(self.window, "window", least=2),
            per_document=whole_number(self.per_document, "per_document", least=1),
            longest=whole_number(self.longest, "longest", least=3),
            fitted=share(self.fitted, "fitted"),
            length=whole_number(self.length, "length"),
            seed=whole_number(self.seed, "seed"),
        )


def prepare(
    model: HeadModel, documents: Sequence[Any], rungs: Rungs, how: Audit, *, whole: bool = False
) -> tuple[list[int], list[int], TokenCounts, tuple[Step | OfModel, ...]]:
    """The documents to fit on and to score, what is counted of the former, and the rungs.

    For a whole audit both parts are checked to be large enough, before any work is done.
    """
    n_tokens = model.shape.n_tokens
    fit_on, score_on = split_documents(len(check_many(documents)), share=how.fitted, seed=how.seed)
    if whole:
        length = causal_length(model, how)
        check_parts(documents, (fit_on, score_on), window=how.window, length=length)
    counted, held_back = (
        cut_documents([documents[one] for one in part], how.longest + 1, n_tokens=n_tokens)
        for part in (fit_on, score_on)
    )
    if whole:
        check_copies(counted, held_back)
    steps = rungs(counted) if callable(rungs) else rungs
    steps = plain_rungs(counted, n_tokens=n_tokens) if steps is None else tuple(steps)
    return fit_on, score_on, TokenCounts.of(counted, n_tokens=n_tokens), steps


def check_many(documents: Sequence[Any]) -> Sequence[Any]:
    """The documents, if there are enough to split."""
    if len(documents) < 2:
        raise InvalidSamples(
            "an audit fits on some documents and scores on others, and there "
            f"{'is one' if len(documents) else 'are none'}; give several, by cutting long ones if need be"
        )
    return documents


def watch_all(model: HeadModel, documents: Sequence[Any], how: Audit, tell: Stages) -> Rows:
    """The rows of all documents, as an audit asks for them."""
    tell(f"watching {model.name}")
    sizes = {"window": how.window, "per_document": how.per_document, "longest": how.longest}
    return watch_rows(model, documents, **sizes, seed=how.seed, progress=tell.advance)


def causal_length(model: HeadModel, how: Audit) -> int:
    """Tokens of the contexts of causal value, as many as the model takes; 0 where it is left out."""
    if not how.length or said_of_loss(model):
        return 0
    most = model.shape.longest
    return how.length if most is None else min(how.length, most)


def said_of_loss(model: HeadModel) -> str:
    """Why causal value is left out for a model; nothing if its loss is finite."""
    if bool(model.watch(np.zeros((1, 1), np.int64)).logits.isfinite().all()):
        return ""
    return (
        f"Causal value is left out: {model.name} gives no chance to tokens that are not in the context, "
        "so that its loss is infinite."
    )
