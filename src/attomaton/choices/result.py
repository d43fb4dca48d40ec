"""The fit of a set of choices: ranks, scores and probabilities."""

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
from attomaton.base.printing import Block, Listing, Signal, draw_text, show_count
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
    """Ratings of items from choices: components, their order, scores and probabilities.

    Attributes
    ----------
    items : tuple
        The items: integers ascending, others in order of first appearance.
    graph : Components
        Which items are infinitely far ahead of which: token i is ``items[i]``, under one query that is not an
        item and comes last. Without features it has an edge from each item to those it was chosen over.
    model : object
        The fitted Luce model or conditional logit; private.
    scale : str
        "log-odds" or "elo": the scale of all scores, differences, errors and coefficients.
    by : mapping from categories to ChoiceFit
        The fits of the choices of each category; empty without ``by=``.
    reading : str
        How numbers in the column of outcomes were read; empty without any.

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
    certified: every finite rating is within 1e-06 of the best fit; which ratings are infinite is proved
    ...
    """

    by: Mapping[Any, "ChoiceFit"] = field(default_factory=dict[Any, "ChoiceFit"])
    reading: str = ""

    def __repr__(self) -> str:
        return str(self)

    @cached_property
    def standard_errors(self) -> dict[Any, float]:
        """The standard error of each score about the mean of its component; NaN for an item alone in it.

        It comes from the observed information, or with half wins from a sandwich estimator: half a win is
        not an outcome of the model. For the error between two items see :meth:`difference`.
        """
        self.model.expect()
        errors = np.where(self._alone, np.nan, self._unit * self.model.errors())
        return dict(zip(self.items, errors.tolist(), strict=True))

    @property
    def n_ties(self) -> float:
        """The number of choices, or of positions in rankings, that were ties."""
        return _whole_if(self.model.tally.n_ties)

    @property
    def prior(self) -> float | None:
        """The standard deviation of the prior that joins all components; None if there is none."""
        return self.model.prior

    @cached_property
    def coefficients(self) -> "dict[str, Contrast]":
        """What position, features and ties are worth, by name: ``moved_first``, your features, ``tie``.

        Each is finite with its standard error, infinite with a bound, undecided, or not identified: if a
        feature follows from the items in every comparison, scores contain what it is worth.
        """
        return rescale(self.model.coefficients, self._unit)

    def probability(self, winner: Any, choice_set: Any) -> float:
        """The probability that ``winner`` is chosen from ``choice_set`` (repeats count), if determined.

        A single item instead of a set is the opponent in a pair. Within one component the probability is
        m_y e^{s_y} / Σ m_j e^{s_j}, where item j occurs m_j times and has score s_j. It is 0 if a component
        in the set precedes that of the winner, and ignores components that the winner's precedes. Where ties
        are half wins it is the expected score, in which a tie counts ½. Where ties are outcomes (Davidson) it
        is the probability of a win; :meth:`outcomes` has all three. Nobody moves first, and features are
        equal. Raises ``UndeterminedChoice`` if no component precedes the other, and ``UncertifiedSolution``
        if the scores are needed and not certified.
        """
        chosen, *members = self._lookup([winner, *self._members(winner, choice_set)])
        if chosen not in members:
            raise InvalidSamples(f"{winner!r} is not in the choice set; give a set that contains the winner")
        if self.model.ties == "davidson":
            if len(members) != 2 or members[0] == members[1]:
                raise UnsupportedOption(
                    'ties as outcomes (Davidson) are for pairs; give one opponent, or fit with ties="half"'
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
        rivals = np.array([item for item in members if component[item] == component[chosen]])
        if (rivals != chosen).any():
            self.model.expect()
        odds = np.exp(self.model.values[rivals] - self.model.values[chosen])
        return float((rivals == chosen).sum() / odds.sum())

    def difference(self, first: Any, second: Any) -> ScoreDifference:
        """The score of ``first`` minus that of ``second``, with its standard error.

        It is the log odds that the first is chosen over the second (or Elo points); where ties are half wins,
        the log odds of its expected score. Where one component precedes the other it is infinite, with a
        bound instead of a standard error. Where neither does, this raises ``UndeterminedChoice``.

        Examples
        --------
        >>> import attomaton as at
        >>> fit = at.fit_choices(["a", "b", "a", "a"], losers=["b", "a", "b", "c"])
        >>> print(fit.difference("a", "b"))
        'a' minus 'b': +0.693 (± 1.225)
        >>> print(fit.difference("a", "c"))
        'a' minus 'c': +inf (at least -2.944 with confidence 95 %)
        """
        a, b = self._lookup([first, second])
        component = self.model.components.component_of_node
        if component[a] != component[b]:
            if self._below(component[a])[component[b]]:
                return ScoreDifference(first, second, np.inf, None, limits=self._limits(a, b, 1.0))
            if self._below(component[b])[component[a]]:
                return ScoreDifference(first, second, -np.inf, None, limits=self._limits(b, a, -1.0))
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

    def _limits(self, above: int, below: int, sign: float) -> GapLimits | None:
        if self._why_no_board:
            return None
        ends = int(self._component[above]), int(self._component[below])
        apart = float(self.model.values[above] - self.model.values[below])
        return GapLimits(self._gaps, *ends, apart, self._unit, sign)

    def probability_interval(self, first: Any, second: Any, *, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval of the probability that the first wins against the second.

        It is the interval of their difference, as probabilities; where the difference is infinite one end is
        0 or 1. Where ties are outcomes, their frequency is taken as estimated.
        """
        low, high = self.difference(first, second).interval(level)
        log_odds = np.array([low, high]) / self._unit
        return tuple(outcome_probabilities(log_odds, self._tie)[0].tolist())

    def covariance(self, items: Any = None) -> Float64:
        """The covariance of the scores of these items (default: all), shape (n_items, n_items).

        Scores are relative to the mean of the component. Entries between components, and of an item alone in
        its component, are NaN.
        """
        chosen: Any = self.items if items is None else items
        several = isinstance(chosen, Collection) and not isinstance(chosen, str) and not self._is_item(chosen)
        numbers = np.array(self._lookup(list(cast("Any", chosen)) if several else [chosen]), np.int64)
        self.model.expect()
        return self._unit**2 * self.model.covariance(numbers)

    def _table(self) -> pa.Table:
        return self._rows

    @cached_property
    def _rows(self) -> pa.Table:
        if not self._why_no_board:
            return self._board.rows
        rated = ~self._alone if self.certified else np.zeros(len(self.items), bool)
        rating = np.where(rated, self._origin + self._unit * self.model.values, np.nan)
        return rows_without_board(self.items, self._component, rating, *self._counts)

    @cached_property
    def _why_no_board(self) -> str:
        if not self.certified:
            return "no ratings and ranks: the scores are not certified"
        if len(self.components) > MOST_RATED and not self.model.joined:
            return (
                f"no ranks or standard errors: there are more than {MOST_RATED:,} components; ratings are "
                "relative to the mean of each"
            )
        return ""

    @cached_property
    def _component(self) -> Int64:
        """The position in ``components`` of each item's component; the number of the group if joined."""
        positions = self._position_of[self.graph.component_of_node[: len(self.items)]]
        if not self.model.joined:
            return positions
        groups = self.model.components.component_of_node[: len(self.items)]
        return np.unique(groups, return_inverse=True)[1].ravel()

    def board(self, *, scale: str | None = None, centre: float | None = None, level: float = 0.95) -> Board:
        """Ratings, intervals and rank intervals, on one board for each set of items that can be compared.

        Parameters
        ----------
        scale : str, optional
            ``log-odds``, or ``elo``: 400 / ln 10 times as large. None means that of the fit.
        centre : float, optional
            The mean rating of the largest component of each board; None means 0, or 1000 for ``elo``.
        level : float
            The confidence of intervals and bounds, and, jointly, of the rank intervals of a board.
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

    @cached_property
    def _gaps(self) -> Gaps:
        model = self.model
        if not isinstance(model, LuceScores):
            return model.gaps(self._component, *self._all_pairs)
        n_components, (above, below) = len(self.components), self._all_pairs
        if self.prior is not None:  # all items are in one component
            n_components, above, below = min(len(self.items), 1), above[:0], below[:0]
        lost = lost_in_sets(model.crossing, self._component, model.values, model.denominator, n_components)
        return Gaps(lost, above, below, n_components)

    @cached_property
    def _tie(self) -> float:
        tie = self.model.coefficients.get("tie")
        return tie.value if tie is not None and isfinite(tie.value) else -np.inf

    @cached_property
    def _ratings(self) -> Ratings:
        model, component = self.model, self._component
        model.expect()
        if component.max(initial=-1) >= MOST_RATED:
            raise UnsupportedOption(
                f"a board has at most {MOST_RATED:,} components, and there are {component.max() + 1:,}; "
                ".table() has the scores in each"
            )
        covariance = None
        if len(self.items) <= MOST_RATED:
            with suppress(UnsupportedOption):  # it is lost in rounding
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

    @cached_property
    def _counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The choices that each item won, and the others with it; whole numbers where all are."""
        tally = self.model.tally
        whole = all((side % 1 == 0).all() for side in (tally.wins, tally.losses)) and not tally.n_ties
        kind = np.int64 if whole else np.float64
        return tally.wins.astype(kind), tally.losses.astype(kind)

    @property
    def _remarks(self) -> list[str]:
        return [*[self.reading] * bool(self.reading), *self.model.remarks()]

    def describe(self, limit: int = SHOWN_ROWS, *, pointer: str = ".table() has all") -> str:
        """The text that ``print`` shows, with ``limit`` items; ``pointer`` says where to find the others."""
        return draw_text(self._blocks(whole_number(limit, "limit", least=1), pointer))

    def to_dict(self) -> dict[str, Any]:
        """The fit as values that JSON can represent; an infinite number is the text ``infinite``."""
        sides = (item_column([pair[side] for pair in self.missing]).to_pylist() for side in (0, 1))
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
            "coefficients": [record_coefficient(contrast) for contrast in self.coefficients.values()]
            if self.certified
            else [],
            "order": [{"above": above + 1, "below": below + 1} for above, below in self.order],
            "missing": [{"winner": won, "loser": lost} for won, lost in zip(*sides, strict=True)],
            "log_likelihood": self.log_likelihood if self.certified else None,
            "n_parameters": self.n_parameters,
            "aic": self.aic if self.certified and not self.model.why_no_aic else None,
            "bic": self.bic if self.certified and not self.model.why_no_aic else None,
            "n_ties": self.n_ties,
            "prior": self.prior,
            "penalty": self.model.penalty,
            "ridge": self.model.ridge,
            "ties": self.model.ties,
            **({"by": {str(name): fit.to_dict() for name, fit in self.by.items()}} if self.by else {}),
        }

    def plot(self, ax: Any = None, *, limit: int | None = None) -> Any:
        """Draw the board of the fit, as :meth:`attomaton.choices.Board.plot` does; return the axes.

        With ``by=``, such as months, draw a line for each of the first 14 items through the finite ratings by
        category; ``fit.board().plot()`` draws the board of all choices.
        """
        board = self.board()
        if not self.by:
            return board.plot(ax, limit=MOST_ROWS_DRAWN if limit is None else limit)
        limit = MOST_LINES if limit is None else whole_number(limit, "limit", least=1)
        categories = list(self.by)
        with suppress(TypeError):  # categories that cannot be compared stay in the order of first appearance
            categories = sorted(categories)
        first_boards = {category: self.by[category].board().by_board()[0] for category in categories}
        title = f"ratings with {100 * board.level:g} % intervals"
        return draw_lines(first_boards, board["item"][:limit], self.scale, title, ax)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit into a new folder; ``overwrite`` replaces an earlier fit there."""
        return write_run(path, self._pack(), KIND, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fit that :meth:`save` wrote; its certificate is recomputed."""
        return load_run(path, KIND, cls._unpack)

    def _pack(self) -> Run:
        by = {category: fit._pack() for category, fit in self.by.items()}
        return pack_choice_fit(StoredFit(self.items, self.graph, self.model, self.scale, by, self.reading))

    @classmethod
    def _unpack(cls, run: Run) -> Self:
        fit = unpack_choice_fit(run)
        by = {category: cls._unpack(nested) for category, nested in fit.by.items()}
        return cls(fit.items, fit.graph, fit.model, fit.scale, by, fit.reading)

    def _members(self, winner: Any, choice_set: Any) -> Any:
        """The choice set; a single item means its pair with the winner."""
        single = isinstance(choice_set, str | bytes) or not isinstance(choice_set, Collection)
        if not single and winner not in choice_set:
            single = self._is_item(choice_set)
        if single and choice_set == winner:
            raise InvalidSamples(f"{winner!r} against itself has no probability; give another item, or a set")
        return [winner, choice_set] if single else cast("Any", choice_set)

    def _blocks(self, limit: int = SHOWN_ROWS, pointer: str = ".table() has all") -> list[Block]:
        """The board with the first ``limit`` items, where to find the others (``pointer``), and what else."""
        n_items, n_components = len(self.items), len(self.components)
        n_choices = self.model.tally.n_choices
        joined = f" of the data, joined by {self.model.joined}" * bool(self.model.joined and n_components > 1)
        headline = (
            f"{show_count(n_choices)} choice{'s' * (n_choices != 1)} between "
            f"{n_items:,} item{'s' * (n_items != 1)}: "
            f"{n_components:,} component{'s' * (n_components != 1)}{joined}"
        )
        blocks: list[Block] = [headline, *self._list_items(limit, pointer)]
        if self.certified and self.coefficients:
            blocks.append(list_coefficients(self.coefficients, self.scale))
        blocks.append(Signal(self.model.verdict, self.certified))
        return [*blocks, *self._remarks, *self._describe_missing(), *self._describe_categories()]

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
        return [
            f"choices by category, each fitted by itself in .by: {', '.join(names[:SHOWN_COMPARISONS])}{more}"
        ]

    def _describe_missing(self) -> list[str]:
        if len(self.components) < 2:
            return []
        fewest = "the fewest comparisons" if self.logit is None else "comparisons"
        lines = [f"{fewest} that would connect all components:"]
        lines += [f"  {comparison!s}" for comparison in self.missing[:SHOWN_COMPARISONS]]
        if len(self.missing) > SHOWN_COMPARISONS:
            lines.append(f"  and {len(self.missing) - SHOWN_COMPARISONS:,} more")
        return lines


def _whole_if(number: float) -> float:
    return int(number) if number == int(number) else number
