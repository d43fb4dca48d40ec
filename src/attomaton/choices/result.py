"""The fit of a set of choices, as :func:`fit_choices` returns it: ranks, scores and probabilities."""

# A model, LuceScores or LogitScores, has the scores in log odds; SCALES converts them to the scale of
# the fit. The graph and the model number their components; elsewhere a component is a position in
# `components`.

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attomaton.base.artifacts import Run, load_run, write_run
from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number, show, whole_number
from attomaton.base.printing import Block, Listing, Signal, count_noun, draw_text, show_count
from attomaton.base.tables import Float64, Int64
from attomaton.choices.assessment import AssessedItems
from attomaton.choices.board import MOST_RATED, SHOWN_ROWS, Board
from attomaton.choices.board_figure import MOST_LINES, MOST_ROWS_DRAWN, draw_lines
from attomaton.choices.board_rows import as_records, item_column, plain_cells, rows_without_board
from attomaton.choices.coefficient_list import list_coefficients, record_coefficient, rescale
from attomaton.choices.gaps import GapLimits, Gaps, lost_in_sets
from attomaton.choices.order import SCALES
from attomaton.choices.ratings import Ratings, outcome_probabilities
from attomaton.choices.storage import KIND, StoredFit, pack_choice_fit, unpack_choice_fit
from attomaton.choices.uncertainty import LuceScores, ScoreDifference

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast

SHOWN_COMPARISONS = 12  # maximum number of comparisons and categories that a summary prints


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceFit(Tabular, AssessedItems):
    """A fitted choice model: components of items, their order, scores and probabilities.

    Attributes
    ----------
    items : tuple
        The items: integers in ascending order, other items in order of first appearance.
    graph : Components
        The graph of the items: token i is ``items[i]``, and one more token, the last, is the query. Without
        features, an edge leads from each item to every item that it was chosen over.
    model : object
        The fitted Luce model or conditional logit; private.
    scale : str
        The scale of all scores, differences, errors and coefficients, "log-odds" or "elo".
    by : mapping from categories to ChoiceFit
        The separate fit of each category; empty without ``by=``.
    reading : str
        A remark on how the column of outcomes was read; may be empty.

    Examples
    --------
    >>> import attomaton as at
    >>> choice_sets = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "c"]]
    >>> fit = at.fit_choices(["a", "b", "a", "a"], choice_sets).expect()
    >>> fit.components, fit.order  # a and b beat each other; c never wins
    ((('a', 'b'), ('c',)), ((0, 1),))
    >>> round(fit.probability("a", ["a", "b"]), 4), fit.probability("c", ["a", "c"])
    (0.6667, 0.0)
    >>> print(fit)  # doctest: +ELLIPSIS
    4 choices between 3 items: 2 components
    rank  ranks  item    rating   s.e.          interval  games
       1    1–3  a       +0.347  0.612  -0.854 to +1.547      4
       2    1–3  b       -0.347  0.612  -1.547 to +0.854      3
       3    1–3  c     ≤ +3.291      -                 -      1
    ...
    certified: every finite rating is within 1e-06 of the best fit, and it is proved which ratings are ...
    ...
    """

    by: Mapping[Any, "ChoiceFit"] = field(default_factory=dict[Any, "ChoiceFit"])
    reading: str = ""

    def __repr__(self) -> str:
        return str(self)

    @cached_property
    def standard_errors(self) -> dict[Any, float]:
        """The standard error of each score relative to the mean of its component.

        An item that is alone in its component has NaN. Errors follow from the observed information; if ties
        count as half wins, they follow from a sandwich estimator.
        """
        self.model.expect()
        errors = np.where(self._alone, np.nan, self._unit * self.model.errors())
        return dict(zip(self.items, errors.tolist(), strict=True))

    @property
    def n_ties(self) -> float:
        """The number of ties: tied choices, or tied positions in rankings."""
        return _whole_if(self.model.tally.n_ties)

    @property
    def prior(self) -> float | None:
        """The standard deviation of the prior of the scores; None without a prior."""
        return self.model.prior

    @cached_property
    def coefficients(self) -> "dict[str, Contrast]":
        """The coefficients of position (``moved_first``), of each feature, and of ties (``tie``), by name.

        A finite coefficient has a standard error, and an infinite coefficient has a bound. A coefficient can
        also be undecided. A feature that follows from the items alone is not identified.
        """
        return rescale(self.model.coefficients, self._unit)

    def probability(self, winner: Any, choice_set: Any) -> float:
        """Return the probability that ``winner`` is chosen from ``choice_set``, which may be one opponent.

        Within one component the probability is m_y e^{s_y} / Σ m_j e^{s_j}, where item j occurs m_j times in
        the set and has score s_j. It is 0 if another component in the set precedes the winner's component.
        If ties count as half wins, the result is the expected score. If ties are outcomes (Davidson), it is
        the probability of a win; :meth:`outcomes` also returns the others. Position and features are equal.

        Raises ``UndeterminedChoice`` if the choices do not determine the probability, and
        ``UncertifiedSolution`` if the scores are needed but not certified.
        """
        chosen, *members = self._lookup([winner, *self._members(winner, choice_set)])
        if chosen not in members:
            raise InvalidSamples(f"the winner {winner!r} is not in the choice set; add it to the set")
        if self.model.ties == "davidson":
            if len(members) != 2 or members[0] == members[1]:
                raise UnsupportedOption(
                    'ties as outcomes (Davidson) need pairs; give one opponent, or fit with ties="half"'
                )
            return self.outcomes(winner, *(self.items[item] for item in members if item != chosen)).win
        component = self.model.components.component_of_node
        outsiders = {component[item]: item for item in members if component[item] != component[chosen]}
        if any(self._below(above)[component[chosen]] for above in outsiders):
            return 0.0
        below = self._below(component[chosen])
        for outside, item in outsiders.items():
            if not below[outside]:
                raise self._undetermined(winner, self.items[item])
        # Every other component in the set is below: only items of the winner's component can be chosen.
        rivals = np.array([item for item in members if component[item] == component[chosen]])
        if (rivals != chosen).any():
            self.model.expect()
        odds = np.exp(self.model.values[rivals] - self.model.values[chosen])
        return float((rivals == chosen).sum() / odds.sum())

    def difference(self, first: Any, second: Any) -> ScoreDifference:
        """Return the score of ``first`` minus the score of ``second``, with its standard error.

        The difference is the log odds of a win against a loss or, if ties count as half wins, of the expected
        score. If the component of one item precedes the component of the other, the difference is infinite
        and has a bound instead of an error. If neither precedes, this raises ``UndeterminedChoice``.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
        >>> print(fit.difference("a", "b"))
        'a' minus 'b': +0.693 (± 1.225)
        >>> print(fit.difference("a", "c"))
        'a' minus 'c': +inf (at least -2.944 with confidence 95 %)
        """
        a, b = self._lookup([first, second])  # their item numbers
        component = self.model.components.component_of_node
        if component[a] != component[b]:
            if self._below(component[a])[component[b]]:
                return ScoreDifference(first, second, np.inf, None, limits=self._gap_limits(a, b, 1.0))
            if self._below(component[b])[component[a]]:
                return ScoreDifference(first, second, -np.inf, None, limits=self._gap_limits(b, a, -1.0))
            raise self._undetermined(first, second)
        self.model.expect()
        if a == b:
            return ScoreDifference(first, second, 0.0, 0.0)
        value = self._unit * float(self.model.values[a] - self.model.values[b])
        error, degrees = self.model.difference_error(a, b)
        error_if_known = None if np.isnan(error) else self._unit * error
        if self.model.penalised is None:
            return ScoreDifference(first, second, value, error_if_known, degrees)
        names = self.model.penalised.problem.names
        limits = self.model.penalised.contrast(names[a], names[b], unit=self._unit)
        maximum = self._unit * limits.maximum.value
        return ScoreDifference(first, second, value, error_if_known, degrees, maximum, limits)

    # The limits of the infinite gap between two items, by item number; None if no board has them.
    def _gap_limits(self, above: int, below: int, sign: float) -> GapLimits | None:
        if self._why_no_board:
            return None
        upper, lower = int(self._component[above]), int(self._component[below])
        apart = float(self.model.values[above] - self.model.values[below])
        return GapLimits(self._gaps, upper, lower, apart, self._unit, sign)

    def probability_interval(self, first: Any, second: Any, *, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the probability that ``first`` wins against ``second``.

        The ends of the interval of :meth:`difference` are converted to probabilities; the uncertainty of
        the tie coefficient is ignored.
        """
        low, high = self.difference(first, second).interval(level)
        log_odds = np.array([low, high]) / self._unit
        probability_of_win, _ = outcome_probabilities(log_odds, self._tie)
        return tuple(probability_of_win.tolist())

    def covariance(self, items: Any = None) -> Float64:
        """Return the covariance matrix of the scores of ``items`` (default: all items).

        Scores are relative to the mean of their component. An entry of two items in different components, or
        of an item that is alone in its component, is NaN.
        """
        chosen: Any = self.items if items is None else items
        several = isinstance(chosen, Collection) and not isinstance(chosen, str) and not self._is_item(chosen)
        numbers = np.array(self._lookup(list(cast("Any", chosen)) if several else [chosen]), np.int64)
        self.model.expect()
        return self._unit**2 * self.model.covariance(numbers)

    def _table(self) -> pa.Table:
        return self._rows

    # The table of the fit: the board or, where there is none, each rating inside its component.
    @cached_property
    def _rows(self) -> pa.Table:
        if not self._why_no_board:
            return self._board.rows
        rated = ~self._alone if self.certified else np.zeros(len(self.items), bool)
        unit, origin = SCALES[self.scale]
        rating = np.where(rated, origin + unit * self.model.values, np.nan)
        return rows_without_board(self.items, self._component, rating, *self._counts)

    # Why the fit has no board, as a sentence for the reader; empty if it has one.
    @cached_property
    def _why_no_board(self) -> str:
        if not self.certified:
            return "no ratings or ranks are shown, because the scores are not certified"
        if len(self.components) > MOST_RATED and not self.model.joined:
            return (
                f"no ranks or standard errors: there are more than {MOST_RATED:,} components; each rating is "
                "relative to the mean of its component"
            )
        return ""

    # The position in ``components`` of each item's component; if joined, the number of its group.
    @cached_property
    def _component(self) -> Int64:
        positions = self._position_of[self.graph.component_of_node[: len(self.items)]]
        if not self.model.joined:
            return positions
        groups = self.model.components.component_of_node[: len(self.items)]
        return np.unique(groups, return_inverse=True)[1].ravel()

    def board(self, *, scale: str | None = None, centre: float | None = None, level: float = 0.95) -> Board:
        """Return the items with ratings, intervals and rank intervals; see :class:`Board`.

        Parameters
        ----------
        scale : str, optional
            "log-odds", or "elo" (400 points are odds of 10 to 1); the default is the scale of the fit.
        centre : float, optional
            The mean rating of the largest component of each board; the default is 0, or 1000 for "elo".
        level : float
            The confidence level of each interval and bound, and of all rank intervals of a board jointly.
        """
        scale = scale or self.scale
        if scale not in SCALES:
            raise UnsupportedOption(f"scale is {show(scale)}; give one of {', '.join(map(repr, SCALES))}")
        unit, origin = SCALES[scale]
        centre = origin if centre is None else real_number(centre, "centre")
        level = real_number(level, "level", above=0, below=1)
        coefficients = rescale(self.model.coefficients, unit)
        return Board(self._ratings, scale, centre, level, coefficients, tuple(self._remarks))

    @cached_property
    def _board(self) -> Board:
        return self.board()

    # The infinite gaps between components, with a bound on each.
    @cached_property
    def _gaps(self) -> Gaps:
        model = self.model
        if not isinstance(model, LuceScores):
            return model.gaps(self._component, *self._all_pairs)
        n_components = len(self.components)
        above, below = self._all_pairs
        if self.prior is not None:  # all items are in one component
            n_components = min(len(self.items), 1)
            above, below = above[:0], below[:0]
        lost = lost_in_sets(model.crossing, self._component, model.values, model.denominator, n_components)
        return Gaps(lost, above, below, n_components)

    # The log odds of a tie against a win between equal items; −inf without ties as outcomes.
    @cached_property
    def _tie(self) -> float:
        tie = self.model.coefficients.get("tie")
        return tie.value if tie is not None and isfinite(tie.value) else -np.inf

    # The certified scores with their errors and infinite gaps, from which boards follow.
    @cached_property
    def _ratings(self) -> Ratings:
        model = self.model
        component = self._component
        model.expect()
        if component.max(initial=-1) >= MOST_RATED:
            raise UnsupportedOption(
                f"a board can have at most {MOST_RATED:,} components, and the fit has "
                f"{component.max() + 1:,}; use .table(), which lists the scores in each component"
            )
        covariance = None
        if len(self.items) <= MOST_RATED:
            with suppress(UnsupportedOption):  # the covariance is lost in rounding
                covariance = model.covariance(np.arange(len(self.items)))
        wins, losses = self._counts
        return Ratings(
            items=self.items,
            component=component,
            score=model.values,
            covariance=covariance,
            wins=wins,
            losses=losses,
            gaps=self._gaps,
            tie=self._tie,
            errors=None if covariance is None else model.board_errors,
        )

    # The number of choices that each item won, and that it lost; integers if all are whole.
    @cached_property
    def _counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        tally = self.model.tally
        are_whole = all((counts % 1 == 0).all() for counts in (tally.wins, tally.losses))
        kind = np.int64 if are_whole and not tally.n_ties else np.float64
        return tally.wins.astype(kind), tally.losses.astype(kind)

    @property
    def _remarks(self) -> list[str]:
        return [*[self.reading] * bool(self.reading), *self.model.remarks()]

    def describe(self, limit: int = SHOWN_ROWS, *, pointer: str = ".table() lists all") -> str:
        """Return the printed text for ``limit`` items; ``pointer`` says where to find the others."""
        return draw_text(self._blocks(whole_number(limit, "limit", least=1), pointer))

    def to_dict(self) -> dict[str, Any]:
        """Return the fit as values for JSON, with the text ``infinite`` for an infinite number."""
        winners = item_column([comparison.winner for comparison in self.missing]).to_pylist()
        losers = item_column([comparison.loser for comparison in self.missing]).to_pylist()
        has_aic = self.certified and not self.model.why_no_aic
        coefficients: Collection[Contrast] = self.coefficients.values() if self.certified else ()
        return {
            "choices": _whole_if(self.model.tally.n_choices),
            "items": len(self.items),
            "components": len(self.components),
            "joined": bool(self.model.joined),
            "certified": self.certified,
            "certificate": self.model.proof,
            "remarks": self._remarks,
            "scale": self.scale,
            "standings": as_records(self._rows),
            "coefficients": [record_coefficient(contrast) for contrast in coefficients],
            "order": [{"above": above + 1, "below": below + 1} for above, below in self.order],
            "missing": [{"winner": won, "loser": lost} for won, lost in zip(winners, losers, strict=True)],
            "log_likelihood": self.log_likelihood if self.certified else None,
            "n_parameters": self.n_parameters,
            "aic": self.aic if has_aic else None,
            "bic": self.bic if has_aic else None,
            "n_ties": self.n_ties,
            "prior": self.prior,
            "penalty": self.model.penalty,
            "ridge": self.model.ridge,
            "ties": self.model.ties,
            **({"by": {str(name): fit.to_dict() for name, fit in self.by.items()}} if self.by else {}),
        }

    def plot(self, ax: Any = None, *, limit: int | None = None) -> Any:
        """Draw the board with :meth:`attomaton.choices.Board.plot`, and return the axes.

        If the fit has categories (``by=``), draw a line for each of the first 14 items through its finite
        ratings, category by category.
        """
        board = self.board()
        if not self.by:
            return board.plot(ax, limit=MOST_ROWS_DRAWN if limit is None else limit)
        limit = MOST_LINES if limit is None else whole_number(limit, "limit", least=1)
        first_boards = {category: fit.board().by_board()[0] for category, fit in self.by.items()}
        title = f"ratings with {100 * board.level:g} % intervals"
        return draw_lines(first_boards, board["item"][:limit], self.scale, title, ax)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to a new folder; ``overwrite=True`` replaces a fit that is already there."""
        return write_run(path, self._pack(), KIND, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fit that :meth:`save` wrote, and recompute its certificate."""
        return load_run(path, KIND, cls._unpack)

    def _pack(self) -> Run:
        by = {category: fit._pack() for category, fit in self.by.items()}
        return pack_choice_fit(StoredFit(self.items, self.graph, self.model, self.scale, by, self.reading))

    @classmethod
    def _unpack(cls, run: Run) -> Self:
        fit = unpack_choice_fit(run)
        by = {category: cls._unpack(nested) for category, nested in fit.by.items()}
        return cls(fit.items, fit.graph, fit.model, fit.scale, by, fit.reading)

    # The choice set; a single item means its pair with the winner.
    def _members(self, winner: Any, choice_set: Any) -> Any:
        single = isinstance(choice_set, str | bytes) or not isinstance(choice_set, Collection)
        if not single and winner not in choice_set:
            single = self._is_item(choice_set)  # a tuple may be an item
        if single and choice_set == winner:
            raise InvalidSamples(f"{winner!r} cannot be compared with itself; give another item, or a set")
        return [winner, choice_set] if single else cast("Any", choice_set)

    # The printed blocks: a headline, the first ``limit`` items, coefficients, verdict and remarks.
    def _blocks(self, limit: int = SHOWN_ROWS, pointer: str = ".table() lists all") -> list[Block]:
        n_items = len(self.items)
        n_components = len(self.components)
        n_choices = self.model.tally.n_choices
        joined = f" of the data, joined by {self.model.joined}" * bool(self.model.joined and n_components > 1)
        headline = (
            f"{show_count(n_choices)} choice{'s' * (n_choices != 1)} between {count_noun(n_items, 'item')}: "
            f"{count_noun(n_components, 'component')}{joined}"
        )
        blocks: list[Block] = [headline, *self._list_items(limit, pointer)]
        if self.certified and self.coefficients:
            blocks.append(list_coefficients(self.coefficients, self.scale))
        blocks.append(Signal(self.model.verdict, self.certified))
        return [*blocks, *self._remarks, *self._describe_missing(), *self._describe_categories()]

    # The board with its explanation, or where there is none a list of items and the reason.
    def _list_items(self, limit: int, pointer: str) -> list[Block]:
        if not self._why_no_board:
            scale = f"ratings are {self._board.explain_scale()}"
            return [*self._board.listings(limit, pointer), scale, *self._board.remarks()]
        rows: Any = self._rows.slice(0, limit).to_pylist()
        cells = [plain_cells(row, self.scale) for row in rows]
        more = [f"and {len(self.items) - limit:,} more; {pointer}"] * (len(self.items) > limit)
        return [Listing(["item", "component", "rating", "games"], cells), *more, self._why_no_board]

    def _describe_categories(self) -> list[str]:
        if not self.by:
            return []
        names = [f"{name} ({show_count(fit.model.tally.n_choices)})" for name, fit in self.by.items()]
        more = f" and {len(names) - SHOWN_COMPARISONS:,} more" * (len(names) > SHOWN_COMPARISONS)
        return [f"categories, each with its own fit in .by: {', '.join(names[:SHOWN_COMPARISONS])}{more}"]

    def _describe_missing(self) -> list[str]:
        if len(self.components) < 2:
            return []
        fewest = "the fewest comparisons" if self.logit is None else "comparisons"
        lines = [f"{fewest} that would connect all components:"]
        lines += [f"  {comparison!s}" for comparison in self.missing[:SHOWN_COMPARISONS]]
        if len(self.missing) > SHOWN_COMPARISONS:
            lines.append(f"  and {len(self.missing) - SHOWN_COMPARISONS:,} more")
        return lines


# A whole number as an integer, any other number as it is.
def _whole_if(number: float) -> float:
    return int(number) if number == int(number) else number
