"""Fit the Luce choice model inside every component: the finite part of the attention weights.

:func:`solve_luce` is the entry point. Without embeddings, or with independent embeddings, scores are free;
dependent embeddings restrict them to a subspace (:func:`_solve_dependent`).
"""

import warnings
from dataclasses import dataclass

import numpy as np

from attomaton.base import solutions
from attomaton.base.borders import MEND, check_kind, trusted
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.options import check_threads, real_number
from attomaton.base.ragged import centre
from attomaton.base.solutions import Solution
from attomaton.base.tables import Float64, column
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components, find_ties
from attomaton.graphs.separation import NEGLIGIBLE_RATIO, node_features, separate
from attomaton.solvers.soft.certify import SoftCertificate, certify_coordinates, certify_scores
from attomaton.solvers.soft.curvature import score_errors
from attomaton.solvers.soft.damped import Subspace
from attomaton.solvers.soft.likelihood import luce_problem
from attomaton.solvers.soft.newton import Newton

# Most refinements of the residual of W; each must at least halve it.
MOST_WEIGHT_REFINEMENTS = 6


@dataclass(frozen=True, eq=False, repr=False)
class SoftSolution(Solution):
    """The finite part W_fin of the attention weights as scores and weights, with a certificate.

    Attributes
    ----------
    certificate : SoftCertificate
        The largest gradient entry of the summed loss, and bounds on the error of the scores.
    loss : float
        The summed loss −Σ ln p over all counted choices, which is n times the limit of the training loss.
    choices : ChoiceTable
        The choices to which the scores were fitted.
    components : Components
        The given components, after merging those that the embeddings cannot separate.
    ridge : float
        Strength of the regulariser; 0 means none.
    free : bool
        Whether scores inside components are independent; dependent embeddings couple them.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> soft = solve_luce(samples, at.find_components(at.extract_edges(samples))).expect()
    >>> soft.scores.column("score").to_numpy().round(4).tolist()  # ± ½ ln 3 inside the component of 0 and 1
    [0.5493, -0.5493, 0.0]
    """

    certificate: SoftCertificate
    loss: float
    choices: ChoiceTable
    components: Components
    ridge: float = 0.0
    free: bool = True

    def __post_init__(self) -> None:
        check_kind(self.components, Components, "components")
        solutions.check_scores(self.scores, self.components.nodes, "the table of soft scores")
        if "weights" in self.__dict__:
            solutions.check_weights(self.weights, self.components.edges.n_tokens, "the array of soft weights")
        check_kind(self.choices, ChoiceTable, "choices")
        if not (np.isfinite(self.loss) and 0.0 <= self.ridge < np.inf):
            raise MismatchedParts(
                f"loss is {self.loss}, ridge {self.ridge}; both must be finite, ridge ≥ 0; {MEND}"
            )

    def standard_errors(self) -> Float64:
        """Return the standard error of each score relative to the mean of its component, shape (n_scores,).

        The errors are computed from the observed information, the Hessian of the summed loss. A token alone
        in its component has standard error 0.
        """
        if not self.free:
            raise UnsupportedOption(
                "standard errors exist only for free scores; solve with independent embeddings or none"
            )
        rows, problem = luce_problem(self.choices, self.components, connected=self.ridge == 0.0)
        errors = np.zeros(self.scores.num_rows)
        inside = centre(problem.component, column(self.scores, "score")[rows])
        errors[rows] = score_errors(problem, inside, ridge=self.ridge)
        return errors


def solve_luce(
    samples: Samples | ChoiceTable,
    components: Components,
    *,
    embeddings: object = None,
    atol: float = 1e-8,
    ridge: float = 0.0,
    threads: int | None = None,
) -> SoftSolution:
    """Fit the Luce model p(y | X) = m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j} inside every component.

    Choices are compared only inside a component, so the optimum is finite without a regulariser. Scores have
    mean zero in each component; a token alone in its component has score 0.

    Parameters
    ----------
    samples : Samples or ChoiceTable
        The corpus, or its counted choices if already extracted.
    components : Components
        The components of the samples.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings of the tokens; None means orthonormal. Components that linearly dependent rows cannot
        separate are merged (:func:`~attomaton.graphs.separation.separate`), and W_fin is the best W in the
        span of the ties.
    atol : float
        The largest entry of the gradient of the summed loss up to which the answer counts as certified.
    ridge : float
        Adds ½ ridge Σ s² to the summed loss; 0 means no regulariser.
    threads : int, optional
        Threads for the solver and the certificate; by default one per processor.

    Examples
    --------
    >>> import attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> soft = solve_luce(samples, at.find_components(at.extract_edges(samples))).expect()
    >>> np.exp(soft.scores.column("score").to_numpy()).round(4).tolist()
    [1.7321, 0.5774, 1.0]
    """
    ridge, atol = real_number(ridge, "ridge", least=0), real_number(atol, "atol", least=0)
    threads = check_threads(threads)
    table = None if embeddings is None else solutions.check_embeddings(embeddings, components.edges.n_tokens)
    if table is not None:
        separation = separate(components, table)
        if not separation.independent:
            if ridge:
                raise UnsupportedOption("a ridge needs embeddings with independent rows; leave it at 0")
            if isinstance(samples, ChoiceTable) and separation.inseparable.any():
                raise MismatchedParts(
                    "these embeddings merge components, but the given choices come from unmerged components; "
                    "give the samples, or extract them with separate(components, embeddings).components"
                )
            return _solve_dependent(samples, separation.components, table, atol)
    choices = samples if isinstance(samples, ChoiceTable) else extract_choices(samples, components)
    rows, problem = luce_problem(choices, components, connected=ridge == 0.0)
    scores = np.zeros(components.nodes.num_rows)
    scores[rows] = Newton(threads=threads).solve(problem, stiffness=ridge)
    scores = centre(components.component_of_node, scores)
    embedded: dict[str, Float64] = {}
    if table is not None:
        embedded["weights"], scores = _embed_ties(components, scores, table)
    inside = centre(problem.component, scores[rows])
    return trusted(
        SoftSolution,
        scores=solutions.score_table(components.nodes, scores),
        certificate=certify_scores(problem, inside, atol=atol, ridge=ridge, threads=threads),
        loss=problem.loss(inside),
        choices=choices,
        components=components,
        ridge=ridge,
        **embedded,
    )


# The Luce model over scores features @ axesᵀ @ x, with one coordinate x for each dimension of the ties' span.
def _solve_dependent(
    samples: Samples | ChoiceTable, components: Components, table: Float64, atol: float
) -> SoftSolution:
    choices = samples if isinstance(samples, ChoiceTable) else extract_choices(samples, components)
    unit, scale = solutions.scale_rows(table)
    # The score of node (k, i) is features @ vec(V), where W = leftᵀ V right.
    features, (left, right) = node_features(components, unit)
    first, second = find_ties(components)
    _, singular, axes = np.linalg.svd(features[first] - features[second], full_matrices=False)
    axes = axes[singular > NEGLIGIBLE_RATIO * singular.max(initial=0.0)]  # a basis of the span of the ties
    rows, problem = luce_problem(choices, components, connected=False)
    tied = features[rows] @ axes.T
    coordinates = Subspace().solve(problem, tied)
    scores = features @ axes.T @ coordinates
    weights = left.T @ (coordinates @ axes).reshape(len(left), len(right)) @ right
    return trusted(
        SoftSolution,
        scores=solutions.score_table(components.nodes, scores),
        weights=weights / scale**2,
        certificate=certify_coordinates(problem, tied, coordinates, atol=atol),
        loss=problem.loss(scores[rows]),
        choices=choices,
        components=components,
        free=False,
    )


# W in the span of the ties with the differences of ``scores`` inside components, and all scores of W.
def _embed_ties(components: Components, scores: Float64, table: Float64) -> tuple[Float64, Float64]:
    from scipy.linalg import LinAlgWarning, lu_factor, lu_solve  # takes long to import

    # W = Σ β_t (e_i − e_j) e_kᵀ over a chain of ties t = (i, j, k); β solves Q β = s_i − s_j with the ties'
    # kernel Q. The residual of W is refined until it no longer decreases.
    left, right = find_ties(components)  # nodes (k, i) and (k, j) of each tie
    query, token = components.query_of_node, components.token_of_node
    unit, scale = solutions.scale_rows(table)
    differences = unit[token[left]] - unit[token[right]]
    queries = unit[query[left]]
    kernel = (differences @ differences.T) * (queries @ queries.T)
    weights = np.zeros((table.shape[1], table.shape[1]))
    target = missed = scores[left] - scores[right]
    if not len(kernel):
        return weights, (unit @ weights @ unit.T)[token, query]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular one gives infinities or NaN
        factor = lu_factor(kernel)
    for _ in range(MOST_WEIGHT_REFINEMENTS):
        coefficients = np.asarray(lu_solve(factor, missed), np.float64)
        if not np.isfinite(coefficients).all():
            break
        refined = weights + (differences * coefficients[:, None]).T @ queries
        remaining = target - ((differences @ refined) * queries).sum(axis=1)
        if not np.abs(remaining).max(initial=0.0) < 0.5 * np.abs(missed).max(initial=0.0):
            break
        weights, missed = refined, remaining
    return weights / scale**2, (unit @ weights @ unit.T)[token, query]
