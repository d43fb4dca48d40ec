"""Choices as a conditional logit: ties as outcomes (Davidson), position, features, clusters, fractions.

Items are the first columns of the problem, then come the features, then the tie. Two items are in one
component if their difference is finite, and one precedes the other if it is infinitely far ahead.
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
from attomaton.choices.logit.contrasts import CLOSE, Contrast, ContrastKind
from attomaton.choices.logit.fit import LogitFit, fit_logit
from attomaton.choices.logit.identification import relate
from attomaton.choices.logit.prediction import predict_rows
from attomaton.choices.logit.problem import ChoiceProblem, check_columns
from attomaton.choices.logit.rows import Situations
from attomaton.choices.outcomes import TIE
from attomaton.choices.parsed import (
    Alternatives,
    ItemTally,
    PairChoices,
    ParsedChoices,
    SetChoices,
    make_item_edges,
)
from attomaton.choices.spread import Spread
from attomaton.choices.uncertainty import BoardErrors, describe_half_ties
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable
from attomaton.graphs.grouping import count_keys
from attomaton.graphs.paths import QueryOrder, graph_of

ALIAS_ENTRY = 1e-6
"""Entries of unit vectors that no comparison sees above which a feature follows from other columns."""

MOST_ALIASED = 8
"""Maximum number of columns that the sentence about an aliased feature lists."""

UNITS = ("information", "robust", "clustered", "weighted")
"""What standard errors may follow from."""


class Units(NamedTuple):
    """Which choices belong together in standard errors.

    ``clusters`` numbers the cluster of each situation; with "weighted" that is its row of the data, which is
    one choice. ``repeats`` says how often each situation was repeated, where counts are parts of choices or
    weights; None if they are whole choices. ``rankings`` numbers the ranking that a situation is a step of.
    """

    kind: str  # one of UNITS
    clusters: Int64 | None = None
    repeats: Float64 | None = None
    rankings: Int64 | None = None


@dataclass(frozen=True, eq=False)
class LogitScores:
    """The scores of items in a conditional logit, the coefficients of features, and the data behind them.

    ``ties`` is the rule of ties (empty if there are none), ``edges`` who beats whom (None if choices are of
    best and worst), ``aliases`` says, for each feature that was left out, what it follows from.
    """

    logit: LogitFit
    n_items: int
    edges: EdgeTable | None
    tally: ItemTally
    units: Units
    ties: str
    aliases: Mapping[str, str]

    soft = None
    prior = None
    penalty = None
    penalised = None
    joined = ""
    ridge = 0.0

    @cached_property
    def components(self) -> Components:
        """The components of items, and their order."""
        return order_items(self.logit, self.n_items, self.edges)

    @cached_property
    def values(self) -> Float64:
        """The score of each item, with mean zero in its component, shape (n_items,)."""
        beta = self._beta[: self.n_items]
        component = self.components.component_of_node[: self.n_items]
        size = np.bincount(component)
        return beta - (np.bincount(component, beta) / np.maximum(size, 1))[component]

    @property
    def _beta(self) -> Float64:
        return self.logit.problem.parameters(self.logit.evidence.beta)

    def predict(self, rows: Any, situations: Situations) -> Float64:
        """The limit of the probability of each row of new situations; NaN where the data leave it open."""
        return predict_rows(self.logit, rows, situations, leave_open=True)

    def predict_pairs(self, first: Int64, second: Int64, features: Mapping[str, Float64]) -> Float64:
        """Win, tie and loss of the first of each pair, shape (n_pairs, 3); features are first less second."""
        names, n_pairs = self.logit.problem.names, len(first)
        n_outcomes = 3 if self.ties == "davidson" else 2
        rows, unit = np.arange(n_pairs) * n_outcomes, np.ones(n_pairs)
        entries: list[Any] = [(rows, first, unit), (rows + 1, second, unit)]
        for name, values in features.items():
            if name not in names:
                raise unfitted_feature(name)
            entries.append((rows, np.full(n_pairs, names.index(name)), values))
        if n_outcomes == 3:  # the utility of a tie: the mean of both sides', and the tie parameter
            halves = [(rows + 2, column, 0.5 * value) for _, column, value in entries]
            entries += [*halves, (rows + 2, np.full(n_pairs, names.index("tie")), unit)]
        row, column, value = (np.concatenate(stack) for stack in zip(*entries, strict=True))
        matrix = csr_array((value, (row, column)), shape=(n_outcomes * n_pairs, len(names)))
        starts = n_outcomes * np.arange(n_pairs + 1, dtype=np.int64)
        win, loss, *tie = self.predict(matrix, Situations(starts)).reshape(n_pairs, n_outcomes).T
        # without ties: zero, but NaN where the choices leave it open
        return np.stack([win, tie[0] if tie else 0.0 * win, loss], axis=1)

    @property
    def certified(self) -> bool:
        """Whether scores, coefficients and order are all proved."""
        return self.logit.certificate.certified

    @property
    def proof(self) -> str:
        """The certificate in words."""
        return str(self.logit.certificate).removeprefix("certified: ")

    @property
    def verdict(self) -> str:
        """What is proved, in one sentence."""
        return self.logit.certificate.verdict

    def expect(self) -> None:
        """Raise ``UncertifiedSolution`` if the fit is not certified."""
        self.logit.expect()

    @cached_property
    def _covariance(self) -> Float64:
        """The covariance of all parameters, for finite contrasts: of the information, or a sandwich."""
        logit, problem = self.logit, self.logit.problem
        bread = logit.covariance
        if self.units.kind == "information":
            return bread
        if self._clusters is not None:
            return self._clusters.covariance
        return bread @ problem.rows.scores(self._residuals, self.units.rankings) @ bread

    @property
    def _residuals(self) -> Float64:
        """The residuals of each row as of one choice, where counts are parts of choices or weights."""
        problem, repeats = self.logit.problem, self.units.repeats
        residuals = problem.residuals(self.logit.probabilities)
        return residuals if repeats is None else residuals / problem.situations.spread(np.sqrt(repeats))

    @cached_property
    def _clusters(self) -> ClusterErrors | None:
        """The errors of clusters, or of choices with weights; None where choices are independent."""
        units, logit = self.units, self.logit
        if units.clusters is None:
            return None
        single = None if units.repeats is None else SingleResiduals(self._residuals, units.rankings)
        return ClusterErrors(
            logit.problem, logit.probabilities, logit.finite.basis, units.clusters, single=single
        )

    def covariance(self, numbers: Int64) -> Float64:
        """The covariance of these items, NaN where there is none, shape (n_items, n_items)."""
        return self._centre(self._covariance, numbers)

    def _centre(self, covariance: Float64, numbers: Int64) -> Float64:
        """The covariance of these items about the means of their components."""
        centred, component = self._contrasts(numbers), self.components.component_of_node[numbers]
        result = centred @ covariance @ centred.T
        alike = (component[:, None] == component) & centred.any(axis=1)
        return np.where(alike, (result + result.T) / 2, np.nan)

    def _contrasts(self, numbers: Int64) -> Float64:
        """Items less the means of their components as contrasts, shape (n_numbers, n_parameters)."""
        component = self.components.component_of_node[: self.n_items]
        size, of_item = np.bincount(component), component[numbers]
        centred = np.zeros((len(numbers), len(self.logit.problem.scale)))
        centred[np.arange(len(numbers)), numbers] = 1.0
        centred[:, : self.n_items] -= (of_item[:, None] == component) / size[of_item][:, None]
        return centred

    @cached_property
    def _spread(self) -> Spread | None:
        """The errors of the scores of all items with clusters; None without."""
        if self._clusters is None:
            return None
        return self._clusters.of(self._contrasts(np.arange(self.n_items)))

    @cached_property
    def board_errors(self) -> BoardErrors | None:
        """The errors of ratings and of their differences with clusters; None without."""
        if self._clusters is None or self._spread is None:
            return None
        numbers = np.arange(self.n_items)
        independent = self._centre(self.logit.covariance, numbers)
        return BoardErrors(independent, self._spread, self._clusters.between(self._contrasts(numbers)))

    def difference_error(self, first: int, second: int) -> tuple[float, float]:
        """The standard error of the difference of two scores of one component, and its degrees of freedom."""
        contrast = np.zeros(len(self.logit.problem.names))
        contrast[[first, second]] = 1.0, -1.0
        return self._error(contrast)

    def _error(self, contrast: Float64) -> tuple[float, float]:
        """The standard error of a finite contrast and its degrees of freedom."""
        if self._clusters is not None:
            error, degrees = self._clusters.of(contrast[None])
            return float(error[0]), float(degrees[0])
        logit, problem = self.logit, self.logit.problem
        logit.expect()
        scaled = problem.scaled(contrast)
        moved = logit.deviate(scaled)
        if self.units.kind == "information":
            return max(float(scaled @ moved), 0.0) ** 0.5, np.inf
        score = problem.situations.sum(self._residuals * problem.utilities(moved))
        rankings = self.units.rankings
        score = score if rankings is None else np.bincount(rankings, score)
        return float(score @ score) ** 0.5, np.inf

    def errors(self) -> Float64:
        """The standard error of the score of each item; NaN for one alone in its component."""
        if self._spread is not None:
            return self._spread.error
        return np.sqrt(np.diag(self.covariance(np.arange(self.n_items))))

    def gaps(self, component: Int64, above: Int64, below: Int64) -> Gaps:
        """The infinite gaps between components, given the component of each item and the pairs in order."""
        number, clusters = int(component.max(initial=-1)) + 1, self.units.clusters
        if all(contrast.kind is ContrastKind.FINITE for contrast in self.coefficients.values()):
            lost = lost_in_logit(self.logit, component, self.values, number, clusters)
            return Gaps(lost, above, below, number)
        leader = np.unique(component, return_index=True)[1]
        return OpenGaps(partial(self._least_gap, leader, clusters), above, below, number)

    def _least_gap(
        self, leader: Int64, clusters: Int64 | None, above: int, below: int, level: float
    ) -> float | None:
        """The bound of the gap between the means of two components, given an item of each component."""
        first, second = int(leader[above]), int(leader[below])
        names = self.logit.problem.names
        least = self.logit.contrast(names[first], names[second], level=level, clusters=clusters).bound
        return None if least is None else least - float(self.values[first] - self.values[second])

    @property
    def log_likelihood(self) -> float:
        """The maximum, or the supremum where something is infinite."""
        return self.logit.log_likelihood

    @property
    def n_parameters(self) -> int:
        """The number of finite parameters."""
        return self.logit.n_parameters

    @property
    def clustered(self) -> bool:
        """Whether choices that belong together are not independent."""
        return self.units.kind == "clustered"

    @property
    def n_identified(self) -> int:
        """How many numbers the choices bear on, finite or not."""
        return self.logit.identified.rank

    @property
    def why_no_aic(self) -> str:
        """Why there is no likelihood at its maximum, or at its supremum; empty if there is one."""
        return "parts of choices have no likelihood" if self.units.repeats is not None else ""

    @cached_property
    def coefficients(self) -> dict[str, Contrast]:
        """Position, features and the tie parameter by name, each finite, infinite, undecided or aliased."""
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
        """Notes on ties, standard errors and features that were left out."""
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
            notes.append("standard errors: robust (sandwich), since parts of choices were counted")
        return notes

    def _describe_clusters(self, number: int, spread: Spread) -> str:
        """How errors follow from clusters or weighted choices, or why there are none."""
        unit = "cluster" if self.units.kind == "clustered" else "row"
        units = f"{number:,} {unit}{'s' * (number != 1)}"
        weights = "counts with fractions are weights of rows, each of which is one choice; " * (unit == "row")
        component = self.components.component_of_node[: self.n_items]
        bounds = (
            f"; bounds of infinite ratings count each {unit} as one choice"
            if component.max(initial=0)
            else ""
        )
        if number < FEWEST_CLUSTERS:
            remedy = (
                "give whole numbers as counts" if weights else "leave cluster out if choices are independent"
            )
            least = f"at least {FEWEST_CLUSTERS} are needed"
            return f"no standard errors: {weights}{units}, but {least}; {remedy}{bounds}"
        finite = spread.degrees[~np.isnan(spread.degrees)]
        sentence = f"standard errors: {weights or 'clustered, '}{units}"
        if len(finite):
            low, high = (f"{end:.3g}" if end < 100 else f"{end:,.0f}" for end in (finite.min(), finite.max()))
            degrees = low if low == high else f"{low} to {high}"
            sentence += f"; intervals by Student's t with {degrees} degrees of freedom (CR2)"
        unknown = int((np.isnan(spread.error) & (np.bincount(component)[component] > 1)).sum())
        if unknown:
            items = f"{unknown:,} item{'s' * (unknown != 1)}"
            sentence += f"; none for {items}, whose ratings depend too much on one {unit}"
        return sentence + bounds


def fit_conditional(parsed: ParsedChoices, side: Covariates, ties: str) -> LogitScores:
    """Fit choices as a conditional logit; features that follow from items and other features are left out."""
    names, aliases = list(side.features), dict[str, str]()
    check_columns(len(names))
    while True:
        fitted = _fit_named(parsed, side, ties, names)
        dependent = _find_aliases(fitted, names)
        if not dependent:
            return replace(fitted, aliases=aliases)
        aliases |= dependent
        names = [name for name in names if name not in dependent]


def _find_aliases(fitted: LogitScores, names: Sequence[str]) -> dict[str, str]:
    """The features that follow from items and features before them, and how; the last comes first."""
    aliases = dict[str, str]()
    null = fitted.logit.identified.aliases
    for column in range(fitted.n_items + len(names) - 1, fitted.n_items - 1, -1):
        size = np.linalg.norm(null[column])
        if size > ALIAS_ENTRY:
            direction = null[column] / size
            vector = null @ direction
            aliases[names[column - fitted.n_items]] = _describe_alias(
                fitted.logit, fitted.n_items, column, vector
            )
            null = null - np.outer(vector, direction)  # the null vectors without this feature
    return aliases


def _fit_named(parsed: ParsedChoices, side: Covariates, ties: str, names: Sequence[str]) -> LogitScores:
    choices = parsed.choices
    if isinstance(choices, PairChoices):
        return _fit_pairs(parsed, choices, side, ties, names)
    if isinstance(choices, SetChoices):
        alternatives, counts, offsets = _spread_sets(parsed, choices)
    else:
        alternatives, counts, offsets = choices, choices.chosen, None
    # the rows: items, then features
    labels = label_items(parsed.items, names)
    size, n_items = len(counts), len(labels)
    rows: Any = csr_array((np.ones(size), (np.arange(size), alternatives.members)), shape=(size, n_items))
    if alternatives.against is not None:
        rows = rows - csr_array((np.ones(size), (np.arange(size), alternatives.against)), shape=rows.shape)
    if names:
        features = np.column_stack([side.features[name][alternatives.entry] for name in names])
        rows = hstack([rows, csr_array(features)]).tocsr()
    problem = ChoiceProblem.from_rows(
        rows, alternatives.lengths, counts, names=[*labels, *names], offsets=offsets
    )

    # which choices belong together
    source = problem.source_situations
    origin = alternatives.row if source is None else alternatives.row[source]
    units = Units("information")
    if parsed.ranked is not None:
        rankings = np.searchsorted(parsed.ranked.row, origin)
        times = np.asarray(parsed.ranked.times, np.float64)
        if (times % 1 != 0).any():
            units = Units("weighted", rankings, np.ones(len(origin)), rankings)
        else:
            units = Units("robust", None, times[rankings], rankings)
    elif not problem.is_whole:
        units = Units("weighted", np.arange(len(origin)), np.ones(len(origin)))
    if side.cluster is not None:
        cluster = np.unique(side.cluster[origin], return_inverse=True)[1].ravel()
        units = units._replace(kind="clustered", clusters=cluster)
    rule = "" if parsed.ranked is None else "half"
    return LogitScores(fit_logit(problem), n_items, parsed.edges(), parsed.tally(), units, rule, {})


def _fit_pairs(
    parsed: ParsedChoices, pairs: PairChoices, side: Covariates, ties: str, names: Sequence[str]
) -> LogitScores:
    first, second, outcome, row = pairs
    tied = outcome == TIE
    rule = ties if tied.any() else ""
    units = Units("information")
    if parsed.counts.dtype.kind != "i":  # fractions
        units = Units("weighted", np.arange(len(first)), np.ones(len(first)))
    elif rule == "half":
        units = Units("robust", None, parsed.counts.astype(np.float64))
    if side.cluster is not None:
        cluster = side.cluster if row is None else side.cluster[row]
        numbers = np.unique(cluster, return_inverse=True)[1].ravel()
        units = units._replace(kind="clustered", clusters=numbers)
    times = np.zeros((len(first), 3 if rule == "davidson" else 2))
    times[np.arange(len(first)), np.where(tied, times.shape[1] - 1, outcome)] = parsed.counts
    if rule == "half":
        times[tied] = 0.5 * parsed.counts[tied, None]
    features = np.empty((len(names), len(first)))
    for number, name in enumerate(names):
        features[number] = side.features[name] if row is None else side.features[name][row]
    problem = ChoiceProblem.from_battles(
        first,
        second,
        times,
        items=label_items(parsed.items, [*names, "tie"]),
        features=features.T,
        names=names,
        merge=units.kind == "information",
    )
    fit, n_items = fit_logit(problem), len(parsed.items)
    return LogitScores(fit, n_items, parsed.edges(), parsed.tally(), units, rule, {})


def label_items(items: Sequence[Any], reserved: Sequence[str]) -> list[str]:
    """The names of the items as columns, different from each other and from the reserved names."""
    labels = [str(item) for item in items]
    plain = len({*labels, *reserved}) == len(labels) + len(reserved)
    return labels if plain else [f"item {item!r}" for item in items]


def _spread_sets(parsed: ParsedChoices, sets: SetChoices) -> tuple[Alternatives, Float64, Float64 | None]:
    """The options of each set once, how often each was chosen, and ln m if an option is there m times."""
    choice = np.repeat(np.arange(len(sets.winner)), sets.lengths)
    keys, times = np.unique(choice * len(parsed.items) + sets.members, return_counts=True)
    choice, members = keys // len(parsed.items), keys % len(parsed.items)
    counts = np.where(members == sets.winner[choice], parsed.counts[choice] / parsed.denominator, 0.0)
    lengths = np.bincount(choice, minlength=len(sets.winner))
    alternatives = Alternatives(lengths, sets.row, counts, sets.row[choice], members)
    return alternatives, counts, np.log(times) if (times > 1).any() else None


def order_items(logit: LogitFit, n_items: int, edges: EdgeTable | None) -> Components:
    """The components of items and their order.

    If every other coefficient is finite, an item contrast is in the cone of the differences exactly if the
    graph of wins (a tie is an edge each way) has a path, so its strong components are the answer. Otherwise
    every pair of components is decided by :func:`~attomaton.choices.logit.contrasts.classify`.
    """
    graph = None if edges is None else find_components(edges)
    largest = np.abs(logit.finite.aliases[n_items:]).max(initial=0.0)
    if graph is not None and largest <= CLOSE:
        return graph
    return order_by_contrasts(logit, n_items, graph)


def order_by_contrasts(logit: LogitFit, n_items: int, graph: Components | None) -> Components:
    """The components of items and their order from the classes of differences of items.

    ``graph`` is the graph of wins, in which a path is necessary for a difference to be decided.
    """
    scale = logit.problem.scale[:n_items]
    outside = logit.problem.parameters(logit.finite.complement)[:n_items]
    # items whose difference is finite are equal outside S: one component, named by its first item
    component, leaders = np.full(n_items, -1), list[int]()
    for item in range(n_items):
        if component[item] < 0:
            away = np.linalg.norm(outside - outside[item], axis=1)
            close = away <= CLOSE * np.hypot(1 / scale, 1 / scale[item])
            component[close & (component < 0)] = len(leaders)
            leaders.append(item)
    # which components are ahead of which, lowest first: those below one that is below need no decision
    height = outside[leaders] @ (logit.finite.complement.T @ logit.evidence.direction)
    paths = None if graph is None else QueryOrder(graph_of(graph, n_items))
    above = np.zeros((len(leaders), len(leaders)), bool)
    rising = np.argsort(height).tolist()
    for position, upper in enumerate(rising):
        reached = None
        if paths is not None and graph is not None:
            reach = paths.search(int(graph.component_of_node[leaders[upper]]))[0]
            reached = reach[graph.component_of_node[leaders]]
        for lower in reversed(rising[:position]):
            if above[upper, lower] or (reached is not None and not reached[lower]):
                continue
            contrast = np.zeros(len(logit.problem.scale))
            contrast[[leaders[upper], leaders[lower]]] = 1.0, -1.0
            if logit.classify(contrast[None])[0] is ContrastKind.PLUS:
                above[upper] |= above[lower]
                above[upper, lower] = True
    # a graph with these components and this order: a cycle through each, and arcs between leaders
    leading, trailing = np.nonzero(above)
    order = np.lexsort((np.arange(n_items), component))
    follows = component[order[1:]] == component[order[:-1]]
    first = np.searchsorted(component[order], np.arange(len(leaders)))
    last = np.searchsorted(component[order], np.arange(len(leaders)), side="right") - 1
    several = last > first
    leader = np.array(leaders, np.int64)
    winner = np.concatenate([leader[leading], order[:-1][follows], order[last[several]]])
    loser = np.concatenate([leader[trailing], order[1:][follows], order[first[several]]])
    arcs, support = count_keys(winner * n_items + loser)
    return find_components(make_item_edges(arcs // n_items, arcs % n_items, support, n_items))


def _describe_alias(logit: LogitFit, n_items: int, column: int, null: Float64) -> str:
    """What a feature follows from, by a null vector that has this feature and no later one."""
    original = logit.problem.parameters(null)
    vector: Float64 = original / original[column]
    values, often = np.unique(np.round(vector[:n_items], 8), return_counts=True)
    vector[:n_items] -= values[np.argmax(often)]  # what all items share makes no difference
    vector = np.where(np.abs(vector) < 1e-7, 0.0, np.round(vector, 6))
    members = np.flatnonzero(vector)
    if len(members) == 1:
        return "it never differs between the alternatives of a comparison"
    if len(members) > MOST_ALIASED:
        return "it follows from the items in all comparisons: their scores already include its effect"
    equation = relate(vector, logit.problem.names)
    return f"{equation} in all comparisons: the items' scores already include its effect"
