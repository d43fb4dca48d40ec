"""Choice models with features against fractions: which pairs die, ranks, contrasts, certificates, the fit.

Eight kinds of small cases whose rows are integers or halves, and a ninth with a gap or an overlap of 10⁻³ to
10⁻¹², in which nothing certified may be wrong.
"""

from functools import partial
from unittest.mock import patch

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.choices.logit import ChoiceProblem, LogitState, fit as logit_fit, fit_logit
from attomaton.choices.logit.certificate import certify
from attomaton.choices.logit.face import find_face
from attomaton.choices.logit.spans import span_of
from tests.adversary.finding import Finding, unjudged, worst_of
from tests.adversary.reference.cones import ExactFace

KINDS = (
    "Bradley-Terry",
    "Plackett-Luce",
    "Davidson",
    "position and style",
    "best-worst",
    "binary logit",
    "general",
    "counts and copies",
)


def draw_case(rng, kind: str):
    """Situations as lists of (row, count)."""
    n_items = int(rng.integers(2, 6))
    eye = np.eye(n_items + 3)

    def decide(rows, chosen, count=1):
        return [(row, count if k == chosen else 0) for k, row in enumerate(rows)]

    def two():
        return rng.choice(n_items, 2, replace=False).tolist()

    case = []
    if kind == "Bradley-Terry":
        for _ in range(rng.integers(1, 9)):
            a, b = two()
            case.append(decide([eye[a, :n_items], eye[b, :n_items]], 0, int(rng.integers(1, 4))))
    elif kind == "Plackett-Luce":
        for _ in range(rng.integers(1, 4)):
            order = rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist()
            case += [decide([eye[a, :n_items] for a in order[k:]], 0) for k in range(len(order) - 1)]
    elif kind == "Davidson":
        size, tie = n_items + 1, eye[n_items]
        for _ in range(rng.integers(1, 10)):
            a, b = two()
            rows = [eye[a], eye[b], (eye[a] + eye[b]) / 2 + tie]
            outcome = int(rng.choice(3, p=[0.5, 0.25, 0.25]))
            case.append(decide([row[:size] for row in rows], outcome, int(rng.integers(1, 3))))
    elif kind == "position and style":
        size, first, style = n_items + 2, eye[n_items], eye[n_items + 1]
        for _ in range(rng.integers(2, 12)):
            a, b = two()
            rows = [eye[a] + first + rng.integers(-2, 3) * style, eye[b] + rng.integers(-2, 3) * style]
            case.append(decide([row[:size] for row in rows], int(rng.random() < 0.4)))
    elif kind == "best-worst":
        n_items = max(3, min(n_items, 4))
        for _ in range(rng.integers(1, 6)):
            some = rng.choice(n_items, rng.integers(2, n_items + 1), replace=False).tolist()
            rows = [(eye[a] - eye[b])[:n_items] for a in some for b in some if a != b]
            case.append(decide(rows, int(rng.integers(len(rows)))))
    elif kind == "binary logit":
        size = int(rng.integers(2, 5))
        truth = 1.5 * rng.normal(size=size)
        for _ in range(rng.integers(3, 14)):
            row = np.concatenate([[1.0], rng.integers(-2, 3, size - 1)])
            case.append(decide([row, 0 * row], int(rng.random() > 1 / (1 + np.exp(-row @ truth)))))
    elif kind == "general":
        size = int(rng.integers(1, 5))
        truth = 2 * rng.normal(size=size)
        for _ in range(rng.integers(1, 10)):
            rows = rng.integers(-2, 3, (rng.integers(1, 5), size)).astype(float)
            case.append(decide(list(rows), int(np.argmax(rows @ truth + rng.gumbel(size=len(rows))))))
    else:
        size = int(rng.integers(2, 5))
        truth = 2 * rng.normal(size=size)
        for _ in range(rng.integers(1, 7)):
            rows = rng.integers(-1, 2, (rng.integers(2, 5), size)).astype(float)
            if rng.random() < 0.9:
                rows[:, -1] = rows[:, 0]
            odds = np.exp(rows @ truth)
            counts = rng.multinomial(rng.integers(0, 4), odds / odds.sum())
            case.append([(row, int(count)) for row, count in zip(rows, counts, strict=True)])
    return case


def problem_of(case, sparse=False):
    """The case as the library takes it."""
    matrix = np.array([row for rows in case for row, _ in rows])
    if sparse:
        from scipy.sparse import csr_array

        matrix = csr_array(matrix)
    counts = [count for rows in case for _, count in rows]
    return ChoiceProblem.from_rows(matrix, [len(rows) for rows in case], counts)


def judge(case, rng, *, guess=None, contrasts=4):
    """Checks of a fit against fractions; None where it is not certified."""
    problem, exact = problem_of(case), ExactFace(case)
    if not exact.pairs:
        return []
    with patch.object(logit_fit, "find_face", partial(find_face, guess=guess)):
        fit = fit_logit(problem)
    if fit.state is not LogitState.CERTIFIED:
        return None
    size = problem.rows.n_parameters
    starts = np.cumsum([0, *map(len, case)])
    rows = np.array([starts[i] + k for i, k in exact.pairs])
    dying = np.zeros(starts[-1], bool)
    dying[np.arange(starts[-1]) if problem.source_rows is None else problem.source_rows] = fit.dying
    checks = [
        ("pairs with another fate", float((dying[rows] != exact.dies).sum()), 0.0),
        ("rank of S", abs(float(fit.finite.rank - exact.rank)), 0.0),
        ("rank of R", abs(float(fit.identified.rank - exact.identified)), 0.0),
    ]
    names = problem.names
    vectors = [np.eye(size)[0], np.eye(size)[0] - np.eye(size)[-1], rng.integers(-1, 2, size).astype(float)]
    some = [np.array([float(x) for x in exact.differences[rng.integers(len(rows))]]) for _ in range(2)]
    for vector in [*vectors, sum(some)][:contrasts]:
        contrast = fit.contrast(dict(zip(names, vector, strict=True)))
        if not contrast.certified:
            continue
        wrong = contrast.kind.value != exact.classify(vector)
        checks.append((f"class of {vector.tolist()}", float(wrong), 0.0))
        if not wrong and np.isinf(contrast.value):
            checks.append(("no bound", float(contrast.bound is None), float(contrasts < 4)))
    again = certify(
        problem,
        fit.evidence,
        span_of(problem, ~fit.dying),
        span_of(problem, None),
        exact=fit.certificate.exact,
    )[0]
    checks.append(("certificate lost when recomputed", float(not again.certified), 0.0))
    chances = fit.probabilities
    score = problem.rows.gradient(problem.residuals(chances))
    checks.append(("score at the fit", float(np.abs(score).max(initial=0.0)), 1e-5))
    return checks


def attack(rng) -> Finding:
    """One case of one of the eight kinds."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    case = draw_case(rng, kind)
    checks = judge(case, rng, guess=[None, True, False][int(rng.integers(3))])
    if checks is None:
        return unjudged("not certified", kind)
    told = {"situations": [[(row.tolist(), count) for row, count in rows] for rows in case]}
    return worst_of(checks, len(case), told, kind=kind)


def draw_ladder(rng):
    """A binary logit, or a choice of three, whose classes are a tiny gap or overlap apart."""
    gap = float(rng.choice([-1, 1]) * 10.0 ** -rng.integers(3, 13)) if rng.random() < 0.9 else 0.0
    low, high = np.sort(rng.integers(-4, 0, 3)), np.sort(rng.integers(1, 5, 3))
    shift = float(rng.integers(-2, 3)) if rng.random() < 0.5 else float(rng.normal())
    values = np.concatenate([low, [0.0, gap], high]) + shift
    side = np.concatenate([np.zeros(len(low) + 1), np.ones(len(high) + 1)]).astype(int)
    extra = rng.integers(0, 2, len(values)) if rng.random() < 0.3 else None
    case = []
    for k, value in enumerate(values):
        row = np.array([1.0, value] if extra is None else [1.0, value, extra[k]])
        case.append([(row, int(side[k])), (0 * row, int(1 - side[k]))])
    return case, gap


def attack_ladder(rng) -> Finding:
    """Nothing certified is wrong where a difference of 10⁻³ to 10⁻¹² decides."""
    case, gap = draw_ladder(rng)
    kind = "0" if gap == 0 else f"{'gap' if gap > 0 else 'overlap'} 1e{round(np.log10(abs(gap)))}"
    try:
        checks = judge(case, rng, contrasts=2)
    except UncertifiedSolution:
        checks = None
    if checks is None:
        return unjudged("not certified", kind)
    told = {"situations": [[(row.tolist(), count) for row, count in rows] for rows in case]}
    return worst_of(checks, len(case), told, kind=kind)
