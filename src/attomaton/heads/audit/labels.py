"""A plain label for each head, by a rule.

The attention of a head is divided into parts. The part of the sink is what the first token explains. The rest
of the explained and unexplained attention, beside the sink, is divided among previous token, position,
delimiters (with sentence starts), duplicate, induction (by one, two and three tokens), tokens (key tokens,
and pairs of query and token up to the ceiling), and context: what neither pairs nor induction explain.

1. Induction or duplicate with at least ``SOME`` of the rest, or previous token with at least ``MUCH``, is the
   label; if several are, the largest. They must also exceed random heads (a false discovery rate of 5 %),
   where these were measured.
2. A head of which the sink explains at least ``SINK`` is a sink.
3. Otherwise the label is the largest of position (with the previous token), delimiter, token-specific and
   contextual, if it has at least ``HALF`` of the rest. If none has, it is mixed.
4. A contextual or mixed head that seeks the label is label seeking.

A head that attends uniformly, so that nothing is to be explained, is uniform.

In text that repeats itself, the token after an earlier occurrence is often the label: a head that seeks the
label gets part of its share from induction there, and is called so where that part reaches ``SOME``.
Contextual, mixed and token-specific heads differ in degree: near ``HALF`` the label depends on the documents.
"""

from dataclasses import dataclass

import numpy as np

from attomaton.base.tables import Float64
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.seeking import Seeking

SOME, MUCH, HALF, SINK = 0.2, 0.4, 0.5, 0.9
"""The shares of the rule."""

RUNGS = {
    "previous token": ("previous token",),
    "induction": ("induction", "induction by 2", "induction by 3"),
    "duplicate": ("duplicate",),
    "position": ("previous token", "position"),
    "delimiter": ("delimiters", "sentence start"),
    "token-specific": ("key token",),
}
"""Label → the rungs that make up its part."""

SPECIFIC = {"induction": SOME, "duplicate": SOME, "previous token": MUCH}
"""Labels that come before larger parts → the share of the rest that they need."""

OUTSIDE = 0.9
"""The share of rows without attention on the window and the first token from which a head is outside."""

LABELS = ("sink", *RUNGS, "label seeking", "contextual", "mixed", "uniform", "outside the window")
"""All labels."""

EMPTY = 1e-9
"""A share of attention beside the sink up to which there is nothing beside it."""


@dataclass(frozen=True)
class HeadLabel:
    """The label of a head.

    Attributes
    ----------
    name : str
        One of ``LABELS``.
    share : float
        The label's part: of all attention for a sink or a uniform head, otherwise of the attention beside the
        sink. For label seeking it is the share that context has; for mixed heads the largest part.
    z : float
        How far the label's first rung, or label seeking, exceeds random heads; NaN where that says nothing.

    Examples
    --------
    >>> str(HeadLabel("induction", 0.46, 12.3))
    'induction: 46 % of the attention beside the sink, z +12.3'
    """

    name: str
    share: float
    z: float

    def __str__(self) -> str:
        of = "attention" if self.name in ("sink", "uniform") else "the attention beside the sink"
        what = {"label seeking": "label seeking: context has", "mixed": "mixed: the largest part has"}
        z = "" if np.isnan(self.z) else f", z {self.z:+.1f}"
        return f"{what.get(self.name, f'{self.name}:')} {100 * self.share:.0f} % of {of}{z}"


def label_heads(
    ladder: Ladder, seeking: Seeking, ceiling: Ceiling, outside: Float64
) -> tuple[HeadLabel, ...]:
    """The label of every head, by the rule of this module; ``outside`` is the share of its rows outside."""
    parts, z, holds, seeks = divide(ladder, ceiling), ladder.z, ladder.holds, seeking.holds
    labels: list[HeadLabel] = []
    for at in range(len(ladder.heads)):
        own = {name: float(part[at]) for name, part in parts.items()}
        passed = {
            name: own[name]
            for name, least in SPECIFIC.items()
            if own.get(name, 0.0) >= least
            and (not ladder.null or any(holds[number, at] for number in _numbers(ladder, name)))
        }
        general = {name: share for name, share in own.items() if name not in (*SPECIFIC, "sink")}
        largest = max(general, key=lambda name: general[name])
        if outside[at] >= OUTSIDE:
            name = "outside the window"
        elif not any(one.value[at] for one in (*ladder.explained, ceiling.pairs)):
            name = "uniform"
        elif passed:
            name = max(passed, key=lambda one: passed[one])
        elif own["sink"] >= SINK:
            name = "sink"
        else:
            name = largest if general[largest] >= HALF else "mixed"
            name = "label seeking" if name in ("contextual", "mixed") and seeks[at] else name
        other = {
            "outside the window": float(outside[at]),
            "label seeking": own["contextual"],
            "mixed": general[largest],
            "uniform": 1.0,
        }
        share = other.get(name, own.get(name, 0.0))
        rungs = ("sink",) if name == "sink" else RUNGS.get(name, ())
        numbers = [ladder.names.index(rung) for rung in rungs if rung in ladder.names]
        deviate = (
            seeking.z[at] if name == "label seeking" else max((z[one, at] for one in numbers), default=np.nan)
        )
        labels.append(HeadLabel(name, share, float(deviate)))
    return tuple(labels)


def divide(ladder: Ladder, ceiling: Ceiling) -> dict[str, Float64]:
    """The parts of each head by name: the sink's of all, the others of what is beside the sink.

    Position includes the previous token; apart from that the parts beside the sink add up to one, unless the
    ceiling is lower than what its own rungs explain.
    """
    added = {name: one.value for name, one in zip(ladder.names, ladder.added, strict=True)}
    zero = np.zeros(len(ladder.heads))
    sink = np.clip(added.get("sink", zero), 0.0, 1.0)
    sums = {
        name: sum((added[rung] for rung in rungs if rung in added), zero) for name, rungs in RUNGS.items()
    }
    static = ladder.explained[-1].value - sums["induction"]
    pairs = np.maximum(ceiling.pairs.value, static)
    sums["token-specific"] = sums["token-specific"] + pairs - static
    sums["contextual"] = 1.0 - pairs - sums["induction"]
    beside = 1.0 - sink
    return {"sink": sink} | {
        name: np.divide(part, beside, out=np.zeros_like(beside), where=beside > EMPTY)
        for name, part in sums.items()
    }


def _numbers(ladder: Ladder, label: str) -> list[int]:
    """The places of a label's rungs in the ladder."""
    return [ladder.names.index(rung) for rung in RUNGS[label] if rung in ladder.names]
