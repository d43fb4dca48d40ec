"""Judge the claims of "Mechanics of Next Token Prediction with Self-Attention", third term and margins."""

from collections.abc import Callable, Sequence

import numpy as np

import attomaton.claims.approach as approach
import attomaton.claims.third_term as third_term
from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import column
from attomaton.claims.approach import need_bound
from attomaton.claims.components import judge_components, need_readable
from attomaton.claims.computed_path import look_ahead
from attomaton.claims.convexity import judge_convexity, judge_strictness
from attomaton.claims.evidence import (
    Evidence,
    need_descent,
    need_digits,
    need_direction,
    need_independence,
    need_log_loss,
    need_mass_head,
    need_plain_descent,
    need_records,
    need_stable_step,
    need_start,
    need_steps,
    need_ties,
)
from attomaton.claims.limits import check_automata, solve_trials
from attomaton.claims.local import judge_local, judge_path, need_decided, need_path, need_slope
from attomaton.claims.margin_claims import MARGIN_CLAIMS
from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.graphs.components import find_ends
from attomaton.graphs.edges import extract_edges
from attomaton.solvers.hard.solve import Kind
from attomaton.training.trace import Trace

# The margin 1 of the Graph-SVM, up to the tolerance of solvers.
LEAST_MARGIN = 1 - 1e-6


def verify(automata: Automaton | Sequence[Automaton], trace: Trace) -> Verdicts:
    """Test a training run against every claim of the theory.

    Parameters
    ----------
    automata : Automaton or sequence of Automaton
        One automaton per trial (:func:`~attomaton.claims.limits.solve_trials`). If you give a
        single automaton, all trials must have its corpus; it is solved again with the embeddings of each
        trial.
    trace : Trace
        The training run.

    Returns
    -------
    Verdicts
        One verdict per claim, with the numbers of the worst trial.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> trace = at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=2000)
    >>> verify(at.learn(samples), trace).summary
    '13 hold, 3 not judged (3 do not apply here)'
    """
    if isinstance(automata, Automaton):
        for samples in {id(corpus): corpus for corpus in trace.samples}.values():
            if not extract_edges(samples).rows.equals(automata.components.edges.rows):
                raise MismatchedParts("the automaton was learned from other samples; use solve_trials(trace)")
        automata = solve_trials(trace)
    check_automata(trace, automata)
    evidence = Evidence(trace, tuple(automata))
    return Verdicts(claim.check(evidence) for claim in MECHANICS_CLAIMS)


def _need_priorities(evidence: Evidence) -> str:
    # trials count if their embeddings are independent
    orders = zip(evidence.automata, evidence.independent, strict=True)
    any_order = any(counts and automaton.components.order.num_rows for automaton, counts in orders)
    return "" if any_order else "no token precedes another, so the Graph-SVM has no constraints"


def judge_feasibility(evidence: Evidence) -> Judgement:
    """Claim: with independent embeddings, W_svm meets every priority with a margin of 1."""
    least = np.inf
    for automaton, counts in zip(evidence.automata, evidence.independent, strict=True):
        if counts:
            above, below = find_ends(automaton.components)
            scores = column(automaton.hard.scores, "score")
            met = automaton.hard.kind is Kind.EVERY_PRIORITY
            least = min(least, float((scores[above] - scores[below]).min(initial=np.inf)) if met else 0.0)
    return Judgement(least, LEAST_MARGIN, least >= LEAST_MARGIN, "smallest margin of any priority")


# The assumptions of the claims, by what the claims are about.
_CONVEX = (need_log_loss, need_mass_head)
_RUN = (need_log_loss, need_mass_head, need_descent, need_start, need_stable_step, need_digits)
_GLOBAL = (*_RUN, need_direction, need_records, approach.need_known_path)
_FINITE = (*_RUN, need_ties, need_records, approach.need_known_path, approach.need_short_steps)
_LOCAL = (need_descent, need_slope, need_start, need_stable_step, need_digits, need_records)
_COMPONENTS = (*_RUN, need_independence, need_records, approach.need_known_path)
_PLAIN = (need_plain_descent, *_RUN, need_direction)
_EXPANDED = (*_PLAIN, need_records, third_term.need_data_alone)
_FORWARD = (*_PLAIN, third_term.need_steady_head, third_term.need_followed)
_LATE = (third_term.need_late_records,)


# A claim about a limit, judged once the run is near.
def _limit(
    name: str,
    assumptions: tuple[Callable[[Evidence], str], ...],
    judge: Callable[[Evidence], Judgement],
    near: Callable[[Evidence], str],
) -> Claim[Evidence]:
    return Claim(name, assumptions, judge, (need_steps, near), look_ahead)


MECHANICS_CLAIMS = (
    Claim("feasible", (need_independence, _need_priorities), judge_feasibility),
    Claim("convex", _CONVEX, judge_convexity),
    Claim("strictly convex inside", (*_CONVEX, need_ties), judge_strictness),
    _limit("norm grows", _GLOBAL, approach.judge_norm, need_bound(approach.bound_growth)),
    _limit("direction", _GLOBAL, approach.judge_direction, need_bound(approach.bound_direction)),
    _limit("finite part", _FINITE, approach.judge_finite, need_bound(approach.bound_finite)),
    Claim("regularisation path", (need_mass_head, need_direction, need_path), judge_path),
    _limit("hard retrieval", _GLOBAL, approach.judge_retrieval, need_bound(approach.bound_missed)),
    _limit("soft composition", _FINITE, approach.judge_composition, need_bound(approach.bound_finite)),
    _limit("components", _COMPONENTS, judge_components, need_readable),
    _limit("local direction", _LOCAL, judge_local, need_decided),
    _limit("third term", _EXPANDED, third_term.judge_third_term, third_term.need_prediction),
    Claim("fast-forward", _FORWARD, third_term.judge_fast_forward, _LATE, third_term.count_to_late),
    *MARGIN_CLAIMS,
)
