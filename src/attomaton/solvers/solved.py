"""Solve a corpus: edges → components → hard and soft solutions, as one value.

Without embeddings queries do not interact, so threads solve ranges of queries (partitions) side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from attomaton.base.borders import trusted
from attomaton.base.errors import MismatchedParts
from attomaton.base.machine import divide_work
from attomaton.base.options import check_threads, real_number
from attomaton.base.printing import count_noun
from attomaton.base.progress import Progress, silent
from attomaton.base.solutions import SCORE_SCHEMA, Solution, score_table
from attomaton.base.tables import Float64, column
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable, extract_edges
from attomaton.graphs.partitions import (
    cut_partitions,
    join_tables,
    keep_ties,
    number_components,
    slice_edges,
    slice_queries,
)
from attomaton.solvers.hard.certify import join_hard
from attomaton.solvers.hard.problem import multiplier_table
from attomaton.solvers.hard.solve import HardSolution, solve_graph_svm
from attomaton.solvers.soft.certify import join_soft
from attomaton.solvers.soft.solve import SoftSolution, solve_luce
from attomaton.solvers.soft.tied import TieScores, group_choices, solve_groups


def show_size(kind: str, n_queries: int, n_components: int, n_tokens: int) -> str:
    """Such as "Solved(1 query, 2 components, 3 tokens)"."""
    counts = count_noun(n_queries, "query", "queries"), count_noun(n_components, "component")
    return f"{kind}({', '.join(counts)}, {count_noun(n_tokens, 'token')})"


@dataclass(frozen=True, eq=False, repr=False)
class Solved:
    """The components of a corpus with their hard and soft solutions.

    ``components`` that dependent embeddings cannot separate are merged. ``hard`` is W_svm, the direction in
    which weights grow; ``soft`` is W_fin, their finite part.
    """

    components: Components
    hard: HardSolution
    soft: SoftSolution

    def __post_init__(self) -> None:
        # Hard and soft scores must be of the same nodes, in the same components, for the same embeddings.
        nodes = self.components.nodes.select(["query", "token"])
        kinds: dict[type[Solution], object] = {HardSolution: self.hard, SoftSolution: self.soft}
        for kind, solution in kinds.items():
            if not isinstance(solution, kind) or not solution.scores.select(["query", "token"]).equals(nodes):
                raise MismatchedParts(
                    f"the {kind.__name__} was solved from other components; "
                    "solve hard and soft from the components that Automaton(components, hard, soft) gets"
                )
        numbering = self.components.component_of_node
        if not np.array_equal(self.hard.components.component_of_node, numbering):
            raise MismatchedParts(
                "the embeddings merge some of these components; give Automaton(hard.components, hard, soft)"
            )
        if self.hard.embedded != self.soft.embedded:
            raise MismatchedParts(
                "only one of hard and soft was solved with embeddings; solve both with or both without"
            )

    def __repr__(self) -> str:
        n_queries, n_components = len(self.components.queries), len(self.components)
        return show_size(type(self).__name__, n_queries, n_components, self.n_tokens)

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return self.components.edges.n_tokens

    @property
    def embedded(self) -> bool:
        """Whether embeddings were given, so that weights have shape (dim, dim)."""
        return self.hard.embedded


def solve_edges(
    edges: EdgeTable,
    extract: Callable[[Components], ChoiceTable],
    *,
    embeddings: object = None,
    atol: float = 1e-8,
    progress: Progress = silent,
    threads: int | None = None,
) -> Solved:
    """Solve the hard and the soft problem of a corpus from its edges.

    Parameters
    ----------
    edges : EdgeTable
        The edges winner → loser.
    extract : callable
        A function that counts the choices inside given components, in a second pass over the corpus.
    embeddings : float array, shape (n_tokens, dim), optional
        The embeddings of the tokens; None means orthonormal. Components that linearly dependent rows cannot
        separate are merged.
    atol : float
        The largest gradient entry up to which the soft solution counts as certified.
    progress : callable
        A function that is called at the beginning of each stage, with its name, 0 and 0.
    threads : int, optional
        Threads for the solvers; by default one per processor.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
    >>> solve_edges(extract_edges(samples), lambda components: extract_choices(samples, components))
    Solved(1 query, 2 components, 3 tokens)
    """
    atol, threads = real_number(atol, "atol", least=0), check_threads(threads)
    progress("finding components", 0, 0)
    partitions = find_partitions(edges, embeddings, threads)
    progress("solving the hard side", 0, 0)
    hard = solve_hard(partitions, edges, embeddings, threads)
    progress("extracting choices", 0, 0)
    choices = extract(keep_ties(hard.components))
    progress("solving the soft side", 0, 0)
    soft = solve_soft(partitions, choices, hard.components, embeddings, threads, atol=atol)
    return Solved(hard.components, hard, soft)


def find_partitions(edges: EdgeTable, embeddings: object, threads: int | None) -> list[Components]:
    """The components of each partition; with embeddings, all queries are one partition."""
    borders = cut_partitions(edges.queries, edges.n_tokens).tolist()  # n_partitions + 1 borders
    if embeddings is not None or len(borders) == 2:
        return [find_components(edges, threads=threads)]
    partitions = [slice_edges(edges, *queries) for queries in pairwise(borders)]
    return divide_work(partial(find_components, threads=1), partitions, threads)


def solve_hard(
    partitions: Sequence[Components], edges: EdgeTable, embeddings: object, threads: int | None
) -> HardSolution:
    """The hard solution of all partitions, and their joined components."""
    if len(partitions) == 1:
        return solve_graph_svm(partitions[0], embeddings=embeddings, threads=threads)
    solved = divide_work(partial(solve_graph_svm, threads=1), partitions, threads)
    components = number_components(partitions, edges)
    multipliers = np.concatenate([column(solution.multipliers, "multiplier") for solution in solved])
    return trusted(
        HardSolution,
        components=components,
        scores=join_tables(SCORE_SCHEMA, [solution.scores for solution in solved]),
        certificate=join_hard([solution.certificate for solution in solved]),
        multipliers=multiplier_table(components.order, multipliers),
    )


def solve_soft(
    partitions: Sequence[Components],
    choices: ChoiceTable,
    components: Components,
    embeddings: object,
    threads: int | None,
    *,
    atol: float = 1e-8,
) -> SoftSolution:
    """The soft solution of all partitions, whose joined components are ``components``."""
    if embeddings is not None:
        return solve_luce(choices, components, embeddings=embeddings, atol=atol, threads=threads)

    def solve_partition(partition: Components) -> TieScores:
        """One partition on one thread, with the choices of the queries in it."""
        queries = column(partition.edges.queries, "query")
        rows = slice_queries(choices.rows, int(queries[0]), int(queries[-1]) + 1)
        return solve_ties(partition, trusted(ChoiceTable, rows=rows), atol, 1)

    if len(partitions) == 1:
        solved = [solve_ties(partitions[0], choices, atol, threads)]
    else:
        solved = divide_work(solve_partition, partitions, threads)
    tie_scores = np.concatenate([ties.scores for ties in solved])
    return trusted(
        SoftSolution,
        scores=score_table(components.nodes, spread_scores(components, tie_scores)),
        certificate=join_soft([ties.certificate for ties in solved]),
        loss=sum(ties.loss for ties in solved),
        choices=choices,
        components=components,
    )


def solve_ties(components: Components, choices: ChoiceTable, atol: float, threads: int | None) -> TieScores:
    """The soft scores of nodes in components of several tokens; all other scores are 0."""
    return solve_groups(group_choices(choices, keep_ties(components)), atol=atol, threads=threads)


def spread_scores(components: Components, tie_scores: Float64) -> Float64:
    """The scores of all nodes, shape (n_nodes,), from the scores of the nodes that tie."""
    scores = np.zeros(components.nodes.num_rows)
    scores[components.sizes[components.component_of_node] > 1] = tie_scores
    return scores


def solve_samples(
    samples: Samples, *, embeddings: object = None, min_support: int = 1, atol: float = 1e-8
) -> Solved:
    """Solve the hard and the soft problem from samples in memory; embeddings are orthonormal by default."""
    edges = extract_edges(samples).filter(min_support=min_support)
    return solve_edges(edges, partial(extract_choices, samples), embeddings=embeddings, atol=atol)
