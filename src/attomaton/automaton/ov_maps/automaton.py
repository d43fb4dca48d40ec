"""The automaton of a head that writes other tokens than it reads, its coverage, and its explanations.

The head reads *keys* (:mod:`~attomaton.automaton.ov_maps.maps`): an :class:`Automaton` whose tokens are keys
predicts the keys that are read, and :func:`predict_written` maps them to the tokens that are written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.attention import Attention
from attomaton.automaton.automaton import WRITES, Automaton, open_automaton, write_automaton
from attomaton.automaton.drawing import Ranking
from attomaton.automaton.explanation import Explanation, explain_prediction
from attomaton.automaton.generation import choose
from attomaton.automaton.ov_maps.maps import KeyNames, Writing
from attomaton.automaton.ov_maps.settle import Settling
from attomaton.automaton.ov_maps.writers import count_writers
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.runs.coverage import Coverage, show_share
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.stored import StoredRun, open_run
from attomaton.base.artifacts import Building, explained_run
from attomaton.base.artifacts.manifests import RUN
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.borders import trusted
from attomaton.base.errors import InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular, Worded
from attomaton.base.options import whole_number
from attomaton.base.printing import Bar, Block, Grid, blocks_of, count_noun
from attomaton.base.ragged import run_starts, sum_at
from attomaton.base.remote import AnyPath, as_path
from attomaton.base.tables import Float64, Int32, column
from attomaton.corpora.prompts import Context, Names, as_samples, read_context
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.bags import Bags, count_all_tokens
from attomaton.graphs.grouping import pack_pairs
from attomaton.graphs.writing import Reach

# Fields of an `Automaton` that the class itself does not have as attributes.
READ_ATTRIBUTES = ("components", "hard", "soft", "samples")


@dataclass(frozen=True)
class WritingCoverage(Coverage):
    """How much of a corpus a head can write if it writes other tokens than it reads.

    Attributes
    ----------
    reach : Reach
        The share of labels that are in their context, and of labels that a context token writes.
    settling : Settling
        The choice of the key where several keys write a label.
    """

    reach: Reach = field(default_factory=lambda: Reach(0, 0.0, 0.0, 0.0))
    settling: Settling = field(default_factory=lambda: Settling(0, 0, settled=True))

    def _why_not(self) -> str:
        return (
            f"This head can learn nothing: in none of the {self.n_read:,} samples does a token of the "
            "context write the label. Use a longer window, or another map of written tokens."
        )

    def _reached(self) -> list[tuple[str, object]]:
        settling, rounds = self.settling, self.settling.rounds
        n_realisable = round(self.realisable * self.n_read)
        ended = f"{'' if settling.settled else 'not '}final after {count_noun(rounds, 'round')}"
        return [
            ("label in the context", show_share(self.reach.identity)),
            ("realisable (a context token writes the label)", show_share(self.realisable)),
            ("of these, with several such keys", show_share(settling.n_several / max(n_realisable, 1))),
            *([("choice among these keys, a local optimum", ended)] if settling.n_several else []),
        ]


@dataclass(frozen=True)
class WritingExplanation(Explanation):
    """The tokens read in one context, the reasons, and the tokens written; inherited fields describe keys.

    Attributes
    ----------
    written : mapping of int to float
        The probability of each written token to come next.
    writes : mapping of int to int
        The token that each key writes, for the keys that are read.
    token_name : callable
        Returns the text of a token id.
    """

    written: Mapping[int, float] = field(default_factory=dict[int, float])
    writes: Mapping[int, int] = field(default_factory=dict[int, int])
    token_name: Callable[[int], str] = field(default=str, compare=False, repr=False)

    # The text, the probability and the keys of each written token, most probable first.
    def _written_rows(self) -> list[tuple[str, float, str]]:
        writers: dict[int, list[str]] = {}
        for key, token in self.writes.items():
            writers.setdefault(token, []).append(self.name(key))
        ranked = sorted(self.written.items(), key=lambda item: -item[1])
        return [
            (self.token_name(token), probability, " ".join(writers[token])) for token, probability in ranked
        ]

    @property
    def written_lines(self) -> list[str]:
        """One line for each written token, most probable first."""
        return [
            f"writes {token} with probability {probability:.6f}, where it reads {keys}"
            for token, probability, keys in self._written_rows()
        ]

    def _table(self) -> pa.Table:
        table: Any = super()._table()
        writes = {self.name(key): self.token_name(token) for key, token in self.writes.items()}
        written = [writes.get(text, "") for text in table.column("text").to_pylist()]
        return table.append_column("writes", pa.array(written, pa.large_string()))

    def _blocks(self) -> list[Block]:
        rows = [
            (token, Bar(probability, f"{probability:.6f}"), keys)
            for token, probability, keys in self._written_rows()
        ]
        query, rule, *blocks = super()._blocks()
        return [query, rule, Grid("Written", ["token", "probability", "keys that write it"], rows), *blocks]

    def to_dict(self, name: Callable[[int], Any] = int) -> dict[str, Any]:
        """The explanation as JSON values, keys shown by ``name`` and written tokens as texts or ids."""
        tokens: Callable[[int], Any] = int if name is int else self.token_name
        written = [[tokens(token), probability] for token, probability in self.written.items()]
        return {**super().to_dict(name), "written": written}


@dataclass(frozen=True, eq=False, repr=False)
class WritingAutomaton(Tabular, Attention):
    """Hard retrieval and soft composition of a head that writes other tokens than it reads.

    :meth:`predict`, :meth:`sample`, :meth:`generate` and :meth:`score` are about written tokens,
    :meth:`attention` and :meth:`retrieve` about tokens read, and :meth:`explain` shows both. ``reads`` is the
    :class:`~attomaton.Automaton` whose tokens are keys. Its certificates apply to the convex problems that
    remain once a key is chosen for each sample. ``writing`` is the token that each key writes, ``reach`` and
    ``settling`` are those of the coverage, and ``vocabulary`` and ``window`` those of an automaton.
    """

    reads: Automaton
    writing: Writing
    reach: Reach
    settling: Settling
    vocabulary: Vocabulary | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        if self.reads.n_tokens != self.writing.n_keys:
            raise MismatchedParts(
                f"the automaton reads {self.reads.n_tokens} keys, but the map of written tokens has "
                f"{self.writing.n_keys}; use an automaton and a map of the same corpus"
            )

    def __repr__(self) -> str:
        # "2 queries, 4 components" of "Automaton(2 queries, 4 components, 2 tokens)"; its tokens are keys
        size = repr(self.reads).partition("(")[2].rpartition(", ")[0]
        return f"WritingAutomaton({self.writing.name}: {size}, {count_noun(self.n_tokens, 'token')})"

    def __getattr__(self, name: str) -> Any:
        # called only for a missing attribute: an attribute of Automaton is one of `reads`
        if not name.startswith("_") and (hasattr(Automaton, name) or name in READ_ATTRIBUTES):
            raise AttributeError(
                f"the automaton of a head that writes other tokens has no attribute {name}; use "
                f".reads.{name}, which is about the tokens that the head reads"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def table(self, vocabulary: Worded | None = None) -> pa.Table:
        """The table of ``reads`` with the column ``writes``: the token that each key writes."""
        table: Any = self.reads.table(vocabulary)
        written = self.writing.write(column(self.reads.scored_nodes, "token"))
        words = self.vocabulary
        names: Any = written if words is None else [words.tokens[token] for token in written.tolist()]
        return table.append_column("writes", pa.array(names))

    def _blocks(self) -> list[Block]:
        return [repr(self), *blocks_of(self.coverage)]

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return self.writing.n_tokens

    @cached_property
    def coverage(self) -> WritingCoverage:
        """How much of the corpus this head can write."""
        shared = _fields_of(Coverage, self.reads.coverage)
        return WritingCoverage(**shared, reach=self.reach, settling=self.settling)

    def read_bags(self, bags: Bags) -> BatchPrediction:
        """Predict the keys read in many contexts, from the count of each token in each context."""
        return self.reads.predict_bags(self.writing.read_bags(bags))

    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """Predict the tokens written after many contexts, from the count of each token in each context."""
        return predict_written(self.read_bags(bags), self.writing)

    def attention(self, context: Context) -> Float64:
        """The attention weight of each position, shape (len(context),), over all ways of reading it."""
        ids, prediction, _ = self._predict_keys(context)
        bags = prediction.bags
        # All positions of a key have equal weight. A position has the weights of all keys of its token.
        tokens, row = np.unique(self.writing.token_of(bags.token), return_inverse=True)
        weight_of_token = sum_at(row, prediction.probabilities / bags.multiplicity, len(tokens))
        return weight_of_token[np.searchsorted(tokens, ids)]

    def retrieve(self, context: Context) -> Int32:
        """The distinct tokens of the context that are read, ascending, without unknown words."""
        _, prediction, _ = self._predict_keys(context)
        tokens = np.unique(self.writing.token_of(prediction.bags.token[prediction.probabilities > 0]))
        return tokens[tokens < self.n_tokens]

    def explain(self, context: Context) -> WritingExplanation:
        """Explain one context: the tokens read, the tokens they beat, the rule, and the tokens written."""
        _, prediction, names = self._predict_keys(context)
        key_names = KeyNames(self.writing, names)
        explanation = explain_prediction(prediction, key_names, names.unknown, self.reads.graph_of)
        keys = np.array(list(explanation.probabilities), np.int64)
        return WritingExplanation(
            **_fields_of(Explanation, explanation),
            written=predict_written(prediction, self.writing).distribution(),
            writes=dict(zip(keys.tolist(), self.writing.write(keys).tolist(), strict=True)),
            token_name=names,
        )

    # The token counts of the samples that are scored: those whose label some key writes.
    def _reachable(self, samples: Samples) -> Bags:
        n_writers = count_writers(self.writing.read(samples), self.writing)
        reached = samples.take(n_writers > 0)
        if not len(reached):
            raise InvalidSamples(
                "in no sample does a token of the context write the label; use a longer window, or other text"
            )
        return count_all_tokens(reached)

    # The `n` tokens after the prompt, and how many of them were drawn without evidence.
    def _continue(
        self, prompt: Sequence[int], n: int, rng: np.random.Generator | None, window: int | None
    ) -> tuple[tuple[int, ...], int]:
        context = list(prompt)
        n_without_evidence = 0
        for _ in range(n):
            visible = np.array(context if window is None else context[-window:], np.int32)
            prediction = self._predict_ids([visible])
            context.append(int(prediction.bags.token[choose(prediction.probabilities, rng)]))
            n_without_evidence += bool(prediction.no_evidence[0])
        return tuple(context[len(prompt) :]), n_without_evidence

    def save(
        self, path: str | AnyPath, *, about: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> AnyPath:
        """Write a run folder: that of ``reads``, with the map of written tokens in ``writes.json``."""
        with build_at(path, RUN, OWNED, overwrite=overwrite) as building:
            fill_writing(building, self, about or {})
        return as_path(path)

    @classmethod
    def load(cls, path: str | AnyPath, *, whole: bool = False) -> "WritingAutomaton":
        """Open the run folder of a head that writes; ``whole`` is that of :meth:`Automaton.load`."""
        run = open_run(path)
        if WRITES not in run.run.records:
            raise UnsupportedOption(f"the run {path} has no map of written tokens; use Automaton.load")
        return open_writing(run, whole=whole)

    def _ranking(self, query: int) -> Ranking:
        raise UnsupportedOption(
            "a head that writes other tokens has scores only for the tokens that it reads; draw these with "
            f".reads.plot({query})"
        )

    # The token ids of a context, the prediction of the keys that are read, and the names of tokens.
    def _predict_keys(self, context: Context) -> tuple[Int32, BatchPrediction, Names]:
        ids, names = read_context(context, self.n_tokens, self.vocabulary)
        return ids, self.read_bags(count_all_tokens(as_samples([ids], self.n_tokens))), names


# The values of a result in the fields of its base class.
def _fields_of(base: Any, result: Any) -> dict[str, Any]:
    return {field.name: getattr(result, field.name) for field in fields(base)}


def predict_written(key_prediction: BatchPrediction, writing: Writing) -> BatchPrediction:
    """The probabilities of written tokens; a token has the component of its most probable key."""
    bags = key_prediction.bags
    samples = trusted(
        Samples,
        values=writing.write(bags.samples.values),
        starts=bags.samples.starts,
        stops=bags.samples.stops,
        labels=bags.samples.labels,
        n_tokens=bags.samples.n_tokens,
    )
    if not len(bags.token):
        return replace(key_prediction, bags=replace(bags, samples=samples))
    tokens = writing.write(bags.token)
    pairs = pack_pairs(bags.sample, tokens)
    # sorted by sample and written token, the most probable key of each pair first
    order = np.lexsort((-key_prediction.probabilities, pairs))
    starts = run_starts(pairs[order])
    best = order[starts]
    multiplicity = np.add.reduceat(bags.multiplicity[order], starts)
    return BatchPrediction(
        Bags(samples, bags.sample[best], tokens[best], multiplicity),
        key_prediction.component[best],
        np.logical_or.reduceat(key_prediction.is_node[order], starts),
        np.add.reduceat(key_prediction.probabilities[order], starts),
    )


def fill_writing(building: Building, automaton: WritingAutomaton, about: Mapping[str, Any]) -> None:
    """Write the run of `reads`, with the record `writes.json` that :func:`open_writing` reads."""
    words = automaton.vocabulary
    record = {
        "name": automaton.writing.name,
        "table": automaton.writing.table.tolist(),
        "reach": asdict(automaton.reach),
        "settling": asdict(automaton.settling),
        "window": automaton.window,
        # with one way, keys are tokens, so the run of `reads` has this vocabulary already
        "vocabulary": None if words is None or automaton.writing.n_ways == 1 else words.to_record(),
    }
    write_automaton(building, automaton.reads, about, {WRITES: record})


def open_writing(run: StoredRun, *, whole: bool = False) -> WritingAutomaton:
    """The automaton of a head that writes, from an open run; errors in `writes.json` name the folder."""
    record: Any = run.run.records[WRITES]
    with explained_run(run.run.folder):
        writing = Writing(np.array(record["table"]), str(record["name"]))
        words: Any = record["vocabulary"]
        vocabulary = run.vocabulary if words is None else Vocabulary.from_record(words)
        if vocabulary is not None and len(vocabulary) != writing.n_tokens:
            raise MismatchedParts("the vocabulary and the table in writes.json have different sizes")
        window: Any = record["window"]
        window = None if window is None else whole_number(window, "window", least=1)
        reach = Reach(**record["reach"])
        settling = Settling(**record["settling"])
        reads = open_automaton(run, whole=whole)
        return WritingAutomaton(reads, writing, reach, settling, vocabulary, window)
