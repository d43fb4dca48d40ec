"""The flow of the token shares while a layer continues its own text.

After the token i the next token is j with probability P_ij = w_ij x_j / Σ_l w_il x_l, where x_j is the share
of token j in the text so far and w_ij the odds of j under the query i. Let q(x) be the stationary
distribution of P at fixed shares x. In a long text of t tokens the shares follow dx_j / d ln t = q_j(x) −
x_j. So the count of token j grows like t^ρ_j, where ρ_j = Σ_i x_i w_ij / Σ_l w_il x_l, which is q_j / x_j
where the shares are stationary.

In all files of this folder ``odds`` is w, shape (K, K), and ``shares`` is x, shape (K,).
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.native import find_steady
from attomaton.base.tables import Float64, Int64

FLOW_RTOL = 1e-9  # relative error of one step of the flow
MOST_EVALUATIONS = 5_000  # of the rates in one flow: less than a second for few tokens
ALL_EVALUATIONS = 60_000  # of the rates in several flows together
MOST_ODDS_READ = 200_000_000  # entries of the odds that several flows read, beyond 1,000 evaluations
LOWEST_LOG_SHARE = -300.0  # relative to the largest: products of shares stay within float64

# One item for each evaluation of the rates that is still allowed.
Budget = Iterator[int]


def allow_evaluations(n_tokens: int) -> Budget:
    """A budget for several flows together: 60,000 evaluations, or fewer for more than 58 tokens."""
    return iter(range(min(ALL_EVALUATIONS, 1_000 + MOST_ODDS_READ // n_tokens**2)))


def find_exponents(odds: Float64, shares: Float64) -> Float64:
    """The exponents ρ at these shares, shape (K,); queries whose share is 0 are left out."""
    # x_i / Σ_l w_il x_l, and 0 where x_i = 0: there the sum may be 0, too
    weights = np.divide(shares, odds @ shares, out=np.zeros(len(shares)), where=shares > 0)
    return weights @ odds


def find_rates(log_odds: Float64, log_shares: Float64) -> Float64:
    """The rates d ln x_j / d ln t = q_j / x_j − 1, shape (K,)."""
    order = np.argsort(-log_shares)  # largest first: `find_steady` needs a first state that always returns
    relative = np.maximum(log_shares[order] - log_shares[order[0]], LOWEST_LOG_SHARE)
    log_weights = log_odds[np.ix_(order, order)] + relative
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    stationary = find_steady(np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True)))  # q of P
    shares = np.exp(relative)  # up to a factor
    rates = np.empty(len(log_shares))
    rates[order] = stationary * shares.sum() / shares - 1.0  # back in the order of the tokens
    return rates


def find_jacobian(odds: Float64, shares: Float64) -> Float64:
    """The derivative of q(x) − x, shape (K, K): entry (j, k) is ∂(q_j − x_j)/∂x_k; all shares positive."""
    sums = odds @ shares  # Σ_l w_il x_l
    transitions = np.ascontiguousarray(odds * shares / sums[:, None])  # P
    stationary = find_steady(transitions)
    # The derivative of a stationary distribution: dq = (q dP) Z with Z = (1 − P + 1 qᵀ)⁻¹.
    fundamental = np.linalg.inv(np.eye(len(odds)) - transitions + stationary)
    direct = (stationary / sums)[:, None] * odds
    # row j, column k: Σ_i q_i ∂P_ij/∂x_k
    change = np.diag(direct.sum(axis=0)) - transitions.T @ direct
    return (change.T @ fundamental).T - np.eye(len(odds))


def follow_flow(odds: Float64, shares: Float64, times: Float64, budget: Budget | None = None) -> Float64:
    """The shares at these values of ln t, shape (n_times, K), starting with ``shares`` at the first."""
    from scipy.integrate import solve_ivp  # slow to import

    with np.errstate(divide="ignore"):
        log_odds = np.log(odds)
    evaluations = islice(allow_evaluations(len(odds)) if budget is None else budget, MOST_EVALUATIONS)

    def rates_at(_: float, log_shares: Float64) -> Float64:  # the flow does not depend on time
        if next(evaluations, None) is None:
            raise UncertifiedSolution(
                f"computing the shares of {len(odds):,} tokens takes too long, because they change at very "
                "different rates; use a prompt with fewer tokens, or the scores of an earlier step "
                "(auto.at(step))"
            )
        return find_rates(log_odds, log_shares)

    if len(times) == 1:
        return shares[None].copy()
    solver: Any = solve_ivp
    tolerances = {"rtol": FLOW_RTOL, "atol": FLOW_RTOL}
    solution = solver(rates_at, times[[0, -1]], np.log(shares), t_eval=times, method="LSODA", **tolerances)
    log_shares: Float64 = solution.y.T
    if not solution.success or not np.isfinite(log_shares).all():
        raise UncertifiedSolution(
            "the shares of the tokens cannot be computed in float64: the odds differ by too many orders of "
            "magnitude, or there are too many tokens; use a prompt with fewer tokens, or the scores of an "
            "earlier step (auto.at(step))"
        )
    followed = np.exp(log_shares - log_shares.max(axis=1, keepdims=True))
    return followed / followed.sum(axis=1, keepdims=True)


def find_classes(odds: Float64, start: int | None = None) -> list[Int64]:
    """The sets of tokens that a text never leaves, sorted; with a token ``start``, those reached from it."""
    # leads_to[i, j]: a text with the query i can come to the query j, at first in one step. Each product with
    # itself allows twice as many steps.
    leads_to = (odds > 0) | np.eye(len(odds), dtype=np.bool_)
    while True:
        further = (leads_to.astype(np.float32) @ leads_to.astype(np.float32)) > 0
        if (further == leads_to).all():
            break
        leads_to = further
    closed = (leads_to <= leads_to.T).all(axis=1)  # every token it leads to leads back
    if start is not None:
        closed &= leads_to[start]
    sets = {tuple(np.flatnonzero(leads_to[token]).tolist()) for token in np.flatnonzero(closed)}
    return [np.array(tokens, np.int64) for tokens in sorted(sets)]
