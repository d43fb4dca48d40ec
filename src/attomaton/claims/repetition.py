"""Claims about a layer that reads its own output, judged on sampled texts.

Shares approach their limit like a power of the length that is often small, so a text of ten million tokens
may be far from its limit. So the flow towards the limit is judged, and the limit itself if the flow predicts
that a text is near it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.automaton.repetition.limits import Limit, find_limit
from attomaton.automaton.repetition.loops import Loops
from attomaton.automaton.repetition.odds import TextCounts, count_places
from attomaton.automaton.repetition.winners import Winners
from attomaton.base.tables import Bool, Float64
from attomaton.claims.verdicts import Claim, Judgement, Verdict, Verdicts, VerdictStatus

LONG = 100
"""Tokens of the prompt per distinct token, from which random draws move shares little."""

NEAR = 0.05
"""How far shares, slopes and exponents may be from the prediction."""

SLOW = 0.1
"""Exponents below this are not judged: such tokens hardly occur."""

ARRIVED = 0.02
"""How near the flow's own slopes must be to the exponents for a text to be near its limit."""


@dataclass(frozen=True, eq=False)
class RepetitionEvidence:
    """The prediction for a layer, and the texts it generated."""

    found: Winners
    counts: TextCounts

    @property
    def first(self) -> int:
        """The length from which slopes are measured: the first that was counted."""
        return int(self.counts.lengths[0])

    @cached_property
    def expected(self) -> Float64:
        """The flow's slopes over the same range, shape (K,)."""
        return self.found.slopes_between(self.first, int(self.counts.lengths[-1]))

    @cached_property
    def judged(self) -> Bool:
        """Which tokens fade and occur often enough, shape (K,)."""
        return ~self.found.first.winners & (self.found.exponents >= SLOW)


def verify_repetition(found: Winners, counts: TextCounts) -> Verdicts:
    """Test sampled texts against the prediction for the layer that wrote them.

    Parameters
    ----------
    found : Winners
        The prediction, from a layer and a prompt.
    counts : TextCounts
        Counts of that layer's texts after that prompt; slopes are measured from the first length to the last.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.automaton.repetition.odds import draw_counts
    >>> layer, prompt = [[0.2, 0.8], [0.2, 0.8]], [0] * 200 + [1] * 20_000
    >>> counts = draw_counts(layer, prompt, lengths=[20_200, 200_000], runs=4)
    >>> for verdict in verify_repetition(at.winners(layer, prompt), counts):
    ...     print(verdict.claim, verdict.status.value)
    repetition-shares holds
    repetition-winners holds
    repetition-slopes holds
    repetition-exponents holds
    """
    evidence = RepetitionEvidence(found, counts)
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def verify_loops(found: Loops, texts: Sequence[Sequence[int]]) -> Verdict:
    """Whether texts written by a layer with a window, as token ids, repeat one of the predicted loops.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.automaton.repetition.loops import find_loops
    >>> auto = at.learn(["a b c a b c a", "b c a b c a b"])
    >>> text = auto.generate("a b c a", 30, window=3).tokens
    >>> verify_loops(find_loops(auto, "a b c a", window=3), [text]).status.value
    'holds'
    """
    ends = [_loop_of(list(text), found.window) for text in texts]
    settled = [loop for loop in ends if loop is not None]
    if not settled:
        missing = "no text has settled; a loop is visible after twice the window, so generate longer texts"
        return Verdict("repetition-loops", VerdictStatus.NOT_APPLICABLE, None, None, missing)
    right = sum(loop in found.loops for loop in settled) / len(settled)
    meaning = f"share of the {len(settled)} settled texts whose loop is one of those predicted"
    return Judgement(right, 1.0, right == 1.0, meaning).about("repetition-loops")


def _loop_of(text: list[int], window: int) -> tuple[int, ...] | None:
    """The loop that the last tokens repeat, lowest first; None if they do not repeat one."""
    last = text[-2 * window :]
    period = next((n for n in range(1, len(last)) if last[n:] == last[:-n]), len(last))
    loop = last[-period:]
    if len(last) < 2 * window or period > window or len(set(loop)) < period:
        return None
    lowest = loop.index(min(loop))
    return (*loop[lowest:], *loop[:lowest])


def continue_flow(found: Winners, counts: Float64) -> Limit | None:
    """The limit of the flow from these counts of all tokens, shape (K,).

    Examples
    --------
    >>> import attomaton as at
    >>> found = at.winners([[4.0, 1.0], [1.0, 4.0]])
    >>> continue_flow(found, np.array([10.0, 90.0])).shares.tolist()
    [0.0, 1.0]
    """
    return find_limit(found.odds.among(), counts / counts.sum())


def _need_one_class(evidence: RepetitionEvidence) -> str:
    n, size = evidence.found.n_classes, len(evidence.found.odds.tokens)
    if n > 1:
        return f"a text may end in any of {n} sets of tokens, and a random draw decides which"
    whole = (evidence.found.odds.among() > 0).any(axis=0).all() or size == 1
    return "" if whole else "some token can never be drawn again"


def _need_long_prompt(evidence: RepetitionEvidence) -> str:
    counts = count_places(evidence.found.prompt, len(evidence.found.odds.tokens))
    reason = (
        f"the rarest token occurs {counts.min():.0f} times in the prompt, below {LONG}: random draws move it"
    )
    return reason if counts.min() < LONG else ""


def _need_limit(evidence: RepetitionEvidence) -> str:
    if not evidence.found.settled:
        return "the flow does not settle"
    return "" if evidence.found.first.certified else "the limit is not certified"


def _need_losers(evidence: RepetitionEvidence) -> str:
    return "" if evidence.judged.any() else f"no token that fades has an exponent of at least {SLOW}"


def _need_arrival(evidence: RepetitionEvidence) -> str:
    apart = np.abs(evidence.expected - evidence.found.exponents)[evidence.judged].max()
    reason = f"the flow's own slopes are up to {apart:.2f} from the exponents: texts are far from the limit"
    return reason if apart > ARRIVED else ""


def _judge_shares(evidence: RepetitionEvidence) -> Judgement:
    last = int(evidence.counts.lengths[-1])
    apart = float(np.abs(evidence.counts.shares[-1] - evidence.found.shares_at([last])[0]).max())
    return Judgement(apart, NEAR, apart <= NEAR, f"largest error of a share at the length {last:,}")


def _judge_winners(evidence: RepetitionEvidence) -> Judgement:
    """Beyond the last length, random draws move shares by less than 1/1000, so only the flow matters."""
    ends = [continue_flow(evidence.found, count[-1]) for count in evidence.counts.counts]
    mine = evidence.found.first.winners
    right = float(np.mean([end is not None and np.array_equal(end.winners, mine) for end in ends]))
    meaning = "share of the texts whose counts lead to the predicted winners"
    return Judgement(right, 1.0, right == 1.0, meaning)


def _judge_slopes(evidence: RepetitionEvidence) -> Judgement:
    slopes = evidence.counts.slopes(evidence.first)
    apart = float(np.abs(slopes - evidence.expected)[evidence.judged].max())
    meaning = f"largest error of d ln n / d ln t since the length {evidence.first:,}, of tokens that fade"
    return Judgement(apart, NEAR, apart <= NEAR, meaning)


def _judge_exponents(evidence: RepetitionEvidence) -> Judgement:
    slopes = evidence.counts.slopes(evidence.first)
    apart = float(np.abs(slopes - evidence.found.exponents)[evidence.judged].max())
    meaning = f"largest difference of ρ and d ln n / d ln t since the length {evidence.first:,}"
    return Judgement(apart, NEAR, apart <= NEAR, meaning)


_FLOW = (_need_one_class, _need_long_prompt)
_LIMIT = (*_FLOW, _need_limit)

CLAIMS: tuple[Claim[RepetitionEvidence], ...] = (
    Claim("repetition-shares", _FLOW, _judge_shares),
    Claim("repetition-winners", _LIMIT, _judge_winners),
    Claim("repetition-slopes", (*_LIMIT, _need_losers), _judge_slopes),
    Claim("repetition-exponents", (*_LIMIT, _need_losers, _need_arrival), _judge_exponents),
)
"""The flow towards the limit, and the limit for texts that are near it."""
