"""The base of every attention layer, whatever its scores: predictions for one context or for many.

A context is a batch of one. So :class:`~attomaton.automaton.automaton.Automaton` (the limit) and
:class:`~attomaton.automaton.finite.FiniteAttention` (finite scores) each define only how they predict a
batch, and how they explain one prediction.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from attomaton.automaton.explanation import ContextView, Explanation
from attomaton.automaton.generation import MOST_GENERATED, Generation, GrowingContext
from attomaton.automaton.prediction import BatchPrediction
from attomaton.automaton.scoring import Score, mix_uniform, score_prediction
from attomaton.base.drawing import HOUSE_GREY, drawable, house_axes, measure_text, wrap_caption
from attomaton.base.errors import TokenOutOfRange, UnknownToken, UnsupportedOption
from attomaton.base.options import LARGEST_WHOLE, make_rng, whole_number
from attomaton.base.printing import BLUE, ORANGE, shorten
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


MOST_RANKED = 20
"""Maximum number of tokens drawn for a query."""

MOST_POSITIONS = 40
"""Number of last positions of a context that are drawn."""

TOKEN_HEIGHT, AXES_HEIGHT = 0.14, 0.62
"""Height of one row, and of everything else, in inches."""

LONGEST_NAME = 16
"""Maximum number of characters shown of a token."""


@dataclass(frozen=True)
class Ranking:
    """The tokens of a query, best first.

    ``notes`` label the end of each bar; ``total`` is the number of tokens.
    """

    query: str
    names: Sequence[str]
    scores: Sequence[float]
    notes: Sequence[str]
    total: int
    axis: str


class Attention(ABC):
    """A layer that gives every token of a context the probability that it comes next.

    Attributes
    ----------
    vocabulary : Vocabulary, optional
        Lets contexts be given as text.

    Notes
    -----
    A context is a text (with a vocabulary), a sequence of tokens as strings, or a sequence of token ids. It
    may be longer than the window of the corpus: no part of it is cut off.

    Words outside the vocabulary are unseen tokens, about which the samples contain nothing. The limit ignores
    them; finite scores give them the background score 0; and where nothing is known about the query, they
    have the same weight as any other position. An explanation lists them as ``unknown``.
    """

    vocabulary: Vocabulary | None
    window: int | None = None
    """The longest context that it was learned with, if known."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """Size of the vocabulary."""

    @abstractmethod
    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """The probabilities of the tokens of many contexts; a bag holds a context's tokens and their counts.

        If a bag leaves out tokens of its context, probabilities are conditional on retrieving one of the
        others.
        """

    @abstractmethod
    def explain(self, context: Context) -> Explanation:
        """The retrieved tokens, and the rule that decided."""

    def predict_samples(self, samples: Samples) -> BatchPrediction:
        """Predict the next token of every context; labels are ignored.

        The result equals ``predict_proba(context)`` for each context, without the zeros for tokens outside
        the context. Ids beyond the vocabulary are unseen tokens.
        """
        return self.predict_bags(count_all_tokens(samples))

    def predict(self, context: Context) -> dict[Any, float]:
        """Token → the probability that it comes next, most probable first; zeros are left out.

        Tokens are strings if there is a vocabulary, otherwise ids. Only tokens of the context can occur. For
        probabilities by id see :meth:`predict_proba`.
        """
        return self.predict_batch([context])[0]

    def predict_batch(self, contexts: Iterable[Context]) -> list[dict[Any, float]]:
        """The result of :meth:`predict` for each of many contexts of any length."""
        check_many(contexts)
        read = [read_context(context, self.n_tokens, self.vocabulary) for context in contexts]
        prediction = self._predict_ids([ids for ids, _ in read])
        borders = group_borders(prediction.bags.sample, len(read))
        answers: list[dict[Any, float]] = []
        for (_, names), first, last in zip(read, borders[:-1], borders[1:], strict=True):
            tokens, probabilities = prediction.bags.token[first:last], prediction.probabilities[first:last]
            falling = np.argsort(-probabilities, kind="stable")
            positive = falling[probabilities[falling] > 0].tolist()
            answers.append({names.key(int(tokens[at])): float(probabilities[at]) for at in positive})
        return answers

    def predict_proba(self, context: Context) -> Float64:
        """The probability that each token comes next, shape (n_tokens,).

        If they sum to less than 1, the rest is the probability of words outside the vocabulary.
        """
        prediction = self._predict_one(context)[0]
        in_vocabulary = prediction.bags.token < self.n_tokens
        probabilities = np.zeros(self.n_tokens)
        probabilities[prediction.bags.token[in_vocabulary]] = prediction.probabilities[in_vocabulary]
        return probabilities

    def attention(self, context: Context) -> Float64:
        """The attention weight of every position, shape (len(context),)."""
        prediction = self._predict_one(context)[0]
        by_token = prediction.probabilities / prediction.bags.multiplicity
        return by_token[np.searchsorted(prediction.bags.token, prediction.bags.samples.values)]

    def retrieve(self, context: Context) -> Int32:
        """The distinct context tokens with positive probability, ascending; unknown words are left out."""
        prediction = self._predict_one(context)[0]
        tokens = prediction.bags.token
        return tokens[(prediction.probabilities > 0) & (tokens < self.n_tokens)]

    def sample(self, context: Context, rng: np.random.Generator | int | None = None) -> int:
        """Draw the next token, as an id.

        Parameters
        ----------
        context : str or sequence
            The context; only its tokens that are in the vocabulary can be drawn.
        rng : numpy.random.Generator or int, optional
            The generator, or its seed. None means a different draw at each call.
        """
        prediction = self._predict_one(context)[0]
        possible = (prediction.bags.token < self.n_tokens) & (prediction.probabilities > 0)
        if not possible.any():
            raise UnknownToken(
                "no context word with a probability is in the vocabulary, so none has an id; use generate, "
                "which returns texts"
            )
        tokens, probabilities = prediction.bags.token[possible], prediction.probabilities[possible]
        return int(make_rng(rng).choice(tokens, p=probabilities / probabilities.sum()))

    def generate(
        self,
        prompt: Context,
        n: int = 20,
        *,
        seed: np.random.Generator | int | None = 0,
        greedy: bool = False,
        window: int | None = None,
    ) -> Generation:
        """Continue a prompt: draw the next token and append it, n times.

        Attention only picks tokens of its context, so a token that is not in the prompt never appears,
        whatever the corpus. The text repeats the prompt's own tokens, in the order that the corpus prefers.
        Where nothing is known about the last token (it is new, or was never a query), every position is
        equally likely, by convention, and an unknown word may be copied; ``no_evidence`` of the result counts
        these draws.

        Parameters
        ----------
        prompt : str or sequence
            The first context: a text, tokens, or token ids.
        n : int
            The number of tokens to draw.
        seed : int or numpy.random.Generator, optional
            The generator, or its seed; None means a different text at each call.
        greedy : bool
            Take the most probable token (the lowest id in a tie) instead of drawing one.
        window : int, optional
            Attend only to this number of last tokens. None means all of them.

        """
        n = whole_number(n, "n", most=MOST_GENERATED)
        window = None if window is None else whole_number(window, "window", least=1)
        ids, names = read_context(prompt, self.n_tokens, self.vocabulary)
        tokens, no_evidence = self._continue(ids.tolist(), n, None if greedy else make_rng(seed), window)
        return Generation(tuple(ids.tolist()), tokens, no_evidence, names.unknown, names)

    def _continue(
        self, prompt: Sequence[int], n: int, rng: np.random.Generator | None, window: int | None
    ) -> tuple[tuple[int, ...], int]:
        """The next n tokens, and the number of them drawn without evidence."""
        return GrowingContext(prompt, lambda context: self._predict_ids([context]), window).run(n, rng)

    def show(self, context: Context) -> ContextView:
        """A view of the explanation: a notebook draws it, a terminal prints it."""
        return ContextView(self.explain(context))

    def plot(self, query: str | int, ax: Any = None) -> Any:
        """Draw the tokens that attention prefers under a query, best first; return the matplotlib axes.

        ``query`` is a token, as text or as its id. Without ``ax``, this makes a new figure.
        """
        return draw_ranking(self._ranking(self._find_token(query)), ax)

    def plot_context(self, context: Context, ax: Any = None) -> Any:
        """Draw the attention on each position of a context; return the matplotlib axes.

        Only the last positions of a long context are drawn. Without ``ax``, this makes a new figure.
        """
        explanation = self.explain(context)
        names = [explanation.name(token) for token in explanation.context]
        return draw_positions(names, self.attention(context).tolist(), explanation.rule.words, ax)

    @abstractmethod
    def _ranking(self, query: int) -> Ranking:
        """The tokens with evidence under a query, best first."""

    def _find_token(self, token: str | int) -> int:
        if not isinstance(token, str):
            self.name(token)
            return int(token)
        ids, names = read_context([token], self.n_tokens, self.vocabulary)
        if names.unknown:
            raise unknown_token(names.unknown, self.n_tokens)
        return int(ids[0])

    def score(self, samples: Any, *, epsilon: float = 0.0, **options: Unpack["ReadingOptions"]) -> Score:
        """The log-loss and the top-1 accuracy on the realisable samples among ``samples``.

        The limit gives some labels of new text probability 0, which makes the log-loss infinite. With
        ``epsilon``, the score is that of (1 − ε) · attention + ε · uniform over the context, which is our
        addition to the theory (:func:`~attomaton.automaton.scoring.fit_epsilon` chooses ε). ``samples`` may
        be anything that :meth:`read` accepts, such as new text; ``options`` are passed to :meth:`read`.
        """
        read, unknown = self._read(samples, options)
        prediction = self.predict_bags(self._reachable(read))
        return replace(score_prediction(mix_uniform(prediction, epsilon)), unknown=unknown)

    def _reachable(self, samples: Samples) -> Bags:
        return count_tokens(samples)

    def read(self, source: Any, **options: Unpack["ReadingOptions"]) -> Samples:
        """Read new text as samples, with the ids of this vocabulary; tokens outside it are unseen.

        The options are ``window`` (by default the one used for learning) and ``reading``, as in
        :func:`~attomaton.learn`; the tokenizer is that of the vocabulary. Samples are returned unchanged.
        """
        return self._read(source, options)[0]

    def _read(self, source: Any, options: "ReadingOptions") -> tuple[Samples, tuple[str, ...]]:
        """New text as samples, and its words that are not in the vocabulary."""
        from attomaton.corpora.readers import corpus

        if isinstance(source, Samples):
            return corpus.read_samples(source, **options), ()
        if options.get("tokenizer") is not None and self.vocabulary is not None:
            raise UnsupportedOption(
                f"this vocabulary has a tokenizer ({self.vocabulary.tokenizer}); leave tokenizer out"
            )
        options = {"window": self.window or WINDOW, **options}
        if self.vocabulary is None:
            return corpus.read_samples_of_ids(source, **options), ()
        samples, read = corpus.read_samples_and_vocabulary(source, {**options, "tokenizer": self.vocabulary})
        return samples, () if read is None else read.tokens[len(self.vocabulary) :]

    def name(self, token: int) -> str:
        """The token as text, or its id if there is no vocabulary."""
        token = whole_number(token, "token", least=-LARGEST_WHOLE)
        if not 0 <= token < self.n_tokens:
            raise TokenOutOfRange(
                f"token {token} is not in 0 … {self.n_tokens - 1}; give an id of this vocabulary"
            )
        return name_token(self.vocabulary, token)

    def _predict_one(self, context: Context) -> tuple[BatchPrediction, Names]:
        """The prediction for one context, a batch of one, and the names of its tokens."""
        ids, names = read_context(context, self.n_tokens, self.vocabulary)
        return self._predict_ids([ids]), names

    def _predict_ids(self, contexts: Sequence[Int32]) -> BatchPrediction:
        """The prediction for contexts of ids; ids of at least ``n_tokens`` are unknown words."""
        return self.predict_bags(count_all_tokens(as_samples(contexts, self.n_tokens)))


def check_many(contexts: Any) -> None:
    """Reject anything but a sequence of contexts: a text, a frame, a mapping, a non-iterable."""
    if isinstance(contexts, str):
        raise UnsupportedOption("contexts is a single text; give a list of texts, or call predict(text)")
    kind = type(contexts).__name__
    if isinstance(contexts, Mapping) or hasattr(contexts, "columns") or not isinstance(contexts, Iterable):
        raise UnsupportedOption(f"contexts is of type {kind}; give a list of texts, or one column of a frame")


def check_ranked(query: str, n_tokens: int) -> None:
    """Refuse to draw a query without evidence."""
    if not n_tokens:
        raise UnsupportedOption(
            f"no sample teaches anything about the query {shorten(query)!r}, so there is nothing to draw; "
            "choose a token that ends a context which contains its label"
        )


def draw_ranking(ranking: Ranking, ax: Any = None) -> Any:
    """Draw a bar for each token, best on top: blue is preferred, orange beaten; return the axes."""
    names = [drawable(name, LONGEST_NAME) for name in ranking.names]
    shown = f"{len(names)} of {ranking.total:,} tokens" if len(names) < ranking.total else "tokens"
    title = f"Under the query “{drawable(ranking.query, LONGEST_NAME)}”: {shown}, best first"
    lines = wrap_caption(title)
    with house_axes(ax, height=TOKEN_HEIGHT * len(names) + AXES_HEIGHT + 0.11 * (len(lines) - 1)) as axes:
        heights = np.arange(len(names))
        colours = [BLUE if score >= 0 else ORANGE for score in ranking.scores]
        axes.barh(heights, ranking.scores, color=colours, height=0.72)
        axes.axvline(0.0, color="black", linewidth=0.6)
        for height, score, note in zip(heights, ranking.scores, ranking.notes, strict=True):
            side = {"ha": "left", "xytext": (2, 0)} if score >= 0 else {"ha": "right", "xytext": (-2, 0)}
            style = {"va": "center_baseline", "fontsize": "x-small", "textcoords": "offset points"}
            axes.annotate(note, (score, height), color="black", **style, **side)
        axes.set_yticks(heights, names, parse_math=False)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.margins(x=0.14)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(ranking.axis)
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes


def draw_positions(names: Sequence[str], weights: Sequence[float], rule: str, ax: Any = None) -> Any:
    """Draw a bar for the attention on each position; the last is the query; return the axes."""
    hidden = max(len(names) - MOST_POSITIONS, 0)
    before = f" ({hidden:,} earlier positions: {sum(weights[:hidden]):.1%})" if hidden else ""
    texts, heights = [drawable(name, LONGEST_NAME) for name in names[hidden:]], list(weights[hidden:])
    lines = wrap_caption(
        f"Attention by position, query “{drawable(names[-1], LONGEST_NAME)}”: {rule}{before}"
    )
    room = max(measure_text(text) for text in texts)
    with house_axes(ax, height=1.0 + room + 0.11 * len(lines)) as axes:
        positions = np.arange(len(texts))
        axes.bar(positions, heights, color=BLUE, width=0.72)
        axes.set_xticks(positions, texts, rotation=90, parse_math=False)
        axes.get_xticklabels()[-1].set_fontweight("bold")
        for label, weight in zip(axes.get_xticklabels(), heights, strict=True):
            label.set_color("black" if weight else HOUSE_GREY)
        axes.set_xlim(-0.6, len(texts) - 0.4)
        axes.set_ylim(0.0, max(1.08 * max(heights), 1e-9))
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("attention")
        axes.set_title("\n".join(lines), loc="left", parse_math=False)
    return axes
