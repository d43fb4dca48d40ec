"""The data of a conditional logit: situations, the row of features of each alternative, and the choices.

:meth:`ChoiceProblem.from_rows` and :meth:`ChoiceProblem.from_battles` read them; its other methods compute.

Alternative j of situation i has the row x_ij and the offset o_ij, and was chosen n_ij times. Its probability
is p_ij = exp(o_ij + x_ij·β) / Σ_k exp(o_ik + x_ik·β), and the log-likelihood is ℓ(β) = Σ n_ij log p_ij.

Fits use *scaled coordinates*: far columns are centred (:mod:`~attomaton.choices.logit.centring`), column k is
divided by ``scale[k]``, a power of two near its spread inside situations, and β_k is multiplied by it. A
*pair* is (chosen alternative c, other alternative j) with difference d = x_c − x_j. It is identified by the
row j, since c is the *reference* of the situation, its most chosen row. Rows that were also chosen are pairs
in both directions. A *face* is a set of rows, as a mask; None means all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.centring import AS_GIVEN, Centring, centre_columns
from attomaton.choices.logit.curvature import DenseCurvature, GraphCurvature
from attomaton.choices.logit.graph import GameGraph
from attomaton.choices.logit.rows import BattleRows, ChoiceRows, DenseRows, Situations, SparseRows
from attomaton.choices.logit.untyped import csr_array, issparse, to_dense

# Most columns with an information matrix, and most that are features: 2,000 take minutes, and the time
# grows with their cube.
MOST_PARAMETERS, MOST_FEATURES = 5_000, 2_000

# Columns other than items up to which the information of many items is stored on the graph of games.
MOST_BESIDE = 64

# Sizes of a column between which squares neither overflow nor underflow.
LARGEST_VALUE, SMALLEST_VALUE = 1e100, 1e-100

# Entries of all rows up to which singular values are those of the rows, not of their Gram matrix.
FEW_ENTRIES = 2_000_000

DENSE_SHARE = 0.25  # share of entries that are not zero from which a sparse matrix is stored as a dense one


@dataclass(frozen=True, eq=False)
class ChoiceProblem:
    """Choices: a row of numbers for each alternative, how often each was chosen, and the column names.

    Attributes
    ----------
    rows : ChoiceRows
        The alternatives of all situations, one situation after the other.
    counts : float64 array, shape (n_rows,)
        How often each alternative was chosen; every situation has a positive count.
    names : tuple of str
        The name of each column.
    offsets : float64 array, shape (n_rows,), or None
        The o_ij: constants that are added to x_ij·β.
    source_rows, source_situations : int64 array or None
        The input's rows and situations that were not dropped as uninformative; None if none was dropped, or
        if equal battles were added up.
    centring : Centring
        Which columns of ``rows`` are the given columns minus a multiple of a constant column.
    dense : bool or None
        Whether to form matrices of all parameters; None means yes, except for battles of more than 256 items.

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
        """Choices in situations of ``sizes`` alternatives each, whose rows follow each other in ``matrix``.

        Parameters
        ----------
        matrix : array or scipy sparse array, shape (n_rows, n_parameters)
            The row of each alternative.
        sizes : sequence of int
            How many alternatives each situation has.
        counts : sequence of float, shape (n_rows,)
            How often each alternative was chosen.
        names : sequence of str, optional
            The column names; "x1", "x2", … by default.
        offsets : sequence of float, optional
            Constants added to utilities, such as ln m for an option that is offered m times; −inf for an
            alternative that was not offered.
        """
        values, n_alternatives, n_chosen = _check_rows(matrix, sizes, counts)
        labels = _check_names(names, values.shape[1])
        _check_sizes(values, labels)
        fixed = None if offsets is None else _check_offsets(offsets, len(n_chosen))
        is_used, n_used = _find_informative(n_alternatives, n_chosen, fixed)
        is_complete = bool(is_used.all())
        if not is_complete:
            values, n_chosen = values[is_used], n_chosen[is_used]
            fixed = None if fixed is None else fixed[is_used]
        situations = Situations.from_sizes(n_used[n_used > 0])
        rows, centring = _subtract_references(values, situations, situations.most_chosen(n_chosen))
        return cls(
            rows,
            n_chosen,
            labels,
            offsets=fixed if fixed is not None and fixed.any() else None,
            source_rows=None if is_complete else np.flatnonzero(is_used),
            source_situations=None if is_complete else np.flatnonzero(n_used),
            centring=centring,
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
            Features of the first minus features of the second.
        names : sequence of str
            The names of the features.
        tie : str
            The name of the parameter of ties.
        merge : bool
            Whether to merge battles of the same two items and add up their outcomes. It applies only if there
            are no features and all counts are whole numbers.
        """
        counts = np.asarray(outcomes, np.float64)
        values = np.zeros((len(counts), 0)) if features is None else np.asarray(features, np.float64)
        _check_finite(values, "the feature in row")
        _check_sizes(values, names)
        _check_counts(counts.ravel())
        informative = np.asarray(counts.sum(axis=1) > 0) & (first != second)
        source = None
        if merge and values.shape[1] == 0 and len(counts) and (counts % 1 == 0).all():
            pair, pair_of_battle = np.unique(first * len(items) + second, return_inverse=True)
            counts = np.stack([np.bincount(pair_of_battle, won * informative) for won in counts.T], axis=1)
            first, second = np.divmod(pair, len(items))
            informative = counts.sum(axis=1) > 0
            values = np.zeros((len(pair), 0))
        elif not informative.all():
            source = np.flatnonzero(informative)
        if not informative.all():
            first, second = first[informative], second[informative]
            counts, values = counts[informative], values[informative]
        ties = counts.shape[1] == 3
        values, centring = centre_columns(values)
        rows = BattleRows(
            first=np.ascontiguousarray(first, np.int64),
            second=np.ascontiguousarray(second, np.int64),
            features=np.ascontiguousarray(values.T),
            n_items=len(items),
            ties=ties,
        )
        return cls(
            rows,
            np.asarray(counts.ravel(), np.float64),
            _check_names([*items, *names, *([tie] if ties else [])], rows.n_parameters),
            source_situations=source,
            centring=centring.shift(n_columns=len(items)),
        )

    @cached_property
    def totals(self) -> Float64:
        """N_i, the number of choices in each situation, shape (n_situations,)."""
        return self.situations.sum(self.counts)

    @property
    def situations(self) -> Situations:
        return self.rows.situations

    @cached_property
    def is_whole(self) -> bool:
        """Whether all counts are whole numbers, so that choices are known one by one."""
        return bool((self.counts % 1 == 0).all())

    @property
    def n_choices(self) -> float:
        return float(self.totals.sum())

    @cached_property
    def reference(self) -> Int64:
        """The most chosen row of each situation, shape (n_situations,)."""
        return self.situations.most_chosen(self.counts)

    @cached_property
    def also_chosen(self) -> Bool:
        """Which rows were chosen but are not the reference: their pairs have choices both ways."""
        return (self.counts > 0) & self.is_pair

    @cached_property
    def shared(self) -> Int64:
        """References of situations in which another row was chosen, too."""
        if not self.also_chosen.any():
            return np.zeros(0, np.int64)
        return self.reference[self.situations.sum(self.also_chosen.astype(np.float64)) > 0]

    @cached_property
    def is_pair(self) -> Bool:
        """Which rows are not the reference of their situation."""
        mask = np.ones(self.situations.n_rows, bool)
        mask[self.reference] = False
        return mask

    def pairs_of(self, face: Bool | None) -> Bool:
        """Which rows of ``face`` are not the reference of their situation."""
        return self.is_pair if face is None else self.is_pair & face

    @cached_property
    def scale(self) -> Float64:
        """A power of two near the spread of each column inside situations; 1 for a column without spread."""
        # the diagonal of the information at equal probabilities is n_choices · spread²
        if self.graph is None:
            diagonal = np.diag(self._raw_information)
        else:
            diagonal = self._curve(self.even(None), np.ones(self.rows.n_parameters)).diagonal
        spread = np.sqrt(diagonal / max(self.n_choices, 1.0))
        exponent = np.round(np.log2(np.where(spread > 0, spread, 1.0)))
        return np.where(spread > 0, 2.0**exponent, 1.0)

    # The information of the columns of ``rows`` where all alternatives are equally probable.
    @cached_property
    def _raw_information(self) -> Float64:
        return self.rows.information(self.even(None), self.totals)

    @cached_property
    def norms(self) -> Float64:
        """‖d‖ of the pair of each row; 0 at references."""
        return self.rows.norms(self.reference, self.scale)

    def parameters(self, beta: Float64) -> Float64:
        """Convert β in scaled coordinates to β of the columns as given; axis 0 runs over columns."""
        return self.centring.parameters((beta.T / self.scale).T)

    def coordinates(self, parameters: Float64) -> Float64:
        """Convert β of the columns as given to scaled coordinates; axis 0 runs over columns."""
        return (self.centring.coordinates(parameters).T * self.scale).T

    def scaled(self, rows: Float64) -> Float64:
        """Convert rows as given, or contrasts, to scaled coordinates; the last axis runs over columns."""
        return self.centring.centre(rows) / self.scale

    def covariance(self, scaled: Float64) -> Float64:
        """Convert a covariance in scaled coordinates to one of the columns as given."""
        return self.parameters(self.parameters(scaled).T)

    def even(self, face: Bool | None) -> Float64:
        """Equal probabilities for the alternatives of each situation that are in ``face``."""
        if face is None:
            return self.situations.spread(1.0 / np.diff(self.situations.starts).astype(np.float64))
        return face / self.situations.spread(self.situations.sum(face.astype(np.float64)))

    def utilities(self, beta: Float64) -> Float64:
        """X β without offsets, β of shape (n_parameters,) or (n_parameters, n_columns)."""
        return self.rows.utilities((beta.T / self.scale).T)

    def gaps(self, beta: Float64) -> Float64:
        """d·β of the pair of each row; 0 at references."""
        values = self.utilities(beta)
        of_reference = values[self.reference]
        np.negative(values, out=values)  # in place: arrays of all rows are large
        return self.situations.apply(np.add, values, of_reference)

    def slopes(self, directions: Float64, rows: Int64) -> Float64:
        """d·v of the pairs of ``rows``, one column for each column v of ``directions``."""
        slopes = np.empty((len(rows), directions.shape[1]))
        for column, direction in enumerate(np.ascontiguousarray(directions.T)):
            slopes[:, column] = self.gaps(direction)[rows]
        return slopes

    def differences(self, rows: Int64) -> Float64:
        """The differences d of the pairs of ``rows``, shape (n, n_parameters)."""
        references = self.reference[self.situation_of(rows)]
        return (self.rows.take(references) - self.rows.take(rows)) / self.scale

    def situation_of(self, rows: Int64) -> Int64:
        """The situation of each of ``rows``."""
        return np.searchsorted(self.situations.starts, rows, side="right") - 1

    def gradient(self, weight: Float64) -> Float64:
        """Xᵀ w, shape (n_parameters,); the gradient of ℓ, if w are the residuals."""
        return self.rows.gradient(weight) / self.scale

    def information(self, probability: Float64) -> Float64:
        """The information matrix Σ_i N_i Cov_i(x) over the situations i, with N_i choices in situation i."""
        return self.rows.information(probability, self.totals) / np.outer(self.scale, self.scale)

    @cached_property
    def graph(self) -> Any:
        """The ``GameGraph`` of the pairs that met, which stores the information; None if it is dense."""
        rows = self.rows
        if self.dense or not isinstance(rows, BattleRows):
            return None
        has_few_features = rows.n_parameters - rows.n_items <= MOST_BESIDE
        if self.dense is None and (rows.fits_cache or not has_few_features):
            return None
        return GameGraph(rows.first, rows.second, rows.n_items)

    def curvature(self, probability: Float64) -> Any:
        """The :class:`~attomaton.choices.logit.curvature.InformationMatrix` under these probabilities."""
        if self.graph is None:
            return DenseCurvature(self.information(probability))
        return self._curve(probability, self.scale)

    # The information on the graph of games, in coordinates multiplied by ``scale``.
    def _curve(self, probability: Float64, scale: Float64) -> GraphCurvature:
        rows: Any = self.rows
        weights = rows.weigh(probability, self.totals)
        border, corner = rows.wide_blocks(weights)
        return GraphCurvature(self.graph, 0.25 * weights.of_h, border, corner, scale)  # h hᵀ has entries ± ¼

    def weighted_rows(self, probability: Float64, basis: Float64) -> Float64 | None:
        """√(N p) (x − x̄)·basis of each row, a root of the information; None if there are too many rows."""
        if self.situations.n_rows * self.rows.n_parameters > FEW_ENTRIES:
            return None
        inside = (self.rows.take(np.arange(self.situations.n_rows)) / self.scale) @ basis
        root_weight = np.sqrt(probability * self.situations.spread(self.totals))
        return root_weight[:, None] * self.situations.centre(inside, probability[:, None])

    def information_at_zero(self, face: Bool | None) -> Float64:
        """The information where all alternatives of ``face`` are equally probable."""
        if face is None:
            return self._raw_information / np.outer(self.scale, self.scale)
        return self.information(self.even(face))

    def probabilities(self, utilities: Float64, face: Bool | None) -> tuple[Float64, float]:
        """p_ij and ℓ if only the rows of ``face`` are offered; ``utilities`` include the offsets."""
        odds = utilities.copy() if face is None else np.where(face, utilities, -np.inf)
        self.situations.apply(np.subtract, odds, self.situations.top(odds))
        chosen_logits = float(self.counts[self._chosen] @ odds[self._chosen])
        np.exp(odds, out=odds)  # in place from here on: arrays of all rows are large
        sums = self.situations.sum(odds)
        self.situations.apply(np.divide, odds, sums)
        return odds, chosen_logits - float(self.totals @ np.log(sums))

    def with_offsets(self, utilities: Float64) -> Float64:
        """The utilities plus the offsets."""
        return utilities if self.offsets is None else utilities + self.offsets

    def residuals(self, probability: Float64) -> Float64:
        """n_ij − N_i p_ij."""
        expected = self.situations.apply(np.multiply, probability.copy(), self.totals)
        return np.subtract(self.counts, expected, out=expected)

    def rounding(self, utilities: Float64) -> Float64:
        """A bound on the rounding error of each entry of a gradient at these utilities of battles."""
        rows: Any = self.rows
        growth = max(float(np.abs(utilities).max(initial=0.0)) / 10, 1.0)  # ROUNDINGS holds up to 10
        return growth * np.finfo(np.float64).eps * rows.exposure(self.totals) / self.scale

    @cached_property
    def _chosen(self) -> Int64:
        return np.flatnonzero(self.counts > 0)

    def number(self, name: str) -> int:
        """The number of the column with this name."""
        try:
            return self._number_of[name]
        except KeyError:
            listed = ", ".join(map(repr, self.names[:5])) + (", …" if len(self.names) > 5 else "")
            raise InvalidSamples(f"there is no parameter {name!r}; give one of {listed}") from None

    def weigh_parameters(self, weights: Mapping[str, float]) -> Float64:
        """The contrast with these weights as an array over the columns as given."""
        contrast = np.zeros(len(self.names))
        for name, weight in weights.items():
            contrast[self.number(name)] += weight
        return contrast

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def check_columns(number: int, most: int = MOST_FEATURES) -> None:
    """Refuse more columns than are fitted in minutes."""
    if number > most:
        raise InvalidSamples(
            f"there are {number:,} columns, and at most {most:,} are supported; drop columns"
        )


# The rows offered in situations where a choice was made between two or more; their number in each.
def _find_informative(sizes: Int64, counts: Float64, offsets: Float64 | None) -> tuple[Bool, Int64]:
    offered = np.ones(len(counts), bool) if offsets is None else offsets > -np.inf
    wrong = np.flatnonzero((counts > 0) & ~offered)
    if len(wrong):
        raise InvalidSamples(f"row {wrong[0]} was chosen but has the offset −inf; give it a finite offset")
    situation = np.repeat(np.arange(len(sizes)), sizes)
    n_offered = np.bincount(situation[offered], minlength=len(sizes))
    total = np.bincount(situation, counts, minlength=len(sizes))
    is_used = offered & ((n_offered > 1) & (total > 0))[situation]
    return is_used, np.bincount(situation[is_used], minlength=len(sizes))


# Subtract the reference row of each situation from its rows, and centre far columns.
def _subtract_references(
    values: Any, situations: Situations, reference: Int64
) -> tuple[DenseRows | SparseRows, Centring]:
    check_columns(values.shape[1], MOST_PARAMETERS if issparse(values) else MOST_FEATURES)
    if not issparse(values):
        if situations.size:  # broadcast: the references need not be repeated in memory
            by_situation = values.reshape(len(situations), situations.size, -1)
            differences = (by_situation - values[reference][:, None]).reshape(values.shape)
        else:
            differences = values - situations.spread(values[reference])
        matrix, centring = centre_columns(differences)
        return DenseRows(matrix, situations), centring
    # the matrix P with (P X)_ij = x_ic for the reference c of situation i
    n_rows = situations.n_rows
    ones_at = np.arange(n_rows), situations.spread(reference)
    reference_of_row = csr_array((np.ones(n_rows), ones_at), shape=(n_rows, n_rows))
    matrix = csr_array(values - reference_of_row @ values)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    matrix, centring = centre_columns(matrix)
    return SparseRows(matrix, situations), centring


# The arguments as arrays that fit together; a sparse matrix with few zeros becomes a dense one.
def _check_rows(matrix: Any, sizes: Any, counts: Any) -> tuple[Any, Int64, Float64]:
    sizes, counts = np.asarray(sizes, np.int64), np.asarray(counts, np.float64)
    values: Any = csr_array(matrix, dtype=np.float64) if issparse(matrix) else np.asarray(matrix, np.float64)
    if issparse(matrix) and values.nnz > DENSE_SHARE * values.shape[0] * values.shape[1]:
        values = values.toarray()
    if values.ndim != 2 or len(counts) != values.shape[0] or int(sizes.sum()) != len(counts):
        raise InvalidSamples(
            f"the matrix has shape {values.shape}, there are {len(counts)} counts, and the sizes of "
            f"situations add up to {int(sizes.sum())}; give one row and one count for each alternative"
        )
    if len(sizes) and sizes.min() < 0:
        raise InvalidSamples("a situation has a negative number of alternatives; correct the sizes")
    _check_finite(values.data if issparse(values) else values, "the value in row")
    _check_counts(counts)
    return values, sizes, counts


def _check_finite(values: Float64, subject: str) -> None:
    if not np.isfinite(values.sum()):  # one pass without a mask
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            raise InvalidSamples(f"{subject} {int(wrong[0][0])} is not finite; fill it in or drop the row")


# Refuse columns whose squares overflow or underflow.
def _check_sizes(values: Any, names: Sequence[str]) -> None:
    if not values.shape[0]:
        return
    largest: Any = np.maximum(to_dense(values.max(axis=0)), -to_dense(values.min(axis=0))).ravel()
    wrong = np.flatnonzero((largest > LARGEST_VALUE) | ((largest > 0) & (largest < SMALLEST_VALUE)))
    if len(wrong):
        raise InvalidSamples(
            f"column {names[wrong[0]]!r} has values up to {largest[wrong[0]]:.3g}; scale the column to "
            "values near 1"
        )


def _check_counts(counts: Float64) -> None:
    if len(counts) and not (np.isfinite(counts).all() and counts.min() >= 0):
        row = int(np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))[0])
        raise InvalidSamples(f"count {row} is {counts[row]}; give a finite count, 0 or more")


def _check_offsets(offsets: Any, size: int) -> Float64:
    values = np.asarray(offsets, np.float64)
    if values.shape != (size,) or np.isnan(values).any() or (values == np.inf).any():
        raise InvalidSamples("offsets are not one finite number or −inf for each alternative; correct them")
    return values


def _check_names(names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    labels = tuple(f"x{number + 1}" for number in range(size)) if names is None else tuple(names)
    if len(labels) != size or len(set(labels)) != size:
        raise InvalidSamples(
            f"there are {size} columns and {len(set(labels))} different names; give each column its own name"
        )
    return labels
