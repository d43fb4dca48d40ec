"""Read the outcomes of pairs: names of items or columns, words, or scores."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import number_values, read_numbers
from attomaton.choices.numbering import BadRows, is_missing

FIRST, SECOND, TIE = 0, 1, 2  # how a pair ends
UNREAD = -1  # the code of an outcome that cannot be read
LISTED_OUTCOMES = 4  # how many unreadable outcomes an error names

TIES = ("tie", "draw", "tied")  # names of columns that mark ties
TIE_WORDS = (*TIES, "drawn", "bothbad", "bothgood")  # words for a tie; ``tie (…)`` also counts

# Strings for the score of the first of a pair.
SCORES = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "0.5": 0.5}

# Strings for truth values.
FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}

# Words in the names of columns that may contain the index of the winner.
INDEX_NAMES = re.compile(
    "winner|winning|victor|chosen|choice|pick|select|prefer|better|best|vote|label", re.IGNORECASE
)

# Words for a win of the first item, a win of the second, and a tie; a table uses one row of these.
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

_ADORNED = re.compile(r"(?:model|player|team|response|answer|option|assistant)?(.+?)(?:wins|win|won)?")
_RESULT = re.compile(r"(\d{0,3}(?:\.\d)?)\s*[-–:]\s*(\d{0,3}(?:\.\d)?)")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def read_flags(values: Any) -> Bool:
    """Read bools, also as text."""
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
    distinct = number_values(values)[1]
    if all(str(value).strip().lower() in FLAGS for value in distinct):
        return read_flags(values).astype(np.float64)
    return read_numbers(values, role, n_rows)


def is_tie(value: Any) -> bool:
    word = _squash(value)
    return word in TIE_WORDS or word.startswith("tie(")


def _squash(value: Any) -> str:
    """Remove case, spaces, underscores and inner hyphens: Both-bad is bothbad, but -1 is not 1."""
    return re.sub(r"[\s_]+|(?<!^)-", "", str(value).strip().casefold())


def read_outcomes(
    values: Any,
    items: tuple[Any, ...],
    pair: tuple[Int64, Int64],
    contestants: tuple[Any, Any],
    dropped: Collection[Any],
    title: Any,
) -> tuple[Int64, str]:
    """The outcome of each pair (FIRST, SECOND or TIE), and a remark on how the column was read.

    ``contestants`` are the names of the columns of both items, and ``title`` is the name of the outcome's
    column. Outcomes in ``dropped`` need not be readable.
    """
    number, distinct = number_values(values)
    if len(number) != len(pair[0]):
        raise InvalidSamples(
            "the number of outcomes is not the number of pairs; give one outcome for each pair"
        )
    readable, item_names = {*contestants, *TIES, 0, 0.5, 1, *SCORES}, set(items)
    ambiguous = [value for value in distinct if value in item_names and (value in readable or is_tie(value))]
    if ambiguous:
        raise InvalidSamples(
            f"the outcome {show(ambiguous[0])} is also the name of an item; use winner= and loser= instead"
        )
    used = [value for value in distinct if value not in dropped]
    ends, reading = _read_values(used, items, contestants, title)
    codes = np.array([ends.get(value, TIE) for value in distinct], np.int64)
    end = find_side(number, distinct, items, pair, codes)
    bad = end == UNREAD
    if bad.any():
        unread = [distinct[index] for index in dict.fromkeys(number[bad].tolist())]
        raise _unread_outcomes(unread, bad, contestants)
    absent = [show(value) for value in dropped if value not in distinct]
    if absent:
        note = f"no row has the outcome {' or '.join(absent)}, which drop= names"
        reading = f"{reading}; {note}" if reading else note
    return end, reading


def _unread_outcomes(unread: Sequence[Any], bad: Bool, contestants: tuple[Any, Any]) -> BadRows:
    first, second = map(show, contestants)
    listed = [show(value) for value in unread if not is_missing(value)][:LISTED_OUTCOMES]
    shown, remedy = show(unread[0]), f"drop such rows: drop=[{', '.join(listed)}]"
    if is_missing(unread[0]):
        shown, remedy = "missing", "drop the row (on the command line: --skip-bad)"
    return BadRows(
        "the outcome in ",
        bad,
        f" is {shown}; write the winner, the name of its column ({first} or {second}), words of one kind "
        f"('home' and 'away'), 'tie', or the score of {first} (1, 0.5 or 0), or {remedy}",
    )


def find_side(
    number: Int64, distinct: Sequence[Any], items: Sequence[Any], pair: tuple[Int64, Int64], codes: Int64
) -> Int64:
    """FIRST or SECOND if a value names that item of the pair, otherwise the code of the value."""
    item_number = {item: number for number, item in enumerate(items)}
    item_of_value = [-1 if isinstance(value, bool) else item_number.get(value, -1) for value in distinct]
    winner = np.array(item_of_value, np.int64)[number]
    return np.where(winner == pair[0], FIRST, np.where(winner == pair[1], SECOND, codes[number]))


class OutcomeValues(NamedTuple):
    """The values of an outcome column that do not name an item, by kind."""

    ends: dict[Any, int]  # names of columns and ties; all other outcomes are UNREAD here
    scores: dict[Any, float]  # of the first: 1, 0.5 or 0
    results: dict[Any, int]  # scores of both, such as 2-1
    words: dict[Any, str]


def _read_values(
    values: Sequence[Any], items: Sequence[Any], contestants: tuple[Any, Any], title: Any
) -> tuple[dict[Any, int], str]:
    """Value → outcome for values that do not name the winner, and a remark on how they were read."""
    (first, second), column, readings = map(show, contestants), show(title), list[str]()
    ends, scores, results, words = _sort_values(values, items, contestants)
    wins = [value for value, score in scores.items() if score == 1]
    if "2" in map(_strip, words.values()) and not isinstance(next(iter(wins), None), bool):
        if len(wins) == len(scores):  # 1 and 2 name the sides
            words.update(dict.fromkeys(wins, "1"))
            scores = {}
        else:  # a 2 next to 0 or 0.5 has no meaning
            words = {value: word for value, word in words.items() if _strip(word) != "2"}
    if scores:
        readings.append(_describe_scores(scores, contestants, title))
        ends |= {value: {1.0: FIRST, 0.0: SECOND, 0.5: TIE}[score] for value, score in scores.items()}
    if results:
        readings.append(f"{column} was read as the scores of {first} and {second}: {HIGHER}")
        ends |= results
    squashed_items = set(map(_squash, items if words else ()))
    words = {value: _strip(word) for value, word in words.items() if word not in squashed_items}
    sides = _read_words(set(words.values()), contestants, title)
    end_of_word = {value: sides[word] for value, word in words.items() if word in sides}
    if end_of_word:
        meaning = {FIRST: f"a win of {first}", SECOND: f"a win of {second}", TIE: "a tie"}
        spellings = ", ".join(f"{show(value)} is {meaning[end]}" for value, end in end_of_word.items())
        readings.append(f"{column} was read: {spellings}")
        ends |= end_of_word
    return ends, "; ".join(readings)


def _sort_values(values: Sequence[Any], items: Sequence[Any], contestants: tuple[Any, Any]) -> OutcomeValues:
    kinds, item_names = OutcomeValues(dict.fromkeys(values, UNREAD), {}, {}, {}), set(items)
    for value in values:
        if is_missing(value):
            continue
        if isinstance(value, str) and value in contestants:
            kinds.ends[value] = contestants.index(value)
        elif is_tie(value):
            kinds.ends[value] = TIE
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


def _strip(word: str) -> str:
    """Remove usual prefixes and suffixes: "modela" is "a", "whitewins" is "white"."""
    adorned = _ADORNED.fullmatch(word)
    return word if adorned is None else adorned[1]


def _score(value: Any) -> float | None:
    """The score of the first item; None if the value is not a score."""
    score = SCORES.get(value.strip()) if isinstance(value, str) else value
    return score if score in (0, 0.5, 1) else None


def _compare_result(value: Any) -> int | None:
    """The outcome of a result such as ``2-1`` or ``½-½``; None for other values."""
    if not isinstance(value, str):
        return None
    result = _RESULT.fullmatch(value.strip().replace("1/2", ".5").replace("½", ".5"))
    if result is None:
        return None
    first, second = (float(score or "nan") for score in result.groups())
    if first != first or second != second:
        return None
    return TIE if first == second else FIRST if first > second else SECOND


def _describe_scores(scores: Collection[Any], contestants: tuple[Any, Any], title: Any) -> str:
    """Say how scores were read; rejects scores that may have another meaning."""
    (first, second), column = map(show, contestants), show(title)
    of_first, of_second = (bool(words & _words_of(title)) for words in _words_apart(contestants))
    if of_second and not of_first:
        raise InvalidSamples(
            f"the column {column} seems to mark wins of {second}, not of {first}; exchange first= and "
            f"second=, or write {first} or {second} in the column"
        )
    may_be_index = INDEX_NAMES.search(str(title)) is not None and not of_first
    if may_be_index and bool not in map(type, scores) and 0.5 not in map(_score, scores):
        raise InvalidSamples(
            f"0 and 1 in the column {column} may be the score of {first} or the index of the winner; "
            f"write {first} or {second} instead (in pandas, for an index: .map({{0: {first}, 1: {second}}}))"
        )
    return f"{column} was read as the score of {first}: 1 is a win, 0 is a loss, 0.5 is a tie"


def _read_words(words: set[str], contestants: tuple[Any, Any], title: Any) -> Mapping[str, int]:
    """Word → side, by the names of the two columns or by usual words; empty without a reading."""
    apart = _words_apart(contestants)
    sides = {_squash(name): side for side, name in enumerate(contestants)}
    sides |= {word: side for side, of_side in enumerate(apart) for word in of_side}
    initials = [{word[0] for word in of_side} for of_side in apart]
    words = words & {*sides, *initials[FIRST], *initials[SECOND], *USUAL_WORDS}  # others have no meaning
    if words <= sides.keys():
        return sides
    readings: list[Mapping[str, int]] = []
    for first, second, tie in SIDES:
        if first[0] in apart[SECOND] or second[0] in apart[FIRST]:
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


def _words_apart(contestants: tuple[Any, Any]) -> tuple[set[str], set[str]]:
    """The words that only one name contains: home and away for ``HomeTeam`` and ``AwayTeam``."""
    first, second = map(_words_of, contestants)
    return first - second, second - first


def _words_of(name: Any) -> set[str]:
    return set(map(str.casefold, _NAME_WORDS.findall(str(name))))


def read_score_columns(
    columns: Sequence[Any], titles: Sequence[Any], contestants: tuple[Any, Any], n_rows: int
) -> tuple[Int64, str]:
    """The outcome of each pair, from two columns of scores, or from three columns of marks."""
    (first, second), listed = map(show, contestants), ", ".join(map(show, titles))
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
        end = np.where(scores[0] == scores[1], TIE, np.where(scores[0] > scores[1], FIRST, SECOND))
        return end, f"{listed} were read as the scores of {first} and {second}: {HIGHER}"
    marked = np.column_stack(scores) > 0
    bad = marked.sum(axis=1) != 1
    if bad.any():
        raise BadRows(
            "", bad, f" does not mark exactly one of the columns {listed}; mark one, or drop the row"
        )
    return marked.argmax(axis=1), ""
