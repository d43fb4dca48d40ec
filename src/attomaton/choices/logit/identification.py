"""What no comparison can tell apart: the null vectors of all differences, by the names of columns."""

from collections.abc import Sequence

import numpy as np

from attomaton.base.printing import list_words
from attomaton.base.tables import Float64
from attomaton.choices.logit.contrasts import add_up
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span

SHOWN_NAMES = 8
"""Names of a group that a sentence lists."""


def sparse_null_vectors(basis: Float64, scale: Float64) -> Float64:
    """Vectors with few entries that span what the columns of ``basis`` / ``scale`` span, one in each row.

    The reduced echelon form of the basis with the largest entries as pivots; each vector is divided by its
    most frequent size, so that a group of columns that always add up to the same has entries 1.
    """
    rows = np.array(basis.T, np.float64)
    for number in range(len(rows)):
        free = np.abs(rows[number:])
        pivot = np.unravel_index(int(free.argmax()), free.shape)
        rows[[number, number + int(pivot[0])]] = rows[[number + int(pivot[0]), number]]
        column = int(pivot[1])
        rows[number] /= rows[number, column]
        remaining = np.arange(len(rows)) != number
        rows[remaining] -= np.outer(rows[remaining, column], rows[number])
    rows = _shorten(np.where(np.abs(rows) < 1e-8, 0.0, rows) / scale)
    for row in rows:
        sizes, often = np.unique(np.abs(row[row != 0]), return_counts=True)
        row /= sizes[often.argmax()] * (1.0 if (row > 0).sum() >= (row < 0).sum() else -1.0)
    return _shorten(rows)


def _shorten(values: Float64) -> Float64:
    """Numbers rounded to eight significant digits."""
    mantissa, exponent = np.frexp(values)
    power: Float64 = 10.0 ** np.floor(exponent * np.log10(2.0))
    digits: Float64 = np.round(mantissa * (2.0**exponent / power), 8)
    return digits * power


def null_vectors(problem: ChoiceProblem, identified: Span) -> Float64:
    """Vectors with few entries that change no difference, in the columns as given, one in each row."""
    vectors = sparse_null_vectors(identified.complement, problem.scale)
    return problem.centring.parameters(vectors.T).T


def describe_aliases(vectors: Float64, names: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each null vector; groups of columns of which only differences count share one."""
    groups, sentences = list[str](), list[str]()
    for row in vectors:
        members = np.flatnonzero(row)
        if len(members) == 1:
            sentences.append(f"{names[members[0]]} never differs between the alternatives of a comparison")
        elif (row[members] == 1).all():
            groups.append(_group([names[k] for k in members.tolist()]))
        else:
            shared = "in all comparisons, up to what the alternatives share"
            sentences.append(f"{relate(row, names)} {shared}")
    if groups:
        sentences.insert(0, f"only differences inside {list_words(groups)} are identified")
    return tuple(sentences)


def _group(names: Sequence[str]) -> str:
    more = f", … {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return "{" + ", ".join(names[:SHOWN_NAMES]) + more + "}"


def relate(row: Float64, names: Sequence[str]) -> str:
    """A null vector of two entries or more as an equation of columns, such as "length = a + b"."""
    members = np.flatnonzero(row).tolist()
    lead = next((k for k in reversed(members) if abs(row[k]) == 1), members[-1])
    return f"{names[lead]} = {add_up({names[k]: -row[k] / row[lead] for k in members if k != lead})}"
