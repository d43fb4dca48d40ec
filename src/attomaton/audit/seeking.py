"""Label seeking: whether a head looks at the token that comes next, more than it would by habit.

Of every row whose label stands in the window, the label's mass minus what the head gives to the same token
from the same query at the same lags on other documents, and the same of another token of the same context
whose frequency is nearest to the label's. Their difference is the excess; its error comes from drawing
documents.

No null is made by permuting tokens: such nulls call 20 to 50 % of random heads significant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from attomaton.audit.bootstrap import Estimates, Resampled, above_chance
from attomaton.audit.controls import Chance
from attomaton.audit.explanations import Counts
from attomaton.audit.habits import Habits
from attomaton.audit.rows import Rows
from attomaton.errors import InvalidSamples, MismatchedParts
from attomaton.frames import Tabular
from attomaton.heads.model import Head
from attomaton.printing import Block, Grid
from attomaton.tables import Bool, Float64, Int32, Int64, table_of


@dataclass(frozen=True, eq=False, repr=False)
class Seeking(Tabular):
    """How much each head looks at the label beyond its habits and beyond a matched token.

    Attributes
    ----------
    heads : tuple of Head
        The heads.
    mass : Estimates
        The attention on the label's places.
    over_profile : Estimates
        The same minus what the head's own position profile puts there.
    excess : Estimates
        The mass minus what the head gives by habit, minus the same of a token of like frequency: what the
        test is about.
    n_rows, n_documents : int
        How many rows have their label and a matched token in the window, and of how many documents.
    chance : Chance, optional
        The excess of random heads. With it ``z`` is held against them, otherwise against documents alone.

    Examples
    --------
    >>> from attomaton.audit.bootstrap import Estimates
    >>> one = Estimates(np.array([0.5]), np.array([[0.4], [0.5], [0.6]]))
    >>> seeking = Seeking((Head(0, 0),), one, one, one, 90, 9)
    >>> seeking, seeking.z.round(1).tolist(), seeking.holds.tolist()
    (Seeking(1 of 1 heads, 90 rows of 9 documents), [5.0], [True])
    >>> seeking.against([seeking]).z.tolist()
    [0.0]
    """

    heads: tuple[Head, ...]
    mass: Estimates
    over_profile: Estimates
    excess: Estimates
    n_rows: int
    n_documents: int
    chance: Chance | None = None

    def __repr__(self) -> str:
        return (
            f"Seeking({int(self.holds.sum())} of {len(self.heads)} heads, {self.n_rows:,} rows of "
            f"{self.n_documents:,} documents)"
        )

    def against(self, random: Sequence["Seeking"]) -> "Seeking":
        """The same, held against the excess of heads with random weights, measured on the same text."""
        return replace(self, chance=Chance.of([(one.heads, one.excess) for one in random]))

    @property
    def z(self) -> Float64:
        """The excess against chance, shape (n_heads,).

        With random heads: beyond their mean, by its own error and their spread. Without: by its error over
        documents, which many a random head passes too.
        """
        return self.excess.z if self.chance is None else self.chance.z(self.heads, self.excess)

    @property
    def holds(self) -> Bool:
        """Which heads seek the label, at most one in twenty of them wrongly, shape (n_heads,)."""
        return above_chance(self.z)

    def _table(self) -> pa.Table:
        return table_of(
            {
                "head": [str(head) for head in self.heads],
                "mass": self.mass.value,
                "over_profile": self.over_profile.value,
                "excess": self.excess.value,
                "low": self.excess.low,
                "high": self.excess.high,
                "z": self.z,
                "z_documents": self.excess.z,
                "holds": self.holds,
            }
        )

    def _blocks(self) -> list[Block]:
        order: list[int] = np.argsort(-self.z, kind="stable").tolist()
        rows = [
            (
                str(self.heads[at]),
                f"{self.mass.value[at]:.3f}",
                f"{self.over_profile.value[at]:+.3f}",
                f"{self.excess.value[at]:+.3f} [{self.excess.low[at]:+.3f}, {self.excess.high[at]:+.3f}]",
                f"{self.excess.z[at]:+.1f}",
                "–" if self.chance is None else f"{self.z[at]:+.1f}",
                "yes" if self.holds[at] else "no",
            )
            for at in order
        ]
        return [
            repr(self),
            Grid(
                "",
                [
                    "head",
                    "mass",
                    "over profile",
                    "excess",
                    "z over documents",
                    "z over random heads",
                    "seeks",
                ],
                rows,
            ),
        ]


def seek_labels(fitted: Rows, scored: Rows, counts: Counts, *, seed: int = 0) -> Seeking:
    """Measure label seeking of every head.

    Parameters
    ----------
    fitted : Rows
        Rows of other documents, which give each head its profile and its habits.
    scored : Rows
        The rows that are measured.
    counts : Counts
        Token frequencies, by which tokens are matched.
    seed : int
        What draws documents.

    Returns
    -------
    Seeking

    Examples
    --------
    >>> from attomaton.audit.rows import watch_rows
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    >>> model = from_arrays(rng.normal(size=(6, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))
    >>> rows = watch_rows(model, [rng.integers(0, 6, 30) for _ in range(24)], window=8)
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> seek_labels(fitted, scored, Counts.of([rows.labels], n_tokens=6)).n_documents
    12
    """
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts("the rows of the profile and those to score are of other heads or windows")
    matched = match_tokens(scored, counts)
    rows = scored.take(matched >= 0)
    if not len(rows):
        raise InvalidSamples(
            "no row has its label in the window beside another token; take a longer window or more rows"
        )
    label, other = rows.tokens == rows.labels[:, None], rows.tokens == matched[matched >= 0][:, None]
    habits, drawn = Habits.of(fitted), Resampled.over(rows.documents, seed=seed)
    mass, apart = _masses(rows, label), np.empty((len(rows), len(rows.heads)))
    for head in range(len(rows.heads)):
        beyond = rows.attention[:, head] - habits.expect(rows, head)
        apart[:, head] = (beyond * label).sum(1) - (beyond * other).sum(1)
    return Seeking(
        scored.heads,
        drawn.mean(mass),
        drawn.mean(mass - label @ habits.profile.T),
        drawn.mean(apart),
        len(rows),
        len(np.unique(rows.documents)),
    )


def _masses(rows: Rows, places: Bool) -> Float64:
    """The attention on some places of each row, shape (n_rows, n_heads)."""
    return np.einsum("nhw,nw->nh", rows.attention, places.astype(np.float32)).astype(np.float64)


def match_tokens(rows: Rows, counts: Counts) -> Int32:
    """For each row the token of the window that is nearest to the label in log frequency, shape (n_rows,).

    The label and the query are no candidates; of equals the lowest id is taken. −1 where the label is not in
    the window or nothing is left to match.

    Examples
    --------
    >>> from attomaton.heads.model import Head
    >>> one = np.ones((1, 1), np.float32)
    >>> tokens = np.array([[0, 1, 2, 3]])
    >>> rows = Rows((Head(0, 0),), np.full((1, 1, 4), 0.25, np.float32), one, one, tokens, tokens,
    ...             np.array([1]), np.array([0]), np.array([9]), 4)
    >>> match_tokens(rows, Counts.of([[0, 1, 1, 2, 3, 3]], n_tokens=4)).tolist()
    [3]
    """
    logs = np.log(counts.tokens + 0.5)
    apart = np.abs(logs[rows.tokens] - logs[rows.labels][:, None])
    barred = (rows.tokens == rows.labels[:, None]) | (rows.tokens == rows.queries[:, None])
    apart[barred] = np.inf
    least = apart.min(1)
    found = np.where(apart == least[:, None], rows.tokens, rows.n_tokens).min(1)
    present = (rows.tokens == rows.labels[:, None]).any(1) & np.isfinite(least)
    return np.where(present, found, -1).astype(np.int32)


def match_by_definition(rows: Rows, counts: Counts) -> Int64:
    """The same, row by row."""
    matched = list[int]()
    for tokens, label in zip(rows.tokens.tolist(), rows.labels.tolist(), strict=True):
        others = sorted(set(tokens) - {label, tokens[0]})
        if label not in tokens or not others:
            matched.append(-1)
            continue
        near = [abs(np.log(counts.tokens[one] + 0.5) - np.log(counts.tokens[label] + 0.5)) for one in others]
        matched.append(others[int(np.argmin(near))])
    return np.array(matched, np.int64)
