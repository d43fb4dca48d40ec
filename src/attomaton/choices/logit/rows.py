"""The rows x_ij of a choice model, in three forms with the same methods: battles, dense rows, sparse rows.

Only differences inside a situation matter. Dense and sparse rows are stored as x_ij − x_ic, where c is the
most chosen alternative of situation i, its *reference*; battles as ±h and e_tie with h = ½ (x_first −
x_second). Each method is defined in :class:`DenseRows`; battles compute it without forming rows. Arrays over
rows have an entry for each alternative, situation after situation: ``probability`` has the p_ij, ``weight``
any weights. ``totals`` has N_i, the number of choices in each situation i. Columns are parameters.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.untyped import csr_array

BLOCK_ENTRIES = 1 << 17  # entries of a block of dense rows that are weighted at once: they stay in the cache
FEW_ALTERNATIVES = 12  # alternatives per situation up to which sums run over columns instead of over segments
CACHED_ITEMS = 256  # items up to which a sum for each pair of them stays in the cache

# The rounding error of a residual in units of that of float64, as long as utilities are below 10.
ROUNDINGS = 64

# The factor of 2h in the rows h, −h and e_tie of a battle.
HALF_SIGNS = np.array([0.5, -0.5, 0.0])


@dataclass(frozen=True, eq=False)
class Situations:
    """Which rows belong to which situation: situation i has rows ``starts[i]`` … ``starts[i + 1] − 1``."""

    starts: Int64

    @classmethod
    def from_sizes(cls, sizes: Int64) -> Self:
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @cached_property
    def size(self) -> int | None:
        """The number of alternatives if it is equal in all situations, else None."""
        sizes = np.diff(self.starts)
        return int(sizes[0]) if len(sizes) and (sizes == sizes[0]).all() else None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def of_row(self) -> Int64:  # the situation of each row
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))

    def sum(self, values: Float64) -> Float64:
        """Sums over the rows of each situation, shape (n_situations, …)."""
        return self._reduce(np.add, values)

    def top(self, values: Float64) -> Float64:
        """The largest value of each situation, shape (n_situations, …)."""
        return self._reduce(np.maximum, values)

    def spread(self, values: Any) -> Any:
        """Repeat the value of each situation for its rows."""
        return np.repeat(values, np.diff(self.starts) if self.size is None else self.size, axis=0)

    def centre(self, values: Float64, probability: Float64) -> Float64:
        """Values minus their mean in the situation, by the probabilities of its rows."""
        return values - self.spread(self.sum(probability * values))

    def apply(self, operation: Any, values: Float64, of_situation: Float64) -> Float64:
        """Apply a ufunc to the value of each row and that of its situation, in place."""
        if self.size is None or self.size > FEW_ALTERNATIVES:
            return operation(values, self.spread(of_situation), out=values)
        for column in self.columns(values):
            operation(column, of_situation, out=column)
        return values

    def columns(self, values: Float64) -> list[Float64]:
        """Views of the first, second, … alternative of all situations, if these are of equal size."""
        return [values[alternative :: self.size] for alternative in range(self.size or 0)]

    def most_chosen(self, counts: Float64) -> Int64:
        """The most chosen row of each situation, the first if there are several."""
        rows = np.flatnonzero(counts > 0)
        if len(rows) == len(self):  # one in each situation, which all have a choice
            return rows
        situation = rows // self.size if self.size else self.of_row[rows]
        rows = rows[np.lexsort((rows, -counts[rows], situation))]
        return rows[np.diff(np.sort(situation), prepend=-1) > 0]  # the first row of each situation

    def _reduce(self, operation: Any, values: Float64) -> Float64:
        if self.size is None or self.size > FEW_ALTERNATIVES:
            return operation.reduceat(values, self.starts[:-1], axis=0) if len(self) else values[:0]
        first, *following = self.columns(values)
        total = first.copy()
        for column in following:
            operation(total, column, out=total)
        return total


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of a dense matrix with x_ij − x_ic in row ij, weighted in blocks by BLAS."""

    matrix: Float64
    situations: Situations

    @property
    def n_parameters(self) -> int:
        return self.matrix.shape[1]

    def utilities(self, beta: Float64) -> Float64:
        """X β, shape (n_rows,) or (n_rows, n_columns of β)."""
        return self.matrix @ beta

    def gradient(self, weight: Float64) -> Float64:
        """Xᵀ w, shape (n_parameters,)."""
        return weight @ self.matrix

    def information(self, probability: Float64, totals: Float64) -> Float64:
        """Σ_i N_i Σ_j p_ij (x_ij − x̄_i)(x_ij − x̄_i)ᵀ, as second moments less those of the means x̄_i."""
        total = np.zeros((self.n_parameters, self.n_parameters))
        root_totals = np.sqrt(totals)
        root_weight = np.sqrt(self.situations.apply(np.multiply, probability.copy(), totals))  # √(N p)
        size = self.situations.size
        for first, last, rows in self._blocks():
            weighted = self.matrix[rows] * root_weight[rows, None]
            total += weighted.T @ weighted
            if size:  # √N x̄ of situations of equal size, by a product for each
                weight = probability[rows].reshape(-1, 1, size) * root_totals[first:last, None, None]
                means = np.matmul(weight, self.matrix[rows].reshape(-1, size, self.n_parameters))[:, 0]
            else:
                weighted *= np.sqrt(probability[rows])[:, None]  # √N p x: sums to √N x̄
                means = self._within(first, last).sum(weighted)
            total -= means.T @ means
        return total

    def scores(self, weight: Float64, groups: Int64 | None) -> Float64:
        """Σ_g s_g s_gᵀ with s_g = Σ w x over the rows of group g; None: every situation is a group."""
        total = np.zeros((self.n_parameters, self.n_parameters))
        sums = None if groups is None else np.zeros((int(groups.max(initial=-1)) + 1, self.n_parameters))
        for first, last, rows in self._blocks():
            score = self._within(first, last).sum(self.matrix[rows] * weight[rows, None])
            if sums is None or groups is None:
                total += score.T @ score
            else:
                np.add.at(sums, groups[first:last], score)
        return total if sums is None else sums.T @ sums

    def take(self, rows: Int64) -> Float64:
        """These rows as a dense matrix."""
        return self.matrix[rows]

    def pick(self, rows: Int64) -> Any:
        """These rows as a sparse matrix, whose first columns are the items; battles have no other columns."""
        return csr_array(self.matrix[rows])

    def norms(self, reference: Int64, scale: Float64) -> Float64:  # noqa: ARG002
        """‖(x_c − x) / scale‖ of each row x, where c is the reference: here x_c is 0."""
        return np.sqrt(np.square(self.matrix) @ scale**-2.0)

    def arcs(self, reference: Int64) -> tuple[Int64, Int64] | None:  # noqa: ARG002
        """(a, b) of every row x if all differences x_c − x are e_a − e_b, a = b where they are 0."""
        if self.n_parameters > 1 << 12:  # such differences in more columns come as sparse rows
            return None
        return sparse_arcs(csr_array(self.matrix))

    def arrays(self) -> dict[str, Any]:
        """The arrays that are stored in a folder."""
        return {"matrix": self.matrix, "starts": self.situations.starts}

    # The first and last situation (excluded) of each block, and its rows.
    def _blocks(self) -> list[tuple[int, int, slice]]:
        mean_entries = max(self.matrix.size / max(len(self.situations), 1), 1.0)
        n_together = max(int(BLOCK_ENTRIES / mean_entries), 1)
        borders = [*range(0, len(self.situations), n_together), len(self.situations)]
        starts = self.situations.starts
        return [(first, last, slice(starts[first], starts[last])) for first, last in pairwise(borders)]

    # The situations of a block, with rows counted from its start.
    def _within(self, first: int, last: int) -> Situations:
        return Situations(self.situations.starts[first : last + 1] - self.situations.starts[first])


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix with x_ij − x_ic in row ij."""

    matrix: Any
    situations: Situations

    @property
    def n_parameters(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _transposed(self) -> Any:
        return self.matrix.T.tocsr()

    def utilities(self, beta: Float64) -> Float64:
        return self.matrix @ beta

    def gradient(self, weight: Float64) -> Float64:
        return self._transposed @ weight

    def information(self, probability: Float64, totals: Float64) -> Float64:
        weight = probability * self.situations.spread(totals)
        moments = self._transposed @ self._weighted(weight)
        means = self._sums(probability)
        diagonal_totals = csr_array((totals, (range(len(totals)),) * 2))
        return (moments - means.T @ (diagonal_totals @ means)).toarray()

    def scores(self, weight: Float64, groups: Int64 | None) -> Float64:
        sums = self._sums(weight)
        if groups is not None:
            units = np.ones(len(groups))
            sums = csr_array((units, (groups, np.arange(len(groups))))) @ sums
        return (sums.T @ sums).toarray()

    def take(self, rows: Int64) -> Float64:
        return self.matrix[rows].toarray()

    def pick(self, rows: Int64) -> Any:
        return self.matrix[rows]

    def norms(self, reference: Int64, scale: Float64) -> Float64:  # noqa: ARG002
        return np.sqrt(self.matrix.multiply(self.matrix).tocsr() @ scale**-2.0)

    def arcs(self, reference: Int64) -> tuple[Int64, Int64] | None:  # noqa: ARG002
        return sparse_arcs(self.matrix)

    def arrays(self) -> dict[str, Any]:
        csr = {name: getattr(self.matrix, name) for name in ("data", "indices", "indptr")}
        return {**csr, "starts": self.situations.starts, "n_parameters": np.array([self.n_parameters])}

    # The sparse matrix with w x in each row.
    def _weighted(self, weight: Float64) -> Any:
        matrix = self.matrix
        data = matrix.data * np.repeat(weight, np.diff(matrix.indptr))
        return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    # The sparse matrix with Σ w x over each situation, shape (n_situations, n_parameters).
    def _sums(self, weight: Float64) -> Any:
        size = self.situations.n_rows
        return csr_array((weight, np.arange(size), self.situations.starts)) @ self.matrix


def sparse_arcs(matrix: Any) -> tuple[Int64, Int64] | None:
    """(a, b) of rows −e_a + e_b, and (0, 0) of zero rows; None if a row is neither."""
    matrix = csr_array(matrix)
    matrix.eliminate_zeros()
    n_entries = np.diff(matrix.indptr)
    has_two = n_entries == 2
    if not (has_two | (n_entries == 0)).all():
        return None
    values = matrix.data.reshape(-1, 2)  # of the rows with two entries
    columns = matrix.indices.reshape(-1, 2)
    if not (np.abs(values) == 1).all() or not (values.sum(axis=1) == 0).all():
        return None
    ends = np.zeros((2, len(n_entries)), np.int64)
    ends[0, has_two] = np.where(values[:, 0] < 0, columns[:, 0], columns[:, 1])
    ends[1, has_two] = np.where(values[:, 0] < 0, columns[:, 1], columns[:, 0])
    return ends[0], ends[1]


class BattleWeights(NamedTuple):
    """The weights of h hᵀ, of h e_tieᵀ + e_tie hᵀ, and of e_tie e_tieᵀ; None without ties."""

    of_h: Float64  # (n_battles,)
    of_cross: Float64 | None = None
    of_tie: Float64 | None = None


@dataclass(frozen=True, eq=False)
class BattleRows:
    """Battles of two items, with two or three rows: h, −h, and e_tie if a tie is a third alternative.

    h = ½ (e_first − e_second + z), where z are the features of the first item less those of the second. The
    columns are the items, then the features, then the tie if there is one.
    """

    first: Int64  # (n_battles,), the first item
    second: Int64  # (n_battles,)
    features: Float64  # z, shape (n_features, n_battles)
    n_items: int
    ties: bool

    @cached_property
    def situations(self) -> Situations:
        return Situations(np.arange(len(self.first) + 1, dtype=np.int64) * (2 + self.ties))

    @property
    def n_parameters(self) -> int:
        return self.n_items + len(self.features) + self.ties

    @property
    def fits_cache(self) -> bool:
        """Whether a sum for each pair of items stays in the cache."""
        return self.n_items <= CACHED_ITEMS

    # The number of the ordered pair of items of each battle.
    @cached_property
    def _pair(self) -> Int64:
        return self.first * self.n_items + self.second

    @property
    def _feature_columns(self) -> slice:
        return slice(self.n_items, self.n_items + len(self.features))

    def utilities(self, beta: Float64) -> Float64:
        if beta.ndim == 2:
            return np.stack([self.utilities(column) for column in np.ascontiguousarray(beta.T)], axis=1)
        item = 0.5 * beta[: self.n_items]
        half = item[self.first]  # h·β of each battle, in place: there may be millions
        half -= item[self.second]
        if len(self.features):
            half += (0.5 * beta[self._feature_columns]) @ self.features
        result = np.empty((len(half), 2 + self.ties))
        result[:, 0] = half
        np.negative(half, out=result[:, 1])
        if self.ties:
            result[:, 2] = beta[-1]
        return result.ravel()

    def gradient(self, weight: Float64) -> Float64:
        first, second, *tie = self.situations.columns(weight)
        half = 0.5 * (first - second)
        of_tie = [column.sum() for column in tie]
        return np.concatenate([self._sum_differences(half), self.features @ half, of_tie])

    def information(self, probability: Float64, totals: Float64) -> Float64:
        return self._gram(self.weigh(probability, totals))

    def weigh(self, probability: Float64, totals: Float64) -> BattleWeights:
        """The information of each battle as weights of its outer products."""
        # that of h hᵀ is the variance of the sign of h, 4 p_first p_second + p_tie (1 − p_tie)
        first, second, *tied = self.situations.columns(probability)
        weight = 4.0 * first * second
        if not tied:
            return BattleWeights(totals * weight)
        tie = tied[0]
        tie_variance = tie * (first + second)
        weight += tie_variance
        return BattleWeights(totals * weight, totals * (second - first) * tie, totals * tie_variance)

    def leverage(self, covariance: Float64, probability: Float64, totals: Float64) -> Float64:
        """The trace of the information of each battle times ``covariance``, of all parameters."""
        # hᵀCh = ¼ (C_aa + C_bb − 2 C_ab + Σ_k z_k (2 (C_ak − C_bk) + Σ_l C_kl z_l)) for a battle of a and b
        weights = self.weigh(probability, totals)
        first, second = self.first, self.second
        variance = np.diag(covariance)[: self.n_items]
        border, corner = np.split(covariance[:, self.n_items :], [self.n_items])
        square = variance[first] + variance[second] - 2.0 * covariance[first, second]
        for column, feature in enumerate(self.features):
            joint = corner[column, : len(self.features)] @ self.features
            square += feature * (2.0 * (border[first, column] - border[second, column]) + joint)
        trace = 0.25 * weights.of_h * square
        if weights.of_cross is not None and weights.of_tie is not None:
            mixed = border[first, -1] - border[second, -1] + corner[-1, : len(self.features)] @ self.features
            trace += weights.of_cross * mixed + weights.of_tie * corner[-1, -1]  # 2 hᵀC e_tie is ``mixed``
        return trace

    def scores(self, weight: Float64, groups: Int64 | None) -> Float64:
        first, second, *tied = self.situations.columns(weight)
        along_h = first - second  # the score of a battle is along_h · h + along_tie · e_tie
        along_tie = tied[0] if tied else np.zeros(0)
        if groups is not None:
            return self._group_scores(along_h, along_tie, groups)
        if not tied:
            return self._gram(BattleWeights(along_h**2))
        return self._gram(BattleWeights(along_h**2, along_h * along_tie, along_tie**2))

    # Σ_g s_g s_gᵀ of the scores s_g = Σ along_h · h + along_tie · e_tie over the battles of group g.
    def _group_scores(self, along_h: Float64, along_tie: Float64, groups: Int64) -> Float64:
        n_groups = int(groups.max(initial=-1)) + 1
        shape = (n_groups, self.n_parameters)
        of_items = csr_array((0.5 * along_h, (groups, self.first)), shape=shape)
        of_items = of_items - csr_array((0.5 * along_h, (groups, self.second)), shape=shape)
        of_others = np.zeros((n_groups, len(self.features) + self.ties))
        for column, feature in enumerate(self.features):
            of_others[:, column] = np.bincount(groups, 0.5 * along_h * feature, n_groups)
        if self.ties:
            of_others[:, -1] = np.bincount(groups, along_tie, n_groups)
        cross = of_items[:, : self.n_items].T @ of_others
        total: Float64 = (of_items.T @ of_items).toarray()
        total[: self.n_items, self.n_items :] = cross
        total[self.n_items :, : self.n_items] = cross.T
        total[self.n_items :, self.n_items :] = of_others.T @ of_others
        return total

    def take(self, rows: Int64) -> Float64:
        battle, alternative = np.divmod(rows, 2 + self.ties)
        sign = HALF_SIGNS[alternative]
        number = np.arange(len(rows))
        taken = np.zeros((len(rows), self.n_parameters))
        taken[number, self.first[battle]] = sign
        taken[number, self.second[battle]] -= sign  # 0 for an item against itself
        taken[:, self._feature_columns] = sign[:, None] * self.features[:, battle].T
        if self.ties:
            taken[:, -1] = alternative == 2
        return taken

    def pick(self, rows: Int64) -> Any:
        battle, alternative = np.divmod(rows, 2 + self.ties)
        ends = np.stack([self.first[battle], self.second[battle]], axis=1)
        entries = np.outer(HALF_SIGNS[alternative], [1.0, -1.0])
        starts = 2 * np.arange(len(rows) + 1)  # every row has two entries
        return csr_array((entries.ravel(), ends.ravel(), starts), shape=(len(rows), self.n_items))

    def norms(self, reference: Int64, scale: Float64) -> Float64:
        """‖2h‖ between the two items, √(‖h‖² + 1) between an item and the tie, in units of ``scale``."""
        inverse = scale**-2.0
        square = inverse[self.first] + inverse[self.second]
        square[self.first == self.second] = 0.0
        square = 0.25 * (square + inverse[self._feature_columns] @ np.square(self.features))  # ‖h‖²
        chosen = reference - self.situations.starts[:-1]  # 0, 1, or 2 for a tie
        result = np.zeros((len(square), 2 + self.ties))
        to_tie = np.sqrt(square + inverse[-1]) if self.ties else square
        for alternative in range(2 + self.ties):
            from_item = 2.0 * np.sqrt(square) if alternative < 2 else to_tie
            distance = np.where(chosen == 2, to_tie, from_item)
            result[:, alternative] = np.where(chosen == alternative, 0.0, distance)
        return result.ravel()

    def arcs(self, reference: Int64) -> tuple[Int64, Int64] | None:
        if self.ties or len(self.features):
            return None
        # battle i has the rows 2i, where the first item was chosen, and 2i + 1, where the second was
        second_won = np.repeat(reference % 2 == 1, 2)
        first, second = np.repeat(self.first, 2), np.repeat(self.second, 2)
        winner, loser = np.where(second_won, second, first), np.where(second_won, first, second)
        loser[reference] = winner[reference]  # the difference of the reference to itself is 0
        return winner, loser

    def arrays(self) -> dict[str, Any]:
        sizes = np.array([self.n_items, int(self.ties)])
        return {"first": self.first, "second": self.second, "features": self.features, "sizes": sizes}

    # Σ w (e_first − e_second), shape (n_items,); by pairs where all pairs fit into the cache.
    def _sum_differences(self, weight: Float64) -> Float64:
        size = self.n_items
        if self.fits_cache:
            of_pairs = np.bincount(self._pair, weight, size**2).reshape(size, size)
            return of_pairs.sum(axis=1) - of_pairs.sum(axis=0)
        sums: Any = np.bincount(self.first, weight, size) - np.bincount(self.second, weight, size)
        return sums

    def wide_blocks(self, weights: BattleWeights) -> tuple[Float64, Float64]:
        """The blocks of :meth:`_gram` for features and tie: items by these, and these by these."""
        n_features = len(self.features)
        border = np.zeros((self.n_items, n_features + self.ties))
        corner = np.zeros((n_features + self.ties,) * 2)
        weighted = np.empty_like(self.features)
        for column, feature in enumerate(self.features):
            np.multiply(feature, weights.of_h, out=weighted[column])
            border[:, column] = 0.25 * self._sum_differences(weighted[column])
        corner[:n_features, :n_features] = 0.25 * (weighted @ self.features.T)
        if weights.of_cross is not None and weights.of_tie is not None:
            border[:, -1] = 0.5 * self._sum_differences(weights.of_cross)
            corner[:n_features, -1] = 0.5 * (self.features @ weights.of_cross)
            corner[-1, -1] = weights.of_tie.sum()
        upper = np.triu(corner, 1)
        return border, upper + upper.T + np.diag(np.diag(corner))

    def exposure(self, totals: Float64) -> Float64:
        """Σ N |x| times the number of terms, for each parameter: rounding of a gradient scales with it."""
        ends = np.concatenate([self.first, self.second])
        n_terms: Any = np.bincount(ends, minlength=self.n_items)
        of_items = np.bincount(ends, np.tile(totals, 2), self.n_items) * (n_terms + ROUNDINGS)
        of_others = np.append(np.abs(self.features) @ totals, [totals.sum()] * self.ties)
        return np.concatenate([of_items, of_others * (len(self.first) + ROUNDINGS)])

    # The sum over battles of the weighted outer products, shape (n_parameters, n_parameters).
    def _gram(self, weights: BattleWeights) -> Float64:
        size = self.n_items
        total = np.zeros((self.n_parameters, self.n_parameters))
        of_pairs = np.bincount(self._pair, weights.of_h, size**2).reshape(size, size)
        degree = of_pairs.sum(axis=0) + of_pairs.sum(axis=1)
        total[:size, :size] = 0.25 * (np.diag(degree) - of_pairs - of_pairs.T)
        total[:size, size:], total[size:, size:] = self.wide_blocks(weights)
        total[size:, :size] = total[:size, size:].T
        return total


ChoiceRows = DenseRows | SparseRows | BattleRows
