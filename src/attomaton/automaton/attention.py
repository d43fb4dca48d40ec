"""What every attention layer can do with a context, whatever its scores: predict, generate, score, draw.

A subclass defines the size of its vocabulary (``n_tokens``), how to predict a batch of contexts
(``predict_bags``), how to explain one prediction (``explain``), and which tokens a query prefers
(``_ranking``):
:class:`~attomaton.automaton.automaton.Automaton` in the limit,
:class:`~attomaton.automaton.finite.FiniteAttention` with finite scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from attomaton.automaton.context_view import ContextView
from attomaton.automaton.drawing import Ranking, draw_positions, draw_ranking
from attomaton.automaton.explanation import Explanation
from attomaton.automaton.generation import MOST_GENERATED, Generation, GrowingContext
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import Score, mix_uniform, score_prediction
from attomaton.base.errors import TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.base.options import LARGEST_WHOLE, make_rng, whole_number
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, Int32
from attomaton.corpora.prompts import Context, Names, as_samples, read_context
from attomaton.corpora.samples import WINDOW, Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.encoders import unknown_token
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.bags import Bags, count_all_tokens, count_tokens

if TYPE_CHECKING:
    from attomaton.corpora.readers.corpus import ReadingOptions


class Attention(ABC):
    """A layer that gives every token of a context the probability that it comes next.

    A context is a text (with a vocabulary), a sequence of tokens as strings, or a sequence of token ids. It
    may be longer than the window of the corpus: nothing is cut off.

    A word outside the vocabulary is an unseen token: the samples contain nothing about it. The limit ignores
    such words, and finite scores give them the background score 0. If there is no evidence about the query,
    every position has equal weight, including theirs. An explanation lists them as ``unknown``.
    """

    vocabulary: Vocabulary | None
    window: int | None = None
    """The longest context of the samples, if known."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """Size of the vocabulary."""

    @abstractmethod
    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """Predict the next tokens of many contexts, from the count of each token in each context."""

    @abstractmethod
    def explain(self, context: Context) -> Explanation:
        """Explain one context: which tokens are retrieved, and which rule decided."""

    def predict_samples(self, samples: Samples) -> BatchPrediction:
        """Predict the next token of every context; labels are ignored, and unknown ids are unseen tokens."""
        return self.predict_bags(count_all_tokens(samples))

    def predict(self, context: Context) -> dict[Any, float]:
        """Map each possible next token, a text or an id, to its probability, the most probable one first."""
        return self.predict_batch([context])[0]

    def predict_batch(self, contexts: Iterable[Context]) -> list[dict[Any, float]]:
        """Apply :meth:`predict` to many contexts of any length."""
        check_many(contexts)
        read = [read_context(context, self.n_tokens, self.vocabulary) for context in contexts]
        prediction = self._predict_ids([ids for ids, _ in read])
        borders = group_borders(prediction.bags.sample, len(read))
        answers: list[dict[Any, float]] = []
        for (_, names), first, stop in zip(read, borders[:-1], borders[1:], strict=True):
            tokens = prediction.bags.token[first:stop]
            probabilities = prediction.probabilities[first:stop]
            ranked = np.argsort(-probabilities, kind="stable")
            positive = ranked[probabilities[ranked] > 0].tolist()
            answers.append({names.key(int(tokens[row])): float(probabilities[row]) for row in positive})
        return answers

    def predict_proba(self, context: Context) -> Float64:
        """The probability of each token to come next, shape (n_tokens,); unknown words have the remainder."""
        prediction = self._predict_one(context)[0]
        in_vocabulary = prediction.bags.token < self.n_tokens
        probabilities = np.zeros(self.n_tokens)
        probabilities[prediction.bags.token[in_vocabulary]] = prediction.probabilities[in_vocabulary]
        return probabilities

    def attention(self, context: Context) -> Float64:
        """The attention weight of each position of the context, shape (len(context),)."""
        prediction = self._predict_one(context)[0]
        by_token = prediction.probabilities / prediction.bags.multiplicity  # each position of a token
        return by_token[np.searchsorted(prediction.bags.token, prediction.bags.samples.values)]

    def retrieve(self, context: Context) -> Int32:
        """The distinct tokens of the context that may come next, ascending, without unknown words."""
        prediction = self._predict_one(context)[0]
        tokens = prediction.bags.token
        return tokens[(prediction.probabilities > 0) & (tokens < self.n_tokens)]

    def sample(self, context: Context, rng: np.random.Generator | int | None = None) -> int:
        """Draw the id of the next token; ``rng`` is a generator or a seed, None gives a fresh generator."""
        prediction = self._predict_one(context)[0]
        possible = (prediction.bags.token < self.n_tokens) & (prediction.probabilities > 0)
        if not possible.any():
            raise UnknownToken(
                "only words outside the vocabulary can come next, and these have no id; use generate, which "
                "returns texts"
            )
        weights = prediction.probabilities[possible]
        return int(make_rng(rng).choice(prediction.bags.token[possible], p=weights / weights.sum()))

    def generate(
        self,
        prompt: Context,
        n: int = 20,
        *,
        seed: np.random.Generator | int | None = 0,
        greedy: bool = False,
        window: int | None = None,
    ) -> Generation:
        """Continue a prompt: draw the next token and append it, ``n`` times.

        Attention retrieves only tokens of its context, so every generated token is in the prompt. If there is
        no evidence about the last token, every position is equally likely by convention, and an unknown word
        may be copied. The attribute ``no_evidence`` of the result counts such draws.

        ``seed`` is a generator or a seed; None gives a different text at each call. With ``greedy``, the most
        probable token is chosen each time, the one with the lowest id in a tie. With ``window``, attention
        sees only that many of the last tokens.
        """
        n = whole_number(n, "n", most=MOST_GENERATED)
        window = None if window is None else whole_number(window, "window", least=1)
        ids, names = read_context(prompt, self.n_tokens, self.vocabulary)
        tokens, no_evidence = self._continue(ids.tolist(), n, None if greedy else make_rng(seed), window)
        return Generation(tuple(ids.tolist()), tokens, no_evidence, names.unknown, names)

    # The ids of n generated tokens, and how many were drawn without evidence; without rng, greedy.
    def _continue(
        self, prompt: Sequence[int], n: int, rng: np.random.Generator | None, window: int | None
    ) -> tuple[tuple[int, ...], int]:
        return GrowingContext(prompt, lambda context: self._predict_ids([context]), window).run(n, rng)

    def show(self, context: Context) -> ContextView:
        """Show the explanation of one context: a notebook draws it, a terminal prints it."""
        return ContextView(self.explain(context))

    def plot(self, query: str | int, ax: Any = None) -> Any:
        """Draw the tokens that attention prefers under a query, a text or an id; return matplotlib axes."""
        return draw_ranking(self._ranking(self._find_token(query)), ax)

    def plot_context(self, context: Context, ax: Any = None) -> Any:
        """Draw the attention on the last positions of a context; return the matplotlib axes."""
        explanation = self.explain(context)
        names = [explanation.name(token) for token in explanation.context]
        return draw_positions(names, self.attention(context).tolist(), explanation.rule.words, ax)

    @abstractmethod
    def _ranking(self, query: int) -> Ranking:
        """The tokens that attention prefers under a query, best first, with the scores to draw."""

    # The id of a token given as text or id; any other token is refused.
    def _find_token(self, token: str | int) -> int:
        if not isinstance(token, str):
            return self._check_token(token)
        ids, names = read_context([token], self.n_tokens, self.vocabulary)
        if names.unknown:
            raise unknown_token(names.unknown, self.n_tokens)
        return int(ids[0])

    def score(self, samples: Any, *, epsilon: float = 0.0, **options: Unpack["ReadingOptions"]) -> Score:
        """Compute the log-loss and the top-1 accuracy on the realisable samples among ``samples``.

        ``samples`` may also be new text, which :meth:`read` reads with ``options``. In the limit some labels
        of new text have probability 0, so the log-loss is infinite. With ``epsilon`` ε, the prediction is (1
        − ε) · attention + ε · uniform over the context, which is our addition to the theory;
        :func:`~attomaton.automaton.scoring.fit_epsilon` chooses ε.
        """
        read, unknown = self._read(samples, options)
        prediction = self.predict_bags(self._reachable(read))
        return replace(score_prediction(mix_uniform(prediction, epsilon)), unknown=unknown)

    # The token counts of the samples that are scored: those whose label is in the context.
    def _reachable(self, samples: Samples) -> Bags:
        return count_tokens(samples)

    def read(self, source: Any, **options: Unpack["ReadingOptions"]) -> Samples:
        """Read new text as samples with the ids of this vocabulary; other tokens are unseen tokens.

        The options are ``window`` (by default the longest context of the samples) and ``reading``, as in
        :func:`~attomaton.learn`.
        """
        return self._read(source, options)[0]

    # The source as samples, and its words outside the vocabulary in the order of their ids.
    def _read(self, source: Any, options: "ReadingOptions") -> tuple[Samples, tuple[str, ...]]:
        from attomaton.corpora.readers import corpus

        if isinstance(source, Samples):
            return corpus.read_samples(source, **options), ()
        if options.get("tokenizer") is not None and self.vocabulary is not None:
            raise UnsupportedOption(
                f"the text must be read with the tokenizer of the vocabulary ({self.vocabulary.tokenizer}); "
                "leave tokenizer out"
            )
        options = {"window": self.window or WINDOW, **options}
        if self.vocabulary is not None:
            options["tokenizer"] = self.vocabulary
        samples, read = corpus.read_samples_and_vocabulary(source, options)
        if read is None:
            return samples, ()
        if self.vocabulary is None:
            raise UnsupportedOption(
                "the corpus is text, but the automaton was learned from token ids and has no vocabulary; "
                "give ids"
            )
        # the vocabulary that was read is this one, with the unknown words appended
        return samples, read.tokens[len(self.vocabulary) :]

    def name(self, token: int) -> str:
        """The token as text, or its id if there is no vocabulary."""
        return name_token(self.vocabulary, self._check_token(token))

    # The id as a Python integer; an id outside the vocabulary is refused.
    def _check_token(self, token: int) -> int:
        token = whole_number(token, "token", least=-LARGEST_WHOLE)  # below 0: refused with the range
        if not 0 <= token < self.n_tokens:
            raise TokenOutOfRange(
                f"token {token} is not in 0 … {self.n_tokens - 1}; give an id of this vocabulary"
            )
        return token

    # The prediction for one context, and the names of its tokens.
    def _predict_one(self, context: Context) -> tuple[BatchPrediction, Names]:
        ids, names = read_context(context, self.n_tokens, self.vocabulary)
        return self._predict_ids([ids]), names

    # The prediction for contexts of ids; unknown words have ids from ``n_tokens`` on.
    def _predict_ids(self, contexts: Sequence[Int32]) -> BatchPrediction:
        return self.predict_bags(count_all_tokens(as_samples(contexts, self.n_tokens)))


def check_many(contexts: Any) -> None:
    """Refuse a single text, a mapping, and a frame where many contexts are expected."""
    if isinstance(contexts, str):
        raise UnsupportedOption("contexts is a single text; give a list of texts, or call predict(text)")
    kind = type(contexts).__name__
    if isinstance(contexts, Mapping) or hasattr(contexts, "columns") or not isinstance(contexts, Iterable):
        raise UnsupportedOption(f"contexts is of type {kind}; give a list of texts, or one column of a frame")
