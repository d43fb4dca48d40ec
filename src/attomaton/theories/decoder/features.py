"""Compute the limit of the decoder for contexts with given features, with proofs.

Contexts are queries, and supports are components above all other tokens. Tokens are embedded as unit vectors
of R^V and contexts as their features in an additional R^d, so that the block (tokens, contexts) of the
solvers' W is the decoder's. :func:`solve_decoder` gives them edges and choices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.base.borders import check_floats
from attomaton.base.errors import MismatchedParts, UncertifiedSolution, UnsupportedOption
from attomaton.base.options import real_number, whole_number
from attomaton.base.printing import Block, Grid, Printed
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.solutions import scale_rows
from attomaton.base.tables import Bool, Float64, column, make_table
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.choices import CHOICE_SCHEMA, ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable
from attomaton.graphs.separation import Separation, separate
from attomaton.solvers.hard.solve import HardSolution, solve_graph_svm
from attomaton.solvers.soft.solve import SoftSolution, solve_luce
from attomaton.theories.decoder.compatibility import BALANCED, Compatibility, find_compatibility
from attomaton.theories.decoder.supports import Supports
from attomaton.theories.decoder.telling import DecoderExplanation

# Tolerance, relative to the features, for writing them as a combination of rows.
COMBINED_TOLERANCE = 1e-14

# Maximum number of pairs (context, token) with given features; 40,000 take 23 s and 0.9 GB.
MOST_FEATURE_PAIRS = 100_000


def check_features(features: object, n_rows: int, noun: str = "contexts") -> Float64:
    # the features as float64, if they are a finite table with ``n_rows`` rows; ``noun`` names these
    table = np.asarray(features)
    if table.ndim != 2 or table.dtype.kind not in "fiu" or not table.shape[1]:
        raise UnsupportedOption(f"features is not a table of numbers; give an array with {n_rows:,} rows")
    if len(table) != n_rows:
        raise MismatchedParts(
            f"features has {len(table):,} rows, but there are {n_rows:,} {noun}; give one row for each"
        )
    table = table.astype(np.float64)
    if not np.isfinite(table).all():
        raise UnsupportedOption("features has values that are infinite or not a number; remove those rows")
    return table


def law_of(supports: Supports) -> Float64:
    """p_jz as a dense table, shape (n_contexts, n_tokens)."""
    law = np.zeros((len(supports), supports.n_tokens))
    law[supports.row, supports.tokens] = supports.probabilities
    return law


@dataclass(frozen=True, eq=False)
class SolvedDecoder:
    """The direction and the finite part of a decoder, with all proofs.

    ``separation`` has the tokens that each context separates from its support, with Farkas weights for the
    others. The block (tokens, contexts) of ``hard`` is W^mm, the block of ``soft`` the finite part, both for
    features divided by ``scale``: the typical length of a feature row, as a power of two, since solvers are
    most accurate at lengths of about 1. ``merged`` marks the support and the tokens that are inseparable from
    it, and ``scores`` has the finite scores for unscaled features; both have the shape (n_contexts,
    n_tokens).
    """

    separation: Separation
    hard: HardSolution
    soft: SoftSolution
    scale: float
    merged: Bool
    scores: Float64


def solve_supports(supports: Supports, features: Float64) -> SolvedDecoder:
    """Solve for direction and finite part; ``features`` have the shape (n_contexts, dim)."""
    n_tokens = supports.n_tokens
    n_nodes = n_tokens + len(supports)  # token z has the id z for the solvers, and context j the id V + j
    scaled_features, scale = scale_rows(features)
    embeddings = np.zeros((n_nodes, n_tokens + features.shape[1]))
    embeddings[:n_tokens, :n_tokens] = np.eye(n_tokens)
    embeddings[n_tokens:, n_tokens:] = scaled_features
    components = find_components(list_edges(supports))
    separation = separate(components, embeddings)
    hard = solve_graph_svm(components, embeddings=embeddings)
    merged = _merge(hard.components, supports)
    soft = solve_luce(list_choices(supports, merged), hard.components, embeddings=embeddings)
    scores = np.zeros((len(supports), n_nodes))
    nodes = hard.components
    scores[nodes.query_of_node - n_tokens, nodes.token_of_node] = column(soft.scores, "score")
    return SolvedDecoder(separation, hard, soft, scale, merged, scores[:, :n_tokens])


def list_edges(supports: Supports) -> EdgeTable:
    """Contexts as queries V + j: a cycle through each support, and edges from it to every other token."""
    size = supports.n_tokens
    first = supports.tokens[supports.offsets[:-1]]  # one token of each support, whose component beats others
    # in the cycle each token beats the next one of its support, and the last beats the first
    next_pair = np.arange(len(supports.tokens)) + 1
    next_pair[supports.offsets[1:] - 1] = supports.offsets[:-1]
    in_cycle = supports.sizes[supports.row] > 1
    context, token = np.nonzero(~_inside(supports))
    columns = {
        "query": np.concatenate([supports.row[in_cycle], context]) + size,
        "winner": np.concatenate([supports.tokens[in_cycle], first[context]]),
        "loser": np.concatenate([supports.tokens[next_pair][in_cycle], token]),
    }
    order = np.lexsort((columns["loser"], columns["winner"], columns["query"]))
    table = {name: values[order].astype(np.int32) for name, values in columns.items()}
    queries = {"query": np.arange(size, size + len(supports), dtype=np.int32), "realisable": supports.totals}
    return EdgeTable(
        make_table(EDGE_SCHEMA, {**table, "support": np.ones(len(order), np.int64)}),
        make_table(QUERY_SCHEMA, {**queries, "unrealisable": np.zeros(len(supports), np.int64)}),
        size + len(supports),
    )


def list_choices(supports: Supports, merged: Bool) -> ChoiceTable:
    """Every next token as a choice from the support of its context and the tokens inseparable from it."""
    sizes = merged.sum(axis=1)
    tied = sizes[supports.row] > 1  # a single token is no choice
    context = supports.row[tied]
    starts = offsets_of(sizes)[:-1]
    # the merged tokens of all contexts in a row; from these, those of the context of each choice
    members = np.nonzero(merged)[1].astype(np.int32)[ranges_of(starts[context], sizes[context])]
    offsets = offsets_of(sizes[context])
    columns = {
        "query": (context + supports.n_tokens).astype(np.int32),
        "winner": supports.tokens[tied].astype(np.int32),
        "tokens": (offsets, members),
        "multiplicities": (offsets, np.ones(len(members), np.int32)),
        "count": supports.counts[tied],
    }
    return ChoiceTable(make_table(CHOICE_SCHEMA, columns))


def _inside(supports: Supports) -> Bool:
    # whether each token follows each context, shape (n_contexts, n_tokens)
    return law_of(supports) > 0


# Which tokens share the component of each context's support, shape (n_contexts, n_tokens).
def _merge(components: Components, supports: Supports) -> Bool:
    is_token = components.token_of_node < supports.n_tokens
    token = components.token_of_node[is_token]
    context = components.query_of_node[is_token].astype(np.int64) - supports.n_tokens
    inside = _inside(supports)
    component = np.full(inside.shape, -1, np.int64)  # −1: the token is no node of the context
    component[context, token] = np.asarray(components.component_of_node)[is_token]
    of_support = component[np.arange(len(supports)), supports.tokens[supports.offsets[:-1]]][:, None]
    return inside | ((component == of_support) & (of_support >= 0))


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddedLimit(Printed):
    """The limit of softmax(W h) for contexts with given features h, under gradient descent from W = 0.

    If the features separate every support from the rest, and can meet its log-odds, the loss falls to the
    entropy. Otherwise tokens that are inseparable from a support count as part of it, and the loss converges
    to a value above the entropy. ``supports`` are the next tokens of each context, and ``features`` its h,
    shape (n_contexts, dim). ``solved`` has the direction and the finite part with their certificates.
    ``compatibility`` says whether one W has all log-odds. ``vocabulary`` has the names of the tokens.
    """

    supports: Supports
    features: Float64
    solved: SolvedDecoder
    compatibility: Compatibility
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        status = "certified" if self.certified else "uncertified"
        return (
            f"EmbeddedLimit({len(self.supports):,} contexts with {self.features.shape[1]:,} features, "
            f"vocabulary of {self.supports.n_tokens:,}: {status})"
        )

    @property
    def separable(self) -> bool:
        """Whether some W raises every support above the rest; raises ``UncertifiedSolution`` if undecided."""
        return self.solved.separation.feasible

    @property
    def compatible(self) -> bool:
        """Whether some W has the log-odds of every support; raises ``UncertifiedSolution`` if undecided."""
        return self.compatibility.compatible

    @property
    def certified(self) -> bool:
        """Whether direction, finite part, separability and compatibility are all proved."""
        separation = self.solved.separation
        solved = self.solved.hard.certificate.certified and self.solved.soft.certificate.certified
        separated = separation.decided and separation.residual <= BALANCED
        return solved and separated and self.compatibility.decided

    def expect(self) -> "EmbeddedLimit":
        """Return the limit itself if it is certified; otherwise raise ``UncertifiedSolution``."""
        if self.certified:
            return self
        raise UncertifiedSolution(
            f"the decoder's limit is not proved (direction: {self.solved.hard.certificate}; finite part: "
            f"{self.solved.soft.certificate}); the features may be nearly dependent, or the contexts too many"
        )

    @property
    def direction(self) -> Float64:
        """W^mm, shape (n_tokens, dim): W grows like W^mm ln t; 0 if nothing can be separated."""
        return self._block(self.solved.hard.weights)

    @property
    def finite(self) -> Float64:
        """W*, shape (n_tokens, dim): the limit of the part of W that distinguishes tied tokens."""
        return self._block(self.solved.soft.weights)

    @property
    def entropy(self) -> float:
        return self.supports.entropy

    @property
    def loss(self) -> float:
        """The limit of the loss: the entropy if separable and compatible, otherwise above the entropy."""
        return self.solved.soft.loss / self.supports.n_positions

    @property
    def squared_norm(self) -> float:
        """‖W^mm‖², which is also the limit of η · t · (CE − loss)."""
        return float((self.direction**2).sum())

    def predict_proba(self, features: Any) -> Float64:
        """The probabilities of all next tokens in the limit, shape (n_tokens,).

        After a context of the corpus, its support and the tokens inseparable from it have nonzero
        probabilities. Elsewhere the token with the largest growing score has probability 1, or
        ``UncertifiedSolution`` is raised.
        """
        vector = check_floats(np.asarray(features, np.float64), (self.features.shape[1],), "features")
        same = np.flatnonzero((self.features == vector).all(axis=1))
        if len(same):
            members = self.solved.merged[same[0]]
            scores = self.solved.scores[same[0]]
        else:
            members, scores = self._extend(vector)
        probabilities = np.zeros(len(members))
        probabilities[members] = np.exp(scores[members] - scores[members].max())
        return probabilities / probabilities.sum()

    # Which tokens share the limit for features h that no context has, and their finite scores W* h.
    def _extend(self, vector: Float64) -> tuple[Bool, Float64]:
        growing = self.direction @ vector
        # negated, so that a token is a member if a number is NaN
        members = ~(growing < growing.max() - self._error * float(np.linalg.norm(vector)))
        law = law_of(self.supports)[:, members]
        if (law == law[:, :1]).all():  # one token, or tokens that no context distinguishes
            return members, np.zeros(len(members))
        # h as a combination of the contexts that tie all members, since their finite scores are known
        rows = self.solved.merged[:, members].all(axis=1)
        weights = np.linalg.lstsq(self.features[rows].T, vector, rcond=None)[0]
        _, singular, axes = np.linalg.svd(self.features, full_matrices=False)
        # what remains of h may lie outside the span of all features, where W is 0
        left = axes[singular > 0] @ (vector - weights @ self.features[rows])
        if np.linalg.norm(left) > COMBINED_TOLERANCE * np.linalg.norm(vector):
            raise UncertifiedSolution(
                f"{int(members.sum()):,} tokens share the largest growing score for these features, up to "
                f"the error of W^mm ({self._error:.1e} times the length of the features), and no context of "
                "the corpus determines their shares; give features farther from a border"
            )
        return members, weights @ self.solved.scores[rows]

    # Error bound for differences of growing scores, for features of length 1.
    @property
    def _error(self) -> float:
        bounds = self.solved.hard.certificate
        # the bounds are on ‖W^mm‖², so their gap bounds the squared distance to W^mm; ‖e_z − e_z'‖ is √2
        distance = np.sqrt(abs(bounds.upper - bounds.lower))
        rounding = len(self.features[0]) * np.finfo(np.float64).eps * np.sqrt(max(bounds.upper, 0.0))
        return float(np.sqrt(2.0) * (distance + rounding) / self.solved.scale)

    def weights_at(self, step: int, step_size: float = 1.0) -> Float64:
        """W after many steps, W* + W^mm ln(ηt), shape (n_tokens, dim), up to bounded terms outside W*."""
        step = whole_number(step, "step", least=1)
        return self.finite + self.direction * np.log(real_number(step_size, "step_size", above=0) * step)

    def excess_at(self, step: int, step_size: float = 1.0) -> float:
        """The excess of the loss over its limit after many steps, ‖W^mm‖² / (ηt)."""
        step = whole_number(step, "step", least=1)
        return self.squared_norm / (real_number(step_size, "step_size", above=0) * step)

    def loss_at(self, step: int, step_size: float = 1.0) -> float:
        """The loss after many steps: its limit plus :meth:`excess_at`."""
        return self.loss + self.excess_at(step, step_size)

    def explain(self, number: int) -> DecoderExplanation:
        """Explain the limit probabilities after the context with this index."""
        number = whole_number(number, "number", most=len(self.supports) - 1)
        probabilities = self.predict_proba(self.features[number])
        members = np.flatnonzero(self.solved.merged[number])
        order = members[np.argsort(-probabilities[members], kind="stable")]
        pairs = self.supports.pairs_of(number)
        counts = np.zeros(self.supports.n_tokens, np.int64)  # inseparable tokens have no count
        counts[self.supports.tokens[pairs]] = self.supports.counts[pairs]
        scores = self.solved.scores[number, order]
        return DecoderExplanation(
            context=f"context {number}",
            tokens=tuple(name_token(self.vocabulary, token) for token in order.tolist()),
            probabilities=probabilities[order],
            finite=scores - scores.mean(),
            counts=counts[order],
            n_tokens=self.supports.n_tokens,
            alike=int((self.solved.merged == self.solved.merged[number]).all(axis=1).sum()) - 1,
        )

    def to_dict(self) -> dict[str, Any]:
        """The results and proofs as JSON values."""
        return {
            "contexts": len(self.supports),
            "features": self.features.shape[1],
            "tokens": self.supports.n_tokens,
            "positions": self.supports.n_positions,
            "separable": self.separable,
            "compatible": self.compatible,
            "certified": self.certified,
            "entropy": self.entropy,
            "loss": self.loss,
            "squared_norm": self.squared_norm,
        }

    def _block(self, weights: Any) -> Float64:
        # the block (tokens, contexts) of a solver's W, for the features as given, shape (n_tokens, dim)
        table: Any = weights.toarray() if hasattr(weights, "toarray") else weights
        size = self.supports.n_tokens
        return np.asarray(table, np.float64)[:size, size:] / self.solved.scale

    def _blocks(self) -> list[Block]:
        separation, odds = self.solved.separation, self.compatibility
        stuck = int(separation.inseparable.sum())
        apart = "every support is separated" if not stuck else f"{stuck:,} pairs cannot be separated"
        verdict = "one W has all log-odds" if odds.met else f"log-odds contradict by {odds.conflict:.3g}"
        facts = [
            ("separable", f"{apart} (Farkas residual {separation.residual:.1e})"),
            ("compatible", f"{verdict} (missed by {odds.miss:.1e})"),
            ("entropy", f"{self.entropy:.6g} nats per position"),
            ("loss", f"converges to {self.loss:.6g}"),
            ("excess", f"{self.squared_norm:.6g} / (η t) after many steps t of size η"),
        ]
        return [repr(self), Grid("Limit", ["", ""], facts)]


def solve_decoder(
    supports: Supports, features: object, *, vocabulary: Vocabulary | None = None
) -> EmbeddedLimit:
    """Compute the limit of a decoder over contexts with given features under gradient descent.

    ``supports`` has the next tokens of each context, ``features`` one feature vector per context, shape
    (n_contexts, dim), and ``vocabulary`` the names of the tokens. Up to 100,000 pairs of context and token
    can be solved; linearly dependent features can be decided for up to 4,000 pairs.

    Examples
    --------
    >>> from attomaton.theories import count_supports
    >>> limit = solve_decoder(count_supports([[0, 2, 0, 2, 1, 0]], 1), np.eye(3)).expect()
    >>> limit.direction[:, 0].round(4).tolist()
    [-0.3333, -0.3333, 0.6667]
    """
    n_pairs = len(supports) * supports.n_tokens
    if n_pairs > MOST_FEATURE_PAIRS:
        raise UnsupportedOption(
            f"{len(supports):,} contexts and {supports.n_tokens:,} tokens make {n_pairs:,} pairs, more "
            f"than the {MOST_FEATURE_PAIRS:,} that can be solved with given features; give fewer contexts, "
            "or fewer tokens with most_frequent"
        )
    table = check_features(features, len(supports))
    compatibility = find_compatibility(supports, table)
    return EmbeddedLimit(supports, table, solve_supports(supports, table), compatibility, vocabulary)
