"""Find the tokens that remain when a layer continues its own text, and how fast the others fade."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.repetition.counts import TextCounts, check_text_lengths, count_prompt
from attomaton.automaton.repetition.flow import Budget, allow_evaluations, find_classes, follow_flow
from attomaton.automaton.repetition.limits import (
    NEAR_LIMIT,
    Limit,
    find_limit,
    find_single_limits,
    judge_limit,
)
from attomaton.automaton.repetition.odds import Odds, RepeatedLayer, read_odds
from attomaton.base.artifacts import FolderKind, Run, load_run, write_run
from attomaton.base.borders import check_ids, check_int32, check_int64
from attomaton.base.drawing import HOUSE_GREY, drawable, house_axes
from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import make_rng, whole_number
from attomaton.base.printing import BLUE, GREEN, ORANGE, Block, Grid, count_noun
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.prompts import Context, Names
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.corpora.tokenizers import read_vocabulary, vocabulary_records

TOKEN_COLOURS = (BLUE, ORANGE, GREEN, "#8a5cb8", "#b0892e", "#3a9aa8")  # all other tokens are grey
LONGEST_LABEL = 16  # characters of a token in a legend
SAME_LIMIT = 1e-6  # limits with shares closer than this count as one
NUDGE = 1e-6  # relative change of the prompt's shares that must not lead to another limit
WINNERS_FOLDER = FolderKind("winners", "winners", "Winners.save")
WINNER_COUNTS = ("n_starts", "unsettled", "settled", "n_classes")

MOST_STARTS = 60_000  # each takes at least one of ALL_EVALUATIONS
MOST_TOKENS_SHOWN = 20
# Why no limit is named for the prompt.
NO_END = (
    "up to t = e^10000 the predicted shares reach no limit, cannot be computed, or pass close to a boundary "
    "between two limits"
)


@dataclass(frozen=True, eq=False, repr=False)
class Winners(Tabular):
    """The limit of a layer that continues its own text and sees all of it.

    ``odds`` are the odds of the tokens of the prompt, with each of them as the query, and ``prompt`` is the
    prompt as indices into ``odds.tokens``. ``limits`` are the limits that were found, the first from the
    shares in the prompt. ``n_starts`` counts the starting shares from which the flow was followed, and
    ``unsettled`` those from which it did not converge. ``settled`` is whether the flow reaches one limit from
    the shares in the prompt and from shares that differ by a millionth; otherwise random draws decide.
    ``n_classes`` is the number of sets of tokens that a text never leaves: one, unless some odds are 0.

    Examples
    --------
    >>> end = winners([[0.2, 0.8], [0.2, 0.8]])
    >>> end, end.shares.tolist(), end.exponents.tolist()
    (Winners(token 1; 1 limit from 3 starts), [0.0, 1.0], [0.25, 1.0])
    """

    odds: Odds
    prompt: Int64
    limits: tuple[Limit, ...]
    n_starts: int
    unsettled: int
    settled: bool
    n_classes: int

    def __repr__(self) -> str:
        limits = f"{count_noun(len(self.limits), 'limit')} from {count_noun(self.n_starts, 'start')}"
        if not self.settled:
            return f"Winners(open; {limits})"
        names = [self.odds.name(token) for token in self.tokens[:3]]
        more = f" and {len(self.tokens) - 3} more" * (len(self.tokens) > 3)
        word = "token" + "s" * (len(self.tokens) > 1)
        return f"Winners({word} {', '.join(names)}{more}; {limits})"

    def _table(self) -> pa.Table:
        n_limits = len(self.limits)
        shares = np.array([limit.shares for limit in self.limits]).ravel()
        exponents = np.array([limit.decided for limit in self.limits]).ravel()
        number = np.repeat(np.arange(n_limits), len(self.odds.tokens))
        columns = {"limit": number, "token": np.tile(self.odds.tokens, n_limits)}
        return table_of({**columns, "share": shares, "exponent": exponents, "wins": shares > 0})

    def _words(self) -> Names | None:
        return None if self.odds.name.vocabulary is None else self.odds.name

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the odds, the prompt and the limits to a folder; ``overwrite`` replaces an earlier one."""
        odds = self.odds
        names = odds.name
        arrays = {name: getattr(odds, name) for name in ("tokens", "levels", "scores")}
        arrays["prompt"] = self.prompt
        # a 2-D array also if no limit was found
        arrays["shares"] = np.array([limit.shares for limit in self.limits]).reshape(-1, len(odds.tokens))
        manifest = {name: getattr(self, name) for name in WINNER_COUNTS} | {"unknown": list(names.unknown)}
        run = Run({}, arrays, vocabulary_records(names.vocabulary), manifest)
        return write_run(path, run, WINNERS_FOLDER, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Winners":
        """Load a folder that :meth:`save` wrote. The limits are certified again, from their shares."""
        return cls(*load_run(path, WINNERS_FOLDER, _unpack_winners))

    def _blocks(self) -> list[Block]:
        blocks: list[Block] = [repr(self)]
        if not self.settled:
            blocks.append(f"The limit of the shares in the prompt is not known: {NO_END}.")
        if self.unsettled:
            blocks.append(f"From {self.unsettled} of {self.n_starts} starting shares, no limit was reached.")
        for number, limit in enumerate(self.limits):
            best = np.lexsort((-limit.exponents, -limit.shares))[:MOST_TOKENS_SHOWN]
            rows = [
                (self._name(index), f"{limit.shares[index]:.4f}", _describe_growth(limit, index))
                for index in best.tolist()
            ]
            blocks.append(Grid(f"Limit {number}: {limit}", ["token", "share", "grows like"], rows))
        return blocks

    # The text of the token with this index in `odds.tokens`.
    def _name(self, index: int) -> str:
        return self.odds.name(int(self.odds.tokens[index]))

    @property
    def first(self) -> Limit:
        """The limit of the shares in the prompt."""
        if not self.settled:
            raise UnsupportedOption(
                f"no winner is known, because the limit of the shares in the prompt is not known: {NO_END}; "
                "see .limits for the limits of other shares, or .shares_at(lengths) for predicted shares"
            )
        return self.limits[0]

    @property
    def shares(self) -> Float64:
        """The share of each token in the limit, shape (K,)."""
        return self.first.shares

    @property
    def exponents(self) -> Float64:
        """The exponent ρ of each token, shape (K,): its count grows like t^ρ."""
        return self.first.exponents

    @property
    def tokens(self) -> list[int]:
        """The ids of the winners."""
        return self.odds.tokens[self.first.winners].tolist()

    @property
    def certain(self) -> bool:
        """Whether every start led to the same certified limit, and there is a single closed set of tokens."""
        is_single = len(self.limits) == 1 and self.settled and not self.unsettled and self.n_classes == 1
        return is_single and self.limits[0].certified

    def shares_at(self, lengths: Sequence[int]) -> Float64:
        """Predict the shares at these lengths of the text, including the prompt: shape (n_lengths, K)."""
        checked = check_text_lengths(lengths, len(self.prompt))
        counts = count_prompt(self.prompt, len(self.odds.tokens))
        odds = self.odds.among()
        # the tokens that the text never leaves, once it has come among them; there may be several such sets
        closed = find_classes(odds, int(self.prompt[-1]))[0]
        times = np.log(np.concatenate([[counts.sum()], checked]))
        # The flow is followed from the length of the prompt to later times. A requested length that equals
        # that of the prompt takes the row before, row 0.
        is_later = np.concatenate([[True], np.diff(times) > 0])
        start = counts[closed] / counts[closed].sum()
        followed = follow_flow(odds[np.ix_(closed, closed)], start, times[is_later])
        row_of_length = np.cumsum(is_later)[1:] - 1
        shares = np.zeros((len(checked), len(counts)))
        shares[:, closed] = followed[row_of_length]
        return shares

    def slopes_between(self, first: int, last: int) -> Float64:
        """Predict the slope d ln m / d ln t of each token's count m between two text lengths, shape (K,).

        With growing lengths, the slopes tend to ``exponents``.
        """
        shares = self.shares_at([first, last])
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1.0 + np.log(shares[1] / shares[0]) / np.log(last / first)

    def plot(self, counts: TextCounts | None = None, ax: Any = None) -> Any:
        """Draw the predicted shares, and those of ``counts``, over the text length; return the axes."""
        shortest = len(self.prompt)
        longest = max(10_000_000, 100 * shortest) if counts is None else int(counts.lengths[-1])
        lengths = np.unique(np.geomspace(shortest, longest, 200).round().astype(np.int64))
        shares = self.shares_at(lengths.tolist())
        limit = self.limits[0].shares if self.settled else None
        # tokens that are frequent at the end of the drawing or in the limit get colours and names
        largest = shares[-1] if limit is None else np.maximum(shares[-1], limit)
        by_share: list[int] = np.argsort(-largest, kind="stable").tolist()
        with house_axes(ax, height=2.0) as axes:
            for rank, token in enumerate(by_share):
                is_named = rank < len(TOKEN_COLOURS)
                colour = TOKEN_COLOURS[rank] if is_named else HOUSE_GREY
                label = drawable(self._name(token), LONGEST_LABEL) if is_named else None
                axes.plot(lengths, shares[:, token], "--", color=colour, linewidth=0.9, label=label)
                if counts is not None:
                    look = {"color": colour, "linewidth": 0.7, "alpha": 0.7}
                    axes.plot(counts.lengths, counts.shares[:, token], "-", **look)
                if limit is not None and is_named:
                    axes.plot([longest], [limit[token]], "<", color=colour, markersize=4, clip_on=False)
            axes.set_xscale("log")
            axes.set_ylim(bottom=0.0)
            axes.set_xlabel("length of the text, t")
            axes.set_ylabel("share of the tokens")
            title = "dashed: predicted, marks: the limit" + ", solid: drawn" * (counts is not None)
            axes.set_title(f"Token shares ({title})", loc="left")
            for text in axes.legend(loc="best", frameon=False).get_texts():
                text.set_parse_math(False)
        return axes


def _unpack_winners(run: Run) -> tuple[Any, ...]:
    tokens = check_int32(run.arrays["tokens"], "tokens")
    levels, scores, shares = (
        np.asarray(run.arrays[name], np.float64) for name in ("levels", "scores", "shares")
    )
    prompt = check_int64(run.arrays["prompt"], "prompt")
    size = len(tokens)
    unknown = tuple(map(str, run.manifest["unknown"]))
    words: Any = run.records.get("vocabulary")
    vocabulary = read_vocabulary(run.records, 0 if words is None else len(words["tokens"]))
    check_ids(prompt, size, "a position of the prompt")
    check_ids(tokens, MAX_TOKENS if vocabulary is None else len(vocabulary) + len(unknown), "a token")
    square = levels.shape == scores.shape == (size, size)
    if not square or shares.ndim != 2 or shares.shape[1] != size or not len(prompt):
        raise ValueError("the odds, the prompt and the shares have different numbers of tokens")
    odds = Odds(tokens, levels, scores, Names(vocabulary, unknown))
    limits = tuple(judge_limit(odds.among(), row) for row in shares)
    return odds, prompt, limits, *(run.manifest[name] for name in WINNER_COUNTS)


def winners(
    layer: RepeatedLayer,
    prompt: Context | None = None,
    *,
    starts: int = 20,
    seed: np.random.Generator | int | None = 0,
) -> Winners:
    """Find which tokens remain when a layer continues its own text and sees all of it.

    After the token i, the next token is j with probability m_j w_ij / Σ_l m_l w_il, where w_ij are the odds
    of j under i, and m_l is the count of token l so far. In a text of t tokens the shares x then follow dx/d
    ln t = q(x) − x, where q(x) is the stationary distribution of this chain at fixed shares. At a limit, ρ_j
    = Σ_i x_i w_ij / Σ_l x_l w_il is 1 for the winners and below 1 for all other tokens, whose counts grow
    like t^ρ_j.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        An automaton, another attention (such as ``auto.at(step)``), or a table of odds with one row per
        query.
    prompt : str or sequence, optional
        The first context; the text never contains other tokens. None means each token of the layer once.
    starts : int
        The number of starting shares to try in addition to those in the prompt, at most 60,000. There may be
        several limits, and early random draws decide which of them a text approaches. The number of
        evaluations of the flow is bounded, with lower bounds above 50 tokens, so fewer starts may be tried.
        The call takes seconds for 50 tokens, and minutes for 300.
    seed : int or numpy.random.Generator, optional
        The random generator of the starting shares, or its seed.

    Examples
    --------
    >>> import attomaton as at
    >>> at.winners(at.learn(["a b a c a b", "b a b c b a"]).at(step=30), "a b c")
    Winners(tokens a, b; 1 limit from 21 starts)
    """
    starts = whole_number(starts, "starts", most=MOST_STARTS)
    rng = make_rng(seed)
    odds, indices = read_odds(layer, prompt)
    table = odds.among()
    counts = count_prompt(indices, len(odds.tokens))
    classes = find_classes(table, None if prompt is None else int(indices[-1]))
    limits: list[Limit] = []  # distinct
    ends: list[Limit | None] = []  # of each start; None if the flow did not converge
    budget = allow_evaluations(len(table))  # shared by all starts
    settled = True
    for tokens in classes:
        of_prompt = counts[tokens] / counts[tokens].sum()
        # drawn before `_nudge` draws from the same generator
        drawn = list(_draw_starts(len(tokens), starts, rng))
        ends.append(_find_limit_within(table, tokens, of_prompt, budget))
        _add_limit(limits, ends[-1])
        if len(ends) == 1:
            nudged = [_find_limit_within(table, tokens, near, budget) for near in _nudge(of_prompt, rng)]
            settled = all(_is_near(ends[0], end) for end in nudged)
            for end in nudged:
                _add_limit(limits, end)
        for shares in drawn:
            if length_hint(budget):
                ends.append(_find_limit_within(table, tokens, shares, budget))
                _add_limit(limits, ends[-1])
    for limit in find_single_limits(table, np.concatenate(classes)):
        _add_limit(limits, limit)
    unsettled = sum(end is None for end in ends)
    return Winners(odds, indices, tuple(limits), len(ends), unsettled, settled, len(classes))


# Starting shares of shape (n_tokens,): first one token has 90 %, each in turn; then random shares.
def _draw_starts(n_tokens: int, n_starts: int, rng: np.random.Generator) -> Iterator[Float64]:
    if n_tokens == 1:  # its share is 1
        return
    for number in range(n_starts if n_tokens > 2 else min(n_starts, 2)):
        if number < n_tokens:
            shares = np.full(n_tokens, 0.1 / (n_tokens - 1))
            shares[number] = 0.9
            yield shares
        else:
            yield np.maximum(rng.dirichlet(np.ones(n_tokens)), 1e-6)


# The shares moved a little in a random direction, and in the opposite direction.
def _nudge(shares: Float64, rng: np.random.Generator) -> list[Float64]:
    if len(shares) == 1:
        return []
    shift = NUDGE * rng.choice([-1.0, 1.0], len(shares)) * rng.uniform(0.5, 1.0, len(shares))
    return [nudged / nudged.sum() for nudged in (shares * np.exp(shift), shares * np.exp(-shift))]


# The limit from `shares` (n_tokens,) of some tokens, judged among all tokens of the table.
def _find_limit_within(table: Float64, tokens: Int64, shares: Float64, budget: Budget) -> Limit | None:
    limit = find_limit(table[np.ix_(tokens, tokens)], shares, budget)
    if limit is None:
        return None
    of_all = np.zeros(len(table))
    of_all[tokens] = limit.shares
    return judge_limit(table, of_all)


# Whether two limits were found and are close to each other.
def _is_near(first: Limit | None, second: Limit | None) -> bool:
    if first is None or second is None:
        return False
    return bool(np.abs(first.shares - second.shares).max() <= NEAR_LIMIT)


# Append a limit, unless none was found or an equal one is in the list.
def _add_limit(limits: list[Limit], new: Limit | None) -> None:
    if new is not None and not any(np.abs(new.shares - limit.shares).max() < SAME_LIMIT for limit in limits):
        limits.append(new)


# How the count of a token grows with the length t of the text, as text.
def _describe_growth(limit: Limit, token: int) -> str:
    exponent = limit.decided[token]
    if np.isnan(exponent):
        return "not determined"
    if limit.ties[token]:
        return "t / ln t" if limit.ties.sum() == 1 else "t / (ln t)^a, a ≥ 1"
    return "t" if limit.winners[token] else f"t^{exponent:.3f}"
