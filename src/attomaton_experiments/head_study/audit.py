"""What explains where the heads of a small model look: the study's numbers, head by head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attomaton.automaton import shrink
from attomaton.automaton.attention import Attention
from attomaton.automaton.finite import FiniteAttention
from attomaton.base.artifacts.arrays import digest_arrays
from attomaton.base.tables import Float64, Int64, Integers, column
from attomaton.corpora import Samples
from attomaton.graphs import Components
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.grouping import find_rows, pack_pairs
from attomaton.heads import Head, find_closed_utility, measure_utility
from attomaton.heads.utility.closed import PairCounts, count_pairs
from attomaton.heads.utility.measured import MEAN_STRENGTH, UtilityTable, shrink_to_means
from attomaton_experiments.head_study.measures import correlate, explain_share, fit_scale, share_obeyed
from attomaton_experiments.head_study.relabelled import relabel_by_utility
from attomaton_experiments.head_study.small import SmallModel
from attomaton_experiments.head_study.training import TrainedCourse, draw_windows

Score = Callable[[Int64], Float64]
"""Contexts, shape (n, length), the query last → a score for each position, of the same shape."""

FLOOR = 0.28
"""The share of uniform attention mixed into the automaton's, which gives most positions none."""


FAINT = 0.01
"""Added to the lift T·copies/occurrences of a token before taking its logarithm."""


@dataclass(frozen=True, eq=False)
class StudyText:
    """A text, and the explanations of attention that do not depend on the model.

    Attributes
    ----------
    train, held_out : integers
        Token ids for training and for measuring.
    n_tokens, window : int
        Size of the vocabulary, and the length of contexts.
    scores : mapping of str to Score
        The explanations that depend on the text alone, by name.
    counts : dict of bool to PairCounts
        The counts for the closed form; under True, from samples whose label is in their context only.
    components : Components
        Of the automaton, for the edges that a head obeys.
    n_contexts, n_windows : int
        How many contexts are used to fit and to measure, and how many windows for utility.
    strength : float
        How strongly the scores of relabelled samples are shrunk to those over all queries.
    """

    train: Integers
    held_out: Integers
    n_tokens: int
    window: int
    scores: Mapping[str, Score]
    counts: Mapping[bool, PairCounts]
    components: Components
    n_contexts: int = 2000
    n_windows: int = 2000
    strength: float = 0.4

    @property
    def digest(self) -> str:
        """The SHA-256 of both parts."""
        return digest_arrays(np.asarray(self.train), np.asarray(self.held_out))

    @property
    def contexts(self) -> tuple[Int64, Int64]:
        """Contexts for fitting and contexts for measuring."""
        fitted = draw_windows(self.train, self.window, self.n_contexts, 2)
        return fitted[:, :-1], draw_windows(self.held_out, self.window, self.n_contexts, 1)[:, :-1]


def find_copy_utility(counts: PairCounts, *, strength: float = MEAN_STRENGTH) -> UtilityTable:
    """The exact utility of the theory's layer: T·(contexts with the label x)/(occurrences of x) − 1.

    Its loss is −ln of the attention on the label, so at uniform attention over T positions −∂loss/∂a_i is
    T/m where x_i is the label, which occurs m times, and 0 elsewhere; its mean over a context is 1. All
    contexts have the same length T. The counts come from samples whose context contains the label.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1], [1, 1]], [0, 1])
    >>> table = find_copy_utility(count_pairs(samples), strength=0.0)
    >>> table.at(np.array([1, 1]), np.array([0, 1])).round(3).tolist()  # 2·1/1 − 1 and 2·1/3 − 1
    [1.0, -0.333]
    """
    size = len(counts.shares)
    keys, sums = counts.queries * size + counts.tokens, counts.length * counts.copied - counts.times
    return shrink_to_means(Head(0, 0), keys, counts.times.astype(np.int64), sums, size, strength)


def prepare_text(
    train: Integers,
    held_out: Integers,
    samples: Samples,
    answers: tuple[Attention, FiniteAttention],
    components: Components,
    **sizes: Any,
) -> StudyText:
    """The explanations of a text, from its samples, its automaton and its shrunk scores."""
    automaton, shrunk = answers
    first_samples = samples.take(slice(0, 200_000))
    inside = first_samples.take(find_realisable(first_samples))
    counts = {False: count_pairs(first_samples), True: count_pairs(inside)}
    lift = table_score(find_copy_utility(counts[True]))
    scores: dict[str, Score] = {
        "automaton": lambda contexts: attend(automaton, contexts),
        "shrink": lambda contexts: look_up(shrunk, contexts),
        "PMI": _pmi(train, samples.n_tokens),
        "lift": lambda contexts: np.log(np.maximum(lift(contexts) + 1, 0) + FAINT),
        "same token": lambda contexts: (contexts == contexts[:, -1:]).astype(np.float64),
    }
    window = int((samples.stops - samples.starts).max())
    return StudyText(train, held_out, samples.n_tokens, window, scores, counts, components, **sizes)


def audit_model(text: StudyText, model: SmallModel, *, copying: bool) -> list[dict[str, Any]]:
    """A record per head: the share that each explanation explains on held-out contexts, and correlations.

    ``utility`` is the head's own, ``other utility`` the mean over the other heads of the model; ``closed``
    and ``closed, copies`` are the closed forms; the correlations are theirs with the measured table, over
    pairs weighted by how often they were seen, centred for each query. ``relabelled`` is what ``shrink``
    learns from samples whose label is the most useful token.
    """
    fitted, held_out = text.contexts
    rows = draw_windows(text.train, text.window, text.n_windows, 7)
    measured = measure_utility(model, rows, first=text.window // 2, copies=copying)
    relabelled = relabel_by_utility(model, rows, first=text.window // 2, copies=copying)
    repeated = text.window if model.config.positions else 1
    counts = text.counts[copying]
    closed = {"closed": find_closed_utility(model, counts, repeated=repeated)}
    closed["closed, copies"] = (
        [find_copy_utility(counts)]
        if model.config.one_hot
        else find_closed_utility(model, counts, repeated=repeated, copies=True)
    )
    looks = [read_patterns(model, contexts) for contexts in (fitted, held_out)]
    records: list[dict[str, Any]] = []
    for index, head in enumerate(model.shape.heads):
        tables_of_head = {
            "utility": measured[index],
            **{name: tables[index] for name, tables in closed.items()},
        }
        attention = (looks[0][head], looks[1][head])
        scores = {**text.scores, **{name: table_score(table) for name, table in tables_of_head.items()}}
        scores["relabelled"] = partial(look_up, shrink(relabelled[index], strength=text.strength))
        shares = {name: explained(score, attention, (fitted, held_out)) for name, score in scores.items()}
        shares_of_others = [
            explained(table_score(table), attention, (fitted, held_out))
            for table in measured
            if table.head != head
        ]
        correlations = {
            f"correlation, {name}": correlate_tables(measured[index], tables[index])
            for name, tables in closed.items()
        }
        records.append(
            {
                "head": str(head),
                "entropy": float(-(attention[1] * np.log(attention[1] + 1e-12)).sum(1).mean()),
                **shares,
                "profile": explain_profile(*attention),
                **({"other utility": float(np.mean(shares_of_others))} if shares_of_others else {}),
                **correlations,
                "obeyed": share_obeyed(text.components, _token_scores(model, head)),
            }
        )
    return records


def follow_utility(text: StudyText, course: TrainedCourse) -> list[dict[str, Any]]:
    """The share of the final pattern that utility at every stored step explains, per head and step."""
    fitted, held_out = text.contexts
    rows = draw_windows(text.train, text.window, text.n_windows // 2, 7)
    looks = [read_patterns(course.last, contexts) for contexts in (fitted, held_out)]
    records: list[dict[str, Any]] = []
    for step in sorted(course.weights):
        now = course.at(step)
        tables = measure_utility(now, rows, first=text.window // 2, copies=course.training.copying)
        patterns = [read_patterns(now, contexts) for contexts in (fitted, held_out)]
        for table in tables:
            attention = (looks[0][table.head], looks[1][table.head])
            current = tuple(np.log(pattern[table.head] + 1e-12) for pattern in patterns)
            scale = fit_scale(current[0], attention[0])
            records.append(
                {
                    "head": str(table.head),
                    "step": step,
                    "utility": explained(table_score(table), attention, (fitted, held_out)),
                    "pattern": explain_share(attention[1], current[1], scale),
                }
            )
    return records


def explained(score: Score, attention: tuple[Float64, Float64], contexts: tuple[Int64, Int64]) -> float:
    """The share of a head's attention that a score explains, its scale fitted on other contexts."""
    return explain_share(attention[1], score(contexts[1]), fit_scale(score(contexts[0]), attention[0]))


def explain_profile(fitted: Float64, held_out: Float64) -> float:
    """The share of a head's attention that the mean pattern over other contexts explains."""
    mean = np.log(fitted.mean(0, keepdims=True) + 1e-9)
    return explain_share(held_out, np.broadcast_to(mean, held_out.shape), 1.0)


def read_patterns(model: SmallModel, contexts: Int64) -> dict[Head, Float64]:
    """The attention of every head at the last position, each of shape (n, length)."""
    batches = [
        [pattern[:, :, -1].double().numpy() for pattern in model.watch(batch).patterns]
        for batch in np.array_split(contexts, -(-len(contexts) // 250))
    ]
    layers = [np.concatenate([batch[layer] for batch in batches]) for layer in range(model.shape.n_layers)]
    return {head: layers[head.layer][:, head.number] for head in model.shape.heads}


def table_score(table: UtilityTable) -> Score:
    """A table as a score for the positions of contexts."""
    return lambda contexts: table.at(contexts[:, -1:], contexts)


def correlate_tables(first: UtilityTable, second: UtilityTable) -> float:
    """The correlation of two tables within queries, over the pairs of the first, weighted by their counts."""
    query, token = (column(first.scores, name).astype(np.int64) for name in ("query", "token"))
    weights = first.counts.astype(np.float64)
    sums = np.maximum(np.bincount(query, weights=weights), 1e-12)

    def within(values: Float64) -> Float64:
        return values - (np.bincount(query, weights=weights * values) / sums)[query]

    return correlate(within(first.at(query, token)), within(second.at(query, token)), weights)


def attend(attention: Attention, contexts: Int64) -> Float64:
    """ln of attention with a floor, for the positions of contexts."""
    n, window = len(contexts), int(contexts.shape[1])
    flat = np.ascontiguousarray(contexts).ravel()
    offsets = window * np.arange(n + 1, dtype=np.int64)
    samples = Samples.from_arrays(flat, offsets, contexts[:, 0], n_tokens=attention.n_tokens)
    predicted = attention.predict_samples(samples)
    bags = predicted.bags
    wanted = pack_pairs(np.repeat(np.arange(n, dtype=np.int64), window), flat)
    rows, _ = find_rows(pack_pairs(bags.sample, bags.token), wanted)
    each = (predicted.probabilities / bags.multiplicity)[rows].reshape(n, window)
    return np.log((1 - FLOOR) * each + FLOOR / window)


def look_up(attention: FiniteAttention, contexts: Int64) -> Float64:
    """Finite scores for the positions of contexts."""
    counts = np.ones(attention.scores.num_rows, np.int64)
    return table_score(UtilityTable(Head(0, 0), attention.scores, attention.background, counts))(contexts)


def _pmi(text: Integers, n_tokens: int) -> Score:
    keys, counts = np.unique(np.asarray(text[:-1], np.int64) * n_tokens + text[1:], return_counts=True)
    single = np.bincount(text, minlength=n_tokens)

    def score(contexts: Int64) -> Float64:
        rows, is_counted = find_rows(keys, (contexts[:, -1:] * n_tokens + contexts).ravel())
        pairs = np.where(is_counted, counts[rows], 0).reshape(contexts.shape)
        followed = np.log(single[contexts[:, -1:]] + 0.1 * n_tokens)
        return np.log(pairs + 0.1) - followed - np.log(single[contexts] + 0.5)

    return score


def _token_scores(model: SmallModel, head: Head) -> Float64:
    every = np.arange(model.shape.n_tokens)
    return model.score_tokens(head, every, every)
