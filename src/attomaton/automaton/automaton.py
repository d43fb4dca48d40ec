"""The automaton that a self-attention layer becomes under gradient descent: hard retrieval, soft composition.

Under the query (the last token of the context), the highest component in the context is retrieved. The next
token is drawn from its tokens, token j with odds m_j e^{s_j}: its count in the context, times e to its soft
score.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.attention import Attention
from attomaton.automaton.drawing import MOST_RANKED, Ranking, check_ranked
from attomaton.automaton.explanation import Explanation, explain_prediction
from attomaton.automaton.finite import FiniteAttention
from attomaton.automaton.prediction import BatchPrediction, predict_from_scores
from attomaton.automaton.runs import storage
from attomaton.automaton.runs.coverage import Coverage, measure_coverage
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.nodes import Nodes, NodeScores, Outline
from attomaton.automaton.runs.numbering import nodes_to_store, order_to_store
from attomaton.automaton.runs.query_index import index_of
from attomaton.automaton.runs.stored import StoredRun, open_run
from attomaton.base.artifacts import Building, explained
from attomaton.base.artifacts.manifests import RUN
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.borders import trusted
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number, whole_number
from attomaton.base.printing import Block, blocks_of
from attomaton.base.ragged import odds_of, shares_of
from attomaton.base.remote import AnyPath, as_path
from attomaton.base.tables import Float64, Int64, Integers, column
from attomaton.corpora.prompts import Context
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.bags import Bags
from attomaton.graphs.components import count_evidence
from attomaton.graphs.partitions import cut_partitions
from attomaton.graphs.paths import QueryGraph, graph_of
from attomaton.solvers.solved import Solved

# Accuracy of a step in ln t: far finer than held-out text can distinguish.
STEP_RTOL = 1e-4

# The name of the record that only the run of a head that writes other tokens has (`ov_maps` opens it).
WRITES = "writes"


@dataclass(frozen=True, eq=False, repr=False)
class Automaton(Tabular, Solved, Attention):
    """Hard retrieval and soft composition for every query: the result of :func:`learn`.

    Parameters
    ----------
    components : Components
        The components of each query, and the order between them.
    hard : HardSolution
        Hard scores, which decide between components that no path orders.
    soft : SoftSolution
        Soft scores, which give the odds of the tokens in a component.
    vocabulary : Vocabulary, optional
        The text of each token id. With a vocabulary, a context may be a text.
    samples : Samples, optional
        The training samples, which :meth:`at` needs. They are not saved with the automaton.
    window : int, optional
        The longest context of the samples. :meth:`score` cuts new text into contexts of this length.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1]))
    >>> auto.predict_proba([1, 0, 2]).round(6).tolist(), auto.explain([1, 0, 2]).rule.name
    ([0.5, 0.5, 0.0], 'DETERMINED')
    >>> auto
    Automaton(1 query, 2 components, 3 tokens)
    """

    vocabulary: Vocabulary | None = None
    samples: Samples | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocabulary is not None and len(self.vocabulary) != self.n_tokens:
            raise MismatchedParts(
                f"the vocabulary has {len(self.vocabulary)} tokens, but the components have {self.n_tokens}; "
                "use the vocabulary and the components of the same corpus"
            )
        if self.window is not None:
            whole_number(self.window, "window", least=1)

    def _table(self) -> pa.Table:
        return self.scored_nodes

    @property
    def scored_nodes(self) -> pa.Table:
        """One row per node: its query and token, its component, its hard score and its soft score."""
        nodes: Any = self.components.nodes
        for name in ("hard", "soft"):
            nodes = nodes.append_column(name, getattr(self, name).scores.column("score"))
        return nodes

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def _blocks(self) -> list[Block]:
        return [repr(self), *blocks_of(self.coverage)]

    @cached_property
    def coverage(self) -> Coverage:
        """The share of the corpus that the theory covers."""
        return measure_coverage(self, self.vocabulary)

    def predict_proba(self, context: Context, *, step: float | None = None) -> Float64:
        """The probability of each token to come next, shape (n_tokens,); ``step`` is that of :meth:`at`."""
        return super().predict_proba(context) if step is None else self.at(step).predict_proba(context)

    def at(self, step: float, *, samples: Samples | None = None, step_size: float = 1.0) -> FiniteAttention:
        """Attention after ``step`` steps of plain gradient descent from zero, instead of in the limit.

        The automaton must have been learned with orthonormal embeddings and all edges. If it was loaded from
        a folder, give the training ``samples``. ``step_size`` is the step size for the mean loss over
        realisable samples. The first call computes the trajectory (:func:`~attomaton.fast_forward`), and
        later calls use it.
        """
        step = real_number(step, "step", least=0)
        step_size = real_number(step_size, "step_size", above=0)
        corpus = self.samples if samples is None else samples
        if corpus is None:
            raise MismatchedParts(
                "this automaton has no training samples, since a run folder does not store them; pass them "
                "as at(step, samples=…)"
            )
        if self.embedded:
            raise UnsupportedOption(
                "at(step) needs an automaton learned without embeddings, and this one has embeddings; use "
                "fast_forward(samples, embeddings=…).scores_at(step)"
            )
        cache = self._last_stop
        if cache.get("training") != (id(corpus), step_size):
            from attomaton.trajectory.forward import fast_forward  # loads scipy

            path = fast_forward(
                corpus, components=self.components, step_size=step_size, to=1.0, rtol=STEP_RTOL
            )
            cache.clear()
            # the samples are kept alive, so that no other samples get their id
            cache.update(training=(id(corpus), step_size), samples=corpus, path=path)
        if cache.get("step") != step:
            scores = cache["path"].scores_at(step)
            background = np.zeros(self.n_tokens)  # gradient descent starts from zero
            attention = FiniteAttention(scores, background, self.vocabulary, self.window)
            cache.update(step=step, attention=attention)
        return cache["attention"]

    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """Predict the next tokens of many contexts, from the count of each token in each context."""
        return predict_from_scores(bags, self.look_up(bags.samples.queries[bags.sample], bags.token))

    def look_up(self, queries: Integers, tokens: Integers) -> NodeScores:
        """The component and the scores of each pair of a query and a token, arrays of shape (n_pairs,)."""
        return self._nodes.find(queries, tokens)

    def graph_of(self, query: int) -> QueryGraph:
        """The graph of one query: its nodes, its components, their order, and its edges."""
        return graph_of(self.components, whole_number(query, "query", most=max(self.n_tokens - 1, 0)))

    def explain(self, context: Context) -> Explanation:
        """Explain one context: which tokens are retrieved, which tokens they beat, and which rule decided."""
        prediction, names = self._predict_one(context)
        return explain_prediction(prediction, names, names.unknown, self.graph_of)

    def of_queries(self, queries: Integers) -> "Automaton":  # noqa: ARG002
        """An automaton in memory that contains at least these queries."""
        return self

    def partitions(self) -> Iterator["Automaton"]:
        """Yield automata in memory, each with a range of the queries, in ascending order."""
        yield self

    @cached_property
    def index(self) -> pa.Table:
        """One row per query: the numbers of its samples, and of its rows in each table of a run."""
        return index_of(self.components, self.soft.choices)

    def outline(self, queries: Integers) -> Outline:  # noqa: ARG002
        """The nodes, the order and the scores of at least these queries; edges may be missing."""
        return Outline(self.components, self._nodes.hard, self._nodes.soft, np.arange(len(self.components)))

    def outlines(self, queries: Integers) -> Iterator[tuple[Int64, Outline]]:
        """Yield the ascending queries in blocks, each block with the outline of its queries."""
        yield np.asarray(queries, np.int64), self.outline(queries)

    def scan(self, table: str, queries: Integers) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield rows of ``"edges"``, ``"nodes"``, ``"order"`` or ``"choices"`` for at least these queries."""
        if table == "nodes":
            yield self.scored_nodes
        elif table == "order":
            order: Any = self.components.order
            query: Any = pa.array(self.components.query_of[column(order, "above")])
            yield order.add_column(0, "query", query)
        else:
            yield {"edges": self.components.edges.rows, "choices": self.soft.choices.rows}[table]

    def save(
        self, path: str | AnyPath, *, about: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> AnyPath:
        """Write a run folder, which must be new or empty; with ``overwrite``, replace an earlier run."""
        with build_at(path, RUN, OWNED, overwrite=overwrite) as building:
            write_automaton(building, self, about or {})
        return as_path(path)

    @classmethod
    def load(cls, path: str | AnyPath, *, whole: bool = False) -> "Automaton":
        """Open a run folder. Its predictions equal those of the saved automaton to the last bit.

        A large run is read on demand, query by query. With ``whole``, it is loaded into memory.
        """
        run = open_run(path)
        if WRITES in run.run.records:
            raise UnsupportedOption(
                f"the run in {path} was learned with learn_writing; open it with "
                "attomaton.automaton.load_attention, and use the attribute .reads of the result"
            )
        return open_automaton(run, whole=whole)

    def _ranking(self, query: int) -> Ranking:
        # the nodes of this query are consecutive rows
        first, stop = np.searchsorted(self.components.query_of_node, [query, query + 1])
        check_ranked(self.name(query), stop - first)
        hard = self._nodes.hard[first:stop]
        soft = self._nodes.soft[first:stop]
        tokens = self.components.token_of_node[first:stop]
        component = self.components.component_of_node[first:stop]
        group = np.unique(component, return_inverse=True)[1]  # components numbered from 0
        n_groups = int(group.max()) + 1
        shares = shares_of(group, odds_of(group, soft, n_groups), n_groups)
        evidence = count_evidence(self.components, np.array([query]))[first:stop]
        # by hard score, then soft score, evidence and id; rounded, so that ties up to rounding are ties
        best = np.lexsort((tokens, -evidence, -soft.round(9), -hard.round(9)))[:MOST_RANKED]
        is_tied = np.bincount(group)[group[best]] > 1
        return Ranking(
            query=self.name(query),
            names=[self.name(int(token)) for token in tokens[best]],
            scores=hard[best].tolist(),
            notes=[f"{share:.0%}" if tied else "" for share, tied in zip(shares[best], is_tied, strict=True)],
            total=int(stop - first),
            axis="hard score" + " (percent: the odds inside a tie)" * bool(is_tied.any()),
        )

    @cached_property
    def _nodes(self) -> Nodes:
        return Nodes.of(self.components, self.hard, self.soft)

    @cached_property
    def _last_stop(self) -> dict[str, Any]:
        return {}  # of the last call of ``at``: training, samples, path, step, attention


def write_automaton(
    building: Building,
    automaton: Automaton,
    about: Mapping[str, Any],
    records: Mapping[str, Any] | None = None,
) -> None:
    """Write the run of an automaton in memory; ``about`` opens the manifest, ``records`` are JSON files."""
    hard = automaton.hard
    soft = automaton.soft
    components = automaton.components
    edges = components.edges
    tables = {
        "edges": edges.rows,
        "nodes": nodes_to_store(components, column(hard.scores, "score"), column(soft.scores, "score")),
        "order": order_to_store(components, column(hard.multipliers, "multiplier")),
        "choices": soft.choices.rows,
    }
    borders = cut_partitions(edges.queries, edges.n_tokens)
    with explained(building.folder):
        entries = storage.write_tables(building.folder, tables, borders)
    own_records = storage.records_of_run(automaton.vocabulary, automaton.coverage)
    weights = {"hard/weights": hard.weights, "soft/weights": soft.weights} if automaton.embedded else {}
    storage.finish_run(
        building,
        entries=entries,
        index=automaton.index,
        borders=borders,
        n_tokens=edges.n_tokens,
        proofs=storage.Proofs(hard.certificate, soft.certificate, soft.loss, soft.ridge, soft.free),
        arrays={name: np.asarray(array) for name, array in weights.items()},
        records={**own_records, **(records or {})},
        about=about,
    )


class StoredAutomaton(StoredRun, Automaton):  # pyright: ignore[reportIncompatibleVariableOverride]
    """An automaton that reads its run folder on demand, query by query."""

    def of_queries(self, queries: Integers) -> Automaton:
        return self.in_memory(self.read_solved(queries))

    def partitions(self) -> Iterator[Automaton]:
        return map(self.in_memory, self.read_partitions())

    def in_memory(self, solved: Solved) -> Automaton:
        """An automaton of solved queries of this run, without their samples, which a run does not store."""
        return trusted(
            Automaton, vocabulary=self.vocabulary, samples=None, window=self.window, **vars(solved)
        )

    def _ranking(self, query: int) -> Ranking:
        return self.of_queries(np.array([query]))._ranking(query)


def open_automaton(run: StoredRun, *, whole: bool = False) -> Automaton:
    """The automaton of an open run: in memory if the run is small or `whole` is true, else on demand."""
    stored = trusted(StoredAutomaton, **vars(run))
    return stored.in_memory(stored.solved) if whole or run.is_small else stored
