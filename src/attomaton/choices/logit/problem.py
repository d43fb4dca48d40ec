"""Choices in situations whose alternatives have rows with names: the data of a conditional logit.

ℓ(β) = Σ n_ij log p_ij with p_ij = exp(o_ij + x_ij·β) / Σ_k exp(o_ik + x_ik·β). All methods use scaled
coordinates: far columns are centred (see :mod:`~attomaton.choices.logit.centring`), column k is divided by
``scale[k]``, a power of two near its spread inside situations, and β is multiplied by it. A *pair* is (chosen
alternative c, other alternative j) with difference d = x_c − x_j; it is known by the row j, c being the most
chosen row of the situation. Rows that were also chosen are pairs in both directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.centring import AS_GIVEN, Centring, centre_columns
from attomaton.choices.logit.curvature import DenseCurvature, GraphCurvature
from attomaton.choices.logit.graph import GameGraph
from attomaton.choices.logit.rows import (
    CACHED_ITEMS,
    BattleRows,
    ChoiceRows,
    DenseRows,
    Situations,
    SparseRows,
    most_chosen,
)
from attomaton.choices.logit.untyped import csr_array, issparse

MOST_PARAMETERS, MOST_FEATURES = 5_000, 2_000
"""Columns of which the information matrix is formed, and those among them that may have any values: 2,000
take minutes, and the time grows with their cube."""

MOST_BESIDE = 64
"""Columns beside the items up to which the information of many items is kept on the graph of games."""

LARGEST_VALUE, SMALLEST_VALUE = 1e100, 1e-100
"""Sizes of a column between which squares neither overflow nor underflow."""

FEW_ENTRIES = 2_000_000
"""Entries of all rows up to which their own singular values are computed, not the Gram matrix's."""

DENSE_SHARE = 0.25
"""Share of entries that are not zero from which a sparse matrix is stored as a dense one."""


@dataclass(frozen=True, eq=False)
class ChoiceProblem:
    """Choices: a row of numbers for each alternative, how often each was chosen, and the column names.

    Attributes
    ----------
    rows : ChoiceRows
        The alternatives of all situations, one situation after the other.
    counts : float64 array, shape (n_rows,)
        How often each alternative was chosen; every situation has a positive one.
    names : tuple of str
        What each column is called.
    offsets : float64 array, shape (n_rows,), or None
        Known parts of the utilities.
    source_rows, source_situations : int64 array or None
        The numbers of the rows and situations before those that say nothing were dropped; None where none
        were, or where equal battles were added up.
    centring : Centring
        Which columns of ``rows`` are the given columns minus a multiple of a constant column.
    dense : bool or None
        Whether to form matrices of all parameters; None means yes, except for battles of more than 256 items,
        whose information is kept on the graph of games.

    Examples
    --------
    >>> problem = ChoiceProblem.from_rows([[1.0], [0.0], [1.0], [0.0]], [2, 2], [3, 0, 0, 1], names=["x"])
    >>> problem.n_choices, problem.rows.n_parameters, problem.scale.tolist()
    (4.0, 1, [0.5])
    """

    rows: ChoiceRows
    counts: Float64
    names: tuple[str, ...]
    offsets: Float64 | None = None
    source_rows: Int64 | None = None
    source_situations: Int64 | None = None
    centring: Centring = AS_GIVEN
    dense: bool | None = None

    @classmethod
    def from_rows(
        cls, matrix: Any, sizes: Any, counts: Any, *, names: Sequence[str] | None = None, offsets: Any = None
    ) -> Self:
        """Situations of ``sizes`` alternatives each, whose rows follow each other in ``matrix``.

        Parameters
        ----------
        matrix : array or scipy sparse array, shape (n_rows, n_parameters)
            The row of each alternative.
        sizes : sequence of int
            How many alternatives each situation has.
        counts : sequence of float, shape (n_rows,)
            How often each alternative was chosen.
        names : sequence of str, optional
            What the columns are called; "x1", "x2", … if not given.
        offsets : sequence of float, optional
            Known parts of the utilities, such as ln m for an option that is there m times; −inf says that
            the alternative was not there.
        """
        values, lengths, times = _check_rows(matrix, sizes, counts)
        labels = _check_names(names, values.shape[1])
        _check_sizes(values, labels)
        fixed = None if offsets is None else _check_offsets(offsets, len(times))
        use = np.ones(len(times), bool) if fixed is None else fixed > -np.inf
        if (times[~use] > 0).any():
            row = int(np.flatnonzero((times > 0) & ~use)[0])
            raise InvalidSamples(f"row {row} was chosen but has the offset −inf; give it a finite offset")

        # leave out situations with no choice to make, or none made: they say nothing
        situation = np.repeat(np.arange(len(lengths)), lengths)
        present = np.bincount(situation[use], minlength=len(lengths))
        total = np.bincount(situation, times, minlength=len(lengths))
        use &= ((present > 1) & (total > 0))[situation]
        if not use.all():
            values, times = values[use], times[use]
            fixed = None if fixed is None else fixed[use]
        sizes_left = np.bincount(situation[use], minlength=len(lengths))
        situations = Situations(np.concatenate([[0], np.cumsum(sizes_left[sizes_left > 0])]).astype(np.int64))
        rows, centring = _compare(values, situations, most_chosen(situations, times))
        return cls(
            rows,
            times,
            labels,
            fixed if fixed is not None and fixed.any() else None,
            None if use.all() else np.flatnonzero(use),
            None if use.all() else np.flatnonzero(sizes_left),
            centring,
        )

    @classmethod
    def from_battles(
        cls,
        first: Int64,
        second: Int64,
        outcomes: Float64,
        *,
        items: Sequence[str],
        features: Float64 | None = None,
        names: Sequence[str] = (),
        tie: str = "tie",
        merge: bool = True,
    ) -> Self:
        """Choices in battles between the items with numbers ``first`` and ``second``.

        Parameters
        ----------
        first, second : int array, shape (n_battles,)
            Numbers of items.
        outcomes : float array, shape (n_battles, 2) or (n_battles, 3)
            How often the first won, the second won, and, as a third outcome, neither did (Davidson).
        items : sequence of str
            The names of the items.
        features : float array, shape (n_battles, n_features), optional
            Features of the first less those of the second.
        names : sequence of str
            The names of the features.
        tie : str
            The name of the parameter of ties.
        merge : bool
            Whether equal battles are added up where there are no features and all counts are whole numbers.
        """
        times = np.asarray(outcomes, np.float64)
        values = np.zeros((len(times), 0)) if features is None else np.asarray(features, np.float64)
        _check_finite(values, "the feature in row")
        _check_sizes(values, names)
        _check_counts(times.ravel())
        informative = np.asarray(times.sum(axis=1) > 0) & (first != second)
        if merge and values.shape[1] == 0 and len(times) and (times % 1 == 0).all():
            pair, number = np.unique(first * len(items) + second, return_inverse=True)
            times = np.stack([np.bincount(number, column * informative) for column in times.T], axis=1)
            first, second = pair // len(items), pair % len(items)
            informative = times.sum(axis=1) > 0
            values, source = np.zeros((len(pair), 0)), None
        else:
            source = None if informative.all() else np.flatnonzero(informative)
        if not informative.all():
            first, second = first[informative], second[informative]
            times, values = times[informative], values[informative]
        ties = times.shape[1] == 3
        values, centring = centre_columns(values)
        rows = BattleRows(
            np.ascontiguousarray(first, np.int64),
            np.ascontiguousarray(second, np.int64),
            np.ascontiguousarray(values.T),
            len(items),
            ties,
        )
        labels = _check_names([*items, *names, *([tie] if ties else [])], rows.n_parameters)
        return cls(
            rows,
            np.asarray(times.ravel(), np.float64),
            labels,
            source_situations=source,
            centring=centring.shift(len(items)),
        )

    @cached_property
    def totals(self) -> Float64:
        """How many choices were made in each situation."""
        return self.situations.sum(self.counts)

    @property
    def situations(self) -> Situations:
        """Which rows belong together."""
        return self.rows.situations

    @cached_property
    def is_whole(self) -> bool:
        """Whether all counts are whole numbers."""
        return bool((self.counts % 1 == 0).all())

    @property
    def n_choices(self) -> float:
        """How many choices were made."""
        return float(self.totals.sum())

    @cached_property
    def reference(self) -> Int64:
        """The most chosen row of each situation, with which the other rows form pairs."""
        return most_chosen(self.situations, self.counts)

    @cached_property
    def also_chosen(self) -> Bool:
        """Rows that were chosen although another is the reference: such a pair has choices both ways."""
        mask = self.counts > 0
        mask[self.reference] = False
        return mask

    @cached_property
    def shared(self) -> Int64:
        """References of situations in which other rows were chosen, too."""
        if not self.also_chosen.any():
            return np.zeros(0, np.int64)
        return self.reference[self.situations.sum(self.also_chosen.astype(np.float64)) > 0]

    @cached_property
    def is_pair(self) -> Bool:
        """Rows that are not the reference of their situation."""
        mask = np.ones(self.situations.n_rows, bool)
        mask[self.reference] = False
        return mask

    @cached_property
    def scale(self) -> Float64:
        """Powers of two near the spread of each column inside situations; 1 for a column without any."""
        diagonal = (
            np.diag(self._raw_information)
            if self.graph is None
            else self._curve(self.even(None), np.ones(self.rows.n_parameters)).diagonal
        )
        spread = np.sqrt(diagonal / max(self.n_choices, 1.0))
        exponent = np.round(np.log2(np.where(spread > 0, spread, 1.0)))
        return np.where(spread > 0, 2.0**exponent, 1.0)

    @cached_property
    def _raw_information(self) -> Float64:
        size = np.diff(self.situations.starts).astype(np.float64)
        return self.rows.information(self.situations.spread(1.0 / size), self.totals)

    @cached_property
    def norms(self) -> Float64:
        """‖d‖ of the pair of each row; 0 at references."""
        return self.rows.norms(self.reference, self.scale)

    def parameters(self, beta: Float64) -> Float64:
        """β of the columns as they were given, from β in scaled coordinates; axis 0 runs over columns."""
        return self.centring.parameters((beta.T / self.scale).T)

    def coordinates(self, parameters: Float64) -> Float64:
        """Scaled coordinates of β of the columns as given; axis 0 runs over columns."""
        return (self.centring.coordinates(parameters).T * self.scale).T

    def scaled(self, rows: Float64) -> Float64:
        """Convert rows as given, or weights of contrasts, to scaled coordinates (last axis)."""
        return self.centring.centre(rows) / self.scale

    def covariance(self, scaled: Float64) -> Float64:
        """The covariance of the parameters as given from that of the scaled coordinates."""
        return self.parameters(self.parameters(scaled).T)

    def even(self, face: Bool | None) -> Float64:
        """In each situation, equal probabilities of the alternatives in ``face``, or of all."""
        size = np.diff(self.situations.starts).astype(np.float64)
        if face is None:
            return self.situations.spread(1.0 / size)
        return face / self.situations.spread(self.situations.sum(face.astype(np.float64)))

    def utilities(self, beta: Float64) -> Float64:
        """X β without offsets, β of shape (n_parameters,) or (n_parameters, n_columns)."""
        return self.rows.utilities((beta.T / self.scale).T)

    def gaps(self, beta: Float64) -> Float64:
        """d·β of the pair of each row; 0 at references."""
        values = self.utilities(beta)
        top = values[self.reference]
        np.negative(values, out=values)
        return self.situations.apply(np.add, values, top)

    def slopes(self, directions: Float64, rows: Int64) -> Float64:
        """d·v of the pairs of some rows, one column for each column v of scaled coordinates."""
        slopes = np.empty((len(rows), directions.shape[1]))
        for column, direction in enumerate(np.ascontiguousarray(directions.T)):
            slopes[:, column] = self.gaps(direction)[rows]
        return slopes

    def differences(self, rows: Int64) -> Float64:
        """The differences d of the pairs of some rows, shape (n, n_parameters)."""
        chosen = self.reference[self.situation_of(rows)]
        return (self.rows.take(chosen) - self.rows.take(rows)) / self.scale

    def situation_of(self, rows: Int64) -> Int64:
        """The situations of some rows."""
        return np.searchsorted(self.situations.starts, rows, side="right") - 1

    def gradient(self, weight: Float64) -> Float64:
        """Xᵀ w."""
        return self.rows.gradient(weight) / self.scale

    def information(self, probability: Float64) -> Float64:
        """Σ N_i Cov_i(x) under these probabilities."""
        return self.rows.information(probability, self.totals) / np.outer(self.scale, self.scale)

    @cached_property
    def graph(self) -> Any:
        """The graph of games on which the information is kept; None if it is a dense matrix."""
        rows = self.rows
        if self.dense or not isinstance(rows, BattleRows):
            return None
        few = rows.n_parameters - rows.n_items <= MOST_BESIDE
        large = rows.n_items > CACHED_ITEMS and few
        return GameGraph(rows.first, rows.second, rows.n_items) if large or self.dense is False else None

    def curvature(self, probability: Float64) -> Any:
        """The :class:`~attomaton.choices.logit.curvature.InformationMatrix` under these probabilities."""
        if self.graph is None:
            return DenseCurvature(self.information(probability))
        return self._curve(probability, self.scale)

    def _curve(self, probability: Float64, scale: Float64) -> GraphCurvature:
        rows: Any = self.rows
        weight, cross, tie = rows.weigh(probability, self.totals)
        border, corner = rows.join_columns(weight, cross, tie)
        return GraphCurvature(self.graph, 0.25 * weight, border, corner, scale)

    def weighted_rows(self, probability: Float64, basis: Float64) -> Float64 | None:
        """√(N p) (x − x̄)·basis of each row, whose Gram matrix is the information; None if it is too large."""
        if self.situations.n_rows * self.rows.n_parameters > FEW_ENTRIES:
            return None
        inside = (self.rows.take(np.arange(self.situations.n_rows)) / self.scale) @ basis
        away = inside - self.situations.spread(self.situations.sum(probability[:, None] * inside))
        return np.sqrt(probability * self.situations.spread(self.totals))[:, None] * away

    def information_at_zero(self, face: Bool | None) -> Float64:
        """The information where all alternatives of the face are equally probable: it spans what D₀ spans."""
        if face is None:
            return self._raw_information / np.outer(self.scale, self.scale)
        return self.information(self.even(face))

    def probabilities(self, utilities: Float64, face: Bool | None) -> tuple[Float64, float]:
        """Probabilities of the alternatives in ``face`` (None: all), and their log-likelihood."""
        inside = utilities if face is None else np.where(face, utilities, -np.inf)
        top = self.situations.top(inside)
        odds = self.situations.apply(np.subtract, inside.copy() if face is None else inside, top)
        total = float(self.counts[self._chosen] @ odds[self._chosen])
        np.exp(odds, out=odds)
        sums = self.situations.sum(odds)
        self.situations.apply(np.divide, odds, sums)
        return odds, total - float(self.totals @ np.log(sums))

    def with_offsets(self, utilities: Float64) -> Float64:
        """The utilities plus their known parts, the offsets."""
        return utilities if self.offsets is None else utilities + self.offsets

    def residuals(self, probability: Float64) -> Float64:
        """n_ij − N_i p_ij."""
        expected = self.situations.apply(np.multiply, probability.copy(), self.totals)
        return np.subtract(self.counts, expected, out=expected)

    def rounding(self, utilities: Float64) -> Float64:
        """What rounding may add to each entry of a gradient at these utilities of battles."""
        rows: Any = self.rows
        growth = max(float(np.abs(utilities).max(initial=0.0)) / 10, 1.0)
        return growth * np.finfo(np.float64).eps * rows.exposure(self.totals) / self.scale

    @cached_property
    def _chosen(self) -> Int64:
        return np.flatnonzero(self.counts > 0)

    def number(self, name: str) -> int:
        """The column of this name."""
        try:
            return self._number_of[name]
        except KeyError:
            listed = ", ".join(map(repr, self.names[:5])) + (", …" if len(self.names) > 5 else "")
            raise InvalidSamples(f"there is no parameter {name!r}; the names are {listed}") from None

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def check_columns(number: int, most: int = MOST_FEATURES) -> None:
    """Refuse more columns than are fitted in minutes."""
    if number > most:
        raise InvalidSamples(
            f"there are {number:,} columns, and at most {most:,} are supported; drop columns, or fit parts "
            "of the data"
        )


def _compare(
    values: Any, situations: Situations, reference: Int64
) -> tuple[DenseRows | SparseRows, Centring]:
    """Rows less the reference row of their situation, far columns centred."""
    check_columns(values.shape[1], MOST_PARAMETERS if issparse(values) else MOST_FEATURES)
    if not issparse(values):
        if situations.size:
            by_situation = values.reshape(len(situations), situations.size, -1)
            differences = (by_situation - values[reference][:, None]).reshape(values.shape)
        else:
            differences = values - situations.spread(values[reference])
        matrix, centring = centre_columns(differences)
        return DenseRows(matrix, situations), centring
    pick = csr_array(
        (np.ones(situations.n_rows), (np.arange(situations.n_rows), situations.spread(reference))),
        shape=(situations.n_rows,) * 2,
    )
    matrix = csr_array(values - pick @ values)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    matrix, centring = centre_columns(matrix)
    return SparseRows(matrix, situations), centring


def _check_rows(matrix: Any, sizes: Any, counts: Any) -> tuple[Any, Int64, Float64]:
    lengths, times = np.asarray(sizes, np.int64), np.asarray(counts, np.float64)
    values: Any = csr_array(matrix, dtype=np.float64) if issparse(matrix) else np.asarray(matrix, np.float64)
    if issparse(matrix) and values.nnz > DENSE_SHARE * values.shape[0] * values.shape[1]:
        values = values.toarray()
    if values.ndim != 2 or len(times) != values.shape[0] or int(lengths.sum()) != len(times):
        raise InvalidSamples(
            f"the matrix has shape {values.shape}, there are {len(times)} counts, and the sizes of "
            f"situations add up to {int(lengths.sum())}; give one row and one count for each alternative"
        )
    if len(lengths) and lengths.min() < 0:
        raise InvalidSamples("a situation has a negative number of alternatives; mend the sizes")
    _check_finite(values.data if issparse(values) else values, "the value in row")
    _check_counts(times)
    return values, lengths, times


def _check_finite(values: Float64, subject: str) -> None:
    if not np.isfinite(values.sum()):  # one pass without a mask
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise InvalidSamples(f"{subject} {int(bad[0][0])} is not finite; fill it in or drop the row")


def _check_sizes(values: Any, names: Sequence[str]) -> None:
    """Refuse columns whose squares leave the range of float64."""
    if not values.shape[0]:
        return
    top: Any = np.maximum(_dense(values.max(axis=0)), -_dense(values.min(axis=0)))
    bad = np.flatnonzero((top > LARGEST_VALUE) | ((top > 0) & (top < SMALLEST_VALUE)))
    if len(bad):
        raise InvalidSamples(
            f"column {names[bad[0]]!r} has values up to {top[bad[0]]:.3g}; scale it to a size near 1"
        )


def _dense(values: Any) -> Any:
    return values.toarray().ravel() if issparse(values) else np.asarray(values)


def _check_counts(counts: Float64) -> None:
    if len(counts) and not (np.isfinite(counts).all() and counts.min() >= 0):
        row = int(np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))[0])
        raise InvalidSamples(f"count {row} is {counts[row]}; give finite counts that are not negative")


def _check_offsets(offsets: Any, size: int) -> Float64:
    values = np.asarray(offsets, np.float64)
    if values.shape != (size,) or np.isnan(values).any() or (values == np.inf).any():
        raise InvalidSamples("offsets must be one number for each alternative, finite or −inf; correct them")
    return values


def _check_names(names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    labels = tuple(f"x{number + 1}" for number in range(size)) if names is None else tuple(names)
    if len(labels) != size or len(set(labels)) != size:
        raise InvalidSamples(
            f"there are {size} columns and {len(set(labels))} different names; name each column once"
        )
    return labels
