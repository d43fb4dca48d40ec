"""The automaton that gradient descent makes of a self-attention layer: hard retrieval, then soft composition.

Under the query (the last context token) the highest component present is retrieved; the next token is then
drawn from its tokens with Luce odds m_j e^{s_j}.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.artifacts import Run, write_run
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import MismatchedParts, TokenOutOfRange, UnsupportedOption
from attomaton.graphs.bags import count_tokens
from attomaton.graphs.components import Components
from attomaton.hard.solve import HardSolution
from attomaton.limit import storage
from attomaton.limit.coverage import Coverage, measure_coverage
from attomaton.limit.evidence import trace_beaten
from attomaton.limit.explanation import Explanation, Rule
from attomaton.limit.finite import FiniteAttention
from attomaton.limit.reading import Context, Reading, read_context
from attomaton.limit.scoring import Score, mix_uniform, score_prediction
from attomaton.limit.showing import Shown, render_automaton
from attomaton.limit.stopped import Followed
from attomaton.options import LARGEST, real_number, whole_number
from attomaton.soft.solve import SoftSolution
from attomaton.tables import Float64, Int32, Int64, column

TIE = 1e-9
"""Hard scores closer than this count as equal: they are exact to rounding, and rational, so ties are real."""


@dataclass(frozen=True, eq=False)
class _Reading(Reading):
    """A context with the components of its tokens."""

    component: Int64  # of the seen tokens only
    retrieved: Int64  # components, rising; empty if nothing is known about the query


class Automaton:
    """Hard retrieval and soft composition for every query.

    Parameters
    ----------
    components : Components
        Who ties and who precedes whom.
    hard : HardSolution
        Its scores decide between components that no path orders.
    soft : SoftSolution
        Its scores give the odds inside a component.
    vocabulary : Vocabulary, optional
        Lets contexts be given as text.
    samples : Samples, optional
        What it was learned from, for :meth:`at`; not saved with the automaton.

    Notes
    -----
    A context is a text (with a vocabulary), a sequence of tokens as strings, or a sequence of token ids. It
    may be longer than the window of the corpus: no part of it is cut off.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> comps = at.find_components(at.extract_edges(samples))
    >>> auto = at.Automaton(comps, at.solve_graph_svm(comps), at.solve_luce(samples, comps), samples=samples)
    >>> auto.retrieve([1, 0, 2]).tolist(), auto.predict_proba([1, 0, 2]).round(6).tolist()
    ([0, 1], [0.5, 0.5, 0.0])
    >>> auto.attention([1, 1, 0, 2]).round(3).tolist()  # each 1 weighs as much as the 0
    [0.333, 0.333, 0.333, 0.0]
    >>> auto.explain([1, 0, 2]).rule.name, auto.name(1), auto.sample([1, 2], np.random.default_rng(0))
    ('DETERMINED', '1', 1)
    >>> auto.at(step=20).predict_proba([1, 0, 2]).round(2).tolist()  # training stopped early
    [0.47, 0.51, 0.02]
    >>> round(auto.score(samples).log_loss, 4)  # ln 2, ln 2 and 0
    0.4621
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     at.Automaton.load(auto.save(folder))
    Automaton(1 queries, 2 components, 3 tokens)
    """

    def __init__(
        self,
        components: Components,
        hard: HardSolution,
        soft: SoftSolution,
        vocabulary: Vocabulary | None = None,
        samples: Samples | None = None,
    ) -> None:
        _check_parts(components, hard, soft)
        _check_vocabulary(vocabulary, components.edges.n_tokens)
        self.components = components
        self.hard = hard
        self.soft = soft
        self.vocabulary = vocabulary
        self.samples = samples
        self._followed: Followed | None = None

    def __repr__(self) -> str:
        return (
            f"Automaton({len(self.components.queries):,} queries, {len(self.components):,} components, "
            f"{self.n_tokens:,} tokens)"
        )

    def _repr_html_(self) -> str:
        return render_automaton(self)

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return self.components.edges.n_tokens

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the corpus the theory speaks about."""
        return measure_coverage(self.components, self.hard, self.soft)

    def name(self, token: int) -> str:
        """The token as text, or its id where there is no vocabulary."""
        token = whole_number(token, "token", least=-LARGEST)
        if not 0 <= token < self.n_tokens:
            raise TokenOutOfRange(
                f"token {token} is not in 0 … {self.n_tokens - 1}; give an id of this vocabulary"
            )
        return str(token) if self.vocabulary is None else self.vocabulary.tokens[token]

    def predict_proba(self, context: Context, *, step: float | None = None) -> Float64:
        """The chance of every token to be the next one, shape (n_tokens,).

        With ``step``, that of training stopped there: ``at(step).predict_proba(context)``.
        """
        if step is not None:
            return self.at(step).predict_proba(context)
        return self._read(context).chances(self.n_tokens)

    def at(self, step: float, *, samples: Samples | None = None, step_size: float = 1.0) -> FiniteAttention:
        """Attention after ``step`` steps of plain gradient descent from zero, instead of in the limit.

        Every token of a context keeps some chance, so this is what generalises; tokens and queries that no
        sample shows score 0, as at the start. The trajectory (:func:`~attomaton.fast_forward`) is computed at
        the first call and kept for the next ones. For automata learned without embeddings and with all edges.

        Parameters
        ----------
        step : float
            t.
        samples : Samples, optional
            What the automaton was learned from; needed if it was loaded from a folder.
        step_size : float
            η, for the loss that is the mean over realisable samples.
        """
        step, step_size = real_number(step, "step", least=0), real_number(step_size, "step_size", above=0)
        given = self.samples if samples is None else samples
        if given is None:
            raise MismatchedParts(
                "this automaton does not hold the samples it was learned from; give them: at(step, samples=…)"
            )
        if isinstance(self.hard.weights, np.ndarray):
            raise UnsupportedOption(
                "this automaton was learned with embeddings, which it does not hold; follow training with "
                "fast_forward(samples, embeddings=…) and read scores_at(step)"
            )
        if self._followed is None or not self._followed.serves(given, step_size):
            self._followed = Followed(given, self.components, step_size)
        return self._followed.at(step, self.vocabulary)

    def attention(self, context: Context) -> Float64:
        """The attention weight of every position, shape (len(context),)."""
        return self._read(context).attention()

    def retrieve(self, context: Context) -> Int32:
        """The distinct tokens of the context that attention retrieves, rising."""
        reading = self._read(context)
        return reading.tokens[reading.probabilities > 0]

    def sample(self, context: Context, rng: np.random.Generator) -> int:
        """Draw the next token."""
        reading = self._read(context)
        return int(rng.choice(reading.tokens, p=reading.probabilities))

    def explain(self, context: Context) -> Explanation:
        """What is retrieved, what it beat and on what evidence, and which rule answered."""
        reading = self._read(context)
        beaten, incomparable = (), ()
        if len(reading.retrieved):
            beaten, incomparable = trace_beaten(
                self.components,
                int(reading.ids[-1]),
                reading.retrieved.tolist(),
                {int(number): self._present(reading, int(number)) for number in np.unique(reading.component)},
            )
        taken = reading.probabilities > 0
        return Explanation(
            context=tuple(reading.ids.tolist()),
            rule=_rule(reading, bool(incomparable) or len(reading.retrieved) > 1),
            retrieved=tuple(self._present(reading, int(number)) for number in reading.retrieved),
            probabilities=dict(
                zip(reading.tokens[taken].tolist(), reading.probabilities[taken].tolist(), strict=True)
            ),
            beaten=beaten,
            incomparable=incomparable,
            unseen=tuple(reading.tokens[~reading.seen].tolist()),
        )

    def show(self, context: Context) -> Shown:
        """The same to be looked at: a notebook draws it, a terminal prints it.

        Examples
        --------
        >>> import attomaton as at
        >>> auto = at.learn(at.Samples.from_lists([[0, 1, 3], [1, 0, 3], [1, 2, 3]], [0, 1, 1]))
        >>> auto.show([0, 2, 1, 3])
        query 3: determined (one component precedes every other component of the context: the theorem decides)
        [0] 2 [1] 3
          0  0.500000  ##########
          1  0.500000  ##########
        beats 2: direct, support 1: 1 → 2 ×1
        beats 3: direct, support 3: 1 → 3 ×2, 0 → 3 ×1
        """
        return Shown(self.explain(context), self.name)

    def score(self, samples: Samples, *, epsilon: float = 0.0) -> Score:
        """Log-loss and top-1 on the realisable samples among these.

        The limit gives some labels of new text no chance at all, so that the log-loss is infinite; with
        ``epsilon`` it is that of (1 − ε) · automaton + ε · uniform over the context, which is ours, not the
        theory's (:func:`~attomaton.limit.scoring.fit_epsilon` chooses it).
        """
        from attomaton.limit.batch import predict_bags  # which asks automata, so only here

        return score_prediction(mix_uniform(predict_bags(self, count_tokens(samples)), epsilon))

    def save(
        self, path: str | Path, *, about: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> Path:
        """Write a run folder: Parquet, safetensors, JSON; ``about`` joins the manifest.

        The folder must be new or empty, or hold an earlier run, which ``overwrite`` replaces as a whole.
        """
        return write_run(path, describe_run(self, about or {}), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Automaton":
        """Read a run folder back; its predictions are the same to the last bit."""
        return cls(*storage.load(path))

    def _read(self, context: Context) -> _Reading:
        ids = read_context(context, self.n_tokens, self.vocabulary)
        tokens, multiplicity = np.unique(ids, return_counts=True)
        places, seen = self.components.rows(np.full(len(tokens), ids[-1]), tokens)
        rows = places[seen]
        component = self.components.component_of_node[rows]
        chances = np.zeros(len(tokens))
        if not len(rows):
            chances = multiplicity / len(ids)
            return _Reading(ids, tokens, multiplicity, seen, chances, component, component)
        hard, soft = self._scores[0][rows], self._scores[1][rows]
        taken = hard >= hard.max() - TIE
        odds = np.where(taken, multiplicity[seen] * np.exp(soft - soft[taken].max()), 0.0)
        chances[seen] = odds / odds.sum()
        retrieved = np.unique(component[taken])
        return _Reading(ids, tokens, multiplicity, seen, chances, component, retrieved)

    def _present(self, reading: _Reading, component: int) -> tuple[int, ...]:
        return tuple(reading.tokens[reading.seen][reading.component == component].tolist())

    @cached_property
    def _scores(self) -> tuple[Float64, Float64]:
        return column(self.hard.scores, "score"), column(self.soft.scores, "score")


def describe_run(automaton: Automaton, about: Mapping[str, Any]) -> Run:
    """An automaton as a run folder holds it."""
    parts = (automaton.components, automaton.hard, automaton.soft)
    return storage.describe(*parts, automaton.vocabulary, automaton.coverage, about)


def _check_parts(components: Components, hard: object, soft: object) -> None:
    """The solutions must be of these components: one score for each node, in the same kind of space."""
    nodes = components.nodes.select(["query", "token"])
    spaces: set[type] = set()
    for part, kind in ((hard, HardSolution), (soft, SoftSolution)):
        if not isinstance(part, kind) or not part.scores.select(["query", "token"]).equals(nodes):
            raise MismatchedParts(
                f"the {kind.__name__} given is not one of these components; "
                "give Automaton(components, hard, soft), both solved from the same components"
            )
        spaces.add(type(part.weights))
    if isinstance(hard, HardSolution) and not np.array_equal(
        hard.components.component_of_node, components.component_of_node
    ):
        raise MismatchedParts(
            "the embeddings merge some of these components; give Automaton(hard.components, hard, soft)"
        )
    if len(spaces) > 1:
        raise MismatchedParts("only one of hard and soft was solved with embeddings; give both or neither")


def _check_vocabulary(vocabulary: Vocabulary | None, n_tokens: int) -> None:
    if vocabulary is not None and len(vocabulary) != n_tokens:
        raise MismatchedParts(
            f"the vocabulary has {len(vocabulary)} tokens and the components {n_tokens}; give one token for "
            "each id"
        )


def _rule(reading: _Reading, undecided: bool) -> Rule:
    if not len(reading.retrieved):
        return Rule.BACK_OFF
    if undecided:
        return Rule.INCOMPARABLE
    return Rule.DETERMINED if reading.seen.all() else Rule.UNSEEN_IGNORED
