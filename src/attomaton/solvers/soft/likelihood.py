"""The log-loss of a Luce choice model with known offsets, over counted choices.

A choice of y from the set X with multiplicities m costs −ln( m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j} ).
:class:`LuceProblem` has the loss and its derivatives; :func:`luce_problem` makes one from a corpus.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base import borders
from attomaton.base.borders import MOST_COUNTED, check_lengths, trusted
from attomaton.base.errors import MismatchedParts
from attomaton.base.options import settle
from attomaton.base.ragged import log_sums, offsets_of, rows_of, sum_at
from attomaton.base.tables import Bool, Float64, Int64, make_table, ragged_column
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components, count_strong_components
from attomaton.graphs.grouping import distinct_keys, pack_pairs, unpack_pairs

NOT_ONE_CORPUS = (
    "the choices and components come from different corpora: a choice set has items of several "
    "components, or the choices do not connect a component; give the samples from which the components "
    "were computed"
)
# Largest known offset of a member of a choice set: multiplicities are 32-bit integers.
MOST_ODDS = float(np.log(2**31 - 1))


@dataclass(frozen=True, eq=False)
class LuceProblem:
    """Choices over numbered alternatives; the loss is a function of one score per alternative.

    Choice set i has the entries ``offsets``[i] … ``offsets``[i + 1] − 1 of ``alternative``, its members, and
    of ``log_multiplicity``, their known offsets ln m_j. In set i, the alternative ``winner``[i] was chosen
    ``count``[i] times. ``component`` is the component of each alternative; no choice set spans two
    components.
    """

    alternative: Int64
    offsets: Int64
    log_multiplicity: Float64
    winner: Int64
    count: Float64
    component: Int64

    def __post_init__(self) -> None:
        # Types and lengths first, since the checks that follow use the arrays as indices.
        names = ("alternative", "offsets", "winner", "component")
        numbers = {name: borders.check_int64(getattr(self, name), name) for name in names}
        entries, choices = len(numbers["alternative"]), len(numbers["winner"])
        odds = borders.check_floats(self.log_multiplicity, (entries,), "log_multiplicity")
        count = borders.check_floats(self.count, (choices,), "count")
        check_lengths("choices and their sets", winner=numbers["winner"], sets=numbers["offsets"][1:])
        borders.check_offsets(numbers["offsets"], entries, "offsets of choice sets")
        for name in ("alternative", "winner", "component"):
            borders.check_ids(numbers[name], len(numbers["component"]), name)
        if (count < 0).any() or float(count.sum()) > MOST_COUNTED:
            raise MismatchedParts(f"counts of choices must be ≥ 0 and sum to at most {MOST_COUNTED:,}")
        multiplicity = np.exp(np.clip(odds, -1.0, MOST_ODDS))
        is_whole = np.abs(multiplicity - np.rint(multiplicity)) <= 1e-12 * multiplicity  # exp rounds
        if not (is_whole.all() and (odds <= MOST_ODDS).all() and (multiplicity > 0.5).all()):
            raise MismatchedParts(
                "log_multiplicity is not ln m for a whole number m in 1 … 2³¹ − 1; correct it"
            )
        settle(self, log_multiplicity=odds, count=count, **numbers)
        choice = rows_of(self.offsets)  # of each entry
        won = np.flatnonzero(self.alternative == self.winner[choice])  # entries; one per choice, in order
        if not np.array_equal(choice[won], np.arange(len(self.winner))):
            raise MismatchedParts("a choice set does not contain its winner exactly once; correct the sets")
        if (self.component[self.alternative] != self.component[self.winner][choice]).any():
            raise MismatchedParts("a choice set has alternatives of two components; correct the sets")

    @property
    def n_alternatives(self) -> int:
        return len(self.component)

    @property
    def n_components(self) -> int:
        return int(self.component.max(initial=-1)) + 1

    def restrict(self, wanted: Bool) -> tuple[Int64, "LuceProblem"]:
        """The alternatives of the ``wanted`` components, and the smaller problem over them."""
        alternatives = np.flatnonzero(wanted[self.component])
        is_wanted = wanted[self.component[self.winner]]  # of each choice
        smaller = select_choices(self, is_wanted[rows_of(self.offsets)], is_wanted)
        number = np.zeros(self.n_alternatives, np.int64)  # in the smaller problem; others do not occur there
        number[alternatives] = np.arange(len(alternatives))
        numbers = {"alternative": number[smaller.alternative], "winner": number[smaller.winner]}
        component = np.unique(self.component[alternatives], return_inverse=True)[1]
        return alternatives, trusted(LuceProblem, **{**vars(smaller), **numbers, "component": component})

    def loss(self, scores: Float64) -> float:
        """The summed loss −Σ count · ln p(winner)."""
        logits = scores[self.alternative] + self.log_multiplicity
        chosen = logits[self.alternative == np.repeat(self.winner, np.diff(self.offsets))]
        return float(np.sum(self.count * (log_sums(logits, self.offsets) - chosen)))  # in a fixed order

    def probabilities(self, scores: Float64) -> Float64:
        """The probability of each member of each set, shape (n_entries,)."""
        logits = scores[self.alternative] + self.log_multiplicity
        return np.exp(logits - np.repeat(log_sums(logits, self.offsets), np.diff(self.offsets)))

    def gradient(self, scores: Float64) -> Float64:
        """Derivative of the summed loss, shape (n_alternatives,): expected minus observed wins."""
        expected = np.repeat(self.count, np.diff(self.offsets)) * self.probabilities(scores)
        observed = sum_at(self.winner, self.count, self.n_alternatives)
        return sum_at(self.alternative, expected, self.n_alternatives) - observed

    def rounding(self) -> Float64:
        """Bound on the rounding error of a gradient entry, shape (n_components,): a few eps per choice."""
        counts = sum_at(self.component[self.winner], self.count, self.n_components)
        return CHOICE_ROUNDING * counts

    def curvature(self, probabilities: Float64, direction: Float64) -> Float64:
        """Hessian times ``direction``: Σ count (diag p − p pᵀ) v, shape (n_alternatives,)."""
        of_entry = direction[self.alternative]
        mean = np.add.reduceat(probabilities * of_entry, self.offsets[:-1])
        lengths = np.diff(self.offsets)
        change = np.repeat(self.count, lengths) * probabilities * (of_entry - np.repeat(mean, lengths))
        return sum_at(self.alternative, change, self.n_alternatives)

    def curvature_of(self, probabilities: Float64, directions: Float64) -> Float64:
        """Hessian times each column of ``directions``, shape (n_alternatives, n_directions)."""
        columns = [self.curvature(probabilities, direction) for direction in directions.T]
        return np.column_stack(columns) if columns else np.zeros_like(directions)

    def curvature_diagonal(self, probabilities: Float64) -> Float64:
        """The diagonal of the Hessian, shape (n_alternatives,)."""
        weight = np.repeat(self.count, np.diff(self.offsets)) * probabilities * (1.0 - probabilities)
        return sum_at(self.alternative, weight, self.n_alternatives)


def select_choices(problem: LuceProblem, entries: Bool, choices: Bool) -> LuceProblem:
    """The problem with only these choices and only these members of their sets."""
    lengths = np.bincount(rows_of(problem.offsets)[entries], minlength=len(problem.winner))
    return trusted(
        LuceProblem,
        alternative=problem.alternative[entries],
        offsets=offsets_of(lengths[choices]),
        log_multiplicity=problem.log_multiplicity[entries],
        winner=problem.winner[choices],
        count=problem.count[choices],
        component=problem.component,
    )


# Bound on the rounding error of a gradient entry for each choice.
CHOICE_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class Slopes(NamedTuple):
    """Properties of the loss of each component at some scores, each of shape (n_components,)."""

    largest: Float64  # the largest absolute entry of the gradient, as computed
    # ‖g‖ and λ of `certify.py`, as bounds: no score is further from the optimum than they allow
    gradient: Float64  # at least the length of the gradient, or a smaller number that proves more
    curvature: Float64  # at most the smallest eigenvalue of the Hessian on scores with mean zero
    loss: Float64  # the summed loss −Σ count · ln p(winner)


def luce_problem(
    choices: ChoiceTable, components: Components, *, connected: bool = True
) -> tuple[Int64, LuceProblem]:
    """The rows of ``components.nodes`` that tie with others, and the Luce problem over them.

    If ``connected``, the choices must strongly connect every component, so that the optimum is finite.
    """
    offsets, tokens = ragged_column(choices.rows, "tokens")
    # The node of each member and of each winner, and whether there is such a node.
    member, has_node = components.rows(np.repeat(choices["query"], np.diff(offsets)), tokens)
    winner, won_at_node = components.rows(choices["query"], choices["winner"])
    component = components.component_of_node
    beaten_by = np.repeat(winner, np.diff(offsets))  # the winner over each member
    fits = bool(has_node.all() and won_at_node.all())
    if fits and connected:  # only then is there a finite optimum
        n_strong = count_strong_components(beaten_by, member, len(component))
        fits = bool((component[beaten_by] == component[member]).all()) and n_strong == len(components)
    if not fits:
        raise MismatchedParts(NOT_ONE_CORPUS)
    rows = np.flatnonzero(components.sizes[component] > 1)
    number = np.zeros(components.nodes.num_rows, np.int64)  # of each node, its alternative in the problem
    number[rows] = np.arange(len(rows))
    groups = np.unique(component[rows], return_inverse=True)[1]
    return rows, _number_choices(choices, number[member], number[winner], groups)


# The problem, from the alternative of each member and each winner, and the component of each alternative.
def _number_choices(choices: ChoiceTable, member: Int64, winner: Int64, component: Int64) -> LuceProblem:
    offsets, multiplicities = ragged_column(choices.rows, "multiplicities")
    counts = choices["count"].astype(np.float64)
    return LuceProblem(member, offsets, np.log(multiplicities), winner, counts, component)


PAIR_SCHEMA = pa.schema([("query", pa.int32()), ("token", pa.int32())])


def context_problem(choices: ChoiceTable) -> tuple[pa.Table, LuceProblem]:
    """The choices with a score for each (query, token) in a choice set, and one group per query."""
    offsets, tokens = ragged_column(choices.rows, "tokens")
    member = pack_pairs(np.repeat(choices["query"], np.diff(offsets)), tokens)
    keys = distinct_keys(member)
    query, token = unpack_pairs(keys)
    winner = np.searchsorted(keys, pack_pairs(choices["query"], choices["winner"]))
    group = np.unique(query, return_inverse=True)[1]
    problem = _number_choices(choices, np.searchsorted(keys, member), winner, group)
    columns = {"query": query.astype(np.int32), "token": token}
    return make_table(PAIR_SCHEMA, columns), problem


def pooled_problem(choices: ChoiceTable, n_tokens: int) -> LuceProblem:
    """The choices with one score per token, independent of the query; all tokens are one group."""
    tokens = ragged_column(choices.rows, "tokens")[1].astype(np.int64)
    return _number_choices(choices, tokens, choices["winner"].astype(np.int64), np.zeros(n_tokens, np.int64))
