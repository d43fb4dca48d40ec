"""Choice models (Bradley–Terry, Plackett–Luce, conditional logit) on data that need not be connected.

A choice is a context that ends in a query nobody chooses, so the theory of attention applies: items that beat
one another in both directions have finite scores; between components there is an order, not a number.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Unpack, cast

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import real_number, show
from attomaton.choices.covariates import COVARIATES, Covariates
from attomaton.choices.inputs import Columns, parse_choices
from attomaton.choices.order import SCALES
from attomaton.choices.outcomes import TIE
from attomaton.choices.parsed import Alternatives, PairChoices, ParsedChoices
from attomaton.choices.result import ChoiceFit
from attomaton.choices.sequences import ChoiceData
from attomaton.choices.uncertainty import LuceScores
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.graphs.components import find_components
from attomaton.graphs.edges import EdgeTable


def fit_choices(
    winners: Any = None,
    choice_sets: Sequence[Collection[Any]] | Any = None,
    *,
    losers: Any = None,
    rankings: Any = None,
    tied: Any = None,
    counts: Sequence[float] | Any = None,
    ties: str | None = None,
    scale: str = "log-odds",
    ridge: float = 0.0,
    prior: float | None = None,
    penalty: str | None = None,
    **columns: Unpack[Columns],
) -> ChoiceFit:
    """Rate items from choices between them, also where some items never lost or never won.

    The model is p(y | X) = m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j}: item y with score s_y is chosen from the set X,
    in which item j occurs m_j times. Finite scores exist exactly inside the strongly connected components
    of "beats"; between components an order is returned and never a number. A sequence may be a list, a
    numpy array, a pandas or Polars Series, or an Arrow array. A frame may be a pandas, Polars or narwhals
    frame, an Arrow table, a dataset of ``datasets``, a DuckDB relation, a dict of columns, a list of
    records, or the path of a ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl`` file.

    Parameters
    ----------
    winners : sequence of items, or frame
        The chosen items: integers, strings or anything hashable; or a list of pairs (winner, loser).
    choice_sets : sequence of collections of items, optional
        The sets they were chosen from, including the winner. An item that occurs m times in a set counts as m
        options (an offset ln m). A sequence of single items is taken as ``losers``.
    losers : sequence of items, optional
        The loser of each row: Bradley–Terry. An entry that is a list contains all losers of that row.
    rankings : sequence of sequences of items, optional
        Rankings, best first, instead of winners: Plackett–Luce. Tied items form a list.
    tied : sequence of bool, optional
        Which rows of winners and losers are ties.
    counts : sequence of float, optional
        How often each choice was made (default: once); fractions are weights, and 0 leaves a choice out.
    ties : str, optional
        "davidson", the default for pairs: a tie is an outcome of its own, with odds
        e^tie · e^{(s_a + s_b) / 2} against e^{s_a} and e^{s_b}; score differences are the log odds of a win
        against a loss. "half", the rule for rankings: half a win for each; scores then give the expected
        score of a pair, not the odds of a win, and errors are robust.
    scale : str
        "log-odds", with mean 0 in each component; or "elo": 400 / ln 10 times that, with mean 1000.
    ridge : float
        Adds ½ ridge Σ s² to the summed loss within components. 0: no regulariser.
    prior : float, optional
        Joins all components by a prior: every score is normal about 0 with this standard deviation.
        Differences between components then come from the prior alone, and the result says so.
    penalty : str, optional
        "firth": Firth's penalised likelihood, which is finite for all items that comparisons connect and less
        biased than the maximum. Components and their order remain those of the maximum.
    **columns
        Names of columns of a frame, or sequences. With one row per choice:

        - ``winner`` and ``loser``; several columns as ``loser``, one per item, are a table of wins;
        - ``winner`` and ``choice_set``, a column of lists or several columns;
        - ``first``, ``second`` and ``outcome``: the winner, its column, ``A`` or ``B``, ``home`` or ``away``,
          ``W``, ``L`` or ``D``, ``1-0``, ``tie`` or ``bothbad``, or the score of the first (1, 0.5 or 0); or
          a list of columns: both scores, or marks of the first's win, the second's win and a tie. ``drop``
          lists outcomes to leave out. A column called ``winner`` with only 0 and 1 is refused;
        - ``ranking``, a column of lists, or columns of the items at each position, the best first;
        - ``ranks``, a column of ranks for each item: 1 is best, equal ranks are ties, empty cells unranked;
        - ``best``, ``worst`` and ``choice_set``;
        - ``chosen`` (the item, or its number from 1), ``alternative`` (all items) and ``available`` (for each
          item a column of 1 and 0);
        - ``scores``, a column for each item: every two items that the same judge scored are compared.

        With one row per alternative: ``situation``, ``alternative``, and ``chosen`` (1 or 0, or how often),
        ``ranks`` or ``scores``. ``count`` and ``tied`` may name columns, too; columns called ``count``,
        ``tied``, ``tie`` or ``draw`` are used without being named, and so are those of arenas, such as
        ``model_a``, ``model_b`` and ``winner``. ``a.b`` is also the field ``b`` of a column ``a`` of structs.

        Further columns describe choices. ``moved_first`` names the item of a pair that moved or stood first
        (empty: neither). ``features`` lists columns that add to the score of an alternative; for pairs a
        feature is one column, the value of the first item less that of the second, or two columns
        (``length_a`` and ``length_b`` next to ``model_a`` and ``model_b``). It may also map names to a
        column, a pair of columns, or a value for each item. ``style`` lists features measured on both sides,
        which enter as (a − b) / (a + b), standardised ("arena": those of LMArena). ``cluster`` names the
        judge or the prompt of each choice, by which standard errors are clustered, and ``by`` its category;
        each category is also fitted by itself. ``most_per_pair`` weights comparisons so that no pair of items
        counts more than this number.

    Returns
    -------
    ChoiceFit
        Print it for a table.

    Examples
    --------
    >>> fit = fit_choices(["tea", "coffee", "tea", "tea"], [["tea", "coffee"]] * 3 + [["tea", "water"]])
    >>> fit.components, fit.order
    ((('tea', 'coffee'), ('water',)), ((0, 1),))
    >>> round(fit.probability("tea", ["tea", "coffee", "water"]), 6)
    0.666667
    >>> print(*fit.missing)
    a comparison of 'water' with 'coffee' in which 'water' wins
    >>> games = {"winner": ["a", "b", "a"], "loser": ["b", "a", "c"], "count": [3, 1, 2]}
    >>> fit_choices(games, winner="winner", loser="loser", count="count").probability("a", "b")
    0.75
    >>> fit_choices(rankings=[["a", "b", "c"], ["b", ["a", "c"]]]).components
    (('b', 'a', 'c'),)
    """
    ridge = real_number(ridge, "ridge", least=0)
    if prior is not None:  # odds of two items are e to about that
        prior = real_number(prior, "prior, the standard deviation of a score,", least=1e-3, most=1e3)
    if ridge and prior is not None:
        raise UnsupportedOption("ridge acts within components, prior also between them; give only one")
    if penalty is not None and (ridge or prior is not None):
        raise UnsupportedOption("a penalty replaces a ridge or prior; give only one of them")
    for option, value, *allowed in (
        ("ties", ties, "davidson", "half", None),
        ("scale", scale, *SCALES),
        ("penalty", penalty, "firth", None),
    ):
        if value not in allowed:
            words = " or ".join(repr(word) for word in allowed if word is not None)
            raise UnsupportedOption(f"{option} is {show(value)}; give {words}")
    data = ChoiceData(winners, choice_sets, losers, rankings, tied, counts)
    parsed, covariates = parse_choices(data, columns)
    if len(parsed.items) >= MAX_TOKENS:
        raise InvalidSamples(f"there are {len(parsed.items):,} items; give at most {MAX_TOKENS - 1:,}")
    if ties == "davidson" and parsed.ranked is not None:
        raise UnsupportedOption('ties="davidson" is for pairs; give ties="half" for rankings with tied items')
    settings = _Settings(ties, scale, ridge, prior, penalty)
    by = dict[Any, ChoiceFit]()
    if covariates.by is not None:
        number, categories = covariates.by
        subsets = {name: parsed.restrict(number == index) for index, name in enumerate(categories)}
        by = {
            name: _fit_parsed(subset, covariates, settings, {})
            for name, subset in subsets.items()
            if subset.items
        }
    return _fit_parsed(parsed, covariates, settings, by)


class _Settings(NamedTuple):
    """The options of a fit, checked."""

    ties: str | None
    scale: str
    ridge: float
    prior: float | None
    penalty: str | None


def _fit_parsed(
    parsed: ParsedChoices, covariates: Covariates, settings: _Settings, by: dict[Any, ChoiceFit]
) -> ChoiceFit:
    """The fit of the Luce model if it covers the choices, otherwise of a conditional logit."""
    obstacle = _why_not_luce(parsed, covariates, settings)
    if not obstacle:
        choices, denominator, rankings = parsed.tabulate()
        graph = find_components(cast("EdgeTable", parsed.edges()))
        model = LuceScores(
            choices,
            graph,
            parsed.tally(),
            ridge=settings.ridge,
            prior=settings.prior,
            denominator=denominator,
            rankings=rankings,
        )
    elif settings.ridge or settings.prior is not None:
        name = "ridge" if settings.ridge else "prior"
        remedy = ', or give ties="half"' * (obstacle == TIED)
        raise UnsupportedOption(
            f"{name}= works only with whole counts and half wins, without "
            f"{' and '.join(COVARIATES[:-1])}; here there are {obstacle}: leave {name} out{remedy}"
        )
    else:
        from attomaton.choices.conditional import fit_conditional  # a tenth of the start-up time

        model = fit_conditional(parsed, covariates, settings.ties or "davidson")
        graph = model.components  # of the maximum, also with a penalty
        if settings.penalty is not None:
            from attomaton.choices.firth import FirthScores

            model = FirthScores.of(model)
    return ChoiceFit(parsed.items, graph, model, settings.scale, by, parsed.reading)


TIED = "ties as outcomes (Davidson)"


def _why_not_luce(parsed: ParsedChoices, covariates: Covariates, settings: _Settings) -> str:
    """Which of the choices or options the Luce model does not cover; empty if it covers all."""
    choices = parsed.choices
    if covariates.features:
        return "features" if set(covariates.features) != {"moved_first"} else "first movers"
    if covariates.cluster is not None:
        return "clusters"
    if isinstance(choices, Alternatives):
        return "choices in this form"
    if parsed.counts.dtype.kind == "f":
        return "fractions as counts"
    if settings.ties != "half" and isinstance(choices, PairChoices) and (choices.outcome == TIE).any():
        return TIED
    return "a penalty" if settings.penalty is not None else ""
