"""The type of each head, by a rule, with a control.

The attention of a head is divided into parts. The part of the sink is what the first token explains. The rest
of the explained and unexplained attention, beside the sink, is divided among previous token, position,
delimiters (with sentence starts), duplicate, induction (by one, two and three tokens), tokens (key tokens,
and pairs of query and token up to the ceiling), and context: what neither pairs nor induction explain. What a
rung explains because the head looks away from its positions is no part.

1. Induction or duplicate with at least ``FIFTH`` of the rest, or previous token with at least ``MUCH``, is
   the type, if it exceeds random heads; of several, the largest.
2. A head of which the sink explains at least ``SINK`` is a sink.
3. Otherwise the type is the largest of position (with the previous token), delimiter, token-specific and
   contextual, if it has at least ``HALF`` of the rest. If none has, it is mixed.
4. A head that has a type of ``TESTED`` by rule 2 or 3, but not significantly more of it than random heads of
   its layer, is like random weights.
5. A contextual or mixed head, or one like random weights, that seeks the next token is next-token seeking.

Random heads get their shares in the same way as the heads of the model. A test compares arcsin √share with
theirs, and the false discovery rate over all heads is at most 5 %; heads that do not have the share count as
tests with p = 1. Without random heads there is no test, and the type says so.

A head that attends uniformly is uniform: nothing is to be explained. A head that attends to neither the
window nor the first token in at least ``OUTSIDE`` of the rows is outside the window.

In text that repeats itself, the token after an earlier occurrence is often the next token: a head that seeks
the next token gets part of its share from induction there, and is called so if that part reaches ``FIFTH``.
Contextual, mixed and token-specific heads differ in degree: near ``HALF`` the type depends on the documents.
A type that differs between the first and the second half of the documents says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import Estimates, NullDistribution, above_null
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.seeking import Seeking

FIFTH, MUCH, HALF, SINK, OUTSIDE = 0.2, 0.4, 0.5, 0.9, 0.9
"""The shares of the rule."""

RUNGS = {
    "previous token": ("previous token",),
    "induction": ("induction", "induction by 2", "induction by 3"),
    "duplicate": ("duplicate",),
    "position": ("previous token", "position"),
    "delimiter": ("delimiters", "sentence start"),
    "token-specific": ("key token",),
}
"""Type → the rungs that make up its part."""

EARLY_TYPES = {"induction": FIFTH, "duplicate": FIFTH, "previous token": MUCH}
"""Types that come before larger parts → the share of the rest that they need."""

TESTED = ("sink", *RUNGS)
"""Types whose shares must exceed those of random heads."""

LIKE_RANDOM = "like random weights"

SPECIFIC = (*TESTED, "next-token seeking")
"""Types that claim that training made the head so."""

TYPES = (*SPECIFIC, "contextual", "mixed", LIKE_RANDOM, "uniform", "outside the window")
"""All types."""

EMPTY = 1e-9
"""A share of attention beside the sink up to which there is nothing beside it."""


@dataclass(frozen=True)
class HeadType:
    """The type of a head.

    Attributes
    ----------
    name : str
        One of ``TYPES``.
    share : float
        The type's part: of all attention for a sink or a uniform head, otherwise of the attention beside the
        sink. For next-token seeking it is the share that context has; for mixed heads the largest part; for a
        head like random weights the part of ``by_share``; for a head outside the window the share of rows.
    error, low, high : float
        The standard error of the share over documents, and the 95 % interval; NaN for uniform heads and those
        outside the window.
    z : float
        How far the share, or next-token seeking, exceeds random heads of the layer, in normal deviates; NaN
        where that is not tested.
    by_share : str
        The type by shares alone, before the comparison with random heads.
    halves : tuple of str
        ``by_share`` in the first and the second half of the scored documents.
    is_compared : bool
        Whether random heads were measured.

    Examples
    --------
    >>> print(HeadType("induction", 0.46, 0.02, 0.42, 0.50, 12.3, "induction"))
    induction: 46 % of the attention beside the sink, z +12.3 against random heads
    >>> print(HeadType("like random weights", 0.95, 0.01, 0.93, 0.97, 0.4, "token-specific"))
    like random weights: token-specific has 95 % of the attention beside the sink, but not significantly more
    than in random heads (z +0.4)
    """

    name: str
    share: float
    error: float
    low: float
    high: float
    z: float
    by_share: str
    halves: tuple[str, ...] = ()
    is_compared: bool = True

    @property
    def is_stable(self) -> bool:
        """Whether each half of the documents gives the type that all documents give."""
        return all(half == self.by_share for half in self.halves)

    def __str__(self) -> str:
        of = "attention" if self.by_share in ("sink", "uniform") else "the attention beside the sink"
        claims = {
            "next-token seeking": " context has",
            "mixed": " the largest part has",
            LIKE_RANDOM: f" {self.by_share} has",
        }
        text = f"{self.name}:{claims.get(self.name, '')} {100 * self.share:.0f} % of {of}"
        if self.name == "outside the window":
            text = (
                f"{self.name}: no attention to the window or to the first token in {100 * self.share:.0f} % "
                "of rows"
            )
        elif self.name == LIKE_RANDOM:
            text += f", but not significantly more than in random heads (z {self.z:+.1f})"
        elif self.name in SPECIFIC:
            text += (
                f", z {self.z:+.1f} against random heads"
                if self.is_compared
                else "; there are no random heads to compare with, so random weights may do the same"
            )
        if not self.is_stable:
            first, second = self.halves
            text += f"; by shares, {first} in the first half of the documents and {second} in the second"
        return text


def type_heads(
    ladder: Ladder, seeking: Seeking, ceiling: Ceiling, outside: Float64, null: Sequence[NullDistribution]
) -> tuple[HeadType, ...]:
    """The type of every head, by the rule of this module.

    ``outside`` is the share of each head's rows outside; ``null`` has the distribution of each type of
    ``TESTED`` among random heads, or nothing.
    """
    share_of = divide_into_types(ladder, ceiling)
    n = len(ladder.heads)
    apart = dict.fromkeys(np.flatnonzero(outside >= OUTSIDE).tolist(), "outside the window")
    measured = np.array([estimates.value for estimates in (*ladder.explained, ceiling.pairs)])
    apart = dict.fromkeys(np.flatnonzero(~measured.any(0)).tolist(), "uniform") | apart
    z = {
        name: distribution.z(ladder.heads, stretch(share_of[name]))
        if len(distribution.layers)
        else np.full(n, np.nan)
        for name, distribution in zip(TESTED, null, strict=bool(null))
    }

    def name_heads(shares: Mapping[str, Float64], first: Bool) -> list[str]:
        return [
            apart.get(at)
            or name_head({name: float(share[at]) for name, share in shares.items()}, bool(first[at]))
            for at in range(n)
        ]

    def exceed(names: Sequence[str]) -> tuple[Float64, Bool]:
        """z of the types of heads, and which heads exceed random heads (all, if these were not measured)."""
        deviates = np.array([z[name][at] if name in z else np.nan for at, name in enumerate(names)])
        return deviates, above_null(np.nan_to_num(deviates, nan=-np.inf)) if null else np.ones(n, bool)

    values = {name: estimates.value for name, estimates in share_of.items()}
    names = name_heads(values, np.ones(n, bool))
    first = (
        np.array([name in EARLY_TYPES for name in names])
        & exceed([n if n in EARLY_TYPES else "" for n in names])[1]
    )
    names = name_heads(values, first)
    deviates, exceeds = exceed(names)
    half = np.arange(len(ladder.added[0].without)) < len(ladder.added[0].without) / 2
    halves = [
        name_heads(
            divide_shares(
                ladder, *(estimates.over(documents) for estimates in (*ladder.added, ceiling.pairs))
            ),
            first,
        )
        for documents in (half, ~half)
    ]
    types: list[HeadType] = []
    for at, name in enumerate(names):
        final = LIKE_RANDOM if name in TESTED and not exceeds[at] and not first[at] else name
        if final in ("contextual", "mixed", LIKE_RANDOM) and seeking.holds[at]:
            final = "next-token seeking"
        measured_type = {"next-token seeking": "contextual", "mixed": largest_part(values, at)}.get(
            final, name
        )
        share, error, low, high = (
            (
                float(getattr(share_of[measured_type], statistic)[at])
                for statistic in ("value", "error", "low", "high")
            )
            if measured_type in share_of
            else (float(outside[at]) if name == "outside the window" else 1.0, np.nan, np.nan, np.nan)
        )
        z_of = seeking.z[at] if final == "next-token seeking" else deviates[at]
        pair = (halves[0][at], halves[1][at])
        types.append(HeadType(final, share, error, low, high, float(z_of), name, pair, bool(null)))
    return tuple(types)


def name_head(shares: Mapping[str, float], first: bool) -> str:
    """The type by shares alone; the types of ``EARLY_TYPES`` only if ``first``."""
    reached = {name: shares[name] for name, least in EARLY_TYPES.items() if first and shares[name] >= least}
    if reached:
        return max(reached, key=lambda name: reached[name])
    if shares["sink"] >= SINK:
        return "sink"
    largest = max(GENERAL, key=lambda name: shares[name])
    return largest if shares[largest] >= HALF else "mixed"


GENERAL = ("position", "delimiter", "token-specific", "contextual")
"""Types of which the largest part counts."""


def largest_part(shares: Mapping[str, Float64], at: int) -> str:
    """The type of ``GENERAL`` with the largest part of one head."""
    return max(GENERAL, key=lambda name: shares[name][at])


def may_be_tokens(ladder: Ladder, ceiling: Ceiling) -> bool:
    """Whether a head may become token-specific, so that the ceilings of random heads are needed."""
    shares = divide_into_types(ladder, ceiling)
    return any(
        name_head({name: float(estimates.value[at]) for name, estimates in shares.items()}, first=False)
        == "token-specific"
        for at in range(len(ladder.heads))
    )


def divide_into_types(ladder: Ladder, ceiling: Ceiling | None) -> dict[str, Estimates]:
    """The parts of each head by type: the sink's of all, the others of what is beside the sink.

    Position includes the previous token; apart from that the parts beside the sink add up to one, unless the
    head looks away from what a rung points to, or the ceiling is lower than what its own rungs explain.
    Without a ceiling, tokens have only what the rung of key tokens explains.
    """
    added = ladder.added
    pairs = ladder.explained[-1] if ceiling is None else ceiling.pairs
    values = divide_shares(ladder, *(estimates.value for estimates in (*added, pairs)))
    without = divide_shares(ladder, *(estimates.without for estimates in (*added, pairs)))
    return {name: Estimates(values[name], without[name]) for name in values}


def divide_shares(ladder: Ladder, *shares: Float64) -> dict[str, Float64]:
    """The parts by type, from what each rung of the ladder adds and, last, from the ceiling."""
    *added, pairs = shares
    explained = sum(added, np.zeros_like(pairs))
    toward = np.where(ladder.scales < 0, 0.0, 1.0)  # a rung with a negative scale: the head looks away
    by_rung = {name: share * sign for name, share, sign in zip(ladder.names, added, toward, strict=True)}
    zero = np.zeros_like(pairs)
    sink = np.clip(by_rung.get("sink", zero), 0.0, 1.0)
    sums = {
        name: sum((by_rung[rung] for rung in rungs if rung in by_rung), zero) for name, rungs in RUNGS.items()
    }
    static = explained - sums["induction"]
    pairs = np.maximum(pairs, static)
    sums["token-specific"] = sums["token-specific"] + pairs - static
    sums["contextual"] = 1.0 - pairs - sums["induction"]
    outside_sink = 1.0 - sink
    return {"sink": sink} | {
        name: np.divide(
            sum_of_type, outside_sink, out=np.zeros_like(outside_sink), where=outside_sink > EMPTY
        )
        for name, sum_of_type in sums.items()
    }


def stretch(share: Estimates) -> Estimates:
    """arcsin √share: nearly normal for random heads, unlike shares, which end at 0 and 1."""
    value, without = (
        np.arcsin(np.sqrt(np.clip(values, 0.0, 1.0))) for values in (share.value, share.without)
    )
    return Estimates(value, without)


def distribute(
    ladders: Sequence[Ladder], ceilings: Sequence[Ceiling], *, shared: bool = False
) -> tuple[NullDistribution, ...]:
    """The distribution of each type of ``TESTED`` among random heads, from their ladders and ceilings.

    Without ceilings, that of token-specific heads is empty.
    """
    shares = [
        (ladder.heads, divide_into_types(ladder, ceilings[at] if ceilings else None))
        for at, ladder in enumerate(ladders)
    ]
    nulls = {
        name: NullDistribution.of(
            [(heads, stretch(shares_by_type[name])) for heads, shares_by_type in shares], shared=shared
        )
        for name in TESTED
    }
    if not ceilings:
        nulls["token-specific"] = NullDistribution(np.empty(0, np.int64), np.empty(0), np.empty(0))
    return tuple(nulls[name] for name in TESTED)
