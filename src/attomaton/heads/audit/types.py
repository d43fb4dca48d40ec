"""The type of each head: rules on shares of its attention, and a test against random heads.

The first token gets the share of the *sink*: what its rung explains. The attention that remains is divided
among previous token, position, delimiters (with sentence starts), duplicate, induction (by one, two and three
tokens), tokens (the rung of key tokens, and pairs of query and token up to the ceiling), and context: what
neither pairs nor induction explain. What a rung explains because the head looks away does not count.

1. Induction or duplicate with at least 20 % of what remains, or previous token with at least 40 %, is the
   type if it exceeds random heads; of several, the largest.
2. A head whose sink has at least 90 % of all attention is a sink.
3. Otherwise the type is the largest of position (with the previous token), delimiter, token-specific and
   contextual, if it has at least half of what remains. If none has, the head is mixed.
4. A head that has a type of ``TESTED`` by rule 2 or 3, but not significantly more of it than random heads of
   its layer, is like random weights.
5. A contextual or mixed head, or one like random weights, that seeks the next token is next-token seeking.

:func:`type_heads` applies the rules. Random heads get their shares in the same way. A test compares
arcsin √share with theirs, and the false discovery rate over all heads is at most 5 %; heads that do not have
the share count as tests with p = 1. Two types are outside the rules: a head that attends uniformly is
uniform, and a head that attends to neither the window nor the first token in at least 90 % of the rows is
outside the window.

In text that repeats itself, a head that seeks the next token gets some of its share from induction, and is an
induction head from 20 % on. Near one half, a contextual, mixed or token-specific type depends on the
documents; a type that differs between the first and the second half of them says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Bool, Float64
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import Estimates, NullDistribution, above_null
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.seeking import Seeking

# Type → the rungs whose added shares make up its share.
RUNGS = {
    "previous token": ("previous token",),
    "induction": ("induction", "induction by 2", "induction by 3"),
    "duplicate": ("duplicate",),
    "position": ("previous token", "position"),
    "delimiter": ("delimiters", "sentence start"),
    "token-specific": ("key token",),
}

# Types of rule 1 → the smallest share that they need.
EARLY_TYPES = {"induction": 0.2, "duplicate": 0.2, "previous token": 0.4}

SINK_SHARE = 0.9  # the smallest share of a sink, by rule 2

GENERAL_TYPES = ("position", "delimiter", "token-specific", "contextual")  # those of rule 3

GENERAL_SHARE = 0.5  # the smallest share that types of rule 3 need

LIKE_RANDOM = "like random weights"

OUTSIDE = "outside the window"

OUTSIDE_SHARE = 0.9  # the smallest share of rows in which a head of the type ``OUTSIDE`` attends to no key

TESTED = ("sink", *RUNGS)  # types whose shares must exceed those of random heads

SEEKING_TYPE = "next-token seeking"

SPECIFIC = (*TESTED, SEEKING_TYPE)  # types that claim that training made the head so

TYPES = (*SPECIFIC, "contextual", "mixed", LIKE_RANDOM, "uniform", OUTSIDE)  # all types

EMPTY = 1e-9  # a share of attention up to which nothing remains beside the sink


@dataclass(frozen=True)
class HeadType:
    """The type of an attention head, with the numbers behind it.

    Attributes
    ----------
    name : str
        The type, one of ``TYPES``.
    share : float
        The share that gives the type: of all attention for sinks and uniform heads, of rows for heads outside
        the window, otherwise of the attention beside the sink. For next-token seeking it is the contextual
        share, for mixed heads the largest share, and for heads like random weights the share of ``by_share``.
    error, low, high : float
        The standard error of the share over documents and the ends of its 95 % interval; NaN for uniform
        heads and heads outside the window.
    z : float
        How far the share, or next-token seeking, exceeds random heads of the layer, in normal deviates; NaN
        if this is not tested.
    by_share : str
        The type before the comparison with random heads.
    halves : tuple of str
        The type by shares in the first and in the second half of the documents.
    is_compared : bool
        Whether random heads were measured.

    Examples
    --------
    >>> print(HeadType("induction", 0.46, 0.02, 0.42, 0.50, 12.3, "induction"))
    induction: 46 % of the attention beside the sink, z +12.3 against random heads
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
        """Whether both halves of the documents give the same type as all documents."""
        return all(half == self.by_share for half in self.halves)

    def __str__(self) -> str:
        percent = f"{100 * self.share:.0f} %"
        owner = {
            SEEKING_TYPE: " context has",
            "mixed": " the largest part has",
            LIKE_RANDOM: f" {self.by_share} has",
        }
        whole = "attention" if self.by_share in ("sink", "uniform") else "the attention beside the sink"
        text = f"{self.name}:{owner.get(self.name, '')} {percent} of {whole}"
        if self.name == OUTSIDE:
            text = f"{self.name}: no attention to the window or to the first token in {percent} of rows"
        elif self.name == LIKE_RANDOM:
            text += f", but not significantly more than in random heads (z {self.z:+.1f})"
        elif self.name in SPECIFIC and self.is_compared:
            text += f", z {self.z:+.1f} against random heads"
        elif self.name in SPECIFIC:
            text += "; there are no random heads to compare with, so random weights may do the same"
        if not self.is_stable:
            first, second = self.halves
            text += (
                f"; by shares alone, without random heads, {first} in the first half of the documents and "
                f"{second} in the second"
            )
        return text


def type_heads(
    ladder: Ladder, seeking: Seeking, ceiling: Ceiling, outside: Float64, null: Sequence[NullDistribution]
) -> tuple[HeadType, ...]:
    """The type of every head, by the rules of this module."""
    # outside (n_heads,): the share of rows in which the head attends to no key; null: of each type of TESTED,
    # or of none
    shares = divide_into_types(ladder, ceiling)
    values = {name: estimates.value for name, estimates in shares.items()}
    exempt = _find_exempt(ladder, ceiling, outside)
    z = {
        name: distribution.z(ladder.heads, stretch(shares[name]))
        for name, distribution in zip(TESTED, null, strict=bool(null))
        if len(distribution.layers)
    }
    # Rule 1: heads with the share of an early type, and then those that exceed random heads in it.
    candidates = _name_heads(values, np.ones(len(outside), bool), exempt)
    is_early = np.array([name in EARLY_TYPES for name in candidates])
    if null:
        is_early &= _exceeds(np.where(is_early, _deviates(candidates, z), np.nan))
    # Rules 2 and 3.
    by_share = _name_heads(values, is_early, exempt)
    # Rule 4.
    deviates = _deviates(by_share, z)
    is_random = np.array([name in TESTED for name in by_share]) & ~is_early
    is_random &= ~_exceeds(deviates) if null else False
    # Rule 5.
    names: list[str] = np.where(is_random, LIKE_RANDOM, by_share).tolist()
    for index in np.flatnonzero(seeking.holds).tolist():
        if names[index] in ("contextual", "mixed", LIKE_RANDOM):
            names[index] = SEEKING_TYPE
    numbers = _tabulate(shares, outside)
    halves = [_name_heads(half, is_early, exempt) for half in _divide_halves(ladder, ceiling)]
    types: list[HeadType] = []
    for index, (name, by_shares) in enumerate(zip(names, by_share, strict=True)):
        largest = max(GENERAL_TYPES, key=lambda general: values[general][index])
        measured = {SEEKING_TYPE: "contextual", "mixed": largest}.get(name, by_shares)
        share, error, low, high = numbers[measured][:, index].tolist()
        head_z = float(seeking.z[index] if name == SEEKING_TYPE else deviates[index])
        in_halves = tuple(half[index] for half in halves)
        types.append(HeadType(name, share, error, low, high, head_z, by_shares, in_halves, bool(null)))
    return tuple(types)


# Share, error, low and high (the rows) of each head, by type; NaN where there is no error.
def _tabulate(shares: Mapping[str, Estimates], outside: Float64) -> dict[str, Float64]:
    numbers = {
        name: np.array([estimates.value, estimates.error, estimates.low, estimates.high])
        for name, estimates in shares.items()
    }
    missing = np.full((3, len(outside)), np.nan)
    numbers["uniform"] = np.vstack([np.ones(len(outside)), missing])
    numbers[OUTSIDE] = np.vstack([outside, missing])
    return numbers


# The heads to which no rule applies, by index, with their type: uniform, or outside the window.
def _find_exempt(ladder: Ladder, ceiling: Ceiling, outside: Float64) -> dict[int, str]:
    explained = np.array([estimates.value for estimates in (*ladder.explained, ceiling.pairs)])
    uniform = dict.fromkeys(np.flatnonzero(~explained.any(0)).tolist(), "uniform")
    return uniform | dict.fromkeys(np.flatnonzero(outside >= OUTSIDE_SHARE).tolist(), OUTSIDE)


# The type of each head by rules 1 to 3; those of rule 1 only for heads that may have them.
def _name_heads(shares: Mapping[str, Float64], may_be_early: Bool, exempt: Mapping[int, str]) -> list[str]:
    return [
        exempt.get(index) or _name_by_share(shares, index, may_be_early=bool(early))
        for index, early in enumerate(may_be_early)
    ]


# The type of the head with this index; one of rule 1 only if ``may_be_early``.
def _name_by_share(shares: Mapping[str, Float64], index: int, *, may_be_early: bool) -> str:
    of_head = {name: float(share[index]) for name, share in shares.items()}
    early = [name for name, least in EARLY_TYPES.items() if may_be_early and of_head[name] >= least]
    if early:
        return max(early, key=of_head.__getitem__)
    if of_head["sink"] >= SINK_SHARE:
        return "sink"
    largest = max(GENERAL_TYPES, key=of_head.__getitem__)
    return largest if of_head[largest] >= GENERAL_SHARE else "mixed"


# z of the type of each head, shape (n_heads,); NaN where it is not tested.
def _deviates(names: Sequence[str], z: Mapping[str, Float64]) -> Float64:
    return np.array([z[name][index] if name in z else np.nan for index, name in enumerate(names)])


# Which heads exceed random heads; those whose type is not tested count as tests with p = 1.
def _exceeds(deviates: Float64) -> Bool:
    return above_null(np.nan_to_num(deviates, nan=-np.inf))


# The shares by type in the first half of the documents, and in the second.
def _divide_halves(ladder: Ladder, ceiling: Ceiling) -> list[dict[str, Float64]]:
    n_documents = len(ladder.added[0].without)
    is_first = np.arange(n_documents) < n_documents / 2
    halves, estimates = (is_first, ~is_first), (*ladder.added, ceiling.pairs)
    return [divide_shares(ladder, *(share.over(half) for share in estimates)) for half in halves]


def may_be_tokens(ladder: Ladder, ceiling: Ceiling) -> bool:
    """Whether a head may become token-specific, so that the ceilings of random heads are needed."""
    shares = {name: estimates.value for name, estimates in divide_into_types(ladder, ceiling).items()}
    indices = range(len(ladder.heads))
    return any(_name_by_share(shares, index, may_be_early=False) == "token-specific" for index in indices)


def divide_into_types(ladder: Ladder, ceiling: Ceiling | None) -> dict[str, Estimates]:
    """The share of each type in each head: the sink's of all attention, the others of what remains."""
    # Position includes the previous token. The other shares of what remains add up to one, unless the head
    # looks away from what a rung points to, or the ceiling is below the ladder.
    # Without a ceiling, the pairs explain what all rungs explain.
    pairs = ladder.explained[-1] if ceiling is None else ceiling.pairs
    values, without = (
        divide_shares(ladder, *(getattr(share, name) for share in (*ladder.added, pairs)))
        for name in ("value", "without")
    )
    return {name: Estimates(values[name], without[name]) for name in values}


def divide_shares(ladder: Ladder, *shares: Float64) -> dict[str, Float64]:
    """The shares by type, from what each rung of the ladder adds and, last, what the ceiling explains."""
    *added, pairs = shares
    zero = np.zeros_like(pairs)
    explained = sum(added, zero)
    toward = np.where(ladder.scales < 0, 0.0, 1.0)  # a rung with a negative scale: the head looks away
    by_rung = {name: share * sign for name, share, sign in zip(ladder.names, added, toward, strict=True)}
    sums = {
        name: sum((by_rung[rung] for rung in rungs if rung in by_rung), zero) for name, rungs in RUNGS.items()
    }
    # What the rungs explain except induction, which depends on earlier occurrences: pairs explain at least
    # this, and what they explain beyond it is token-specific.
    static = explained - sums["induction"]
    pairs = np.maximum(pairs, static)
    sums["token-specific"] = sums["token-specific"] + pairs - static
    sums["contextual"] = 1.0 - pairs - sums["induction"]
    sink = np.clip(by_rung.get("sink", zero), 0.0, 1.0)
    remaining = 1.0 - sink
    return {"sink": sink} | {
        name: np.divide(total, remaining, out=np.zeros_like(remaining), where=remaining > EMPTY)
        for name, total in sums.items()
    }


def stretch(share: Estimates) -> Estimates:
    """arcsin √share: nearly normal for random heads, unlike shares, which end at 0 and 1."""
    stretched = (np.arcsin(np.sqrt(np.clip(values, 0.0, 1.0))) for values in (share.value, share.without))
    return Estimates(*stretched)


def distribute(
    ladders: Sequence[Ladder], ceilings: Sequence[Ceiling], *, shared: bool = False
) -> tuple[NullDistribution, ...]:
    """The distribution of each type of ``TESTED`` among random heads; token-specific needs ceilings."""
    shares = [
        (ladder.heads, divide_into_types(ladder, ceiling))
        for ladder, ceiling in zip(ladders, ceilings or [None] * len(ladders), strict=True)
    ]

    def null_of(name: str) -> NullDistribution:
        if name == "token-specific" and not ceilings:
            return NullDistribution(np.empty(0, np.int64), np.empty(0), np.empty(0))
        measured = [(heads, stretch(shares_of_heads[name])) for heads, shares_of_heads in shares]
        return NullDistribution.of(measured, shared=shared)

    return tuple(map(null_of, TESTED))
