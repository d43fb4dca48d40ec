"""What every answer to a context shares: attention, whatever its scores, asked for one context or for many.

A context is a batch of one. So what :class:`~attomaton.automaton.automaton.Automaton` (the limit) and
:class:`~attomaton.automaton.finite.FiniteAttention` (finite scores) each define is only how they answer a
batch, and how they explain one answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from attomaton.automaton.context import Context, Names, as_samples, read_context
from attomaton.automaton.explanation import ContextView, Explanation
from attomaton.automaton.generation import MOST_GENERATED, Generation, GrowingContext
from attomaton.automaton.pictures import Ranking, draw_positions, draw_ranking
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import Score, mix_uniform, score_prediction
from attomaton.base.errors import TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.base.options import LARGEST, make_rng, whole_number
from attomaton.base.printing import shorten
from attomaton.base.ragged import group_borders
from attomaton.base.tables import Float64, Int32
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.encoders import unknown_token
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.bags import Bags, count_all_tokens, count_tokens

if TYPE_CHECKING:
    from attomaton.corpora.readers.corpus import ReadingOptions


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

    Words that the vocabulary does not have are unseen tokens: no sample says anything about them. The limit
    ignores them; finite scores give them the background score 0; and where nothing is known of the query they
    weigh as much as any other position. An explanation lists them as ``unknown``.

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
    >>> auto = at.learn(["to be or not to be", "to be is to do"])
    >>> auto.predict("to be or not to"), auto.predict_batch(["to or", "be to"])
    ({'be': 1.0}, [{'to': 0.5, 'or': 0.5}, {'be': 1.0}])
    >>> print(auto.generate("to be or not to", 3))
    to be or not to be to be
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

    def predict(self, context: Context) -> dict[Any, float]:
        """Token → its chance to be the next one, likeliest first, for the tokens that have a chance.

        Tokens are texts where there is a vocabulary, ids where there is none. Only tokens of the context can
        be there. For numbers by id see :meth:`predict_proba`.

        Examples
        --------
        >>> import attomaton as at
        >>> auto = at.learn(["the cat saw the cat", "a cat saw the dog and the cat"])
        >>> auto.predict("the cat saw the")
        {'cat': 1.0}
        >>> auto.predict("some zebra")  # neither was ever seen: every position weighs the same
        {'some': 0.5, 'zebra': 0.5}
        """
        return self.predict_batch([context])[0]

    def predict_batch(self, contexts: Iterable[Context]) -> list[dict[Any, float]]:
        """What :meth:`predict` says about each of many contexts, of any lengths.

        Examples
        --------
        >>> import attomaton as at
        >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1]))
        >>> auto.predict_batch([[1, 0, 0, 0, 2], [2, 2]])
        [{0: 0.75, 1: 0.25}, {2: 1.0}]
        """
        check_many(contexts)
        read = [read_context(context, self.n_tokens, self.vocabulary) for context in contexts]
        answer = self._answer_ids([ids for ids, _ in read])
        borders = group_borders(answer.bags.sample, len(read))
        return [
            _by_chance(answer.bags.token[first:last], answer.probabilities[first:last], names)
            for (_, names), first, last in zip(read, borders[:-1], borders[1:], strict=True)
        ]

    def predict_proba(self, context: Context) -> Float64:
        """The chance of every token to be the next one, shape (n_tokens,).

        What is missing to 1 is the chance of words that are not in the vocabulary.
        """
        answer = self._answer(context)[0]
        known = answer.bags.token < self.n_tokens
        chances = np.zeros(self.n_tokens)
        chances[answer.bags.token[known]] = answer.probabilities[known]
        return chances

    def attention(self, context: Context) -> Float64:
        """The attention weight of every position, shape (len(context),)."""
        answer = self._answer(context)[0]
        by_token = answer.probabilities / answer.bags.multiplicity
        return by_token[np.searchsorted(answer.bags.token, answer.bags.samples.values)]

    def retrieve(self, context: Context) -> Int32:
        """The distinct tokens of the context that have a chance, rising; unknown words have no id."""
        answer = self._answer(context)[0]
        return answer.bags.token[(answer.probabilities > 0) & (answer.bags.token < self.n_tokens)]

    def sample(self, context: Context, rng: np.random.Generator | int | None = None) -> int:
        """Draw the next token, as an id.

        Parameters
        ----------
        context : str or sequence
            The context; of its tokens those of the vocabulary are drawn, with their chances.
        rng : numpy.random.Generator or int, optional
            What draws, or the seed of it. None means another draw at each call.
        """
        answer = self._answer(context)[0]
        known = (answer.bags.token < self.n_tokens) & (answer.probabilities > 0)
        if not known.any():
            raise UnknownToken(
                "no word of the context that has a chance is in the vocabulary, so that none has an id; "
                "generate gives texts"
            )
        chances = answer.probabilities[known]
        return int(make_rng(rng).choice(answer.bags.token[known], p=chances / chances.sum()))

    def generate(
        self,
        prompt: Context,
        n: int = 20,
        *,
        seed: np.random.Generator | int | None = 0,
        greedy: bool = False,
        window: int | None = None,
    ) -> Generation:
        """Go on from a prompt: draw the next token, append it, and so on, n times.

        Attention only points at its context, so a token that is not in the prompt never appears, whatever
        the corpus: what is written repeats the prompt's own tokens, in the order that the corpus prefers.
        Where nothing is known of the last token (it is new, or was never a query), every position is equally
        likely, by our choice, and an unknown word may be copied; ``backed_off`` counts these draws.

        Parameters
        ----------
        prompt : str or sequence
            The first context: a text, tokens, or token ids.
        n : int
            How many tokens to draw.
        seed : int or numpy.random.Generator, optional
            What draws, or the seed of it; None means another text at each call.
        greedy : bool
            Whether the likeliest token is taken (of equals the one with the lowest id) and nothing is drawn.
        window : int, optional
            Look at this number of tokens, the last ones, only. None means at all of them.

        Examples
        --------
        >>> import attomaton as at
        >>> samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 0, 1]], [0, 1, 2, 2])
        >>> auto = at.learn(samples)
        >>> auto.generate([0, 1, 2], 6, seed=3).tokens
        (0, 2, 1, 2, 0, 2)
        >>> auto.at(step=20).generate([0, 1, 2], 6, greedy=True).tokens
        (0, 2, 0, 2, 0, 2)
        """
        n = whole_number(n, "n", most=MOST_GENERATED)
        window = None if window is None else whole_number(window, "window", least=1)
        ids, names = read_context(prompt, self.n_tokens, self.vocabulary)
        chain = GrowingContext(ids.tolist(), lambda context: self._answer_ids([context]), window)
        tokens, backed_off = chain.run(n, None if greedy else make_rng(seed))
        return Generation(tuple(ids.tolist()), tokens, backed_off, names.unknown, names)

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
        return ContextView(self.explain(context))

    def plot(self, query: str | int, ax: Any = None) -> Any:
        """Draw the tokens that attention prefers under a query, best first; returns the matplotlib axes.

        Parameters
        ----------
        query : str or int
            A token, as text or as its id.
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a new figure of the style that all figures here have.

        Examples
        --------
        >>> import matplotlib as mpl, attomaton as at
        >>> mpl.use("agg")
        >>> auto = at.learn(["to be or not to be", "to be is to do"])
        >>> auto.plot("to").get_title(loc="left")
        'Under the query “to”: tokens, best first'
        """
        return draw_ranking(self._ranking(self._find_token(query)), ax)

    def plot_context(self, context: Context, ax: Any = None) -> Any:
        """Draw how much attention each position of a context gets; returns the matplotlib axes.

        Parameters
        ----------
        context : str or sequence
            The context; of a long one the last positions are drawn.
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a new figure of the style that all figures here have.

        Examples
        --------
        >>> import matplotlib as mpl, attomaton as at
        >>> mpl.use("agg")
        >>> auto = at.learn(["to be or not to be", "to be is to do"])
        >>> [label.get_text() for label in auto.plot_context("to be or not to").get_xticklabels()]
        ['to', 'be', 'or', 'not', 'to']
        """
        told = self.explain(context)
        names = [told.name(token) for token in told.context]
        return draw_positions(names, self.attention(context).tolist(), told.rule.words, ax)

    @abstractmethod
    def _ranking(self, query: int) -> Ranking:
        """The tokens that samples show under a query, best first."""

    def _find_token(self, token: str | int) -> int:
        """The id of one token that a user names."""
        if not isinstance(token, str):
            self.name(token)
            return int(token)
        ids, names = read_context([token], self.n_tokens, self.vocabulary)
        if names.unknown:
            raise unknown_token(names.unknown, self.n_tokens)
        return int(ids[0])

    def score(self, samples: Any, *, epsilon: float = 0.0, **options: Unpack["ReadingOptions"]) -> Score:
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
        >>> score = auto.score(["a b a b and so on"])
        >>> score.n_samples, score.unknown
        (2, ('and', 'so', 'on'))
        """
        read, unknown = self._read(samples, options)
        scored = score_prediction(mix_uniform(self.predict_bags(count_tokens(read)), epsilon))
        return replace(scored, unknown=unknown)

    def read(self, source: Any, **options: Unpack["ReadingOptions"]) -> Samples:
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
        return self._read(source, options)[0]

    def _read(self, source: Any, options: "ReadingOptions") -> tuple[Samples, tuple[str, ...]]:
        """New text as samples, and its words that the vocabulary does not have."""
        if isinstance(source, Samples):
            return source, ()
        if options.get("tokenizer") is not None and self.vocabulary is not None:
            raise UnsupportedOption(
                f"the tokenizer is that of this vocabulary ({self.vocabulary.tokenizer}); leave it out"
            )
        from attomaton.corpora.readers.corpus import WINDOW, read_ids, read_named

        asked: ReadingOptions = {"window": self.window or WINDOW, **options}
        if self.vocabulary is None:
            return read_ids(source, **asked), ()
        samples, read = read_named(source, {**asked, "tokenizer": self.vocabulary})
        return samples, () if read is None else read.tokens[len(self.vocabulary) :]

    def name(self, token: int) -> str:
        """The token as text, or its id where there is no vocabulary."""
        token = whole_number(token, "token", least=-LARGEST)
        if not 0 <= token < self.n_tokens:
            raise TokenOutOfRange(
                f"token {token} is not in 0 … {self.n_tokens - 1}; give an id of this vocabulary"
            )
        return name_token(self.vocabulary, token)

    def _answer(self, context: Context) -> tuple[BatchPrediction, Names]:
        """The answer to one context, a batch of one, and the names of its tokens."""
        ids, names = read_context(context, self.n_tokens, self.vocabulary)
        return self._answer_ids([ids]), names

    def _answer_ids(self, contexts: Sequence[Int32]) -> BatchPrediction:
        """The answer to contexts that are ids; those from ``n_tokens`` on are unknown words."""
        return self.predict_bags(count_all_tokens(as_samples(contexts, self.n_tokens)))


def check_many(contexts: Any) -> None:
    """Refuse what is no sequence of contexts: one text, a frame, a mapping, or nothing to go through."""
    if isinstance(contexts, str):
        raise UnsupportedOption("one text was given for many; give a list of texts, or call predict(text)")
    kind = type(contexts).__name__
    if isinstance(contexts, Mapping) or hasattr(contexts, "columns") or not isinstance(contexts, Iterable):
        raise UnsupportedOption(
            f"contexts are of the type {kind}; give a list of texts, or one column of a frame"
        )


def check_ranked(query: str, n_tokens: int) -> None:
    """Refuse to draw a query of which nothing is known."""
    if not n_tokens:
        raise UnsupportedOption(
            f"no sample teaches anything about the query {shorten(query)!r}, so there is nothing to draw; "
            "take a token that samples end with and that a label stands before"
        )


def _by_chance(tokens: Int32, chances: Float64, names: Names) -> dict[Any, float]:
    """Token → chance for the tokens that have one, likeliest first (of equals, the lowest id)."""
    order = [place for place in np.argsort(-chances, kind="stable").tolist() if chances[place] > 0]
    return {names.key(int(tokens[place])): float(chances[place]) for place in order}
