"""What every answer to a context shares: attention, whatever its scores, asked for one context or for many.

A context is a batch of one. So what :class:`~attomaton.automaton.automaton.Automaton` (the limit) and
:class:`~attomaton.automaton.finite.FiniteAttention` (finite scores) each define is only how they answer a
batch, and how they explain one answer.
"""

from abc import ABC, abstractmethod
from typing import Any, Unpack

import numpy as np

from attomaton.automaton.context import Context, name_token, read_context
from attomaton.automaton.explanation import Explanation
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import Score, mix_uniform, score_prediction
from attomaton.automaton.views import ContextView
from attomaton.borders import trusted
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import TokenOutOfRange, UnsupportedOption
from attomaton.graphs.bags import Bags, count_all_tokens, count_tokens
from attomaton.options import LARGEST, whole_number
from attomaton.readers.given import WINDOW, ReadingOptions, read_ids, read_samples
from attomaton.tables import Float64, Int32


class Attention(ABC):
    """A layer that gives every token of a context a chance to be the next one.

    Attributes
    ----------
    vocabulary : Vocabulary, optional
        Lets contexts be given as text.

    Notes
    -----
    A context is a text (with a vocabulary), a sequence of tokens as strings, or a sequence of token ids. It
    may be longer than the window of the corpus: no part of it is cut off.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.graphs.bags import count_all_tokens
    >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
    >>> for attention in (at.learn(samples), at.shrink(samples, strength=1.0)):
    ...     chances = attention.predict_proba([1, 0, 2])
    ...     positions, rule = attention.attention([1, 0, 2]), attention.explain([1, 0, 2]).rule
    ...     drawn = attention.sample([1, 0, 2], np.random.default_rng(0))
    ...     print(attention.retrieve([1, 0, 2]).tolist(), rule.name, attention.name(drawn), chances.round(2))
    [0, 1] DETERMINED 1 [0.5 0.5 0. ]
    [0, 1, 2] SCORED 1 [0.4  0.51 0.09]
    >>> attention.predict_bags(count_all_tokens(samples)).n_samples, round(attention.score(samples).top1, 3)
    (3, 0.667)
    """

    vocabulary: Vocabulary | None
    window: int | None = None
    """The longest context that it was learned with, where that is known."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """Size of the vocabulary."""

    @abstractmethod
    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """The chances of the tokens of many contexts, which are bags already.

        Some tokens of a context may be left out: that asks what is retrieved given that it is one of the
        others.
        """

    @abstractmethod
    def explain(self, context: Context) -> Explanation:
        """What is retrieved, and which rule answered."""

    def predict_samples(self, samples: Samples) -> BatchPrediction:
        """Predict the next token of every context; labels are not looked at.

        The answer equals ``predict_proba(context)`` for each context, without its zeros for the tokens that
        are not in the context. Ids beyond the vocabulary are unseen tokens.

        Examples
        --------
        >>> import attomaton as at
        >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1])
        >>> predicted = at.learn(samples).predict_samples(samples)
        >>> predicted.bags.token.tolist(), predicted.probabilities.round(6).tolist()
        ([0, 1, 2, 0, 1, 2, 1, 2], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 1.0, 0.0])
        """
        return self.predict_bags(count_all_tokens(samples))

    def predict_proba(self, context: Context) -> Float64:
        """The chance of every token to be the next one, shape (n_tokens,)."""
        answer = self._answer(context)
        chances = np.zeros(self.n_tokens)
        chances[answer.bags.token] = answer.probabilities
        return chances

    def attention(self, context: Context) -> Float64:
        """The attention weight of every position, shape (len(context),)."""
        answer = self._answer(context)
        by_token = answer.probabilities / answer.bags.multiplicity
        return by_token[np.searchsorted(answer.bags.token, answer.bags.samples.values)]

    def retrieve(self, context: Context) -> Int32:
        """The distinct tokens of the context that have a chance, rising."""
        answer = self._answer(context)
        return answer.bags.token[answer.probabilities > 0]

    def sample(self, context: Context, rng: np.random.Generator) -> int:
        """Draw the next token."""
        answer = self._answer(context)
        return int(rng.choice(answer.bags.token, p=answer.probabilities))

    def show(self, context: Context) -> ContextView:
        """The explanation as something to look at: a notebook draws it, a terminal prints it.

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
        return ContextView(self.explain(context), self.name)

    def score(self, samples: Any, *, epsilon: float = 0.0, **options: Unpack[ReadingOptions]) -> Score:
        """Log-loss and top-1 on the realisable samples among these, or among those of new text.

        The limit gives some labels of new text no chance at all, so that the log-loss is infinite; with
        ``epsilon`` it is that of (1 − ε) · attention + ε · uniform over the context, which is ours, not the
        theory's (:func:`~attomaton.automaton.scoring.fit_epsilon` chooses it).

        Parameters
        ----------
        samples : Samples, or anything that :meth:`read` takes
            A path, documents, a frame: it is read with this vocabulary.
        epsilon : float
            ε, from 0 to 1.
        **options
            How to read it, as for :meth:`read`.

        Examples
        --------
        >>> import attomaton as at
        >>> auto = at.learn(["a b a b a b", "b a b a"])
        >>> auto.score(["a b a b and so on"]).n_samples
        2
        """
        read = self.read(samples, **options)
        return score_prediction(mix_uniform(self.predict_bags(count_tokens(read)), epsilon))

    def read(self, source: Any, **options: Unpack[ReadingOptions]) -> Samples:
        """New text as samples, in the tokens of this vocabulary; tokens that it lacks are unseen ones.

        Parameters
        ----------
        source : path, glob, URL, Documents, sequence, frame or dataset
            What :func:`~attomaton.read_corpus` reads. Samples are returned as they are.
        **options
            ``window`` (by default the one it was learned with), ``column``, ``documents`` and ``reading``, as
            in :func:`~attomaton.learn`; the tokenizer is that of the vocabulary.

        Examples
        --------
        >>> import attomaton as at
        >>> list(at.learn(["a b a b"]).read(["b c a"]))  # c gets a number behind those of a and b
        [Sample(context=(1,), label=2), Sample(context=(1, 2), label=0)]
        """
        if isinstance(source, Samples):
            return source
        if options.get("tokenizer") is not None and self.vocabulary is not None:
            raise UnsupportedOption(
                f"the tokenizer is that of this vocabulary ({self.vocabulary.tokenizer}); leave it out"
            )
        asked: ReadingOptions = {"window": self.window or WINDOW, **options}
        if self.vocabulary is not None:
            return read_samples(source, **{**asked, "tokenizer": self.vocabulary})
        return read_ids(source, **asked)

    def name(self, token: int) -> str:
        """The token as text, or its id where there is no vocabulary."""
        token = whole_number(token, "token", least=-LARGEST)
        if not 0 <= token < self.n_tokens:
            raise TokenOutOfRange(
                f"token {token} is not in 0 … {self.n_tokens - 1}; give an id of this vocabulary"
            )
        return name_token(self.vocabulary, token)

    def _answer(self, context: Context) -> BatchPrediction:
        """The answer to one context: a batch of one."""
        ids = read_context(context, self.n_tokens, self.vocabulary)
        alone = trusted(
            Samples,
            values=ids,
            starts=np.zeros(1, np.int64),
            stops=np.full(1, len(ids)),
            labels=ids[-1:],
            n_tokens=self.n_tokens,
        )
        return self.predict_bags(count_all_tokens(alone))
