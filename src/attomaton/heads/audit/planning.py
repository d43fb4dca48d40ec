"""What is settled before a model is run: the settings, and the plan that ``plan_audit`` makes of them."""

# A rung is one candidate explanation of a head's attention pattern, such as "previous token". The ladder
# lists the rungs in a fixed order. They are fitted on some documents, `fit_on`, and scored on the others,
# `score_on`. `OfModel` is a rung that is made separately for each model. The causal value of a head is the
# rise of the loss when the mean replaces its pattern.

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import InvalidSamples
from attomaton.base.options import Checked, checked, share, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, text_of
from attomaton.heads.audit.documents import check_copies, check_split, cut_documents, split_documents
from attomaton.heads.audit.explanations import Bigram, Frequency, LadderRung, Last, Rung, TokenCounts
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.audit.rows import Rows
from attomaton.heads.audit.rungs import OfModel, Rungs, learned_rungs, plain_rungs, useful_rungs
from attomaton.heads.model import HeadModel


@dataclass(frozen=True)
class AuditSettings(Checked):
    """Set the sizes and the random seed of an audit.

    Attributes
    ----------
    window : int
        The number of positions in each attention row.
    per_document : int
        The number of positions sampled from each document.
    longest : int
        The maximum length of a context in tokens.
    rows : int
        The maximum number of rows on which explanations are fitted and tested; seeking uses all rows.
    fitted : float
        The share of documents on which explanations are fitted.
    length, contexts : int
        The length of contexts for causal value, and their maximum number.
    seed : int
        The seed of all random draws.

    Examples
    --------
    >>> AuditSettings(window=16).fitted
    0.6
    """

    window: int = field(default=32, metadata=checked(whole_number, least=2))
    per_document: int = field(default=20, metadata=checked(whole_number, least=1))
    longest: int = field(default=256, metadata=checked(whole_number, least=3))
    rows: int = field(default=2_400, metadata=checked(whole_number, least=2 * FEWEST_DOCUMENTS))
    fitted: float = field(default=0.6, metadata=checked(share))
    length: int = field(default=64, metadata=checked(whole_number, least=2))
    contexts: int = field(default=64, metadata=checked(whole_number, least=FEWEST_DOCUMENTS))
    seed: int = field(default=0, metadata=checked(whole_number))


@dataclass(frozen=True, eq=False)
class Plan:
    """The split of the documents, counts of those to fit on, and the rungs of the ladder."""

    fit_on: list[int]  # numbers of documents
    score_on: list[int]
    counts: TokenCounts
    rungs: tuple[LadderRung | OfModel, ...]
    most_fitted: int  # rows on which rungs are fitted, at most
    most_scored: int

    @property
    def alone_only(self) -> list[LadderRung]:
        """Rungs that are also measured alone, although they are not in the ladder."""
        names = {rung.name for rung in self.rungs}
        alone_only = (Last(), Frequency(self.counts), Bigram(self.counts))
        return [rung for rung in alone_only if rung.name not in names]

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """The rows of documents to fit on, and of documents to score."""
        fitted, scored = (np.isin(rows.documents, numbers) for numbers in (self.fit_on, self.score_on))
        return rows.take(fitted), rows.take(scored)

    def thin(self, fitted: Rows, scored: Rows) -> tuple[Rows, Rows]:
        """As many of both rows, evenly spaced, as rungs are fitted on and scored on at most."""
        return _thin(fitted, self.most_fitted), _thin(scored, self.most_scored)


def _thin(rows: Rows, most: int) -> Rows:
    return rows.take(np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class CachedRung:
    """A slow rung with the same scores for all heads, which are computed once for each text."""

    rung: Rung
    cache: dict[str, Float64] = field(default_factory=dict[str, Float64])

    @property
    def name(self) -> str:
        return self.rung.name

    def scores(self, rows: Rows) -> Float64:
        key = digest_arrays(rows.tokens, rows.labels)  # the rows of other heads have equal tokens
        if key not in self.cache:
            self.cache[key] = self.rung.scores(rows)
        return self.cache[key]


def plan_audit(
    model: HeadModel,
    documents: Sequence[Any],
    rungs: Rungs,
    settings: AuditSettings,
    *,
    theory: bool = False,
    length: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> Plan:
    """Split the documents, count those to fit on, and make the rungs; a full audit checks the split first."""
    # length: of contexts for causal value, 0 if it is not measured, None if this is not a full audit
    n_tokens = model.shape.n_tokens
    if len(documents) < 2:
        raise InvalidSamples(
            "an audit fits on some documents and scores on others, but the corpus has "
            f"{'one document' if documents else 'none'}; split a long document, or read each line of a text "
            "file as a document with Reading(documents='line')"
        )
    fit_on, score_on = split_documents(len(documents), share=settings.fitted, seed=settings.seed)
    if length is not None:
        check_split(documents, fit_on, score_on, window=settings.window, length=length)
    counted, scored = (
        cut_documents([documents[number] for number in numbers], settings.longest + 1, n_tokens=n_tokens)
        for numbers in (fit_on, score_on)
    )
    if length is not None:
        check_copies(counted, scored)
    if rungs is None:
        rungs = plain_rungs(texts_of(vocabulary, n_tokens))
    ladder: tuple[Any, ...] = tuple(rungs(counted) if callable(rungs) else rungs)
    if theory:
        sizes = {"n_tokens": n_tokens, "window": settings.window}
        learned = (CachedRung(rung) for rung in learned_rungs(counted, **sizes))
        ladder = (*ladder, *learned, *useful_rungs(counted, **sizes))
    counts = TokenCounts.of(counted, n_tokens=n_tokens)
    most_fitted = round(settings.rows * settings.fitted)
    most_scored = max(settings.rows - most_fitted, FEWEST_DOCUMENTS)
    return Plan(fit_on, score_on, counts, ladder, max(most_fitted, FEWEST_DOCUMENTS), most_scored)


def texts_of(vocabulary: Vocabulary | None, n_tokens: int) -> list[str] | None:
    """The texts of all tokens of a model; empty for those that its vocabulary lacks."""
    if vocabulary is None:
        return None
    n_named = min(len(vocabulary), n_tokens)
    return [text_of(vocabulary, token) for token in range(n_named)] + [""] * (n_tokens - n_named)
