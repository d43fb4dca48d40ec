"""Read the outcomes of pairs: names of items or columns, words, or scores."""

# read_outcomes reads one column, and read_score_columns several. The contestants are the names of the columns
# of the first and the second item.

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import number_values, read_numbers
from attomaton.choices.numbering import BadRows, is_missing

FIRST, SECOND, TIE = 0, 1, 2  # the outcome of a pair: the first wins, the second wins, or neither
UNREAD = -1  # in place of an outcome: the value cannot be read
LISTED_OUTCOMES = 4  # how many unreadable outcomes an error names

TIES = ("tie", "draw", "tied")  # names of columns that mark ties
TIE_WORDS = (*TIES, "drawn", "bothbad", "bothgood")  # words for a tie; ``tie (…)`` also counts

# Strings for the score of the first item of a pair.
SCORES = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "0.5": 0.5, "1,0": 1.0, "0,0": 0.0, "0,5": 0.5}

# Strings for truth values.
FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}

# Words in the names of columns that may contain the index of the winner.
INDEX_NAMES = re.compile(
    "winner|winning|victor|chosen|choice|pick|select|prefer|better|best|vote|label", re.IGNORECASE
)

# Words for a win of the first item, a win of the second, and a tie; a column uses words of one row of these.
SIDES = (
    (("a",), ("b",), ()),
    (("1", "first"), ("2", "second"), ("x",)),
    (("left", "l"), ("right", "r"), ()),
    (("white", "w"), ("black", "b"), ("d",)),
    (("home", "h"), ("away", "a"), ("d", "x")),
    (("win", "won", "w"), ("loss", "lost", "lose", "l"), ("d", "t")),
)

USUAL_WORDS = {word for words in SIDES for meaning in words for word in meaning}

HIGHER = "the higher score wins, and equal scores are a tie"  # how two scores decide

# A word with a prefix and a suffix that may be left out: the group of "modela" is "a".
_ADORNED = re.compile(r"(?:model|player|team|response|answer|option|assistant)?(.+?)(?:wins|win|won)?")

# A result, such as 2-1 or 0.5–0.5, with the score of each item.
_RESULT = re.compile(r"(\d{0,3}(?:\.\d)?)\s*[-–:]\s*(\d{0,3}(?:\.\d)?)")

# The words of a name: HomeTeam, home_team and TEAM1 have two words each.
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def read_flags(values: Any) -> Bool:
    """Read a column of truth values, which may be text."""
    number, distinct = number_values(values)
    flags = [
        FLAGS.get(str(value).strip().lower(), FLAGS.get(str(value).removesuffix(".0"))) for value in distinct
    ]
    bad = np.array([flag is None for flag in flags], bool)[number]
    if bad.any():
        value = distinct[number[np.argmax(bad)]]
        raise BadRows(f"tied is {show(value)} in ", bad, "; write True or False")
    return np.array(flags, bool)[number]


def read_amounts(values: Any, role: str, n_rows: int) -> Float64:
    """A column of numbers; true and yes count as 1, false and no as 0."""
    if all(str(value).strip().lower() in FLAGS for value in number_values(values)[1]):
        return read_flags(values).astype(np.float64)
    return read_numbers(values, role, n_rows)


def is_tie(value: Any) -> bool:
    """Whether a value is a word for a tie."""
    word = _squash(value)
    return word in TIE_WORDS or word.startswith("tie(")


# A text without case, spaces, underscores and inner hyphens: Both-bad is bothbad, but -1 is not 1.
def _squash(value: Any) -> str:
    return re.sub(r"[\s_]+|(?<!^)-", "", str(value).strip().casefold())


def read_outcomes(
    values: Any,
    items: tuple[Any, ...],
    pair: tuple[Int64, Int64],
    contestants: tuple[Any, Any],
    dropped: Collection[Any],
    title: Any,
) -> tuple[Int64, str]:
    """The outcome of each pair (FIRST, SECOND or TIE), and a remark on how the column was read."""
    # `pair` has the item numbers of both columns of items, and `title` is the name of the column of outcomes.
    # Values in `dropped` need not be readable.
    number, distinct = number_values(values)
    if len(number) != len(pair[0]):
        raise InvalidSamples(
            "the number of outcomes is not the number of pairs; give one outcome for each pair"
        )
    # Each distinct value is read once; number[row] is the index of the value of a row in `distinct`.
    readable = {*contestants, *TIES, 0, 0.5, 1, *SCORES}
    item_names = set(items)
    ambiguous = [value for value in distinct if value in item_names and (value in readable or is_tie(value))]
    if ambiguous:
        raise InvalidSamples(
            f"the outcome {show(ambiguous[0])} is also the name of an item; use winner= and loser= instead"
        )
    used = [value for value in distinct if value not in dropped]
    outcomes, reading = _read_values(used, items, contestants, title)
    # a dropped value may get any outcome: its rows are removed later
    codes = np.array([outcomes.get(value, TIE) for value in distinct], np.int64)
    outcome = find_side(number, distinct, items, pair, codes)
    bad = outcome == UNREAD
    if bad.any():
        unread = [distinct[index] for index in dict.fromkeys(number[bad].tolist())]
        raise _unread_outcomes(unread, bad, contestants)
    absent = [show(value) for value in dropped if value not in distinct]
    if absent:
        note = f"no row has the outcome {' or '.join(absent)}, which drop= names"
        reading = f"{reading}; {note}" if reading else note
    return outcome, reading


# The error for rows whose outcome cannot be read; ``unread`` are their distinct values.
def _unread_outcomes(unread: Sequence[Any], bad: Bool, contestants: tuple[Any, Any]) -> BadRows:
    first, second = map(show, contestants)
    listed = [show(value) for value in unread if not is_missing(value)][:LISTED_OUTCOMES]
    missing = is_missing(unread[0])
    shown = "missing" if missing else show(unread[0])
    by_skipping = "drop the row (on the command line: --skip-bad)"
    remedy = by_skipping if missing else f"drop such rows: drop=[{', '.join(listed)}]"
    return BadRows(
        "the outcome in ",
        bad,
        f" is {shown}; write the winner, the name of its column ({first} or {second}), words of one kind "
        f"('home' and 'away'), 'tie', or the score of {first} (1, 0.5 or 0), or {remedy}",
    )


def find_side(
    number: Int64, distinct: Sequence[Any], items: Sequence[Any], pair: tuple[Int64, Int64], codes: Int64
) -> Int64:
    """For each row, FIRST or SECOND if the value names that item of the pair, else the code of the value."""
    item_number = {item: number for number, item in enumerate(items)}
    # True and False equal the items 1 and 0, but name no item
    item_of_value = [-1 if isinstance(value, bool) else item_number.get(value, -1) for value in distinct]
    winner = np.array(item_of_value, np.int64)[number]
    return np.where(winner == pair[0], FIRST, np.where(winner == pair[1], SECOND, codes[number]))


class OutcomeValues(NamedTuple):
    """The values of an outcome column that do not name an item, by kind."""

    outcomes: dict[Any, int]  # of names of columns and words for ties; all other values are UNREAD here
    scores: dict[Any, float]  # of the first item: 1, 0.5 or 0
    results: dict[Any, int]  # the outcome of scores of both items, such as 2-1
    words: dict[Any, str]  # the squashed text of any other value


# Value → outcome for values that do not name the winner, and a remark on how they were read.
def _read_values(
    values: Sequence[Any], items: Sequence[Any], contestants: tuple[Any, Any], title: Any
) -> tuple[dict[Any, int], str]:
    first, second, column = map(show, (*contestants, title))
    readings: list[str] = []
    outcomes, scores, results, words = _sort_values(values, items, contestants)
    wins = [value for value, score in scores.items() if score == 1]
    if "2" in map(_strip, words.values()) and not isinstance(next(iter(wins), None), bool):
        if len(wins) == len(scores):  # no 0 or 0.5: 1 and 2 name the sides
            words.update(dict.fromkeys(wins, "1"))
            scores = {}
        else:  # a 2 next to 0 or 0.5 has no meaning
            words = {value: word for value, word in words.items() if _strip(word) != "2"}
    if scores:
        readings.append(_describe_scores(scores, contestants, title))
        outcome_of_score = {1.0: FIRST, 0.0: SECOND, 0.5: TIE}
        outcomes |= {value: outcome_of_score[score] for value, score in scores.items()}
    if results:
        readings.append(f"{column} was read as the scores of {first} and {second}: {HIGHER}")
        outcomes |= results
    squashed_items = set(map(_squash, items if words else ()))
    words = {value: _strip(word) for value, word in words.items() if word not in squashed_items}
    sides = _read_words(set(words.values()), contestants, title)
    by_words = {value: sides[word] for value, word in words.items() if word in sides}
    if by_words:
        meaning = {FIRST: f"a win of {first}", SECOND: f"a win of {second}", TIE: "a tie"}
        spellings = ", ".join(f"{show(value)} is {meaning[outcome]}" for value, outcome in by_words.items())
        readings.append(f"{column} was read: {spellings}")
        outcomes |= by_words
    return outcomes, "; ".join(readings)


# Sort the distinct values of a column by kind; names of items, missing values and bools are UNREAD.
def _sort_values(values: Sequence[Any], items: Sequence[Any], contestants: tuple[Any, Any]) -> OutcomeValues:
    kinds = OutcomeValues(dict.fromkeys(values, UNREAD), {}, {}, {})
    item_names = set(items)
    for value in values:
        if is_missing(value):
            continue
        if isinstance(value, str) and value in contestants:
            kinds.outcomes[value] = contestants.index(value)  # FIRST or SECOND
        elif is_tie(value):
            kinds.outcomes[value] = TIE
        elif (score := _score(value)) is not None:
            kinds.scores[value] = score
        elif isinstance(value, bool) or value in item_names:
            continue
        elif (result := _compare_result(value)) is not None:
            kinds.results[value] = result
        else:
            whole = isinstance(value, float) and value.is_integer()
            kinds.words[value] = _squash(int(value) if whole else value)
    return kinds


# Remove usual prefixes and suffixes: "modela" is "a", "whitewins" is "white".
def _strip(word: str) -> str:
    adorned = _ADORNED.fullmatch(word)
    return word if adorned is None else adorned[1]


# The score of the first item; None if the value is not a score.
def _score(value: Any) -> float | None:
    score = SCORES.get(value.strip()) if isinstance(value, str) else value
    return score if score in (0, 0.5, 1) else None


# The outcome of a result such as ``2-1`` or ``½-½``; None for other values.
def _compare_result(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    result = _RESULT.fullmatch(value.strip().replace("1/2", ".5").replace("½", ".5"))
    if result is None:
        return None
    first, second = (float(score or "nan") for score in result.groups())
    if first != first or second != second:  # a score is missing, as in "2-"
        return None
    return TIE if first == second else FIRST if first > second else SECOND


# Say how scores were read; rejects scores that may have another meaning.
def _describe_scores(scores: Collection[Any], contestants: tuple[Any, Any], title: Any) -> str:
    first, second, column = map(show, (*contestants, title))
    names_first, names_second = (bool(words & _words_of(title)) for words in _words_apart(contestants))
    if names_second and not names_first:
        raise InvalidSamples(
            f"the column {column} seems to mark wins of {second}, not of {first}; exchange first= and "
            f"second=, or write {first} or {second} in the column"
        )
    may_be_index = INDEX_NAMES.search(str(title)) is not None and not names_first
    if may_be_index and bool not in map(type, scores) and 0.5 not in map(_score, scores):
        raise InvalidSamples(
            f"0 and 1 in the column {column} may be the score of {first} or the index of the winner; "
            f"write {first} or {second} instead (in pandas, for an index: .map({{0: {first}, 1: {second}}}))"
        )
    return f"{column} was read as the score of {first}: 1 is a win, 0 is a loss, 0.5 is a tie"


# Word → outcome, by the names of the two columns or by usual words; empty if no reading fits.
def _read_words(words: set[str], contestants: tuple[Any, Any], title: Any) -> Mapping[str, int]:
    # A reading maps words to outcomes. A word with two outcomes in readings that fit all words is refused.
    apart = _words_apart(contestants)
    sides = {_squash(name): side for side, name in enumerate(contestants)}
    sides |= {word: side for side, of_side in enumerate(apart) for word in of_side}
    initials = [{word[0] for word in of_side} for of_side in apart]
    words = words & {*sides, *initials[FIRST], *initials[SECOND], *USUAL_WORDS}  # others have no meaning
    if words <= sides.keys():
        return sides
    readings: list[Mapping[str, int]] = []
    for first, second, tie in SIDES:
        if first[0] in apart[SECOND] or second[0] in apart[FIRST]:  # such as first="away", second="home"
            first, second = second, first
        usual = {**dict.fromkeys(first, FIRST), **dict.fromkeys(second, SECOND), **dict.fromkeys(tie, TIE)}
        agree = all(usual[word] == sides[word] for word in words & usual.keys() & sides.keys())
        if words <= usual.keys() and agree and not words <= set(tie):
            readings.append(usual)
    if words <= initials[FIRST] ^ initials[SECOND]:
        readings.append({word: FIRST if word in initials[FIRST] else SECOND for word in words})
    ambiguous = [word for word in sorted(words) if len({reading[word] for reading in readings}) > 1]
    if ambiguous:
        first_name, second_name = map(show, contestants)
        raise InvalidSamples(
            f"{show(ambiguous[0])} in the column {show(title)} may be a win of {first_name} or of "
            f"{second_name}; write {first_name} or {second_name} instead"
        )
    return readings[0] if readings else {}


# The words that only one name contains: home and away for ``HomeTeam`` and ``AwayTeam``.
def _words_apart(contestants: tuple[Any, Any]) -> tuple[set[str], set[str]]:
    first, second = map(_words_of, contestants)
    return first - second, second - first


def _words_of(name: Any) -> set[str]:
    return set(map(str.casefold, _NAME_WORDS.findall(str(name))))


def read_score_columns(
    columns: Sequence[Any], titles: Sequence[Any], contestants: tuple[Any, Any], n_rows: int
) -> tuple[Int64, str]:
    """The outcome of each pair, from two columns of scores, or from three columns of marks."""
    first, second = map(show, contestants)
    listed = ", ".join(map(show, titles))
    if len(columns) not in (2, 3):
        raise InvalidSamples(
            f"the outcome has {len(columns)} columns ({listed}); name two columns, the scores of {first} and "
            f"{second}, or three, which mark a win of {first}, a win of {second}, and a tie"
        )
    of_first, of_second = _words_apart(contestants)
    if of_second & _words_of(titles[0]) and of_first & _words_of(titles[1]):
        raise InvalidSamples(
            f"the columns of the outcome ({listed}) are in the wrong order; name the column of {first} "
            f"before the column of {second}"
        )
    scores = [
        read_amounts(values, f"{show(title)} (outcome)", n_rows)
        for values, title in zip(columns, titles, strict=True)
    ]
    if len(scores) == 2:
        outcome = np.where(scores[0] == scores[1], TIE, np.where(scores[0] > scores[1], FIRST, SECOND))
        return outcome, f"{listed} were read as the scores of {first} and {second}: {HIGHER}"
    marked = np.column_stack(scores) > 0
    bad = marked.sum(axis=1) != 1
    if bad.any():
        raise BadRows(
            "", bad, f" does not mark exactly one of the columns {listed}; mark one, or drop the row"
        )
    return marked.argmax(axis=1), ""  # the columns mark FIRST, SECOND and TIE in this order
