"""Logistic regressions whose columns have far offsets, mixed scales and tiny overlaps, against fractions.

Entries are exact floats. An answer that is certified must be right. It must also be there for one column, and
for columns of small whole numbers with offsets and units of their own, if there is an intercept.
"""

import numpy as np

import attomaton as at
from attomaton.base.errors import UncertifiedSolution
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.cones import ExactFace

OFFSETS = (0.0, 1.0, 1e3, 1e7, 1e8, 1.7e9, 1e12, 4e14, 1e15, 4e15)


def draw_offset(rng, unit: float) -> float:
    """An offset to which whole numbers of units are added without rounding."""
    offset = float(rng.choice(OFFSETS)) * float(rng.choice([-1, 1]))
    return float(np.round(offset / unit)) * unit


def draw_one(rng):
    """One column: two classes that overlap, or stand apart, by 10⁰ to 10⁻⁹ of the range."""
    size = int(rng.integers(1, 6))
    margin = float(rng.choice([-1, 0, 1])) * 10.0 ** float(rng.uniform(-9, 0))
    low, high = -rng.random(size), rng.random(int(rng.integers(1, 6)))
    values = np.concatenate([low, [0.0, margin], high])
    outcome = np.concatenate([np.zeros(len(low) + 1), np.ones(len(high) + 1)]).astype(int)
    unit = 2.0 ** float(rng.integers(-30, 31))
    offset = float(rng.choice(OFFSETS)) * float(rng.choice([-1, 1]))
    if np.spacing(abs(offset)) > 1e-10 * unit:  # the range is widened so that the offset leaves its digits
        unit = 2.0 ** np.ceil(np.log2(1e10 * np.spacing(abs(offset))))
    return (offset + unit * values)[:, None], outcome


def draw_several(rng):
    """Up to three columns of small whole numbers, each in a unit and with an offset of its own."""
    n_cases, width = int(rng.integers(4, 15)), int(rng.integers(1, 4))
    n_classes = int(rng.choice([2, 3], p=[0.8, 0.2]))
    whole = rng.integers(-3, 4, (n_cases, width)).astype(float)
    truth = 1.5 * rng.normal(size=(width, n_classes))
    outcome = np.argmax(whole @ truth + rng.gumbel(size=(n_cases, n_classes)), axis=1)
    outcome[:n_classes] = np.arange(n_classes)
    columns = []
    for column in whole.T:
        unit = 2.0 ** float(rng.integers(0, 21))
        columns.append(draw_offset(rng, unit) + unit * column)
    return np.stack(columns, axis=1), outcome


def exact_answer(matrix, outcome):
    """The kind of separation, and the class of each coefficient, in fractions."""
    n_classes = int(outcome.max()) + 1
    case = []
    for row, label in zip(matrix, outcome.tolist(), strict=True):
        blocks = [np.zeros((n_classes - 1, len(row))) for _ in range(n_classes)]
        for kind in range(1, n_classes):
            blocks[kind][kind - 1] = row
        case.append([(block.ravel(), int(kind == label)) for kind, block in enumerate(blocks)])
    face = ExactFace(case)
    kind = "none" if not any(face.dies) else "complete" if all(face.dies) else "quasi-complete"
    return kind, [face.classify(vector) for vector in np.eye(len(case[0][0][0]))]


def attack(rng) -> Finding:
    """One regression, with an intercept or without."""
    single = bool(rng.random() < 0.5)
    matrix, outcome = draw_one(rng) if single else draw_several(rng)
    intercept = bool(rng.random() < 0.85)
    separation, kinds = exact_answer(
        np.column_stack([np.ones(len(matrix)), matrix]) if intercept else matrix, outcome
    )
    kind = f"{'one column' if single else 'several columns'}{'' if intercept else ', no intercept'}"
    told = {"X": matrix.tolist(), "y": outcome.tolist(), "intercept": intercept}
    try:
        answer = at.check_separation(matrix, outcome, intercept=intercept)
        certified = answer.certified
    except UncertifiedSolution:
        answer, certified = None, False
    if answer is None or not certified:
        if not intercept:  # without one no column may be centred
            return unjudged("not certified", kind)
        return worst_of([("gave up", 1.0, 0.0)], len(matrix), told, kind=kind)
    checks = [
        ("existence", float(answer.exists != (separation == "none")), 0.0),
        ("kind of separation", float(answer.separation != separation), 0.0),
        ("class of a coefficient", float(list(answer.kinds.values()) != kinds), 0.0),
    ]
    return worst_of(checks, len(matrix), told, kind=kind)
