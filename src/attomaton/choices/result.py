"""The fit of a set of choices: ranks, scores and probabilities."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import load_run, write_run
from attomaton.base.errors import InvalidSamples, UndeterminedChoice, UnknownToken, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Listing, Signal, draw_text, shorten
from attomaton.base.ragged import sum_at
from attomaton.base.solutions import Status
from attomaton.base.tables import Bool, Float64
from attomaton.choices.order import OrderedItems
from attomaton.choices.rankings import count_ties
from attomaton.choices.standings import MOST, Standings, item_column, make_standings, plot_standings
from attomaton.choices.storage import KIND, pack, unpack
from attomaton.choices.uncertainty import Covariances, ScoreDifference
from attomaton.graphs.paths import QueryOrder, graph_of
from attomaton.solvers.soft.certify import SCORES_WITHIN

SHOWN_ROWS, SHOWN = 20, 12
"""Maximum number of items, and of anything else, that a summary prints."""

MOST_PRINTED = 2_048
"""Largest component with standard errors in a table; they need a dense matrix of that size."""


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceFit(Tabular, OrderedItems):
    """The fit of a set of choices: components, their order, scores and probabilities.

    Attributes
    ----------
    items : tuple
        The items: integers ascending, others in order of first appearance.
    graph : Components
        Who beats whom: token i is ``items[i]``, under one query that is not an item and comes last.
    soft : SoftSolution
        The scores within components, or of all items if a prior joins them, with their certificate.
    prior : float, optional
        The standard deviation of the prior that joins all components; None if there is none.
    parts : int
        The counts of ``graph`` and ``soft`` per choice: 1, or more where ties are parts of choices.
    rankings : pyarrow.Table, optional
        Only with ties: the counted rankings, as numbers of ``items`` best first, the place of each (tied
        items share one), and a count. A pair is a ranking of two. In a tie of two, each has half a win; a
        larger tie counts as the average over all orders of the tied items.

    Examples
    --------
    >>> import attomaton as at
    >>> choice_sets = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "c"]]
    >>> fit = at.fit_choices(["a", "b", "a", "a"], choice_sets).expect()
    >>> fit.components, fit.order  # a and b beat each other; c never wins
    ((('a', 'b'), ('c',)), ((0, 1),))
    >>> round(fit.probability("a", ["a", "b"]), 4), fit.probability("c", ["a", "c"])
    (0.6667, 0.0)
    >>> [str(comparison) for comparison in fit.missing]  # what would make all odds finite
    ["a comparison of 'c' with 'b' in which 'c' wins"]
    >>> fit.to_pandas().shape, fit.to_dict()["missing"], fit.describe(limit=1).splitlines()[3]
    ((3, 10), [{'winner': 'c', 'loser': 'b'}], 'and 2 more; .table() has all')
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     at.ChoiceFit.load(fit.save(f"{folder}/ratings")).connected
    False
    >>> print(fit)  # doctest: +ELLIPSIS
    4 choices between 3 items: 2 components
    rank  item  component   score   s.e.  ahead  won  lost
       1  a             1  +0.347  0.612  0.693    3     1
       2  b             1  -0.347  0.612    inf    1     2
       3  c             2       -      -           0     1
    component 1 is always before 2: infinitely far ahead
    scores certified: ...
    """

    prior: float | None = None
    parts: int = 1
    rankings: pa.Table | None = None

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> pa.Table:
        return self.standings.rows

    def _blocks(self) -> list[Block]:
        return self._tell()

    @cached_property
    def standard_errors(self) -> dict[Any, float]:
        """The standard error of each score; NaN for an item alone in its component, which has no score.

        They are relative to the mean of the component; for two items see :meth:`difference`. They come from
        the observed information, or with ties from a sandwich estimator: half a win is not an outcome of the
        model, so its information does not measure the variance of the scores.
        """
        self._check_scores()
        errors = np.where(self._alone, np.nan, self._covariances.errors()[: len(self.items)])
        return dict(zip(self.items, errors.tolist(), strict=True))

    @cached_property
    def n_ties(self) -> int:
        """The number of choices, or of places in rankings, that were ties."""
        return 0 if self.rankings is None else count_ties(self.rankings)

    def probability(self, winner: Any, choice_set: Any) -> float:
        """The probability that ``winner`` is chosen from ``choice_set`` (repeats count), if determined.

        A single item in place of the set is the opponent in a pair. Within one component the probability is
        m_y e^{s_y} / Σ m_j e^{s_j}; with ties it is the expected score, in which a tie of two counts ½.
        Against a component that precedes the winner's it is 0, and items of components that the winner's
        precedes do not count. Where neither precedes the other, this raises ``UndeterminedChoice``; where it
        needs scores that are not certified, ``UncertifiedSolution``.
        """
        ids = self._lookup([winner, *self._members(winner, choice_set)])
        own, present = ids[0], ids[1:]
        if own not in present:
            raise InvalidSamples(f"{winner!r} is not in the choice set; give a set that contains the winner")
        component = self.soft.components.component_of_node
        others = {component[item]: item for item in present if component[item] != component[own]}
        if any(self._below(number)[component[own]] for number in others):
            return 0.0
        reached = self._below(component[own])
        for number, item in others.items():
            if not reached[number]:
                raise self._undetermined(winner, self.items[item])
        rivals = np.array([item for item in present if component[item] == component[own]])
        if (rivals != own).any():
            self._check_scores()
        odds = np.exp(self._score[rivals] - self._score[own])
        return float((rivals == own).sum() / odds.sum())

    def difference(self, first: Any, second: Any) -> ScoreDifference:
        """The score of ``first`` minus that of ``second``, with its standard error.

        It is the log odds that the first is chosen over the second, or with ties the log odds of its expected
        score. It is infinite, and has no standard error, where one component precedes the other. Where
        neither does, this raises ``UndeterminedChoice``.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
        >>> print(fit.difference("a", "b"))
        'a' minus 'b': +0.693 (± 1.225)
        >>> print(fit.difference("a", "c"))
        'a' minus 'c': +inf (no standard error)
        """
        a, b = self._lookup([first, second])
        component = self.soft.components.component_of_node
        if component[a] != component[b]:
            for above, below, value in ((a, b, np.inf), (b, a, -np.inf)):
                if self._below(component[above])[component[below]]:
                    return ScoreDifference(first, second, value, None)
            raise self._undetermined(first, second)
        self._check_scores()
        if a == b:
            return ScoreDifference(first, second, 0.0, 0.0)
        error = self._covariances.of_difference(a, b) ** 0.5
        return ScoreDifference(first, second, float(self._score[a] - self._score[b]), error)

    def covariance(self, items: Any = None) -> Float64:
        """The covariance of the scores of these items, shape (n_items, n_items); all items by default.

        It is relative to the mean of each component. Entries between items of different components, and of an
        item alone in its component, which has no score, are NaN.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
        >>> fit.covariance().round(3).tolist()
        [[0.375, -0.375, nan], [-0.375, 0.375, nan], [nan, nan, nan]]
        """
        chosen: Any = self.items if items is None else items
        several = isinstance(chosen, Collection) and not isinstance(chosen, str) and not self._is_item(chosen)
        numbers = np.array(self._lookup(list(cast("Any", chosen)) if several else [chosen]), np.int64)
        self._check_scores()
        return self._covariances.of(numbers)

    @property
    def log_likelihood(self) -> float:
        """Σ ln p of the choices; where the data are not connected, its supremum, which is not attained.

        A tie counts as parts of choices, so a model in which a tie is an outcome has another likelihood.
        """
        self._check_scores()
        return -self.soft.loss / self.parts

    @property
    def n_parameters(self) -> int:
        """The number of fitted finite parameters: Σ (items − 1) over the components."""
        sizes = self.soft.components.sizes[:-1]
        return int((sizes - 1).sum())

    @property
    def aic(self) -> float:
        """Akaike's information criterion, 2 · n_parameters − 2 · log_likelihood.

        It needs a maximum of the likelihood: connected data without ties, fitted without ridge and prior.
        """
        if self.soft.ridge or not self.connected or self.rankings is not None:
            why = "half a win has no likelihood" if self.connected else "it is at infinity"
            why = "a ridge or a prior moves the fit away from it" if self.soft.ridge else why
            raise UnsupportedOption(
                f"AIC needs a maximum of the likelihood, and {why}; compare .log_likelihood and "
                ".n_parameters yourself, or fit connected data without ties and without a prior"
            )
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @cached_property
    def standings(self) -> Standings:
        """The items in their order: ranks, scores, standard errors, wins and losses.

        Groups that no choice connects are ranked separately, and an item has a rank only if it can be
        compared with every other item of its group; gaps between components are infinite. Standard errors are
        left out where a component has more than 2,048 items, and scores where they are not certified.

        Examples
        --------
        >>> import attomaton as at
        >>> at.fit_choices(["a", "b", "a", "c"], losers=["b", "a", "d", "d"]).standings
        rank  item  group  component  place   score  standard_error  ahead  wins  losses
           –  a         1          1      1       0          0.7071      0     2       1
           –  b         1          1      1       0          0.7071      –     1       1
           –  c         1          2      1       –               –    inf     1       0
           4  d         1          3      1       –               –      –     0       2
        """
        size, joined = len(self.items), self.prior is not None and len(self.items) > 0
        errors = None
        if self._certified and size and self.soft.components.sizes.max() <= MOST_PRINTED:
            with suppress(UnsupportedOption):  # they are lost in rounding
                errors = np.array(list(self.standard_errors.values()))
        component = self._places[self.graph.component_of_node[:size]]
        above, below = (side[: 0 if joined else None] for side in self._pairs)
        edges = self.graph.edges
        counts = np.where(edges["winner"] < size, edges["support"], 0)
        won = sum_at(edges["winner"], np.where(edges["loser"] == size, counts, 0), size + 1)[:size]
        lost = sum_at(edges["loser"], counts, size + 1)[:size]
        if self.parts == 1:
            wins, losses = won.astype(np.int64), lost.astype(np.int64)
        else:
            wins, losses = won / self.parts, lost / self.parts
        return make_standings(
            items=self.items,
            component=component,
            scale=np.zeros_like(component) if joined else component,
            group=np.zeros(1, np.int64) if joined else self._group[self._numbers],
            order=(above, below),
            score=self._score[:size] if self._certified else None,
            error=errors,
            counts=(wins, losses),
        )

    def describe(self, limit: int = SHOWN_ROWS, *, rest: str = ".table() has all") -> str:
        """The text that ``print`` shows, with the first ``limit`` items; ``rest`` says where others are."""
        return draw_text(self._tell(whole_number(limit, "limit", least=1), rest))

    def to_dict(self) -> dict[str, Any]:
        """The fit as values that JSON can represent; an infinite gap is the string ``infinite``."""
        rows: Any = self.standings.rows.to_pylist()
        for row in rows:
            if row["ahead"] is not None and not isfinite(row["ahead"]):
                row["ahead"] = "infinite"
        sides = (item_column([pair[side] for pair in self.missing]).to_pylist() for side in (0, 1))
        return {
            "choices": self._n_choices,
            "items": len(self.items),
            "components": len(self.components),
            "joined": self.prior is not None,
            "certified": self._certified,
            "certificate": str(self.soft.certificate),
            "remarks": self._remarks(),
            "standings": rows,
            "order": [{"above": above + 1, "below": below + 1} for above, below in self.order],
            "missing": [{"winner": won, "loser": lost} for won, lost in zip(*sides, strict=True)],
            "log_likelihood": self.log_likelihood if self._certified else None,
            "n_parameters": self.n_parameters,
            "n_ties": self.n_ties,
            "prior": self.prior,
            "ridge": 0.0 if self.prior is not None else self.soft.ridge / self.parts,
        }

    def plot(self, ax: Any = None, *, limit: int = MOST) -> Any:
        """Draw the scores with 95 % intervals, best on top, in the house style; return the axes.

        Components are stacked, with the relation between them marked: an infinite gap, or no comparison.
        An item alone in its component has no score and is an open point.
        At most ``limit`` items are drawn, on ``ax`` or on new axes.

        Examples
        --------
        >>> import attomaton as at
        >>> ax = at.fit_choices(["a", "b", "a"], losers=["b", "a", "c"]).plot()
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['a  1', 'b  1', 'c  3']
        """
        limit = whole_number(limit, "limit", least=1)
        return plot_standings(self.standings, joined=self.prior is not None, ax=ax, limit=limit)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit into a new folder; ``overwrite`` replaces an earlier fit there."""
        parts = self.items, self.graph, self.soft, self.prior, self.parts, self.rankings
        return write_run(path, pack(*parts), KIND, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "ChoiceFit":
        """Read a fit that :meth:`save` wrote; its certificate is recomputed."""
        return cls(*load_run(path, KIND, unpack))

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {item: number for number, item in enumerate(self.items)}

    @cached_property
    def _paths(self) -> QueryOrder:
        return QueryOrder(graph_of(self.soft.components, len(self.items)))

    def _below(self, component: int) -> Bool:
        """Which components this one precedes, itself included, shape (n_components,)."""
        return self._paths.search(component)[0]

    def _members(self, winner: Any, choice_set: Any) -> Any:
        """The choice set; a single item means the pair of it and the winner."""
        single = isinstance(choice_set, str | bytes) or not isinstance(choice_set, Collection)
        if not single and winner not in choice_set:
            single = self._is_item(choice_set)
        if single and choice_set == winner:
            raise InvalidSamples(f"{winner!r} against itself has no probability; give another item, or a set")
        return [winner, choice_set] if single else cast("Any", choice_set)

    def _lookup(self, items: Sequence[Any]) -> list[int]:
        for item in items:
            if not self._is_item(item):
                raise UnknownToken(f"{item!r} occurs in no choice; leave it out, or add choices with it")
        return [self._number_of[item] for item in items]

    def _is_item(self, item: Any) -> bool:
        try:
            return item in self._number_of
        except TypeError:  # it cannot be hashed
            return False

    def _undetermined(self, one: Any, other: Any) -> UndeterminedChoice:
        return UndeterminedChoice(
            f"no chain of choices leads from {one!r} to {other!r} or back, so neither is "
            "preferred; add comparisons that connect them (see .missing)"
        )

    @cached_property
    def _covariances(self) -> Covariances:
        return Covariances(self.soft, self.parts, self.rankings)

    @property
    def _certified(self) -> bool:
        return self.soft.status is Status.CERTIFIED

    @property
    def _n_choices(self) -> float:
        total = self.graph.edges.n_samples
        return total / self.parts if total % self.parts else total // self.parts

    def _tell(self, limit: int = SHOWN_ROWS, rest: str = ".table() has all") -> list[Block]:
        """The summary, with the first ``limit`` items and a note on where to find the ``rest``."""
        n_items, number, total = len(self.items), len(self.components), self._n_choices
        joined = " of the data, joined by the prior" * (self.prior is not None and number > 1)
        proof = f"each within {SCORES_WITHIN:.0e} of the best fit"
        return [
            f"{total:,.12g} choice{'s' * (total != 1)} between {n_items:,} item{'s' * (n_items != 1)}: "
            f"{number:,} component{'s' * (number != 1)}{joined}",
            self._list(limit),
            *([f"and {n_items - limit:,} more; {rest}"] if n_items > limit else []),
            *self._describe_order(),
            Signal(
                f"scores {self.soft.status.name.lower()}: "
                f"{proof if self._certified else str(self.soft.certificate)}",
                self._certified,
            ),
            *self._remarks(),
            *self._describe_missing(),
        ]

    def _list(self, limit: int) -> Listing:
        rows: Any = self.standings.rows.slice(0, limit).to_pylist()
        several, groups = len(self.components) > 1, max(self.standings["group"], default=0) > 1
        texts = all(isinstance(row["item"], str) for row in rows)
        errors = any(row["standard_error"] is not None for row in rows)
        headers = ["rank", "item", *["group"] * groups, *["component"] * several]
        headers += ["score", *["s.e."] * errors, "ahead", "won", "lost"]
        cells = [
            [
                _whole(row["rank"]),
                shorten(row["item"]) if texts else str(row["item"]),
                *[str(row["group"])] * groups,
                *[str(row["component"])] * several,
                _real(row["score"], "+.3f"),
                *[_real(row["standard_error"], ".3f")] * errors,
                _real(row["ahead"], ".3f") if number + 1 < len(self.items) else "",
                _whole(row["wins"]),
                _whole(row["losses"]),
            ]
            for number, row in enumerate(rows)
        ]
        return Listing(headers, cells)

    def _remarks(self) -> list[str]:
        """Notes on ties, the prior and the ridge."""
        remarks: list[str] = []
        if self.n_ties:
            rule = "half a win each way (a tie of more than two: the average over its orders)"
            remarks.append(f"ties: {self.n_ties:,}, each counted as {rule}; the model fits expected wins")
        if self.prior is not None:
            remarks.append(
                f"prior: every score is normal about 0 with standard deviation {self.prior:g}; differences "
                "between components come from the prior, not from the data"
            )
        elif self.soft.ridge:
            remarks.append(f"ridge: {self.soft.ridge / self.parts:g}, within components")
        return remarks

    def _describe_order(self) -> list[str]:
        """Lines on which components precede others, and which cannot be compared."""
        if self.connected or not self.components or self.prior is not None:
            return []
        below: dict[int, list[str]] = {}
        for above, other in self.order:
            below.setdefault(above, []).append(str(other + 1))
        lines = [
            f"component {above + 1} is always before {', '.join(names[:SHOWN])}"
            f"{', ...' * (len(names) > SHOWN)}: infinitely far ahead"
            for above, names in list(below.items())[:SHOWN]
        ]
        if len(below) > SHOWN:
            lines.append(f"and so on for {len(below) - SHOWN:,} more components; .order has all")
        others = "all others"
        if max(self.standings["group"]) > 1:
            lines.append("no choice compares items of different groups, so each group is ranked separately")
            others = "all others of their group"
        if None in self.standings["rank"]:
            lines.append(f"no rank (-): no chain of wins connects these items with {others}")
        return lines

    def _describe_missing(self) -> list[str]:
        if len(self.components) < 2:
            return []
        alone = "Scores of different components cannot be compared. " if self.prior is None else ""
        lines = [f"{alone}The fewest comparisons that connect all components are"]
        lines += [f"  {comparison!s}" for comparison in self.missing[:SHOWN]]
        if len(self.missing) > SHOWN:
            lines.append(f"  and {len(self.missing) - SHOWN:,} more")
        return lines


def _whole(value: Any) -> str:
    return "-" if value is None else f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"


def _real(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
