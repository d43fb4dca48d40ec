"""Describe which parameters the comparisons cannot tell apart, by the null vectors of all differences."""

from collections.abc import Sequence

import numpy as np

from attomaton.base.printing import list_words
from attomaton.base.tables import Float64
from attomaton.choices.logit.contrasts import add_up
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span

SHOWN_NAMES = 8  # names of a group that a sentence lists
ROUNDING = 1e-8  # entries of the echelon form below this are rounding errors


def sparse_null_vectors(basis: Float64, scale: Float64) -> Float64:
    """Vectors with few entries and the span of the columns of ``basis`` / ``scale``, one in each row."""
    # The reduced echelon form of the basis with the largest entries as pivots. Each vector is divided by its
    # most frequent absolute value, so that columns whose sum never varies have entries 1.
    rows = np.array(basis.T, np.float64)
    for number in range(len(rows)):
        remaining = np.abs(rows[number:])
        pivot_row, column = map(int, np.unravel_index(int(remaining.argmax()), remaining.shape))
        rows[[number, number + pivot_row]] = rows[[number + pivot_row, number]]
        rows[number] /= rows[number, column]
        outside = np.arange(len(rows)) != number
        rows[outside] -= np.outer(rows[outside, column], rows[number])
    rows = _round_digits(np.where(np.abs(rows) < ROUNDING, 0.0, rows) / scale)
    for row in rows:
        sizes, counts = np.unique(np.abs(row[row != 0]), return_counts=True)
        row /= sizes[counts.argmax()] * (1.0 if (row > 0).sum() >= (row < 0).sum() else -1.0)
    return _round_digits(rows)


def _round_digits(values: Float64) -> Float64:
    mantissa, exponent = np.frexp(values)
    power: Float64 = 10.0 ** np.floor(exponent * np.log10(2.0))
    digits: Float64 = np.round(mantissa * (2.0**exponent / power), 8)
    return digits * power


def null_vectors(problem: ChoiceProblem, identified: Span) -> Float64:
    """Vectors with few entries that change no difference, over the columns as given, one in each row."""
    vectors = sparse_null_vectors(identified.complement, problem.scale)
    return problem.centring.parameters(vectors.T).T


def describe_aliases(vectors: Float64, names: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each null vector, and one for all groups of columns with identified differences only."""
    groups, sentences = list[str](), list[str]()
    for row in vectors:
        members = np.flatnonzero(row)
        if len(members) == 1:
            sentences.append(f"{names[members[0]]} never differs between the alternatives of a comparison")
        elif (row[members] == 1).all():
            more = f", … {len(members) - SHOWN_NAMES} more" if len(members) > SHOWN_NAMES else ""
            shown = [names[int(k)] for k in members[:SHOWN_NAMES]]
            groups.append("{" + ", ".join(shown) + more + "}")
        else:
            equation = relate(row, names)
            sentences.append(f"{equation} in all comparisons, up to a constant for all alternatives")
    if groups:
        sentences.insert(0, f"only differences inside {list_words(groups)} are identified")
    return tuple(sentences)


def relate(row: Float64, names: Sequence[str]) -> str:
    """A null vector with two or more entries as an equation of columns, such as "length = a + b"."""
    members = np.flatnonzero(row).tolist()
    lead = next((k for k in reversed(members) if abs(row[k]) == 1), members[-1])
    return f"{names[lead]} = {add_up({names[k]: -row[k] / row[lead] for k in members if k != lead})}"
