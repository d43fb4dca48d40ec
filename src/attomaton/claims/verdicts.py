"""Represent the verdict on a claim: whether it holds, by which number, or why it does not apply."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any, Generic, TypeVar

import pyarrow as pa

from attomaton.base.drawing import HOUSE_GREY, TWO_COLUMNS, house_axes
from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.printing import GREEN, ORANGE, Block, Grid, Signal, count_noun
from attomaton.base.tables import make_table

# Height in inches of the row of one verdict in a plot, and of everything else.
VERDICT_HEIGHT, REMAINING_HEIGHT = 0.17, 0.6

# Ratios of value and bound are drawn up to this, and down to one over it.
LARGEST_RATIO = 10.0

# Marker and colour of judged claims: either alone tells them apart.
MARKS = {"holds": ("o", GREEN), "fails": ("X", ORANGE)}

# The evidence for a claim: each theory has its own type.
AnyEvidence = TypeVar("AnyEvidence")


class VerdictStatus(Enum):
    """Whether a claim holds, fails, needs a longer run, or does not apply.

    Examples
    --------
    >>> VerdictStatus.TOO_EARLY.words
    'too early'
    """

    HOLDS = "holds"
    FAILS = "fails"
    TOO_EARLY = "too_early"
    NOT_APPLICABLE = "not_applicable"

    @property
    def words(self) -> str:
        """The status in words, such as "too early"."""
        return self.value.replace("_", " ")

    @property
    def good(self) -> bool | None:
        """True if the claim holds, False if it fails, and None if it was not judged."""
        return {"holds": True, "fails": False}.get(self.value)


_TEXT, _REAL, _COUNT = pa.string(), pa.float64(), pa.int64()
VERDICT_SCHEMA = pa.schema(
    {"claim": _TEXT, "status": _TEXT, "value": _REAL, "bound": _REAL, "reason": _TEXT, "more_steps": _COUNT}
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes
    ----------
    claim : str
        The name of the claim.
    status : VerdictStatus
        Whether the claim holds: ``too_early`` means that only a longer run can be judged, ``not_applicable``
        that an assumption is not met.
    value, bound : float or None
        The measured value of the worst trial and the bound for this value; both are None if not applicable. A
        verdict of ``too_early`` has no bound.
    reason : str
        What the numbers mean, or why the claim was not judged.
    more_steps : int or None
        About how many more steps are needed if it is too early; None if this is unknown.

    Examples
    --------
    >>> print(Verdict("direction", VerdictStatus.HOLDS, 0.993, 0.99, "correlation of W with W_svm"))
    direction: holds. 0.993 (bound 0.99): correlation of W with W_svm
    """

    claim: str
    status: VerdictStatus
    value: float | None
    bound: float | None
    reason: str
    more_steps: int | None = None

    def __str__(self) -> str:
        return f"{self.claim}: {self.status.words}. {self.measured}"

    @property
    def measured(self) -> str:
        """The measured value, its bound and its meaning; only the reason if the claim was not judged."""
        return self.reason if self.bound is None else f"{self.numbers}: {self.reason}"

    @property
    def numbers(self) -> str:
        """The measured value and its bound in four digits; an empty text if nothing was measured."""
        return self.shown_value + f" (bound {self.shown_bound})" * (self.bound is not None)

    @property
    def shown_value(self) -> str:
        """The measured value in four digits; an empty text if there is none."""
        return "" if self.value is None else f"{self.value:.4g}"

    @property
    def shown_bound(self) -> str:
        """The bound in four digits; an empty text if there is none."""
        return "" if self.bound is None else f"{self.bound:.4g}"

    @property
    def fails(self) -> bool:
        """Whether the claim was judged and fails."""
        return self.status is VerdictStatus.FAILS

    @property
    def ratio(self) -> float | None:
        """The value divided by the bound, limited to 0.1 … 10 for the plot; None if it is not positive."""
        if self.value is None or not self.bound or not (isfinite(self.value) and isfinite(self.bound)):
            return None
        ratio = self.value / self.bound
        return min(max(ratio, 1 / LARGEST_RATIO), LARGEST_RATIO) if ratio > 0 else None


class Verdicts(Tabular, list[Verdict]):
    """A list of verdicts that prints as a table."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of claims with each status."""
        return {status.value: sum(verdict.status is status for verdict in self) for status in VerdictStatus}

    @property
    def summary(self) -> str:
        """A line with the number of claims that hold, that fail and that were not judged."""
        if not self:
            return "no claims"
        holds, fails, early, outside = self.counts.values()
        judged = [count_noun(holds, "holds", "hold")] if holds or not fails else []
        judged += [count_noun(fails, "fails", "fail")] if fails else []
        if not early + outside:
            return ", ".join(judged)
        why = [count_noun(early, "needs more steps", "need more steps")] if early else []
        why += [count_noun(outside, "does not apply here", "do not apply here")] if outside else []
        return f"{', '.join(judged)}, {early + outside} not judged ({', '.join(why)})"

    def _table(self) -> pa.Table:
        names = ("claim", "value", "bound", "reason", "more_steps")
        columns = {name: [getattr(verdict, name) for verdict in self] for name in names}
        return make_table(VERDICT_SCHEMA, {**columns, "status": [verdict.status.value for verdict in self]})

    def _blocks(self) -> list[Block]:
        rows = [
            (verdict.claim, Signal(verdict.status.words, verdict.status.good), verdict.measured)
            for verdict in self
        ]
        headers = ["claim", "verdict", "measurement and bound"]
        good = False if self.counts["fails"] else True if self.counts["holds"] else None
        summary = Signal(self.summary, good)
        return [summary, Grid("Verdicts", headers, rows)] if rows else ["No claim was judged."]

    def plot(self, ax: Any = None) -> Any:
        """Draw the ratio of each claim's value to its bound; return the matplotlib axes."""
        n_rows = max(len(self), 1)
        with house_axes(
            ax, height=VERDICT_HEIGHT * n_rows + REMAINING_HEIGHT, width=0.75 * TWO_COLUMNS
        ) as axes:
            axes.axvline(1.0, color="black", linewidth=0.6)
            for row, verdict in enumerate(self):
                _draw_verdict(axes, row, verdict)
            axes.set_xscale("log")
            axes.set_xlim(0.8 / LARGEST_RATIO, 1.25 * LARGEST_RATIO)
            axes.set_xticks([0.1, 1, 10], ["a tenth", "the bound", "ten times"])
            axes.minorticks_off()
            axes.set_yticks(range(len(self)), [verdict.claim for verdict in self], parse_math=False)
            axes.set_ylim(n_rows - 0.5, -0.5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.set_title(self.summary, loc="left")
        return axes


def _draw_verdict(axes: Any, row: int, verdict: Verdict) -> None:
    # a line from the bound to the ratio of value and bound, and the numbers to the right of the axes
    mark, colour = MARKS.get(verdict.status.value, ("", HOUSE_GREY))
    ratio = verdict.ratio
    words = verdict.status.words
    if ratio is not None and mark:
        axes.plot([1.0, ratio], [row] * 2, color=colour, linewidth=0.8)
        axes.plot([ratio], [row], mark, color=colour, markersize=4, label=words)
    text = f"{words}: {verdict.numbers}" if verdict.numbers else words
    style = {"va": "center_baseline", "fontsize": "x-small", "parse_math": False}
    axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), color=colour, **style)


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a JSON record; numbers that are not finite become null."""
    numbers = (verdict.value, verdict.bound)
    value, bound = (None if number is None or not isfinite(number) else number for number in numbers)
    record = {"claim": verdict.claim, "status": verdict.status.value, "value": value, "bound": bound}
    return {**record, "reason": verdict.reason, "more_steps": verdict.more_steps}


@dataclass(frozen=True)
class Judgement:
    """A measured value, its bound, whether the claim holds, and the meaning of the numbers."""

    value: float
    bound: float
    enough: bool  # whether the claim holds
    meaning: str

    def about(self, claim: str) -> Verdict:
        status = VerdictStatus.HOLDS if self.enough else VerdictStatus.FAILS
        return Verdict(claim, status, self.value, self.bound, self.meaning)


@dataclass(frozen=True)
class Claim(Generic[AnyEvidence]):
    """A theorem with its assumptions, and how it is tested (:meth:`check`)."""

    name: str
    # each returns why the assumption is not met, or an empty text
    assumptions: tuple[Callable[[AnyEvidence], str], ...]
    # tests the evidence, whether or not the assumptions are met
    judge: Callable[[AnyEvidence], Judgement]
    # each returns why the run must be longer, or an empty text
    ready: tuple[Callable[[AnyEvidence], str], ...] = ()
    # estimates how many more steps the run needs until it is ready (the second argument), or says why not
    forecast: Callable[[AnyEvidence, Callable[[AnyEvidence], bool]], int | str] | None = None

    def check(self, evidence: AnyEvidence) -> Verdict:
        """Not applicable if an assumption is not met, too early if the run is short, otherwise as judged."""
        missing = _first_unmet(self.assumptions, evidence)
        if missing:
            return Verdict(self.name, VerdictStatus.NOT_APPLICABLE, None, None, missing)
        early = _first_unmet(self.ready, evidence)
        if not early:
            return self.judge_anyway(evidence)
        steps = "the number of further steps is unknown"
        if self.forecast is not None:
            steps = self.forecast(evidence, lambda longer: not _first_unmet(self.ready, longer))
        counted = isinstance(steps, int)
        reason = f"needs about {steps:,} more steps: {early}" if counted else f"{early}; {steps}"
        # the value so far, without a bound
        value = None
        with suppress(UnsupportedOption):  # a run may be too short even to measure
            judgement = self.judge(evidence)
            if isfinite(judgement.value):
                value = judgement.value
                reason += f"; measured: {value:.4g}, {judgement.meaning.partition(';')[0]}"
        return Verdict(self.name, VerdictStatus.TOO_EARLY, value, None, reason, steps if counted else None)

    def judge_anyway(self, evidence: AnyEvidence) -> Verdict:
        """Judge without checking the assumptions: a claim may then fail, and should be able to."""
        return self.judge(evidence).about(self.name)


def _first_unmet(needs: tuple[Callable[[AnyEvidence], str], ...], evidence: AnyEvidence) -> str:
    return next(filter(None, (need(evidence) for need in needs)), "")
