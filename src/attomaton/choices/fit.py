"""Fit choice models (Bradley–Terry, Plackett–Luce, conditional logit) to data that may be disconnected."""

# ``fit_choices`` checks the options, parses the data, and fits all choices and those of each category.

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Unpack, cast

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import real_number, show
from attomaton.choices.covariates import Covariates
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
    """Fit a choice model: Bradley–Terry for pairs, Plackett–Luce for rankings, or conditional logit.

    The probability that item y is chosen from the set X is m_y e^{s_y} / Σ_{j∈X} m_j e^{s_j}, where item j
    occurs m_j times in X and has score s_j. Scores are finite inside each strongly connected component of
    the graph of wins. Between components, the fit returns their order and a bound of each infinite
    difference.

    A sequence is a list, a numpy array, a pandas or Polars Series, or an Arrow array. A frame is a pandas,
    Polars or narwhals frame, an Arrow table, a Hugging Face dataset, a DuckDB relation, a dict of columns, a
    list of records, or the path of a ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl`` file.

    Parameters
    ----------
    winners : sequence of items, or frame
        The chosen item of each row (any hashable), or a list of pairs (winner, loser), or a frame.
    choice_sets : sequence of collections of items, optional
        The set from which each winner was chosen, including the winner. An item may occur several times in
        a set.
    losers : sequence of items, optional
        The loser of each row, or a list of all losers of the row.
    rankings : sequence of sequences of items, optional
        Rankings, best item first, instead of winners. A list inside a ranking contains tied items.
    tied : sequence of bool, optional
        Whether each row of winners and losers is a tie.
    counts : sequence of float, optional
        The number of times that each choice was made; the default is 1. Fractions are weights.
    ties : str, optional
        "davidson", the default for pairs, models a tie as a third outcome: a win of a, a win of b and a tie
        have probabilities proportional to e^{s_a}, e^{s_b} and e^{tie + (s_a + s_b) / 2}. "half", the default
        for rankings, counts a tie as half a win for each item and reports robust errors.
    scale : str
        "log-odds", with mean 0 in each component, or "elo", with mean 1000 and 400 points for odds of 10.
    ridge : float
        The penalty ½ · ridge · Σ s² is added to the summed loss inside each component.
    prior : float, optional
        The standard deviation of a normal prior with mean 0 for each score. It makes all scores finite, but
        the differences between components then depend on the prior.
    penalty : str, optional
        "firth" uses Firth's penalised likelihood, whose estimates are less biased and finite for all items
        that comparisons connect. Components and their order are still those of the data.
    **columns
        Names of the columns of a frame, or the columns as sequences. A table with one row per choice needs
        one of these groups of columns:

        - ``winner`` and ``loser``; if ``loser`` lists one column per item, cells are numbers of wins;
        - ``winner`` and ``choice_set``, a column of lists or several columns;
        - ``first``, ``second`` and ``outcome``; an outcome can be the winner, the name of its column, a word
          such as ``home`` or ``tie``, a result such as ``1-0``, or the score of the first item (1, 0.5 or 0).
          ``outcome`` can also list two columns of scores, or three columns that mark a win of the first item,
          a win of the second item, and a tie. Rows whose outcome is in ``drop`` are left out;
        - ``ranking``, a column of lists, or one column for each position, the best first;
        - ``ranks``, one column for each item: 1 is best, equal ranks are ties, an empty cell is unranked;
        - ``best``, ``worst`` and ``choice_set``;
        - ``chosen`` (the item, or its number from 1), ``alternative`` (a list of all items) and ``available``
          (for each item, a column of 1 and 0);
        - ``scores``, one column for each item: any two items with a score in the same row are compared.

        A table with one row per alternative needs ``situation``, ``alternative``, and one of ``chosen`` (1 or
        0, or a count), ``ranks`` and ``scores``.

        Columns with the usual names, such as ``count``, ``tie``, or ``model_a``, ``model_b`` and ``winner``,
        need not be named. ``a.b`` is the field ``b`` of a column ``a`` of structs. Further options:

        - ``count`` and ``tied`` name the columns of counts and of ties;
        - ``moved_first`` names the item of a pair that moved first or was shown first; an empty cell is none;
        - ``features`` lists columns that affect the score of an alternative. For pairs, a feature is a column
          of differences (first item minus second), or two columns, such as ``length_a`` and ``length_b``. It
          can also map the name of a feature to a column, a pair of columns, or a value for each item;
        - ``style`` lists features with two columns, a and b, that enter as (a − b) / (a + b), standardised;
          "arena" means the features of LMArena;
        - ``cluster`` names the judge or prompt of each choice; standard errors are clustered by it;
        - ``by`` names a category of each choice; each category is also fitted separately;
        - ``most_per_pair`` gives smaller weights to frequent pairs: none counts more than this number.

    Returns
    -------
    ChoiceFit
        The fit, with components, scores and ratings; print it to see a table.

    Examples
    --------
    >>> fit = fit_choices(["tea", "coffee", "tea", "tea"], [["tea", "coffee"]] * 3 + [["tea", "water"]])
    >>> fit.components, fit.order
    ((('tea', 'coffee'), ('water',)), ((0, 1),))
    >>> round(fit.probability("tea", ["tea", "coffee", "water"]), 6)
    0.666667
    >>> print(*fit.missing)
    a comparison of 'water' with 'coffee' in which 'water' wins
    """
    ridge = real_number(ridge, "ridge", least=0)
    if prior is not None:  # two items have odds of about e to this number
        prior = real_number(prior, "prior, the standard deviation of a score,", least=1e-3, most=1e3)
    if ridge and prior is not None:
        raise UnsupportedOption("ridge= and prior= cannot be combined; leave one of them out")
    if penalty is not None and (ridge or prior is not None):
        raise UnsupportedOption("penalty= cannot be combined with ridge= or prior=; leave one of them out")
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
        raise UnsupportedOption('ties="davidson" needs pairs; give ties="half" for rankings with ties')
    settings = _Settings(ties, scale, ridge, prior, penalty)
    by = dict[Any, ChoiceFit]()
    if covariates.by is not None:
        for code, category in enumerate(covariates.by.names):
            subset = parsed.restrict(covariates.by.codes == code)
            if subset.items:
                by[category] = _fit_parsed(subset, covariates, settings, {})
        by = _sort_categories(by)
    return _fit_parsed(parsed, covariates, settings, by)


# Sort categories as numbers if all are numbers; those that cannot be compared keep their order.
def _sort_categories(by: dict[Any, ChoiceFit]) -> dict[Any, ChoiceFit]:
    keys: tuple[Callable[[Any], Any], ...] = (float, lambda category: category)
    for key in keys:
        with suppress(TypeError, ValueError):
            return {category: by[category] for category in sorted(by, key=key)}
    return by


class _Settings(NamedTuple):
    """The options of a fit, checked."""

    ties: str | None
    scale: str
    ridge: float
    prior: float | None
    penalty: str | None


# Fit the Luce model if it covers the choices, otherwise a conditional logit, with fits by category.
def _fit_parsed(
    parsed: ParsedChoices, covariates: Covariates, settings: _Settings, by: dict[Any, ChoiceFit]
) -> ChoiceFit:
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
        raise UnsupportedOption(f"{name}= cannot be combined with {obstacle}; leave {name} out{remedy}")
    else:
        from attomaton.choices.conditional import fit_conditional  # a tenth of the start-up time

        model = fit_conditional(parsed, covariates, settings.ties or "davidson")
        graph = model.components  # of the maximum, also with a penalty
        if settings.penalty is not None:
            from attomaton.choices.firth import FirthScores  # imports the conditional logit

            model = FirthScores.of(model)
    return ChoiceFit(parsed.items, graph, model, settings.scale, by, parsed.reading)


TIED = "ties as outcomes (Davidson)"  # an obstacle that ties="half" removes


# What the Luce model does not cover, for an error; empty if it covers all choices and options.
def _why_not_luce(parsed: ParsedChoices, covariates: Covariates, settings: _Settings) -> str:
    choices = parsed.choices
    if covariates.features:
        return "features" if set(covariates.features) != {"moved_first"} else "moved_first"
    if covariates.cluster is not None:
        return "clusters"
    if isinstance(choices, Alternatives):
        return "tables of alternatives, or of best and worst choices"
    if parsed.counts.dtype.kind == "f":
        return "fractional counts"
    if settings.ties != "half" and isinstance(choices, PairChoices) and (choices.outcome == TIE).any():
        return TIED
    return "a penalty" if settings.penalty is not None else ""
