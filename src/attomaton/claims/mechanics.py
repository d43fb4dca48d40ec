"""The claims of "Mechanics of Next Token Prediction with Self-Attention", the third term and margins, judged.

A theorem speaks of the limit; a run ends. So each claim about a limit is held against a bound that is fixed
by the data, W(0) and the step size, or follows from the first half of the run (:mod:`attomaton.claims.way`).
A run that is too short for its bound to tell anything is not judged.
"""

from collections.abc import Callable, Sequence

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import column
from attomaton.claims.angles import judge_local, judge_path, need_decided, need_path
from attomaton.claims.approach import (
    judge_composition,
    judge_convexity,
    judge_direction,
    judge_finite,
    judge_norm,
    judge_retrieval,
    judge_strictness,
    need_few_dimensions,
    need_growth,
    need_near_direction,
    need_near_finite,
    need_near_retrieval,
    need_short_steps,
    need_way,
)
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
from attomaton.claims.forecast import (
    count_to_late,
    judge_fast_forward,
    judge_third_term,
    need_data_alone,
    need_followed,
    need_late_records,
    need_steady_head,
    need_told,
)
from attomaton.claims.measures import check_automata, solve_trials
from attomaton.claims.steepest import MARGIN_CLAIMS
from attomaton.claims.verdicts import Claim, Judgement, Verdicts
from attomaton.claims.way import look_ahead
from attomaton.graphs.components import find_ends
from attomaton.graphs.edges import extract_edges
from attomaton.solvers.hard.solve import Kind
from attomaton.training.trace import Trace


def verify(automata: Automaton | Sequence[Automaton], trace: Trace) -> Verdicts:
    """Hold a training run against every claim of the theory.

    Parameters
    ----------
    automata : Automaton or sequence of Automaton
        What the samples of the trials say (:func:`~attomaton.claims.measures.solve_trials`), one for each.
        A single automaton must be of the corpus that all trials were trained on; it is solved again with the
        embeddings of each.
    trace : Trace
        The run.

    Returns
    -------
    Verdicts
        A list, one for each claim. Numbers are those of the worst trial.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.training.models.embeddings import Orthonormal
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> trace = at.train(samples, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0), steps=2000)
    >>> for verdict in verify(at.learn(samples), trace):
    ...     print(verdict.claim, verdict.status.value)
    feasible holds
    convex holds
    strictly convex inside holds
    norm grows holds
    direction holds
    finite part holds
    regularisation path holds
    hard retrieval holds
    soft composition holds
    local direction holds
    third term holds
    fast-forward holds
    margin-frobenius not_applicable
    margin-max not_applicable
    margin-spectral not_applicable
    """
    if isinstance(automata, Automaton):
        for samples in {id(one): one for one in trace.samples}.values():
            if not extract_edges(samples).rows.equals(automata.components.edges.rows):
                raise MismatchedParts("the automaton was not learned from the samples of this run")
        automata = solve_trials(trace)
    check_automata(trace, automata)
    evidence = Evidence(trace, tuple(automata))
    return Verdicts(claim.check(evidence) for claim in CLAIMS)


def _need_priorities(evidence: Evidence) -> str:
    """Some trial with independent embeddings has a priority."""
    orders = zip(evidence.automata, evidence.independent, strict=True)
    some = any(counts and automaton.components.order.num_rows for automaton, counts in orders)
    return "" if some else "no token precedes another, so that nothing is asked of the Graph-SVM"


def judge_feasibility(evidence: Evidence) -> Judgement:
    """Every priority is met with a margin of 1."""
    least = np.inf
    for automaton, counts in zip(evidence.automata, evidence.independent, strict=True):
        if counts:
            above, below = find_ends(automaton.components)
            scores = column(automaton.hard.scores, "score")
            met = automaton.hard.kind is Kind.EVERY_PRIORITY
            least = min(least, float((scores[above] - scores[below]).min(initial=np.inf)) if met else 0.0)
    return Judgement(least, 1 - 1e-6, least >= 1 - 1e-6, "smallest margin of any priority")


_CONVEX = (need_log_loss, need_mass_head, need_few_dimensions)
_RUN = (need_log_loss, need_mass_head, need_descent, need_start, need_stable_step, need_digits)
_GLOBAL = (*_RUN, need_direction, need_records, need_way)
_FINITE = (*_RUN, need_ties, need_records, need_way, need_short_steps)
_LOCAL = (need_descent, need_start, need_stable_step, need_digits, need_records)
_PLAIN = (need_plain_descent, *_RUN, need_direction)


def _limit(
    name: str,
    assumptions: tuple[Callable[[Evidence], str], ...],
    judge: Callable[[Evidence], Judgement],
    near: Callable[[Evidence], str],
) -> Claim[Evidence]:
    """A claim about a limit, judged once the run is near."""
    return Claim(name, assumptions, judge, (need_steps, near), look_ahead)


CLAIMS = (
    Claim("feasible", (need_independence, _need_priorities), judge_feasibility),
    Claim("convex", _CONVEX, judge_convexity),
    Claim("strictly convex inside", (*_CONVEX, need_ties), judge_strictness),
    _limit("norm grows", _GLOBAL, judge_norm, need_growth),
    _limit("direction", _GLOBAL, judge_direction, need_near_direction),
    _limit("finite part", _FINITE, judge_finite, need_near_finite),
    Claim("regularisation path", (need_mass_head, need_direction, need_path), judge_path),
    _limit("hard retrieval", _GLOBAL, judge_retrieval, need_near_retrieval),
    _limit("soft composition", _FINITE, judge_composition, need_near_finite),
    _limit("local direction", _LOCAL, judge_local, need_decided),
    _limit("third term", (*_PLAIN, need_records, need_data_alone), judge_third_term, need_told),
    Claim(
        "fast-forward",
        (*_PLAIN, need_steady_head, need_followed),
        judge_fast_forward,
        (need_late_records,),
        count_to_late,
    ),
    *MARGIN_CLAIMS,
)
