"""Fit choices as a conditional logit: ties as outcomes (Davidson), position, features, clusters, weights.

:func:`fit_conditional` writes the choices as a :class:`ChoiceProblem`, whose columns are the items, then the
features, then the tie. :class:`LogitScores` reads scores, coefficients and their errors from the fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from attomaton.base.printing import show_count
from attomaton.base.tables import Float64, Int64
from attomaton.choices.covariates import Covariates, unfitted_feature
from attomaton.choices.gaps import Gaps, OpenGaps, lost_in_logit
from attomaton.choices.logit.clusters import FEWEST_CLUSTERS, ClusterErrors, SingleResiduals
from attomaton.choices.logit.contrasts import Contrast, ContrastKind
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.identification import relate
from attomaton.choices.logit.prediction import predict_rows
from attomaton.choices.logit.problem import ChoiceProblem, check_columns
from attomaton.choices.logit.rows import Situations
from attomaton.choices.outcomes import TIE
from attomaton.choices.parsed import Alternatives, ItemTally, PairChoices, ParsedChoices, Ranked, SetChoices
from attomaton.choices.precedence import order_items
from attomaton.choices.spread import Spread
from attomaton.choices.uncertainty import BoardErrors, describe_half_ties
from attomaton.graphs.components import Components
from attomaton.graphs.edges import EdgeTable

# A feature follows from other columns if a null vector of length 1 has an entry above this at it.
ALIAS_ENTRY = 1e-6

MOST_ALIASED = 8  # maximum number of columns that the sentence about an aliased feature lists
UNITS = ("information", "robust", "clustered", "weighted")  # the kinds of standard errors


class Units(NamedTuple):
    """Which choices are independent of each other, for standard errors; arrays have shape (n_situations,)."""

    kind: str  # one of UNITS; with "weighted", every row of the data is a cluster
    clusters: Int64 | None = None  # the cluster of each situation
    repeats: Float64 | None = None  # how often each occurred; None if counts are whole choices
    rankings: Int64 | None = None  # the ranking that each is a step of


@dataclass(frozen=True, eq=False)
class LogitScores:
    """The scores of items in a conditional logit, the coefficients of features, and their errors."""

    logit: LogitFit
    n_items: int
    edges: EdgeTable | None  # who beats whom; None for choices of best and worst
    tally: ItemTally
    units: Units
    ties: str  # "davidson", "half", or empty without ties
    aliases: Mapping[str, str]  # features that were left out, and what they follow from

    soft = None
    prior = None
    penalty = None
    penalised = None
    joined = ""
    ridge = 0.0

    @cached_property
    def components(self) -> Components:
        return order_items(self.logit, self.n_items, self.edges)

    @cached_property
    def values(self) -> Float64:
        """The score of each item, with mean zero in its component, shape (n_items,)."""
        beta, component = self._beta[: self.n_items], self._component_of_item
        mean = np.bincount(component, beta) / np.maximum(np.bincount(component), 1)
        return beta - mean[component]

    @property
    def _component_of_item(self) -> Int64:
        return self.components.component_of_node[: self.n_items]  # the node after them is the query

    @property
    def _beta(self) -> Float64:
        return self.logit.problem.parameters(self.logit.evidence.beta)

    def predict(self, rows: Any, situations: Situations) -> Float64:
        return predict_rows(self.logit, rows, situations, leave_open=True)

    def predict_pairs(self, first: Int64, second: Int64, features: Mapping[str, Float64]) -> Float64:
        """The probabilities of win, tie and loss of the first of each pair, shape (n_pairs, 3)."""
        # ``features`` are those of the first less those of the second
        # each pair is a situation with the rows win, loss and, if ties are outcomes, tie
        names = self.logit.problem.names
        n_pairs, n_outcomes = len(first), 3 if self.ties == "davidson" else 2
        starts = n_outcomes * np.arange(n_pairs + 1, dtype=np.int64)
        win_row, unit = starts[:-1], np.ones(n_pairs)
        # entries (row, column, value) of a sparse matrix, each of them an array of shape (n_pairs,)
        entries: list[Any] = [(win_row, first, unit), (win_row + 1, second, unit)]
        for name, values in features.items():
            if name not in names:
                raise unfitted_feature(name)
            entries.append((win_row, np.full(n_pairs, names.index(name)), values))
        if n_outcomes == 3:  # the utility of a tie: the mean of both sides, and the tie parameter
            halves = [(win_row + 2, column, 0.5 * value) for _, column, value in entries]
            entries += [*halves, (win_row + 2, np.full(n_pairs, names.index("tie")), unit)]
        row, column, value = (np.concatenate(stack) for stack in zip(*entries, strict=True))
        matrix = csr_array((value, (row, column)), shape=(n_outcomes * n_pairs, len(names)))
        win, loss, *tie = self.predict(matrix, Situations(starts)).reshape(n_pairs, n_outcomes).T
        no_tie = 0.0 * win  # NaN where the choices leave it open
        return np.stack([win, tie[0] if tie else no_tie, loss], axis=1)

    @property
    def certified(self) -> bool:
        return self.logit.certificate.certified

    @property
    def proof(self) -> str:
        return self.logit.certificate.details

    @property
    def verdict(self) -> str:
        return self.logit.certificate.verdict

    def expect(self) -> None:
        self.logit.expect()

    # The covariance of all parameters, by the information or by a sandwich; for finite contrasts.
    @cached_property
    def _covariance(self) -> Float64:
        bread = self.logit.covariance
        if self.units.kind == "information":
            return bread
        if self._clusters is not None:
            return self._clusters.covariance
        meat = self.logit.problem.rows.scores(self._residuals, self.units.rankings)
        return bread @ meat @ bread

    # Counts less expected counts by row, for a single choice where counts are weights or fractions.
    @property
    def _residuals(self) -> Float64:
        problem, repeats = self.logit.problem, self.units.repeats
        residuals = problem.residuals(self.logit.probabilities)
        return residuals if repeats is None else residuals / problem.situations.spread(np.sqrt(repeats))

    # Clustered errors; None if choices are independent.
    @cached_property
    def _clusters(self) -> ClusterErrors | None:
        units, logit = self.units, self.logit
        if units.clusters is None:
            return None
        single = None if units.repeats is None else SingleResiduals(self._residuals, units.rankings)
        return ClusterErrors(
            logit.problem, logit.probabilities, logit.finite.basis, units.clusters, single=single
        )

    def covariance(self, numbers: Int64) -> Float64:
        return self._centre(self._covariance, numbers)

    # The covariance of the scores of these items, centred as in ``values``; NaN between components.
    def _centre(self, covariance: Float64, numbers: Int64) -> Float64:
        contrasts = self._centred_items(numbers)
        component = self._component_of_item[numbers]
        result = contrasts @ covariance @ contrasts.T
        # the contrast of an item that is alone in its component is 0: it has no error
        is_known = (component[:, None] == component) & contrasts.any(axis=1)
        return np.where(is_known, (result + result.T) / 2, np.nan)

    # Each item less the mean of its component, as a contrast, shape (n_numbers, n_parameters).
    def _centred_items(self, numbers: Int64) -> Float64:
        component_of_item = self._component_of_item
        component = component_of_item[numbers]
        size = np.bincount(component_of_item)[component]
        contrasts = np.zeros((len(numbers), len(self.logit.problem.scale)))
        contrasts[np.arange(len(numbers)), numbers] = 1.0
        contrasts[:, : self.n_items] -= (component[:, None] == component_of_item) / size[:, None]
        return contrasts

    # The clustered errors of the scores of all items; None without clusters.
    @cached_property
    def _spread(self) -> Spread | None:
        if self._clusters is None:
            return None
        return self._clusters.of_contrasts(self._centred_items(np.arange(self.n_items)))

    @cached_property
    def board_errors(self) -> BoardErrors | None:
        if self._clusters is None or self._spread is None:
            return None
        numbers = np.arange(self.n_items)
        independent = self._centre(self.logit.covariance, numbers)
        differences = self._clusters.of_differences(self._centred_items(numbers))
        return BoardErrors(independent, self._spread, differences)

    def difference_error(self, first: int, second: int) -> tuple[float, float]:
        """The standard error of the difference of two items and its degrees of freedom."""
        contrast = np.zeros(len(self.logit.problem.names))
        contrast[[first, second]] = 1.0, -1.0
        return self._error(contrast)

    # The standard error of a finite contrast and its degrees of freedom.
    def _error(self, contrast: Float64) -> tuple[float, float]:
        if self._clusters is not None:
            error, degrees = self._clusters.of_contrasts(contrast[None])
            return float(error[0]), float(degrees[0])
        # For a contrast c, by the information H: √(cᵀH⁻c). By a sandwich: √Σ_g (s_g·H⁻c)², where s_g is the
        # gradient of the log-likelihood of situation or ranking g.
        self.logit.expect()
        problem, rankings = self.logit.problem, self.units.rankings
        scaled = problem.scaled(contrast)
        deviation = self.logit.deviate(scaled)  # H⁻c
        if self.units.kind == "information":
            return max(float(scaled @ deviation), 0.0) ** 0.5, np.inf
        products = problem.situations.sum(self._residuals * problem.utilities(deviation))
        products = products if rankings is None else np.bincount(rankings, products)
        return float(products @ products) ** 0.5, np.inf

    def errors(self) -> Float64:
        """The standard errors of ``values``, NaN for items that are alone in their component."""
        if self._spread is not None:
            return self._spread.error
        return np.sqrt(np.diag(self.covariance(np.arange(self.n_items))))

    def gaps(self, component: Int64, above: Int64, below: Int64) -> Gaps:
        """The infinite gaps from components ``above`` to those ``below``, for the component of each item."""
        n_components = int(component.max(initial=-1)) + 1
        if all(contrast.kind is ContrastKind.FINITE for contrast in self.coefficients.values()):
            lost = lost_in_logit(self.logit, component, self.values, n_components, self.units.clusters)
            return Gaps(lost, above, below, n_components)
        leaders = np.unique(component, return_index=True)[1]  # the first item of each component
        return OpenGaps(partial(self._bound_gap, leaders), above, below, n_components)

    # The bound of the gap between the means of two components, given an item of each component.
    def _bound_gap(self, leaders: Int64, above: int, below: int, level: float) -> float | None:
        first, second = int(leaders[above]), int(leaders[below])
        names = self.logit.problem.names[first], self.logit.problem.names[second]
        bound = self.logit.contrast(*names, level=level, clusters=self.units.clusters).bound
        return None if bound is None else bound - float(self.values[first] - self.values[second])

    @property
    def log_likelihood(self) -> float:
        return self.logit.log_likelihood

    @property
    def n_parameters(self) -> int:
        return self.logit.n_parameters

    @property
    def clustered(self) -> bool:
        return self.units.kind == "clustered"

    @property
    def n_identified(self) -> int:
        return self.logit.identified.rank

    @property
    def why_no_aic(self) -> str:
        return "fractions of choices have no likelihood" if self.units.repeats is not None else ""

    @cached_property
    def coefficients(self) -> dict[str, Contrast]:
        """The contrasts of position, features and the tie parameter, by name."""
        contrasts = dict[str, Contrast]()
        for number, name in enumerate(self.logit.problem.names[self.n_items :], self.n_items):
            contrast = self.logit.contrast(name, clusters=self.units.clusters)
            error, degrees = None, np.inf
            if contrast.kind is ContrastKind.FINITE:
                error, degrees = self._error(np.eye(1, len(self.logit.problem.names), number)[0])
                error = None if np.isnan(error) else error
            contrasts[name] = replace(contrast, standard_error=error, robust_error=None, degrees=degrees)
        for name, sentence in self.aliases.items():
            contrasts[name] = Contrast(name, ContrastKind.UNIDENTIFIED, np.nan, settle=sentence)
        return contrasts

    def remarks(self) -> list[str]:
        notes = list[str]()
        if self.ties == "davidson":
            share = self.tally.n_ties / self.tally.n_choices
            notes.append(
                f"ties: {show_count(self.tally.n_ties)} ({share:.1%}), an outcome of their own (Davidson); "
                "score differences are the log odds of a win against a loss"
            )
        elif self.ties:
            notes.append(describe_half_ties(self.tally.n_ties))
        if self._clusters is not None and self._spread is not None:
            notes.append(self._describe_clusters(self._clusters.n_clusters, self._spread))
        elif self.units.kind == "robust":
            notes.append("standard errors: robust (sandwich), because fractions of choices were counted")
        return notes

    def _describe_clusters(self, n_clusters: int, spread: Spread) -> str:
        # the remark about standard errors: the units, the degrees of freedom, and items without an error
        component = self._component_of_item
        clustered = self.units.kind == "clustered"
        weights = (
            "" if clustered else "counts with fractions are weights of rows, each of which is one choice; "
        )
        unit = "cluster" if clustered else "row"
        units = f"{n_clusters:,} {unit}{'s' * (n_clusters != 1)}"
        has_gaps = component.max(initial=0) > 0
        bounds = f"; bounds of infinite ratings count each {unit} as one choice" if has_gaps else ""
        if n_clusters < FEWEST_CLUSTERS:
            remedy = (
                "leave cluster out if choices are independent"
                if clustered
                else "give whole numbers as counts"
            )
            least = f"at least {FEWEST_CLUSTERS} are needed"
            return f"no standard errors: {weights}{units}, but {least}; {remedy}{bounds}"
        sentence = f"standard errors: {weights or 'clustered, '}{units}"
        degrees = spread.degrees[~np.isnan(spread.degrees)]
        if len(degrees):
            low, high = (
                f"{end:.3g}" if end < 100 else f"{end:,.0f}" for end in (degrees.min(), degrees.max())
            )
            shown = low if low == high else f"{low} to {high}"
            sentence += f"; intervals by Student's t with {shown} degrees of freedom (CR2)"
        is_alone = np.bincount(component)[component] == 1
        n_unknown = int((np.isnan(spread.error) & ~is_alone).sum())
        if n_unknown:
            items = f"{n_unknown:,} item{'s' * (n_unknown != 1)}"
            sentence += f"; none for {items}, whose ratings depend too much on one {unit}"
        return sentence + bounds


# Choices as a conditional logit, with the fields ``units`` and ``ties`` of `LogitScores`.
_Formulation = tuple[ChoiceProblem, Units, str]


def fit_conditional(parsed: ParsedChoices, covariates: Covariates, ties: str) -> LogitScores:
    """Fit choices as a conditional logit; features that follow from items and other features are left out."""
    names, aliases = list(covariates.features), dict[str, str]()
    check_columns(len(names))
    while True:
        if isinstance(parsed.choices, PairChoices):
            problem, units, rule = _formulate_pairs(parsed, parsed.choices, covariates, ties, names)
        else:
            problem, units, rule = _formulate_alternatives(parsed, parsed.choices, covariates, names)
        logit, n_items = fit_logit(problem), len(parsed.items)
        dependent = _find_aliases(logit, n_items, names)
        if not dependent:
            return LogitScores(logit, n_items, parsed.edges(), parsed.tally(), units, rule, aliases)
        aliases |= dependent
        names = [name for name in names if name not in dependent]


def _formulate_alternatives(
    parsed: ParsedChoices, choices: SetChoices | Alternatives, covariates: Covariates, names: Sequence[str]
) -> _Formulation:
    # one row per alternative: its item, or best minus worst item, and the features ``names``
    is_set = isinstance(choices, SetChoices)
    alternatives, offsets = _spread_sets(parsed, choices) if is_set else (choices, None)
    labels = label_items(parsed.items, names)
    rows = mark_items(alternatives.members, len(labels))
    if alternatives.against is not None:
        rows = rows - mark_items(alternatives.against, len(labels))
    if names:
        features = np.column_stack([covariates.features[name][alternatives.entry] for name in names])
        rows = hstack([rows, csr_array(features)]).tocsr()
    problem = ChoiceProblem.from_rows(
        rows, alternatives.lengths, alternatives.chosen, names=[*labels, *names], offsets=offsets
    )
    # the problem leaves out situations without information; the row of the data of each of the others
    source = problem.source_situations
    origin = alternatives.row if source is None else alternatives.row[source]
    if parsed.ranked is not None:
        units = _group_rankings(parsed.ranked, origin)
    elif not problem.is_whole:
        units = Units("weighted", np.arange(len(origin)), np.ones(len(origin)))
    else:
        units = Units("information")
    units = _group_clusters(units, covariates.cluster, origin)
    return problem, units, "" if parsed.ranked is None else "half"


def mark_items(members: Int64, n_items: int) -> Any:
    """A sparse row for each alternative with 1 at its item."""
    size = len(members)
    return csr_array((np.ones(size), (np.arange(size), members)), shape=(size, n_items))


# The steps of rankings with ties, given the row of the data of each situation.
def _group_rankings(ranked: Ranked, origin: Int64) -> Units:
    rankings = np.searchsorted(ranked.row, origin)  # the index of each row among those of the rankings
    times = np.asarray(ranked.times, np.float64)
    if (times % 1 != 0).any():
        return Units("weighted", rankings, np.ones(len(origin)), rankings)
    return Units("robust", None, times[rankings], rankings)


# The units with the cluster of each situation, whose row of the data is ``origin`` (None: all rows).
def _group_clusters(units: Units, cluster: Int64 | None, origin: Int64 | None) -> Units:
    if cluster is None:
        return units
    cluster = cluster if origin is None else cluster[origin]
    return units._replace(kind="clustered", clusters=np.unique(cluster, return_inverse=True)[1].ravel())


def _formulate_pairs(
    parsed: ParsedChoices, pairs: PairChoices, covariates: Covariates, ties: str, names: Sequence[str]
) -> _Formulation:
    # one battle per pair, with the features ``names``; ``ties`` says how ties count if there are any
    first, second, outcome, row = pairs
    tied, counts = outcome == TIE, parsed.counts
    rule = ties if tied.any() else ""
    units = Units("information")
    if counts.dtype.kind != "i":  # fractions
        units = Units("weighted", np.arange(len(first)), np.ones(len(first)))
    elif rule == "half":
        units = Units("robust", None, counts.astype(np.float64))
    units = _group_clusters(units, covariates.cluster, row)
    # how often each outcome occurred, in the columns first, second and, for Davidson, tie
    times = np.zeros((len(first), 3 if rule == "davidson" else 2))
    times[np.arange(len(first)), np.where(tied, times.shape[1] - 1, outcome)] = counts
    if rule == "half":  # both sides; replaces the count that a tie has in the column of second
        times[tied] = 0.5 * counts[tied, None]
    features = np.empty((len(names), len(first)))
    for number, name in enumerate(names):
        values = covariates.features[name]
        features[number] = values if row is None else values[row]
    labels = label_items(parsed.items, [*names, "tie"])
    merge = units.kind == "information"
    problem = ChoiceProblem.from_battles(
        first, second, times, items=labels, features=features.T, names=names, merge=merge
    )
    return problem, units, rule


def label_items(items: Sequence[Any], reserved: Sequence[str]) -> list[str]:
    """The names of the items as columns, all different and none reserved."""
    labels = [str(item) for item in items]
    plain = len({*labels, *reserved}) == len(labels) + len(reserved)
    return labels if plain else [f"item {item!r}" for item in items]


# The distinct options of each set, and ln m for an option offered m times; None if all m are 1.
def _spread_sets(parsed: ParsedChoices, sets: SetChoices) -> tuple[Alternatives, Float64 | None]:
    n_items, n_sets = len(parsed.items), len(sets.winner)
    keys = np.repeat(np.arange(n_sets), sets.lengths) * n_items + sets.members  # of (choice, item)
    keys, multiplicity = np.unique(keys, return_counts=True)
    choice, members = keys // n_items, keys % n_items
    counts = np.where(members == sets.winner[choice], parsed.counts[choice] / parsed.denominator, 0.0)
    lengths = np.bincount(choice, minlength=n_sets)
    alternatives = Alternatives(lengths, sets.row, counts, sets.row[choice], members)
    return alternatives, np.log(multiplicity) if (multiplicity > 1).any() else None


# The features that follow from items and features before them, and how; the last comes first.
def _find_aliases(logit: LogitFit, n_items: int, names: Sequence[str]) -> dict[str, str]:
    aliases = dict[str, str]()
    null = logit.identified.aliases  # the null vectors, shape (n_columns, n_vectors)
    for number, name in reversed(list(enumerate(names))):
        column = n_items + number
        size = np.linalg.norm(null[column])
        if size > ALIAS_ENTRY:
            direction = null[column] / size
            vector = null @ direction  # a null vector whose entry at this feature is ``size``
            aliases[name] = _describe_alias(logit, n_items, column, vector)
            null = null - np.outer(vector, direction)  # all other null vectors are 0 at this feature
    return aliases


# What the feature in ``column`` follows from, by a null vector without later features.
def _describe_alias(logit: LogitFit, n_items: int, column: int, null: Float64) -> str:
    original = logit.problem.parameters(null)
    vector: Float64 = original / original[column]
    values, often = np.unique(np.round(vector[:n_items], 8), return_counts=True)  # 8: equal but for rounding
    vector[:n_items] -= values[np.argmax(often)]  # a constant for all items makes no difference
    vector = np.where(np.abs(vector) < 1e-7, 0.0, np.round(vector, 6))  # 6 decimals are shown
    members = np.flatnonzero(vector)
    if len(members) == 1:
        return "it never differs between the alternatives of a comparison"
    if len(members) > MOST_ALIASED:
        return "it follows from the items in all comparisons, so their scores already include its effect"
    equation = relate(vector, logit.problem.names)
    return f"{equation} in all comparisons, so the items' scores already include its effect"
