"""Classes of sequences: a query, a next token, and the frequency of each token before the query."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base import borders
from attomaton.base.errors import InvalidSamples
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.printing import count_noun
from attomaton.base.ragged import group_borders, largest_of, offsets_of, ranges_of, rows_of, sum_at
from attomaton.base.tables import Bool, Float64, Int32, Int64, sum_equal_rows
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.grouping import count_keys, distinct_keys, find_rows, pack_pairs, unpack_pairs

# Number of tokens in memory at a time while counting classes: about half a gigabyte.
TOKENS_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False, repr=False)
class CorpusClasses:
    """Classes of sequences: a query, a next token, and the frequency of each token before the query.

    Class ``n`` has the entries ``offsets[n]:offsets[n + 1]`` of ``tokens`` and ``probabilities``.

    Attributes
    ----------
    queries, labels : int32 arrays, shape (n_classes,)
        The last token of the sequences of each class, and the token that follows.
    shares : float64 array, shape (n_classes,)
        The share of each class among all sequences; the shares sum to 1.
    offsets : int64 array, shape (n_classes + 1,)
        The index of the first entry of each class.
    tokens, probabilities : int32 and float64 arrays, shape (n_entries,)
        The tokens before the query, ascending, and their probabilities, which sum to 1 in each class.
    n_tokens : int
        The size of the vocabulary.
    lengths : float64 array, shape (n_classes,), optional
        The mean number of tokens before the query; None if sequences are arbitrarily long.
    n_samples : int
        The number of counted samples; 0 for classes that were not counted.

    Examples
    --------
    >>> CorpusClasses.from_table([3, 3], [4, 5], [[0.5, 0.5, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0, 0]]).distinct()
    array([1, 2])
    """

    queries: Int32
    labels: Int32
    shares: Float64
    offsets: Int64
    tokens: Int32
    probabilities: Float64
    n_tokens: int
    lengths: Float64 | None = None
    n_samples: int = 0

    def __post_init__(self) -> None:
        size = borders.check_size(self.n_tokens, MAX_TOKENS, "n_tokens", error=InvalidSamples)
        names = ("queries", "labels", "tokens")
        ids = {name: borders.check_int32(getattr(self, name), name, error=InvalidSamples) for name in names}
        for name in names:
            borders.check_ids(ids[name], size, name, error=InvalidSamples)
        offsets = borders.check_int64(self.offsets, "offsets", error=InvalidSamples)
        borders.check_offsets(offsets, len(ids["tokens"]), "offsets of classes", error=InvalidSamples)
        if not len(offsets) - 1 == len(ids["queries"]) == len(ids["labels"]):
            raise InvalidSamples(
                f"{len(ids['queries'])} queries, {len(ids['labels'])} labels and {len(offsets)} offsets; "
                "give one query and one label for each class, and one offset more than classes"
            )
        shares = borders.check_floats(self.shares, (len(offsets) - 1,), "shares")
        probabilities = borders.check_floats(self.probabilities, (len(ids["tokens"]),), "probabilities")
        settle(self, offsets=offsets, shares=shares, probabilities=probabilities, n_tokens=size, **ids)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        classes = count_noun(len(self), "class", "classes")
        queries = count_noun(len(np.unique(self.queries)), "query", "queries")
        return f"CorpusClasses({classes} of {queries}, {self.n_tokens:,} tokens)"

    @classmethod
    def from_table(
        cls, queries: ArrayLike, labels: ArrayLike, weights: ArrayLike, *, shares: ArrayLike | None = None
    ) -> Self:
        """Make classes from the ``weights`` of each token, shape (n_classes, n_tokens).

        ``queries`` and ``labels`` have one token id per class. ``shares`` are equal by default.
        """
        query = np.asarray(queries, np.int32)
        label = np.asarray(labels, np.int32)
        table = np.asarray(weights, np.float64)
        share = np.ones(len(query)) if shares is None else np.asarray(shares, np.float64)
        _check_classes(query, label, table, share)
        rows, tokens = np.nonzero(table)
        return cls(
            queries=query,
            labels=label,
            shares=share / share.sum(),
            offsets=group_borders(rows, len(query)),
            tokens=tokens.astype(np.int32),
            probabilities=table[rows, tokens] / table.sum(axis=1)[rows],
            n_tokens=table.shape[1],
        )

    @classmethod
    def from_samples(cls, samples: Samples, *, min_samples: int = 1) -> Self:
        """Count the pairs of query and label in samples, with the tokens before the query.

        A pair with fewer than ``min_samples`` samples that have a token before the query is left out.
        """
        min_samples = whole_number(min_samples, "min_samples", least=1)
        inside = samples.take(samples.lengths > 1)  # at least one token before the query
        pair = pack_pairs(inside.queries, inside.labels)
        keys, counts = count_keys(pair)  # one class for each pair
        frequent = counts >= min_samples
        keys = keys[frequent]
        counts = counts[frequent]
        if not len(keys):
            raise InvalidSamples(
                f"no pair of query and label has {min_samples:,} samples with a token before the query; "
                "give more text, or lower min_samples"
            )
        class_of_sample, is_counted = find_rows(keys, pair)
        entries, occurrences = _count_entries(inside.take(is_counted), class_of_sample[is_counted])
        rows, tokens = unpack_pairs(entries)  # rows are classes
        totals = np.bincount(rows, weights=occurrences, minlength=len(keys))
        queries, labels = unpack_pairs(keys)
        return cls(
            queries=queries.astype(np.int32),
            labels=labels.astype(np.int32),
            shares=counts / counts.sum(),
            offsets=group_borders(rows, len(keys)),
            tokens=tokens.astype(np.int32),
            probabilities=occurrences / totals[rows],
            n_tokens=samples.n_tokens,
            lengths=totals / counts,
            n_samples=int(counts.sum()),
        )

    @cached_property
    def rows(self) -> Int64:
        """Return the class of each entry, shape (n_entries,)."""
        return rows_of(self.offsets)

    @cached_property
    def dense(self) -> Float64:
        """Return P(l | n) as a matrix, shape (n_classes, n_tokens), for small vocabularies."""
        table = np.zeros((len(self), self.n_tokens))
        table[self.rows, self.tokens] = self.probabilities
        return table

    @cached_property
    def features(self) -> Float64:
        """Divide the probabilities of each class by their Euclidean norm, shape (n_entries,)."""
        squares = np.add.reduceat(self.probabilities**2, self.offsets[:-1])
        return self.probabilities / np.sqrt(squares)[self.rows]

    @cached_property
    def concentration(self) -> Float64:
        """Return the largest share of each token's occurrences in one class, shape (n_tokens,), or 0."""
        mass = self.shares[self.rows] * self.probabilities  # share of all sequences × P(l | n)
        most = largest_of(self.tokens, mass, self.n_tokens, least=0.0)
        total = sum_at(self.tokens, mass, self.n_tokens)
        return np.divide(most, total, out=np.zeros(self.n_tokens), where=total > 0)

    @cached_property
    def n_classes_of(self) -> Int64:
        """Count the classes in which each token precedes the query, shape (n_tokens,)."""
        return np.bincount(self.tokens, minlength=self.n_tokens).astype(np.int64)

    def distinct(self, tolerance: float = 0.0) -> Int64:
        """Return the tokens with at most a share of ``tolerance`` of their occurrences outside one class."""
        return np.flatnonzero(self.is_distinct(tolerance))

    def common(self, tolerance: float = 0.0) -> Int64:
        """Return the tokens before a query that are not distinct."""
        return np.flatnonzero((self.n_classes_of > 0) & ~self.is_distinct(tolerance))

    def is_distinct(self, tolerance: float = 0.0) -> Bool:
        """Return whether each token is distinct, shape (n_tokens,)."""
        tolerance = real_number(tolerance, "tolerance", least=0, below=1)
        return (self.n_classes_of == 1) | ((self.n_classes_of > 1) & (self.concentration >= 1 - tolerance))

    def of_queries(self, queries: ArrayLike) -> Self:
        """Return the classes of these queries only, with shares rescaled to sum to 1."""
        indices = np.flatnonzero(np.isin(self.queries, np.asarray(queries)))
        if not len(indices):
            raise InvalidSamples("none of these tokens is the query of a class; use one of .queries")
        chosen = self.take(indices)
        return replace(chosen, shares=chosen.shares / chosen.shares.sum())

    def take(self, indices: Int64) -> Self:
        """Return the classes with these indices, with their shares in the whole corpus."""
        entries = ranges_of(self.offsets[indices], np.diff(self.offsets)[indices])
        return type(self)(
            queries=self.queries[indices],
            labels=self.labels[indices],
            shares=self.shares[indices],
            offsets=offsets_of(np.diff(self.offsets)[indices]),
            tokens=self.tokens[entries],
            probabilities=self.probabilities[entries],
            n_tokens=self.n_tokens,
            lengths=None if self.lengths is None else self.lengths[indices],
            n_samples=round(self.n_samples * float(self.shares[indices].sum())),
        )

    def query_shares(self) -> tuple[Int64, Float64]:
        """Return the queries and their shares of all sequences, most frequent first."""
        queries = distinct_keys(self.queries.astype(np.int64))
        row, _ = find_rows(queries, self.queries.astype(np.int64))
        share: Float64 = np.bincount(row, weights=self.shares).astype(np.float64)
        order = np.argsort(-share, kind="stable")
        return queries[order], share[order]


def draw_linear_classes(
    n_queries: int,
    *,
    classes_per_query: int = 1,
    n_common: int = 10,
    n_distinct: int = 10,
    common_weight: float = 1.0,
    distinct_weights: tuple[float, float] = (0.1, 1.0),
) -> CorpusClasses:
    """Make the equally frequent classes of Figures 4 and 6 of the paper.

    Each of the ``n_queries`` queries has ``classes_per_query`` classes. All classes share ``n_common`` tokens
    of weight ``common_weight``. Each class has ``n_distinct`` tokens of its own, whose weights increase
    linearly between the two ``distinct_weights``. Ids are given to common tokens, distinct tokens by class,
    queries and labels.

    Examples
    --------
    >>> draw_linear_classes(2)
    CorpusClasses(2 classes of 2 queries, 34 tokens)
    """
    n_queries = whole_number(n_queries, "n_queries", least=1, most=MAX_TOKENS)
    classes_per_query = whole_number(classes_per_query, "classes_per_query", least=1, most=MAX_TOKENS)
    n_common = whole_number(n_common, "n_common", most=MAX_TOKENS)
    n_distinct = whole_number(n_distinct, "n_distinct", most=MAX_TOKENS)
    common_weight = real_number(common_weight, "common_weight", least=0)
    low, high = (real_number(weight, "a weight of distinct tokens", least=0) for weight in distinct_weights)
    n_classes = n_queries * classes_per_query
    first_query = n_common + n_classes * n_distinct
    n_tokens = first_query + n_queries + n_classes
    weights = np.zeros((n_classes, n_tokens))
    weights[:, :n_common] = common_weight
    for number in range(n_classes):
        first = n_common + number * n_distinct
        weights[number, first : first + n_distinct] = np.linspace(low, high, n_distinct)
    queries = first_query + np.repeat(np.arange(n_queries), classes_per_query)
    labels = first_query + n_queries + np.arange(n_classes)
    return CorpusClasses.from_table(queries, labels, weights)


# The pairs of class and token before the query, packed and ascending, and their counts.
def _count_entries(samples: Samples, class_of_sample: Int64) -> tuple[Int64, Int64]:
    order = np.argsort(class_of_sample, kind="stable")
    owner = class_of_sample[order]
    starts = samples.starts[order]
    lengths = samples.lengths[order] - 1  # the query is not counted
    ends = np.cumsum(lengths)
    # a batch has about TOKENS_AT_ONCE tokens; it begins at the first sample of a class, so that classes are
    # whole, and the pairs of one batch come before those of the next
    full = np.searchsorted(ends, np.arange(TOKENS_AT_ONCE, int(ends[-1]), TOKENS_AT_ONCE))
    cuts = np.searchsorted(owner, owner[full])
    counted: list[tuple[Int64, Int64]] = []
    for start, stop in pairwise(distinct_keys(np.concatenate([[0], cuts, [len(owner)]])).tolist()):
        batch = slice(start, stop)
        tokens = samples.values[ranges_of(starts[batch], lengths[batch])]
        counted.append(count_keys(pack_pairs(np.repeat(owner[batch], lengths[batch]), tokens)))
    entries, counts = zip(*counted, strict=True)
    return np.concatenate(entries), np.concatenate(counts)


def _check_classes(query: Int32, label: Int32, table: Float64, share: Float64) -> None:
    # raise ``InvalidSamples`` unless the arguments of ``from_table`` fit together and describe classes
    if table.ndim != 2 or not len(query) == len(label) == len(table) == len(share) or not len(query):
        raise InvalidSamples(
            f"{len(query)} queries, {len(label)} labels, {len(share)} shares and weights of shape "
            f"{table.shape}; give one of each for every class, and at least one class"
        )
    if not (np.isfinite(table).all() and np.isfinite(share).all()) or table.min() < 0 or share.min() <= 0:
        raise InvalidSamples("weights must be finite and not negative, shares finite and above 0")
    empty = np.flatnonzero(table.sum(axis=1) == 0)
    if len(empty):
        raise InvalidSamples(
            f"class {empty[0]} has no token before its query; give one token a weight above 0"
        )
    if len(np.unique(pack_pairs(query.astype(np.int64), label.astype(np.int64)))) < len(query):
        raise InvalidSamples("two classes have the same query and label; merge them into one")


def classes_of_contexts(samples: Samples, *, query_is_key: bool = False) -> CorpusClasses:
    """One class for each distinct query, label and multiset of keys; samples without a key are left out."""
    n_not_keys = 0 if query_is_key else 1  # tokens at the end of a context
    usable = samples.take(samples.lengths > n_not_keys)
    if not len(usable):
        raise InvalidSamples("no sample has a token before its query (its last token); use longer contexts")
    lengths = usable.lengths - n_not_keys
    offsets = offsets_of(lengths)
    keys = usable.values[ranges_of(usable.starts, lengths)]
    sorted_keys = unpack_pairs(np.sort(pack_pairs(rows_of(offsets), keys)))[1]  # in each sample, ascending
    # one ragged row for each sample: query, label, sorted keys; samples with equal rows are one class
    query_and_label = np.stack([usable.queries, usable.labels], axis=1)
    ids = np.insert(sorted_keys, np.repeat(offsets[:-1], 2), query_and_label.ravel())
    row_offsets = offsets + 2 * np.arange(len(offsets))  # each row before has two ids more than keys
    row_offsets, ids, n_samples = sum_equal_rows(row_offsets, ids, np.ones(len(usable), np.int64))
    first = row_offsets[:-1]
    n_keys = np.diff(row_offsets) - 2
    is_key = np.ones(len(ids), bool)
    is_key[first] = is_key[first + 1] = False
    class_of_key = np.repeat(np.arange(len(n_samples)), n_keys)
    entries, occurrences = count_keys(pack_pairs(class_of_key, ids[is_key]))
    rows, tokens = unpack_pairs(entries)
    return CorpusClasses(
        queries=ids[first],
        labels=ids[first + 1],
        shares=n_samples / n_samples.sum(),
        offsets=group_borders(rows, len(n_samples)),
        tokens=tokens,
        probabilities=occurrences / n_keys[rows],
        n_tokens=usable.n_tokens,
        lengths=n_keys.astype(np.float64),
    )
