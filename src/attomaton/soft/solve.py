"""The Luce choice model inside every component: the finite part of the attention weights."""

from dataclasses import dataclass

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components
from attomaton.graphs.reduction import find_ties
from attomaton.soft.certify import SoftCertificate, certify_scores
from attomaton.soft.likelihood import luce_problem
from attomaton.soft.solvers.reference import Reference, centre
from attomaton.solutions import Solution, check_embeddings, scale_rows, score_table, sparse_weights
from attomaton.tables import Float64


@dataclass(frozen=True, eq=False, repr=False)
class SoftSolution(Solution):
    """W_fin as scores and weights, with the gradient that is left.

    Attributes
    ----------
    certificate : SoftCertificate
        Largest gradient entry of the summed loss.
    loss : float
        The summed loss −Σ ln p over all counted choices: n times the limit of the training loss.
    choices : ChoiceTable
        What it was fitted to.
    """

    certificate: SoftCertificate
    loss: float
    choices: ChoiceTable


def solve_luce(
    samples: Samples | ChoiceTable,
    components: Components,
    *,
    embeddings: object = None,
    atol: float = 1e-8,
    solver: Reference | None = None,
) -> SoftSolution:
    """Fit the Luce model p(y | X) = m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j} inside every component.

    Parameters
    ----------
    samples : Samples or ChoiceTable
        The corpus, or its counted choices if they have been extracted already.
    components : Components
        Choices are compared inside a component only, so the optimum is always finite and needs no
        regulariser. Scores have mean zero in each component; tokens alone in theirs score 0.
    embeddings : float array, shape (n_tokens, dim), optional
        E with linearly independent rows. None: orthonormal. The odds inside components are the same for
        every such E; W_fin and the scores it gives to other tokens are not.
    atol : float
        Largest entry of the gradient of the summed loss at which the answer counts as certified.
    solver : Reference, optional
        The solver to use.

    Examples
    --------
    >>> from attomaton.graphs.components import find_components
    >>> from attomaton.graphs.edges import extract_edges
    >>> samples = Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> soft = solve_luce(samples, find_components(extract_edges(samples))).expect()
    >>> odds = np.exp(soft.scores.column("score").to_numpy())
    >>> round(float(odds[0] / odds[1]), 6)
    3.0
    """
    choices = samples if isinstance(samples, ChoiceTable) else extract_choices(samples, components)
    rows, problem = luce_problem(choices, components)
    scores = np.zeros(components.nodes.num_rows)
    scores[rows] = (solver or Reference()).solve(problem)
    scores = centre(components.component_of_node, scores)
    if embeddings is None:
        table = score_table(components.nodes, scores)
        weights = sparse_weights(table, components.edges.n_tokens)
    else:
        weights, scores = _embed(components, scores, check_embeddings(embeddings, components.edges.n_tokens))
        table = score_table(components.nodes, scores)
    return SoftSolution(
        scores=table,
        weights=weights,
        certificate=certify_scores(problem, scores[rows], atol=atol),
        loss=problem.loss(scores[rows]),
        choices=choices,
    )


def _embed(components: Components, scores: Float64, table: Float64) -> tuple[Float64, Float64]:
    """W in the span of the ties whose scores differ inside components as ``scores`` do, and all its scores.

    W = Σ β_t (e_i − e_j) e_kᵀ over a chain of ties; β solves Q β = s_i − s_j with the kernel
    Q_tt' = (e_i − e_j)·(e_i' − e_j') · e_k·e_k', positive definite as the rows of E are independent.
    """
    left, right = find_ties(components)
    query, token = components.query_of_node, components.token_of_node
    unit, scale = scale_rows(table)
    differences = unit[token[left]] - unit[token[right]]
    asked = unit[query[left]]
    kernel = (differences @ differences.T) * (asked @ asked.T)
    coefficients = np.linalg.solve(kernel, scores[left] - scores[right])
    weights = (differences * coefficients[:, None]).T @ asked
    return weights / scale**2, (unit @ weights @ unit.T)[token, query]
